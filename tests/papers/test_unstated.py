"""What is not known of Härmä 2024, crossed: on made-up measurements whose truth depends on loss and positions."""

from __future__ import annotations

import re

import numpy as np
import pytest
from synthetic import measurement, shattered, verdicts

from capax.papers.harma2024 import judges
from capax.papers.harma2024.unstated import CLAIMS, Combination, positions_alike, table
from capax.papers.recipe import Evidence, Unjudged, recipes
from capax.results import Measurement
from capax.specs import Mls, Run, Sequences, Shatter, Transformer


@pytest.fixture(autouse=True)
def _few_simulated_studies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges, "FITS", (19,))


def made(run: Run, rng: np.random.Generator, frozen: float = 1.0, loss: str = "last") -> Measurement:
    """As the paper says it where the loss covers `loss`, else counts that do not depend on anything."""
    if isinstance(run.protocol, Shatter):
        return shattered(lambda rng: rng.negative_binomial(12, 0.1, 30) + 12)(run, rng)
    task, model = run.task, run.model
    assert isinstance(task, Sequences)
    assert isinstance(model, Transformer)
    lucky = task.library_size / task.vocab_size
    above = 150 * model.d_model * model.n_heads**0.4 / task.seq_len ** (1.1 - 0.1 * model.n_heads)
    if task.loss != loss:
        above = 45.0 + 0.2 * model.d_model
    above *= frozen if model.positions == "frozen" else 1
    restarts = 1 if isinstance(run.protocol, Mls) else run.protocol.restarts  # type: ignore[union-attr]
    counts = list(above * np.exp(0.02 * rng.normal(size=restarts)) + lucky)
    return measurement(run, counts, stop_reason="plateau")


@pytest.mark.slow
def test_every_combination_has_every_claim_and_only_its_own_runs() -> None:
    (recipe,) = recipes("harma2024", "unstated")
    rng = np.random.default_rng(0)
    found = table(made(run, rng) for run in recipe.runs("small"))
    assert len(found) == len({*found}) == 2**4
    assert all(tuple(verdicts) == tuple(CLAIMS) for verdicts in found.values())
    assert {one.patience for one in found} == {3, 12}
    for one, verdicts_ in found.items():
        falls = verdicts_["9: slopes fall with length"]
        assert (falls.answer == "agrees") == (one.loss == "last"), (one, falls)
        assert verdicts_["5: negative binomial"].measured.startswith(f"{one.vocab_size} tokens, loss {one.loss}:")


def test_a_combination_of_which_nothing_was_run_is_not_judged() -> None:
    (recipe,) = recipes("harma2024", "unstated")
    rng = np.random.default_rng(0)
    some = [run for run in recipe.runs("small") if run.model.n_layers == 2][:2]  # type: ignore[union-attr]
    ((combination, found),) = table(made(run, rng) for run in some).items()
    assert combination == Combination("all", 100, 3, "frozen")
    answered = {name: verdict.answer for name, verdict in found.items() if "none of its runs" not in verdict.reason}
    assert answered == {"2: the FFN does not matter at small widths": "agrees"}


@pytest.mark.parametrize(("frozen", "answer"), [(1.0, "agrees"), (0.7, "differs"), (0.9, "cannot be judged")])
def test_positions(frozen: float, answer: str) -> None:
    (recipe,) = recipes("harma2024", "unstated")
    rng = np.random.default_rng(0)
    runs = tuple(made(run, rng, frozen) for run in recipe.runs("small"))
    found = positions_alike(Evidence(runs, "small"))
    assert found.answer == answer
    assert f"{frozen:.3g}"[:3] in (found.measured or "")
    with pytest.raises(Unjudged, match="fewer than 2 networks"):
        positions_alike(Evidence(runs[:1], "small"))


def test_positions_may_matter_at_some_lengths_alone() -> None:
    (recipe,) = recipes("harma2024", "unstated")
    rng = np.random.default_rng(0)
    runs = tuple(
        made(run, rng, 0.7 if run.task.seq_len == 32 else 1.0)  # type: ignore[union-attr]
        for run in recipe.runs("small")
    )
    found = positions_alike(Evidence(runs, "small"))
    assert found.answer == "cannot be judged"
    assert found.reason.startswith("depends on the length: 8 tokens: the 95 % interval is within a tenth")
    networks = {int(count) for count in re.findall(r"mean of (\d+) networks", found.measured or "")}
    assert max(networks) <= 4 * 2 * 2 * 2, "those of two stop rules are one"


@pytest.mark.very_slow
def test_most_hold_or_do_not() -> None:
    found, _ = verdicts("harma2024", "unstated", made, "small")
    assert found.answer == "agrees"
    assert "loss last" in (found.measured or "")
    flat, _ = verdicts("harma2024", "unstated", lambda run, rng: made(run, rng, loss="none"), "small")
    assert flat.answer == "cannot be judged"
