"""Adapters on one base: verdicts on made-up densities that agree, that do not, and that cannot tell."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from doc_scripts import DOCS
from synthetic import Made, interval, measurement, verdicts

import capax
from capax.cli import main
from capax.errors import SpecError
from capax.papers.recipe import PAPERS, listed, recipes
from capax.results import CapacityEstimate, Measurement
from capax.specs import Facts, Lora, Run

FOLDER = PAPERS["lora2026"]
SCALE: Any = "small"


def holding(density: Callable[[Any, Lora], float | None], width: float = 0.05, lost: float = 4.0) -> Made:
    """Adapters that hold so many bits a trained number; None where one did not converge, at one bit."""

    def made(run: Run, rng: np.random.Generator) -> Measurement:
        assert isinstance(run.model, Lora)
        said = density(run.task, run.model)
        trainable = run.model.parameter_counts(**run.task.sizes())["trainable"]
        bits = (1.0 if said is None else said) * trainable * rng.normal(1, 0.002)
        capacity = CapacityEstimate(
            bits=0.95 * bits,
            extrapolated=None if said is None else bits,
            interval=None if said is None else interval((1 - width) * bits, (1 + width) * bits),
            converged=said is not None,
            last_gain=0.04,
            library_bits=2 * bits,
            library_sizes=(run.task.library_size,),
            per_effective_parameter=said,
            per_trainable_parameter=bits / trainable,
            per_parameter=0.01,
        )
        metrics = {"base_loss": 4.0, "base_loss_after": 4.0 + lost}
        return measurement(run, [1], capacity=capacity, metrics=metrics)

    return made


def as_published(task: Any, model: Lora) -> float:
    """Both sources right: facts take a tenth."""
    less = 0.1 * model.rank**0.08 if isinstance(task, Facts) else 1.0
    control = 0.5 if model.base_weights == "shuffled" else 1.0
    return less * control * {"attention": 1.3, "mlp": 2.43, "attention,mlp": 2.2}[model.targets]


def alike(task: Any, model: Lora) -> float:
    """One density, whatever the task, the layers and the base."""
    return 1.0


def unknown(task: Any, model: Lora) -> None:
    return None


def answers(figure: str, made: Made) -> list[str]:
    return [verdict.answer for verdict in verdicts("lora2026", figure, made, SCALE)]


UNJUDGED = "cannot be judged"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("density", "expected"),
    [
        (as_published, ["agrees"] * 3 + [UNJUDGED] * 2),
        (alike, ["differs", UNJUDGED, "differs"] + [UNJUDGED] * 2),
        (unknown, [UNJUDGED] * 5),
    ],
)
def test_random_tokens(density: Any, expected: list[str]) -> None:
    assert answers("tokens", holding(density)) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("density", "expected"),
    [
        (as_published, ["agrees", "agrees", UNJUDGED, "agrees"]),
        (alike, ["differs", "agrees", UNJUDGED, UNJUDGED]),  # 1 is within the densities' error of 1.08
        (unknown, ["differs", UNJUDGED, UNJUDGED, UNJUDGED]),  # a lower bound of one bit is above 0.44
    ],
)
def test_sentences(density: Any, expected: list[str]) -> None:
    assert answers("sentences", holding(density)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("figure", ["tokens", "sentences", "one-base"])
def test_wide_intervals_and_adapters_that_hold_nothing_agree_with_nothing(figure: str) -> None:
    """Restarts far apart have an interval from zero on; one that learned nothing reached no bits."""

    def nothing(task: Any, model: Lora) -> float:
        return 0.0

    for made in (holding(as_published, width=1.0, lost=0.0), holding(nothing, lost=0.0)):
        assert "agrees" not in answers(figure, made)


def test_a_ratio_that_may_be_one_is_not_the_published_one() -> None:
    def somewhat(task: Any, model: Lora) -> float:
        return 1.4 if model.targets == "mlp" else 1.0

    assert answers("tokens", holding(somewhat, width=0.18))[1:3] == [UNJUDGED] * 2


def test_an_exponent_is_no_better_known_than_the_densities() -> None:
    assert answers("sentences", holding(alike, width=0.3))[1] in ("agrees", UNJUDGED)


def test_capacity_that_grows_otherwise_differs() -> None:
    def falling(task: Any, model: Lora) -> float:
        return 0.3 / model.rank

    assert answers("sentences", holding(falling))[1] == "differs"


@pytest.mark.parametrize(
    ("density", "expected"),
    [
        (as_published, ["differs", "agrees", "agrees", "agrees"]),
        (alike, ["agrees", UNJUDGED, UNJUDGED, "agrees"]),
        (unknown, [UNJUDGED] * 4),
    ],
)
def test_one_base(density: Any, expected: list[str]) -> None:
    assert answers("one-base", holding(density)) == expected


def test_a_shuffled_base_that_holds_more_differs_and_so_does_a_base_that_is_spared() -> None:
    def more(task: Any, model: Lora) -> float:
        return 2.0 if model.base_weights == "shuffled" else 1.0

    assert answers("one-base", holding(more, lost=0.5)) == ["agrees", "differs", "differs", "differs"]


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["demo", "small"])
def test_placements_have_as_many_parameters_and_one_control_each(scale: Any) -> None:
    (recipe,) = recipes("lora2026", "one-base")
    counts: dict[tuple[str, str, str], set[int]] = {}
    for run in recipe.runs(scale):
        assert isinstance(run.model, Lora)
        place = str(run.task.task), run.model.base_weights, run.model.targets
        counts.setdefault(place, set()).add(run.model.parameter_counts(**run.task.sizes())["trainable"])
    for task in ("sequences", "facts"):
        assert counts[task, "checkpoint", "attention"] & counts[task, "checkpoint", "mlp"]
        assert counts[task, "shuffled", "mlp"] <= counts[task, "checkpoint", "mlp"]


@pytest.mark.parametrize("scale", ["demo", "small"])
def test_a_base_is_small(scale: str) -> None:
    assert sum(path.stat().st_size for path in (FOLDER / f"base-{scale}").iterdir()) < 1_000_000


@pytest.mark.very_slow
def test_a_base_knows_its_language_and_the_control_does_not() -> None:
    """By the loss on text that it never saw; a guess has 7.6 nats a token."""
    base = FOLDER / "base-demo"
    task = Facts(library=str(FOLDER / "studies" / "attributes.tsv"), tokenizer=str(base), library_size=20)
    short = capax.Training(max_steps=1)
    losses = [
        capax.measure(task, Lora(base=str(base), lora={"r": 1}, base_weights=weights), short, restarts=1).metrics
        for weights in ("checkpoint", "shuffled")
    ]
    assert losses[0]["base_loss"] < 5 < 7.6 < losses[1]["base_loss"]


def test_without_the_library_nothing_is_run_and_the_verdicts_say_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> str:
        raise SpecError("model: needs peft: pip install 'capax[lora]'")

    monkeypatch.setattr(Lora, "installed", missing)
    for recipe in recipes("lora2026"):
        assert recipe.runs("demo") == ()
        for verdict in recipe.judge({}, "demo"):
            assert verdict.answer == UNJUDGED
            assert verdict.reason == "nothing is run at scale demo: model: needs peft: pip install 'capax[lora]'"
    rows = listed("lora2026").recipes
    assert {row.missing for row in rows} == {"model: needs peft: pip install 'capax[lora]'"}
    with pytest.raises(SystemExit):
        main(["reproduce", "lora2026", "--list"])
    assert "not run here: model: needs peft" in capsys.readouterr().out


def test_the_facts_are_what_their_script_makes(tmp_path: Path) -> None:
    write = runpy.run_path(str(DOCS.parent / "examples" / "lora" / "attributes.py"))["write"]
    write(FOLDER / "base-small", 1, 3000, tmp_path / "again.tsv")
    assert (tmp_path / "again.tsv").read_bytes() == (FOLDER / "studies" / "attributes.tsv").read_bytes()
