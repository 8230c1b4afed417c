"""Plans by bytes of the file: of each network the precision in which it is smallest and still holds what is asked."""

from __future__ import annotations

from typing import Any

from capax.errors import CapaxError, LawError, shown
from capax.planning.bits import depths_too_small, drivers, efficient, frontier, measured_near
from capax.planning.families import families
from capax.planning.fill import Fill
from capax.planning.options import Options
from capax.planning.question import Question
from capax.planning.results import BitsFrontier, Network
from capax.planning.rounding_study import Written, ways


def smallest_networks(
    question: Question,
    target: int | None,
    options: Options,
    *,
    fill: Fill | None = None,
    shown_exposures: int | None = None,
) -> BitsFrontier:
    """Of each family the network that is smallest, or within the budget holds most: by parameters, or bytes of a file.

    By bytes the precision is chosen with the network. What is left of its bits there is that of the study that ships,
    whose spread is in the intervals.

    Args:
        question, target, options, fill, shown_exposures: those of `frontier`. By bytes a budget of bytes is of the
            file.

    Raises:
        LawError: as `frontier`, by bytes where it does so for every precision; for a precision that is given then.
    """
    if options.target != "bytes":
        return frontier(question, target, options, fill=fill, shown_exposures=shown_exposures)
    if options.precision != "float32":
        raise LawError(
            f"precision: is chosen where bytes are to be small (--target bytes), got {shown(options.precision)}"
        )
    usual = families(question, options.multiple)
    found: list[BitsFrontier] = []
    errors: list[CapaxError] = []
    for way in ways():
        try:
            filled = _filled(fill, way)
            plan = frontier(
                question, target, options, fill=filled, shown_exposures=shown_exposures, written=way, usual=usual
            )
            found.append(plan)
        except CapaxError as error:  # within the budget there may be none
            errors.append(error)
    if not found:
        raise errors[0]  # that of the fewest bits, in which networks are smallest
    smallest: dict[tuple[Any, ...], Network] = {}
    for network in sorted((one for plan in found for one in plan.architectures), key=lambda one: _order(one, target)):
        given = tuple(getattr(network, name) for name in question.sizes if name != "d_model")
        smallest.setdefault((network.n_layers, network.embeddings, *given), network)
    networks = tuple(smallest.values())
    first = networks[0] if networks else None
    chosen = next(
        (plan for plan in found if first in plan.architectures),
        max(found, key=lambda plan: 0.0 if plan.nearest is None else plan.nearest.at_least),
    )
    sure = [plan.sure for plan in found if plan.sure is not None]
    inside = [plan.largest_inside for plan in found if plan.largest_inside is not None]
    networks = tuple(efficient(networks))
    about_first: dict[str, Any] = {}
    if first is not None:
        way = _way(first)
        about_first["drivers"] = drivers(question, first, options.exposures, _filled(fill, way))
        about_first["measured"] = measured_near(question, first)
    # of depths that are too small in one precision another may do
    short = set.intersection(*(set(plan.too_small) for plan in found)) if target is not None else set()
    short -= {one.n_layers for one in networks}
    notes = [note for note in chosen.notes if note not in depths_too_small(chosen.too_small)]
    return chosen.model_copy(
        update={
            **about_first,
            "architectures": networks,
            "sure": min(sure, key=lambda one: one.bytes) if sure else None,
            "largest_inside": max(inside, key=lambda one: one.at_least) if inside else None,
            "too_small": tuple(sorted(short)),
            "notes": (*depths_too_small(short if networks else ()), *notes, _remark(first, chosen)),
        }
    )


def _filled(fill: Fill | None, way: Written) -> Fill:
    """How full a network may be whose weights are written in some way."""
    before = fill or Fill()
    return before._replace(share=before.share * way.left, rounding=way.spread, networks=way.networks)


def _way(network: Network) -> Written:
    """How the weights of a network are written."""
    return next(one for one in ways() if one.how.words == network.weights)


def _order(network: Network, target: int | None) -> tuple[float, float]:
    return (network.bytes, -network.at_least) if target is not None else (-network.at_least, network.bytes)


def _remark(first: Network | None, plan: BitsFrontier) -> str:
    network = first or plan.nearest
    assert network is not None
    way = _way(network)
    return (
        f"bytes: of all that is trained, rounded to nearest; as {way.how.words} a full network has {way.left:.1%} of "
        f"its bits left (standard deviation of the logarithm {way.spread:.2g}, by a study of {way.networks} small "
        "networks); one that is trained otherwise may lose more or less: capax quantize measures it"
    )
