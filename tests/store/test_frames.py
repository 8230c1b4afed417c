"""Data frames of any library go in and come out as what they are; a stored run's columns say when and where."""

from __future__ import annotations

import platform
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import capax
from capax import devices
from capax.errors import TableError
from capax.results import Measurement
from capax.store import frames, table_files, tables

STUDY = Path(__file__).parents[1] / "laws" / "data" / "study.csv"
WAYS: dict[str, Callable[[pl.DataFrame], Any]] = {
    "pandas": lambda table: pd.DataFrame(table.to_dict(as_series=False)),
    "lazy": lambda table: table.lazy(),
    "lists": lambda table: table.to_dict(as_series=False),
    "arrays": lambda table: {name: table[name].to_numpy() for name in table.columns},
}


@pytest.mark.parametrize("way", WAYS)
def test_a_law_of_any_frame_is_the_law_of_polars(way: str) -> None:
    """Rows that are no values are left out of all of them: 4 runs are not significantly above chance."""
    table = table_files.from_file(STUDY)
    given = WAYS[way](table)
    expected, law = capax.PowerLaw(n_bootstrap=10).fit(table), capax.PowerLaw(n_bootstrap=10).fit(given)
    assert "4 runs were not significantly above chance and left out" in law.notes_
    assert (law.parameters_, law.notes_, law.domain_) == (expected.parameters_, expected.notes_, expected.domain_)
    assert np.array_equal(law.predict(given), expected.predict(table))
    assert law.inside_domain(given).all()
    values = table.filter("above_chance")
    assert law.score(WAYS[way](values)) == expected.score(values)


def test_laws_are_compared_on_any_frame() -> None:
    table = table_files.from_file("reference:grid")
    laws = [capax.PowerLaw(n_bootstrap=10), capax.Polynomial(degree=1)]
    assert capax.compare(WAYS["pandas"](table), laws) == capax.compare(table, laws)


def test_what_is_missing_is_missing_whatever_writes_it() -> None:
    frame = pd.DataFrame(
        {
            "float": [1.0, np.nan],
            "integer": pd.array([1, None], dtype="Int64"),
            "text": ["a", None],
            "truth": [True, None],
        }
    )
    assert frames.taken(frame).to_dict(as_series=False) == {
        "float": [1.0, None],
        "integer": [1, None],
        "text": ["a", None],
        "truth": [True, None],
    }


def test_arrays_and_other_things_stay_what_they_are() -> None:
    for given in (np.ones((2, 2)), [[1.0]], {"a": [1], "b": [1, 2]}, {0: [1]}, "text", None):
        assert frames.taken(given) is given


@pytest.mark.parametrize("backend", ["polars", "pandas", "dict", "pyarrow"])
def test_a_store_is_read_as_a_frame_of_any_library(backend: Any, tmp_path: Path, three: list[Measurement]) -> None:
    if backend != "dict":
        pytest.importorskip(backend)
    with capax.Store(tmp_path / "s.db") as store:
        for run in three:
            store.add(run)
    found = capax.read(tmp_path / "s.db", backend)
    assert type(found).__module__.partition(".")[0] == ("builtins" if backend == "dict" else backend)
    expected = capax.read(tmp_path / "s.db")
    assert frames.taken(found)["memorized"].to_list() == expected["memorized"].to_list()
    assert frames.taken(found).columns == expected.columns


def test_a_frame_is_imported(tmp_path: Path) -> None:
    row = {"seq_len": [8], "n_heads": [1], "d_model": [32], "memorized": [100.5]}
    with capax.Store(tmp_path / "s.db") as store:
        assert store.import_rows(pd.DataFrame(row), "theirs") == 1
        assert store.imported()["theirs"] == [{name: values[0] for name, values in row.items()}]
        with pytest.raises(TableError, match=r"table: a data frame, or a mapping .* got \[1\]"):
            store.import_rows([1], "theirs")


@pytest.mark.parametrize(
    ("backend", "said"),
    [("arrow", "backend: one of polars, pandas, .* got 'arrow'"), ("modin", "backend: modin is not installed")],
)
def test_a_library_that_is_not_there_is_refused(backend: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(TableError, match=said):
        capax.read(tmp_path / "missing.db", backend)


def test_a_row_says_when_where_and_by_which_versions_a_run_was_measured(
    tmp_path: Path, three: list[Measurement]
) -> None:
    run = three[0]
    with capax.Store(tmp_path / "s.db") as store:
        store.add(run.model_copy(update={"name": "baseline", "tags": ("rotary", "v2")}))
        store.add(three[1].model_copy(update={"host": None}))
    first, second = capax.read(tmp_path / "s.db").to_dicts()
    assert first["host"] == run.host == platform.node()
    assert second["host"] is None
    assert first["processor"] == run.processor == devices.processor("cpu")
    assert datetime.fromisoformat(first["finished"]).tzinfo is not None
    assert {name: first[f"{name}_version"] for name in run.versions} == run.versions
    ends = (None, None) if run.interval is None else (run.interval.low, run.interval.high)
    assert (first["interval_low"], first["interval_high"]) == ends
    assert (first["name"], first["tags"], second["name"], second["tags"]) == ("baseline", "rotary,v2", None, None)
    assert (first["restarts"], first["seconds"]) == (1, run.seconds)
    kept = tables.where(capax.read(tmp_path / "s.db"), ["tags=v2", "name=baseline"])
    assert kept["key"].to_list() == [run.key]


def test_conditions_keep_all_digits_of_whole_numbers() -> None:
    rows = pl.DataFrame({"seed": [2**53, 2**53 + 1], "lr": [0.001, 0.1]})
    assert tables.where(rows, [f"seed={2**53 + 1}"])["lr"].to_list() == [0.1]
    assert tables.where(rows, f"seed={2**53}")["lr"].to_list() == [0.001]
    assert tables.where(rows, ["seed=9007199254740992.0", "lr=1e-3"])["lr"].to_list() == [0.001]
    for wrong in ([4], [None]):
        with pytest.raises(TableError, match=f"^where: column=value, got {wrong[0]}$"):
            tables.where(rows, wrong)
    with pytest.raises(TableError, match="no row has seed=99999999999999999999"):
        tables.where(rows, ["seed=99999999999999999999"])
