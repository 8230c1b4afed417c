"""Numbers in words."""

import pytest

from capax.text import ranges


@pytest.mark.parametrize(
    ("numbers", "said"),
    [([], ""), ([3], "3"), ([3, 4], "3, 4"), ([0, 1, 2, 3, 4, 7, 8], "0–4, 7, 8"), ([5, 7, 8, 9], "5, 7–9")],
)
def test_runs_of_whole_numbers_are_told_by_their_ends(numbers: list[int], said: str) -> None:
    assert ranges(numbers) == said
