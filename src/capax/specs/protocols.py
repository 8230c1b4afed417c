"""How a count is made of trainings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from capax.specs.spec import Size, Spec


class Mac(Spec):
    """Maximum attainable capacity: the best count of several restarts on one library (paper: 5, the best is kept)."""

    protocol: Literal["mac"] = "mac"
    restarts: Annotated[
        Size, Field(description="Restarts: initial weights and batch order anew, the library the same.")
    ] = 5


class Mls(Spec):
    """Maximum library size: the largest library that is memorized whole, as the 50 % point of success against log size.

    `library_size` of the task is the largest size that is tried.
    """

    protocol: Literal["mls"] = "mls"
    first_size: Annotated[Size, Field(description="Library size where the search begins.")] = 16
    seeds: Annotated[int, Field(ge=2, description="Trainings per round of the search.")] = 16
    max_trainings: Annotated[int, Field(ge=8, description="Trainings after which the search ends.")] = 96
    interval_width: Annotated[
        float,
        Field(
            gt=0, lt=1, description="The search ends when its 95 % interval is narrower than this share of its centre."
        ),
    ] = 0.1


class Shatter(Spec):
    """Epochs until a library is memorized whole, over many trials.

    Paper: 1000 trials, 16 sequences, seq_len 8, d_model 16.
    """

    protocol: Literal["shatter"] = "shatter"
    trials: Annotated[int, Field(ge=2, description="Trials; library, weights and batch order are redrawn in each.")] = (
        1000
    )


PROTOCOLS: dict[str, type[Mac] | type[Mls] | type[Shatter]] = {"mac": Mac, "mls": Mls, "shatter": Shatter}
Protocol = Annotated[Mac | Mls | Shatter, Field(discriminator="protocol")]
