"""Runs that were not kept: stores that were gone, full, or written by two names under a sweep."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from limits import files_of_at_most
from sweeping import TASK, spec, sweep

import capax
from capax.errors import StoreError, StoreWriteError
from capax.store import Store
from capax.store import lock as sweep_lock
from capax.training import loop


def test_a_hard_link_to_a_store_in_use_starts_no_second_log(tmp_path: Path) -> None:
    """Its runs are in the log beside the first name; a log beside the second would later be written over them."""
    one, other = tmp_path / "one.db", tmp_path / "other.db"
    with Store(one) as store:
        other.hardlink_to(one)
        for create, said in ((True, "has other names"), (False, "in use by another name")):
            with pytest.raises(StoreError, match=said):
                Store(other, create=create)
        (run,) = capax.sweep([spec(epochs=1)], store, workers=1, device="cpu")
    assert not [*tmp_path.glob("other.db-*")]
    for path in (one, other):
        with Store(path, create=False) as store:
            assert store.get(run.key) is not None


def test_a_store_of_several_names_is_read_and_not_written(tmp_path: Path) -> None:
    """By whatever name, also with a sweep under way whose runs are in the file: each name would get its own log."""
    one, other = tmp_path / "one.db", tmp_path / "other.db"
    (run,) = sweep([spec(epochs=1)], one)
    under_way = sweep([spec(epochs=epochs) for epochs in (1, 2)], one)
    next(under_way)
    other.hardlink_to(one)
    writers: tuple[Callable[[Path], Any], ...] = (
        Store,
        lambda path: capax.measure(TASK, spec().model, spec(epochs=1).training, store=path, workers=1, device="cpu"),
        lambda path: sweep([spec(epochs=3)], path),
    )
    for path in (one, other):
        for writes in writers:
            with pytest.raises(StoreError, match=rf"{path.name} has other names \(hard links\)"):
                writes(path)
    assert len([*under_way]) == 1
    assert capax.read(other)["key"].to_list()[0] == run.key
    with Store(other, create=False) as store, pytest.raises(StoreError, match=r"other names \(hard links\)"):
        store.delete(run.key)
    assert not [*tmp_path.glob("other.db-*")]
    other.unlink()
    assert len([*sweep([spec(epochs=epochs) for epochs in (1, 2, 3)], one)]) == 3


@pytest.mark.slow
def test_a_store_is_not_swept_by_two_names_at_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, other = tmp_path / "a" / "s.db", tmp_path / "b" / "t.db"
    Store(one).close()
    other.symlink_to(one)
    first = sweep([spec(epochs=1), spec(epochs=2)], one)
    next(first)
    with pytest.raises(StoreError, match=r"store: a sweep of .*t\.db is under way"):
        list(sweep([spec(epochs=3)], other))
    assert sweep_lock.look(other)[0] == "running"
    assert [path.name for path in other.parent.iterdir()] == ["t.db"]
    first.close()  # type: ignore[attr-defined]
    assert len(list(sweep([spec(epochs=3)], other))) == 1


def _replace(store: Path) -> None:
    """Put a copy in its place, with its log, as somebody does who restores a backup."""
    for path in store.parent.glob("s.db*"):
        if path.is_file():
            shutil.copy(path, tmp := path.with_name("copy"))
            tmp.replace(path)


CHANGES: dict[str, Callable[[Path], object]] = {
    "removed": lambda store: [path.unlink() for path in store.parent.glob("s.db*") if path.is_file()],
    "replaced": _replace,
    "moved": lambda store: store.rename(store.with_name("other.db")),
    "its log removed": lambda store: store.with_name("s.db-wal").unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_store_that_is_gone_under_a_sweep_is_told_and_the_work_is_kept(
    tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that the path's file does not have was not kept; its checkpoint is, and a new sweep takes it from there."""
    store, runs = tmp_path / "s.db", [spec(epochs=2, d_model=width) for width in (2, 4, 6)]
    under_way = sweep(runs, store)
    first = next(under_way)
    CHANGES[change](store)
    with pytest.raises(StoreWriteError, match=rf"removed or replaced .*runs not kept: {runs[1].key()[:12]};") as error:
        next(under_way)
    assert first.key == runs[0].key()
    assert error.value.exit_code == 1
    for path in tmp_path.glob("s.db*"):
        if path.is_file():
            path.unlink()
    monkeypatch.delattr(loop, "prepare")
    assert [run.key for run in sweep([runs[1]], store)] == [runs[1].key()]


def test_a_measurement_is_not_written_to_a_store_that_is_gone(tmp_path: Path) -> None:
    run = spec(epochs=1)
    with Store(tmp_path / "s.db") as store:
        (tmp_path / "s.db").unlink()
        with pytest.raises(StoreWriteError, match=r"not saved: .*s\.db .*removed") as error:
            capax.measure(run.task, run.model, run.training, restarts=1, store=store, device="cpu")
    assert error.value.unsaved.memorized >= 0


def test_a_disk_without_room_ends_a_sweep_and_says_which_runs_were_not_kept(tmp_path: Path) -> None:
    """No file may have more than a page, and a run needs several: a limit of the process stands for a full disk."""
    store, runs = tmp_path / "s.db", [spec(epochs=epochs) for epochs in (2, 3, 4)]
    under_way = sweep(runs, store)
    first = next(under_way)
    not_kept = pytest.raises(StoreWriteError, match=rf"not saved: .*not kept: {runs[1].key()[:12]}; ")
    with files_of_at_most(4096), not_kept as error:
        list(under_way)
    assert error.value.exit_code == 1
    with Store(store) as opened:
        assert opened.keys() == {first.key}
    assert len(list(tmp_path.rglob("*.outcomes.json"))) == 1
    assert {run.key for run in sweep(runs, store)} == {run.key() for run in runs}


def test_runs_that_lie_in_the_log_alone_for_want_of_room_are_told(tmp_path: Path) -> None:
    """They were written, but a copy of the store's file alone would not hold them."""
    path, run = tmp_path / "s.db", spec(epochs=1)
    *before, measured = (
        capax.measure(run.task, run.model, run.training, restarts=1, seed=seed, device="cpu") for seed in range(6)
    )
    with Store(path) as store:
        for one in before:  # so that the file is larger than the log of one run
            store.add(one)
        with files_of_at_most(path.stat().st_size):  # the file itself has to grow by the run
            store.add(measured)
            with pytest.raises(StoreWriteError, match=r"s\.db-wal beside it"):
                store.settle()
        store.settle()
        shutil.copy(path, tmp_path / "copy.db")
    with Store(tmp_path / "copy.db") as copy:
        assert copy.keys() == {one.key for one in (*before, measured)}
