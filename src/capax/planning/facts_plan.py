"""What a plan of facts says, and its verification."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from capax.overview import Displayed, Overview
from capax.planning.cost import Accelerator
from capax.planning.results import Network, Precision, held_in_words, networks, verified
from capax.results import Measurement, Result
from capax.specs.facts import Tokenization
from capax.text import counted, percent


class FactsInFile(Result):
    """What a file of facts asks of a memory."""

    name: str
    facts: Annotated[int, Field(description="Different facts of the file.")]
    columns: Annotated[
        str | None, Field(description="What the first line calls the columns, where it may be a fact as well.")
    ]
    repeats: Annotated[int, Field(description="Facts that the file says again.")]
    pairs: Annotated[int, Field(description="Of key and relation.")]
    ambiguous: Annotated[int, Field(description="Pairs with several answers.")]
    ceiling: Annotated[float, Field(description="Share of all facts that a model with one answer a pair can recall.")]
    asked: Annotated[int, Field(description="Facts to be recalled, after what is done with several answers.")]
    any_counts: Annotated[bool, Field(description="Whether any of several answers is right.")] = False
    relations: int
    bits: Annotated[
        float, Field(description="Of the asked facts: log2 of the different answers of each relation in the file.")
    ]
    entropy_bits: Annotated[
        float, Field(description="By the entropy of the answers of each relation in the file, of which some are asked.")
    ]
    bytes: Annotated[int, Field(description="Of the file.")]
    compressed_bytes: Annotated[
        int | None, Field(description="Of the asked facts by zstd at its highest level; None where it is not there.")
    ]
    text_bytes: Annotated[int, Field(description="Of the asked facts as text, one a line.")]


class FactsNetwork(Network):
    """A network of a plan, and how it reads facts."""

    tokenization: Tokenization
    seq_len: int
    vocab_size: int
    embedding_share: Annotated[float, Field(description="Share of all parameters that are token tables.")]


class FactsVerification(Displayed, Result):
    """The first network, or adapter, of a plan, trained on the file."""

    held: Annotated[bool, Field(description="Whether it recalled the share that was planned.")]
    recall: Annotated[float, Field(description="Share of the asked facts that it recalled.")]
    measurement: Measurement
    weights: Annotated[
        str | None, Field(description="How they were written, of a plan by bytes; `recall` is of these.")
    ] = None

    def overview(self) -> Overview:
        """What a prompt or a notebook shows of it."""
        return verified(self.held, self.measurement)


class FactsPlan(Displayed, Result):
    """Networks that recall a share of a file's facts, smallest first."""

    file: FactsInFile
    recall: Annotated[float, Field(description="Share of the asked facts that is wanted.")]
    probability: Annotated[float, Field(description="With which each network recalls it.")]
    precision: Precision
    fill: Annotated[float, Field(description="Bits of the facts by bits of capacity at which so many are recalled.")]
    networks: tuple[FactsNetwork, ...]
    exposures: Annotated[int, Field(description="Times that each fact is seen.")]
    accelerator: Accelerator
    law: str
    source: str
    notes: tuple[str, ...]
    verification: FactsVerification | None = None
    schema_version: Literal[1] = 1

    def overview(self) -> Overview:
        """What a prompt or a notebook shows of it: the smallest networks first."""
        none = "" if self.networks else "; no network that is tried recalls so many"
        return Overview(
            title=f"A plan: {self.recall:.6g} of {counted(self.file.asked, 'fact')} of {self.file.name} recalled with "
            f"{percent(self.probability)}; law {self.law} ({self.source}){none}",
            rows={"verified": "" if self.verification is None else held_in_words(self.verification.held)},
            table={"tokens": [one.tokenization for one in self.networks], **networks(self.networks)},
            notes=self.notes,
        )
