"""Bounds on what one attention layer memorizes, each with its assumptions, its source and how we know it.

Those on relations are in `relation_bounds`. Here the layer is
f(E, e) = Σ_h W_O,hᵀ W_V,hᵀ Eᵀ softmax(E W_K,h W_Q,hᵀ e) with n tokens in a context. To memorize T examples is to give
any T labels, exactly.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from capax.results import Result

MAHDAVI = "Mahdavi, Liao, Thrampoulidis 2024 (arXiv 2306.02010)"


class Assumption(Result):
    """What a bound assumes, and whether it holds."""

    text: str
    met: Annotated[bool | None, Field(description="None where it depends on data that were not looked at.")]


class Bound(Result):
    """One bound for one architecture."""

    name: str
    kind: Annotated[
        Literal["constructive", "upper", "lower"],
        Field(
            description="constructive: weights that memorize so many exist; upper: no weights memorize more; lower: no "
            "less is enough."
        ),
    ]
    value: int | float | None
    reason: Annotated[str | None, Field(description="Why there is no value, where there is none.")]
    unit: str
    formula: str
    assumptions: tuple[Assumption, ...]
    scope: Annotated[Literal["attention"], Field(description="The part of a model that it speaks of.")]
    source: str
    standing: Annotated[
        Literal["secondary", "derived"],
        Field(description="secondary: read where others restate it, not in the paper; derived: ours, and checked."),
    ]


def n_parameters(n_heads: int, d_model: int, d_head: int, d_value: int, d_out: int) -> int:
    """H(2 d d_head + d d_value + d_value d_out)."""
    return n_heads * (2 * d_model * d_head + d_model * d_value + d_value * d_out)


def mahdavi2024(
    n_heads: int,
    context_size: int,
    d_model: int,
    d_head: int,
    *,
    queries_independent: bool | None = None,
    contexts_independent: bool | None = None,
) -> Bound:
    """T = H(min(n, d_head) − 1) + 1 examples with vector labels (theorem 1).

    Args:
        n_heads: H.
        context_size: n.
        d_model: d.
        d_head: channels of a projected query.
        queries_independent: whether every n queries are linearly independent, where that is known.
        contexts_independent: whether the n tokens of every context are, where that is known.
    """
    assumptions = (
        Assumption(text="context_size < d_model", met=context_size < d_model),
        Assumption(text="every context_size queries are linearly independent", met=queries_independent),
        Assumption(text="the tokens of every context are linearly independent", met=contexts_independent),
    )
    broken = [assumption.text for assumption in assumptions if assumption.met is False]
    return Bound(
        name="mahdavi2024",
        kind="constructive",
        value=None if broken else n_heads * (min(context_size, d_head) - 1) + 1,
        reason=f"not met: {'; '.join(broken)}" if broken else None,
        unit="examples",
        formula="H(min(n, d_head) − 1) + 1",
        assumptions=assumptions,
        scope="attention",
        source=f"{MAHDAVI}, theorem 1",
        standing="secondary",
    )


def shared_context_rank(n_heads: int, context_size: int, d_model: int) -> Bound:
    """min(H(n − 1) + 1, H d) examples that share one context, with any fixed query and key matrices (proposition 2).

    The rows of attention weights A_h sum to 1, so [A_1 ... A_H] has rank H(n − 1) + 1 at most, and so has
    Z = [A_1 E ... A_H E]. Query and key matrices that follow the labels can exceed it for scalar labels.
    """
    return Bound(
        name="shared_context_rank",
        kind="upper",
        value=min(n_heads * (context_size - 1) + 1, n_heads * d_model),
        reason=None,
        unit="examples",
        formula="min(H(n − 1) + 1, H d)",
        assumptions=(
            Assumption(text="all examples share one context", met=None),
            Assumption(text="query and key matrices do not depend on the labels", met=None),
        ),
        scope="attention",
        source=f"{MAHDAVI}, proposition 2; its proof and H d are ours",
        standing="secondary",
    )


def fresh_context_rank(n_heads: int, d_model: int) -> Bound:
    """H d examples, each with a context of its own, with any fixed query and key matrices: the width of Z (ours)."""
    return Bound(
        name="fresh_context_rank",
        kind="upper",
        value=n_heads * d_model,
        reason=None,
        unit="examples",
        formula="H d",
        assumptions=(Assumption(text="query and key matrices do not depend on the labels", met=None),),
        scope="attention",
        source="capax: the number of columns of Z",
        standing="derived",
    )


def parameter_limit(n_heads: int, d_model: int, d_head: int, d_value: int, d_out: int) -> Bound:
    """⌊D / d_out⌋ examples with real labels, D = H[k(2d − k) + v(d + d_out − v)] (ours).

    W_Q W_Kᵀ is any matrix of rank k = min(d_head, d) and W_V W_O of rank v = min(d_value, d, d_out), so the layer has D
    dimensions; by Sard's theorem a smooth map from fewer than T·d_out dimensions misses almost all labels.
    """
    k, v = min(d_head, d_model), min(d_value, d_model, d_out)
    dimensions = n_heads * (k * (2 * d_model - k) + v * (d_model + d_out - v))
    return Bound(
        name="parameter_limit",
        kind="upper",
        value=dimensions // d_out,
        reason=None,
        unit="examples",
        formula="H[k(2d − k) + v(d + d_out − v)] / d_out, k = min(d_head, d), v = min(d_value, d, d_out)",
        assumptions=(Assumption(text="labels are real numbers, recalled exactly", met=None),),
        scope="attention",
        source="capax: dimensions counted, Sard's theorem",
        standing="derived",
    )


def association_bounds(
    n_heads: int, context_size: int, d_model: int, d_head: int, d_value: int, d_out: int
) -> tuple[Bound, ...]:
    """All bounds on associations for one attention layer."""
    return (
        mahdavi2024(n_heads, context_size, d_model, d_head),
        shared_context_rank(n_heads, context_size, d_model),
        fresh_context_rank(n_heads, d_model),
        parameter_limit(n_heads, d_model, d_head, d_value, d_out),
    )
