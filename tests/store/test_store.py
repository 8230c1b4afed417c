"""The store's contract: whole or not at all, one run per key, nobody else's files touched."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from datetime import datetime
from pathlib import Path

import pytest
from stores import measured, without_time

import capax
from capax.errors import StoreError, StoreWriteError
from capax.results import Measurement
from capax.store import Store
from capax.store.schema import Summary


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


def test_what_could_not_be_read_again_is_not_kept(tmp_path: Path) -> None:
    """One such run would make all others unreadable."""
    run = measured()
    task = run.spec.task.model_copy(update={"seq_len": 10**9})
    broken = run.model_copy(update={"spec": run.spec.model_copy(update={"task": task}), "key": "0" * 64})
    with capax.Store(tmp_path / "s.db") as store:
        store.add(run)
        with pytest.raises(StoreError, match=r"not saved: it is not a measurement: spec: task.seq_len"):
            store.add(broken)
        assert store.runs() == [run]


def test_a_damaged_record_can_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    task, model = capax.Sequences(seq_len=3, vocab_size=4, library_size=4), capax.Transformer(d_model=4, d_head=4)
    training = capax.Training(max_steps=2)
    run = capax.measure(task, model, training, restarts=1, store=path)
    with capax.Store(path) as store, store._database.writing("") as connection:
        connection.execute("UPDATE runs SET measurement = '{}'")
    with pytest.raises(StoreError, match="is damaged"):
        capax.measure(task, model, training, restarts=1, store=path)
    assert capax.measure(task, model, training, restarts=1, store=path, fresh=True).memorized == run.memorized


@pytest.mark.slow
def test_many_processes_make_one_store(tmp_path: Path) -> None:
    """All at once, each finds it whole."""
    program = (
        "import sys, time; from pathlib import Path; from capax.store import Store\n"
        "for number in range(15):\n"
        "    while not Path(f'go{number}').exists(): time.sleep(0.001)\n"
        "    with Store(f's{number}.db') as store: assert not store.keys()\n"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, stderr=subprocess.PIPE) for _ in range(4)
    ]
    time.sleep(1.0)
    for number in range(15):
        (tmp_path / f"go{number}").touch()
        time.sleep(0.05)
    for process in started:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said.decode()


def test_weights_lie_beside_the_file_whatever_names_it(tmp_path: Path) -> None:
    run = measured()
    with capax.Store(tmp_path / "real.db") as store:
        store.add(run)
        beside = store.weights_path(run.key)
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    with capax.Store(tmp_path / "link.db") as store:
        assert store.weights_path(run.key) == beside


def test_weights_stay_where_a_new_measurement_cannot_be_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a run that was there before they are its."""
    task, model = capax.Sequences(seq_len=3, vocab_size=4, library_size=4), capax.Transformer(d_model=4, d_head=4)
    path, training = tmp_path / "s.db", capax.Training(max_steps=2)

    def again(fresh: bool = False) -> Measurement:
        return capax.measure(task, model, training, restarts=1, store=path, keep_weights=True, fresh=fresh)

    run = again()
    with capax.Store(path) as store:
        kept = store.weights_path(run.key).read_bytes()
    monkeypatch.setattr("capax.store.database.WAIT_SECONDS", 0.1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreWriteError, match="database is locked"):
        again(fresh=True)
    other.execute("ROLLBACK")
    other.close()
    with capax.Store(path) as store:
        assert store.weights_path(run.key).read_bytes() == kept


def test_an_ambiguous_or_empty_key_is_refused(tmp_path: Path) -> None:
    run = measured()
    with capax.Store(tmp_path / "s.db") as store:
        store.add(run)
        store.add(run.model_copy(update={"key": run.key[:5] + "0" * 59}))
        with pytest.raises(StoreError, match="2 runs have"):
            store.find(run.key[:5])
        with pytest.raises(StoreError, match="no run has"):
            store.find("x")
        with pytest.raises(StoreError, match="a run's key, or how it begins, got ''"):
            store.find("")


def test_runs_of_a_plugin_that_is_not_loaded_are_listed_and_the_plugin_is_named(tmp_path: Path) -> None:
    path, run = tmp_path / "s.db", measured()
    with capax.Store(path) as store:
        store.add(run)
        with store._database.writing("") as connection:
            connection.execute("""UPDATE runs SET measurement = replace(measurement, '"sequences"', '"pairs"')""")
    with capax.Store(path, create=False) as store:
        assert [summary.key for summary in store.summaries()] == [run.key]
        for read in (lambda: store.get(run.key), store.runs, lambda: store.specs([run.key])):
            with pytest.raises(StoreError, match=f"{run.key[:12]}: task: .*--plugin.*'pairs'") as error:
                read()
            assert "damaged" not in str(error.value)


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_summaries_say_what_the_runs_say(tmp_path: Path, three: list[Measurement]) -> None:
    with Store(tmp_path / "s.db") as store:
        for run in three:
            store.add(run)
        found = store.summaries()
        assert store.keys() == {run.key for run in three}
    assert without_time(found) == without_time([Summary.of(run) for run in three])
    assert (found[1].d_model, found[1].items, found[1].library_size) == (2, "3 tokens of 5", 4)
    assert all(datetime.fromisoformat(summary.finished).tzinfo is not None for summary in found)


def test_failures_count_attempts_until_the_run_is_done(tmp_path: Path, three: list[Measurement]) -> None:
    with Store(tmp_path / "s.db") as store:
        store.fail(three[0].spec, "out of memory")
        store.fail(three[1].spec, "no disk")
        store.fail(three[0].spec, "out of luck")
        first, second = sorted(store.failures(), key=lambda failure: -failure.attempts)
        assert (first.key, first.error, first.attempts) == (three[0].key, "out of luck", 2)
        assert (second.key, second.error, second.attempts) == (three[1].key, "no disk", 1)
        assert capax.Run.model_validate(first.spec) == three[0].spec
        store.add(three[0])
        assert store.failures() == [second]
        assert store.keys() == {three[0].key}


def test_any_error_can_be_kept(tmp_path: Path, three: list[Measurement]) -> None:
    with Store(tmp_path / "s.db") as store:
        store.fail(three[0].spec, "no such file: \udcff")
        assert store.failures()[0].error == "no such file: ?"


def test_delete(tmp_path: Path, three: list[Measurement]) -> None:
    with Store(tmp_path / "s.db") as store:
        store.add(three[0])
        store.add(three[1])
        store.fail(three[0].spec, "once more")
        weights = store.weights_path(three[0].key)
        weights.parent.mkdir()
        weights.write_bytes(b"weights")
        assert store.delete(three[0].key)
        assert not weights.exists()
        assert (store.runs(), store.failures()) == ([three[1]], [])
        assert not store.delete(three[0].key)
        with pytest.raises(StoreError, match="no run has"):
            store.find_key(three[0].key)


@pytest.mark.slow
def test_one_sweep_at_a_time(tmp_path: Path, three: list[Measurement]) -> None:
    """Another process sweeps: a second sweep is refused, a single run is not; it is killed: the way is free."""
    code = """
from capax.store import Store
with Store("s.db") as store, store.sweeping():
    print("sweeping", flush=True)
    input()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process, Store(tmp_path / "s.db") as store:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "sweeping\n"
            told = json.loads((tmp_path / "s.db.sweep-lock.json").read_text())
            said = rf"process {process.pid} on {told['host']} since \d{{4}}-.*\+00:00$"
            with pytest.raises(StoreError, match=said), store.sweeping():
                pytest.fail("two sweeps at once")
            store.add(three[0])
        finally:
            process.kill()
            process.wait()
        with store.sweeping():
            assert json.loads((tmp_path / "s.db.sweep-lock.json").read_text())["pid"] == os.getpid()
            with (
                Store(tmp_path / "s.db") as second,
                pytest.raises(StoreError, match=f"process {os.getpid()} "),
                second.sweeping(),
            ):
                pytest.fail("two sweeps at once")
        assert not (tmp_path / "s.db.sweep-lock.json").exists()
        with store.sweeping():
            pass


def test_a_sweep_that_fails_frees_the_lock(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError), store.sweeping():
                raise ZeroDivisionError


def test_a_copy_of_the_file_alone_has_all_runs(tmp_path: Path) -> None:
    """While it is written, too: nothing stays in a log beside it."""
    with Store(tmp_path / "a.db") as store:
        for seed in range(2):
            store.add(measured(seed))
            shutil.copy(tmp_path / "a.db", tmp_path / "alone.db")
            with Store(tmp_path / "alone.db", create=False) as alone:
                assert len(alone.keys()) == seed + 1


def test_a_store_that_is_put_in_its_place_stays_as_it_is(tmp_path: Path) -> None:
    with Store(tmp_path / "b.db") as other:
        other.add(measured(7))
        (kept,) = other.keys()
    with Store(tmp_path / "a.db") as store:
        store.add(measured(0))
        (tmp_path / "b.db").replace(tmp_path / "a.db")
        with pytest.raises(StoreWriteError, match="removed or replaced"):
            store.add(measured(1))
    with Store(tmp_path / "a.db", create=False) as found:
        assert found.keys() == {kept}
