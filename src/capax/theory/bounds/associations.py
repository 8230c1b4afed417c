"""Bounds on what one attention layer memorizes of (context, query) → label examples.

The layer is f(E, e) = Σ_h W_O,hᵀ W_V,hᵀ Eᵀ softmax(E W_K,h W_Q,hᵀ e) with n tokens in a context. To memorize T examples
is to give any T labels, exactly.
"""

from __future__ import annotations

from math import log2
from typing import Literal

from capax.theory.bounds.bound import EXACT_LABELS, Assumption, Bound, assuming, bound

MAHDAVI = "Mahdavi, Liao, Thrampoulidis 2024 (arXiv 2306.02010)"
NO_CONTEXT = "context_size is not given"
NO_OUTPUTS = "n_classes or d_out is not given"
FIXED = "exact real labels, query and key weights fixed: a linear read-out of the features"
NO_CLASSES = f"{EXACT_LABELS}; classes need only the right order of outputs, so the limit does not hold for them"


def n_parameters(n_heads: int, d_model: int, d_head: int, d_value: int, d_out: int) -> int:
    """H(2 d d_head + d d_value + d_value d_out)."""
    return n_heads * (2 * d_model * d_head + d_model * d_value + d_value * d_out)


def mahdavi2024(
    n_heads: int,
    context_size: int | None,
    d_model: int,
    d_head: int,
    *,
    queries_independent: bool | None = None,
    contexts_independent: bool | None = None,
    n_classes: int | None = None,
) -> Bound:
    """T = H(min(n, d_head) − 1) + 1 examples with vector labels (theorem 1).

    Bits are those of classes, whose one-hot vectors are a special case of such labels: T log2(n_classes).

    Args:
        n_heads: H.
        context_size: n.
        d_model: d.
        d_head: channels of a projected query.
        queries_independent: whether every n queries are linearly independent, where that is known.
        contexts_independent: whether the n tokens of every context are, where that is known.
        n_classes: different classes, where labels are classes.
    """
    n = context_size
    examples = None if n is None else n_heads * (min(n, d_head) - 1) + 1
    return bound(
        "mahdavi2024",
        kind="constructive",
        value=examples,
        missing=NO_CONTEXT,
        unit="examples",
        bits=None if examples is None or n_classes is None else examples * log2(n_classes),
        bits_reason=EXACT_LABELS if n_classes is None else None,
        formula="H(min(n, d_head) − 1) + 1",
        criterion="exact real labels, weights chosen for them; bits: of classes, whose one-hot vectors are such labels",
        assumptions=(
            Assumption(text="context_size < d_model", met=None if n is None else n < d_model),
            Assumption(text="every context_size queries are linearly independent", met=queries_independent),
            Assumption(text="the tokens of every context are linearly independent", met=contexts_independent),
        ),
        scope="attention",
        source=f"{MAHDAVI}, theorem 1",
        standing="secondary",
    )


def shared_context_rank(n_heads: int, context_size: int | None, d_model: int, *, shared: bool | None = None) -> Bound:
    """min(H(n − 1) + 1, H d) examples that share one context, with any fixed query and key matrices (proposition 2).

    The rows of attention weights A_h sum to 1, so [A_1 ... A_H] has rank H(n − 1) + 1 at most, and so has
    Z = [A_1 E ... A_H E]. Query and key matrices that follow the labels can exceed it for scalar labels.

    Args:
        n_heads: H.
        context_size: n.
        d_model: d.
        shared: whether all examples share one context, where that is known.
    """
    return bound(
        "shared_context_rank",
        kind="upper",
        value=None if context_size is None else min(n_heads * (context_size - 1) + 1, n_heads * d_model),
        missing=NO_CONTEXT,
        unit="examples",
        bits_reason=NO_CLASSES,
        formula="min(H(n − 1) + 1, H d)",
        criterion=FIXED,
        assumptions=(
            Assumption(text="all examples share one context", met=shared),
            Assumption(text="query and key matrices do not depend on the labels", met=None),
        ),
        scope="attention",
        source=f"{MAHDAVI}, proposition 2; its proof and H d are ours",
        standing="secondary",
    )


def fresh_context_rank(n_heads: int, d_model: int) -> Bound:
    """H d examples, each with a context of its own, with any fixed query and key matrices: the width of Z (ours)."""
    return bound(
        "fresh_context_rank",
        kind="upper",
        value=n_heads * d_model,
        unit="examples",
        bits_reason=NO_CLASSES,
        formula="H d",
        criterion=FIXED,
        assumptions=(Assumption(text="query and key matrices do not depend on the labels", met=None),),
        scope="attention",
        source="capax: the number of columns of Z",
        standing="derived",
    )


def parameter_limit(n_heads: int, d_model: int, d_head: int, d_value: int | None, d_out: int | None) -> Bound:
    """⌊D / d_out⌋ examples with real labels, D = H[k(2d − k) + v(d + d_out − v)] (ours).

    W_Q W_Kᵀ is any matrix of rank k = min(d_head, d) and W_V W_O of rank v = min(d_value, d, d_out), so the layer has D
    dimensions; by Sard's theorem a smooth map from fewer than T·d_out dimensions misses almost all labels.
    """
    examples = None
    if d_value is not None and d_out is not None:
        k, v = min(d_head, d_model), min(d_value, d_model, d_out)
        dimensions = n_heads * (k * (2 * d_model - k) + v * (d_model + d_out - v))
        examples = dimensions // d_out
    return bound(
        "parameter_limit",
        kind="upper",
        value=examples,
        missing=NO_OUTPUTS,
        unit="examples",
        bits_reason=NO_CLASSES,
        formula="H[k(2d − k) + v(d + d_out − v)] / d_out, k = min(d_head, d), v = min(d_value, d, d_out)",
        criterion="exact real labels of d_out numbers, any weights",
        assumptions=(Assumption(text="labels are real numbers, recalled exactly", met=None),),
        scope="attention",
        source="capax: dimensions counted, Sard's theorem",
        standing="derived",
    )


def association_bounds(
    n_heads: int,
    context_size: int | None,
    d_model: int,
    d_head: int,
    d_value: int | None,
    d_out: int | None,
    *,
    n_classes: int | None = None,
    contexts: Literal["shared", "fresh", "bag"] | None = None,
) -> tuple[Bound, ...]:
    """All bounds on associations for one attention layer.

    Args:
        n_heads: H.
        context_size: n, where it is known.
        d_model: d.
        d_head: channels of a projected query.
        d_value: channels of a value.
        d_out: numbers in a label.
        n_classes: different classes, where labels are classes.
        contexts: whether all examples share one, where that is known.
    """
    wide = None if d_value is None or d_out is None else d_value >= min(d_model, d_out)
    return (
        assuming(
            mahdavi2024(n_heads, context_size, d_model, d_head, n_classes=n_classes),
            Assumption(text="d_value ≥ min(d_model, d_out); else labels of d_value numbers", met=wide, needed=False),
        ),
        shared_context_rank(n_heads, context_size, d_model, shared=None if contexts is None else contexts == "shared"),
        fresh_context_rank(n_heads, d_model),
        parameter_limit(n_heads, d_model, d_head, d_value, d_out),
    )
