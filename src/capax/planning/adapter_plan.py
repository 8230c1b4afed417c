"""What a plan for an adapter says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from capax.overview import Displayed, Overview
from capax.planning.facts_plan import FactsInFile, FactsVerification
from capax.planning.results import Precision, held_in_words
from capax.results import Interval, Result, Standing
from capax.text import amount, counted, percent


class Adapter(Result):
    """An adapter over the base of a plan."""

    r: Annotated[int, Field(description="Rank.")]
    targets: Annotated[str, Field(description="Layers that are adapted.")]
    studied: Annotated[bool, Field(description="Whether the study has adapters on these layers; else others stand in.")]
    trainable_parameters: int
    effective_parameters: Annotated[int, Field(description="What products of that rank can express.")]
    bytes: Annotated[int, Field(description="Of the adapter's file, in the precision asked for.")]
    facts: Annotated[float, Field(description="Facts like these of which the wanted share is recalled, expected.")]
    interval: Annotated[Interval, Field(description="Of `facts`, for a new training.")]
    at_least: Annotated[float, Field(description="With the plan's probability.")]


class Rule(Result):
    """The rank that a rule people use says, and what comes of it by what was measured."""

    name: Annotated[
        str,
        Field(
            description="2 bits a parameter (Schulman 2025); the number of samples (ranks 8, 16, 32, 64); or the law "
            "that is refitted to the adapters of Nguyen 2026."
        ),
    ]
    standing: Standing
    enough: Annotated[bool, Field(description="Whether any rank is enough by it; else it is the largest there is.")]
    adapter: Adapter
    expected_recall: Annotated[
        float,
        Field(
            description="Share of the facts that it recalls, by the study: the mean of its files; an adapter fuller "
            "than any that was measured is taken to recall as many facts as the fullest."
        ),
    ]
    size: Annotated[float | None, Field(description="Its parameters by those of the plan's first; None without one.")]


class AdapterPlan(Displayed, Result):
    """Adapters over a frozen model that recall a share of a file's facts, smallest first."""

    file: FactsInFile
    base: Annotated[str, Field(description="Folder of the frozen model.")]
    base_parameters: int
    recall: Annotated[float, Field(description="Share of the asked facts that is wanted.")]
    probability: Annotated[float, Field(description="With which each adapter recalls it.")]
    precision: Precision
    adapters: Annotated[tuple[Adapter, ...], Field(description="The smallest rank of each choice of layers.")]
    rules: tuple[Rule, ...]
    source: str
    notes: tuple[str, ...]
    verification: FactsVerification | None = None
    schema_version: Literal[1] = 1

    def columns(self) -> dict[str, list[str]]:
        """What is shown of its adapters and then those of the rules, by its heading; a rank that is too small has >."""
        found = [(one, "measured" if one.studied else "others", str(one.r), "–") for one in self.adapters]
        for rule in self.rules:
            rank = f"{'' if rule.enough else '>'}{rule.adapter.r}"
            found.append((rule.adapter, rule.name, rank, f"{rule.expected_recall:.0%}"))
        rows = [one for one, *_ in found]
        return {
            "by": [by for _, by, _, _ in found],
            "rank": [rank for _, _, rank, _ in found],
            "layers": [row.targets for row in rows],
            "trainable": [amount(row.trainable_parameters) for row in rows],
            "size": [amount(row.bytes, "B") for row in rows],
            "facts": [amount(row.facts) for row in rows],
            "interval": [row.interval.ends(amount) for row in rows],
            "at least": [amount(row.at_least) for row in rows],
            "recall": [share for _, _, _, share in found],
        }

    def overview(self) -> Overview:
        """What a prompt or a notebook shows of it: the smallest rank of each choice of layers, then the rules."""
        none = "" if self.adapters else "; no rank is enough"
        return Overview(
            title=f"A plan: {self.recall:.6g} of {counted(self.file.asked, 'fact')} of {self.file.name} recalled with "
            f"{percent(self.probability)} by an adapter over {Path(self.base).name}{none}",
            rows={"verified": "" if self.verification is None else held_in_words(self.verification.held)},
            table=self.columns(),
            notes=self.notes,
        )
