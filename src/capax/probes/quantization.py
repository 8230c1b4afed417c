"""What kept weights still remember when they are rounded to few bits, and how much a byte of their file then holds.

Published: int8 loses nothing, and int4 leaves 0.7 of 2 bits per parameter (Allen-Zhu and Li 2024, arXiv 2404.05405, as
others say of it); written in bfloat16, adapters lose about 1 % (Tan et al. 2026, arXiv 2607.21351, likewise). Bits are
counted here as the protocol `capacity` counts them (Morris et al. 2025), over the library that was learned; `rounding`
says how weights are rounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from capax import memory
from capax.errors import SpecError, shown
from capax.models.ensemble import Ensemble
from capax.probes.rounding import read_back
from capax.probes.written import STEP_BITS, Rounding
from capax.protocols.capacity import KNOWN_WHOLE
from capax.protocols.means import half_of_mean
from capax.protocols.units import above_chance
from capax.results import LEVEL, Interval, Measurement, Result
from capax.specs import Run
from capax.specs.spec import whole
from capax.store import DEFAULT
from capax.training.pack import Pack
from capax.training.prepare import initial, prepare

BITS = (8, 7, 6, 5, 4, 3, 2)
FEWEST_BITS, MOST_BITS = 2, 16
GROUP = 32


class Mean(Result):
    """Of the networks, and an interval for the mean of all such networks."""

    value: float
    interval: Annotated[Interval | None, Field(description="By Student's t; None where one network was kept.")]


class Precision(Result):
    """The networks when their weights are written in one way."""

    name: Annotated[str, Field(description="Of the numbers: float32, bfloat16, int8, ...")]
    bits_per_weight: Annotated[int, Field(description="Of a rounded weight, without its share of a step.")]
    group: Annotated[
        int | None, Field(description="Weights that share a step; None where a tensor has one, or there is no step.")
    ]
    file_bytes: Annotated[
        int,
        Field(description="Of all that was trained: codes, steps, and vectors as they are. Without names and sizes."),
    ]
    file_bits_per_parameter: Annotated[float, Field(description="Bits of the file per trained number.")]
    items: Annotated[Mean, Field(description="Recalled.")]
    tokens: Annotated[float | None, Field(description="Of the recalled items; None where items are not tokens.")]
    bits: Annotated[Mean, Field(description="As `bits_are` says.")]
    signed_bits: Annotated[
        float | None,
        Field(description="Mean of what Allen-Zhu and Li 2024 count: items that are coded worse than by a guess, too."),
    ]
    left: Annotated[
        Mean | None, Field(description="Share of the bits of the weights as kept; None where they had none.")
    ]
    bits_per_byte: Annotated[Mean, Field(description="Of the file.")]


class Quantization(Result):
    """What networks of one shape remember with their weights written in several ways, first as they were kept."""

    keys: tuple[str, ...]
    spec: Annotated[Run, Field(description="Of the first run; the others differ from it in their seed alone.")]
    networks: Annotated[int, Field(description="Kept weights: restarts of all runs.")]
    library_size: int
    trainable_parameters: int
    bits_are: Annotated[
        Literal["known", "counted"],
        Field(
            description="known: what cross-entropy is below that of a uniform guess, of the items that are (Morris et "
            "al. 2025); counted: of the recalled items above chance, where a task has no probabilities."
        ),
    ]
    step_bits: Annotated[int, Field(description="Of a step, which are in the bytes.")] = STEP_BITS
    level: float = LEVEL
    precisions: tuple[Precision, ...]
    most: Annotated[int, Field(description="The place among `precisions` whose bytes hold most.")]
    alike: Annotated[
        tuple[int, ...] | None,
        Field(
            description="Places whose bytes hold less by no more than chance: the interval of the difference, network "
            "by network, contains 0. None where one network was kept."
        ),
    ]
    notes: tuple[str, ...]
    schema_version: Literal[1] = 1


@dataclass(frozen=True)
class Counted:
    """What one network remembers with its weights written in one way.

    Attributes:
        signed: None where it gives an item no finite probability, or the task has none.
        known: whether the bits are those that it knows, not those of the recalled items.
    """

    items: int
    bits: float
    signed: float | None
    known: bool


def quantize(
    keys: str | Sequence[str],
    *,
    bits: int | Sequence[int] = BITS,
    group: int = GROUP,
    store: Path | str = DEFAULT,
    trust: bool = False,
) -> Quantization:
    """Round the kept weights of runs, count again what they remember, and say what a byte of the file holds.

    The weights as they were kept come first, then bfloat16, then integers of so many bits with one step a tensor and
    one for each group. Trained tensors of two axes and more are rounded, tables of tokens and positions too; gains and
    biases stay as they are. Frozen tables are not in the file: their seed draws them again.

    Args:
        keys: of runs with kept weights that differ in their seed alone, or their beginnings. All restarts count.
        bits: of an integer, 2 to 16; one number or several.
        group: consecutive weights along the inputs that share a step.
        store: where they are kept.
        trust: whether a user's module may be imported, which runs its code.

    Raises:
        SpecError: for bits or a group that are not allowed, runs that differ in more than their seed, or a module that
            is not trusted or has changed.
        StoreError: when the store has no such run, one kept no weights, or they are not those of its model.
    """
    roundings = _roundings(bits if isinstance(bits, Sequence) else [bits], group)
    found: dict[str, tuple[Measurement, list[Path]]] = {}
    if not isinstance(keys, Iterable):
        raise SpecError(f"keys: of runs with kept weights, got {shown(keys)}")
    for key in [keys] if isinstance(keys, str) else keys:
        run, paths = memory.find(key, store, trust=trust)
        found.setdefault(run.key, (run, paths))
    if not found:
        raise SpecError("keys: at least one of a run with kept weights, got none")
    (first, _), *others = found.values()
    for other, _ in others:
        if other.spec.replace(seed=first.spec.seed) != first.spec or other.library_size != first.library_size:
            raise SpecError(
                f"keys: of runs that differ in their seed alone; {first.key[:12]} and {other.key[:12]} do not"
            )
    networks = [memory.kept(run, path) for run, paths in found.values() for path in paths]
    runs = [run for run, paths in found.values() for _ in paths]
    begun = initial(first.spec)
    names = begun.trainable.keys()  # what is loaded is not trained on
    trained = {name: networks[0].parameters[name][0] for name in names}
    as_kept = Rounding.floats(str(next(iter(trained.values())).dtype).removeprefix("torch."))
    roundings = [as_kept, *(one for one in roundings if one != as_kept)]
    table = [counted(run, network, roundings) for run, network in zip(runs, networks, strict=True)]
    notes = _notes(first, table, frozen=len(names) < len(networks[0].parameters))
    if begun.one_start and len(table) > 1:
        notes.append("all networks begin with the same weights: no intervals, and nothing is compared by them")
    return _said(tuple(found), first, trained, roundings, table, notes, alone=begun.one_start)


def recalled_share(run: Measurement, way: Rounding, store: Path | str) -> float:
    """The share of its library that a kept run recalls with its weights written in some way.

    Raises:
        StoreError: as `quantize`.
    """
    _, (path, *_) = memory.find(run.key, store, trust=True)
    return counted(run, memory.kept(run, path), [way])[0].items / run.library_size


def _roundings(bits: Sequence[int], group: int) -> list[Rounding]:
    """What the weights are written in, beside what they were kept in."""
    whole("group", group)
    if not len(bits):
        raise SpecError(f"bits: at least one number of {FEWEST_BITS} to {MOST_BITS}, got none")
    for one in bits:
        if not FEWEST_BITS <= whole("bits", one, None) <= MOST_BITS:
            raise SpecError(f"bits: {FEWEST_BITS} to {MOST_BITS}, got {shown(one)}")
    return [
        Rounding.floats("bfloat16"),
        *(Rounding.integers(int(one), size) for one in sorted({*bits}, reverse=True) for size in (None, int(group))),
    ]


def counted(run: Measurement, network: Ensemble[Any], roundings: Sequence[Rounding]) -> list[Counted]:
    """What a kept network recalls and knows of the library that it learned, with its weights written in several ways.

    It is evaluated as in training: two networks at once, since a single product of matrices is rounded differently.
    """
    spec, size = run.spec, run.library_size
    pair = Pack(
        spec.task,
        spec.model,
        spec.training,
        seeds=(spec.seed,) * 2,
        members=(0, 1),
        sizes=(size,) * 2,
        largest=size,
        mixed=False,
        one_library=True,
    )
    learner, found = prepare(pair), []
    trained = learner.ensemble.trainable.keys()
    informative = learner.library.uniform_nats is not None
    for start in range(0, len(roundings), 2):
        ways = [*roundings[start : start + 2], roundings[start]][:2]
        learner.ensemble.parameters = {
            name: torch.cat([_written(network, name, way) if name in trained else tensor for way in ways])
            for name, tensor in network.parameters.items()
        }
        evaluations = learner.evaluate([0, 1])
        informations = learner.information([0, 1]) if informative else [None, None]
        for evaluation, information in zip(evaluations, informations, strict=True):
            items = evaluation.memorized
            if information is not None:
                found.append(Counted(items, information.clipped, information.signed, known=True))
            elif informative:  # no finite probability: it knows nothing
                found.append(Counted(items, 0.0, None, known=True))
            else:
                lucky = max(spec.task.lucky(size, evaluation.metrics), run.chance_constant or 0.0)
                worth = spec.task.bits_per_item() if run.bits_per_item is None else run.bits_per_item
                above = max(above_chance(items, lucky, size), 0.0)
                metrics = evaluation.metrics | {"recalled": float(items)}
                bits = spec.task.bits_recalled(items, above, worth, metrics)
                found.append(Counted(items, bits, None, known=False))
    return found[: len(roundings)]


def _written(network: Ensemble[Any], name: str, way: Rounding) -> Tensor:
    """A tensor `(1, ...)` of a network of one member as it is read back."""
    (weights,) = network.parameters[name]
    return read_back(name, weights, way, network.input_axis(name))[None]


def _more(differences: Float[np.ndarray, " networks"], tried: int) -> bool:
    """Whether the interval of a mean difference lies above 0, wider where the best of several is compared."""
    return float(differences.mean()) > half_of_mean(differences, 1 - (1 - LEVEL) / tried)


def mean(values: Sequence[float], alone: bool = False) -> Mean:
    """The mean of numbers that are not negative, and where that of all such networks lies.

    Args:
        alone: whether nothing is known of other networks, as where all begin with the same weights.
    """
    value = float(np.mean(values))
    if alone or len(values) < 2:
        return Mean(value=value, interval=None)
    half = half_of_mean(values)
    of = f"mean of all such networks, by {len(values)} of them"
    return Mean(value=value, interval=Interval(low=max(value - half, 0.0), high=value + half, level=LEVEL, of=of))


def _said(
    keys: tuple[str, ...],
    run: Measurement,
    trained: Mapping[str, Tensor],
    roundings: Sequence[Rounding],
    table: list[list[Counted]],
    notes: Sequence[str],
    alone: bool,
) -> Quantization:
    length = run.spec.task.tokens_per_item
    known = np.array([[one.bits for one in row] for row in table])  # network, precision
    sizes = np.array(
        [sum(how.n_bytes(name, one.shape, one.element_size()) for name, one in trained.items()) for how in roundings]
    )
    density = known / sizes
    counts = sum(one.numel() for one in trained.values())
    precisions = []
    for place, rounding in enumerate(roundings):
        each = [row[place] for row in table]
        signed = [one.signed for one in each if one.signed is not None]
        items = mean([one.items for one in each], alone)
        precisions.append(
            Precision(
                name=rounding.name,
                bits_per_weight=rounding.bits,
                group=rounding.group,
                file_bytes=int(sizes[place]),
                file_bits_per_parameter=8 * int(sizes[place]) / counts,
                items=items,
                tokens=None if length is None else length * items.value,
                bits=mean(known[:, place].tolist(), alone),
                signed_bits=float(np.mean(signed)) if len(signed) == len(each) else None,
                left=mean((known[:, place] / known[:, 0]).tolist(), alone) if known[:, 0].all() else None,
                bits_per_byte=mean(density[:, place].tolist(), alone),
            )
        )
    most = int(density.mean(0).argmax())
    alike = None
    if len(table) > 1 and not alone:
        others = [place for place in range(len(roundings)) if place != most]
        alike = tuple(place for place in others if not _more(density[:, most] - density[:, place], len(others)))
    return Quantization(
        keys=keys,
        spec=run.spec,
        networks=len(table),
        library_size=run.library_size,
        trainable_parameters=counts,
        bits_are="known" if table[0][0].known else "counted",
        precisions=tuple(precisions),
        most=most,
        alike=alike,
        notes=tuple(notes),
    )


def _notes(run: Measurement, table: list[list[Counted]], frozen: bool) -> list[str]:
    notes, informative = [], table[0][0].known
    if table[0][0].items != run.memorized:
        notes.append(f"{run.memorized} items were recalled when it was measured: rounding decides some")
    if not run.above_chance:
        notes.append(
            f"{run.memorized} of {run.library_size} items are not significantly more than the {run.chance:.3g} of "
            "luck: what is left of them says little"
        )
    if len(table) == 1:
        notes.append("one network was kept: no intervals; give keys of further seeds, or measure several restarts")
    there = run.library_size * run.spec.task.information_per_item()
    if informative and (share := float(np.mean([row[0].bits for row in table])) / there) > KNOWN_WHOLE:
        notes.append(
            f"the weights as kept know {share:.0%} of the library: they may hold more, and lose more when they do "
            "(--protocol capacity fills a network)"
        )
    if not informative:
        notes.append("the task has no probabilities: bits are of the recalled items, above chance")
    if frozen:
        notes.append("frozen tables and buffers are not in the file: seed and code make them again")
    return notes
