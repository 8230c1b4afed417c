"""The key-query channel: what packs and products of all heads save, and a search for the key dimension.

Throughput per member: steps of a pack against steps of one member, in turn, one thread, medians over rounds. In the
same way steps whose products are of all heads at once against steps with a product for each head. The search is that of
one cell: 128 items in 16 channels, heads 1, 2, 4, 8, 16, two worker processes, the wall clock once.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from unittest.mock import patch

import torch

from capax import machine, measure
from capax.models import keyquery, routing
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


IN_CONTEXTS = Relations(n_items=512, contexts="uniform", context_size=16)
WIDE = {
    "threshold": Run(task=Relations(n_items=512), model=KeyQueryChannel(n_heads=8, d_model=384, d_head=2)),
    **{
        channel: Run(
            task=IN_CONTEXTS,
            model=KeyQueryChannel(n_heads=8, d_model=384, d_head=2, d_value=2, channel=channel),
        )
        for channel in ("softmax", "block")
    },
}


def stepper(case: Case, members: int) -> Callable[[], object]:
    """One step of a pack of so many members."""
    return step_of(
        Run(task=Relations(n_items=case.n_items), model=KeyQueryChannel(n_heads=case.n_heads, d_model=16, d_head=6)),
        members,
    )


def step_of(run: Run, members: int) -> Callable[[], object]:
    """One step of so many members of a run."""
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


def one_by_one(step: Callable[[], object]) -> Callable[[], object]:
    """The same step with a product for each head."""

    def joined(self: object, mixed: torch.Tensor, shared: dict[str, torch.Tensor]) -> torch.Tensor:
        return (mixed @ shared["output"]).sum(1)

    def slowly() -> object:
        def product(rows: torch.Tensor, matrices: torch.Tensor) -> torch.Tensor:
            return rows[:, None] @ matrices

        with (
            patch.object(keyquery, "by_heads", product),
            patch.object(routing, "by_heads", product),
            patch.object(routing.RoutingEnsemble, "_joined", joined),
        ):
            return step()

    return slowly


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
    for channel, run in WIDE.items():
        together = step_of(run, 1)
        apart = one_by_one(together)
        for step in (apart, together):
            seconds(step, 3)
        times = [(seconds(apart), seconds(together)) for _ in range(rounds)]
        ratio = statistics.median(one / many for one, many in times)
        one, many = (statistics.median(column) * 1e3 for column in zip(*times, strict=True))
        print(
            f"relations  {channel}, 8 heads of 2, width 384: a product for each head {one:5.1f} ms a step, one of all "
            f"{many:5.1f} ms  ratio {ratio:4.1f}",
            flush=True,
        )
        rows.append({"channel": channel, "for_each_head_ms": one, "of_all_ms": many, "ratio": ratio})
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
