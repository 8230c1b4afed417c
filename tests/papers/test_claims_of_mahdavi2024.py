"""Verdicts on the claims of Mahdavi 2024: on made-up measurements that agree and on those that do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from synthetic import Made, measurement, verdicts

from capax.papers.evidence import field
from capax.papers.mahdavi2024 import judges as mahdavi2024
from capax.papers.recipe import Verdict, recipes
from capax.results import Measurement
from capax.specs import Run


def swept(figure: str, count: Callable[[int], float]) -> Made:
    """Items recalled of 1000, or explained variance, as a function of the size that a figure sweeps."""
    name = "d_head" if "head-size" in figure else "n_heads" if "heads" in figure else "context_size"

    def made(run: Run, rng: np.random.Generator) -> Measurement:
        value = count(field(measurement(run, [1]), name))
        metrics = {"mean_squared_error": (1 - value / 1000) / 12}
        return measurement(run, [value + rng.normal()], metrics=metrics)

    return made


TRENDS = [
    recipe.figure
    for recipe in recipes("mahdavi2024")
    if recipe.study is not None and recipe.figure not in ("figure-2-heads", "figure-2-head-size")
]


@pytest.mark.parametrize("figure", TRENDS)
def test_trends_with_heads_and_context(figure: str) -> None:
    assert verdicts("mahdavi2024", figure, swept(figure, lambda x: 20 * x))[0].answer == "agrees"
    assert verdicts("mahdavi2024", figure, swept(figure, lambda x: 900 - 20 * x))[0].answer == "differs"


def test_linear_in_heads() -> None:
    figure = "figure-2-heads"
    line, square = swept(figure, lambda x: 50 * x), swept(figure, lambda x: 300 * (x == 4) + 10)
    assert [v.answer for v in verdicts("mahdavi2024", figure, line)] == ["agrees", "agrees"]
    assert verdicts("mahdavi2024", figure, square)[0].answer == "differs"


def test_head_size_helps_up_to_the_context_alone() -> None:
    figure = "figure-2-head-size"
    (recipe,) = recipes("mahdavi2024", figure)
    context = field(measurement(recipe.runs("demo")[0], [1]), "context_size")
    bent = swept(figure, lambda x: 100 * np.log2(min(x, context) + 1))
    assert verdicts("mahdavi2024", figure, bent)[0].answer == "agrees"
    straight = swept(figure, lambda x: 100 * np.log2(x + 1))
    assert verdicts("mahdavi2024", figure, straight)[0].answer == "differs"


def test_the_worst_library_decides() -> None:
    agrees = Verdict(answer="agrees", measured=None, reason="so")
    differs = Verdict(answer="differs", measured=None, reason="not so")
    found = mahdavi2024.worst({10: agrees, 20: differs, 30: agrees})
    assert found.answer == "differs"
    assert "20" in found.reason
