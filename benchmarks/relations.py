"""The key-query channel: what packs and products of all heads save, and a search for the key dimension.

Throughput per member: steps of a pack against steps of one member, in turn, one thread, medians over rounds. In the
same way steps, and counting in contexts, whose products are of all heads at once and of each item once, against those
with a product for each head, of each item as often as it is in a context. The search is that of one cell: 128 items in
16 channels, heads 1, 2, 4, 8, 16, two worker processes, the wall clock once.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import torch

from capax import machine, measure
from capax.models import keyquery, routing
from capax.models.operations import of_members, softmax
from capax.specs import Budget, KeyQueryChannel, Relations, Run
from capax.training.ensemble import Learner
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
    model = KeyQueryChannel(n_heads=case.n_heads, d_model=16, d_head=6)
    return learner_of(Run(task=Relations(n_items=case.n_items), model=model), members).step


def learner_of(run: Run, members: int) -> Learner:
    """What trains so many members of a run."""
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
    return prepare(pack)


def seconds(step: Callable[[], object], times: int = 10) -> float:
    started = time.perf_counter()
    for _ in range(times):
        step()
    return (time.perf_counter() - started) / times


def one_by_one(step: Callable[[], object]) -> Callable[[], object]:
    """The same with a product for each head, of each item as often as it is in a context."""

    def product(rows: torch.Tensor, matrices: torch.Tensor) -> torch.Tensor:
        return rows[:, None] @ matrices

    def matrices_alone(self: Any, items: torch.Tensor, n_read: int) -> dict[str, torch.Tensor]:
        return dict(self.parameters) | {"scale": self.scale}

    def in_contexts(
        self: Any, items: torch.Tensor, chosen: torch.Tensor, shared: dict[str, torch.Tensor], training: bool = False
    ) -> torch.Tensor:
        x = of_members(items, chosen)
        query, key, value = (x[:, None] @ shared[name][:, :, None] for name in ("query", "key", "value"))
        scores = query @ key.mT * shared["temperature"][:, :, None, None, None]
        scores.diagonal(dim1=3, dim2=4).fill_(-math.inf)
        routed = (softmax(scores) @ value @ shared["output"][:, :, None]).sum(1)
        y = self._compared(x.flatten(1, 2), routed.flatten(1, 2), shared).unflatten(1, chosen.shape[1:])
        return y @ x.mT * shared["scale"][:, None, None] - shared["threshold"][:, None, None]

    def slowly() -> object:
        with (
            patch.object(keyquery, "by_heads", product),
            patch.object(routing.RoutingEnsemble, "shared_by_contexts", matrices_alone),
            patch.object(routing.RoutingEnsemble, "outputs_in_contexts", in_contexts),
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
        learner = learner_of(run, 1)
        for part, together, often in (("step", learner.step, 10), ("count", partial(learner.evaluate, [0]), 1)):
            apart = one_by_one(together)
            for one_part in (apart, together):
                seconds(one_part, 1)
            times = [(seconds(apart, often), seconds(together, often)) for _ in range(rounds)]
            ratio = statistics.median(one / many for one, many in times)
            one, many = (statistics.median(column) * 1e3 for column in zip(*times, strict=True))
            print(
                f"relations  {channel}, 8 heads of 2, width 384: a {part} with a product for each head {one:6.1f} ms, "
                f"with one of all {many:6.1f} ms  ratio {ratio:4.1f}",
                flush=True,
            )
            rows.append({"channel": channel, "part": part, "apart_ms": one, "together_ms": many, "ratio": ratio})
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
