"""Verdicts on the claims of Adler 2025: on made-up measurements that agree and on those that do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from synthetic import Made, cells, f1, law, right_heads, verdicts

from capax.papers.adler2025 import judges as adler2025
from capax.papers.recipe import Evidence


def threshold(heads: int, total: int) -> float:
    best = {1: 0.1, 2: 0.6, 4: 1.0, 8: 0.7}[heads]
    return best if total >= 16 else 0.3 * best


@pytest.mark.parametrize(
    ("value", "answers"),
    [
        (threshold, ("agrees", "agrees", "agrees")),
        (lambda heads, total: 0.9 / heads * total / 24, ("differs", "cannot be judged", "differs")),
    ],
)
def test_figure_1(value: Callable[[int, int], float], answers: tuple[str, ...]) -> None:
    assert tuple(verdict.answer for verdict in verdicts("adler2025", "figure-1", f1(value))) == answers


@pytest.mark.parametrize(
    ("figure", "claim", "agreeing", "differing"),
    [
        ("figure-3", 0, cells(law, right_heads), cells(lambda m, d: law(m, d) ** 2, right_heads)),
        ("figure-3", 1, cells(law, right_heads), cells(lambda m, d: 100 + (m * 7919 + d * 31) % 13, right_heads)),
        ("figure-4", 0, cells(lambda m, d: 5 * m, right_heads), cells(lambda m, d: 1000 / m, right_heads)),
        ("figure-5", 0, cells(law, right_heads), cells(lambda m, d: 10 * d * d / m, right_heads)),
        ("figure-5", 1, cells(law, right_heads), cells(law, lambda m, d: 2)),
        ("figure-5", 2, cells(law, right_heads), cells(law, right_heads, one_fails=False)),
    ],
)
def test_budgets(figure: str, claim: int, agreeing: Made, differing: Made) -> None:
    assert verdicts("adler2025", figure, agreeing)[claim].answer == "agrees"
    assert verdicts("adler2025", figure, differing)[claim].answer in ("differs", "cannot be judged")


def test_the_logarithm_needs_cells_that_tell() -> None:
    for total, answer in (
        (lambda m, d: 100 * law(m, d), "agrees"),
        (lambda m, d: 4000 * m / d, "differs"),
        (lambda m, d: 100 * law(m, d) * np.exp(np.sin(m * d)), "cannot be judged"),
    ):
        assert verdicts("adler2025", "figure-3", cells(total, right_heads), "small")[2].answer == answer


def test_a_key_dimension_below_a_proved_bound_differs() -> None:
    """Of the small scale: in the demo's cells no D_K* could be."""
    agreeing = verdicts("adler2025", "theorem-7.2", cells(law, right_heads), "small")
    assert [verdict.answer for verdict in agreeing] == ["cannot be judged", "agrees"]  # none shows a lower bound
    differing = verdicts("adler2025", "theorem-7.2", cells(lambda m, d: 1, lambda m, d: 1), "small")
    assert [verdict.answer for verdict in differing] == ["differs", "differs"]


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_the_best_number_of_heads(scale: str) -> None:
    agreeing = cells(law, right_heads)
    differing = cells(law, lambda m, d: max(1, 16 * d // m))
    assert verdicts("adler2025", "figure-2", agreeing, scale)[0].answer == "agrees"  # type: ignore[arg-type]
    assert verdicts("adler2025", "figure-2", differing, scale)[0].answer == "differs"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("f1", "total", "reason"),
    [(0.8, lambda m, d: 8, "every pair right"), (1.0, lambda m, d: m - 2, "go by m as well")],
)
def test_explicit_weights_that_fail_do_not_say_that_others_would(
    f1: float, total: Callable[[int, int], int], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(place: int, m: int, d: int, onehot: bool) -> tuple[float, int, int]:
        return f1, 2, total(m, d)

    monkeypatch.setattr(adler2025, "_built", made)
    of = Evidence((), "demo")
    assert adler2025.one_hot(of).answer == "cannot be judged"
    assert adler2025.gaussian_items(of).answer == "cannot be judged"
    assert reason in adler2025.gaussian_items(of).reason


def test_a_threshold_is_where_f1_stays_high() -> None:
    again = verdicts("adler2025", "figure-1", f1(lambda heads, total: {8: 1.0, 16: 0.4, 24: 1.0}[total]))[1]
    assert again.measured == "half at 16, .99 at 24"
    fallen = verdicts("adler2025", "figure-1", f1(lambda heads, total: {8: 1.0, 16: 1.0, 24: 0.4}[total]))[1]
    assert fallen.answer == "cannot be judged"
    assert "beyond its last one" in fallen.reason
