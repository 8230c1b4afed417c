"""The store's contract: whole or not at all, one run per key, nobody else's files touched."""

import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import capax
from capax.errors import StoreError
from capax.results import Measurement


def measured(seed: int = 0) -> Measurement:
    task = capax.Sequences(seq_len=3, vocab_size=5, library_size=4)
    return capax.measure(
        task, capax.Transformer(d_model=2, d_head=2), capax.Training(max_epochs=1), restarts=1, seed=seed
    )


def test_runs_come_back_as_they_were(tmp_path: Path) -> None:
    runs = [measured(seed) for seed in range(3)]
    with capax.Store(tmp_path / "s.db") as store:
        for run in runs:
            store.add(run)
    with capax.Store(tmp_path / "s.db", create=False) as store:
        assert store.runs() == runs
        assert store.get(runs[1].key) == runs[1]
        assert store.get("0" * 64) is None
        assert store.find(runs[2].key[:12]) == runs[2]


def test_a_key_has_one_run(tmp_path: Path) -> None:
    run = measured()
    with capax.Store(tmp_path / "s.db") as store:
        store.add(run)
        store.add(run.model_copy(update={"seconds": 99.0}))
        assert [stored.seconds for stored in store.runs()] == [99.0]


def test_an_ambiguous_or_empty_key_is_refused(tmp_path: Path) -> None:
    run = measured()
    with capax.Store(tmp_path / "s.db") as store:
        store.add(run)
        store.add(run.model_copy(update={"key": run.key[:5] + "0" * 59}))
        with pytest.raises(StoreError, match="2 runs have"):
            store.find(run.key[:5])
        with pytest.raises(StoreError, match="no run has"):
            store.find("")


def test_a_killed_writer_leaves_whole_runs(tmp_path: Path) -> None:
    """A process writes without end and is killed: all that is there is whole and readable."""
    code = """
import sys
from capax.results import Measurement
from capax.store import Store
run = Measurement.from_json(sys.stdin.read())
with Store("s.db") as store:
    for number in range(10**9):
        store.add(run.model_copy(update={"key": f"{number:064}"}))
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, cwd=tmp_path, text=True)
    assert process.stdin is not None
    process.stdin.write(measured().to_json())
    process.stdin.close()
    path = tmp_path / "s.db"
    while not path.exists() or path.stat().st_size < 40_000:
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    with capax.Store(path) as store:
        runs = store.runs()
        store.add(measured())
    assert len(runs) > 3
    assert [run.key for run in runs] == [f"{number:064}" for number in range(len(runs))]


def test_a_writer_waits_for_another(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    run = measured()
    with capax.Store(path) as store:
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(1.0, lambda: other.execute("COMMIT"))
        release.start()
        store.add(run)  # would fail at once without the wait
        assert release.finished.is_set()
        assert store.get(run.key) == run
        release.join()
        other.close()


def test_reading_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such file"):
        capax.Store(tmp_path / "s.db", create=False)
    assert list(tmp_path.iterdir()) == []
