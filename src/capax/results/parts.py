"""What a measurement is made of."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from capax.results.result import Interval, Result

StopReason = Literal["complete", "plateau", "converged", "budget", "diverged"]
"""How a training ended."""

UnitName = Literal["items", "items_above_chance", "tokens", "bits", "morris_bits", "allen_zhu_bits"]


class Parameters(Result):
    """Numbers of parameters, counted from the tensors."""

    trainable: int
    total: int
    effective: Annotated[
        int | None,
        Field(
            description="Trained numbers that the outputs can tell apart: products of matrices count by their "
            "freedom, and what norms take back does not count (docs/capacity.md). By the rule of now, whichever "
            "version measured the run; None in runs that counted none."
        ),
    ] = None


class Amount(Result):
    """How much is memorized, by one definition, and per parameter."""

    name: Annotated[
        UnitName,
        Field(
            description="items: recalled; tokens: seq_len of each (Härmä et al. 2024, eq. 12); bits: of the items "
            "above chance; morris_bits: what the items' cross-entropy is below that of a uniform guess, of those that "
            "are below it (Morris et al. 2025); allen_zhu_bits: the same of all items (Allen-Zhu and Li 2024)."
        ),
    ]
    amount: float
    interval: Annotated[Interval | None, Field(description="None where one training says it, or none was found.")]
    per_trainable_parameter: float
    per_parameter: Annotated[float, Field(description="Per parameter, frozen ones included.")]
    per_effective_parameter: float | None = None


class Curve(Result):
    """A member's evaluations; for mls and shatter only those that recalled more than any before, and the last."""

    epoch: tuple[int, ...]
    memorized: tuple[int, ...]
    loss: Annotated[
        tuple[float | None, ...],
        Field(description="Mean training loss (nats) since the evaluation before; None at the start."),
    ]


class Cycle(Result):
    """Where a training was at the end of a cycle of its learning rate."""

    epochs: Annotated[int, Field(description="Since the start: how often it has seen each item.")]
    steps: int
    memorized: int
    bits: Annotated[float, Field(description="Known of the library, as `morris_bits` counts.")]
    signed_bits: Annotated[float, Field(description="The same as `allen_zhu_bits` counts.")]


class CapacityEstimate(Result):
    """What a model can hold, in bits as `morris_bits` counts them (protocol capacity)."""

    bits: Annotated[
        float, Field(description="Known at the end, the mean of the restarts: a lower bound of what can be held.")
    ]
    extrapolated: Annotated[
        float | None,
        Field(
            description="What the mean would be after eight times as many steps, by what is known and the last gain; "
            "None where it did not converge."
        ),
    ]
    interval: Annotated[Interval | None, Field(description="Of `extrapolated`; None as that is.")]
    converged: Annotated[
        bool,
        Field(
            description="Whether the last cycle of every restart changed its bits by less than `cycle_tolerance`, and "
            "the restarts gained less in it than in the one before."
        ),
    ]
    last_gain: Annotated[
        float | None, Field(description="Share that the last cycle added to the bits; None before the second cycle.")
    ]
    library_bits: Annotated[float, Field(description="What there was to be known of the last library.")]
    library_sizes: Annotated[tuple[int, ...], Field(description="Of the libraries in turn; the last one counts.")]
    per_effective_parameter: Annotated[
        float | None, Field(description="`extrapolated`, or `bits` where there is none, per effective parameter.")
    ]
    per_trainable_parameter: float
    per_parameter: float


class Member(Result):
    """One training: a restart, a trial of a search, or a shatter trial."""

    member: int
    library_size: int
    memorized: Annotated[int, Field(description="Items recalled at the best evaluation.")]
    epoch_of_best: int
    epochs: int
    steps: int
    stop_reason: StopReason
    d_head: Annotated[int | None, Field(description="Its head size, where a search varies it.")] = None
    unreachable: Annotated[tuple[int, ...], Field(description="Targets that its frozen read-out can never put first.")]
    metrics: Annotated[dict[str, float], Field(description="What else the task measures, at the best evaluation.")] = {}  # noqa: RUF012 (pydantic copies it)
    curve: Curve
    cycles: Annotated[
        tuple[Cycle, ...], Field(description="The ends of the cycles of its learning rate, where that has any.")
    ] = ()
