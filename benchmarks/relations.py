"""The key-query channel: how much faster members train in a pack than alone, and a search for the key dimension.

Throughput per member: steps of a pack against steps of one member, in turn, one thread, medians over rounds. The search
is that of one cell: 128 items in 16 channels, heads 1, 2, 4, 8, 16, two worker processes, the wall clock once.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from capax import machine, measure
from capax.specs import Budget, KeyQueryChannel, Relations, Run
from capax.training.pack import Pack
from capax.training.prepare import prepare


@dataclass(frozen=True)
class Case:
    n_items: int
    n_heads: int
    members: int
    goal: float | None


CASES = [Case(32, 1, 64, 5), Case(64, 2, 16, 3), Case(128, 8, 4, None)]
SEARCH_GOAL = 90


def stepper(case: Case, members: int) -> Callable[[], object]:
    """One step of a pack of so many members."""
    run = Run(task=Relations(n_items=case.n_items), model=KeyQueryChannel(n_heads=case.n_heads, d_model=16, d_head=6))
    size = run.task.library_size
    pack = Pack(
        run.task,
        run.model,
        run.training,
        (0,) * members,
        tuple(range(members)),
        (size,) * members,
        size,
        mixed=False,
        one_library=False,
    )
    return prepare(pack).step


def seconds(step: Callable[[], object], times: int = 10) -> float:
    started = time.perf_counter()
    for _ in range(times):
        step()
    return (time.perf_counter() - started) / times


def main(rounds: int = 15) -> list[dict[str, object]]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rows: list[dict[str, object]] = []
    for case in CASES:
        alone, together = stepper(case, 1), stepper(case, case.members)
        for step in (alone, together):
            seconds(step, 3)
        times = [(seconds(alone), seconds(together) / case.members) for _ in range(rounds)]
        ratio = statistics.median(one / many for one, many in times)
        one, many = (statistics.median(column) * 1e3 for column in zip(*times, strict=True))
        goal = "" if case.goal is None else f"  (goal {case.goal:g})"
        print(
            f"relations  {case.n_items:3} items, {case.n_heads} heads: alone {one:5.2f} ms a step, in a pack of "
            f"{case.members} {many:6.3f} ms  ratio {ratio:4.1f}{goal}",
            flush=True,
        )
        rows.append({**vars(case), "alone_ms": one, "pack_ms": many, "ratio": ratio})
    torch.set_num_threads(threads)
    started = time.perf_counter()
    run = measure(
        Relations(n_items=128),
        KeyQueryChannel(d_model=16),
        protocol=Budget(head_counts=(1, 2, 4, 8, 16)),
        workers=min(machine.cores(), 2),
    )
    took = time.perf_counter() - started
    print(
        f"relations  search at 128 items, width 16: D_K* {run.total_key_dim} with {run.n_heads} heads, "
        f"{len(run.members)} trainings in {took:.0f} s  (goal {SEARCH_GOAL})",
        flush=True,
    )
    rows.append({"search_seconds": took, "trainings": len(run.members), "total_key_dim": run.total_key_dim})
    return rows


if __name__ == "__main__":
    main()
