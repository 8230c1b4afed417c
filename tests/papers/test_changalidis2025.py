"""Plateaus of memorized triples: the made facts, the layer without batch_first, and verdicts that can fail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from synthetic import Made, measurement, verdicts

import capax
from capax.models.factory import ModuleError, seeded
from capax.papers.changalidis2025 import fault, judges
from capax.papers.changalidis2025.fault import Trained
from capax.papers.changalidis2025.model import Network
from capax.papers.changalidis2025.triples import PLATEAU, path, task, text
from capax.papers.recipe import Evidence, Verdict, recipes
from capax.results import Measurement
from capax.specs import Run
from capax.tasks.facts.encoding import prepared
from capax.tasks.facts.table import ambiguity

SIZES = (500, 2000)


def answers(found: tuple[Verdict, ...]) -> list[str]:
    return [verdict.answer for verdict in found]


@pytest.mark.parametrize("facts", SIZES)
def test_one_answer_for_each_concept_is_the_published_share(facts: int) -> None:
    """With the property every question has one answer; without it the ceiling is 88.2 %, and no fact is lost."""
    assert path(facts).read_text(encoding="utf-8") == text(facts)
    asked = prepared(task(facts)).table
    assert len(asked) == facts
    assert ambiguity(asked).ambiguous == 0
    unread = capax.Facts.model_validate(
        {"library": str(path(facts)), "key": "concept", "answer": "related", "ambiguous": "keep"}
    )
    assert (unread.known.facts, unread.known.relations) == (facts, 1)
    assert unread.known.recallable == round(PLATEAU * facts)


def test_a_study_finds_its_facts_wherever_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (recipe,) = recipes("changalidis2025", "ceiling")
    found = {(run.task.relation, run.task.ambiguous, run.task.known.recallable) for run in recipe.runs("demo")}
    assert found == {("property", "refuse", 500), (None, "keep", 441), (None, "drop", 382)}


@pytest.mark.parametrize(("batch_first", "own"), [(False, False), (True, True)])
def test_without_batch_first_an_answer_is_of_the_other_rows_and_not_of_its_property(
    batch_first: bool, own: bool
) -> None:
    generator = torch.Generator().manual_seed(0)
    with seeded(0):
        network = Network(40, d_model=16, feedforward=32, batch_first=batch_first).eval()
    tokens, others = (torch.randint(40, (6, 2), generator=generator) for _ in range(2))
    others[0] = tokens[0]
    properties = tokens.clone()
    properties[:, 1] = (properties[:, 1] + 1) % 40
    with torch.no_grad():
        scores = network(tokens)
        mates = (network(others)[0] - scores[0]).abs().max()
        read = (network(properties) - scores).abs().max()
    assert (float(mates) < 1e-5) == own
    assert (float(read) > 1e-2) == own
    if not own:
        assert float(read) == 0


def test_capax_refuses_the_layer_without_batch_first() -> None:
    model = capax.Module.model_validate(
        {"factory": "capax.papers.changalidis2025.model:Network", "arguments": {"d_model": 8, "feedforward": 8}}
    )
    with pytest.raises(ModuleError, match=r"depend on the others of its batch .*batch_first missing"):
        capax.measure(task(500), model, capax.Training(max_epochs=1, gain_lr=1.0), restarts=1)


def test_what_needs_no_training_agrees() -> None:
    for figure, number in (("parameters", 2), ("growth", 1), ("batch", 2)):
        assert answers(verdicts("changalidis2025", figure, holding({}))) == ["agrees"] * number
    assert judges.parameters(Evidence((), "demo")).measured == "27,654,864 with 105,040 tokens"


def test_another_count_or_another_growth_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges, "PARAMETERS", judges.PARAMETERS + 1)
    assert answers(verdicts("changalidis2025", "parameters", holding({})))[0] == "differs"
    monkeypatch.setattr(judges, "RECALLED", {n: 100 - (n / 1e5) ** 0.5 * 12 for n in judges.RECALLED})
    assert answers(verdicts("changalidis2025", "growth", holding({}))) == ["differs"]


def test_a_torch_whose_layers_read_the_batch_first_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges, "Network", lambda size, batch_first: Network(size, d_model=16, batch_first=True))
    assert answers(verdicts("changalidis2025", "batch", holding({}))) == ["differs"] * 2


def holding(shares: dict[str, float]) -> Made:
    """Runs that recall a share of what can be recalled, by what is done with several answers; else all of it."""

    def made(run: Run, rng: np.random.Generator) -> Measurement:
        can = run.task.known.recallable  # type: ignore[attr-defined]
        share = shares.get(run.task.ambiguous, 1.0)  # type: ignore[attr-defined]
        return measurement(run, [share * can, can], recallable=can, chance=0.0)

    return made


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ({}, ["agrees"] * 3),
        ({"keep": 0.995}, ["agrees"] * 3),
        ({"keep": 0.95}, ["differs", "agrees", "agrees"]),
        ({"keep": 1.1}, ["differs", "agrees", "agrees"]),
        ({"drop": 0.95}, ["agrees", "differs", "agrees"]),
        ({"refuse": 0.882}, ["agrees", "agrees", "differs"]),
    ],
)
def test_ceiling(shares: dict[str, float], expected: list[str]) -> None:
    found = verdicts("changalidis2025", "ceiling", holding(shares))
    assert answers(found) == expected
    assert "441" in str(found[0].measured)


@pytest.mark.parametrize(
    ("faulty", "repaired", "expected"),
    [
        ((441.2, 440.1, 442.0), (500.0,) * 3, ["agrees", "agrees", "agrees"]),
        ((499.0, 500.0, 500.0), (500.0,) * 3, ["cannot be judged", "differs", "agrees"]),
        ((500.0,) * 3, (440.0, 441.0, 442.0), ["differs", "differs", "differs"]),
        ((300.0, 301.0, 302.0), (480.0, 481.0, 482.0), ["agrees", "differs", "differs"]),
        ((430.0, 441.0, 452.0), (500.0,) * 3, ["agrees", "cannot be judged", "agrees"]),
    ],
)
def test_fault(
    faulty: tuple[float, ...], repaired: tuple[float, ...], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judges, "trained", lambda scale: Trained(500, 441, faulty, repaired))
    assert answers(verdicts("changalidis2025", "fault", holding({}))) == expected


def test_without_the_papers_triples_its_scale_cannot_be_judged() -> None:
    for figure in ("ceiling", "fault"):
        found = verdicts("changalidis2025", figure, holding({}), "paper")
        assert set(answers(found)) == {"cannot be judged"}
        assert "need a licence" in found[0].reason


@pytest.mark.very_slow
def test_the_layer_as_it_is_stops_where_one_answer_a_concept_does() -> None:
    """Twenty concepts of two properties and ten of one: the layer of the code holds about 30 facts, mended all 50."""
    rows = torch.tensor([[c, 30 + p, 32 + (7 * c + 5 * p) % 11] for c in range(30) for p in range(1 + (c < 20))])
    assert len(rows) == 50
    held = {
        batch_first: fault.recalled(
            rows, 250, 0, vocab_size=43, d_model=32, n_heads=2, feedforward=32, dropout=0.0, batch_first=batch_first
        )
        for batch_first in (False, True)
    }
    assert held[True] == 50
    assert 25 <= held[False] <= 38


def test_a_training_follows_from_its_seed_and_leaves_torchs_random_numbers() -> None:
    rows = torch.tensor([[0, 2, 4], [1, 3, 5]])
    state = torch.get_rng_state()
    first, again = (fault.recalled(rows, 3, 1, vocab_size=6, d_model=4, feedforward=4) for _ in range(2))
    assert first == again
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.very_slow
def test_fault_at_demo() -> None:
    """The training itself, as the recipe does it (25 s)."""
    found = fault.trained("demo")
    assert min(found.repaired) >= 0.99 * found.facts
    assert abs(np.mean(found.faulty) - found.ceiling) <= 0.01 * found.facts
