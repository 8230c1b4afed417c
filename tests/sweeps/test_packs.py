"""Pack sizes: measured where it is worth it, remembered, and without effect on any result."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch

import capax
from capax.sweeps import packs
from capax.sweeps.executors import Job, do
from capax.testing.executors import small
from capax.training.pack import Pack
from capax.training.workers import OutOfMemory, Workers, split


def long(seed: int = 0) -> capax.Run:
    """A run of enough steps to measure its packs, that is over soon."""
    run = small(seed)
    return run.replace(training=capax.Training(max_epochs=10**6, patience=2, min_loss_drop=0.9))


def test_shapes_are_those_that_cost_the_same() -> None:
    one = packs.shape_of(small(), "cpu")
    assert one == packs.shape_of(small(5, epochs=99), "cpu")
    assert one == packs.shape_of(small().replace(protocol=capax.Mac(restarts=9)), "cpu")
    assert one != packs.shape_of(small(), "cuda")
    assert one != packs.shape_of(small().replace(model=capax.Transformer(d_model=9, d_head=8)), "cpu")
    assert one != packs.shape_of(small(library_size=41), "cpu")
    soap = small().replace(training=small().training.replace(optimizer="soap"))
    assert one != packs.shape_of(soap, "cpu")


def test_only_long_trainings_of_several_members_are_measured() -> None:
    assert packs.worth_measuring(long(), 2)
    assert not packs.worth_measuring(long(), 1)
    assert not packs.worth_measuring(small(), 2)


def test_the_best_size_is_a_power_of_two_within_the_pack() -> None:
    pack = packs.whole_pack(tuple(long(seed) for seed in range(3)), "cpu")
    assert len(pack.members) == 6
    assert packs.best_size(pack) in (2, 4)


@pytest.mark.parametrize("most", [1, 2])
def test_a_size_that_finds_no_memory_ends_the_search(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A doubling that is tried is no failure of the runs."""
    pack, computed = packs.whole_pack(tuple(long(seed) for seed in range(4)), "cpu"), packs.prepare

    def short_of_memory(part: Pack) -> Any:
        if len(part.members) > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return computed(part)

    monkeypatch.setattr(packs, "prepare", short_of_memory)
    monkeypatch.setattr(packs, "median_seconds", lambda work: 1.0)
    assert packs.best_size(pack) == 2


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_members_are_cut_as_told_and_results_stay(size: int) -> None:
    runs = tuple(small(seed) for seed in range(3))
    whole = packs.whole_pack(runs, "cpu")
    assert max(len(part.members) for part in split(whole, 1, size)) == size
    report, plain = do(Job(runs, pack_size=size), lambda: False), do(Job(runs), lambda: False)
    assert [run.members for run in report.measurements] == [run.members for run in plain.measurements]
    assert report.pack_size is None


def test_a_measured_size_is_remembered(tmp_path: Path) -> None:
    list(capax.sweep([long(0), long(1)], tmp_path / "s.db", workers=1, device="cpu"))
    with capax.Store(tmp_path / "s.db") as store:
        known = store.pack_sizes()
    assert set(known) == {packs.shape_of(long(), "cpu")}
    assert set(known.values()) <= {1, 2, 4}
    report = do(Job((long(0), long(1)), pack_size=2), lambda: False)
    assert report.pack_size is None, "a known size is not measured again"


def test_a_lack_of_memory_while_packs_are_cut_is_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's module is asked for its size then, and may find none."""

    def cut(*_: object) -> NoReturn:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    monkeypatch.setattr("capax.training.workers.split", cut)
    with Workers() as workers, pytest.raises(OutOfMemory, match="try a smaller one"):
        workers.train(packs.whole_pack((small(0),), "cpu"))
