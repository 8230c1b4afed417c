"""What all results share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Standing = Literal["read", "secondary", "derived", "reconstructed", "ours"]
"""How we know what a source says: `capax.papers.recipe.STANDINGS` has it in words."""


class Result(BaseModel):
    """Base of the parts of a result: frozen, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


LEVEL = 0.95
"""Of every interval, where nothing else is said."""


class Interval(Result):
    """A range and what it is of."""

    low: float
    high: Annotated[float | None, Field(description="None where the data set no upper end.")]
    level: float
    of: str

    def ends(self, number: Callable[[float], str] = "{:.4g}".format) -> str:
        """Both ends in words."""
        return f"{number(self.low)} to {'no upper end' if self.high is None else number(self.high)}"
