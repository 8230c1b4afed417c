"""Runs that may be drawn as one curve: alike in everything but what the figure varies."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from capax.results import Measurement
from capax.specs.apart import Fields, apart, fields_of, in_words


@dataclass(frozen=True)
class Group:
    """Runs of one kind.

    Attributes:
        apart: what tells them from the other groups, in words; empty where there is one group.
    """

    runs: tuple[Measurement, ...]
    apart: str

    @cached_property
    def seeds(self) -> list[int]:
        """How many seeds there are of each run, from the fewest: of runs that differ in nothing else."""
        if len({run.spec.seed for run in self.runs}) == 1:  # not to look at all fields of many runs
            return [1]
        return sorted(Counter(repr(fields_of(run.spec, ())) for run in self.runs).values())


def alike(runs: Iterable[Measurement], varied: Collection[str]) -> list[Group]:
    """The runs in groups that differ within in nothing but `varied` and their seeds; the largest group first."""
    groups: dict[str, list[Measurement]] = defaultdict(list)
    shared: dict[str, Fields] = {}
    for run in runs:
        fields = fields_of(run.spec, varied)
        key = repr(fields)
        groups[key].append(run)
        shared[key] = fields
    found = []
    for key, members in groups.items():
        told = apart(shared[key], list(shared.values()))
        items = {run.spec.task.items for run in members}
        of = f": {next(iter(items))}" if list(told) == ["task"] and len(items) == 1 else ""
        found.append(Group(tuple(members), in_words(told) + of))
    return sorted(found, key=lambda group: -len(group.runs))
