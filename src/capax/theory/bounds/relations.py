"""Bounds on the total key dimension D_K = n_heads · d_head with which a channel recognizes graphs.

Each counts graphs: weights, with given items, determine the graph, so there must be as many as graphs of the class. At
least one graph needs that much, and so do almost all; a particular one may need less. Adler 2025 (arXiv 2509.22840)
states D_K = Ω(m' log m' / d_model); the bounds here are ours, as the paper's constants are not known to us. log2|F|,
`graph_bits`, is that of the number of graphs (`tasks.graph_classes`); d is d_model, h n_heads, m n_items, m' n_edges.
"""

from __future__ import annotations

from functools import partial
from math import e, log, log2

from scipy.optimize import brentq

from capax.theory.bounds.bound import A_SIZE, Declarer, bound, needs, order

LN2 = log(2)
RECOGNIZED = "every graph of a class recognized (all pairs on the right side of the threshold)"
ANY_WEIGHTS = f"{RECOGNIZED}, any real weights, scores without rounding"
WARREN = "capax: Warren's bound on sign patterns (LB-3)"

SCORES = needs("scores alone decide: no values, no MLP", lambda channel: channel == "threshold", of="channel")
LARGEST = needs("heads are joined by their maximum", lambda aggregate: aggregate == "max", of="aggregate")


lower: Declarer = partial(
    bound,
    kind="lower",
    unit="total_key_dim",
    criterion=RECOGNIZED,
    scope="channel",
    standing="derived",
    bits_reason=A_SIZE,
)
"""Declare a key dimension that is needed."""
upper: Declarer = partial(
    bound,
    kind="upper",
    unit="bits",
    criterion=ANY_WEIGHTS,
    scope="channel",
    standing="derived",
    bits=lambda value: value,
)
"""Declare how many graphs can be told apart."""


@order(
    formula="D_K = Θ(m' log m' / d_model) for m' edges",
    unit="total_key_dim",
    criterion="a graph recognized, weights chosen for it",
    scope="channel",
    source="Adler 2025 (arXiv 2509.22840); the third version says up to logarithmic factors",
    standing="read",
    assumptions=("items are one-hot, Gaussian, or of restricted self-incoherence", SCORES, LARGEST),
    bits_reason=A_SIZE,
)
def adler2025() -> None:
    """The paper's law, whose constants are not known to us."""


def _weights_and(constants: int = 1) -> str:
    return f"(log2|F| − {'' if constants == 1 else f'{constants} '}p) / (2 p d)"


@lower(
    formula=_weights_and,
    source="capax: weights counted (LB-1)",
    assumptions=(
        "each weight and the threshold are one of 2^{bits} values, which do not follow the graph",
        "every graph of the class is recognized on the same items",
        SCORES,
    ),
    proved_for_recall=True,
)
def quantised(graph_bits: float, d_model: int, bits: int, constants: int = 1) -> float:
    """LB-1: D_K ≥ (log2|F| − p) / (2 p d) with p bits a weight and for the threshold: Ω(m' log m' / d) for p = O(1).

    2 d D_K weights of p bits and a threshold of p bits take 2^(2 d D_K p + p) values, one graph each at most; with
    `constants` = 2 a learned scale is one number more.
    """
    return max(0.0, (graph_bits - constants * bits) / (2 * bits * d_model))


def _gamma(margin: float | None) -> float:
    return (margin or 0) / 2


@lower(
    formula="ln|F| / (2 d ln(1 + 6R²/γ))",
    source="capax: ε-nets (LB-2)",
    assumptions=(
        needs(
            "scores are a margin from the threshold (γ > 0)", lambda margin=None: _gamma(margin) > 0, of="square_norm"
        ),
        needs("γ ≤ R²", lambda square_norm, margin=None: _gamma(margin) <= square_norm, of="square_norm"),
        "every graph of the class is recognized with these R and γ and one threshold",
        SCORES,
        LARGEST,
    ),
)
def margin(
    graph_bits: float, d_model: int, square_norm: float | None = None, margin: float | None = None
) -> float | str | None:
    """LB-2: D_K ≥ ln|F| / (2 d ln(1 + 6R²/γ)) with real weights, norms to R and scores to γ off the threshold.

    In the norm ‖W‖_X = max_i ‖x_i W‖ moving all matrices by ε changes scores by 2Rε + ε² at most, and (1 + 2R/ε)^(2 d
    D_K) points are an ε-net of the ball of radius R; two graphs cannot share a point at ε = γ/(3R).

    Args:
        graph_bits: log2|F|.
        d_model: d.
        square_norm: R², largest ‖q‖ of an item times largest ‖k‖ in one head; None where no weights are given.
        margin: 2γ, smallest score of an edge minus the largest of a non-edge; None or ≤ 0 where there is none.
    """
    if square_norm is None:
        return "R² and γ are those of weights, and none are given"
    gamma = _gamma(margin)
    return graph_bits * LN2 / (2 * d_model * log(1 + 6 * square_norm / gamma)) if 0 < gamma <= square_norm else None


def _patterns(variables: float, polynomials: float) -> float:
    """log2 of Warren's bound on the sign patterns of so many quadratic polynomials: n log2(8 e s / n)."""
    return variables * log2(8 * e * polynomials / variables)


def _scores(n_heads: int, n_items: int) -> int:
    return n_heads * n_items * (n_items - 1)


def _enough(graph_bits: float, n_items: int, n_heads: int) -> bool:
    scores = float(_scores(n_heads, n_items))
    return _patterns(scores, scores) >= graph_bits


@lower(
    formula="n log2(8 e h m(m − 1) / n) ≥ log2|F|, n = 2 d D_K + 1",
    source=WARREN,
    assumptions=(
        needs("as many scores as weights, or more", _enough, of="graph_bits"),
        needs("every graph of the class is recognized on the same items with this many heads", of="graph_bits"),
        SCORES,
    ),
)
def real(graph_bits: float, n_items: int, n_heads: int, d_model: int) -> float | None:
    """LB-3: n log2(8 e s / n) ≥ log2|F|, n = 2 d D_K + 1, s = h m(m − 1), with any real weights: Ω(m'/d) only.

    Warren's bound on the sign patterns of s quadratic polynomials in n ≤ s variables, the scores minus the threshold.
    Without a margin no more is true: points on a circle recognize any permutation of one-hot items with d_head = 2.
    """
    if not _enough(graph_bits, n_items, n_heads):
        return None
    scores = float(_scores(n_heads, n_items))

    def excess(variables: float) -> float:
        return _patterns(variables, scores) - graph_bits

    least = float(brentq(excess, 1.0, scores)) if excess(1.0) < 0 else 1.0
    return (least - 1) / (2 * d_model)


def _variables(d_model: int, n_heads: int, d_head: int) -> int:
    return 2 * d_model * n_heads * d_head + 1


@upper(
    formula="min(n log2(8 e h m(m − 1) / n), m(m − 1)), n = 2 d D_K + 1",
    source=WARREN,
    assumptions=(
        needs(
            "as many scores as weights, or more",
            lambda n_items, n_heads, d_model, d_head: _scores(n_heads, n_items) >= _variables(d_model, n_heads, d_head),
        ),
        SCORES,
    ),
)
def sign_patterns(n_items: int, n_heads: int, d_model: int, d_head: int) -> float | None:
    """LB-3 the other way round: most log2|F| that heads of this size tell apart with any real weights.

    That is all graphs, m(m − 1) bits, where Warren's bound is above them.
    """
    scores, variables = _scores(n_heads, n_items), _variables(d_model, n_heads, d_head)
    return (
        min(_patterns(float(variables), float(scores)), float(n_items * (n_items - 1))) if scores >= variables else None
    )


@upper(
    formula="min((d² + 1) log2(4 e m(m − 1) / (d² + 1)), m(m − 1))",
    source="capax: rank of W_Q W_Kᵀ, Warren's bound on sign patterns",
    assumptions=(needs("one head", lambda n_heads: n_heads == 1), SCORES),
)
def one_head(n_items: int, d_model: int) -> float:
    """Most log2|F| of graphs that one head of any size tells apart: n log2(4 e s / n), n = d² + 1, s = m(m − 1).

    rank(W_Q W_Kᵀ) ≤ d, so d_head > d adds nothing, and scores are linear in the d² entries: Warren's bound again. One
    head thus fails once m' log m' passes a multiple of d², however large it is. At most all graphs, m(m − 1), which is
    what is left of it where there are fewer scores than numbers.
    """
    scores, numbers = _scores(1, n_items), d_model**2 + 1
    if scores < numbers:
        return float(scores)
    return min(numbers * log2(4 * e * scores / numbers), float(scores))


@bound(
    kind="constructive",
    unit="total_key_dim",
    formula="m'",
    criterion="any graph of so many edges recognized, weights chosen for it",
    scope="channel",
    source="capax: Cauchy–Schwarz",
    standing="derived",
    assumptions=(
        "items are of unit norm, and no two are equal or opposite",
        needs("d_model ≥ 2: in one channel any two unit vectors are equal or opposite", lambda d_model: d_model >= 2),
        SCORES,
        LARGEST,
    ),
    bits_reason=A_SIZE,
)
def one_edge_a_head(n_edges: int) -> int:
    """D_K = m' is enough for any graph: a head of one channel for each edge (s, t), scores ⟨x_i, x_s⟩ ⟨x_t, x_j⟩.

    Of unit vectors that is 1 for the edge and less elsewhere, by little where items are many. It is less than
    c m' log2 m' / d where d < c log2 m'.
    """
    return n_edges


OF_WEIGHTS = (quantised, margin, real, one_head, one_edge_a_head)
"""Bounds that given weights of a channel are compared with."""
