"""From a protocol's count to a measurement: chance, units, and all that is reported with it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from capax import devices, machine
from capax.protocols import chance, units
from capax.protocols.count import Count
from capax.protocols.mac import interval_of
from capax.results import Breakdown, Curve, Cycle, Measurement, Member, Parameters, Search
from capax.seeds import numpy_generator
from capax.specs import Run
from capax.training.pack import Outcome


def assemble(run: Run, count: Count, seconds: float, device: str, packed: tuple[str, ...] = ()) -> Measurement:
    """The measurement of a run, from the count of its protocol.

    Args:
        packed: further notes.
    """
    task, best, one_library = run.task, count.best, run.protocol.one_library
    counting = [best] if one_library else count.outcomes
    luck = chance.luck(task, count.of, best)
    lucky = luck.expected
    above = units.above_chance(count.memorized, lucky, count.of)
    entropy = None if best.constant is None else best.constant.entropy
    worth = units.worth_of_item(task, entropy)
    metrics = best.metrics | {"recalled": float(best.memorized)}
    bits = task.bits_recalled(count.memorized, above, worth, metrics)
    notes_of_trainings = dict.fromkeys(note for outcome in count.outcomes for note in outcome.notes)
    effective = (count.model or run.model).effective_parameters(**task.sizes())
    parameters = Parameters(**best.parameters, effective=effective)
    trainable = parameters.trainable
    shared = numpy_generator(run.seed, "library", 0) if one_library else None
    recallable, remarks = task.library_type().remarks(task, count.of, shared)
    by_bits = count.capacity is not None
    interval = interval_of(count.outcomes, recallable, by_bits) if one_library else count.interval

    def above_chance(items: float) -> float:
        return units.above_chance(items, *_luck_of(items, count, lucky, one_library))

    unreachable = sorted({token for outcome in count.outcomes for token in outcome.unreachable})
    return Measurement(
        memorized=count.memorized,
        memorized_per_restart=tuple(outcome.memorized for outcome in count.outcomes),
        chance=lucky,
        chance_uniform=luck.uniform,
        chance_constant=luck.constant,
        memorized_above_chance=above,
        interval=interval,
        library_size=count.library_size,
        recallable=recallable,
        bits=bits,
        bits_per_item=worth,
        bits_per_item_uniform=task.bits_per_item(),
        target_entropy=entropy,
        bits_per_parameter=bits / trainable,
        tokens_per_parameter=(
            None
            if task.tokens_per_item is None
            else units.tokens_per_parameter(count.memorized, task.tokens_per_item, trainable)
        ),
        units=units.amounts(
            task,
            count.memorized,
            interval,
            above_chance,
            lambda items: task.bits_recalled(items, above_chance(items), worth, metrics),
            _information(run, count),
            parameters,
        ),
        metrics=_finite(best.metrics),
        parameters=parameters,
        epochs=max(outcome.epochs for outcome in counting),
        steps=max(outcome.steps for outcome in counting),
        seconds=seconds,
        stop_reason=best.stop_reason,
        unreachable=tuple(unreachable) if run.model.frozen_readout else None,
        members=tuple(_member(outcome, whole_curve=one_library) for outcome in count.outcomes),
        search=count.search,
        shatter=count.shatter,
        capacity=count.capacity,
        breakdown=_breakdown(run, count),
        notes=(*count.notes, *notes_of_trainings, *packed, *remarks),
        spec=run,
        key=run.key(),
        host=machine.host(),
        processor=devices.processor(device),
        versions=machine.versions(),
    )


def _finite(metrics: Mapping[str, float]) -> dict[str, float]:
    """Those that are numbers: a square may be too large for one."""
    return {name: value for name, value in metrics.items() if np.isfinite(value)}


def _luck_of(items: float, count: Count, lucky: float, one_library: bool) -> tuple[float, float]:
    """What luck recalls of the library that a number of items is counted in, and its size.

    Of a search for the largest library that is memorized whole, each number is a library of its own, that counts whole;
    of one item, which a constant answer recalls, nothing is above luck.
    """
    if isinstance(count.search, Search):
        return (0.0 if items > 1 else items), items
    if one_library or count.memorized < count.of:
        return lucky, count.of
    return lucky * items / count.of, items


def _breakdown(run: Run, count: Count) -> Breakdown | None:
    """What the best restart recalls, group by group; of one library alone."""
    library = run.task.library_type()
    if not (library.breaks_down and run.protocol.one_library) or count.best.information is None:
        return None
    restarts = [count.best, *(outcome for outcome in count.outcomes if outcome is not count.best)]
    rows = [np.frombuffer(bytes.fromhex(one.information.recalled), np.uint8) for one in restarts if one.information]
    right = [np.unpackbits(row, count=run.task.rows(count.of)).astype(bool) for row in rows]
    found: Breakdown = library.breakdown(run.task, count.of, numpy_generator(run.seed, "library", 0), right)
    return found


def _information(run: Run, count: Count) -> units.LibraryInformation | None:
    """That of the restarts; of a search or of trials, whose libraries differ, of the training that counts."""
    restarts = count.outcomes if run.protocol.one_library else [count.best]
    each = [outcome.information for outcome in restarts if outcome.information is not None]
    if not each:
        return None
    most = count.best.library_size * run.task.information_per_item()
    return units.LibraryInformation(tuple(one.clipped for one in each), tuple(one.signed for one in each), most)


def _member(outcome: Outcome, whole_curve: bool) -> Member:
    points, highest = [], -1
    for point in outcome.curve:
        if whole_curve or point[1] > highest or point is outcome.curve[-1]:
            points.append(point)
        highest = max(highest, point[1])
    epochs, memorized, losses = zip(*points, strict=True)
    fields = {name: getattr(outcome, name) for name in Member.model_fields if name not in ("curve", "cycles")}
    fields["metrics"] = _finite(outcome.metrics)
    cycles = tuple(Cycle(**end._asdict()) for end in outcome.cycles)
    return Member(**fields, cycles=cycles, curve=Curve(epoch=epochs, memorized=memorized, loss=losses))
