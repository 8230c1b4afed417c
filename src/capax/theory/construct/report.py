"""What the construction reaches on a library of associations, as one JSON object."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from capax.checks.saturation import Saturation, saturation
from capax.results import Result
from capax.specs import Associations, AssociativeAttention
from capax.theory.construct.associations import Construction, Precision, largest_library


class ConstructionReport(Result):
    """Weights of one attention layer that were built, not trained, to memorize a library."""

    library_size: Annotated[int, Field(description="Examples in the library.")]
    bound: Annotated[int, Field(description="T = H(min(n, d_head) − 1) + 1, the most that the construction holds.")]
    max_error: Annotated[
        float, Field(description="Largest distance of an output from its label, in two orders of additions.")
    ]
    relative_error: Annotated[float, Field(description="The same over the largest absolute number of a label.")]
    recalled: Annotated[int | None, Field(description="Examples whose arg-max is their class; None for real labels.")]
    condition_number: Annotated[float, Field(description="Of the features on which the read-out is solved.")]
    saturation: Saturation
    parameters: Annotated[int, Field(description="H(2 d d_head + d d_value + d_value d_out).")]
    dtype: Precision
    seed: int
    task: Associations
    model: AssociativeAttention
    versions: dict[str, str]
    schema_version: Literal[1] = 1


def report(
    built: Construction,
    task: Associations,
    model: AssociativeAttention,
    dtype: Precision,
    seed: int,
    versions: dict[str, str],
) -> ConstructionReport:
    """A construction as a report."""
    bound = largest_library(model.n_heads, task.context_size, model.d_model, model.d_head)
    return ConstructionReport(
        library_size=len(built.owner),
        bound=bound,
        max_error=built.max_error,
        relative_error=built.max_error / built.max_label if built.max_label else built.max_error,
        recalled=built.recalled,
        condition_number=built.condition_number,
        saturation=saturation(built.attention, built.owner),
        parameters=built.weights.n_parameters,
        dtype=dtype,
        seed=seed,
        task=task,
        model=model,
        versions=versions,
    )
