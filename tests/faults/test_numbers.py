"""Numbers that were wrong without a word: what is no spec, no integer, no law is refused, and chance is what it is."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from scipy.stats import binom

import capax
from capax.cli import main, measurement
from capax.errors import CapaxError, LawError, SpecError, TableError
from capax.laws.files import from_json, load_law, to_json
from capax.results import Measurement, beyond_luck
from capax.seeds import numpy_generator
from capax.specs import Spec
from capax.store import tables
from capax.sweeps.executors import Processes
from capax.tasks.associations import draw as draw_associations
from capax.tasks.sequences import SequenceLibrary, draw

SMALL = capax.Sequences(seq_len=4, vocab_size=8, library_size=20)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that ends with code 2."""
    with pytest.raises(SystemExit) as exit_:
        main(list(arguments))
    out, err = capsys.readouterr()
    assert (exit_.value.code, out) == (2, ""), err
    assert err.startswith("capax: ")
    assert err.count("\n") == 1
    return err


# A subclass of a spec was trained, and stored, as the spec that it is made from


@pytest.mark.parametrize(
    "base",
    [
        *(capax.Sequences, capax.Associations, capax.Relations, capax.Transformer, capax.AssociativeAttention),
        *(capax.KeyQueryChannel, capax.Module, capax.Training, capax.Mac, capax.Mls, capax.Shatter, capax.Budget),
        capax.Run,
    ],
)
def test_a_subclass_of_a_spec_is_refused(base: type[Spec]) -> None:
    class Other(base):  # type: ignore[misc, valid-type]
        n_kv_heads: int = 1

    with pytest.raises(SpecError, match=f"^Other: .* of {base.__name__}"):
        Other(n_kv_heads=2)


def test_a_subclass_that_names_itself_is_refused_too() -> None:
    class GQA(capax.Transformer):
        model: Any = "gqa"

    for made in (GQA, lambda: GQA.model_validate({}), lambda: GQA.model_validate_json("{}")):
        with pytest.raises(SpecError, match=r"^GQA: has no tag.*Literal\[\"gqa\"\]"):
            made()


# Fractions were rounded


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("measure sequences --restarts 1.5", "restarts: should be an integer, got '1.5'"),
        ("measure sequences --seed 1.5", "seed: should be an integer, got '1.5'"),
        ("measure sequences --batch-size 1.5e1", "batch_size: should be an integer, got '1.5e1'"),
        ("measure sequences --workers 1.5", "workers: should be an integer, got '1.5'"),
        ("measure associations --n-classes 2.5", "n_classes: should be an integer, got '2.5'"),
        ("measure relations --n-items 12.5", "n_items: should be an integer, got '12.5'"),
        ("measure relations --n-items 12 --n-heads 1.5", "n_heads: should be an integer, got '1.5'"),
        ("predict --n-heads 1.6 --d-model 32 --seq-len 8", "n_heads: should be an integer, got '1.6'"),
        ("plan --items 100.7 --seq-len 8", "items: should be an integer, got '100.7'"),
        ("plan --items 100 --seq-len 8 --n-heads 1.5,2", "n_heads: integers separated by commas, got '1.5,2'"),
        ("fit --data reference --law polynomial --degree 2.5", "degree: should be an integer, got '2.5'"),
        ("sweep none.toml --workers 1.5", "workers: should be an integer, got '1.5'"),
        ("bounds --n-heads 1.5", "n_heads: should be an integer, got '1.5'"),
        ("runs probe abc --trials 9.9", "trials: should be an integer, got '9.9'"),
    ],
)
def test_a_flag_takes_no_fraction_for_an_integer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refused(capsys, *arguments.split())
    assert not list(tmp_path.iterdir())


def test_a_flag_takes_a_fraction_that_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    answers = []
    for heads in ("2", "2.0", "+2.00"):
        with pytest.raises(SystemExit):
            main(
                [
                    "predict",
                    "--n-heads",
                    heads,
                    "--d-model",
                    "32",
                    "--seq-len",
                    "8",
                    "--law",
                    "reference:power",
                    "--json",
                ]
            )
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0] == answers[1] == answers[2]
    large = "9007199254740993.0"  # no float
    assert "got 9007199254740993" in refused(
        capsys,
        "predict",
        "--n-heads",
        "2",
        "--d-model",
        "32",
        "--seq-len",
        "8",
        "--vocab-size",
        large,
        "--law",
        "reference:power",
    )


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: capax.plan("reference:power", 100.7, seq_len=8), "items: should be a whole number, got 100.7"),  # type: ignore[arg-type]
        (lambda: capax.plan("reference:power", 100, seq_len=8.5), "seq_len: should be a whole number, got 8.5"),  # type: ignore[arg-type]
        (
            lambda: capax.plan("reference:power", 100, seq_len=8, n_heads=[1.5]),
            "n_heads: should be a whole number, got 1.5",
        ),  # type: ignore[list-item]
        (lambda: capax.plan("reference:power", float("inf"), seq_len=8), "items: should be a whole number, got inf"),  # type: ignore[arg-type]
        (lambda: capax.plan("reference:power", True, seq_len=8), "items: should be a whole number, got True"),
        (
            lambda: capax.predict("reference:power", n_heads=1, d_model=32, seq_len=8.5),  # type: ignore[arg-type]
            "seq_len: should be a whole number, got 8.5",
        ),
        (
            lambda: capax.plan("reference:association", 9.5, context_size=8),
            "items: should be a whole number, got 9.5",
        ),  # type: ignore[arg-type]
        (
            lambda: capax.predict("reference:relation", n_edges=99.5, d_model=32),  # type: ignore[arg-type]
            "n_edges: should be a whole number, got 99.5",
        ),
        (lambda: capax.Transformer(n_heads=1.6), "n_heads: "),  # type: ignore[arg-type]
        (lambda: capax.Transformer(n_heads=True), "n_heads: should be no truth value, got True"),
        (lambda: capax.Run.model_validate_json(_run(seed=1.5)), "seed: "),
        (lambda: capax.Run.model_validate_json(_run(seed=True)), "seed: should be no truth value, got True"),
        (lambda: Processes(1.5), "workers: should be a whole number, got 1.5"),  # type: ignore[arg-type]
        (lambda: capax.measure(SMALL, capax.Transformer(), restarts=1.5), "restarts: "),  # type: ignore[arg-type]
    ],
)
def test_a_fraction_is_no_integer_in_python(call: Any, said: str) -> None:
    with pytest.raises(CapaxError) as error:
        call()
    assert str(error.value).startswith(said)


def _run(**fields: Any) -> str:
    return json.dumps(capax.Run(task=SMALL, model=capax.Transformer()).model_dump(mode="json") | fields)


@pytest.mark.parametrize("field", ["restarts = 1.5", "restarts = true"])
def test_a_fraction_is_no_integer_in_a_study(tmp_path: Path, field: str) -> None:
    (tmp_path / "s.toml").write_text(f"[task]\nlibrary_size = 20\n[protocol]\n{field}\n")
    with pytest.raises(SpecError, match=r"s\.toml: restarts: "):
        next(iter(capax.sweep(tmp_path / "s.toml", tmp_path / "s.db")))


# A law that is none said "between nan and nan", or a range upside down

NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("sigma", value) for value in (NAN, -0.1, 0.0, INFINITE)),
        *(("deviance", value) for value in (NAN, -1.0)),
        ("dof", -1),
        ("dof", 1.5),
        *(("values.k", value) for value in (NAN, INFINITE)),
        ("held", {"z": [1.0, "?"]}),
        ("undetermined", {"z": "?"}),
        ("draws.3.4", NAN),
        ("draws.3.4", -0.2),
        ("draws.3.0", NAN),
        ("draws", []),
        ("domain.ranges.d_model", [64, 16]),
        ("domain.ranges.d_model", [NAN, 64]),
        ("domain.ranges.d_model", [16, INFINITE]),
        ("domain.ranges", {"seq_len": [8, 32], "n_heads": [1, 4]}),
        ("domain.largest_library", NAN),
        ("columns", {"seq_len": [8.0]}),
        ("counts.0", NAN),
        ("counts.0", INFINITE),
        ("library", [2000.0]),
        ("options.n_bootstrap", 1.5),
        ("options.target", None),
    ],
)
def test_a_law_of_impossible_numbers_is_refused(tmp_path: Path, field: str, value: Any) -> None:
    file = json.loads(to_json(load_law("reference:power")))
    *parents, last = (int(name) if name.isdecimal() else name for name in field.split("."))
    place: Any = file
    for name in parents:
        place = place[name]
    place[last] = value
    (tmp_path / "law.json").write_text(json.dumps(file))
    with pytest.raises(CapaxError) as error:
        load_law(tmp_path / "law.json")
    line = str(error.value)
    assert line.startswith(f"law: {tmp_path / 'law.json'} is not a law: {field.split('.')[0]}")
    assert len(line) < 300 + len(str(tmp_path))


def test_laws_with_infinite_parameters_that_say_something_are_kept() -> None:
    """The capacity model of the reference study has an exponent that is infinite, and finite counts."""
    law = load_law("reference:ecm")
    assert to_json(from_json(to_json(law))) == to_json(law)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"law":' * 100_000, "null", "\x00"])
def test_a_law_that_is_nested_without_end_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "law.json").write_text(text)
    with pytest.raises(CapaxError, match="not a law"):
        load_law(tmp_path / "law.json")


def test_a_link_to_itself_is_no_law(tmp_path: Path) -> None:
    (tmp_path / "law.json").symlink_to(tmp_path / "law.json")
    with pytest.raises(CapaxError, match=r"^law: a JSON file"):
        load_law(tmp_path / "law.json")


@pytest.mark.parametrize("value", ["many", NAN, 1.5, 10**30])
def test_a_law_whose_protocol_cannot_be_is_refused_when_it_is_asked(tmp_path: Path, value: Any) -> None:
    file = json.loads(to_json(load_law("reference:power")))
    file["domain"]["protocol"]["vocab_size"] = value
    (tmp_path / "law.json").write_text(json.dumps(file))
    with pytest.raises(CapaxError, match="vocab_size"):
        capax.plan(str(tmp_path / "law.json"), 100, seq_len=8)


def test_a_domain_without_end_is_not_written_out(tmp_path: Path) -> None:
    file = json.loads(to_json(load_law("reference:power")))
    file["domain"]["ranges"]["n_heads"] = [1, 1e12]
    (tmp_path / "law.json").write_text(json.dumps(file))
    with pytest.raises(CapaxError, match=r"^n_heads: .*1e\+12"):
        capax.plan(str(tmp_path / "law.json"), 100, seq_len=8)


# Chance was that of a uniform guess where one constant answer recalls more


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
    shares = np.bincount(targets)[7:] / 1000
    assert run.target_entropy == pytest.approx(-(shares * np.log2(shares)).sum())
    assert run.bits_per_item == run.target_entropy < run.bits_per_item_uniform == np.log2(20)
    assert Measurement.from_json(run.to_json()) == run
    measurement.show(run)
    shown = capsys.readouterr().out
    assert "581 by luck (guesses 50, one constant answer 581); not significantly above chance" in shown
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
        assert beyond_luck(k, probability, 200, trainings) == (1 - (1 - single) ** trainings <= 0.01)
    assert not beyond_luck(200, 1.0, 200)
    assert not beyond_luck(0, 0.0, 200)
    assert beyond_luck(1, 0.0, 200)


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


NEW = ("chance_uniform", "chance_constant", "above_chance", "bits_per_item", "bits_per_item_uniform", "target_entropy")


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
    tables.to_file(rows, tmp_path / "rows.csv")
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
    tables.to_file(rows, tmp_path / "rows.csv")
    with pytest.raises(SystemExit) as exit_:
        main(["fit", "--data", str(tmp_path / "rows.csv"), "--law", "power"])
    assert (exit_.value.code, capsys.readouterr().err.count(said)) == (2, 1)


# A polynomial predicts counts below zero


def test_a_count_below_zero_is_no_prediction_and_is_told_of_its_errors() -> None:
    grid = [(n, h, d) for n in (8, 16, 32) for h in (1, 2) for d in (16, 32, 64, 256)]
    n, h, d = (np.array(column, dtype=float) for column in zip(*grid, strict=True))
    counts = 100 * np.minimum(d, 64) * h / n
    rows = pl.DataFrame({"seq_len": n, "n_heads": h, "d_model": d, "memorized_above_chance": counts})
    law = capax.Polynomial(degree=2, n_bootstrap=10)
    (score,) = capax.compare(rows, [law]).scores
    assert "left out: it predicts counts below zero, which no measurement can have" in score.reasons
    assert min(score.predicted_left_out or ()) < 0
    law.fit(rows)
    below = next(one for one in rows.to_dicts() if law.predict(pl.DataFrame([one]))[0] < 0)
    with pytest.raises(LawError, match=r"^polynomial: .* -\d"):
        capax.predict(law, **{name: int(below[name]) for name in law.columns})


# What is no law, and specs that nobody checked


def test_what_is_no_law_is_refused() -> None:
    for asks in (lambda: capax.plan(17, 10, seq_len=8), lambda: capax.load_law(17)):  # type: ignore[arg-type]
        with pytest.raises(LawError, match=r"^law: .*got 17$"):
            asks()


def test_a_subclass_of_a_spec_that_was_made_without_checks_is_refused_where_it_is_used() -> None:
    class Other(capax.Transformer):
        pass

    class Others(capax.Sequences):
        pass

    odd = (Others.model_construct(seq_len=4), Other.model_construct(n_heads=1, d_model=8))
    task, model = (capax.Sequences(library_size=9), capax.Transformer())
    run = capax.Run(task=task, model=model)
    for asks in (
        lambda: capax.bounds(odd[1], seq_len=4),
        lambda: capax.bounds(run.model_copy(update={"task": odd[0]})),
        lambda: capax.bounds(run.model_copy(update={"model": odd[1]})),
        lambda: capax.measure(odd[0], model),
        lambda: capax.measure(task, odd[1]),
    ):
        with pytest.raises(SpecError, match=r"^Others?: has the tag .* registers it"):
            asks()


# Restarts of a pretrained factory are one and the same


FACTORY = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, vocab_size, drawn=False):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(7)  # as a checkpoint would be
            self.trunk = nn.Embedding(vocab_size, 8)
            self.head = nn.Linear(8, vocab_size)
        if drawn:
            self.head = nn.Linear(8, vocab_size)

    def forward(self, tokens):
        return self.head(self.trunk(tokens))
"""


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("pretrained")
    (folder / "pretrained_net.py").write_text(FACTORY)
    sys.path.insert(0, str(folder))
    yield "pretrained_net:Net"
    sys.path.remove(str(folder))


@pytest.mark.parametrize("drawn", [False, True])
def test_restarts_of_a_pretrained_factory_are_told_and_have_no_interval(pretrained: str, drawn: bool) -> None:
    model = capax.Module(factory=pretrained, arguments={"drawn": drawn})
    run = capax.measure(SMALL, model, capax.Training(max_epochs=2), restarts=2)
    seeds = next(one for one in capax.check_model(model, SMALL).checks if one.check == "seeds")
    assert seeds.verdict == "failed"
    (note,) = (note for note in run.notes if note.startswith("seeds: "))
    assert note.startswith(f"seeds: {seeds.evidence}")
    assert (run.interval is None) is not drawn
    assert all((unit.interval is None) is not drawn for unit in run.units)
    assert ("no interval" in note) is not drawn
    first, second = run.members
    assert drawn or first.curve.memorized[0] == second.curve.memorized[0]
