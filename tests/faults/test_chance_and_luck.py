"""Chance is that of the best constant answer, where it recalls more than a uniform guess; luck is no memory."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from scipy.stats import binom

import capax
from capax.cli import main, measurement
from capax.errors import LawError, TableError
from capax.results import Measurement, luck_p
from capax.seeds import numpy_generator
from capax.store import table_files
from capax.tasks.associations import draw as draw_associations
from capax.tasks.sequences import SequenceLibrary, draw


def skewed(path: Path) -> capax.Sequences:
    """1000 sequences of 5 tokens of 20, of which 581 end in one token."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(20, size=(1000, 5))
    tokens[:, :4] = np.array(np.unravel_index(rng.permutation(20**4)[:1000], (20,) * 4)).T
    tokens[:, 4] = np.where(np.arange(1000) < 581, 7, rng.integers(8, 20, size=1000))
    np.save(path / "skewed.npy", tokens)
    return capax.Sequences(library=str(path / "skewed.npy"), loss="last")


def test_a_network_that_says_one_word_is_not_above_chance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = skewed(tmp_path)
    targets = np.load(task.library)[:, -1]
    narrow = capax.Transformer(d_model=4, d_head=2, readout="trained")
    short = capax.Training(max_steps=40, batch_size=1000, lr=0.05)
    run = capax.measure(task, narrow, short, restarts=1)
    assert run.memorized == 581  # it says one word
    assert (run.chance, run.chance_constant, run.chance_uniform) == (581, 581, 50)
    assert run.memorized_above_chance == run.bits == run.bits_per_parameter == 0
    assert run.above_chance is False
    evaluations = len(run.members[0].curve.epoch)
    assert evaluations > 1
    assert run.chance_p == pytest.approx(1 - binom.cdf(580, 1000, 0.581) ** evaluations, rel=1e-9)  # of the best
    shares = np.bincount(targets)[7:] / 1000
    assert run.target_entropy == pytest.approx(-(shares * np.log2(shares)).sum())
    assert run.bits_per_item == run.target_entropy < run.bits_per_item_uniform == np.log2(20)
    assert Measurement.from_json(run.to_json()) == run
    measurement.show(run)
    shown = capsys.readouterr().out
    assert "581 by luck (guesses 50, one constant answer 581); not significantly above chance (p 1, not" in shown
    assert f"bits per item     {run.target_entropy:.4g}, the entropy of the targets; 4.322 of a uniform guess" in shown


@pytest.mark.parametrize(
    ("recall", "targets", "recalled", "entropy"),
    [
        ("last", [[0, 1, 2], [1, 1, 2], [2, 1, 0], [3, 0, 2]], 3, 0.8112781),
        ("all", [[0, 1, 2], [1, 1, 2], [2, 1, 0], [3, 0, 2]], 2, 2 * 0.8112781),  # (0 2), (1 2) twice, (1 0)
        ("all", [[0, 1, 2], [0, 1, 3], [0, 2, 2], [0, 2, 3]], 1, 2.0),
    ],
)
def test_the_best_constant_answer_is_right_in_all_positions_that_count(
    recall: Any, targets: list[list[int]], recalled: int, entropy: float
) -> None:
    task = capax.Sequences(seq_len=3, vocab_size=4, library_size=4, recall=recall)
    library = SequenceLibrary(task, torch.tensor([targets + [[3, 3, 3]] * 5]), (4,))  # rows from the fourth are padding
    found = library.constant(0)
    tails = [tuple(row[1:] if recall == "all" else row[-1:]) for row in targets]
    every = itertools.product(range(4), repeat=len(tails[0]))
    assert found.recalled == recalled == max(tails.count(answer) for answer in every)
    assert found.entropy == pytest.approx(entropy)


@pytest.mark.parametrize("recall", ["last", "all"])
def test_chance_of_a_drawn_library_is_its_own_commonest_target(recall: Any) -> None:
    task = capax.Sequences(seq_len=3, vocab_size=4, library_size=16, recall=recall)
    run = capax.measure(task, capax.Transformer(d_model=4), capax.Training(max_epochs=1), restarts=2, seed=3)
    library = draw(task, 16, numpy_generator(3, "library", 0))
    answers = library[:, -1:] if recall == "last" else library[:, 1:]
    assert run.chance_constant == np.unique(answers, axis=0, return_counts=True)[1].max()
    assert run.chance_uniform == 16 / 4 ** (1 if recall == "last" else 2)
    assert run.chance == max(run.chance_constant, run.chance_uniform)
    assert run.bits_per_item == run.bits_per_item_uniform  # it was drawn uniformly: its own frequencies are luck
    assert run.target_entropy < run.bits_per_item


def test_chance_of_classes_is_the_commonest_of_the_library() -> None:
    task = capax.Associations(context_size=2, library_size=30, n_classes=3)
    model, training = capax.AssociativeAttention(d_model=4, d_head=2), capax.Training(max_steps=2)
    run = capax.measure(task, model, training, restarts=2)
    counts = np.bincount(draw_associations(task, 30, 4, numpy_generator(0, "library", 0)).labels)
    assert (run.chance_uniform, run.chance_constant) == (10, counts.max())
    assert run.chance == counts.max() > 10


def test_chance_of_trials_and_searches_is_that_of_their_libraries() -> None:
    task = capax.Sequences(seq_len=3, vocab_size=3, library_size=8)
    model, training = capax.Transformer(d_model=2), capax.Training(max_epochs=1)
    shatter = capax.measure(task, model, training, protocol=capax.Shatter(trials=4))
    best = max(shatter.members, key=lambda member: member.memorized)
    library = draw(task, 8, numpy_generator(0, "library", best.member))
    assert shatter.chance_constant == np.bincount(library[:, -1]).max()
    search = capax.measure(task, model, training, protocol=capax.Mls(first_size=2, seeds=2, max_trainings=8))
    assert search.chance_constant <= max(search.memorized, 1)


@pytest.mark.parametrize("probability", [0.01, 0.3, 0.58])
@pytest.mark.parametrize("trainings", [1, 5])
def test_luck_is_ruled_out_at_one_percent(probability: float, trainings: int) -> None:
    """The exact binomial test, against its definition; the best of several trainings has to be better."""
    for k in range(201):
        single = binom.sf(k - 1, 200, probability)
        p = 1 - (1 - single) ** trainings
        assert luck_p(k, probability, 200, trainings) == pytest.approx(p, abs=1e-12)
    assert luck_p(200, 1.0, 200) == 1
    assert luck_p(0, 0.0, 200) == 1
    assert luck_p(1, 0.0, 200) == 0


def test_runs_of_earlier_versions_are_read_and_tested_against_their_chance() -> None:
    task = capax.Sequences(seq_len=4, vocab_size=10, library_size=60)
    run = capax.measure(task, capax.Transformer(d_model=4), capax.Training(max_epochs=2), restarts=2)
    stored = json.loads(run.to_json())
    for name in NEW:
        del stored[name]
    for count, above in ((6, False), (13, False), (16, True), (60, True)):
        old = Measurement.from_json(json.dumps(stored | {"memorized": count, "chance": 6.0}))
        assert (old.chance_uniform, old.chance_constant, old.bits_per_item, old.above_chance) == (
            None,
            None,
            None,
            above,
        )
    assert old.key == run.key


NEW = (
    "chance_uniform",
    "chance_constant",
    "chance_p",
    "above_chance",
    "bits_per_item",
    "bits_per_item_uniform",
    "target_entropy",
)


def test_counts_that_luck_explains_are_no_values_in_a_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three rows of noise move the law's exponents; told to be luck they are left out, and the law says so."""
    grid = [(n, h, d) for n in (8, 16, 32) for h in (1, 2) for d in (16, 32, 64)]
    n, h, d = (np.array(column, dtype=float) for column in zip(*grid, strict=True))
    columns = {"seq_len": n, "n_heads": h, "d_model": d, "library_size": np.full(18, 2000.0)}
    counts = 3.0 * d**1.5 / n**0.7 * h**0.4
    clean = pl.DataFrame(columns | {"memorized_above_chance": counts})
    noise = clean.head(3).with_columns(memorized_above_chance=pl.Series([1.0, 900.0, -5.0]))
    rows = pl.concat([clean.with_columns(above_chance=pl.lit(True)), noise.with_columns(above_chance=pl.lit(False))])
    fitted, expected = capax.PowerLaw(n_bootstrap=10).fit(rows), capax.PowerLaw(n_bootstrap=10).fit(clean)
    assert fitted.parameters_ == expected.parameters_
    assert "3 runs were not significantly above chance and left out" in fitted.notes_
    with pytest.raises(TableError, match="above chance"):
        capax.PowerLaw().fit(rows.filter(~pl.col("above_chance")))
    table_files.to_file(rows, tmp_path / "rows.csv")
    with pytest.raises(SystemExit) as exit_:
        main(["fit", "--data", str(tmp_path / "rows.csv"), "--law", "power", "--json"])
    assert exit_.value.code == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert notes.count("3 runs were not significantly above chance and left out") == 1


def test_a_raw_count_is_a_value_in_a_fit_even_where_luck_explains_it() -> None:
    d = np.array([8.0, 16.0, 32.0, 64.0, 128.0, 256.0])
    columns = {"seq_len": 8.0, "n_heads": 1.0, "d_model": d, "library_size": 2000.0, "memorized": 3.0 * d}
    rows = pl.DataFrame(columns | {"above_chance": [False, False, True, True, True, True]})
    fitted = capax.PowerLaw(axes=["d_model"], target="memorized", n_bootstrap=10).fit(rows)
    assert fitted.source_ == "6 measurements"
    assert not any("chance" in note for note in fitted.notes_)


def test_a_fit_that_lacks_rows_says_how_many_were_left_out_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Eight rows, of which one is above chance: "got 1 of 1" alone hides the other seven."""
    columns = {"seq_len": 8.0, "n_heads": 1.0, "library_size": 99.0, "d_model": np.arange(8.0, 16.0)}
    rows = pl.DataFrame(columns | {"memorized_above_chance": 9.0, "above_chance": [True] + 7 * [False]})
    said = "got 1 of 1; 7 runs were not significantly above chance and left out"
    with pytest.raises(LawError, match=said):
        capax.PowerLaw().fit(rows)
    assert said in capax.compare(rows, [capax.PowerLaw()]).scores[0].reasons[0]
    table_files.to_file(rows, tmp_path / "rows.csv")
    with pytest.raises(SystemExit) as exit_:
        main(["fit", "--data", str(tmp_path / "rows.csv"), "--law", "power"])
    assert (exit_.value.code, capsys.readouterr().err.count(said)) == (2, 1)
