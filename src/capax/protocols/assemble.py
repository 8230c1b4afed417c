"""From what a protocol found to a measurement: chance, units, and all that is told with a count."""

from __future__ import annotations

from capax import machine
from capax.protocols import chance, units
from capax.protocols.procedures import Found
from capax.results import Curve, Measurement, Member, Parameters
from capax.seeds import numpy_generator
from capax.specs import Mac, Mls, Run
from capax.training.pack import Outcome


def assemble(run: Run, found: Found, seconds: float, packed: tuple[str, ...] = ()) -> Measurement:
    """The measurement of a run, of what its protocol found.

    Args:
        packed: further notes.
    """
    task, best = run.task, found.best
    size = max(found.memorized, 1) if isinstance(run.protocol, Mls) else found.library_size
    luck = chance.luck(task, size, best)
    lucky = luck.expected
    above = units.above_chance(found.memorized, lucky, size)
    entropy = None if best.constant is None else best.constant.entropy
    worth = units.worth_of_item(task, entropy)
    bits = above * worth
    told = dict.fromkeys(note for outcome in found.outcomes for note in outcome.notes)
    parameters = Parameters(**best.parameters)
    trainable = parameters.trainable
    shared = numpy_generator(run.seed, "library", 0) if isinstance(run.protocol, Mac) else None
    recallable, remarks = task.library_type().remarks(task, size, shared)
    notes = [*told, *packed, *remarks]
    unreachable = sorted({token for outcome in found.outcomes for token in outcome.unreachable})
    return Measurement(
        memorized=found.memorized,
        memorized_per_restart=tuple(outcome.memorized for outcome in found.outcomes),
        chance=lucky,
        chance_uniform=luck.uniform,
        chance_constant=luck.constant,
        memorized_above_chance=above,
        interval=found.interval,
        library_size=found.library_size,
        recallable=recallable,
        bits=bits,
        bits_per_item=worth,
        bits_per_item_uniform=task.bits_per_item(),
        target_entropy=entropy,
        bits_per_parameter=bits / trainable,
        tokens_per_parameter=(
            None
            if task.tokens_per_item is None
            else units.tokens_per_parameter(found.memorized, task.tokens_per_item, trainable)
        ),
        units=units.amounts(
            task,
            found.memorized,
            found.interval,
            lambda items: units.above_chance(items, lucky, size),
            _known(run, found),
            parameters,
            worth,
        ),
        metrics=best.metrics,
        parameters=parameters,
        epochs=best.epochs if isinstance(run.protocol, Mac) else max(o.epochs for o in found.outcomes),
        steps=best.steps if isinstance(run.protocol, Mac) else max(o.steps for o in found.outcomes),
        seconds=seconds,
        stop_reason=best.stop_reason,
        unreachable=tuple(unreachable) if run.model.frozen_readout else None,
        members=tuple(_member(outcome, whole_curve=isinstance(run.protocol, Mac)) for outcome in found.outcomes),
        search=found.search,
        shatter=found.shatter,
        notes=tuple(notes),
        spec=run,
        key=run.key(),
        versions=machine.versions(),
    )


def _known(run: Run, found: Found) -> units.Known | None:
    """What the restarts knew: of a search or of trials, whose libraries differ, the training that counts."""
    restarts = found.outcomes if isinstance(run.protocol, Mac) else [found.best]
    each = [outcome.information for outcome in restarts if outcome.information is not None]
    if not each:
        return None
    most = found.best.library_size * run.task.information_per_item()
    return units.Known(tuple(one.clipped for one in each), tuple(one.signed for one in each), most)


def _member(outcome: Outcome, whole_curve: bool) -> Member:
    points, highest = [], -1
    for point in outcome.curve:
        if whole_curve or point[1] > highest or point is outcome.curve[-1]:
            points.append(point)
        highest = max(highest, point[1])
    epochs, memorized, losses = zip(*points, strict=True)
    return Member(
        member=outcome.member,
        library_size=outcome.library_size,
        memorized=outcome.memorized,
        epoch_of_best=outcome.epoch_of_best,
        epochs=outcome.epochs,
        steps=outcome.steps,
        stop_reason=outcome.stop_reason,
        d_head=outcome.d_head,
        unreachable=outcome.unreachable,
        metrics=outcome.metrics,
        curve=Curve(epoch=epochs, memorized=memorized, loss=losses),
    )
