"""`calibrate`: every system of known capacity, measured and compared with what is known."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Literal

from pydantic import Field

from capax import machine
from capax.calibration import explicit, hopfield, linear_memory, perceptron
from capax.calibration.system import KnownCapacity, System
from capax.errors import SpecError, shown
from capax.results import LEVEL, Interval, Result, Standing
from capax.results.searches import SearchEnd
from capax.specs.spec import whole

# in the order in which they are measured
SYSTEMS: dict[str, Callable[[], System]] = {
    "perceptron": perceptron.trained,
    "perceptron-exact": perceptron.exact,
    "hopfield-all": hopfield.every_pattern,
    "hopfield-half": hopfield.half_of_patterns,
    "hopfield-retrieval": hopfield.retrieval,
    "memory-least-squares": linear_memory.least_squares,
    "memory-trained": linear_memory.trained,
    "attention-memory": explicit.associations,
    "key-query": explicit.relations,
}


class Allowance(Result):
    """A part of the tolerance."""

    amount: Annotated[float, Field(description="In the system's unit.")]
    reason: str


class CalibratedSystem(Result):
    """One system, known against measured."""

    system: str
    about: Annotated[str, Field(description="What it is, and what counts as success.")]
    protocol: str
    unit: str
    known: KnownCapacity
    measured: Annotated[float, Field(description="The 50 % point of success; a whole count where luck has no part.")]
    interval: Interval
    trials: int
    search_ended: Annotated[SearchEnd, Field(description="A search that ended otherwise than precise is off.")]
    tolerance: Annotated[float, Field(description="The sum of the allowances.")]
    allowances: Annotated[
        tuple[Allowance, ...], Field(description="Stated from theory and finite size before anything is measured.")
    ]
    verdict: Literal["holds", "off"]
    reason: Annotated[str | None, Field(description="Why it is off.")]
    seconds: float


class LiteratureClaim(Result):
    """What a paper says that measured the same in bits, against what capax measures of smaller networks."""

    paper: str
    figure: str
    says: str
    value: Annotated[str | None, Field(description="The paper's; None where it has none.")]
    standing: Annotated[Standing, Field(description="How we know what the paper says.")]
    measured: str | None
    verdict: Literal["agrees", "differs", "cannot be judged"]
    reason: str


class Calibration(Result):
    """Systems of known capacity, known against measured."""

    systems: tuple[CalibratedSystem, ...]
    literature: Annotated[
        tuple[LiteratureClaim, ...],
        Field(description="Papers that measured bits, with --literature; no system is off by them."),
    ] = ()
    off: Annotated[tuple[str, ...], Field(description="Systems that are off by more than their tolerance.")]
    seed: int
    seconds: float
    versions: dict[str, str]
    schema_version: Literal[1] = 1


def calibrate(
    only: Sequence[str] | None = None, seed: int = 0, progress: Callable[[str], None] | None = None
) -> Calibration:
    """Measure systems of known capacity by the protocols and searches that measure a transformer.

    Args:
        only: names of systems, see `SYSTEMS`. [default: all]
        seed: of all draws; same seed, same result.
        progress: called with the name of each system before it is measured.

    Returns:
        Known against measured, with intervals; `off` names the systems that came out wrong.

    Raises:
        SpecError: for a name that is no system's, or a seed that is none.
    """
    if only is not None and (isinstance(only, str | bytes) or not isinstance(only, Iterable)):
        raise SpecError(f"only: a list of names, got {shown(only)}")
    names = list(SYSTEMS) if only is None else list(only)
    if not names:
        raise SpecError(f"only: at least one of {', '.join(SYSTEMS)}, got none")
    for name in names:
        if not isinstance(name, str) or name not in SYSTEMS:
            raise SpecError(f"only: should be among {', '.join(SYSTEMS)}, got {shown(name)}")
    whole("seed", seed, 0)
    started = time.monotonic()
    systems = []
    for name in dict.fromkeys(names):
        if progress is not None:
            progress(name)
        systems.append(compare(SYSTEMS[name](), seed))
    return Calibration(
        systems=tuple(systems),
        off=tuple(one.system for one in systems if one.verdict == "off"),
        seed=seed,
        seconds=time.monotonic() - started,
        versions=machine.versions(),
    )


def compare(system: System, seed: int = 0) -> CalibratedSystem:
    """Measure a system and compare it with what is known.

    Args:
        system: one of ours, or of your own.
        seed: of all draws.

    Raises:
        SpecError: for what is no system, or a seed that is none.
    """
    if not isinstance(system, System):
        raise SpecError(f"system: a System of capax.calibration, got {shown(system)}")
    whole("seed", seed, 0)
    started = time.monotonic()
    measured = system.measure(seed)
    fault = system.fault(measured)
    return CalibratedSystem(
        system=system.name,
        about=system.about,
        protocol=system.protocol,
        unit=system.unit,
        known=system.known,
        measured=measured.value,
        interval=Interval(
            low=measured.low,
            high=measured.high if math.isfinite(measured.high) else None,
            level=LEVEL,
            of="size at which half of the trials succeed",
        ),
        trials=measured.trials,
        search_ended=measured.search_ended,
        tolerance=system.tolerance,
        allowances=tuple(
            Allowance(amount=part.share * system.known.value, reason=part.reason) for part in system.slack
        ),
        verdict="holds" if fault is None else "off",
        reason=fault,
        seconds=time.monotonic() - started,
    )
