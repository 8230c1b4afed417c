"""What a report leads with: its result in a sentence, and a row for each group of runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

from capax.figures.groups import Group, alike
from capax.figures.words import of_runs
from capax.reports.found import LUCK, PRECISE, density, found, number, of_items
from capax.results import Measurement
from capax.specs.apart import KIND, Fields, apart, fields_of, in_words, unlike
from capax.text import counted

MOST_ROWS = 24
"""Of the table with a row for each setting; of more settings, those that differ in sizes alone share one."""
WHEN = {
    "budget": "At the end of its budget",
    "plateau": "On a plateau",
    "converged": "When a cycle of the learning rate added too little",
    "diverged": "Before it diverged",
    "complete": "At its end",
}
"""What is said before a count whose training ended for another reason than having learned all."""


class Row(NamedTuple):
    """A group of runs in the summary.

    Attributes:
        of: what tells it from the others, of all of a kind but the first what tells them from that one; empty where it
            is alone.
        per_parameter: bits, of the best run; of all that converged where they are what networks hold.
        standing: whether its runs converged, or how they ended.
    """

    runs: int
    of: str
    best: str
    interval: str
    per_parameter: str
    standing: str


class Summary(NamedTuple):
    """What a report leads with.

    Attributes:
        sentences: what was found, in numbers.
        effective: whether bits are per effective parameter; else, of older runs, per trainable one.
    """

    sentences: list[str]
    rows: list[Row]
    effective: bool


def summary(runs: Sequence[Measurement], sizes: Collection[str]) -> Summary:
    """The result of some runs, and a row for each setting (runs that differ in their seeds alone).

    Where settings are many, a row is for all runs that differ in sizes alone.

    Args:
        sizes: the names of such fields.
    """
    effective = all(run.parameters.effective is not None for run in runs)
    settings = {repr(fields_of(run.spec, ())) for run in runs}
    varied = () if len(settings) <= MOST_ROWS else sizes
    groups = alike(runs, varied)
    told = _told(groups, [fields_of(group.runs[0].spec, varied) for group in groups])
    rows = [_row(group, of, effective) for group, of in zip(groups, told, strict=True)]
    return Summary(sentences(runs), rows, effective)


def _told(groups: Sequence[Group], fields: Sequence[Fields]) -> list[str]:
    """What tells each group from the others, in words; all of a kind but the first from that one."""
    firsts: dict[str, Fields] = {}
    told = []
    for group, own in zip(groups, fields, strict=True):
        first = firsts.setdefault(repr([own.get(name) for name in KIND]), own)
        kind = {name: value for name, value in apart(own, fields).items() if name in KIND}
        told.append(group.apart if first is own else in_words(kind | unlike(own, first)))
    return told


def _row(group: Group, of: str, effective: bool) -> Row:
    each = [found(run) for run in group.runs]
    best, run = max(zip(each, group.runs, strict=True), key=lambda pair: pair[0].rank)
    ends = Counter(one.standing for one in each)
    standing = ", ".join(f"{count} {end}" for end, count in ends.most_common()) if len(each) > 1 else best.standing
    told = [run]
    if run.capacity is not None and run.capacity.converged:
        told = [one for one in group.runs if one.capacity is not None and one.capacity.converged]
    densities = [value for one in told if (value := density(one, effective=effective)) is not None]
    at_least = "at least " if run.capacity is not None and not run.capacity.converged and densities else ""
    return Row(len(each), of, best.text, best.interval, f"{at_least}{_span(densities, 3) or '–'}", standing)


def _span(values: Sequence[float], digits: int = 2) -> str:
    """The smallest and the largest number, to so many digits."""
    ends = [f"{value:.{digits}g}" for value in (min(values), max(values))] if values else []
    return " to ".join(dict.fromkeys(ends))


def sentences(runs: Sequence[Measurement]) -> list[str]:
    """What was found, in numbers: a sentence for each task and protocol, capacities first, then what has most runs."""
    parts: dict[tuple[str, str], list[Measurement]] = defaultdict(list)
    for run in runs:
        parts[run.spec.task.task, run.spec.protocol.protocol].append(run)
    ordered = sorted(parts.values(), key=lambda part: (part[0].capacity is None, -len(part)))
    several = len({task for task, _ in parts}) > 1
    return [(_titled(part[0].spec.task.unit) + ": " if several else "") + _sentence(part) for part in ordered]


def _titled(text: str) -> str:
    return text[:1].upper() + text[1:]


def _sentence(runs: Sequence[Measurement]) -> str:
    first = runs[0]
    if first.capacity is not None:
        return _held(runs)
    if first.key_search is not None:
        return _key_dimensions(runs)
    if first.shatter is not None:
        return _trials(runs)
    return _counted(runs) if first.search is None else _largest(runs)


def _held(runs: Sequence[Measurement]) -> str:
    """Of protocol capacity: a range over what converged, and apart from it what did not."""
    networks = len({(run.spec.model.model_dump_json(), repr(run.spec.task.sizes())) for run in runs})
    effective = all(density(run, effective=True) is not None for run in runs)
    unit = f"bits per {'effective' if effective else 'trainable'} parameter"
    held: dict[bool, list[float]] = {True: [], False: []}
    for run in runs:
        value = density(run, effective=effective)
        assert run.capacity is not None
        assert value is not None
        held[run.capacity.converged].append(value)
    converged, others = held[True], held[False]
    of = counted(networks, "network")
    many = of if networks == len(runs) else f"{of_runs(len(runs))} of {of}"
    one = "s" * (len(runs) == 1)
    if not converged:
        return f"Not converged: {many} hold{one} at least {_span(others)} {unit}"
    if not others:
        return f"{_titled(many)} hold{one} {_span(converged)} {unit}; {'it' if one else 'all'} converged"
    return (
        f"{len(converged)} of {many} converged and hold{'s' * (len(converged) == 1)} {_span(converged)} {unit}; "
        f"{len(others)} did not converge: at least {_span(others)}"
    )


def _key_dimensions(runs: Sequence[Measurement]) -> str:
    dims = [run.key_search.total_key_dim for run in runs if run.key_search is not None]
    enough = [dim for dim in dims if dim is not None]
    searches = f"{len(runs)} search{'es' * (len(runs) > 1)}"
    protocol = runs[0].spec.protocol
    target = f"F1 {protocol.target_f1:g}" if hasattr(protocol, "target_f1") else "the target"
    if not enough:
        return f"No head size up to the width reaches {target}, in {searches}"
    ends = " to ".join(dict.fromkeys(str(dim) for dim in (min(enough), max(enough))))
    none = f"; in {len(dims) - len(enough)} of them no head size up to the width is enough"
    return (
        f"The smallest total key dimension that reaches {target} (D_K*) is {ends}, in {searches}"
        f"{none if len(enough) < len(dims) else ''}"
    )


def _largest(runs: Sequence[Measurement]) -> str:
    """Of protocol mls."""
    task = runs[0].spec.task
    each = [found(run) for run in runs]
    interval = f" ({each[0].interval})" if len(runs) == 1 and each[0].interval else ""
    ends = Counter(one.standing for one in each if one.standing != PRECISE)
    told = "".join(f"; {f'{count} ' if len(runs) > 1 else ''}{end}" for end, count in ends.items())
    searches = f", in {len(runs)} searches" if len(runs) > 1 else ""
    sizes = _ends([run.memorized for run in runs])
    return f"The largest library memorized whole has {sizes} {task.unit}{interval}{searches}{told}"


def _trials(runs: Sequence[Measurement]) -> str:
    """Of protocol shatter."""
    if len(runs) == 1:
        return found(runs[0]).text
    each = [run.shatter for run in runs if run.shatter is not None]
    whole, trials = sum(len(one.epochs) for one in each), sum(len(one.epochs) + len(one.censored) for one in each)
    medians = [one.median for one in each if one.median is not None]
    after = f", after {_ends(medians)} epochs (medians)" if medians else ""
    return f"{whole} of {trials} trials in {of_runs(len(runs))} memorized their library whole{after}"


def _ends(values: Sequence[float]) -> str:
    return " to ".join(dict.fromkeys(number(value) for value in (min(values), max(values))))


def _counted(runs: Sequence[Measurement]) -> str:
    """Of counts: the best one, and before it how its training ended, if the library was not whole."""
    best = max(runs, key=lambda run: found(run).rank)
    every = "the only run" if len(runs) == 1 else f"the best of {len(runs)} runs"
    if not best.above_chance:
        return (
            f"Nothing significantly above chance in {of_runs(len(runs))}: {of_items(best)}, {best.chance:.4g} by luck"
        )
    verb = "has" if best.spec.task.share else "memorized"
    complete = sum(run.whole for run in runs)
    if best.whole:
        all_of_it = "the whole library" if best.recallable == best.library_size else "all that can be recalled"
        told = f"{_titled(every)} {verb} {of_items(best)}, {all_of_it}"
    else:
        told = f"{WHEN[best.stop_reason]}, {every} {verb} {of_items(best)}"
    if complete and len(runs) > 1:
        told += f"; {complete} of {len(runs)} memorized theirs whole"
    luck = sum(not run.above_chance for run in runs)
    return told + (f"; {luck} of {len(runs)} {'is' if luck == 1 else 'are'} {LUCK}" if luck else "")
