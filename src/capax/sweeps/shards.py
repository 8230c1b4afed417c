"""Shards: the runs of a study dealt out to several sweeps that know nothing of each other, each with its own store."""

from __future__ import annotations

from pathlib import Path

from capax.errors import SpecError, shown
from capax.specs import Run
from capax.specs.spec import whole
from capax.sweeps.under_way import together
from capax.text import counted

Shard = tuple[int, int]
"""Which shard, from 1 on, of how many."""


def parse(text: str) -> Shard:
    """The shard of "3/16".

    Raises:
        SpecError: for anything but two whole numbers.
    """
    number, _, count = text.partition("/")
    try:
        return check((int(number), int(count)))
    except ValueError:
        raise SpecError(f"shard: K/N, such as 3/16, with 1 ≤ K ≤ N, got {shown(text)}") from None


def check(shard: Shard) -> Shard:
    """Refuse what is no shard.

    Raises:
        SpecError: for anything but two whole numbers with 1 ≤ K ≤ N.
    """
    if not isinstance(shard, tuple) or len(shard) != 2:
        raise SpecError(f"shard: two whole numbers (K, N), such as (3, 16), got {shown(shard)}")
    number, count = (whole("shard", value, None) for value in shard)
    if not 1 <= number <= count:
        raise SpecError(f"shard: K/N with 1 ≤ K ≤ N, got '{number}/{count}'")
    return number, count


def share(runs: tuple[Run, ...], shard: Shard) -> tuple[Run, ...]:
    """The runs of one shard, in the order of the study; every run is in exactly one.

    Runs that train together stay together, so that a result has the same bits as in an undivided sweep. The packs are
    ordered by what they cost, by their specs alone, and dealt in turn, forth and back: each shard has as many as the
    others, give or take one, and of every size. The same study gives the same shards on any machine.

    Raises:
        SpecError: where there are more shards than packs.
    """
    number, count = shard
    packs = list(together(runs))
    if count > len(packs):
        raise SpecError(
            f"shard: at most {len(packs)}, since {counted(len(runs), 'run')} train in {counted(len(packs), 'pack')}, "
            f"got '{number}/{count}'"
        )
    ordered = sorted(range(len(packs)), key=lambda place: (-_operations(packs[place]), packs[place][0].key()))
    forth_and_back = (number - 1, 2 * count - number)
    mine = {
        run.key() for place, pack in enumerate(ordered) if place % (2 * count) in forth_and_back for run in packs[pack]
    }
    return tuple(run for run in runs if run.key() in mine)


def beside(store: Path, shard: Shard) -> Path:
    """The file of one shard of a store: study-03-of-16.db."""
    number, count = shard
    return store.with_name(f"{store.stem}-{number:0{len(str(count))}}-of-{count}{store.suffix}")


def _operations(runs: tuple[Run, ...]) -> int:
    """What a pack costs, in whole numbers, which every machine adds up alike.

    Operations of all trainings until their budget is spent, or of one epoch where there is none. A model that runs a
    user's code has sizes that are known only when it is built; its runs are told apart by their trainings alone.
    """
    run = runs[0]
    task, size = run.task, run.task.library_size
    per_item = 1
    if run.model.runs_code is None:
        per_item = int(run.protocol.largest(run.model, 1).operations(task.sizes(), task.scored("loss")))
    steps = run.budget or run.training.steps_per_epoch(task.learned_rows(size, run.model))
    return len(runs) * run.protocol.most_trainings * steps * min(run.training.batch_size, size) * per_item
