"""What searches and trials found: the largest library, epochs to the whole of it, the smallest key dimension."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from capax.results.result import LEVEL, Interval, Result

SearchEnd = Literal["precise", "budget", "all_succeeded", "all_failed"]
"""How a search ended."""


class Search(Result):
    """How the largest library that is memorized whole was found (protocol mls)."""

    threshold: Annotated[float, Field(description="Library size at which half of the trainings succeed.")]
    slope: Annotated[float, Field(description="Steepness of the logistic in log library size.")]
    largest_sure: Annotated[int | None, Field(description="Largest size up to which every training succeeded.")]
    stop_reason: SearchEnd


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


class BuiltChannel(Result):
    """A channel whose explicit weights recognize the graph (`capax construct relations`)."""

    n_heads: int
    d_head: int
    total_key_dim: int


class KeyDimensionSearch(Result):
    """The smallest total key dimension that suffices, over head counts (protocol budget).

    Trainings may fail where weights exist: so it is never above that of explicit weights.
    """

    n_heads: Annotated[
        int | None, Field(description="The number of heads that reaches it; None where none was enough.")
    ] = None
    d_head: int | None = None
    total_key_dim: Annotated[
        int | None, Field(description="n_heads · d_head (D_K*): the smallest reached by training, or that of `built`.")
    ] = None
    interval: Interval | None = None
    reached_by: Annotated[
        Literal["training", "built"] | None,
        Field(
            description="Whether a training reached `total_key_dim`, or only explicit weights do. Runs of versions "
            "that built none are held against one edge a head (total_key_dim = edges), which is always enough."
        ),
    ] = None
    built: Annotated[
        BuiltChannel | None,
        Field(description="Explicit weights for the graph of the first training; None where none are known to do."),
    ] = None
    per_heads: Annotated[tuple[HeadCount, ...], Field(description="The search of each head count, in order.")]

    @property
    def trained(self) -> HeadCount:
        """The head count whose training a run's counts, F1 and parameters are of: that of the smallest, or the last."""
        enough = [count for count in self.per_heads if count.total_key_dim is not None]
        return min(enough, key=lambda count: (count.total_key_dim, count.n_heads)) if enough else self.per_heads[-1]

    def held_against(self, built: BuiltChannel | None) -> KeyDimensionSearch:
        """Of what the trainings reached and what explicit weights need, the smaller; its range ends there."""
        trained = self.total_key_dim
        if built is None or (trained is not None and trained <= built.total_key_dim):
            reached: dict[str, Any] = {"reached_by": None if trained is None else "training"}
        else:
            reached = {name: getattr(built, name) for name in ("n_heads", "d_head", "total_key_dim")}
            reached["reached_by"] = "built"
        if built is not None:
            known = [count.interval.low for count in self.per_heads] if self.interval is None else [self.interval.low]
            ends = [built.total_key_dim, None if self.interval is None else self.interval.high]
            reached["interval"] = Interval(
                low=min(*known, built.total_key_dim),
                high=min(end for end in ends if end is not None),
                level=LEVEL,
                of=self.per_heads[0].interval.of,
            )
        return self.model_copy(update={"built": built, **reached})
