"""Every recipe: its runs at each scale, and verdicts on made-up measurements that agree and that do not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from synthetic import Made, interval, measurement, verdicts

from capax.errors import SpecError
from capax.papers.adler2025 import judges as adler2025
from capax.papers.evidence import field
from capax.papers.harma2024 import judges as harma2024
from capax.papers.harma2024.arithmetic import width_of
from capax.papers.mahdavi2024 import judges as mahdavi2024
from capax.papers.recipe import PAPERS, SCALES, STANDINGS, Claim, Evidence, Recipe, Verdict, agrees, recipes, seconds
from capax.results import HeadCount, KeyDimensionSearch, Measurement, ShatterEpochs
from capax.specs import Budget, Mac, Mls, Relations, Run, Shatter
from capax.sweeps.grid import read_study

EVERY = [recipe for paper in PAPERS for recipe in recipes(paper)]
COUNTS = {
    "harma2024": {"demo": 41, "small": 67, "paper": 185},
    "mahdavi2024": {"demo": 63, "small": 70, "paper": 340},
    "adler2025": {"demo": 69, "small": 237, "paper": 325},
    "morris2025": {"demo": 10, "small": 9, "paper": 22},
    "allenzhu2024": {"demo": 8, "small": 10, "paper": 48},
    "changalidis2025": {"demo": 6, "small": 24},
}
RUN = [(paper, scale) for paper, scales in COUNTS.items() for scale in scales]
"""Papers and the scales at which they are run."""


@pytest.mark.parametrize(("paper", "scale"), RUN)
def test_runs(paper: str, scale: str) -> None:
    """Specs are valid (they were built), each study's runs are distinct, and there are as many as there should be."""
    studies = {recipe.study.name: recipe.study for recipe in recipes(paper) if recipe.study is not None}
    keys = [[run.key() for run in study.runs(scale)] for study in studies.values()]
    assert all(len(set(some)) == len(some) > 0 for some in keys)
    assert sum(map(len, keys)) == COUNTS[paper][scale]
    assert all(study.seconds[scale] > 0 for study in studies.values())


def test_keys_of_every_study_stay() -> None:
    """Digests of the sorted keys: users have stored these runs."""
    kept = json.loads(Path(__file__).with_name("keys.json").read_text())
    studies = {(recipe.paper, recipe.study.name): recipe.study for recipe in EVERY if recipe.study is not None}
    found = {
        f"{paper} {name} {scale}": digest(run.key() for run in study.runs(scale))
        for (paper, name), study in studies.items()
        for scale in study.seconds
    }
    assert found == kept


def digest(keys: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(keys)).encode()).hexdigest()[:16]


def test_every_study_file_is_a_study_and_is_used() -> None:
    for folder in PAPERS.values():
        used = {
            f"{name}-{scale}.toml"
            for recipe in recipes(folder.name)
            if recipe.study is not None
            for name in recipe.study.files or (recipe.study.name,)
            for scale in recipe.study.seconds
        }
        files = {path.name for path in (folder / "studies").glob("*.toml")}
        assert {name for name in files - used if not name.startswith("saturation-")} == set()
        assert all(read_study(folder / "studies" / name).repeated == 0 for name in files)


def test_demo_of_all_fits_in_a_quarter_of_an_hour() -> None:
    assert seconds(EVERY, "demo") <= 15 * 60


def test_names_are_distinct_and_every_claim_has_its_standing() -> None:
    assert len({(recipe.paper, recipe.figure) for recipe in EVERY}) == len(EVERY)
    for recipe in EVERY:
        assert recipe.claims
        assert {claim.standing for claim in recipe.claims} <= set(STANDINGS)
        assert all(claim.value is None or claim.value for claim in recipe.claims)


@pytest.mark.parametrize(
    ("paper", "figure", "answers"),
    [
        ("harma2024", "hopfield", ["agrees", "agrees", "differs"]),
        ("harma2024", "chance", ["cannot be judged"]),
        ("mahdavi2024", "theorem-1", ["agrees", "agrees"]),
        ("mahdavi2024", "proposition-2", ["agrees"]),
        ("mahdavi2024", "proposition-3", ["cannot be judged"]),
        ("mahdavi2024", "table-1", ["cannot be judged", "cannot be judged"]),
        ("mahdavi2024", "saturation", ["cannot be judged"]),
        ("adler2025", "theorem-b1", ["agrees"]),
        ("adler2025", "theorem-4.2", ["agrees"]),
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
    """It says so: what it shows is of capax, not of the paper."""
    claim = Claim(says="so", standing="ours", judge=lambda of: agrees("it is"), self_check=True)
    assert "self-check" in claim.verdict(Evidence((), "demo"), 0).reason


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


# Härmä


def grid(count: Callable[[int, int, int], float]) -> Made:
    """Counts above chance as a function of length, heads and width, with 2 % of noise."""

    def made(run: Run, rng: np.random.Generator) -> Measurement:
        above = count(run.task.seq_len, run.model.n_heads, run.model.d_model)  # type: ignore[union-attr]
        noisy = above * np.exp(0.02 * rng.normal(size=run.protocol.restarts))  # type: ignore[union-attr]
        return measurement(run, list(noisy * 0.99 + run.task.library_size / 100))

    return made


def as_law(n: int, heads: int, width: int) -> float:
    return 24 * width / (n - 1) ** (1.13 - 0.13 * heads)


@pytest.mark.parametrize(
    ("figure", "claim", "agreeing", "differing"),
    [
        ("figure-7", 0, as_law, lambda n, h, b: as_law(n, h, b) * b / 16),
        ("figure-7", 1, as_law, lambda n, h, b: 60 + 10 * h + (b - 14) ** 2 - 3 * (n - 8) * (b - 16)),
        ("figure-8", 0, as_law, lambda n, h, b: 8 * 40 ** ((n // 4 + h + b // 8) % 2)),
        ("figure-9", 0, as_law, lambda n, h, b: 5 * h * b),
        ("figure-9", 0, as_law, lambda n, h, b: h * b * n),
        ("figure-9", 1, as_law, lambda n, h, b: 300 * b / (n - 1) ** 2),
        ("figure-9", 2, as_law, lambda n, h, b: 24 * b / (n - 1) ** (0.7 + 0.2 * h)),
        ("figure-10", 0, as_law, lambda n, h, b: 200 - 45 * h + b + 3 * n),
        ("table-1", 1, lambda n, h, b: 500, as_law),
    ],
)
def test_grid(
    figure: str,
    claim: int,
    agreeing: Callable[[int, int, int], float],
    differing: Callable[[int, int, int], float],
) -> None:
    answer = "cannot be judged" if figure == "table-1" else "agrees"
    assert verdicts("harma2024", figure, grid(agreeing))[claim].answer == answer
    other = verdicts("harma2024", figure, grid(differing))[claim]
    assert other.answer == "differs" or (figure == "figure-9" and claim == 0 and other.answer == "cannot be judged")


def test_table_1_is_judged_at_the_papers_scale_alone() -> None:
    assert verdicts("harma2024", "table-1", grid(as_law))[0].answer == "cannot be judged"


def test_parameters_of_other_networks_differ() -> None:
    def made(run: Run, rng: np.random.Generator) -> Measurement:
        return measurement(run, [20], parameters={"trainable": 5, "total": 5})

    assert verdicts("harma2024", "figure-3", made)[0].answer == "differs"
    assert verdicts("harma2024", "figure-1", made)[0].answer == "differs"
    assert verdicts("harma2024", "figure-1", grid(as_law))[0].answer == "agrees"


def test_the_row_of_two_layers_is_unusable_and_figure_11_does_not_follow() -> None:
    assert verdicts("harma2024", "table-1", grid(as_law))[2].answer == "differs"
    (recipe,) = recipes("harma2024", "figure-11")
    runs = {run.key(): measurement(run, [20, 21, 22]) for run in recipe.runs("demo")}
    verdict = recipe.judge(runs, "demo")[0]
    assert verdict.answer == "differs"
    numbers = [float(part) for part in (verdict.measured or "").split(" and ")]
    assert numbers == pytest.approx([1031, 2672], rel=0.01)  # by hand from the printed table


def test_figure_11_compares_heads_of_as_many_coefficients() -> None:
    (recipe,) = recipes("harma2024", "figure-11")
    for scale, amount in zip(SCALES, (25_000, 80_000, 2_000_000), strict=True):
        widths = {run.model.n_heads: run.model.d_model for run in recipe.runs(scale)}  # type: ignore[union-attr]
        assert widths == {heads: width_of(amount, heads) for heads in (2, 4)}

    def made(sign: int) -> Made:
        return lambda run, rng: measurement(run, 300 + sign * 20 * run.model.n_heads + rng.normal(size=5))

    assert verdicts("harma2024", "figure-11", made(1), "paper")[1].answer == "agrees"
    assert verdicts("harma2024", "figure-11", made(-1), "paper")[1].answer == "differs"
    small = verdicts("harma2024", "figure-11", made(-1))[1]
    assert (small.answer, "is below" in small.reason) == ("cannot be judged", True)


def ffn(at_small: float, at_large: float) -> Made:
    """Counts with the FFN trained are 100; the identity's are given, at widths of up to 16 and above."""

    def made(run: Run, rng: np.random.Generator) -> Measurement:
        small = run.model.d_model <= 16  # type: ignore[union-attr]
        trained = run.model.ffn == "mlp"  # type: ignore[union-attr]
        restarts = run.protocol.restarts  # type: ignore[union-attr]
        above = (100 if trained else at_small if small else at_large) + 2 * rng.normal(size=restarts)
        return measurement(run, above * 0.99 + run.task.library_size / 100)

    return made


@pytest.mark.parametrize(
    ("made", "answers"),
    [
        (ffn(100, 150), ["agrees", "agrees"]),
        (ffn(50, 60), ["differs", "differs"]),
        (ffn(120, 100), ["cannot be judged", "cannot be judged"]),
    ],
)
def test_figure_2(made: Made, answers: list[str]) -> None:
    assert [verdict.answer for verdict in verdicts("harma2024", "figure-2", made, "paper")] == answers
    few = verdicts("harma2024", "figure-2", made)[1]
    assert few.answer == "cannot be judged"
    assert "24" in few.reason


def searched(low: float, high: float | None, mac: float) -> Made:
    def made(run: Run, rng: np.random.Generator) -> Measurement:
        return (
            measurement(run, [low], interval=interval(low, high))
            if isinstance(run.protocol, Mls)
            else measurement(run, [mac * 0.99 + run.task.library_size / 100])
        )

    return made


@pytest.mark.parametrize(
    ("made", "answers"),
    [
        (searched(300, 400, 350), ["agrees", "cannot be judged"]),
        (searched(300, 400, 200), ["differs", "agrees"]),
        (searched(300, 400, 900), ["differs", "differs"]),
        (searched(300, None, 900), ["cannot be judged", "cannot be judged"]),
    ],
)
def test_figure_4(made: Made, answers: list[str]) -> None:
    assert [verdict.answer for verdict in verdicts("harma2024", "figure-4", made, "paper")] == answers
    assert verdicts("harma2024", "figure-4", made)[1].answer == "cannot be judged"


def shattered(draw: Callable[[np.random.Generator], np.ndarray]) -> Made:
    def made(run: Run, rng: np.random.Generator) -> Measurement:
        epochs = tuple(int(epoch) for epoch in draw(rng))
        whole = ShatterEpochs(
            epochs=epochs, censored=(), completed_share=interval(0.9, 1), median=float(np.median(epochs)), fit=None
        )
        return measurement(run, [16], shatter=whole)

    return made


def test_figure_5(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harma2024, "FITS", 39)
    drawn = shattered(lambda rng: rng.negative_binomial(6, 0.05, 60) + 6)
    assert verdicts("harma2024", "figure-5", drawn)[0].answer == "agrees"
    two_kinds = shattered(lambda rng: np.repeat([50, 400], 30) + rng.integers(0, 5, 60))
    assert verdicts("harma2024", "figure-5", two_kinds)[0].answer == "differs"
    few = shattered(lambda rng: np.full(5, 50))
    assert verdicts("harma2024", "figure-5", few)[0].answer == "cannot be judged"


@pytest.mark.parametrize(
    ("levels", "answers"),
    [
        ((50, 100, 100), ("agrees", "agrees")),
        ((100, 50, 100), ("differs", "differs")),
    ],
)
def test_figure_6(levels: tuple[int, int, int], answers: tuple[str, str]) -> None:
    by_size = dict(zip((16, 64, 200), levels, strict=True))

    def made(run: Run, rng: np.random.Generator) -> Measurement:
        return measurement(run, by_size[run.training.batch_size] + rng.normal(size=5), stop_reason="plateau")

    assert tuple(verdict.answer for verdict in verdicts("harma2024", "figure-6", made)) == answers


def test_batches_that_a_budget_cut_short_are_not_compared() -> None:
    found = verdicts(
        "harma2024", "figure-6", lambda run, rng: measurement(run, run.training.batch_size + rng.normal(size=5))
    )
    assert [verdict.answer for verdict in found] == ["cannot be judged"] * 2
    assert "budget" in found[0].reason


# Mahdavi


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


# Adler


def f1(value: Callable[[int, int], float]) -> Made:
    """F1 as a function of heads and total key dimension."""

    def made(run: Run, rng: np.random.Generator) -> Measurement:
        mean = value(run.model.n_heads, run.model.total_key_dim)  # type: ignore[union-attr, arg-type]
        return measurement(run, [10], metrics={"f1": float(np.clip(mean + 0.003 * rng.normal(), 0, 1))})

    return made


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


def cells(total: Callable[[int, int], float], heads: Callable[[int, int], int], one_fails: bool = True) -> Made:
    """Total key dimension and best head count as functions of items and width."""

    def made(run: Run, rng: np.random.Generator) -> Measurement:
        m, d = run.task.library_size, run.model.d_model  # type: ignore[union-attr]
        count = heads(m, d)
        found = max(1, round(total(m, d) * np.exp(0.02 * rng.normal())))
        each = tuple(
            HeadCount(
                n_heads=number,
                d_head=None if fails else 4,
                total_key_dim=None if fails else 4 * number,
                interval=interval(1, 2),
                f1=0.5,
                trainings=9,
            )
            for number in run.protocol.head_counts  # type: ignore[union-attr]
            for fails in [one_fails and number == 1 and m > d]
        )
        return measurement(
            run,
            [m],
            metrics={"f1": 0.995},
            search=KeyDimensionSearch(
                n_heads=count,
                d_head=found,
                total_key_dim=found,
                interval=interval(0.9 * found, 1.1 * found),
                per_heads=each,
            ),
        )

    return made


def law(m: int, d: int) -> float:
    return 8 * m * np.log2(m) / d


def right_heads(m: int, d: int) -> int:
    return 1 if m <= d else m // d


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
    monkeypatch.setattr(harma2024, "FITS", 3)
    rng = np.random.default_rng(0)
    runs = recipe.runs("demo")
    for number in (1, 2, 3):
        chosen = rng.choice(len(runs), min(number, len(runs)), replace=False)
        found = {runs[place].key(): of_any_protocol(runs[place], rng) for place in chosen}
        assert len(recipe.judge(found, "demo")) == len(recipe.claims)


def test_a_key_dimension_below_a_proved_bound_differs() -> None:
    """Of the small scale: in the demo's cells no D_K* could be."""
    agreeing = verdicts("adler2025", "theorem-7.2", cells(law, right_heads), "small")
    assert [verdict.answer for verdict in agreeing] == ["agrees", "agrees"]
    differing = verdicts("adler2025", "theorem-7.2", cells(lambda m, d: 1, lambda m, d: 1), "small")
    assert [verdict.answer for verdict in differing] == ["differs", "differs"]


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_the_best_number_of_heads(scale: str) -> None:
    agreeing = cells(law, right_heads)
    differing = cells(law, lambda m, d: max(1, 16 * d // m))
    assert verdicts("adler2025", "figure-2", agreeing, scale)[0].answer == "agrees"  # type: ignore[arg-type]
    assert verdicts("adler2025", "figure-2", differing, scale)[0].answer == "differs"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("f1", "constant", "reason"), [(0.8, lambda _: 3.0, "an F1 of .99"), (1.0, lambda place: 3.0 + 3 * place, "apart")]
)
def test_explicit_weights_that_fail_do_not_say_that_others_would(
    f1: float, constant: Callable[[int], float], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(place: int, m: int, d: int, onehot: bool) -> tuple[float, float, int]:
        return f1, constant(place), 2

    monkeypatch.setattr(adler2025, "_built", made)
    of = Evidence((), "demo")
    assert adler2025.one_hot(of).answer == "cannot be judged"
    assert adler2025.gaussian_items(of).answer == "cannot be judged"
    assert reason in adler2025.gaussian_items(of).reason


def test_the_papers_scale_has_its_sizes() -> None:
    runs = [run for recipe in recipes("harma2024") for run in recipe.runs("paper")]
    assert {run.task.library_size for run in runs if isinstance(run.protocol, Mac)} == {16_000}
    (grid,) = (recipe.runs("paper") for recipe in recipes("harma2024", "figure-7"))
    assert {run.protocol.restarts for run in grid} == {5}  # type: ignore[union-attr]
    assert {run.training.batch_size for run in grid} == {512}
