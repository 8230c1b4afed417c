"""The table of bounds: what a bound is, how it is declared, and how it is evaluated for a model and a task.

A bound is a pure function of named numbers, declared by a decorator that holds everything else:

    @bound(kind="upper", unit="examples", formula="H d", criterion=FIXED, scope="attention", source=..., standing=...)
    def fresh_context_rank(n_heads: int, d_model: int) -> int:
        return n_heads * d_model

The names of its arguments, and of those of its conditions, are looked up in what is known (`facts`): a `None` or an
`Unknown` there leaves the bound without a value, and gives the reason. Where a name is missing altogether, the bound
does not apply to the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, signature
from typing import Annotated, Any, Literal

from pydantic import Field

from capax.errors import SpecError
from capax.results import Result, Standing
from capax.specs.spec import whole

Kind = Literal["constructive", "lower", "upper", "rate", "order"]
Scope = Literal["attention", "model", "channel", "reference"]

AN_ORDER = "an order: its constants and logarithms are not known"
A_SIZE = "a size that is needed, not a number of items"
EXACT_LABELS = "a real label that is exact has no finite number of bits"
NO_OUTPUTS = "n_classes or d_out is not given"
NO_GRAPH = "n_items and n_edges are not given"

NOT_GIVEN = {
    "d_out": NO_OUTPUTS,
    "d_value": NO_OUTPUTS,
    "graph_bits": NO_GRAPH,
    "n_hidden": "no hidden units",
    "trainable": "the trainable parameters are not known",
}
"""Why a number is not known, where the name of the argument does not say it."""

LEAST = {
    "seq_len": 2,
    "vocab_size": 2,
    "context_size": 1,
    "n_items": 2,
    "n_edges": 1,
    "library_size": 1,
    "n_classes": 2,
    "d_out": 1,
    "n_heads": 1,
    "d_model": 1,
    "d_head": 1,
    "bits": 1,
}
"""The least that a size may be."""


@dataclass(frozen=True)
class Unknown:
    """Stands for a number that is not known, with the reason."""

    reason: str


class Assumption(Result):
    """What a bound assumes, and whether it holds."""

    text: str
    met: Annotated[bool | None, Field(description="None where it depends on data that were not examined.")]
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
            "measurement may exceed it (`capax.exceeded`)."
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


@dataclass(frozen=True)
class Condition:
    """An assumption as it is declared.

    Attributes:
        text: the assumption; `{name}` is replaced by what is known.
        holds: a function of named facts, or the name of a fact that says it; None: it depends on data.
        needed: whether the bound has no value without it.
        of: a fact; where it is not known the assumption is left out, as there is nothing to assume.
    """

    text: str
    holds: Callable[..., bool | None] | str | None = None
    needed: bool = True
    of: str | None = None

    def judged(self, known: Mapping[str, Any]) -> Assumption | None:
        """The assumption for what is known; None where it is left out."""
        if self.of is not None and (known.get(self.of) is None or isinstance(known[self.of], Unknown)):
            return None
        met = known.get(self.holds) if isinstance(self.holds, str) else None
        if callable(self.holds) and not _missing(_names(self.holds, required=True), known):
            met = _called(self.holds, known)
        return Assumption(text=self.text.format_map(known), met=met, needed=self.needed)


def needs(text: str, holds: Callable[..., bool | None] | str | None = None, of: str | None = None) -> Condition:
    """An assumption without which a bound has no value."""
    return Condition(text, holds, of=of)


def differs(text: str, holds: Callable[..., bool | None] | str | None = None, of: str | None = None) -> Condition:
    """How the model may differ from the system that the bound is about; the value is kept."""
    return Condition(text, holds, needed=False, of=of)


Value = Callable[..., Any]
"""A bound's function: its value, None, or a text that says why there is none."""


@dataclass(frozen=True)
class Statement:
    """A bound as it is declared, for any model; called with facts it is the `Bound` for one."""

    declared: Bound
    compute: Value
    reads: tuple[str, ...]
    conditions: tuple[Condition, ...]
    formula: str | Callable[..., str]
    bits: Callable[..., float | str] | None

    @property
    def name(self) -> str:
        """The bound's."""
        return self.declared.name

    def __call__(self, *sizes: Any, **known: Any) -> Bound:
        """The bound for what is known: by name, or in the order of the function's arguments.

        Raises:
            SpecError: for a size that cannot be.
        """
        names = _names(self.compute)
        if len(sizes) > len(names):
            raise SpecError(f"{self.name}: at most {len(names)} values ({', '.join(names)}), got {len(sizes)}")
        known = dict(zip(names, sizes, strict=False)) | known
        foreign = self._foreign(known)
        value, reason = (None, foreign) if foreign else self._value(known)
        known["value"] = Unknown(reason) if reason is not None else value
        conditions = () if foreign else self.conditions
        assumptions = tuple(one for condition in conditions if (one := condition.judged(known)) is not None)
        bits, bits_reason = self._bits(known, reason)
        broken = [one.text for one in assumptions if one.needed and one.met is False]
        if broken:
            not_met = f"not met: {'; '.join(broken)}"
            if bits is not None or value is None:
                bits, bits_reason = None, not_met
            value, reason = None, not_met
        found = {"value": value, "reason": reason, "bits": bits, "bits_reason": bits_reason, "assumptions": assumptions}
        formula = self.formula if isinstance(self.formula, str) else _called(self.formula, known)
        return self.declared.model_copy(update={**found, "formula": formula})

    def _foreign(self, known: Mapping[str, Any]) -> str | None:
        """Why it does not apply to the model; None where it does."""
        if known.get("reads", self.reads[0]) not in self.reads:
            return f"does not apply: it speaks of models that read {' or '.join(self.reads)}"
        foreign = [name for name in _names(self.compute, required=True) if name not in known]
        if foreign:
            return f"does not apply: it needs {', '.join(foreign)}, which the model's `architecture` does not say"
        return None

    def _value(self, known: Mapping[str, Any]) -> tuple[int | float | None, str | None]:
        """The value, or why there is none."""
        if self.declared.kind == "order":
            return None, AN_ORDER
        names = _names(self.compute, required=True)
        missing = _missing(names, known)
        if missing:
            return None, missing
        for name in names:
            if name in LEAST:
                whole(name, known[name], LEAST[name])
        found = _called(self.compute, known)
        return (None, found or "no value") if found is None or isinstance(found, str) else (found, None)

    def _bits(self, known: Mapping[str, Any], reason: str | None) -> tuple[float | None, str | None]:
        """The value in bits, or why there are none."""
        if self.bits is None:
            return None, self.declared.bits_reason or reason
        missing = _missing([name for name in _names(self.bits, required=True) if name != "value"], known)
        if missing:
            return None, self.declared.bits_reason or missing
        if isinstance(known["value"], Unknown) and "value" in _names(self.bits):
            return None, reason
        found = _called(self.bits, {name: fact for name, fact in known.items() if not isinstance(fact, Unknown)})
        return (None, found) if isinstance(found, str) else (float(found), None)


TABLE: dict[str, Statement] = {}
"""Every bound that is declared, by its name."""


def bound(
    *,
    formula: str | Callable[..., str],
    reads: tuple[str, ...] = ("tokens", "examples", "pairs"),
    assumptions: tuple[str | Condition, ...] = (),
    bits: Callable[..., float | str] | None = None,
    name: str | None = None,
    **declared: Any,
) -> Callable[[Value], Statement]:
    """Declare a bound: the decorated function becomes its `Statement` in the table.

    Args:
        formula: in symbols; a function of facts where it depends on them.
        reads: what the models read that it speaks of.
        assumptions: its conditions; a text is one that depends on data.
        bits: the value in bits, of named facts, or why it has none; `value` is the value. [default: there are none]
        name: [default: the function's]
        declared: kind, unit, criterion, scope, source and standing as in `Bound`; `proved_for_recall`, and
            `bits_reason` where there are no bits for another reason than want of a value.
    """

    def declare(compute: Value) -> Statement:
        empty: dict[str, Any] = {"value": None, "reason": None, "bits": None, "bits_reason": None, "assumptions": ()}
        known_as = {"name": name or compute.__name__, "formula": "", "proved_for_recall": False}
        conditions = tuple(needs(one) if isinstance(one, str) else one for one in assumptions)
        found = Statement(Bound(**empty | known_as | declared), compute, reads, conditions, formula, bits)
        TABLE[found.name] = found
        return found

    return declare


Declarer = Callable[..., Callable[[Value], Statement]]

order: Declarer = partial(bound, kind="order", scope="reference", bits_reason=AN_ORDER)
"""Declare how parameters grow with what is to be memorized; it has no constants, so never a value."""


def _names(function: Callable[..., Any], required: bool = False) -> list[str]:
    """Names of a function's arguments; those without a default alone where they are required."""
    return [
        one.name for one in signature(function).parameters.values() if not required or one.default is Parameter.empty
    ]


def _missing(names: list[str], known: Mapping[str, Any]) -> str:
    """Why some of the facts are not known, each size named once; empty if all are known."""
    reasons = {
        name: one.reason if isinstance(one, Unknown) else NOT_GIVEN.get(name, f"{name} is not given")
        for name in names
        if (one := known.get(name)) is None or isinstance(one, Unknown)
    }
    distinct = [
        reason
        for name, reason in reasons.items()
        if not any(name in other for also, other in reasons.items() if also != name)
    ]
    return "; ".join(dict.fromkeys(distinct))


def _called(function: Callable[..., Any], known: Mapping[str, Any]) -> Any:
    return function(**{name: known[name] for name in _names(function) if name in known})
