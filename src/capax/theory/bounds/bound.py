"""One bound on what a model remembers: its value in its own unit and in bits, what it assumes, and how we know it.

The bounds themselves are in `association_bounds`, `relation_bounds`, `transformer_bounds`, `stored_bits`, `memories`
and `rates`; `catalogue` puts them together for one architecture.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from capax.results import Result

Kind = Literal["constructive", "lower", "upper", "rate", "order"]
Scope = Literal["attention", "model", "channel", "reference"]
Standing = Literal["read", "secondary", "derived"]

AN_ORDER = "an order: its constants and logarithms are not known"
EXACT_LABELS = "a real label that is exact has no finite number of bits"
A_SIZE = "a size that is needed, not a number of items"


class Assumption(Result):
    """What a bound assumes, and whether it holds."""

    text: str
    met: Annotated[bool | None, Field(description="None where it depends on data that were not looked at.")]
    needed: Annotated[
        bool,
        Field(
            description="Whether the bound has no value without it. What is not needed tells how the model differs "
            "from what the bound speaks of: the attention layer alone, a model of the same size, another training."
        ),
    ] = True


class Bound(Result):
    """One bound for one architecture."""

    name: str
    kind: Annotated[
        Kind,
        Field(
            description="constructive: weights that memorize so many exist; lower: at least so many, or no smaller "
            "size is enough; upper: no weights memorize more; rate: what trained models were measured to store; order: "
            "how it grows, without constants."
        ),
    ]
    value: int | float | None
    reason: Annotated[str | None, Field(description="Why there is no value, where there is none.")]
    unit: str
    bits: Annotated[float | None, Field(description="The value in bits, where it has one.")]
    bits_reason: Annotated[str | None, Field(description="Why there is none, where there is none.")]
    criterion: Annotated[str, Field(description="What counts as memorized, and with which weights.")]
    proved_for_recall: Annotated[
        bool,
        Field(
            description="Whether it is proved for what a measurement counts, with weights that were trained: no "
            "measurement may exceed it (`capax.theory.bounds.catalogue.exceeded`)."
        ),
    ]
    formula: str
    assumptions: tuple[Assumption, ...]
    scope: Annotated[
        Scope,
        Field(
            description="What it speaks of: the attention layer alone, the whole model, the key-query channel, or "
            "another system of the same size (reference)."
        ),
    ]
    source: str
    standing: Annotated[
        Standing,
        Field(
            description="read: in the source itself; secondary: where others restate it, or from memory; derived: "
            "ours, and checked."
        ),
    ]


def bound(
    name: str,
    *,
    kind: Kind,
    value: int | float | None,
    unit: str,
    formula: str,
    criterion: str,
    scope: Scope,
    source: str,
    standing: Standing,
    missing: str | None = None,
    assumptions: tuple[Assumption, ...] = (),
    bits: int | float | None = None,
    bits_reason: str | None = None,
    proved_for_recall: bool = False,
) -> Bound:
    """A bound, without its value where an assumption that it needs is not met.

    Args:
        missing: why there is no value, where it is None.
        bits_reason: why there are no bits, where they are None; when not given, there are none because there is no
            value.
    """
    reason = (missing or "no value") if value is None else None
    found = Bound(
        name=name,
        kind=kind,
        value=value,
        reason=reason,
        unit=unit,
        bits=bits,
        bits_reason=None if bits is not None else bits_reason or reason or "no bits",
        criterion=criterion,
        proved_for_recall=proved_for_recall,
        formula=formula,
        assumptions=(),
        scope=scope,
        source=source,
        standing=standing,
    )
    return assuming(found, *assumptions)


def assuming(found: Bound, *more: Assumption) -> Bound:
    """The same bound under further assumptions: one that is needed and not met leaves no value."""
    assumptions = (*found.assumptions, *more)
    broken = [assumption.text for assumption in assumptions if assumption.needed and assumption.met is False]
    changes: dict[str, object] = {"assumptions": assumptions}
    if broken:
        reason = f"not met: {'; '.join(broken)}"
        changes |= {"value": None, "reason": reason, "bits": None}
        if found.bits is not None or found.value is None:
            changes["bits_reason"] = reason
    return found.model_copy(update=changes)
