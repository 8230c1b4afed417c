"""Every recipe: its runs at each scale, what it claims, and a verdict however few runs there are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from synthetic import cells, f1, law, measurement, right_heads, searched, shattered
from versions import pinned

from capax.errors import SpecError
from capax.papers.harma2024 import judges as harma2024
from capax.papers.recipe import (
    KINDS,
    PAPERS,
    SCALES,
    STANDINGS,
    Claim,
    Evidence,
    Recipe,
    Scale,
    agrees,
    recipes,
    seconds,
)
from capax.results import Measurement
from capax.specs import Budget, Mls, Relations, Run, Shatter
from capax.sweeps.grid import read_study

EVERY = [recipe for paper in PAPERS for recipe in recipes(paper)]
COUNTS = {
    "harma2024": {"demo": 47, "small": 534, "paper": 239},
    "mahdavi2024": {"demo": 63, "small": 350, "paper": 438},
    "adler2025": {"demo": 69, "small": 333, "paper": 495},
    "morris2025": {"demo": 10, "small": 9, "paper": 22},
    "allenzhu2024": {"demo": 8, "small": 10, "paper": 48},
    "changalidis2025": {"demo": 6, "small": 24},
    "lora2026": {"demo": 7, "small": 13},
}
RUN = [(paper, scale) for paper, scales in COUNTS.items() for scale in scales]
"""Papers and the scales at which they are run."""


@pytest.mark.parametrize(("paper", "scale"), RUN)
def test_runs(paper: str, scale: str) -> None:
    """Specs are valid (they were built), each study's runs are distinct, and there are as many as there should be."""
    used = [recipe.study for recipe in recipes(paper) if recipe.study is not None]
    studies = {study.name: study for study in used if scale in study.seconds}
    assert sum(study.count(scale) for study in studies.values()) == COUNTS[paper][scale]
    for study in studies.values():
        assert study.seconds[scale] > 0
        if study.missing is None:
            keys = [run.key() for run in study.runs(scale)]
            assert len(set(keys)) == len(keys) == study.count(scale) > 0


def test_keys_of_every_study_stay() -> None:
    """Digests of the sorted keys: users have stored these runs. Those of a library's models name its version."""
    kept = json.loads(Path(__file__).with_name("keys.json").read_text())
    studies = {(recipe.paper, recipe.study.name): recipe.study for recipe in EVERY if recipe.study is not None}
    found = {
        f"{paper} {name} {scale}": digest(run.key() for run in study.runs(scale))
        for (paper, name), study in studies.items()
        for scale in study.seconds
        if study.missing is None and (paper != "lora2026" or pinned("peft", "transformers"))
    }
    assert found == {name: kept[name] for name in found}
    absent = [key for key, study in studies.items() if study.missing or key[0] == "lora2026"]
    unknown = tuple(f"{paper} {name} " for paper, name in absent)
    assert {name for name in kept.keys() - found.keys() if not name.startswith(unknown)} == set()


def digest(keys: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(keys)).encode()).hexdigest()[:16]


@pytest.mark.slow
def test_every_study_file_is_a_study_and_is_used() -> None:
    for folder in PAPERS.values():
        used = {
            f"{name}-{scale}.toml": recipe.study.missing
            for recipe in recipes(folder.name)
            if recipe.study is not None
            for name in recipe.study.files or (recipe.study.name,)
            for scale in recipe.study.seconds
        }
        assert {path.name for path in (folder / "studies").glob("*.toml")} == set(used)
        readable = [name for name, missing in used.items() if missing is None]
        assert all(read_study(folder / "studies" / name).repeated == 0 for name in readable)


@pytest.mark.parametrize("scale", ["demo", "small"])
def test_expected_times_are_of_studies_and_of_what_judges_train(scale: Scale) -> None:
    """The studies of all demos fit in half an hour."""
    used = [recipe.study for recipe in EVERY if recipe.study is not None]
    studies = sum({id(study): study.seconds.get(scale, 0.0) for study in used}.values())
    trained = sum(recipe.at_each_call.get(scale, 0.0) for recipe in EVERY)
    assert seconds(EVERY, scale) == studies + trained > studies
    assert scale != "demo" or studies <= 30 * 60


def test_names_are_distinct_and_every_claim_has_its_standing() -> None:
    assert len({(recipe.paper, recipe.figure) for recipe in EVERY}) == len(EVERY)
    for recipe in EVERY:
        assert recipe.claims
        assert {claim.standing for claim in recipe.claims} <= set(STANDINGS)
        assert all(claim.value is None or claim.value for claim in recipe.claims)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("paper", "figure", "answers"),
    [
        ("harma2024", "hopfield", ["agrees", "agrees", "differs"]),
        ("harma2024", "chance", ["cannot be judged"]),
        ("mahdavi2024", "theorem-1", ["agrees", "agrees"]),
        ("mahdavi2024", "proposition-2", ["agrees"]),
        ("mahdavi2024", "proposition-3", ["cannot be judged"]),
        ("mahdavi2024", "table-1", ["cannot be judged", "cannot be judged"]),
        ("mahdavi2024", "saturation", ["cannot be judged"] * 2),
        ("adler2025", "lemma-4.1", ["agrees"]),
        ("adler2025", "theorem-b1", ["agrees"]),
        ("adler2025", "theorem-4.2", ["cannot be judged"]),
        ("adler2025", "figures-6-to-8", ["cannot be judged"]),
    ],
)
def test_what_needs_no_runs(paper: str, figure: str, answers: list[str]) -> None:
    (recipe,) = recipes(paper, figure)
    assert [verdict.answer for verdict in recipe.judge({}, "demo")] == answers


def test_every_scale_is_run_or_said_to_be_left_out() -> None:
    assert set(COUNTS) == set(PAPERS)
    for recipe in (recipe for recipe in EVERY if recipe.study is not None):
        for scale in set(SCALES) - set(recipe.study.seconds):
            assert recipe.runs(scale) == ()
            assert recipe.seconds(scale) == 0
            for verdict in recipe.judge({}, scale):
                assert verdict.answer == "cannot be judged"
                assert verdict.reason == f"nothing is run at scale {scale}: {recipe.study.left_out}"
                assert recipe.study.left_out


def test_nothing_finished_cannot_be_judged() -> None:
    for recipe in (recipe for recipe in EVERY if recipe.study is not None):
        assert {verdict.answer for verdict in recipe.judge({}, "demo")} == {"cannot be judged"}


def test_a_verdict_that_cannot_fail_is_a_self_check() -> None:
    """What it shows is of capax, not of the paper: so says the heading that it is listed under, once."""
    claim = Claim(says="so", standing="ours", judge=lambda of: agrees("it is"), self_check=True)
    assert claim.kind == "a self-check"
    assert KINDS[claim.kind].startswith("Self-checks: only a fault in capax would differ")
    assert claim.verdict(Evidence((), "demo"), 0).reason == "it is"


@pytest.mark.slow
def test_what_arithmetic_settles_is_not_counted_as_the_papers() -> None:
    """The verdict is the same whatever networks recall of a library: no evidence for a paper, nor against it."""
    settled = [(recipe, claim) for recipe in EVERY for claim in recipe.claims if claim.kind == "by arithmetic"]
    assert {recipe.paper for recipe, _ in settled} >= {"harma2024", "mahdavi2024", "changalidis2025"}
    for recipe, claim in settled:
        some = [measurement(run, [few]) for run in recipe.runs("demo")[:3] for few in (1, 50)]
        answers = {claim.verdict(Evidence(tuple(runs), "demo"), missing=0).answer for runs in (some[::2], some[1::2])}
        assert len(answers) == 1, claim.says


def test_every_claim_of_the_three_papers_says_what_would_change_its_verdict() -> None:
    for recipe in (recipe for paper in ("harma2024", "mahdavi2024", "adler2025") for recipe in recipes(paper)):
        assert all(claim.changes for claim in recipe.claims), recipe.figure


def test_a_claim_has_a_judge_or_a_reason_why_not() -> None:
    for judge, unjudged in ((None, None), (lambda of: agrees("it is"), "no data")):
        with pytest.raises(ValidationError, match="judge"):
            Claim(says="so", standing="ours", judge=judge, unjudged=unjudged)
    with pytest.raises(ValidationError, match="judge"):
        Claim(says="so", standing="ours", judge="capax.papers.evidence.none")


def test_missing_runs_are_said() -> None:
    (recipe,) = recipes("harma2024", "figure-3")
    runs = recipe.runs("demo")[1:]
    (verdict,) = recipe.judge({run.key(): measurement(run, [20]) for run in runs}, "demo")
    assert verdict.answer == "agrees"
    assert "1 of its runs are missing" in verdict.reason


def test_unknown_names_are_refused() -> None:
    for ask in (
        lambda: recipes("adler"),
        lambda: recipes("adler2025", "figure-99"),
    ):
        with pytest.raises(SpecError):
            ask()


def of_any_protocol(run: Run, rng: np.random.Generator) -> Measurement:
    match run.protocol:
        case Budget():
            return cells(law, right_heads)(run, rng)
        case Shatter():
            return shattered(lambda rng: rng.negative_binomial(6, 0.05, 60) + 6)(run, rng)
        case Mls():
            return searched(5, 9, 3)(run, rng)
    if isinstance(run.task, Relations):
        return f1(lambda heads, total: min(1.0, total / 30))(run, rng)
    counts, error = rng.integers(1, 15, run.protocol.restarts).tolist(), {"mean_squared_error": rng.random() / 12}
    return measurement(run, counts, stop_reason="plateau", metrics=error)


@pytest.mark.parametrize(
    "recipe",
    [recipe for recipe in EVERY if recipe.study is not None],
    ids=lambda recipe: f"{recipe.paper}-{recipe.figure}",
)
def test_however_few_runs_are_there_every_claim_has_a_verdict(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harma2024, "FITS", (3,))
    rng = np.random.default_rng(0)
    runs = recipe.runs("demo")
    for number in (1, 2, 3):
        chosen = rng.choice(len(runs), min(number, len(runs)), replace=False)
        found = {runs[place].key(): of_any_protocol(runs[place], rng) for place in chosen}
        assert len(recipe.judge(found, "demo")) == len(recipe.claims)
