"""Plans by a law in bits: families of networks from small to large, what each holds, and what it costs to train."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from capax.errors import LawError, OutsideDomain
from capax.laws.compare import HELD
from capax.laws.domain import of_all_kinds
from capax.laws.law import Law
from capax.planning.answers import Columns, of_kinds, of_new_measurement, predicted
from capax.planning.cost import Cost, assumptions, hours, least_hours, operations
from capax.planning.families import WIDEST, Families, families, finer
from capax.planning.fill import Fill
from capax.planning.known import EXPOSURES, Seen, known_by
from capax.planning.options import Options
from capax.planning.question import Question
from capax.planning.results import BYTES, SIZES, BitsFrontier, Bounds, Known, Network
from capax.planning.rounding_study import Written
from capax.results import LEVEL

Some = TypeVar("Some", bound=Network)

LIMITED = "items: no more than a training shows in these hours, even where the network could hold more"
WIDER = f"widths were tried up to {WIDEST}, and some networks have room for more: d_model tries those that are given"
ROUNDED = "bits are those of float32; weights rounded to bfloat16 keep nearly all of them: docs/how-to/quantize.md"


@dataclass(frozen=True)
class Weighed:
    """What networks hold and take, `(models,)` each, and which of each family is chosen.

    Attributes:
        inside: whether both laws know such networks.
        seen: what is known after the exposures.
        low, at_least, expected, high: quantiles of the items that each knows.
        worth: operations for each item, and `shortest`, the hours of its steps.
        shown: items that there are, or that a training shows in the budget's hours.
        promised, held: items with the probability, of those that are shown, and those that are learned.
        n_bytes: of the file.
        offered: what the domain allows, `kept` what the budget does, too, and `enough` what holds the target as well.
        rank: what the best is told by: the items that it is sure of, or, where they are given, fewer parameters.
        chosen: the place of each family's network; None where none will do.
    """

    inside: np.ndarray
    seen: Seen
    low: np.ndarray
    at_least: np.ndarray
    expected: np.ndarray
    high: np.ndarray
    worth: np.ndarray
    shortest: np.ndarray
    shown: np.ndarray
    promised: np.ndarray
    held: np.ndarray
    n_bytes: np.ndarray
    offered: np.ndarray
    kept: np.ndarray
    enough: np.ndarray
    rank: np.ndarray
    chosen: list[int | None]

    def best(self, of: np.ndarray) -> int | None:
        """The place of the best of some networks that are enough; None where none is."""
        places = np.flatnonzero(self.enough & of)
        return int(places[np.argmax(self.rank[places])]) if len(places) else None


def weigh(
    question: Question,
    target: int | None,
    options: Options,
    tried: Families,
    *,
    n_exposures: int,
    fill: Fill,
    written: Written | None,
) -> Weighed:
    """What networks hold, and which of each family is chosen: the smallest that holds the target, or what holds most.

    Args:
        tried: the networks.
        n_exposures: times that the training shows the items.

    Raises:
        LawError: where the domain or the budget leaves no network.
    """
    law, table, models, task = question.law, tried.table, tried.models, question.task
    budget = options.budget
    inside = law.inside_domain(table)
    seen = Seen.of(table, options.exposures)
    items = fill.share / question.per_item
    levels = (1 - LEVEL) / 2, 1 - options.probability, 0.5, (1 + LEVEL) / 2
    low, at_least, expected, high = (bits * items for bits in fill.widened(law, table, levels, seen.shares))
    worth = np.array([operations(one, task, 1.0, n_exposures) for one in models])
    shortest = least_hours(n_exposures, table["n_layers"])
    shown = np.full(len(models), float(question.most))
    if budget.hours is not None and target is None:  # a training shows no more items in these hours
        shown = np.minimum(shown, np.floor(budget.hours / hours(worth)))
    promised = np.minimum(at_least, shown)
    held = promised if target is None else np.full(len(models), float(target))
    n_bytes = table["total_parameters"] * BYTES[options.precision]
    if written is not None:
        n_bytes = np.array([written.n_bytes(one, **task.sizes()) for one in models])
    allowed = {"parameters": table["trainable_parameters"], "bytes": n_bytes}
    if budget.hours is not None:
        allowed["hours"] = np.maximum(hours(worth * (held if target is not None else 1.0)), shortest)
    anywhere = law.travels if options.extrapolate is None else options.extrapolate
    kept = offered = np.full(len(models), True) if anywhere else inside & seen.inside
    if not offered.any():
        why = [why_outside(law, table, seen, at) for at in range(len(models))]
        of_all = set.intersection(*(set(map(of_all_kinds, reasons)) for reasons in why))
        nearly: tuple[str, ...] = min(why, key=len)
        words = sorted(of_all) or nearly
        raise OutsideDomain(
            f"outside the domain of {law.name} ({law.source_}): {'; '.join(words)}; extrapolate all the same"
        )
    for name, values in allowed.items():
        if (limit := getattr(budget, name)) is not None:
            least = values[kept].min()
            kept = kept & (values <= limit)
            if not kept.any():
                needed = f"{least:.4g}" if name == "hours" else f"{least:.0f}"
                raise LawError(f"budget_{name}: at least {needed} for the smallest network tried, got {limit:.12g}")
    enough = kept if target is None else kept & (at_least >= target)
    found = Weighed(
        inside=inside & seen.inside,
        seen=seen,
        low=low,
        at_least=at_least,
        expected=expected,
        high=high,
        worth=worth,
        shortest=shortest,
        shown=shown,
        promised=promised,
        held=held,
        n_bytes=n_bytes,
        offered=offered,
        kept=kept,
        enough=enough,
        rank=held if target is None else -table["trainable_parameters"],
        chosen=[],
    )
    chosen = [found.best(tried.family == number) for number in range(tried.family[-1] + 1)]
    return replace(found, chosen=chosen)


def why_outside(law: Law, table: Columns, seen: Seen, at: int) -> tuple[str, ...]:
    """Why a network lies outside of what the laws know."""
    reasons = law.domain_.outside_in_words({name: values[at].item() for name, values in table.items()})
    return (*reasons, *seen.why(at, reasons))


def between_the_usual(tried: Families, found: Weighed, multiple: int | None) -> list[list[int]]:
    """Further widths of each family, about the one that is best, or the widest of those that are too narrow.

    That of heads that share the width and that of larger ones: which is smaller is known when both are refined.
    """
    widths = tried.table["d_model"]
    sharing = tried.table["n_heads"] * tried.table["d_head"] <= widths
    further = []
    for number in range(len(found.chosen)):
        finest = set[int]()
        for own in ((tried.family == number) & kind for kind in (sharing, ~sharing)):
            near = found.best(own)
            if near is None and (kept := np.flatnonzero(found.kept & own)).size:
                near = int(kept[-1])
            if near is not None:
                finest |= {*finer(np.unique(widths[own]).tolist(), int(widths[near]), multiple)}
        further.append(sorted(finest))
    return further


def frontier(
    question: Question,
    target: int | None,
    options: Options,
    *,
    fill: Fill | None = None,
    shown_exposures: int | None = None,
    written: Written | None = None,
    usual: Families | None = None,
) -> BitsFrontier:
    """Of each family the smallest network that holds the target, or what holds most within the budget.

    Of widths that are not given some to an octave are tried, and then those between the last that is too narrow and the
    first that is not, or what a budget lies between.

    Args:
        question: the law, and what it is asked about.
        target: items to hold; None to ask how many the budget holds.
        options: those of `plan`.
        fill: how full a network may be; to the brim where nothing is said.
        shown_exposures: times that items are shown in the training by which the fill was measured; by default in one
            to convergence, after which the rest takes eight times as many steps.
        written: how the weights are written in a file, whose bytes then count; what that leaves of the bits is in the
            fill. Where nothing is said, the bytes are those of all parameters at the precision.
        usual: the networks that are tried first, where they are at hand (`families`).

    Raises:
        LawError: where neither target nor budget is given, or the budget leaves no network.
    """
    exposures, multiple, accelerator = options.exposures, options.multiple, options.accelerator
    if target is None and options.budget == Bounds():
        raise LawError(
            f"items: is required, or a budget ({', '.join(f'budget_{name}' for name in Bounds.model_fields)})"
        )
    n_exposures, tried = exposures or shown_exposures or EXPOSURES, usual or families(question, multiple)
    of = partial(
        weigh,
        question,
        target,
        options,
        n_exposures=n_exposures,
        fill=fill or Fill(),
        written=written,
    )
    found = of(tried)
    if "d_model" not in question.sizes:
        tried = families(question, multiple, between_the_usual(tried, found, multiple))
        found = of(tried)
    law, table, models, task, seen = question.law, tried.table, tried.models, question.task, found.seen
    size, total = table["trainable_parameters"], table["total_parameters"]

    def described(place: int) -> Network:
        at = int(place)
        items, least, highest = (
            float(min(one[at], found.shown[at])) for one in (found.expected, found.low, found.high)
        )
        sizes: dict[str, Any] = {name: int(table[name][at]) for name in dict.fromkeys((*SIZES, *question.axes))}
        return Network(
            **sizes,
            embeddings=getattr(models[at], "embeddings", None),
            trainable_parameters=int(size[at]),
            total_parameters=int(total[at]),
            effective_parameters=models[at].effective_parameters(**task.sizes()),
            bytes=int(found.n_bytes[at]),
            weights=None if written is None else written.how.words,
            bits=float(found.expected[at]) * question.per_item,
            memorized=items,
            at_least=float(found.promised[at]),
            interval=of_new_measurement(least, highest, LEVEL),
            tokens_per_parameter=items * (task.tokens_per_item or 0) / int(size[at]),
            efficient=is_efficient(at, size, total, places),
            outside=why_outside(law, table, seen, at),
            cost=Cost.of(
                float(found.worth[at] * found.held[at]),
                accelerator,
                sizes["d_model"],
                float(found.shortest[at]),
            ),
        )

    places = np.array([at for at in found.chosen if at is not None], dtype=int)
    places = places[np.lexsort((size[places], -found.held[places] if target is None else size[places]))]
    nearest = None if len(places) else int(np.flatnonzero(found.kept)[np.argmax(found.at_least[found.kept])])
    first = described(places[0] if nearest is None else nearest)
    early = exposures or shown_exposures or law.target != HELD
    rest = () if early else known_by(first, n_exposures)
    limited = (LIMITED,) if (np.minimum(found.high, question.most) > found.shown)[places].any() else ()
    none = [number for number, at in enumerate(found.chosen) if at is None]
    most = np.zeros(len(found.chosen))
    np.maximum.at(most, tried.family, table["d_model"])
    widest = table["d_model"] == most[tried.family]
    of_more = np.isin(np.arange(len(models)), places) if target is None else np.isin(tried.family, none)
    more = found.kept & widest & of_more
    rounded = (ROUNDED,) if options.precision == "bfloat16" and written is None else ()
    wider = (WIDER,) if more.any() and "d_model" not in question.sizes else ()
    short = {int(depth) for depth in table["n_layers"][np.isin(tried.family, none) & found.offered]}
    short -= {int(depth) for depth in table["n_layers"][places]}
    within = np.flatnonzero(found.inside & found.kept)
    sure = within[found.enough[within]] if target is not None else within[:0]
    kinds: dict[str, Any] = {
        name: kind for name, kind in question.kinds.items() if name != "embeddings" or question.tables is None
    }
    return BitsFrontier(
        items=target,
        **question.named,
        **kinds,
        probability=options.probability,
        precision=options.precision,
        architectures=tuple(map(described, places)),
        nearest=None if nearest is None else first,
        bits=None if target is None else target * question.per_item,
        budget=options.budget,
        sure=described(sure[np.argmin(size[sure])]) if len(sure) else None,
        largest_inside=described(within[np.argmax(found.promised[within])]) if len(within) else None,
        measured=measured_near(question, first),
        too_small=tuple(sorted(short)),
        drivers=drivers(question, first, exposures, fill),
        exposures=n_exposures,
        early=exposures is not None,
        accelerator=accelerator,
        law=law.name,
        source=law.source_,
        domain=law.domain_,
        notes=(
            *(
                *depths_too_small(short if len(places) else ()),
                *wider,
                *seen.remarks(int(places[0]) if nearest is None else nearest),
                *limited,
                *rounded,
                *of_kinds(law, first.outside),
                *question.untold(),
                *law.notes_,
            ),
            *(*assumptions(n_exposures, accelerator), *rest),
        ),
    )


def depths_too_small(depths: Collection[int]) -> tuple[str, ...]:
    """A note of the numbers of layers with which no network holds what is asked, where there are any."""
    listed = " or ".join(map(str, sorted(depths)))
    return (f"none that was tried with {listed} layers holds them",) if depths else ()


def is_efficient(at: int, size: np.ndarray, total: np.ndarray, places: Sequence[int] | np.ndarray) -> bool:
    """Whether none of some networks has fewer parameters, trainable or in all, and no more of the other kind."""
    others = np.asarray(places)
    no_more = (size[others] <= size[at]) & (total[others] <= total[at])
    return not (no_more & ((size[others] < size[at]) | (total[others] < total[at]))).any()


def efficient(networks: Sequence[Some]) -> list[Some]:
    """Networks of one plan, each with whether it is efficient among them."""
    size, total = (
        np.array([getattr(one, f"{kind}_parameters") for one in networks]) for kind in ("trainable", "total")
    )
    every = np.arange(len(networks))
    return [
        one.model_copy(update={"efficient": is_efficient(at, size, total, every)}) for at, one in enumerate(networks)
    ]


def drivers(question: Question, network: Network, exposures: int | None, fill: Fill | None = None) -> dict[str, float]:
    """What makes the interval of a network wide, as shares of its variance, the largest first.

    Those are the law's terms, how much is known early (`exposures`), how full a network may be (`fill`), and what
    rounding leaves (`rounding`).
    """
    row, fill = _row(question, network), fill or Fill()
    found, shares = question.law.drivers(row), Seen.of(row, exposures).shares
    further = {} if shares is None else {"exposures": np.log(shares[:, 0]).var()}
    further |= {name: spread**2 for name, spread in (("fill", fill.spread), ("rounding", fill.rounding)) if spread}
    if not found or not further:
        return found
    held = np.log(question.law.new_measurements(row)[:, 0]).var()
    found = {name: part * held for name, part in found.items()} | further
    whole = held + sum(further.values())
    return {name: float(part / whole) for name, part in sorted(found.items(), key=lambda one: -one[1])}


def _row(question: Question, network: Network) -> Columns:
    """A network's row, with the columns of the law."""
    sizes = {name: getattr(network, name) for name in SIZES} | network.further
    kinds = {} if network.embeddings is None else {"embeddings": network.embeddings}
    return question.table([question.spec(sizes, kinds)])


def measured_near(question: Question, network: Network) -> Known | None:
    """The converged network of the law's data that holds what is nearest to what a network could hold, trained on."""
    law = question.law
    if (rows := law.measured) is None:  # of a law's file that leaves them out
        return None
    bits = predicted(law, _row(question, network))
    at = int(np.argmin(np.where(rows.complete, np.inf, np.abs(np.log(rows.counts / bits)))))
    sizes = {name: float(values[at]) for name, values in rows.columns.items() if name not in law.coded}
    return Known(sizes=sizes, bits=float(rows.counts[at]))
