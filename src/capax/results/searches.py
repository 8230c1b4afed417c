"""What searches and trials found: the largest library, epochs to the whole of it, the smallest key dimension."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from capax.results.result import Interval, Result


class Search(Result):
    """How the largest library that is memorized whole was found (protocol mls)."""

    threshold: Annotated[float, Field(description="Library size at which half of the trainings succeed.")]
    slope: Annotated[float, Field(description="Steepness of the logistic in log library size.")]
    largest_sure: Annotated[int | None, Field(description="Largest size up to which every training succeeded.")]
    stop_reason: Literal["precise", "budget", "all_succeeded", "all_failed"]


class NegativeBinomial(Result):
    """Eq. 9 fitted to epochs until the library is memorized whole; trials that never were enter as censored."""

    r: int
    p: float
    r_interval: tuple[float, float]
    p_interval: tuple[float, float]
    mean: float
    log_likelihood: float
    distance: Annotated[
        float, Field(description="Largest distance between Kaplan-Meier estimate and fitted distribution.")
    ]


class ShatterEpochs(Result):
    """Epochs until a library is memorized whole, over trials (protocol shatter)."""

    epochs: Annotated[tuple[int, ...], Field(description="Of the trials that completed.")]
    censored: Annotated[tuple[int, ...], Field(description="Epochs after which the others were given up.")]
    completed_share: Interval
    median: float | None
    fit: NegativeBinomial | None


class HeadCount(Result):
    """The smallest key dimension of one number of heads (protocol budget)."""

    n_heads: int
    d_head: Annotated[int | None, Field(description="None where none up to d_model was enough.")]
    total_key_dim: int | None
    interval: Interval
    f1: Annotated[
        float, Field(description="Mean of the trainings at that head size, or the best where none was enough.")
    ]
    trainings: int


class KeyDimensionSearch(Result):
    """The smallest total key dimension that suffices, over head counts (protocol budget)."""

    n_heads: Annotated[int | None, Field(description="The best number of heads; None where none was enough.")] = None
    d_head: int | None = None
    total_key_dim: Annotated[int | None, Field(description="n_heads · d_head (D_K*).")] = None
    interval: Interval | None = None
    per_heads: Annotated[tuple[HeadCount, ...], Field(description="The search of each head count, in order.")]
