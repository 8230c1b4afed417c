"""Bounds and orders for transformers: associations, next-token distributions, sequences, facts.

What a theorem needs of its layer is an assumption that its value depends on. Where the layer is only a part of the
model (scope attention), what the rest of the model is like is told as well, but the value stays: it is the layer's.
"""

from __future__ import annotations

from math import log2

from capax.specs import Transformer
from capax.theory.bounds.bound import AN_ORDER, Assumption, Bound, bound

DANA = "Dana, Pydi, Chevaleyre 2025 (arXiv 2411.10115)"
MADDEN = "Madden, Fox, Thrampoulidis 2025 (arXiv 2405.13718)"
KIM = "Kim, Kim, Mozafari 2023 (ICLR)"
NICHANI = "Nichani, Lee, Bietti 2025 (arXiv 2412.06538); its conditions are from memory, unverified"

NO_VOCABULARY = "vocab_size is not given"
DISTRIBUTIONS = "a distribution that is exact has no finite number of bits"
FACTS = "S subjects and R relations with an answer each among D a relation, drawn at random: S R log2 D bits"


def dana2025(spec: Transformer, vocab_size: int | None) -> Bound:
    """H d_head + d associations of one attention layer with a skip (theorem 1, corollary 1).

    A head with more than d channels counts as one of d (ours: it can do what that can). The theorem's embeddings and
    positions are chosen; random ones gave features of the same rank (ours, in docs/bounds.md).
    """
    capacity = associations(spec)
    trained = {spec.embeddings, spec.positions, spec.readout} == {"trained"}
    return bound(
        "dana2025",
        kind="constructive",
        value=capacity,
        unit="associations",
        bits=None if vocab_size is None else capacity * log2(vocab_size),
        bits_reason=NO_VOCABULARY,
        formula="H min(d_head, d) + d",
        criterion="the right token is the arg-max, weights chosen for the associations",
        assumptions=(
            Assumption(text="a skip around the layer", met=spec.skips),
            Assumption(text="d_model ≥ 2", met=spec.d_model >= 2),
            Assumption(text="d_value = d_head", met=spec.d_value in (None, spec.d_head)),
            alone(spec),
            Assumption(text="embeddings, positions and read-out are chosen, not frozen", met=trained, needed=False),
        ),
        scope="attention",
        source=f"{DANA}, theorem 1",
        standing="read",
    )


def associations(spec: Transformer) -> int:
    """H min(d_head, d) + d."""
    return spec.n_heads * min(spec.d_head, spec.d_model) + spec.d_model


def dana2025_accuracy(spec: Transformer, vocab_size: int | None, library_size: int | None) -> Bound:
    """E[accuracy] ≥ 1/N + (1 − 1/N) min(1, (H d_head + d) / T0) for T0 associations of N tokens (corollary 2)."""
    missing = [f"{name} is not given" for name, size in _named(vocab_size, library_size) if size is None]
    accuracy = None
    if vocab_size is not None and library_size is not None:
        accuracy = 1 / vocab_size + (1 - 1 / vocab_size) * min(1.0, associations(spec) / library_size)
    capacity = dana2025(spec, vocab_size)
    return bound(
        "dana2025_accuracy",
        kind="lower",
        value=accuracy,
        missing="; ".join(missing),
        unit="accuracy",
        bits_reason="a share of a library; its items are those of dana2025",
        formula="1/N + (1 − 1/N) min(1, (H min(d_head, d) + d) / T0)",
        criterion="expected share of T0 associations whose right token is the arg-max, weights chosen for them",
        assumptions=capacity.assumptions,
        scope="attention",
        source=f"{DANA}, corollary 2",
        standing="read",
    )


def madden_parameters(
    vocab_size: int, width: int, d_model: int, n_heads: int, d_value: int, d_head: int, length: int
) -> int:
    """Parameters k = ζ m + m(d + 1) + 2 m_0 (d_0 + d_1) d + (ζ + T) d of the paper's layer."""
    attention = 2 * n_heads * (d_value + d_head) * d_model
    return vocab_size * width + width * (d_model + 1) + attention + (vocab_size + length) * d_model


def madden2025_upper(spec: Transformer, vocab_size: int | None, trainable: int | None) -> Bound:
    """No more than k/(ζ − 1) contexts with any next-token distributions, for any C¹ model of k parameters (lemma 9)."""
    return _madden(
        "madden2025_upper",
        None if vocab_size is None or trainable is None else trainable // (vocab_size - 1),
        "k / (ζ − 1), k trainable parameters, ζ tokens",
        "any distributions in the open simplex, exactly, on any so many distinct contexts; any weights",
        "lemma 9",
        (_smooth(spec),),
        vocab_size,
    )


def madden2025_empirical_upper(spec: Transformer, vocab_size: int | None, trainable: int | None) -> Bound:
    """No more than (2 + 1/(ζ − 1)) k/(ζ − 1) + 2 contexts when the distributions are a corpus's own (theorem 13).

    The paper's table 1 has + 1 in place of + 2.
    """
    value = None
    if vocab_size is not None and trainable is not None:
        others = vocab_size - 1
        value = (2 * others + 1) * trainable // others**2 + 2
    definable = False if spec.ffn == "mlp" and spec.activation == "relu" else None
    if spec.ffn != "mlp" or spec.activation in ("silu", "softmax"):
        definable = True
    return _madden(
        "madden2025_empirical_upper",
        value,
        "(2 + 1/(ζ − 1)) k / (ζ − 1) + 2, k trainable parameters, ζ tokens",
        "the distributions that a corpus has, exactly, on any so many distinct contexts; any weights",
        "theorem 13",
        (
            _smooth(spec),
            Assumption(
                text="its functions are made of exponentials and restricted analytic ones (unknown for erf in GELU)",
                met=definable,
            ),
        ),
        vocab_size,
    )


def madden2025_lower(spec: Transformer) -> Bound:
    """At least m contexts with any distributions, m the hidden units of a one-layer decoder of its own (theorem 21).

    There the read-out takes the hidden units themselves; here they pass d_model channels first, so this is a system of
    the same size, not the model.
    """
    mlp = spec.ffn == "mlp"
    return bound(
        "madden2025_lower",
        kind="lower",
        value=4 * spec.d_model if mlp else None,
        missing="no hidden units",
        unit="contexts",
        bits_reason=DISTRIBUTIONS,
        formula="m = 4 d_model",
        criterion="any distributions in the open simplex, exactly; weights chosen for them",
        assumptions=(
            Assumption(
                text="activation analytic at a point and no polynomial there, one unit at a time",
                met=spec.activation in ("gelu", "silu") if mlp else None,
            ),
            Assumption(text="hidden units are read out directly, not through channels", met=False, needed=False),
            Assumption(text="one layer without norms and skips", met=_bare(spec) and not spec.skips, needed=False),
        ),
        scope="reference",
        source=f"{MADDEN}, theorem 21",
        standing="read",
    )


def kim2023() -> Bound:
    """Õ(d + n + √(nN)) parameters are enough for N sequence-to-sequence pairs."""
    return _order(
        "kim2023",
        "Õ(d + n + √(n N)) parameters are enough for N sequences of n tokens",
        "sequences",
        "the right label at every position, weights chosen for them",
        ("tokens are bounded and separated", "depth Õ(n + √(n N)), constant width: one head of size 1, an FFN of 16"),
        KIM,
        "secondary",
    )


def kajitsuka_sato_orders() -> tuple[Bound, ...]:
    """What one layer, and what a deep FFN around one layer, need for N sequences."""
    separated = "tokens are bounded and separated"
    return (
        _order(
            "kajitsuka_sato2024",
            "O(d n N + d²) parameters are enough for N sequences of n tokens",
            "sequences",
            "the right label at every position, weights chosen for them",
            (separated, "one layer, one head of rank 1, an FFN of its own size"),
            "Kajitsuka, Sato 2024 (arXiv 2307.14023)",
            "secondary",
        ),
        _order(
            "kajitsuka_sato2025",
            "Õ(d + √N) parameters are enough, Ω(√N) are necessary, for N next tokens",
            "sequences",
            "the right next token, weights of √N bits and more, chosen for them",
            (separated, "uniform attention between two deep ReLU FFNs of width 14"),
            "Kajitsuka, Sato 2025 (arXiv 2409.17677)",
            "read",
        ),
        _order(
            "kajitsuka_sato2025_all",
            "Õ(√(n N)) parameters are enough for N sequences of n tokens; hardmax needs Ω(√(n N / log(n N)))",
            "sequences",
            "the right label at every position, weights chosen for them",
            (separated,),
            "Kajitsuka, Sato 2025 (arXiv 2409.17677)",
            "read",
        ),
    )


def nichani_orders() -> tuple[Bound, ...]:
    """Facts (subject, relation) → answer: as many as attention, or as an MLP, has parameters, up to logarithms."""
    criterion = "the right answer is the arg-max, weights chosen for the facts; embeddings random"
    random = "embeddings are random unit vectors"
    return (
        _order(
            "nichani2025_attention",
            "S R facts for d ≥ Õ(max(R, D)), H d_head ≥ Õ(S + R): about as many as attention has parameters",
            "facts",
            criterion,
            (random, "one attention layer, no FFN"),
            NICHANI,
            "secondary",
            bits_reason=FACTS,
        ),
        _order(
            "nichani2025_mlp",
            "S R facts for H d_head ≥ Õ(S + R), m d ≥ Õ(S R): about as many as the MLP has parameters",
            "facts",
            criterion,
            (random, "one attention layer and an MLP of m hidden units"),
            NICHANI,
            "secondary",
            bits_reason=FACTS,
        ),
    )


def transformer_bounds(
    spec: Transformer, *, vocab_size: int | None, library_size: int | None, trainable: int | None
) -> tuple[Bound, ...]:
    """All bounds and orders of this file for one transformer.

    Args:
        spec: the model.
        vocab_size: different tokens.
        library_size: associations to memorize, for the accuracy that a capacity implies.
        trainable: its trainable parameters.
    """
    return (
        dana2025(spec, vocab_size),
        dana2025_accuracy(spec, vocab_size, library_size),
        madden2025_upper(spec, vocab_size, trainable),
        madden2025_empirical_upper(spec, vocab_size, trainable),
        madden2025_lower(spec),
        kim2023(),
        *kajitsuka_sato_orders(),
        *nichani_orders(),
    )


def _named(vocab_size: int | None, library_size: int | None) -> tuple[tuple[str, int | None], ...]:
    return ("vocab_size", vocab_size), ("library_size", library_size)


def _bare(spec: Transformer) -> bool:
    return spec.n_layers == 1 and not spec.norms


def alone(spec: Transformer) -> Assumption:
    """How far a transformer is from one attention layer alone."""
    met = _bare(spec) and spec.ffn == "none"
    return Assumption(text="nothing but this layer: one layer, no norms, no FFN", met=met, needed=False)


def _smooth(spec: Transformer) -> Assumption:
    smooth = spec.ffn != "mlp" or spec.activation != "relu"
    return Assumption(text="continuously differentiable in its parameters (not ReLU)", met=smooth)


def _madden(
    name: str,
    value: int | None,
    formula: str,
    criterion: str,
    place: str,
    assumptions: tuple[Assumption, ...],
    vocab_size: int | None,
) -> Bound:
    return bound(
        name,
        kind="upper",
        value=value,
        missing=NO_VOCABULARY if vocab_size is None else "the trainable parameters depend on seq_len, not given",
        unit="contexts",
        bits_reason=DISTRIBUTIONS,
        formula=formula,
        criterion=criterion,
        assumptions=assumptions,
        scope="model",
        source=f"{MADDEN}, {place}",
        standing="read",
    )


def _order(
    name: str,
    formula: str,
    unit: str,
    criterion: str,
    assumptions: tuple[str, ...],
    source: str,
    standing: str,
    bits_reason: str = AN_ORDER,
) -> Bound:
    """How parameters grow with what is to be memorized, for a model of the theorem's own shape."""
    return bound(
        name,
        kind="order",
        value=None,
        missing=AN_ORDER,
        unit=unit,
        bits_reason=bits_reason,
        formula=formula,
        criterion=criterion,
        assumptions=tuple(Assumption(text=text, met=None) for text in assumptions),
        scope="reference",
        source=source,
        standing="read" if standing == "read" else "secondary",
    )
