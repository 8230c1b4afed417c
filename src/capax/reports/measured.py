"""How runs were measured: once for each task and model, and what differs in a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

from capax.figures import words
from capax.figures.groups import alike
from capax.results import Measurement
from capax.specs.apart import fields_of, in_words, unlike
from capax.text import listed


class Measured(NamedTuple):
    """Runs of one task and model.

    Attributes:
        text: how the largest group of them was measured, in sentences.
        rows: of each group, where there are several: its runs, the sizes that it went through, and in what else it
            differs from the largest.
    """

    runs: int
    text: str
    rows: list[tuple[int, str, str]]


def measured(runs: Sequence[Measurement], sizes: Collection[str]) -> list[Measured]:
    """How runs were measured, those of which there are most first.

    Args:
        sizes: fields in which runs of one group may differ.
    """
    families: dict[tuple[str, str], list[Measurement]] = defaultdict(list)
    for run in runs:
        families[run.spec.task.task, run.spec.model.model].append(run)
    return [_family(family, sizes) for family in sorted(families.values(), key=lambda family: -len(family))]


def _family(runs: Sequence[Measurement], sizes: Collection[str]) -> Measured:
    groups = alike(runs, sizes)
    usual = fields_of(groups[0].runs[0].spec, sizes)
    each = [_values(group.runs, sizes) for group in groups]
    several = {name for values in each for name in values if any(other.get(name) != values[name] for other in each)}
    several |= {name for values in each for name in values if len(values[name]) > 1}
    rows = []
    for group, values in zip(groups, each, strict=True):
        fields = fields_of(group.runs[0].spec, sizes)
        went = ", ".join(f"{name} {_listed(values[name])}" for name in values if name in several)
        rows.append((len(group.runs), went or "–", in_words(unlike(fields, usual)) or "–"))
    return Measured(len(runs), words.kind(groups[0]), rows if len(rows) > 1 else [])


def _values(runs: Sequence[Measurement], sizes: Collection[str]) -> dict[str, set[int | str]]:
    """The values of the sizes of some runs; of lists, such as head counts, in words."""
    found: dict[str, set[int | str]] = defaultdict(set)
    for run in runs:
        for name, value in fields_of(run.spec, ()).items():
            if name in sizes and value is not None:
                words = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
                found[name].add(value if isinstance(value, int) else words)
    return dict(found)


def _listed(values: Collection[int | str]) -> str:
    numbers = [value for value in values if isinstance(value, int)]
    return listed(numbers) if len(numbers) == len(values) else "; ".join(sorted(map(str, values)))
