"""Adaptive sweeps for the law of capacity: its priors, spreads and kinds, and targets that no run of a study has."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as t_distribution

import capax
from capax.errors import SpecError
from capax.laws.capacity import PRIOR
from capax.sweeps.informative import candidate_table, half_width, next_runs
from capax.sweeps.rounds import adaptive
from capax.sweeps.target import columns_of_target


def networks(*, seeds: int = 1, **changed: Any) -> list[capax.Run]:
    """Networks to measure by protocol capacity, of several depths, heads, vocabularies, and with an FFN or none."""
    cells = product((8, 12, 16, 24), (1, 2, 4), (1, 2), (16, 64), ("mlp", "none"), range(seeds))
    return [
        capax.Run(
            task=capax.Sequences(seq_len=8, vocab_size=vocab_size),
            model=capax.Transformer(
                **{"d_model": d_model, "n_layers": n_layers, "n_heads": n_heads, "d_head": 4, "ffn": ffn} | changed
            ),
            protocol=capax.Capacity(restarts=2),
            seed=seed,
        )
        for d_model, n_layers, n_heads, vocab_size, ffn, seed in cells
    ]


def held(runs: list[capax.Run]) -> dict[str, Any]:
    """What they hold, each sixth a lower bound; those without FFN spread widely, as networks do."""
    table = candidate_table(runs)
    noise = np.random.default_rng(3).standard_normal(len(runs))
    wide = np.where(table["ffn"] == "none", 0.15, 0.04)
    bits = 2.4 * table["effective_parameters"] * np.exp(-0.4 / table["n_layers"] + wide * noise)
    bound = np.arange(len(runs)) % 6 == 5
    return table | {
        "key": np.array([one.key() for one in runs]),
        "capacity_bits": np.where(bound, np.nan, bits),
        "capacity_reached": np.where(bound, 0.9, 1.0) * bits,
    }


def told(fitted: capax.CapacityLaw, table: Any) -> np.ndarray:
    """Derivatives of the logarithm by the logarithm of k and by the exponents, `(rows, parameters)`."""
    logs = [factor.log(*(fitted._column(table, name) for name in factor.columns)) for factor in fitted.factors]
    return np.column_stack([np.ones_like(logs[0]), *logs])


def posterior(fitted: capax.CapacityLaw, rows: list[np.ndarray]) -> np.ndarray:
    """Their covariance, of rows in units of the spread, and of the prior."""
    deviations = fitted.sigma_ / np.array([PRIOR[name] for name in fitted.names])
    return np.linalg.inv(np.concatenate(rows).T @ np.concatenate(rows) + np.diag(deviations**2))


def spreads(fitted: capax.CapacityLaw, table: Any) -> np.ndarray:
    return np.where(np.asarray(table["ffn"]) == "none", fitted.spreads_["ffn=none"], 1.0)[:, None]


FAR = candidate_table(
    [one for one in networks(d_model=96, d_head=24, n_heads=4) if (one.model.n_layers, one.model.ffn) == (4, "mlp")][:1]
)


@pytest.mark.slow
def test_half_width_of_the_law_of_capacity_is_that_of_its_posterior() -> None:
    known = held(networks())
    fitted = capax.CapacityLaw(n_bootstrap=1000).fit(known)
    seen = {name: values[np.isfinite(known["capacity_bits"])] for name, values in known.items()}
    assert fitted.spreads_["ffn=none"] > 1.5
    goal = told(fitted, FAR)[0]
    covariance = posterior(fitted, [told(fitted, seen) / spreads(fitted, seen)])
    expected = t_distribution.ppf(0.975, fitted.solution_.dof) * fitted.sigma_ * np.sqrt(goal @ covariance @ goal)
    assert half_width(fitted, FAR) == pytest.approx(expected, rel=1e-8)
    drawn = fitted.bootstrap()[:, :-1]
    said = np.log(drawn[:, 0]) + drawn[:, 1:] @ goal[1:]
    assert half_width(fitted, FAR) == pytest.approx(np.quantile(said, [0.025, 0.975]) @ [-0.5, 0.5], rel=0.15)


@pytest.mark.slow
def test_choices_by_the_law_of_capacity_are_those_of_brute_force() -> None:
    every = networks()
    known = held(every[::3])
    offered = [one for place, one in enumerate(every) if place % 3]
    seconds = np.array([one.task.vocab_size * one.model.n_layers for one in offered], dtype=float)
    law = capax.CapacityLaw()
    fitted = capax.CapacityLaw().fit(known)
    table = candidate_table(offered)
    seen = {name: values[np.isfinite(known["capacity_bits"])] for name, values in known.items()}
    rows, candidates, taken = [told(fitted, seen) / spreads(fitted, seen)], told(fitted, table), list[int]()
    candidates, goal = candidates / spreads(fitted, table), told(fitted, FAR)[0]
    for _ in range(5):
        before = goal @ posterior(fitted, rows) @ goal
        after = [goal @ posterior(fitted, [*rows, one[None]]) @ goal for one in candidates]
        worth = (before - np.array(after)) / seconds
        worth[taken] = -np.inf
        taken.append(int(worth.argmax()))
        rows.append(candidates[taken[-1]][None])
    assert next_runs(law, known, offered, seconds, FAR, 5) == taken


def test_an_architecture_is_measured_once_where_repeats_tell_nothing() -> None:
    runs = networks(seeds=2)
    known = held(runs[::4])  # one seed of every other architecture
    chosen = next_runs(capax.CapacityLaw(), known, runs, np.ones(len(runs)), FAR, len(runs))
    assert sorted(place // 2 for place in chosen) == list(range(1, len(runs) // 2, 2))


def test_a_law_that_says_what_distance_costs_needs_no_run_as_large_as_the_target() -> None:
    runs = networks()
    small = [one for one in runs if one.model.d_model == 8]
    large = networks(d_model=96, d_head=24, n_heads=4)[:1]
    seconds = np.array([1.0] * len(runs) + [1e9])
    chosen = next_runs(capax.CapacityLaw(), held(small), [*runs, *large], seconds, FAR, 4)
    assert len(runs) not in chosen
    assert list(adaptive(capax.CapacityLaw(), large, FAR, lambda _: [], lambda _: 1.0, budget=9.0, until=9.0)) == []


@pytest.mark.parametrize("converged", [0, 3])
def test_before_enough_have_converged_runs_are_spread(converged: int) -> None:
    runs = networks()
    known = held(runs[:8])
    known["capacity_bits"][converged:] = np.nan
    seconds = np.ones(len(runs))
    chosen = next_runs(capax.CapacityLaw(), known, runs, seconds, FAR, 6)
    assert len({*chosen}) == 6
    assert min(chosen) >= 8
    assert len({runs[place].model.d_model for place in chosen}) > 1


# The target


def test_what_a_target_does_not_name_is_that_of_the_largest_run() -> None:
    runs = networks()
    offered, law = candidate_table(runs), capax.CapacityLaw()
    largest = columns_of_target(law, runs, offered, {})
    assert {name: largest[name][0] for name in law.columns} == {
        **{"n_layers": 4, "n_heads": 2, "d_head": 4, "d_model": 24, "vocab_size": 64, "seq_len": 8},
        **{"loss": "all", "embeddings": "frozen", "ffn": "mlp", "effective_parameters": 21_013},
    }
    model = capax.Transformer(d_model=96, n_layers=8, n_heads=2, d_head=4, ffn="none")
    several = columns_of_target(law, runs, offered, {"d_model": [96.0, 24], "n_layers": [8, 4], "ffn": ["none", "mlp"]})
    assert several["effective_parameters"] == [model.effective_parameters(vocab_size=64, context=7), 21_013]
    assert several["n_layers"] == [8, 4]
    assert columns_of_target(law, runs, offered, {"effective_parameters": [1e6]})["effective_parameters"] == [1e6]


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ({"width": [64]}, "^target: allowed are effective_parameters, .* got 'width' = 64$"),
        ({"d_model": [64, 128], "n_layers": [1]}, "^target: as many values of each column, got 1 and 2$"),
        ({"d_model": [6.5]}, "^target: d_model: .* 6.5"),
        ({"ffn": ["wide"]}, "^target: ffn: .* 'wide'"),
        ({"d_model": []}, "^target: at least one architecture, got none$"),
    ],
)
def test_a_target_that_is_no_architecture_is_refused(target: dict[str, Any], says: str) -> None:
    runs = networks()
    with pytest.raises(SpecError, match=says):
        columns_of_target(capax.CapacityLaw(), runs, candidate_table(runs), target)
