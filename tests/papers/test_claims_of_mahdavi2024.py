"""Verdicts on the claims of Mahdavi 2024: on made-up measurements that agree and on those that do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from synthetic import Made, measurement, verdicts

import capax
from capax.checks.assumptions import report
from capax.checks.saturation import saturated
from capax.papers.evidence import field
from capax.papers.mahdavi2024 import encoder, saturation
from capax.papers.mahdavi2024 import judges as mahdavi2024
from capax.papers.recipe import Evidence, Unjudged, Verdict, recipes
from capax.results import Measurement
from capax.specs import Run
from capax.tasks.association_files import Examples
from capax.theory.construct.associations import build


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
    if recipe.study is not None and recipe.figure not in ("figure-2-heads", "figure-2-head-size", "saturation")
]


@pytest.mark.parametrize("figure", TRENDS)
def test_trends_with_heads_and_context(figure: str) -> None:
    assert verdicts("mahdavi2024", figure, swept(figure, lambda x: 20 * x))[0].answer == "agrees"
    assert verdicts("mahdavi2024", figure, swept(figure, lambda x: 900 - 20 * x))[0].answer == "differs"


@pytest.mark.slow
def test_linear_in_heads() -> None:
    figure = "figure-2-heads"
    line, square = swept(figure, lambda x: 50 * x), swept(figure, lambda x: 300 * (x == 4) + 10)
    assert [v.answer for v in verdicts("mahdavi2024", figure, line, "small")] == ["agrees", "agrees"]
    assert verdicts("mahdavi2024", figure, square, "small")[0].answer == "differs"
    of_one = verdicts("mahdavi2024", figure, line)[0]
    assert (of_one.answer, of_one.measured) == ("cannot be judged", "R² 1")
    assert of_one.reason == "of 1 seed R² has no interval: 3 are needed"


def test_head_size_helps_up_to_the_context_alone() -> None:
    figure = "figure-2-head-size"
    (recipe,) = recipes("mahdavi2024", figure)
    context = field(measurement(recipe.runs("demo")[0], [1]), "context_size")
    bent = swept(figure, lambda x: 100 * np.log2(min(x, context) + 1))
    assert verdicts("mahdavi2024", figure, bent)[0].answer == "agrees"
    straight = swept(figure, lambda x: 100 * np.log2(x + 1))
    assert verdicts("mahdavi2024", figure, straight)[0].answer == "differs"


def test_a_library_that_is_full_does_not_show_that_accuracy_rises_no_further() -> None:
    """Accuracy rises as the root of the head size, with no bend but the library's end, where it cannot rise."""
    (recipe,) = recipes("mahdavi2024", "figure-2-head-size")
    context = field(measurement(recipe.runs("demo")[0], [1]), "context_size")
    made = swept("figure-2-head-size", lambda x: 1000 * min((x / context) ** 0.5, 1))
    found = verdicts("mahdavi2024", "figure-2-head-size", made)[0]
    assert found.answer == "cannot be judged"
    assert "recall 95% or more tell nothing" in found.reason


def test_the_worst_library_decides() -> None:
    agrees = Verdict(answer="agrees", measured="1", reason="so")
    differs = Verdict(answer="differs", measured="2", reason="not so")
    found = mahdavi2024.worst({10: agrees, 20: differs, 30: differs})
    assert found.answer == "differs"
    assert found.reason == "library 20: not so (2 of 3 libraries are so)"
    assert found.measured == "library 10: 1; library 20: 2; library 30: 2"
    alone = mahdavi2024.worst({10: agrees, 20: differs, 30: agrees})
    assert alone.answer == "cannot be judged"
    assert "one alone is not counted" in alone.reason
    assert mahdavi2024.worst({20: differs}).answer == "differs"


def built() -> np.ndarray:
    """Which heads saturate on which examples, in weights that are built for the theorem."""
    generator = np.random.default_rng(0)
    queries, contexts = generator.random((57, 16)), generator.random((57, 8, 16))
    examples = Examples(queries, contexts, generator.standard_normal((57, 1)))
    return saturated(build(examples, n_heads=8, d_head=8, generator=generator).attention)


@pytest.mark.parametrize(
    ("split", "answers"),
    [
        (built(), ("agrees", "agrees")),
        (np.random.default_rng(0).random((8, 300)) < 0.2, ("cannot be judged", "differs")),
        (np.repeat(np.random.default_rng(0).random((1, 300)) < 0.5, 8, 0), ("differs", "differs")),
        (np.random.default_rng(0).random((2, 40)) < 0.5, ("cannot be judged", "differs")),
    ],
    ids=["built", "independent", "all alike", "two heads"],
)
def test_how_heads_divide_the_examples(
    split: np.ndarray, answers: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saturation, "_maps", lambda of: [split])
    of = Evidence((), "small")
    assert (saturation.specialise(of).answer, saturation.as_built(of).answer) == answers


@pytest.mark.slow
def test_a_share_is_told_from_that_of_independent_heads_though_nearly_all_heads_saturate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two heads, of which at most one fails on an example: in 19 of 20 independent pairs they do not differ from it."""
    rng, answers = np.random.default_rng(0), []
    where = rng.permutation(400)
    exclusive = np.ones((2, 400), bool)
    exclusive[0, where[:60]], exclusive[1, where[60:120]] = False, False
    monkeypatch.setattr(saturation, "_maps", lambda of: [exclusive])
    assert saturation.specialise(Evidence((), "small")).answer == "agrees"
    monkeypatch.setattr(saturation, "RESAMPLES", 300)
    for _ in range(60):
        split = rng.random((4, 300)) < 0.9
        monkeypatch.setattr(saturation, "_maps", lambda of, split=split: [split])
        answers.append(saturation.specialise(Evidence((), "small")).answer)
    assert 1 <= sum(answer != "cannot be judged" for answer in answers) <= 8


def test_heads_that_never_saturate_do_not_divide_the_examples(tmp_path: Path) -> None:
    """A layer after one step, with the weights that a store kept of it."""
    run = capax.measure(
        capax.Associations(context_size=4, library_size=40, n_classes=4),
        capax.AssociativeAttention(profile="mahdavi2024", n_heads=2, d_model=8, d_head=8),
        capax.Training(max_steps=1),
        restarts=1,
        store=tmp_path / "s.db",
        keep_weights=True,
    )
    of = Evidence((run,), "small", tmp_path / "s.db")
    for judge in (saturation.specialise, saturation.as_built):
        with pytest.raises(Unjudged, match="no head saturates"):
            judge(of)
    with pytest.raises(Unjudged, match="no weights"):
        saturation.specialise(Evidence((run,), "small"))


def test_assumptions_on_an_encoder_are_judged_by_its_report() -> None:
    """Of Gaussian vectors A1 is not refuted; of one vector it fails; so does general position."""
    generator = np.random.default_rng(0)
    contexts = generator.standard_normal((40, 6, 16))
    sets = [
        ("raw", np.ones((40, 16)), contexts),
        ("attended", generator.standard_normal((40, 16)), contexts),
        ("block", generator.standard_normal((40, 16)), np.ones_like(contexts)),
    ]
    found = report("made", sets, samples=100, seed=0, precision=None)
    answers = {
        ("A1", (0,), "fails"): "agrees",
        ("A1", (1, 2), "holds"): "agrees",
        ("A1", (0, 1), "holds"): "differs",
        ("A2", (0, 1), "holds"): "agrees",
        ("A2", (0, 1, 2), "holds"): "differs",
        ("general position", (0, 1, 2), "fails"): "differs",
    }
    for (name, places, expected), answer in answers.items():
        assert encoder.judged(found, name, places, expected).answer == answer, name  # type: ignore[arg-type]


def test_general_position_that_rounding_alone_breaks_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries that are independent only in digits that float32 does not have."""
    generator = np.random.default_rng(0)
    contexts = generator.standard_normal((40, 6, 16))
    queries = np.ones((40, 16)) + 1e-9 * generator.standard_normal((40, 16))
    sets = [(name, queries, contexts) for name in ("raw", "attended", "block")]
    monkeypatch.setattr(
        encoder, "checked", lambda samples, precision: report("made", sets, samples=100, seed=0, precision=precision)
    )
    verdict = encoder.general_position(Evidence((), "demo"))
    assert verdict.answer == "cannot be judged"
    assert verdict.reason.startswith("depends on the precision")


def test_an_encoder_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "ENCODER", "no_such_encoder")
    (recipe,) = recipes("mahdavi2024", "table-1-text")
    encoder.checked.cache_clear()
    verdicts = recipe.judge({}, "demo")
    assert [verdict.answer for verdict in verdicts] == ["cannot be judged"] * 4
    assert all("pip install" in verdict.reason for verdict in verdicts)


def test_verses_are_those_of_enough_words() -> None:
    long = " ".join(["word"] * 33)
    book = '"""\n' + "".join(f"{place}. A [few] words. {place + 1}. {long}\n" for place in range(400)) + '"""'
    assert encoder.verses(book) == [long] * 400
    with pytest.raises(Unjudged, match="400 verses of 32 words"):
        encoder.verses("nothing")
