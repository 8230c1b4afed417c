"""Adaptive sweeps: which runs are chosen, and when it ends, with simulated measurements of a known law."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from scipy.stats import t as t_distribution

import capax
from capax.errors import LawError, SpecError, TableError
from capax.laws.law import Law
from capax.results import Measurement, Parameters
from capax.specs import Model
from capax.store import Store
from capax.sweeps.informative import _spread, columns_of, gains, half_width, next_runs
from capax.sweeps.rounds import adaptive
from capax.sweeps.target import known_at_target

LIBRARY = 4000
POWER = {"k": 1.8, "p": 0.95, "q": 0.52, "r": 1.9}
TABLE_1 = {"a": 145.27, "b": -0.13, "c": 1.29, "d": 0.13, "e": 0.20, "alpha": 400.0, "beta": 900.0}
TARGET = {"seq_len": [64], "n_heads": [4], "d_model": [256]}
LAWS: list[tuple[Law, dict[str, float]]] = [(capax.PowerLaw(), POWER), (capax.ECM(), TABLE_1)]


def run(d_model: int, seq_len: int, n_heads: int, seed: int = 0) -> capax.Run:
    return capax.Run(
        task=capax.Sequences(seq_len=seq_len, vocab_size=100, library_size=LIBRARY),
        model=capax.Transformer(d_model=d_model, n_heads=n_heads),
        seed=seed,
    )


def grid(widths: tuple[int, ...] = (16, 32, 64, 128, 256), seeds: int = 1) -> list[capax.Run]:
    lengths, heads = (8, 16, 32, 64, 128), (1, 2, 3, 4)
    return [run(*cell) for cell in product(widths, lengths, heads, range(seeds))]


def cost(run: capax.Run) -> float:
    return run.task.seq_len * (12 * run.model.d_model**2 + 256 * run.model.n_heads * run.model.d_model) * 1e-6


def costs(runs: list[capax.Run]) -> np.ndarray:
    return np.array([cost(one) for one in runs])


def count_of(law: Law, truth: dict[str, float], run: capax.Run) -> float:
    cell = (("seq_len", run.task.seq_len), ("n_heads", run.model.n_heads), ("d_model", run.model.d_model))
    columns = {name: np.array([float(value)]) for name, value in cell}
    noise = np.random.default_rng([run.seed, *(value for _, value in cell)]).standard_normal()
    count = law._capacity(np.array(list(truth.values())), columns)[0][0] * np.exp(0.1 * noise)
    return float(min(count, run.task.library_size))


def rows(law: Law, truth: dict[str, float], runs: list[capax.Run]) -> dict[str, np.ndarray]:
    return {
        "key": np.array([one.key() for one in runs]),
        "seq_len": np.array([one.task.seq_len for one in runs]),
        "n_heads": np.array([one.model.n_heads for one in runs]),
        "d_model": np.array([one.model.d_model for one in runs]),
        "library_size": np.array([one.task.library_size for one in runs]),
        "memorized_above_chance": np.array([count_of(law, truth, one) for one in runs]),
    }


def measurement(law: Law, truth: dict[str, float], run: capax.Run, seconds: float) -> Measurement:
    count = count_of(law, truth, run)
    return Measurement(
        memorized=round(count),
        memorized_per_restart=(round(count),),
        chance=0.0,
        memorized_above_chance=count,
        interval=None,
        library_size=run.task.library_size,
        recallable=run.task.library_size,
        bits=count,
        bits_per_parameter=1.0,
        tokens_per_parameter=1.0,
        parameters=Parameters(trainable=1, total=1),
        epochs=1,
        steps=1,
        seconds=seconds,
        stop_reason="plateau",
        unreachable=None,
        members=(),
        spec=run,
        key=run.key(),
        versions={},
    )


def bench(
    law: Law, truth: dict[str, float], batches: list[list[capax.Run]], slower: float = 1.0
) -> Callable[[list[capax.Run]], Iterator[Measurement]]:
    """Something that measures, and keeps what it was asked for."""

    def run_batch(runs: list[capax.Run]) -> Iterator[Measurement]:
        batches.append(runs)
        for one in runs:
            yield measurement(law, truth, one, slower * cost(one))

    return run_batch


# The formula


@pytest.mark.parametrize("seed", range(5))
def test_gains_are_the_difference_of_the_variances_with_and_without_a_run(seed: int) -> None:
    rng = np.random.default_rng(seed)
    seen, slopes, goals = (rng.standard_normal((rows, 4)) for rows in (12, 9, 3))
    spread = float(rng.uniform(0.05, 2.0))
    information = seen.T @ seen / spread**2

    def variance(known: np.ndarray) -> float:
        return float(np.mean([goal @ np.linalg.solve(known, goal) for goal in goals]))

    expected = [variance(information) - variance(information + np.outer(one, one) / spread**2) for one in slopes]
    found = gains(np.linalg.inv(information), goals, slopes, spread)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("law", "truth"), LAWS, ids=["power", "ecm"])
def test_choices_are_those_of_brute_force(law: Law, truth: dict[str, float]) -> None:
    known = rows(law, truth, [*grid((16, 64)), run(256, 64, 4)])
    offered, taken = grid(seeds=2)[1::2], list[int]()  # under another seed
    fitted = type(law)().fit(known)
    places = [law.names.index(name) for name in fitted.solution_.free]

    def slopes(table: Any) -> np.ndarray:
        columns = {name: np.asarray(table[name], dtype=float) for name in law.columns}
        return np.asarray(fitted._model(columns)(fitted._theta())[1])[:, places]

    seen = slopes({name: values[~fitted.rows_.complete] for name, values in known.items()})
    information, goal, candidates = seen.T @ seen, slopes(TARGET)[0], slopes(rows(law, truth, offered))
    probable = fitted._capacity(fitted._theta(), fitted.read(rows(law, truth, offered)).columns)[0] < LIBRARY
    for _ in range(4):
        before = goal @ np.linalg.solve(information, goal)
        with_one = [goal @ np.linalg.solve(information + np.outer(one, one), goal) for one in candidates]
        worth = np.where(probable, (before - np.array(with_one)) / costs(offered), 0.0)
        worth[taken] = 0.0
        taken.append(int(worth.argmax()))
        information = information + np.outer(candidates[taken[-1]], candidates[taken[-1]])
    assert next_runs(law, known, offered, costs(offered), TARGET, 4) == taken


# The start


@pytest.mark.parametrize(("law", "truth"), LAWS, ids=["power", "ecm"])
@pytest.mark.parametrize("seeds", [1, 3])
def test_the_start_allows_a_fit_for_little(law: Law, truth: dict[str, float], seeds: int) -> None:
    runs = grid(seeds=seeds)
    chosen = next_runs(law, None, runs, costs(runs), TARGET, 12)
    assert len({*chosen}) == 12
    fitted = type(law)().fit(rows(law, truth, [runs[place] for place in chosen]))
    assert np.isfinite(half_width(fitted, TARGET))
    assert costs([runs[place] for place in chosen]).sum() < 0.1 * costs(grid()).sum()


def test_the_start_goes_on_from_what_is_measured() -> None:
    law, truth = LAWS[1]
    runs, done = grid(), list[int]()
    for _ in range(6):
        left = [place for place in range(len(runs)) if place not in done]
        known = rows(law, truth, [runs[place] for place in done]) if done else {}
        chosen = next_runs(law, known, [runs[place] for place in left], costs(runs)[left], TARGET, 2)
        done += [left[place] for place in chosen]
    fitted = capax.ECM().fit(rows(law, truth, [runs[place] for place in done]))
    assert np.isfinite(half_width(fitted, TARGET))


def test_counts_of_zero_are_left_out() -> None:
    law, truth = LAWS[0]
    known = rows(law, truth, grid((16, 64)))
    nothing = known | {"memorized_above_chance": np.zeros(40)}
    runs = grid((32, 128))
    assert next_runs(law, nothing, runs, costs(runs), TARGET, 5) == next_runs(law, None, runs, costs(runs), TARGET, 5)
    some = {name: np.append(values, values[:1]) for name, values in known.items()}
    some["memorized_above_chance"][-1] = -0.5
    assert next_runs(law, some, runs, costs(runs), TARGET, 5) == next_runs(law, known, runs, costs(runs), TARGET, 5)


# What is chosen


@pytest.mark.parametrize("known", [False, True])
def test_no_run_is_chosen_twice(known: bool) -> None:
    law, truth = LAWS[0]
    runs = grid(seeds=2)
    measured = rows(law, truth, runs[::3]) if known else None
    chosen = next_runs(law, measured, [*runs, *runs], np.tile(costs(runs), 2), TARGET, 1000)
    keys = [[*runs, *runs][place].key() for place in chosen]
    assert len(keys) == len({*keys})
    assert not known or not {*keys} & {one.key() for one in runs[::3]}


def test_fewer_are_chosen_where_there_are_no_more() -> None:
    law, truth = LAWS[0]
    runs = grid((16,))
    for measured in (None, rows(law, truth, grid((32, 64)))):
        assert sorted(next_runs(law, measured, runs, costs(runs), TARGET, 99)) == list(range(20))


def test_ties_go_to_the_first() -> None:
    law, truth = LAWS[0]
    runs = [run(64, 16, 2, seed) for seed in range(4)]
    for measured in (None, rows(law, truth, grid((32, 128)))):
        assert next_runs(law, measured, runs, np.ones(4), TARGET, 4) == [0, 1, 2, 3]


def test_of_two_that_tell_the_same_the_cheaper_is_chosen() -> None:
    law, truth = LAWS[0]
    runs = [run(64, 16, 2, seed) for seed in range(4)]
    for measured in (None, rows(law, truth, grid((32, 128)))):
        assert next_runs(law, measured, runs, np.array([4.0, 2, 1, 3]), TARGET, 2) == [2, 1]


def test_libraries_that_would_be_memorized_whole_are_avoided() -> None:
    law, truth = LAWS[0]
    runs = grid()
    expected = rows(law, truth, runs)
    chosen = next_runs(law, rows(law, truth, grid((16, 64))), runs, np.ones(len(runs)), TARGET, len(runs))
    exact = law._capacity(np.array([*truth.values()]), {name: expected[name] + 0.0 for name in law.columns})[0]
    assert (exact > 1.5 * LIBRARY).sum() >= 5
    assert not {*np.flatnonzero(exact > 1.5 * LIBRARY)} & {*chosen}
    assert {*np.flatnonzero(exact < 0.8 * LIBRARY)} <= {*chosen} | {
        place for place, one in enumerate(runs) if one.model.d_model in (16, 64)
    }


def test_what_one_column_has_not_shown_is_measured_first() -> None:
    law, truth = LAWS[0]
    known = [one for one in grid((16, 32, 64)) if one.model.n_heads == 1]
    runs = grid()
    chosen = next_runs(law, rows(law, truth, known), runs, costs(runs), TARGET, 1)
    assert runs[chosen[0]].model.n_heads > 1


def test_a_target_outside_the_domain_is_brought_inside_first() -> None:
    law, truth = LAWS[0]
    runs = [one for one in grid() if one.task.seq_len < 128]
    known = rows(law, truth, [one for one in grid((16, 32, 64)) if one.task.seq_len in (32, 64)])
    target = {"seq_len": [128, 8], "n_heads": [4, 4], "d_model": [256, 32]}
    chosen = [runs[place] for place in next_runs(law, known, runs, costs(runs), target, 8)]
    first, second = chosen[:2]  # no candidate has length 128
    assert first.model.d_model == 256 or first.task.seq_len == 8
    assert {first.model.d_model, second.model.d_model} >= {256}
    assert {first.task.seq_len, second.task.seq_len} >= {8}


def test_the_law_is_not_changed_and_choices_are_the_same_again() -> None:
    law, truth = capax.PowerLaw(), POWER
    runs = grid()
    first = next_runs(law, rows(law, truth, grid((16, 64))), runs, costs(runs), TARGET, 6)
    assert not hasattr(law, "solution_")
    assert next_runs(law, rows(law, truth, grid((16, 64))), runs, costs(runs), TARGET, 6) == first


# The interval at the target


def test_half_width_is_that_of_linear_regression() -> None:
    law, truth = LAWS[0]
    known = rows(law, truth, grid((16, 32, 64)))
    fitted = capax.PowerLaw().fit(known)

    def features(table: Any) -> np.ndarray:
        n, h, b = (np.asarray(table[name], dtype=float) for name in law.columns)
        return np.column_stack([np.ones_like(n), -np.log(n - 1), np.log(h), np.log(b)])

    several = {"seq_len": [64, 8], "n_heads": [4, 1], "d_model": [256, 512]}
    left, y = features(known), np.log(known["memorized_above_chance"])
    residuals = y - left @ np.linalg.lstsq(left, y)[0]
    sigma = np.sqrt(residuals @ residuals / 56)
    goals = features(several)
    errors = sigma * np.sqrt(np.einsum("ij,jk,ik->i", goals, np.linalg.inv(left.T @ left), goals))
    assert half_width(fitted, several) == pytest.approx(t_distribution.ppf(0.975, 56) * errors.max(), rel=1e-5)
    assert half_width(fitted, several, 0.5) == pytest.approx(t_distribution.ppf(0.75, 56) * errors.max(), rel=1e-5)


@pytest.mark.slow
def test_half_width_of_the_ecm_is_the_spread_of_its_refits() -> None:
    law, truth = LAWS[1]
    fitted = capax.ECM(n_bootstrap=200).fit(rows(law, truth, grid((16, 32, 64, 128))))
    columns = {name: np.array(values, dtype=float) for name, values in TARGET.items()}
    drawn = np.log([law._capacity(draw[:-1], columns)[0][0] for draw in fitted.bootstrap()])
    expected = t_distribution.ppf(0.975, fitted.solution_.dof) * drawn.std(ddof=1)
    assert half_width(fitted, TARGET) == pytest.approx(expected, rel=0.25)  # 200 draws, and a curved law


def test_half_width_counts_relatively_for_a_law_of_counts() -> None:
    law, truth = LAWS[0]
    known = rows(law, truth, grid((16, 32, 64)))
    fitted = capax.Polynomial(degree=1).fit(known)
    center = {"seq_len": [32], "n_heads": [2], "d_model": [64]}
    cells = [np.array(known[name], dtype=float) for name in law.columns]
    left = np.column_stack([np.ones(60), *cells])
    goal = np.array([1.0, 32, 2, 64])
    error = fitted.sigma_ * np.sqrt(goal @ np.linalg.solve(left.T @ left, goal)) / fitted.predict(center)[0]
    assert half_width(fitted, center) == pytest.approx(t_distribution.ppf(0.975, 56) * error, rel=1e-6)


def test_half_width_is_infinite_where_nothing_was_shown() -> None:
    law, truth = LAWS[0]
    along = [run(16 * step, 8 * step, 1) for step in (1, 2, 3, 4, 5, 6, 7)]
    known = rows(law, truth, along) | {"seq_len": np.array([8 * step + 1 for step in (1, 2, 3, 4, 5, 6, 7)])}
    assert half_width(capax.PowerLaw().fit(known), TARGET) == np.inf  # length and width rose together


# The driver


def test_rounds_go_on_until_the_interval_is_narrow() -> None:
    law, truth = LAWS[0]
    batches: list[list[capax.Run]] = []
    found = list(adaptive(law, grid(), TARGET, bench(law, truth, batches), cost, budget=1e9, count=6, until=0.15))
    assert all(len(batch) == 6 for batch in batches)
    assert [one.spec for one in found] == [one for batch in batches for one in batch]
    widths = [
        half_width(capax.PowerLaw().fit(rows(law, truth, [one.spec for one in found[:seen]])), TARGET)
        for seen in (len(found) - 6, len(found))
    ]
    assert widths[1] <= 0.15 < widths[0]


@pytest.mark.slow
@pytest.mark.parametrize("slower", [1.0, 3.0])
def test_the_budget_is_kept(slower: float) -> None:
    law, truth = LAWS[0]
    budget = 0.2 * costs(grid()).sum()
    batches: list[list[capax.Run]] = []
    found = list(adaptive(law, grid(), TARGET, bench(law, truth, batches, slower), cost, budget=budget, count=5))
    spent = sum(one.seconds for one in found)
    assert 0.8 * budget < spent <= budget  # the first round is cheap, and after it costs are known
    keys = [one.key for one in found]
    assert len(keys) == len({*keys})


def test_costs_are_scaled_by_what_was_measured() -> None:
    law, truth = LAWS[0]
    runs = [run(16, 8, 1), run(16, 16, 1), run(16, 32, 1), run(16, 64, 1)]
    batches: list[list[capax.Run]] = []
    list(adaptive(law, runs, TARGET, bench(law, truth, batches, 10.0), lambda _: 1.0, budget=3.0, count=1))
    assert len(batches) > 1  # each took a fraction of the second that was estimated
    batches.clear()
    tiny = costs(runs).min()
    list(adaptive(law, runs, TARGET, bench(law, truth, batches, 10.0), cost, budget=11 * tiny, count=1))
    assert len(batches) == 1  # what is left suffices for another by the estimate only


def test_every_candidate_is_tried_once_also_when_it_fails() -> None:
    law, truth = LAWS[0]
    batches: list[list[capax.Run]] = []
    measure = bench(law, truth, batches)

    def failing(runs: list[capax.Run]) -> Iterator[Measurement]:
        return (one for one in measure(runs) if one.spec.model.n_heads != 2)

    runs = grid((16, 32))
    found = list(adaptive(law, runs, TARGET, failing, cost, budget=1e9, count=7))
    asked = [one.key() for batch in batches for one in batch]
    assert sorted(asked) == sorted(one.key() for one in runs)
    assert len(found) == 30


def test_what_was_measured_before_counts() -> None:
    law, truth = LAWS[0]
    before = [measurement(law, truth, one, 1.0) for one in grid((16, 64))]
    batches: list[list[capax.Run]] = []
    runs = grid((16, 64, 128))
    found = list(adaptive(law, runs, TARGET, bench(law, truth, batches), cost, budget=1e9, count=30, measured=before))
    assert {one.spec.model.d_model for one in found} == {128}
    wide = half_width(capax.PowerLaw().fit(rows(law, truth, grid((16, 64)))), TARGET)
    for widths, further in (((16, 64), 0), ((16, 64, 256), 1)):  # one more brings the target inside the domain
        offered = grid(widths)
        measure = bench(law, truth, [])
        enough = adaptive(law, offered, TARGET, measure, cost, budget=1e9, count=1, until=1.01 * wide, measured=before)
        assert len(list(enough)) == further


# What is known afterwards


def test_what_the_law_says_of_the_target_is_its_value_and_half_width(tmp_path: Path) -> None:
    law, truth = LAWS[0]
    runs, done = grid((16, 32, 64)), grid((16, 32))
    with Store(tmp_path / "s.db") as store:
        nothing = known_at_target(runs, store, law=law)
        for one in [*done, run(48, 8, 1)]:  # the last is of another study
            store.add(measurement(law, truth, one, 1.0))
        known = known_at_target(runs, store, law=law, target={"d_model": [128]}, level=0.9)
        inside = known_at_target(runs, store, law=law, target={"d_model": [32], "seq_len": [64]})
        other = known_at_target(runs, store, law=law, target={"d_model": [32], "vocab_size": [16]})
        with pytest.raises(SpecError, match=r"^target: one architecture, got 2$"):
            known_at_target(runs, store, law=law, target={"d_model": [32, 64]})
    assert (other.inside_domain, other.target["vocab_size"]) == (False, 16)
    assert (nothing.measurements, nothing.value, nothing.interval, nothing.inside_domain) == (0, None, None, False)
    assert (known.target, known.counts) == ({"seq_len": 128, "n_heads": 4, "d_model": 128}, "sequences")
    fitted, goal = capax.PowerLaw().fit(rows(law, truth, done)), {"seq_len": [128], "n_heads": [4], "d_model": [128]}
    assert (known.measurements, known.inside_domain, inside.inside_domain) == (40, False, True)
    expected = float(fitted._capacity(fitted._theta(), columns_of(law, goal))[0][0])
    assert known.value == pytest.approx(expected, rel=0.01)  # stored counts are whole
    assert known.interval is not None
    half = half_width(fitted, goal, 0.9)
    assert np.log(known.interval.high / known.value) == pytest.approx(half, rel=0.05)
    assert np.log(known.value / known.interval.low) == pytest.approx(half, rel=0.05)


def test_what_is_left_open_has_no_interval(tmp_path: Path) -> None:
    law, truth = LAWS[0]
    runs = [run(width, length, 1) for width, length in ((8, 8), (16, 15), (32, 29), (64, 57), (128, 113))]
    with Store(tmp_path / "s.db") as store:
        for one in runs:
            store.add(measurement(law, truth, one, 1.0))
        known = known_at_target(runs, store, law=law, target={"d_model": [32]})
    assert known.value is not None
    assert known.interval is None  # length and width rose together


# Errors


@pytest.mark.parametrize("name", ["seq_len", "n_heads", "d_model"])
def test_a_target_without_a_column_is_an_error(name: str) -> None:
    law, truth = LAWS[0]
    target = {column: values for column, values in TARGET.items() if column != name}
    runs = grid((16,))
    with pytest.raises(TableError, match=name):
        next_runs(law, None, runs, costs(runs), target, 1)
    with pytest.raises(TableError, match=name):
        adaptive(law, runs, target, bench(law, truth, []), cost, budget=1.0)
    with pytest.raises(TableError, match=name):
        half_width(capax.PowerLaw().fit(rows(law, truth, grid((16, 64)))), target)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"budget": 0.0}, "budget: a positive number, got"),
        ({"budget": -1.0}, "budget: a positive number, got"),
        ({"budget": float("nan")}, "budget: a positive number, got"),
        ({"count": 0}, "count: at least 1"),
        ({"until": 0.0}, "until: a positive number, got"),
        ({"candidates": []}, "candidates: should be at least one"),
        ({"estimate": lambda _: 0.0}, "seconds: should be above 0"),
        ({"target": {name: [] for name in TARGET}}, "target: should have at least one row"),
    ],
)
def test_errors_come_at_once(changes: dict[str, Any], says: str) -> None:
    law, truth = LAWS[0]
    usual = {"candidates": grid((16,)), "estimate": cost, "budget": 1.0, "target": TARGET}
    given = usual | {"run_batch": bench(law, truth, [])} | changes
    with pytest.raises(SpecError, match=says):
        adaptive(law, **given)


def test_errors_of_a_choice() -> None:
    law, truth = LAWS[0]
    runs = grid((16,))
    with pytest.raises(SpecError, match="candidates"):
        next_runs(law, None, [], np.array([]), TARGET, 1)
    with pytest.raises(SpecError, match=r"one per candidate \(20\)"):
        next_runs(law, None, runs, np.ones(3), TARGET, 1)
    with pytest.raises(SpecError, match="count"):
        next_runs(law, None, runs, costs(runs), TARGET, 0)
    mixed = [*runs, run(16, 8, 1).replace(training=capax.Training(lr=0.1))]
    with pytest.raises(LawError, match=r"^lr: "):
        next_runs(law, None, mixed, costs(mixed), TARGET, 1)
    other = rows(law, truth, runs) | {"lr": np.full(20, 0.1)}
    with pytest.raises(LawError, match=r"^lr: .* 0\.001, .* 0\.1"):
        next_runs(law, other, runs, costs(runs), TARGET, 1)
    two = rows(law, truth, runs) | {"loss": np.array(["all"] * 19 + ["last"])}
    with pytest.raises(LawError, match=r"^loss: "):
        next_runs(law, two, runs, costs(runs), TARGET, 1)


def test_candidates_that_differ_in_a_field_of_their_users_are_of_several_protocols() -> None:
    class Grouped(capax.Transformer):
        model: Literal["grouped"] = "grouped"  # type: ignore[assignment]
        grouping: str = "a"

    law, truth = LAWS[0]
    try:
        runs = [run(16, 8, 1).replace(model=Grouped(grouping=word)) for word in "ab"]
        with pytest.raises(LawError, match=r"^grouping: .* a, b"):
            next_runs(law, None, runs, costs(runs), TARGET, 1)
        assert next_runs(law, None, runs[:1], costs(runs[:1]), TARGET, 1) == [0]
        before = rows(law, truth, runs[1:]) | {"task": ["sequences"], "model": ["grouped"], "grouping": ["b"]}
        with pytest.raises(LawError, match=r"^grouping: .* a, .* b"):
            next_runs(law, before, runs[:1], costs(runs[:1]), TARGET, 1)
    finally:
        del Model.registry["grouped"]


def test_errors_of_a_width() -> None:
    law, truth = LAWS[0]
    with pytest.raises(LawError, match="level"):
        half_width(capax.PowerLaw().fit(rows(law, truth, grid((16, 64)))), TARGET, 1.0)
    with pytest.raises(LawError, match=r"^ecm: "):
        half_width(capax.ECM.published(), TARGET)


def test_a_start_weighs_distance_by_the_root_of_the_seconds() -> None:
    """Three times as far for four times as much is nearer to worth it than not, for ten times as much it is not."""
    points, known = np.array([[1.0], [3.0], [0.0]]), np.array([[0.0]])
    free = np.array([True, True, False])
    assert _spread(points, known, np.array([1.0, 4.0, 1.0]), free, 2) == [1, 0]
    assert _spread(points, known, np.array([1.0, 10.0, 1.0]), free, 2) == [0, 1]
