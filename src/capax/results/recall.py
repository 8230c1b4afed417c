"""What a kept memory answers, and what is recalled group by group."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from capax.results.result import Result


class Recall(Result):
    """What a kept memory predicts after a prefix, and what its library has there."""

    token: Annotated[int, Field(description="The most probable next token.")]
    probability: float
    library_token: Annotated[int | None, Field(description="Target of the library's item with this prefix, if any.")]
    agrees: Annotated[
        bool | None, Field(description="Whether both say the same; None if the library lacks the prefix.")
    ]


class FactRecall(Result):
    """What a kept memory of facts answers, and what the file says."""

    answer: Annotated[str, Field(description="The most probable answer, token by token.")]
    probability: Annotated[float, Field(description="Of the whole answer.")]
    file_answers: Annotated[tuple[str, ...], Field(description="What the facts that it learned say; empty if nothing.")]
    agrees: Annotated[bool | None, Field(description="Whether it is one of them; None where they say nothing.")]


class GroupRecall(Result):
    """How many items of a group are recalled."""

    by: Annotated[str, Field(description="What the groups differ in: relation, frequency, answer_len, ...")]
    of: Annotated[str, Field(description="The group.")]
    items: int
    recalled: Annotated[int, Field(description="By the training that counts.")]
    weight: Annotated[
        float | None,
        Field(
            description="Mean weight of its items in the loss, 1 over all: exposures of such an item by epochs. "
            "None where all weigh the same."
        ),
    ] = None


class Breakdown(Result):
    """What is recalled, group by group, and what is missed."""

    groups: tuple[GroupRecall, ...]
    missed: Annotated[
        tuple[str, ...], Field(description="Items that most restarts miss, those that all miss first, in words.")
    ]
