"""Bounds on what one attention layer memorizes of (context, query) → label examples.

The layer is f(E, e) = Σ_h W_O,hᵀ W_V,hᵀ Eᵀ softmax(E W_K,h W_Q,hᵀ e) with n tokens in a context. To memorize T examples
is to give any T labels, exactly. H is n_heads, n context_size, d d_model.
"""

from __future__ import annotations

from functools import partial
from math import log2

from capax.theory.bounds.bound import EXACT_LABELS, Declarer, bound, differs, needs

MAHDAVI = "Mahdavi, Liao, Thrampoulidis 2024 (arXiv 2306.02010)"
FIXED = "exact real labels, query and key weights fixed: a linear read-out of the features"
NO_CLASSES = f"{EXACT_LABELS}; classes need only the right order of outputs, so the limit does not hold for them"

layer: Declarer = partial(bound, unit="examples", scope="attention", reads=("tokens", "examples"))
"""Declare a bound of an attention layer."""
FOLLOW = needs("query and key matrices do not depend on the labels")
ALONE = (
    differs(
        "nothing but this layer: one layer, no norms, no FFN",
        lambda n_layers, norms, ffn: n_layers == 1 and not norms and ffn == "none",
        of="norms",
    ),
    differs("nothing but this layer: no embedding, no positions", lambda profile: profile == "plain", of="profile"),
    needs("each head has its own keys and values, and sees all positions alike", "plain_heads", of="plain_heads"),
)
"""How far a model is from one attention layer alone."""
ONE_LAYER = needs("one layer", lambda n_layers: n_layers == 1, of="profile")
"""What layers before it give does not bound; of a transformer the value is that of one of its layers."""


def _of_classes(
    value: int, n_classes: int, d_model: int, d_value: int | None = None, d_out: int | None = None
) -> float | str:
    """T log2(n_classes), where the layer gives as many numbers as one-hot vectors of the classes have, or channels."""
    if d_value is not None and d_value < min(d_model, d_out or n_classes):
        return f"its labels have d_value = {d_value} numbers, too few for one-hot vectors of classes"
    return value * log2(n_classes)


@layer(
    kind="constructive",
    formula="H(min(n, d_head) − 1) + 1",
    criterion="exact real labels, weights chosen for them; bits: of classes, whose one-hot vectors are such labels",
    source=f"{MAHDAVI}, theorem 1",
    standing="secondary",
    assumptions=(
        needs("context_size < d_model", lambda context_size, d_model: context_size < d_model),
        needs("every context_size queries are linearly independent", "queries_independent"),
        needs("the tokens of every context are linearly independent", "contexts_independent"),
        differs(
            "d_value ≥ min(d_model, d_out); else labels of d_value numbers",
            lambda d_value, d_model, d_out: d_value >= min(d_model, d_out),
        ),
        differs(
            "one layer; more hold no fewer, as those before the last may add nothing",
            lambda n_layers: n_layers == 1,
            of="profile",
        ),
        *ALONE,
    ),
    bits=_of_classes,
    bits_reason=EXACT_LABELS,
)
def mahdavi2024(n_heads: int, context_size: int, d_model: int, d_head: int) -> int:
    """T = H(min(n, d_head) − 1) + 1 examples with vector labels (theorem 1).

    Bits are those of classes, whose one-hot vectors are a special case of such labels: T log2(n_classes).
    """
    return n_heads * (min(context_size, d_head) - 1) + 1


@layer(
    kind="upper",
    formula="min(H(n − 1) + 1, H d)",
    criterion=FIXED,
    source=f"{MAHDAVI}, proposition 2; its proof and H d are ours",
    standing="secondary",
    assumptions=(needs("all examples share one context", "shared_context"), FOLLOW, ONE_LAYER, *ALONE),
    bits_reason=NO_CLASSES,
)
def shared_context_rank(n_heads: int, context_size: int, d_model: int) -> int:
    """min(H(n − 1) + 1, H d) examples that share one context, with any fixed query and key matrices (proposition 2).

    The rows of attention weights A_h sum to 1, so [A_1 ... A_H] has rank H(n − 1) + 1 at most, and so has
    Z = [A_1 E ... A_H E]. Query and key matrices that follow the labels can exceed it for scalar labels.
    """
    return min(n_heads * (context_size - 1) + 1, n_heads * d_model)


@layer(
    kind="upper",
    formula="H d",
    criterion=FIXED,
    source="capax: the number of columns of Z",
    standing="derived",
    assumptions=(FOLLOW, ONE_LAYER, *ALONE),
    bits_reason=NO_CLASSES,
)
def fresh_context_rank(n_heads: int, d_model: int) -> int:
    """H d examples, each with a context of its own, with any fixed query and key matrices: the width of Z (ours)."""
    return n_heads * d_model


@layer(
    kind="upper",
    formula="H[k(2d − k) + v(d + d_out − v)] / d_out, k = min(d_head, d), v = min(d_value, d, d_out)",
    criterion="exact real labels of d_out numbers, any weights",
    source="capax: dimensions counted, Sard's theorem",
    standing="derived",
    assumptions=("labels are real numbers, recalled exactly", ONE_LAYER, *ALONE),
    bits_reason=NO_CLASSES,
)
def parameter_limit(n_heads: int, d_model: int, d_head: int, d_value: int, d_out: int) -> int:
    """⌊D / d_out⌋ examples with real labels, D = H[k(2d − k) + v(d + d_out − v)] (ours).

    W_Q W_Kᵀ is any matrix of rank k = min(d_head, d) and W_V W_O of rank v = min(d_value, d, d_out), so the layer has D
    dimensions; by Sard's theorem a smooth map from fewer than T·d_out dimensions misses almost all labels.
    """
    k, v = min(d_head, d_model), min(d_value, d_model, d_out)
    return n_heads * (k * (2 * d_model - k) + v * (d_model + d_out - v)) // d_out


def n_parameters(n_heads: int, d_model: int, d_head: int, d_value: int, d_out: int) -> int:
    """H(2 d d_head + d d_value + d_value d_out)."""
    return n_heads * (2 * d_model * d_head + d_model * d_value + d_value * d_out)
