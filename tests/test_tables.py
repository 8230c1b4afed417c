"""Measurements as tables: complete, typed, and refused when they cannot be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import capax
from capax.errors import CapaxError, StoreError
from capax.laws.protocol_columns import PROTOCOL, protocol_values
from capax.planning.cost import operations
from capax.specs import (
    Associations,
    AssociativeAttention,
    Budget,
    KeyQueryChannel,
    Relations,
    Sequences,
    Transformer,
)
from capax.store import Store, table_files, tables
from capax.store.curves import points


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "s.db"
    task, training = capax.Sequences(seq_len=3, vocab_size=5, library_size=8), capax.Training(max_epochs=2)
    for heads in (1, 2):
        capax.measure(task, capax.Transformer(n_heads=heads, d_model=4), training, restarts=2, store=path)
    capax.measure(task, capax.Transformer(d_model=4), training, protocol=capax.Shatter(trials=2), store=path)
    return path


def test_a_row_holds_the_whole_run(store: Path) -> None:
    rows = capax.read(store)
    with capax.Store(store, create=False) as opened:
        runs = opened.runs()
    assert rows["key"].to_list() == [run.key for run in runs]
    assert rows["memorized"].to_list() == [run.memorized for run in runs]
    assert rows["n_heads"].to_list() == [1, 2, 1]
    assert rows["trainable_parameters"].to_list() == [run.parameters.trainable for run in runs]
    assert rows["restarts"].to_list() == [2, 2, None]
    assert rows["trials"].to_list() == [None, None, 2]
    of_sequences = {field for part in (Sequences, Transformer) for field in part.model_fields}
    others = (Associations, AssociativeAttention, Relations, KeyQueryChannel, Budget)
    foreign = {field for part in others for field in part.model_fields} - of_sequences
    assert set(PROTOCOL) - foreign <= set(rows.columns)
    assert protocol_values(rows, "max_steps") == [2, 2, 2]


def test_what_a_training_took_is_what_a_plan_reckons(store: Path) -> None:
    rows = capax.read(store)
    assert rows["exposures"].to_list() == [2, 2, None]  # a search has no training that counts
    with capax.Store(store, create=False) as opened:
        costs = [operations(run.spec.model, run.spec.task, run.library_size, run.epochs) for run in opened.runs()]
    assert rows["flops"].to_list() == [*costs[:2], None]


def test_files_come_back(store: Path, tmp_path: Path) -> None:
    rows = capax.read(store)
    rows.write_csv(tmp_path / "r.csv")
    rows.write_parquet(tmp_path / "r.parquet")
    for path in (tmp_path / "r.csv", tmp_path / "r.parquet"):
        back = table_files.from_file(path)
        assert back["memorized_above_chance"].to_list() == rows["memorized_above_chance"].to_list()
        assert back.columns == rows.columns


def test_files_are_joined(store: Path, tmp_path: Path) -> None:
    rows = capax.read(store)
    rows.write_csv(tmp_path / "a.csv")
    others = rows.drop("seconds").with_columns(pl.col("key").str.reverse())  # of one run rows count once
    others.write_parquet(tmp_path / "b.parquet")
    both = table_files.from_files([tmp_path / "a.csv", tmp_path / "b.parquet"])
    assert len(both) == 6
    assert both["seconds"].null_count() == 3
    rows.with_columns(n_heads=pl.lit([1])).select("n_heads").write_parquet(tmp_path / "c.parquet")
    with pytest.raises(CapaxError, match=r"^data: .*fit"):
        table_files.from_files([tmp_path / "a.csv", tmp_path / "c.parquet"])


def test_where(store: Path) -> None:
    rows = capax.read(store)
    assert len(tables.where(rows, ["n_heads=2"])) == 1
    assert len(tables.where(rows, ["protocol=mac", "norms=true"])) == 2
    assert len(tables.where(rows, [])) == 3


def test_what_has_no_value_can_be_asked_for() -> None:
    rows = pl.DataFrame(
        {"n": [1, None, 2], "ffn": ["none", None, "mlp"], "mixer": [None, "a", "b"], "tags": ["A,c"] * 3}
    )
    assert tables.where(rows, ["n=none"])["mixer"].to_list() == ["a"]
    assert tables.where(rows, ["mixer=None"])["n"].to_list() == [1]
    assert tables.where(rows, ["ffn=none"])["n"].to_list() == [1]  # a value of this name comes first
    assert len(tables.where(rows, ["tags=a", "tags=C"])) == 3
    with pytest.raises(CapaxError, match=r"^where: no row has n=1 and mixer=a$"):
        tables.where(rows, ["n=1", "mixer=a"])


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("n_heads", "where: column=value, got 'n_heads'"),
        ("n_heads=", "where: column=value"),
        ("heads=2", "where: no column 'heads'; the table has n_heads, "),
        ("n_heads=two", "where: n_heads holds numbers, got 'two'"),
        ("n_heads=7", "where: no row has n_heads=7"),
    ],
)
def test_bad_conditions(store: Path, condition: str, said: str) -> None:
    with pytest.raises(CapaxError, match=said):
        tables.where(capax.read(store), [condition])


def test_bad_files(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("a,b\n")
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)) * 9)
    (tmp_path / "broken.parquet").write_text("no parquet")
    for name, said in (
        ("none.csv", "no such file"),
        ("table.xlsx", ".csv or .parquet"),
        ("empty.csv", "cannot read"),
        ("header.csv", "holds no rows"),
        ("binary.csv", "data: "),
        ("broken.parquet", "cannot read"),
    ):
        with pytest.raises(CapaxError, match=said):
            table_files.from_file(tmp_path / name)
    with pytest.raises(StoreError, match="no such file"):
        capax.read(tmp_path / "none.db")


def test_rows_that_remember_nothing_are_counted() -> None:
    rows = pl.DataFrame({"memorized": [3.0, 0.0, -1.0]})
    kept, left_out = tables.above_zero(rows, "memorized")
    assert (len(kept), left_out) == (1, 2)
    with pytest.raises(CapaxError, match=r"^memorized: "):
        tables.above_zero(rows.tail(2), "memorized")


def test_items_of_a_file_have_no_points(tmp_path: Path) -> None:
    """Part of what is known of them is what they have in common: no size of a network tells of that."""

    np.save(tmp_path / "own.npy", np.random.default_rng(0).integers(8, size=(20, 4)))
    training = capax.Training(max_epochs=150, patience=None, stop_when_complete=False)
    given, network = (
        capax.Sequences(seq_len=4, vocab_size=8, library=str(tmp_path / "own.npy")),
        capax.Transformer(d_model=8, d_head=8),
    )
    own, drawn = (
        capax.measure(task, network, training, restarts=2, device="cpu")
        for task in (given, capax.Sequences(seq_len=4, vocab_size=8, library_size=20))
    )
    assert [run.spec.task.drawn for run in (own, drawn)] == [False, True]
    assert list(points([own])) == []
    assert list(points([drawn]))


def test_items_that_can_be_held_are_those_of_the_bits_that_can_be_held() -> None:

    with Store(Path(__file__).parents[1] / "docs" / "capacity" / "capacity.db", create=False) as store:
        runs = [run for _, run in zip(range(20), store.each(), strict=False)]
    rows = tables.table(runs).filter(pl.col("converged"))
    assert len(rows)
    each = {run.key: run.spec.task.information_per_item() for run in runs}
    for row in rows.iter_rows(named=True):
        assert row["capacity_items"] * each[row["key"]] == pytest.approx(row["capacity_bits"])


def test_operations_are_of_all_items_in_every_epoch_however_they_are_batched() -> None:

    task, model = capax.Sequences(seq_len=4, vocab_size=8, library_size=20), capax.Transformer(d_model=8, d_head=8)
    whole, parts = (
        capax.measure(
            task, model, capax.Training(max_epochs=3, patience=None, batch_size=size), restarts=1, device="cpu"
        )
        for size in (20, 7)
    )
    assert (whole.steps, parts.steps) == (3, 9)
    flops = tables.table([whole, parts])["flops"].to_list()
    assert flops[0] == flops[1] == 3 * 20 * model.operations(task.sizes(), task.scored("loss"))
