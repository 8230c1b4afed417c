"""Biographies in compact form (Allen-Zhu and Li 2024, arXiv 2404.05405: bioS)."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from capax.specs.model import Scored
from capax.specs.spec import LARGEST_LIBRARY, Size
from capax.specs.task import Purpose, Task
from capax.specs.transformer import Transformer

NAMES = (400, 400, 1000)
"""First, middle and last names."""
VALUES = {
    "gender": 2, "month": 12, "day": 28, "year": 200, "city": 200, "university": 300, "major": 100, "employer": 263,
}  # fmt: skip
"""What is known of a person, and of how many values: the paper's six attributes, the birth date as three tokens."""
FIXED = ("gender", "month", "day")
"""What no reduction makes fewer."""


class Biographies(Task):
    """Remember people: each has a name that no other has, and attributes; all are independent and uniform.

    The paper's bioS without its sentences: a person is eleven tokens, three of the name and eight of the values, and
    every position has a vocabulary of its own. A token that is no other comes before each person, so that names are
    predicted, too. Of a person log2 N0 + log2 S0 bits can be known, N0 names and S0 values: a model that knows all N of
    a library knows N log2(N0/N) + N log2 S0 of it (the paper's capacity ratio for bioS), which `allen_zhu_bits` counts.
    """

    learner: ClassVar = Transformer
    unit: ClassVar[str] = "people"
    loss_unit: ClassVar[str] = "nats per token, names included"
    axes: ClassVar[tuple[str, ...]] = ("reduction",)
    library_class: ClassVar[str] = "capax.tasks.biographies:BiographyLibrary"

    task: Literal["biographies"] = "biographies"
    library_size: Annotated[Size, Field(le=LARGEST_LIBRARY, description="People to remember (paper: 10,000 on).")] = (
        10_000
    )
    reduction: Annotated[
        int,
        Field(
            ge=1,
            le=100,
            description="What the numbers of names, years, cities, universities, majors and employers are divided by "
            "(paper: 1).",
        ),
    ] = 1

    @property
    def names(self) -> tuple[int, ...]:
        """How many first, middle and last names there are."""
        return tuple(count // self.reduction for count in NAMES)

    @property
    def values(self) -> tuple[int, ...]:
        """How many values each attribute has."""
        return tuple(count if name in FIXED else count // self.reduction for name, count in VALUES.items())

    @property
    def items(self) -> str:
        """What an item is, in a few words."""
        fewer = f" (reduction {self.reduction})" if self.reduction > 1 else ""
        return f"{self.tokens_per_item} tokens a person{fewer}"

    @property
    def name_bits(self) -> float:
        """log2 N0."""
        return sum(map(math.log2, self.names))

    @property
    def largest_library(self) -> int:
        """As many as there are names."""
        return min(math.prod(self.names), LARGEST_LIBRARY)

    @property
    def tokens_per_item(self) -> int:
        """Tokens of a person."""
        return len(self.names) + len(self.values)

    def sizes(self) -> dict[str, int]:
        """`vocab_size` and `context`: all tokens that the model knows, and those that it reads, the first included."""
        return {"vocab_size": sum(self.names) + sum(self.values) + 1, "context": self.tokens_per_item}

    def scored(self, purpose: Purpose) -> Scored:
        """Every position; recall counts those of values alone."""
        return "all"

    def guess_probability(self) -> float:
        """1/S0: all values of a person right."""
        return 2.0 ** -self.bits_per_item()

    def bits_per_item(self) -> float:
        """log2 S0: 47.6 for the paper's."""
        return sum(map(math.log2, self.values))

    def information_per_item(self) -> float:
        """log2 N0 + log2 S0."""
        return self.name_bits + self.bits_per_item()

    def words(self) -> str:
        """The task in a few words."""
        reduced = "" if self.reduction == 1 else f", alphabets divided by {self.reduction}"
        return f"people of {self.name_bits:.4g} bits of name and {self.bits_per_item():.4g} of values{reduced}"

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Self:
        if self.library_size > self.largest_library:
            raise ValueError(
                f"library_size: at most {self.largest_library} distinct names exist, got {self.library_size}"
            )
        return self
