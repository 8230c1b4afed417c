"""Kills at random moments, then every field of every run compared with an undisturbed sweep: 50 times the whole process
group, 50 times one worker, 50 times the driver, over studies of 24 runs. Some minutes; by name only."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import capax

KILLS = 50
SECONDS = (0.5, 12.0)
"""Shortest and longest time between two kills; a process needs some two to start."""
MOST_STARTS = 500
STUDY = """
[task]
seq_len = 6
vocab_size = 20
library_size = 600
[model]
d_head = 8
[training]
batch_size = 128
max_epochs = 60
patience = 60
[protocol]
restarts = 2
[grid]
d_model = [8, 12, 16]
n_heads = [1, 2]
seed = [0, 1, 2, 3]
"""


def workers_of(driver: int) -> list[int]:
    """The processes in which a driver trains; none while it starts, or when it is gone."""
    with suppress(OSError):
        children = map(int, Path(f"/proc/{driver}/task/{driver}/children").read_text().split())
        return [pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return []


def kill_group(driver: int, chance: random.Random) -> bool:
    os.killpg(driver, signal.SIGKILL)
    return True


def kill_worker(driver: int, chance: random.Random) -> bool:
    workers = workers_of(driver)
    with suppress(ProcessLookupError):
        os.kill(chance.choice(workers or [2**22 + 1]), signal.SIGKILL)
        return True
    return False


def kill_driver(driver: int, chance: random.Random) -> bool:
    os.kill(driver, signal.SIGKILL)
    return True


Kill = Callable[[int, random.Random], bool]
VICTIMS: dict[str, Kill] = {"whole group": kill_group, "one worker": kill_worker, "driver": kill_driver}


def start(folder: Path) -> subprocess.Popen[bytes]:
    command = [Path(sys.executable).with_name("capax"), "sweep", "study.toml", "--workers", "2", "--quiet"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, cwd=folder, start_new_session=True, **quiet)  # type: ignore[call-overload]


def swept_under_fire(folder: Path, kill: Kill, kills: int, chance: random.Random) -> tuple[int, int]:
    """Start a sweep again and again until it ends by itself; how many kills and starts there were."""
    (folder / "study.toml").write_text(STUDY)
    done = 0
    for starts in range(1, MOST_STARTS):
        with start(folder) as driver:
            while driver.poll() is None:
                until = time.monotonic() + chance.uniform(*SECONDS)
                while driver.poll() is None and (done >= kills or time.monotonic() < until):
                    time.sleep(0.02)
                if driver.poll() is None and done < kills:
                    done += kill(driver.pid, chance)
        if driver.returncode == 0:
            return done, starts
    raise SystemExit("faults: the study did not end")


def fields(folder: Path) -> dict[str, str]:
    """All runs of a store, whole but for their seconds, by their keys; it is checked on the way."""
    path = folder / "study.db"
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with capax.Store(path, create=False) as store:
        runs = store.runs()
    assert len(runs) == 24
    assert not path.with_name("study.db-checkpoints").exists()
    return {run.key: run.model_copy(update={"seconds": 0.0}).to_json() for run in runs}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        calm = Path(name) / "calm"
        calm.mkdir()
        (calm / "study.toml").write_text(STUDY)
        began = time.monotonic()
        assert start(calm).wait() == 0
        wanted, took = fields(calm), time.monotonic() - began
        print(f"faults  a study of {len(wanted)} runs, two workers, undisturbed: {took:.0f} s", flush=True)
        for seed, (victim, kill) in enumerate(VICTIMS.items()):
            chance, began = random.Random(seed), time.monotonic()
            kills = starts = studies = equal = 0
            while kills < KILLS:
                studies += 1
                folder = Path(name) / f"{seed}-{studies}"
                folder.mkdir()
                found = swept_under_fire(folder, kill, KILLS - kills, chance)
                kills, starts = kills + found[0], starts + found[1]
                equal += fields(folder) == wanted
            print(
                f"faults  {victim}: {kills} kills in {time.monotonic() - began:.0f} s, {starts} starts, {studies} "
                f"studies; stores equal in every field but the seconds: {equal} of {studies}",
                flush=True,
            )


if __name__ == "__main__":
    main()
