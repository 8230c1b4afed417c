"""Verdicts on the claims of Härmä 2024: on made-up measurements that agree and on those that do not."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import numpy as np
import pytest
from synthetic import Made, measurement, searched, shattered, verdicts

from capax.laws.polynomial import Polynomial
from capax.papers.harma2024 import judges as harma2024
from capax.papers.harma2024.arithmetic import width_of
from capax.papers.harma2024.grid import falls_with_length, shorter_are_efficient
from capax.papers.harma2024.rivals import polynomial
from capax.papers.recipe import SCALES, Evidence, Scale, Unjudged, Verdict, recipes
from capax.results import Measurement
from capax.specs import Mac, Run, Sequences, Transformer


def grid(count: Callable[[int, int, int], float], **more: str) -> Made:
    """Counts above chance as a function of length, heads and width, with 2 % of noise."""

    def made(run: Run, rng: np.random.Generator) -> Measurement:
        above = count(run.task.seq_len, run.model.n_heads, run.model.d_model)  # type: ignore[union-attr]
        noisy = above * np.exp(0.02 * rng.normal(size=run.protocol.restarts))  # type: ignore[union-attr]
        return measurement(run, list(noisy * 0.99 + run.task.library_size / 100), **more)

    return made


def as_law(n: int, heads: int, width: int) -> float:
    return 24 * width / (n - 1) ** (1.13 - 0.13 * heads)


def full(n: int, heads: int, width: int) -> float:
    """The same at a level at which the largest networks know their libraries."""
    return 2.5 * as_law(n, heads, width)


def sigmoid(n: int, heads: int, width: int) -> float:
    return 900 / (1 + np.exp(-(width - 20) / 2)) / n**0.3


Counted = Callable[[int, int, int], float]


@pytest.mark.parametrize(
    ("figure", "claim", "agreeing", "differing"),
    [
        ("figure-7", 0, full, lambda n, h, b: full(n, h, b) * b / 16),
        ("figure-7", 2, full, lambda n, h, b: 640 - 20 * h - 20 * b - 3 * n),
        ("figure-7", 3, full, lambda n, h, b: 60 * b * np.exp((0.1 * h - 0.4) * n)),
        pytest.param("figure-7", 4, full, sigmoid, marks=pytest.mark.very_slow),
        ("figure-8", 0, as_law, lambda n, h, b: 8 * 40 ** ((n // 4 + h) % 2)),
        ("figure-9", 1, as_law, lambda n, h, b: 300 * b / (n - 1) ** 2),
        ("figure-9", 2, as_law, lambda n, h, b: 24 * b / (n - 1) ** (0.7 + 0.2 * h)),
        ("figure-10", 2, as_law, lambda n, h, b: 640 - 20 * h - 20 * b - 3 * n),
        ("equation-12", 0, as_law, lambda n, h, b: b**3 / 40),
        ("equation-12", 1, lambda n, h, b: 5 * h**2 * b, lambda n, h, b: b**2),
        ("equation-12", 1, lambda n, h, b: 0.005 * h * parameters(h, b), lambda n, h, b: 0.0005 * b * parameters(h, b)),
        ("table-1", 1, lambda n, h, b: 500, as_law),
    ],
)
def test_grid(figure: str, claim: int, agreeing: Counted, differing: Counted) -> None:
    answer = "cannot be judged" if figure == "table-1" else "agrees"
    assert one_verdict(figure, claim, grid(agreeing)).answer == answer
    other = one_verdict(figure, claim, grid(differing))
    assert other.answer == "differs"


def one_verdict(figure: str, claim: int, made: Made, scale: Scale = "demo") -> Verdict:
    """On one claim of the grid, without the fits behind the others."""
    (recipe,) = recipes("harma2024", figure)
    rng = np.random.default_rng(0)
    runs = tuple(made(run, rng) for run in recipe.runs(scale))
    return recipe.claims[claim].verdict(Evidence(runs, scale), missing=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "answer"),
    [
        (lambda n, h, b: 990 / (1 + np.exp(2.5 - b * h**0.3 / (0.4 * n + 6))), "agrees"),
        (lambda n, h, b: 24 * b * h**0.3 / n**0.5, "differs"),
        (lambda n, h, b: 0.6 * b**2.5 * h**0.3 / n, "cannot be judged"),
    ],
)
def test_a_line_is_no_sigmoid_and_a_power_that_is_cut_off_is_not_told_from_one(count: Counted, answer: str) -> None:
    assert one_verdict("figure-7", 1, grid(count), "small").answer == answer


@pytest.mark.parametrize(
    ("count", "answer", "said"),
    [
        (lambda n, h, b: 4000 * b / n, "cannot be judged", "at least 90% of the library (ours), but libraries of 1000"),
        (lambda n, h, b: min(4000 * b / n, 930), "cannot be judged", "full below all plateaus of Table 1"),
        (lambda n, h, b: min(4000 * b / n, 930 if h > 1 else 780), "differs", "below 90% of the library with 8 tokens"),
        (lambda n, h, b: 2 * b, "cannot be judged", "still rise at the widest width"),
    ],
)
def test_counts_level_off_at_the_library_or_below(count: Counted, answer: str, said: str) -> None:
    verdict = one_verdict("figure-7", 5, grid(count, stop_reason="plateau"), "small")
    assert verdict.answer == answer
    assert said in verdict.reason


def test_a_library_above_a_plateau_of_the_papers_law_tells_whether_counts_end_there() -> None:
    filled = grid(lambda n, h, b: min(4000 * b / n, 15_500), stop_reason="plateau")
    assert one_verdict("figure-7", 5, filled, "paper").answer == "agrees"
    rising = grid(lambda n, h, b: 15_500 * (b / 1024) ** 2, stop_reason="plateau")
    verdict = one_verdict("figure-7", 5, rising, "paper")
    assert verdict.answer == "agrees"
    assert (
        "at 25 of 25 lengths and head counts; where Table 1 has a plateau below it: 8 tokens, 1 head, "
        in verdict.measured
    )
    level = grid(lambda n, h, b: min(4000 * b / n, 12_504), stop_reason="plateau")
    assert one_verdict("figure-7", 5, level, "paper").answer == "differs"
    table_1 = grid(lambda n, h, b: min(12.2 * b * h, 3762.7 * h + 8741), stop_reason="plateau")
    verdict = one_verdict("figure-7", 5, table_1, "paper")
    assert verdict.answer == "cannot be judged"
    assert "full below all plateaus of Table 1 there" in verdict.reason


def test_counts_that_are_hardly_above_chance_are_not_level() -> None:
    """Of guesses alone there are a tenth more or fewer."""
    filled = grid(lambda n, h, b: 205 if h == 2 else min(4000 * b / n, 15_500), stop_reason="plateau")
    verdict = one_verdict("figure-7", 5, filled, "paper")
    assert verdict.answer == "agrees"
    assert "at 20 of 25 lengths and head counts" in verdict.measured


@pytest.mark.parametrize(
    ("figure", "claim", "judge", "count", "answer"),
    [
        ("figure-9", 0, falls_with_length, as_law, "agrees"),
        ("figure-9", 0, falls_with_length, lambda n, h, b: h * b * n, "differs"),
        ("equation-12", 2, shorter_are_efficient, lambda n, h, b: 24 * b / (n - 1) ** 1.5, "agrees"),
        ("equation-12", 2, shorter_are_efficient, lambda n, h, b: 24 * b / n**0.5, "differs"),
    ],
)
def test_a_fall_with_length_by_the_loss_that_was_chosen_for_it_is_no_finding(
    figure: str, claim: int, judge: Callable[[Evidence], Verdict], count: Counted, answer: str
) -> None:
    (recipe,) = recipes("harma2024", figure)
    rng = np.random.default_rng(0)
    evidence = Evidence(tuple(grid(count)(run, rng) for run in recipe.runs("demo")), "demo")
    assert judge(evidence).answer == answer
    verdict = recipe.claims[claim].verdict(evidence, missing=0)
    assert verdict.answer == "cannot be judged"
    assert verdict.reason.startswith("depends on the loss, which is not known to us: ")
    assert verdict.measured == judge(evidence).measured


def test_levels_of_trainings_that_a_budget_cut_short_are_not_judged() -> None:
    verdict = one_verdict("figure-7", 5, lambda run, _: measurement(run, [500, 500], stop_reason="budget"), "small")
    assert verdict.answer == "cannot be judged"
    assert verdict.reason == "30 of 30 trainings that should end on a plateau ended at a budget"


def parameters(heads: int, width: int) -> int:
    spec = Transformer(n_heads=heads, d_model=width, positions="frozen")
    return spec.parameter_counts(vocab_size=2, context=1)["trainable"]


@pytest.mark.parametrize(
    ("count", "scale", "reading"),
    [
        (lambda n, h, b: 0.0015 * parameters(h, b) * (b / 8) ** 0.3, "demo", "with guesses"),
        (lambda n, h, b: 0.005 * parameters(h, b) * min(b / 64, 1), "small", "from a width of 64 on"),
    ],
)
def test_a_verdict_that_another_reading_of_counts_or_widths_would_not_give_is_not_given(
    count: Counted, scale: Scale, reading: str
) -> None:
    verdict = one_verdict("equation-12", 0, grid(count), scale)
    assert verdict.answer == "cannot be judged"
    assert verdict.reason.startswith("depends on whether guesses count, and on the widths that are kept: ")
    assert f"{reading}: " in verdict.reason


@pytest.mark.parametrize("power", [0.5, 0.8, 1.0])
def test_where_every_parameter_is_worth_the_same_neither_heads_nor_width_cost_less(power: float) -> None:
    made = grid(lambda n, h, b: 300 * (parameters(h, b) / 30_000) ** power / n)
    assert verdicts("harma2024", "equation-12", made)[1].answer == "cannot be judged"


@pytest.mark.parametrize(("lengths", "degree"), [(1, 1), (2, 1), (3, 2), (4, 3), (8, 5)])
def test_the_rival_has_no_coefficient_that_the_networks_leave_open(lengths: int, degree: int) -> None:
    """However many networks there are: a power of N as high as their lengths are many is left open."""
    made = [
        Run(task=Sequences(seq_len=4 + n, library_size=100), model=Transformer(n_heads=heads, d_model=width))
        for n, heads, width in itertools.product(range(lengths), range(1, 7), range(8, 64, 8))
    ]
    runs = [measurement(run, [50 + run.model.d_model]) for run in made]  # type: ignore[union-attr]
    if lengths == 1:
        with pytest.raises(Unjudged, match="determine no polynomial"):
            polynomial(runs)
    else:
        law = polynomial(runs)
        assert isinstance(law, Polynomial)
        assert law.degree == degree


@pytest.mark.slow
def test_where_no_width_saturates_the_line_is_not_judged() -> None:
    line, sigmoid, *errors = verdicts("harma2024", "figure-7", grid(as_law))
    assert errors.pop().reason == "counts of every length and head count still rise at the widest width"
    for verdict in (line, sigmoid, *errors):
        assert verdict.answer == "cannot be judged"
        assert "no width of the grid saturates" in verdict.reason
    assert all(verdict.measured for verdict in (line, *errors))


@pytest.mark.very_slow
def test_an_error_that_depends_on_the_widths_that_are_kept_is_not_judged() -> None:
    (verdict,) = verdicts("harma2024", "figure-8", grid(lambda n, h, b: as_law(n, h, b) * (b / 8) ** (2 * (h % 2))))
    assert verdict.answer == "cannot be judged"
    assert "depends on the widths" in verdict.reason


@pytest.mark.slow
@pytest.mark.parametrize(
    ("at_three", "said"),
    [
        (lambda n, b: 1.0, "0 over, 0 under"),
        (lambda n, b: 8.0, "0 over, 9 under"),
        (lambda n, b: 0.5, "9 over, 0 under"),
        (lambda n, b: 0.5 if b == 8 else 8.0, "3 over, 6 under"),
        (lambda n, b: 0.5 if b == 8 else 8.0 if b == 16 and n == 4 else 1.0, "3 over, 1 under"),
    ],
)
def test_figure_10_says_to_which_sides_it_errs(at_three: Callable[[int, int], float], said: str) -> None:
    made = grid(lambda n, h, b: as_law(n, h, b) * (at_three(n, b) if h == 3 else 1))
    beyond = one_verdict("figure-10", 1, made)
    assert beyond.measured is not None
    assert said in beyond.measured
    off = sum(int(count) for count in re.findall(r"\d", said))
    assert beyond.answer == {0: "differs", 9: "agrees"}.get(off, "cannot be judged")


@pytest.mark.slow
def test_figure_10_does_not_take_repeats_that_differ_for_errors_of_the_law() -> None:
    """Counts of the very law, each training a fifth off."""
    (recipe,) = recipes("harma2024", "figure-10")
    for seed in range(5):
        rng, runs = np.random.default_rng(seed), []
        for run in recipe.runs("small"):
            count = as_law(run.task.seq_len, run.model.n_heads, run.model.d_model)  # type: ignore[union-attr]
            noisy = count * np.exp(0.2 * rng.normal())
            runs.append(measurement(run, [noisy * 0.99 + run.task.library_size / 100]))
        verdict = recipe.claims[1].verdict(Evidence(tuple(runs), "small"), missing=0)
        assert verdict.answer == "cannot be judged"


@pytest.mark.slow
def test_figure_10_tells_nothing_by_libraries_that_are_known_and_said_to_be() -> None:
    beyond = one_verdict("figure-10", 1, grid(lambda n, h, b: 4 * as_law(n, h, b)))
    assert beyond.measured is not None
    assert "of 6 networks" in beyond.measured  # of 9, three of which know their library


@pytest.mark.slow
def test_the_ecm_predicts_what_it_describes() -> None:
    assert one_verdict("figure-10", 0, grid(as_law), "small").answer == "agrees"


def test_table_1_is_judged_at_the_papers_scale_alone() -> None:
    assert verdicts("harma2024", "table-1", grid(as_law))[0].answer == "cannot be judged"


def test_parameters_of_other_networks_differ() -> None:
    def made(run: Run, rng: np.random.Generator) -> Measurement:
        return measurement(run, [20], parameters={"trainable": 5, "total": 5})

    assert verdicts("harma2024", "figure-3", made)[0].answer == "differs"
    assert verdicts("harma2024", "figure-1", made)[0].answer == "differs"
    assert verdicts("harma2024", "figure-1", grid(as_law))[0].answer == "agrees"


@pytest.mark.slow
def test_a_choice_of_fit_that_decides_is_said() -> None:
    verdict = one_verdict("figure-10", 1, grid(lambda n, h, b: as_law(n, h, b) * (1.4 if h == 3 else 1)))
    assert verdict.answer == "cannot be judged"
    assert verdict.reason.startswith("depends on how the ECM is fitted: fitted jointly: ")


@pytest.mark.slow
def test_the_row_of_two_layers_is_unusable_and_figure_11_depends_on_what_a_coefficient_is() -> None:
    assert verdicts("harma2024", "table-1", grid(as_law))[2].answer == "differs"
    (recipe,) = recipes("harma2024", "figure-11")
    runs = {run.key(): measurement(run, [20, 21, 22]) for run in recipe.runs("demo")}
    verdict = recipe.judge(runs, "demo")[0]
    assert verdict.answer == "cannot be judged"
    assert "what a coefficient is" in verdict.reason
    numbers = [float(part) for part in re.findall(r"\d{3,}", verdict.measured or "")]
    assert numbers == pytest.approx([1031, 2672, 1556, 3038], rel=0.01)  # by hand from the printed table


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


def ffn(at_small: float, at_large: float, stop_reason: str = "plateau") -> Made:
    """Counts with the FFN trained are 100; the identity's are given, at widths of up to 16 and above."""

    def made(run: Run, rng: np.random.Generator) -> Measurement:
        small = run.model.d_model <= 16  # type: ignore[union-attr]
        trained = run.model.ffn == "mlp"  # type: ignore[union-attr]
        restarts = run.protocol.restarts  # type: ignore[union-attr]
        above = (100 if trained else at_small if small else at_large) + 2 * rng.normal(size=restarts)
        return measurement(run, above * 0.99 + run.task.library_size / 100, stop_reason=stop_reason)

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
    for verdict in verdicts("harma2024", "figure-2", ffn(50, 60, "budget"), "paper"):
        assert "ended at a budget" in verdict.reason
    few = verdicts("harma2024", "figure-2", made)[1]
    assert few.answer == "cannot be judged"
    assert "a width of 16 is not large" in few.reason


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


def test_widths_whose_read_out_cannot_give_a_target_are_left_out_of_figure_4() -> None:
    made = searched(300, 400, 350)
    found = verdicts(
        "harma2024",
        "figure-4",
        lambda run, rng: made(run, rng).model_copy(update={"unreachable": (3,) if run.model.d_model < 32 else None}),
        "paper",
    )
    assert "width 16" not in (found[0].measured or "")
    assert "width 32" in (found[0].measured or "")


@pytest.mark.parametrize("figure", ["figure-2", "figure-6"])
def test_what_fills_its_library_is_not_alike_for_that(figure: str) -> None:
    alike = verdicts("harma2024", figure, lambda run, rng: measurement(run, [1e9] * 3, stop_reason="plateau"), "paper")
    places = {"figure-2": 0, "figure-6": 1}
    assert alike[places[figure]].answer == "cannot be judged"
    assert "as good as full (16000 of 16000)" in alike[places[figure]].reason


def test_trials_that_a_budget_ended_are_not_judged_as_a_distribution() -> None:
    """A negative binomial without its tail is none."""

    def made(run: Run, rng: np.random.Generator) -> Measurement:
        whole = shattered(lambda rng: rng.negative_binomial(16, 0.05, 300) + 16)(run, rng)
        assert whole.shatter is not None
        epochs = tuple(epoch for epoch in whole.shatter.epochs if epoch <= 400)
        cut = whole.shatter.model_copy(update={"epochs": epochs, "censored": (400,) * (300 - len(epochs))})
        return whole.model_copy(update={"shatter": cut})

    (verdict,) = verdicts("harma2024", "figure-5", made)
    assert verdict.answer == "cannot be judged"
    assert "of 300 trials of" in verdict.reason
    assert "ended by a budget" in verdict.reason


@pytest.mark.very_slow
def test_figure_5(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harma2024, "FITS", (79,))
    drawn = shattered(lambda rng: rng.negative_binomial(12, 0.1, harma2024.TELLING) + 12)
    assert verdicts("harma2024", "figure-5", drawn)[0].answer == "agrees"
    weak = verdicts("harma2024", "figure-5", shattered(lambda rng: rng.negative_binomial(6, 0.05, 60) + 6))[0]
    assert weak.answer == "cannot be judged"
    assert f"by fewer than {harma2024.TELLING} trials" in weak.reason
    two_kinds = shattered(lambda rng: np.repeat([50, 400], 30) + rng.integers(0, 5, 60))
    assert verdicts("harma2024", "figure-5", two_kinds)[0].answer == "differs"
    few = shattered(lambda rng: np.full(5, 50))
    assert verdicts("harma2024", "figure-5", few)[0].answer == "cannot be judged"


def test_what_depends_on_vocabulary_and_loss_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harma2024, "FITS", (79,))
    drawn = shattered(lambda rng: rng.negative_binomial(12, 0.1, harma2024.TELLING) + 12)
    two_kinds = shattered(lambda rng: np.repeat([50, 400], 30) + rng.integers(0, 5, 60))

    def made(run: Run, rng: np.random.Generator) -> Measurement:
        return (drawn if run.task.sizes()["vocab_size"] == 10 else two_kinds)(run, rng)

    (verdict,) = verdicts("harma2024", "figure-5", made)
    assert verdict.answer == "cannot be judged"
    assert "not known" in verdict.reason


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


def test_batches_that_depend_on_the_end_of_training_are_not_judged() -> None:
    def made(run: Run, rng: np.random.Generator) -> Measurement:
        equal = run.training.patience is None
        level = 50 if run.training.batch_size == (16 if equal else 64) else 100
        return measurement(run, level + rng.normal(size=5), stop_reason="budget" if equal else "plateau")

    verdict = verdicts("harma2024", "figure-6", made)[0]
    assert verdict.answer == "cannot be judged"
    assert "depends on the length, and on when a training ends" in verdict.reason


def test_batches_of_each_length_are_judged_by_themselves() -> None:
    """At 128 tokens next to nothing is recalled, and chance apart the smallest batch far less than the largest."""

    def made(run: Run, rng: np.random.Generator) -> Measurement:
        long = run.task.seq_len == 128  # type: ignore[union-attr]
        level = 12 + (20 if run.training.batch_size > 32 else 0) if long else 100
        return measurement(run, level + rng.normal(size=5), stop_reason="plateau")

    verdict = verdicts("harma2024", "figure-6", made, "small")[0]
    assert verdict.answer == "cannot be judged"
    assert verdict.reason.startswith(
        "depends on the length, and on when a training ends: after equal steps, 32 tokens: "
    )
    assert "128 tokens: the count at batch 512 is above that at batch 32" in verdict.reason


def test_batches_that_a_budget_cut_short_are_not_compared() -> None:
    found = verdicts(
        "harma2024", "figure-6", lambda run, rng: measurement(run, run.training.batch_size + rng.normal(size=5))
    )
    assert [verdict.answer for verdict in found] == ["cannot be judged"] * 2
    assert "budget" in found[0].reason


def test_the_papers_scale_has_its_sizes() -> None:
    runs = [run for recipe in recipes("harma2024") for run in recipe.runs("paper")]
    assert {run.task.library_size for run in runs if isinstance(run.protocol, Mac)} == {16_000}
    (grid,) = (recipe.runs("paper") for recipe in recipes("harma2024", "figure-7"))
    assert {run.protocol.restarts for run in grid} == {5}  # type: ignore[union-attr]
    assert {run.training.batch_size for run in grid} == {512}
