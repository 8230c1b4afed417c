"""Shards: a study swept by processes that know nothing of each other is the study swept by one."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from study import STUDY

import capax
from capax.errors import SpecError, StoreError
from capax.results import Measurement
from capax.store.merge import merge
from capax.sweeps import shards
from capax.sweeps.under_way import together
from capax.testing.executors import small

EPOCHS = 400
CLUSTER = Path(__file__).parents[2] / "docs" / "how-to" / "cluster.md"


def study(folder: Path, epochs: int = 3) -> Path:
    path = folder / "study.toml"
    path.write_text(STUDY.format(epochs=epochs))
    return path


def timeless(runs: list[Measurement]) -> dict[str, str]:
    return {run.key: run.model_copy(update={"seconds": 0.0}).to_json() for run in runs}


def stored(path: Path) -> dict[str, str]:
    with capax.Store(path, create=False) as store:
        return timeless(store.runs())


def grid(widths: int, seeds: int, epochs: tuple[int, ...] = (3,)) -> tuple[capax.Run, ...]:
    return tuple(
        small(seed, epochs=count).replace(model=capax.Transformer(d_model=8 * width, d_head=8))
        for width in range(1, widths + 1)
        for count in epochs
        for seed in range(seeds)
    )


@pytest.mark.parametrize(("widths", "seeds", "count"), [(1, 1, 1), (2, 3, 2), (3, 17, 4), (2, 33, 5), (5, 1, 4)])
def test_every_run_is_in_one_shard_and_its_pack_is_whole(widths: int, seeds: int, count: int) -> None:
    runs = grid(widths, seeds)
    packs = list(together(runs))
    parts = [shards.share(runs, (number, count)) for number in range(1, count + 1)]
    assert sorted(run.key() for part in parts for run in part) == sorted(run.key() for run in runs)
    assert sorted(map(hash, packs)) == sorted(hash(pack) for part in parts for pack in together(part))
    numbers = [len(list(together(part))) for part in parts]
    assert max(numbers) - min(numbers) <= 1
    assert all(part == tuple(run for run in runs if run in part) for part in parts)


@pytest.mark.parametrize(("count", "seed"), [(2, 0), (4, 1), (7, 2)])
def test_shards_cost_alike_whatever_the_order_of_the_grid(count: int, seed: int) -> None:
    """Costs are in a ratio of two hundred; a shard differs from another by less than its dearest pack.

    They are of operations, and in proportion to epochs where all else is alike.
    """
    runs = list(grid(6, 1, epochs=(1, 2, 4, 8, 16, 32)))
    random.Random(seed).shuffle(runs)
    parts = [shards.share(tuple(runs), (number, count)) for number in range(1, count + 1)]
    costs = [sum(shards._operations((run,)) for run in part) for part in parts]
    by_epochs = {
        width: {shards._operations((run,)) / run.training.max_epochs for run in runs if run.model == width}
        for width in {run.model for run in runs}
    }
    assert all(max(each) == pytest.approx(min(each)) for each in by_epochs.values())
    assert max(max(each) for each in by_epochs.values()) > 3 * min(min(each) for each in by_epochs.values())
    assert max(costs) - min(costs) <= max(shards._operations((run,)) for run in runs)
    assert [set(part) for part in parts] == [
        set(shards.share(tuple(sorted(runs, key=capax.Run.key)), (number, count))) for number in range(1, count + 1)
    ]


@pytest.mark.slow
def test_merged_shards_are_the_undivided_sweep_bit_for_bit(tmp_path: Path) -> None:
    path = study(tmp_path)
    whole = list(capax.sweep(path, tmp_path / "whole.db", workers=1, device="cpu"))
    for number in (1, 2, 3):
        list(capax.sweep(path, workers=1, device="cpu", shard=(number, 3)))
    parts = sorted(tmp_path.glob("s-*-of-3.db"))
    assert [part.name for part in parts] == ["s-1-of-3.db", "s-2-of-3.db", "s-3-of-3.db"]
    assert sum(len(stored(part)) for part in parts) == merge(parts, tmp_path / "s.db") == 12
    assert stored(tmp_path / "s.db") == timeless(whole)


def test_stores_of_shards_are_in_the_order_of_their_names() -> None:
    names = [shards.beside(Path("a/study.db"), (number, 16)).name for number in range(1, 17)]
    assert names[2] == "study-03-of-16.db"
    assert names == sorted(names)


@pytest.mark.parametrize("shard", [(0, 4), (5, 4), (1.5, 3), (True, 2), "3/16", (1, 2, 3), 3, (1, 13), (1, 10**30)])
def test_what_is_no_shard_is_refused_at_once(tmp_path: Path, shard: Any) -> None:
    with pytest.raises(SpecError, match=r"^shard: "):
        capax.sweep(study(tmp_path), workers=1, device="cpu", shard=shard)
    assert [path.name for path in tmp_path.iterdir()] == ["study.toml"]


def _swept_under_fire(folder: Path, count: int, chance: random.Random) -> int:
    """All shards at once, each killed at random moments with all its processes; how many kills there were."""
    kills, store = 0, "s-{}-of-{}.db".format
    command = [sys.executable, "-m", "capax", "sweep", "study.toml", "--workers", "1", "--quiet", "--shard"]

    def start(number: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*command, f"{number}/{count}"], cwd=folder, start_new_session=True)

    under_way = {number: start(number) for number in range(1, count + 1)}
    for number in under_way:  # each is killed once there is something to lose
        while under_way[number].poll() is None:
            with suppress(StoreError, FileNotFoundError):
                if list((folder / f"{store(number, count)}-checkpoints").rglob("*.safetensors")):
                    break
            time.sleep(0.02)
        if under_way[number].poll() is None:
            os.killpg(under_way[number].pid, signal.SIGKILL)
            kills += 1
        under_way[number].wait()
        time.sleep(chance.uniform(0, 0.5))
        under_way[number] = start(number)
    assert all(one.wait(120) == 0 for one in under_way.values())
    return kills


@pytest.mark.very_slow
def test_shards_that_are_killed_and_begun_again_are_the_undivided_sweep(tmp_path: Path) -> None:
    path = study(tmp_path, EPOCHS)
    assert _swept_under_fire(tmp_path, 2, random.Random(0)) == 2
    parts = sorted(tmp_path.glob("s-*-of-2.db"))
    assert merge(parts, tmp_path / "s.db") == 12
    whole = list(capax.sweep(path, tmp_path / "whole.db", workers=1, device="cpu"))
    assert stored(tmp_path / "s.db") == timeless(whole)
    assert not list(tmp_path.glob("*-checkpoints"))


@pytest.mark.very_slow
def test_the_array_of_the_documentation_sweeps_a_study(tmp_path: Path) -> None:
    """Its script under bash, once per task as Slurm would start it; with two shards instead of sixteen."""
    (script,) = re.findall(r"^```bash\n(.*?)^```", CLUSTER.read_text(encoding="utf-8"), re.M | re.S)
    assert script.count("16") == 2, "the number of tasks, and of shards"
    (tmp_path / "array.sh").write_text(script.replace("16", "2"))
    command = tmp_path / "bin" / "capax"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m capax "$@"\n')
    command.chmod(0o755)
    path = study(tmp_path)
    for task in ("1", "2"):
        variables = os.environ | {"SLURM_ARRAY_TASK_ID": task, "PATH": f"{command.parent}:{os.environ['PATH']}"}
        subprocess.run(["bash", "array.sh"], cwd=tmp_path, env=variables, check=True, timeout=300)
    assert merge(sorted(tmp_path.glob("s-*-of-2.db")), tmp_path / "s.db") == 12
    whole = list(capax.sweep(path, tmp_path / "whole.db", workers=1, device="cpu"))
    assert stored(tmp_path / "s.db") == timeless(whole)


def test_the_dearest_packs_are_dealt_forth_and_back() -> None:

    runs = tuple(small(0, epochs=epochs) for epochs in (8, 7, 6, 5, 4, 3, 2, 1))
    parts = [shards.share(runs, (number, 2)) for number in (1, 2)]
    assert [[run.training.max_epochs for run in part] for part in parts] == [[8, 5, 4, 1], [7, 6, 3, 2]]
