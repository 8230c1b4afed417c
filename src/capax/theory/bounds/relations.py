"""What bounds the total key dimension D_K = n_heads · d_head with which a channel recognizes graphs.

Each counts graphs: weights, with given items, determine the graph, so there must be as many as graphs of the class. At
least one graph needs that much, and so do almost all; a particular one may need less. Adler 2025 (arXiv 2509.22840)
states D_K = Ω(m' log m' / d_model); the bounds here are ours, as the paper's constants are not known to us. `bits` is
log2 of the number of graphs (`tasks.graph_classes`).
"""

from __future__ import annotations

from math import e, log, log2

from scipy.optimize import brentq

from capax.errors import SpecError
from capax.theory.bounds.bound import A_SIZE, AN_ORDER, Assumption, Bound, bound

LN2 = log(2)
NO_GRAPH = "n_items and n_edges are not given"
RECOGNIZED = "every graph of a class recognized (all pairs on the right side of the threshold)"


def adler2025() -> Bound:
    """D_K = Θ(m' log m' / d_model): the paper's law, whose constants are not known to us."""
    return bound(
        "adler2025",
        kind="order",
        value=None,
        missing=AN_ORDER,
        unit="total_key_dim",
        bits_reason=A_SIZE,
        formula="D_K = Θ(m' log m' / d_model) for m' edges",
        criterion="a graph recognized, weights chosen for it",
        assumptions=(Assumption(text="items are one-hot, Gaussian, or of restricted self-incoherence", met=None),),
        scope="channel",
        source="Adler 2025 (arXiv 2509.22840); the third version says up to logarithmic factors",
        standing="read",
    )


def quantised_lower_bound(graph_bits: float | None, d_model: int, bits: int, *, constants: int = 1) -> Bound:
    """LB-1: D_K ≥ (log2|F| − p) / (2 p d) with p bits a weight and for the threshold: Ω(m' log m' / d) for p = O(1).

    2 d D_K weights of p bits and a threshold of p bits take 2^(2 d D_K p + p) values, one graph each at most.

    Args:
        graph_bits: log2|F|.
        d_model: d.
        bits: p.
        constants: numbers beside the matrices: 1, the threshold; 2 where a scale is learned as well.
    """
    _check(d_model=d_model, bits=bits)
    value = None if graph_bits is None else max(0.0, (graph_bits - constants * bits) / (2 * bits * d_model))
    return _lower(
        "quantised",
        value,
        f"(log2|F| − {'' if constants == 1 else f'{constants} '}p) / (2 p d)",
        (
            Assumption(
                text=f"each weight and the threshold are one of 2^{bits} values, which do not follow the graph",
                met=None,
            ),
            Assumption(text="every graph of the class is recognized on the same items", met=None),
        ),
        "capax: weights counted (LB-1)",
        proved_for_recall=True,
    )


def margin_lower_bound(
    graph_bits: float | None, d_model: int, square_norm: float | None, margin: float | None
) -> Bound:
    """LB-2: D_K ≥ ln|F| / (2 d ln(1 + 6R²/γ)) with real weights, norms to R and scores to γ off the threshold.

    In the norm ‖W‖_X = max_i ‖x_i W‖ moving all matrices by ε changes scores by 2Rε + ε² at most, and (1 + 2R/ε)^(2 d
    D_K) points are an ε-net of the ball of radius R; two graphs cannot share a point at ε = γ/(3R).

    Args:
        graph_bits: log2|F|.
        d_model: d.
        square_norm: R², largest ‖q‖ of an item times largest ‖k‖ in one head; None where no weights are given.
        margin: 2γ, smallest score of an edge minus the largest of a non-edge; None or ≤ 0 where there is none.
    """
    _check(d_model=d_model)
    formula, source = "ln|F| / (2 d ln(1 + 6R²/γ))", "capax: ε-nets (LB-2)"
    every = Assumption(text="every graph of the class is recognized with these R and γ and one threshold", met=None)
    if square_norm is None or graph_bits is None:
        missing = NO_GRAPH if graph_bits is None else "R² and γ are those of weights, and none are given"
        return _lower("margin", None, formula, (every,), source, missing=missing)
    gamma = (margin or 0) / 2
    assumptions = (
        Assumption(text="scores are a margin from the threshold (γ > 0)", met=gamma > 0),
        Assumption(text="γ ≤ R²", met=gamma <= square_norm),
        every,
    )
    met = 0 < gamma <= square_norm
    value = graph_bits * LN2 / (2 * d_model * log(1 + 6 * square_norm / gamma)) if met else None
    return _lower("margin", value, formula, assumptions, source)


def real_lower_bound(graph_bits: float | None, n_items: int | None, n_heads: int, d_model: int) -> Bound:
    """LB-3: n log2(8 e s / n) ≥ log2|F|, n = 2 d D_K + 1, s = h m(m − 1), with any real weights: Ω(m'/d) only.

    Warren's bound on the sign patterns of s quadratic polynomials in n ≤ s variables, the scores minus the threshold.
    Without a margin no more is true: points on a circle recognize any permutation of one-hot items with d_head = 2.
    """
    _check(d_model=d_model, n_heads=n_heads, n_items=n_items)
    formula = "n log2(8 e h m(m − 1) / n) ≥ log2|F|, n = 2 d D_K + 1"
    source = "capax: Warren's bound on sign patterns (LB-3)"
    if graph_bits is None or n_items is None:
        return _lower("real", None, formula, (), source)
    wanted, polynomials = graph_bits, float(n_heads * n_items * (n_items - 1))

    def excess(variables: float) -> float:
        return _patterns(variables, polynomials) - wanted

    enough = excess(polynomials) >= 0
    least = float(brentq(excess, 1.0, polynomials)) if enough and excess(1.0) < 0 else 1.0
    return _lower(
        "real",
        (least - 1) / (2 * d_model) if enough else None,
        formula,
        (
            Assumption(text="as many scores as weights, or more", met=enough),
            Assumption(text="every graph of the class is recognized on the same items with this many heads", met=None),
        ),
        source,
    )


def sign_patterns(n_items: int | None, n_heads: int, d_model: int, d_head: int) -> Bound:
    """LB-3 the other way round: most log2|F| that heads of this size tell apart with any real weights.

    That is all graphs, m(m − 1) bits, where Warren's bound is above them.
    """
    _check(d_model=d_model, n_heads=n_heads, d_head=d_head, n_items=n_items)
    variables = 2 * d_model * n_heads * d_head + 1
    met = value = None
    if n_items is not None:
        scores = n_heads * n_items * (n_items - 1)
        met = scores >= variables
        value = min(_patterns(float(variables), float(scores)), float(n_items * (n_items - 1))) if met else None
    return bound(
        "sign_patterns",
        kind="upper",
        value=value,
        missing="n_items is not given",
        unit="bits",
        bits=value,
        formula="min(n log2(8 e h m(m − 1) / n), m(m − 1)), n = 2 d D_K + 1",
        criterion=f"{RECOGNIZED}, any real weights, scores without rounding",
        assumptions=(Assumption(text="as many scores as weights, or more", met=met),),
        scope="channel",
        source="capax: Warren's bound on sign patterns (LB-3)",
        standing="derived",
    )


def one_head_bound(n_items: int | None, d_model: int, n_heads: int = 1) -> Bound:
    """Most log2|F| of graphs that one head of any size tells apart: n log2(4 e s / n), n = d² + 1, s = m(m − 1).

    rank(W_Q W_Kᵀ) ≤ d, so d_head > d adds nothing, and scores are linear in the d² entries: Warren's bound again. One
    head thus fails once m' log m' passes a multiple of d², however large it is.
    """
    _check(d_model=d_model, n_heads=n_heads, n_items=n_items)
    numbers = d_model**2 + 1
    met = value = None
    if n_items is not None:
        scores = n_items * (n_items - 1)
        met = scores >= numbers
        value = numbers * log2(4 * e * scores / numbers) if met else None
    return bound(
        "one_head",
        kind="upper",
        value=value,
        missing="n_items is not given",
        unit="bits",
        bits=value,
        formula="(d² + 1) log2(4 e m(m − 1) / (d² + 1))",
        criterion=f"{RECOGNIZED}, any real weights, scores without rounding",
        assumptions=(
            Assumption(text="one head", met=n_heads == 1),
            Assumption(text="more scores than d² + 1 numbers", met=met),
        ),
        scope="channel",
        source="capax: rank of W_Q W_Kᵀ, Warren's bound on sign patterns",
        standing="derived",
    )


def one_edge_a_head(n_edges: int | None) -> Bound:
    """D_K = m' is enough for any graph: a head of one channel for each edge (s, t), scores ⟨x_i, x_s⟩ ⟨x_t, x_j⟩.

    Of unit vectors that is 1 for the edge and less elsewhere, by little where items are many. It is less than
    c m' ln m' / d where d < c ln m'.
    """
    if n_edges is not None:
        _check(n_edges=n_edges)
    return bound(
        "one_edge_a_head",
        kind="constructive",
        value=n_edges,
        missing="n_edges is not given",
        unit="total_key_dim",
        bits_reason=A_SIZE,
        formula="m'",
        criterion="any graph of so many edges recognized, weights chosen for it",
        assumptions=(Assumption(text="no two items are equal or opposite", met=None),),
        scope="channel",
        source="capax: Cauchy–Schwarz",
        standing="derived",
    )


def relation_bounds(
    graph_bits: float,
    n_items: int,
    n_edges: int,
    n_heads: int,
    d_model: int,
    *,
    bits: int,
    square_norm: float,
    margin: float | None,
) -> tuple[Bound, ...]:
    """All bounds on relations for one channel with weights."""
    return (
        quantised_lower_bound(graph_bits, d_model, bits),
        margin_lower_bound(graph_bits, d_model, square_norm, margin),
        real_lower_bound(graph_bits, n_items, n_heads, d_model),
        one_head_bound(n_items, d_model),
        one_edge_a_head(n_edges),
    )


def _patterns(variables: float, polynomials: float) -> float:
    """log2 of Warren's bound on the sign patterns of so many quadratic polynomials: n log2(8 e s / n)."""
    return variables * log2(8 * e * polynomials / variables)


def _lower(
    name: str,
    value: int | float | None,
    formula: str,
    assumptions: tuple[Assumption, ...],
    source: str,
    *,
    missing: str = NO_GRAPH,
    proved_for_recall: bool = False,
) -> Bound:
    return bound(
        name,
        kind="lower",
        value=value,
        missing=missing,
        unit="total_key_dim",
        bits_reason=A_SIZE,
        formula=formula,
        criterion=RECOGNIZED,
        assumptions=assumptions,
        scope="channel",
        source=source,
        standing="derived",
        proved_for_recall=proved_for_recall,
    )


def _check(*, n_items: int | None = None, **sizes: int) -> None:
    items = () if n_items is None else (("n_items", n_items, 2),)
    for name, size, least in (*items, *((name, size, 1) for name, size in sizes.items())):
        if size < least:
            raise SpecError(f"{name}: at least {least}, got {size}")
