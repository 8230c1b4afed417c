"""Predict, plan and verify, for every task whose law names its axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from capax.errors import LawError, OutsideDomain, shown
from capax.laws.files import DEFAULT, load_law
from capax.laws.law import Law
from capax.planning import bits, proxies
from capax.planning.by_bytes import smallest_networks
from capax.planning.cost import Accelerator
from capax.planning.fill import Fill
from capax.planning.known import Seen
from capax.planning.options import Options
from capax.planning.question import SUREST, Columns, Question, of_kinds, of_new_measurement, predicted
from capax.planning.results import (
    BYTES,
    Architecture,
    BitsFrontier,
    Frontier,
    Network,
    Precision,
    Prediction,
    Smallest,
    Verification,
)
from capax.protocols.measure import measure
from capax.protocols.progress import Callback
from capax.results import LEVEL
from capax.specs import Mac, Training
from capax.specs.spec import positive, truth, whole
from capax.store import Store
from capax.store.tables import IN_BITS
from capax.training.workers import Workers

BUILT = "built, not trained, where there are as many heads as edges: one edge a head is always enough"

REACHES = tuple(2**power for power in range(8))
"""How many times beyond the domain's end sizes go, in turn, until the smallest that is enough is found."""
PARTS = 8
"""Into which a gap between a size that is too small and the next one is cut, again and again."""


def predict(
    law: Law | str = DEFAULT, *, level: float = LEVEL, extrapolate: bool | None = None, **sizes: int | None
) -> Prediction:
    """What a law predicts for one architecture.

    Args:
        law: a fitted law, or its name (`load_law`).
        level: probability with which a new measurement falls into the interval.
        extrapolate: answer outside the law's domain, too; by default only a law that travels does (`Law.travels`), such
            as capacity.
        sizes: those of the task and of the model by name: `seq_len=8, n_heads=2, d_model=32`. What all the law's data
            had in common may be left out. Beside a law in bits also `exposures`: what is known after so many; and
            `task`, the tag of another task whose items are tokens: `task="biographies", reduction=10`. Its items follow
            by their information.

    Raises:
        LawError: for a size that is missing or not allowed, outside the domain without `extrapolate`, or where the law
            has no meaning.
    """
    law = load_law(law)
    if extrapolate is not None:
        truth("extrapolate", extrapolate, LawError)
    early = None if law.along == "exposures" else sizes.pop("exposures", None)
    _check_bits(law, exposures=early)
    if early is not None:
        early = whole("exposures", early, error=LawError)
    question = Question(law, sizes)
    positive("level", level, 2 * SUREST - 1, LawError)
    grid = question.grid()
    for name, values in grid.items():
        if len(values) > 1:
            given = f"one value, got {shown(sizes[name])}" if sizes.get(name) is not None else None
            raise LawError(f"{name}: {given or f'is required, {question.why(name)}'}")
    (model,) = question.models(grid)
    table = question.table([model])
    row = {name: values[0].item() for name, values in table.items() if name not in law.found}
    outside = question.outside([row], extrapolate)
    seen = Seen.of(table, early)
    if (beyond := tuple(seen.why(0, outside))) and extrapolate is False:
        raise OutsideDomain(f"outside the domain: {'; '.join(beyond)}; extrapolate all the same")
    items, every = 1 / question.per_item, Fill()
    expected = predicted(law, table) if early is None else every.widened(law, table, (0.5,), seen.shares)[0]
    value = float(expected[0]) * items
    if value < 0:
        raise LawError(f"{law.name}: predicts {value:.4g} items; no count is below zero, so it does not hold here")
    most = question.most if law.needed_for is None else np.inf
    levels = (1 - level) / 2, (1 + level) / 2
    ends = law.predict_interval(table, level) if early is None else every.widened(law, table, levels, seen.shares)
    low, high = (min(float(end[0]) * items, most) for end in ends)
    told: dict[str, Any] = {name: table[name][0].item() for name in (*question.asked, *question.axes, *question.along)}
    told |= question.named | question.kinds | ({} if early is None else {"exposures": early})
    told["trainable_parameters"] = row["trainable_parameters"]
    if law.target in IN_BITS:
        told["bits"] = value * question.per_item
    if law.needed_for is not None:
        told["rule"] = _rule(question, model, value)
    remarks = [*seen.remarks(0), *law.remarks({name: table[name] for name in law.columns})]
    remarks += [*of_kinds(law, outside), *question.untold()]
    if value > most:
        remarks.append(f"it could hold more, but only {most} {question.kind.unit} ask distinct questions")
    return Prediction(
        value=min(value, most),
        interval=of_new_measurement(low, high, level),
        inside_domain=not (outside or beyond),
        outside=(*outside, *beyond),
        **told,
        **_about(law, remarks=remarks),
    )


def _check_bits(law: Law, **options: Any) -> None:
    """Raise LawError where an option that only laws in bits have is given with another."""
    for name, given in options.items():
        if given is not None and law.target not in IN_BITS:
            raise LawError(f"{name}: only for laws in bits, such as capacity; {law.name} is none")


def _rule(question: Question, model: Any, needed: float) -> str:
    """How heads and their size were chosen that make up what is needed."""
    if not all(name in question.sizes for name in question.law.found):
        return "as many as given, their size by what is needed" if "n_heads" in question.sizes else str(model.rule)
    enough = "enough" if model.total_key_dim >= needed else "too few"
    return f"as given; {model.total_key_dim} in all, {enough} for what is expected to be needed"


def plan(
    law: Law | str,
    target: int | None = None,
    *,
    probability: float = 0.9,
    multiple: int | None = None,
    budget_parameters: int | None = None,
    budget_bytes: int | None = None,
    budget_hours: float | None = None,
    precision: Precision = "float32",
    exposures: int | None = None,
    accelerator: Accelerator | None = None,
    smallest: Smallest = "parameters",
    extrapolate: bool | None = None,
    **sizes: int | str | Sequence[int] | None,
) -> Frontier:
    """The architectures that hold this many items with a given probability, smallest first.

    A law in bits plans at any size: of every depth and kind of tables the narrowest network, inside the law's domain or
    not, with the interval that the law has at that distance, and what its training costs (`BitsFrontier`).

    Args:
        law: a fitted law, or its name (`load_law`).
        target: how many items are to be memorized. With a law in bits it may be left out: then of every family the
            widest network within the budget is found, and what it holds.
        probability: that a new measurement of the architecture reaches the target: the level of its prediction
            interval, which is open above.
        multiple: what the values of the axis along which the smallest is sought are multiples of, where they follow
            from the law's domain (8 for the width of a transformer, 4 for the head size of an attention layer).
        budget_parameters: most trainable parameters.
        budget_bytes: most bytes of all parameters; of a law in bits, as are those below.
        budget_hours: most hours of one training on this machine.
        precision: in which the bytes are counted.
        exposures: times that a training shows each item; where given, the items have to be known by then, else when
            it has converged.
        accelerator: on which the training is reckoned, too (h100 where none is given); of a law in bits, too.
        smallest: what is to be small, `parameters` or, of a law in bits, `bytes` of the file: then the precision of
            the weights is chosen, too, by a study of what rounding leaves, and `precision` does not count.
        extrapolate: go outside the law's domain, where the given sizes lead there or nothing in it holds the target; by
            default only a law that travels does, such as capacity.
        sizes: those of the task by name, and values of the model's to choose from: `seq_len=8, n_heads=[1, 2]`; those
            of the law's domain where none are given. Of a law in bits also `task`, as in `predict`.

    Raises:
        LawError: for a value that is not allowed, outside the domain without `extrapolate`, or when the budget leaves
            no candidate.
    """
    law = load_law(law)
    if law.along is not None:
        raise LawError(
            f"law: {law.name} says what is known after so many {law.along}; a plan needs one of what is held"
        )
    in_bits = law.target in IN_BITS
    if target is None and not in_bits:
        raise LawError("items: is required, how many are to be held")
    if target is not None:
        whole("items", target, error=LawError)
    options = Options.checked(
        budget_parameters=budget_parameters,
        budget_bytes=budget_bytes,
        budget_hours=budget_hours,
        probability=probability,
        multiple=multiple,
        precision=precision,
        exposures=exposures,
        accelerator=accelerator if accelerator is not None else "h100",
        smallest=smallest,
        extrapolate=extrapolate,
    )
    _check_bits(law, budget_bytes=budget_bytes, exposures=exposures, budget_hours=budget_hours, accelerator=accelerator)
    if smallest == "bytes" and not in_bits:
        raise LawError(f"smallest: bytes (--target bytes) only for laws in bits, such as capacity; {law.name} is none")
    question = Question(law, sizes, target)
    if in_bits:
        return smallest_networks(question, target, options)
    assert target is not None
    for reach in REACHES if extrapolate else REACHES[:1]:
        tried = _tried(question, target, options, reach)
        given = question.axes[-1] in question.sizes
        if tried.enough and (given or not _smaller_beyond(tried)):
            break
    between = set[int]()
    while reach > 1 and (further := _in_between(question, tried) - between):
        between |= further
        tried = _tried(question, target, options, reach, between)
    table, kept, margin, keys, enough = tried.table, tried.kept, tried.margin, tried.keys, tried.enough
    size, total, outside = table["trainable_parameters"], table["total_parameters"], tried.outside
    remarks = [*_left_out(question, table, tried.allowed), *question.untold()]
    narrowest: dict[tuple[int, ...], int] = {}
    # beyond the domain also of the axis that is raised there the first that is enough
    along = {len(question.axes) - 1} | ({question.axes.index(str(law.beyond))} if between else set())
    for place in sorted(enough, key=lambda place: size[place]):
        narrowest.setdefault(tuple(value for axis, value in enumerate(keys[place]) if axis not in along), place)
    places = sorted(narrowest.values(), key=lambda place: (size[place], total[place]))
    nearest = [] if places else [int(np.flatnonzero(kept)[np.argmax(margin[kept])])]
    if nearest:
        remarks += _not_tried(question, table)
    found = _described(question, table, keys, places or nearest, probability, precision)
    if outside:
        known = {name: values for name, values in table.items() if name not in law.found}
        outside = question.outside(
            [{name: values[at].item() for name, values in known.items()} for at in places or nearest], extrapolate
        )
    asked: dict[str, Any] = {name: value for name, value in question.asked.items() if name != law.needed_for}
    if law.needed_for is not None and any(getattr(row, "n_heads", 0) >= target for row in found):
        remarks.append(BUILT)
    return Frontier(
        items=target,
        **asked,
        probability=probability,
        precision=precision,
        architectures=tuple(found if places else ()),
        nearest=found[0] if nearest else None,
        **_about(law, outside, remarks),
    )


def _candidates(
    question: Question, options: Options, reach: int, between: Collection[int]
) -> tuple[Columns, np.ndarray, tuple[str, ...]]:
    """The architectures to choose from, which of them count, and why some lie outside the law's domain.

    Raises:
        OutsideDomain: where all of them do, and none may.
    """
    grid, extrapolate = question.grid(options.multiple, reach, between), options.extrapolate
    given = question.given | question.kinds
    ends = [{**given, **{name: end(values) for name, values in grid.items()}} for end in (min, max)]
    outside = question.outside(ends, extrapolate, derived=bool(extrapolate))  # else some architectures may be inside
    models = question.models(grid, options.probability)
    table = question.table(models)
    kept = np.full(len(models), True) if outside or extrapolate else question.law.inside_domain(table)
    if not kept.any():  # by what follows from the sizes, such as parameters
        rows = [{name: values[at].item() for name, values in table.items()} for at in (0, -1)]
        question.outside(rows, extrapolate=False)
    return table, kept, outside


class _Tried(NamedTuple):
    """Architectures to choose from.

    Attributes:
        table: their columns.
        keys: their values along each axis.
        allowed: which may be chosen as the law goes; `kept` within the budget, too.
        outside: why some lie outside the law's domain.
        margin: how many times the target each surely holds.
        enough: places of those within the budget that hold it.
    """

    table: Columns
    keys: list[tuple[int, ...]]
    allowed: np.ndarray
    kept: np.ndarray
    outside: tuple[str, ...]
    margin: np.ndarray
    enough: list[int]


def _tried(question: Question, target: int, options: Options, reach: int, between: Collection[int] = ()) -> _Tried:
    """Architectures to a reach beyond the domain.

    Args:
        between: further values of the axis that the law raises beyond it.

    Raises:
        LawError: when the budget leaves none.
    """
    table, allowed, outside = _candidates(question, options, reach, between)
    size, most = table["trainable_parameters"], options.budget.parameters
    kept = allowed if most is None else allowed & (size <= most)
    if not kept.any():
        raise LawError(
            f"budget_parameters: at least {size[allowed].min()} for the smallest architecture to choose from, got "
            f"{most}"
        )
    margin = _margin(question.law, table, target, 1 - options.probability)
    keys = list(zip(*(table[name].tolist() for name in question.axes), strict=True))
    return _Tried(table, keys, allowed, kept, outside, margin, np.flatnonzero(kept & (margin >= 1)).tolist())


def _in_between(question: Question, tried: _Tried) -> set[int]:
    """Of the axis that is doubled beyond the domain, values between the last that is too small and the next one.

    Some to each gap, of all series of architectures that have one; none where values are given, or follow each other.
    """
    name = question.law.beyond
    if name not in question.axes[:-1] or name in question.sizes:
        return set()
    place, found = question.axes.index(name), set[int]()
    series: dict[tuple[int, ...], list[tuple[int, bool]]] = {}
    for key, margin, allowed in zip(tried.keys, tried.margin, tried.allowed, strict=True):
        if allowed:
            series.setdefault((*key[:place], *key[place + 1 :]), []).append((key[place], margin >= 1))
    for values in series.values():
        enough = min((value for value, holds in values if holds), default=None)
        below = max((value for value, holds in values if enough is not None and value < enough), default=None)
        if enough is not None and below is not None:
            found |= set(np.linspace(below, enough, PARTS + 1).round().astype(int).tolist()) - {below, enough}
    return found


def _smaller_beyond(tried: _Tried) -> bool:
    """Whether values of the other axes that hold too little so far are still smaller than all that hold enough."""
    size, keys = tried.table["trainable_parameters"], tried.keys
    smallest, answered = size[tried.enough].min(), {keys[place][:-1] for place in tried.enough}
    widest: dict[tuple[int, ...], int] = {}
    for place in np.flatnonzero(tried.kept).tolist():
        if (others := keys[place][:-1]) not in answered:
            widest[others] = max(widest.get(others, 0), size[place])
    return any(one < smallest for one in widest.values())


def _left_out(question: Question, table: Columns, kept: np.ndarray) -> list[str]:
    """Of the values that were given those that no candidate has, and why."""
    found = []
    for name in (axis for axis in question.axes if axis in question.sizes):
        for value in sorted({*table[name].tolist()} - {*table[name][kept].tolist()}):
            at = int(np.flatnonzero(table[name] == value)[0])
            row = question.law.bounded({column: values[at].item() for column, values in table.items()})
            reasons = "; ".join(question.law.domain_.outside_in_words(row))
            found.append(f"{name} {value} is left out: outside the domain of the law: {reasons}")
    return found


def _not_tried(question: Question, table: Columns) -> list[str]:
    """The end of the domain, where the values that were tried stop short of it."""
    name = question.axes[-1]
    _, high = question.law.domain_.ranges.get(name, (None, None))
    widest = int(table[name].max())
    if high is None or name in question.sizes or widest >= math.floor(high):
        return []
    return [f"{name} was tried up to {widest}, and the domain ends at {high:g}: a smaller multiple tries more"]


def _described(
    question: Question,
    table: Columns,
    keys: Sequence[tuple[int, ...]],
    places: Sequence[int],
    probability: float,
    precision: Precision,
) -> list[Architecture]:
    """Some rows of a table with what they hold, and what a step along the axes would add."""
    following = {gain: _next(keys, question.axes.index(axis)) for gain, axis in question.gains.items()}
    wanted = sorted({*places, *(after[at] for after in following.values() for at in places if at in after)})
    rows = {name: values[wanted] for name, values in table.items()}
    memorized = dict(zip(wanted, _holds(question.law, rows, None).tolist(), strict=True))
    at_least = dict(zip(wanted, _holds(question.law, rows, 1 - probability).tolist(), strict=True))
    size, total = (table[f"{kind}_parameters"].tolist() for kind in ("trainable", "total"))
    most = question.most if question.law.needed_for is None else np.inf
    tokens, found = question.task.tokens_per_item, []
    for at in places:
        named: dict[str, Any] = {name: int(table[name][at]) for name in question.axes}
        for name, after in following.items():
            named[name] = _gain(memorized, size, at, after.get(at))
        found.append(
            Architecture(
                trainable_parameters=size[at],
                total_parameters=total[at],
                bytes=total[at] * BYTES[precision],
                memorized=min(memorized[at], most),
                at_least=min(at_least[at], most),
                tokens_per_parameter=None if tokens is None else tokens * min(memorized[at], most) / size[at],
                efficient=bits.is_efficient(at, np.array(size), np.array(total), places),
                **named,
            )
        )
    return found


def _gain(memorized: Mapping[int, float], size: Sequence[int], at: int, after: int | None) -> float | None:
    """Items per 1000 trainable parameters from one row to another."""
    if after is None or size[after] == size[at]:
        return None
    return 1000 * (memorized[after] - memorized[at]) / (size[after] - size[at])


def _next(keys: Sequence[tuple[int, ...]], number: int) -> dict[int, int]:
    """For each row the one that differs from it by the next larger value of one size."""
    series: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for place, key in enumerate(keys):
        series.setdefault((*key[:number], *key[number + 1 :]), []).append((key[number], place))
    return {
        place: after for members in series.values() for (_, place), (_, after) in itertools.pairwise(sorted(members))
    }


def _margin(law: Law, table: Columns, target: int, probability: float) -> np.ndarray:
    """What each row holds with a probability, or has of what is needed, as a share of what it should."""
    if law.needed_for is None:
        return law.quantile(table, probability) / target
    return np.maximum(table[law.target] / law.quantile(table, 1 - probability), table["n_heads"] / target)


def _holds(law: Law, table: Columns, probability: float | None) -> np.ndarray:
    """Items that each row is expected to hold, or holds but for a probability."""
    if law.needed_for is None:
        return predicted(law, table) if probability is None else law.quantile(table, probability)
    low, high = np.full((2, len(table[law.target])), [[2.0], [1e12]])
    for _ in range(50):  # of a law of what is needed: the items for which what the row has is enough
        items = np.sqrt(low * high)
        asked = {**table, law.needed_for: items}
        needed = predicted(law, asked) if probability is None else law.quantile(asked, 1 - probability)
        enough = needed <= table[law.target]
        low, high = np.where(enough, items, low), np.where(enough, high, items)
    return np.maximum(low, table["n_heads"])  # weights of one edge a head can be built for any graph


def _about(law: Law, outside: Sequence[str] = (), remarks: Sequence[str] = ()) -> dict[str, Any]:
    return {
        "law": law.name,
        "source": law.source_,
        "domain": law.domain_,
        "notes": (*remarks, *law.notes_, *(f"outside the domain of the law: {reason}" for reason in outside)),
    }


def refuse_unverified(*, early: bool, by_bytes: bool) -> None:
    """Refuse to verify a plan of what is known after some exposures, or one by bytes.

    Raises:
        LawError: that names the option.
    """
    if by_bytes:
        raise LawError(
            "smallest: parameters where the plan is to be verified, got bytes (--target); to see what a file "
            "of its weights keeps, measure it with --keep-weights and quantize the run (capax runs quantize)"
        )
    if early:
        raise LawError("exposures: none where the plan is to be verified: that measures what is held at convergence")


def verify_plan(
    law: Law | str,
    frontier: Frontier,
    architecture: Architecture | None = None,
    *,
    store: Store | Path | str | None = None,
    seed: int = 0,
    workers: int | Workers = 1,
    progress: Callback | None = None,
) -> Verification:
    """Train an architecture of a plan on a library of the target's size, as the law's data were trained.

    Its budget is as many steps as the law's data had: epochs of a smaller library have fewer. With a law in bits its
    capacity is measured, or that of a narrower network of its family where it would take too long (`proxy`).

    Args:
        law: the law that the plan was made with: loss, learning rate, stop rule and restarts are those of its data,
            where it says.
        frontier: the plan.
        architecture: which one; the smallest when not given, or the nearest when none holds the target.
        store: where the run is kept, so that a law can be fitted anew with it.
        seed: names all random draws.
        workers: processes, or a pool of them.
        progress: called while training.

    Raises:
        CapaxError: when the library cannot be drawn (fewer prefixes than the target) or the run cannot be stored.
    """
    law = load_law(law)
    asked = dict(frontier.model_extra or {})
    target = frontier.items
    question = Question(law, asked, target)
    chosen = architecture or (frontier.architectures[0] if frontier.architectures else frontier.nearest)
    assert chosen is not None
    if isinstance(frontier, BitsFrontier) and isinstance(chosen, Network):
        refuse_unverified(early=frontier.early, by_bytes=chosen.weights is not None)
        return proxies.verify(question, frontier, chosen, store=store, seed=seed, workers=workers, progress=progress)
    assert target is not None
    sizes: dict[str, Any] = {
        name: value for name, value in (chosen.model_extra or {}).items() if not name.startswith("gain_of_")
    }
    run = measure(
        question.kind.of_size(target, **(question.of(question.kind, files=True) | question.asked)),
        question.spec(sizes),
        Training(**question.of(Training)),
        protocol=Mac(**{name: value for name, value in question.of(Mac).items() if name != "protocol"}),
        seed=seed,
        store=store,
        workers=workers,
        progress=progress,
    )
    missed = run.library_size - run.memorized
    success = run.metrics.get("f1")  # of relations: that no other pair is taken for one counts, too
    held = missed == 0 if success is None else success >= float(question.told.get("target_f1", 0.99))
    return Verification(held=held, miss_percent=100 * missed / run.library_size, measurement=run)
