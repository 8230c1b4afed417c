"""Bounds and orders for transformers: associations, next-token distributions, sequences, facts.

What a theorem requires of its layer is an assumption that its value depends on. Where the layer is only a part of the
model (scope attention), how the rest of the model differs is listed too, but the value is kept: it is the layer's.
"""

from __future__ import annotations

from functools import partial
from math import log2

from capax.theory.bounds.associations import ALONE
from capax.theory.bounds.bound import Declarer, bound, differs, needs, order

DANA = "Dana, Pydi, Chevaleyre 2025 (arXiv 2411.10115)"
MADDEN = "Madden, Fox, Thrampoulidis 2025 (arXiv 2405.13718)"
KAJITSUKA_SATO = "Kajitsuka, Sato 2025 (arXiv 2409.17677)"
NICHANI = "Nichani, Lee, Bietti 2025 (arXiv 2412.06538); its conditions are from memory, unverified"

DISTRIBUTIONS = "a distribution that is exact has no finite number of bits"
FACTS = "S subjects and R relations with an answer each among D a relation, drawn at random: S R log2 D bits"
SEPARATED = "tokens are bounded and separated"
RANDOM = "embeddings are random unit vectors"
EVERY_POSITION = "the right label at every position, weights chosen for them"
ANSWERS = "the right answer is the arg-max, weights chosen for the facts; embeddings random"

TOKENS = ("tokens",)
SKIP = (
    needs("a skip around the layer", "skips"),
    needs("d_model ≥ 2", lambda d_model: d_model >= 2),
    needs("d_value = d_head", lambda d_value, d_head: d_value == d_head),
    *ALONE,
    differs(
        "embeddings, positions and read-out are chosen, not frozen",
        lambda embeddings, positions, readout: {embeddings, positions, readout} == {"trained"},
    ),
)
dana: Declarer = partial(bound, scope="attention", standing="read", reads=TOKENS, assumptions=SKIP)
madden: Declarer = partial(bound, unit="contexts", standing="read", reads=TOKENS, bits_reason=DISTRIBUTIONS)
sequences: Declarer = partial(order, unit="sequences", criterion=EVERY_POSITION, reads=TOKENS)
facts: Declarer = partial(
    order, unit="facts", criterion=ANSWERS, source=NICHANI, standing="secondary", reads=TOKENS, bits_reason=FACTS
)
KINKED = ("relu", "rrelu")
SMOOTH = needs(
    "continuously differentiable in its parameters (no ReLU, no choice of experts)",
    lambda ffn, activation, n_experts, top_k: ffn != "mlp" or (activation not in KINKED and top_k == n_experts),
)


@dana(
    kind="constructive",
    unit="associations",
    formula="H min(d_head, d) + d",
    criterion="the right token is the arg-max, weights chosen for the associations",
    source=f"{DANA}, theorem 1",
    bits=lambda value, vocab_size: value * log2(vocab_size),
)
def dana2025(n_heads: int, d_head: int, d_model: int) -> int:
    """H d_head + d associations of one attention layer with a skip (theorem 1, corollary 1).

    A head with more than d channels counts as one of d (ours: it can do what that can). The theorem's embeddings and
    positions are chosen; random ones gave features of the same rank (ours, in docs/bounds.md).
    """
    return n_heads * min(d_head, d_model) + d_model


@dana(
    kind="lower",
    unit="accuracy",
    formula="1/N + (1 − 1/N) min(1, (H min(d_head, d) + d) / T0)",
    criterion="expected share of T0 associations whose right token is the arg-max, weights chosen for them",
    source=f"{DANA}, corollary 2",
    bits_reason="a share of a library; its items are those of dana2025",
)
def dana2025_accuracy(n_heads: int, d_head: int, d_model: int, vocab_size: int, library_size: int) -> float:
    """E[accuracy] ≥ 1/N + (1 − 1/N) min(1, (H d_head + d) / T0) for T0 associations of N tokens (corollary 2)."""
    recalled = min(1.0, (n_heads * min(d_head, d_model) + d_model) / library_size)
    return 1 / vocab_size + (1 - 1 / vocab_size) * recalled


@madden(
    kind="upper",
    formula="k / (ζ − 1), k trainable parameters, ζ tokens",
    criterion="any distributions in the open simplex, exactly, on any so many distinct contexts; any weights",
    scope="model",
    source=f"{MADDEN}, lemma 9",
    assumptions=(SMOOTH,),
)
def madden2025_upper(vocab_size: int, trainable: int) -> int:
    """No more than k/(ζ − 1) contexts with any next-token distributions, for any C¹ model of k parameters (lemma 9)."""
    return trainable // (vocab_size - 1)


def _definable(ffn: str, activation: str) -> bool | None:
    if ffn != "mlp" or activation in ("silu", "softmax"):
        return True
    return False if activation in KINKED else None


@madden(
    kind="upper",
    formula="(2 + 1/(ζ − 1)) k / (ζ − 1) + 2, k trainable parameters, ζ tokens",
    criterion="the distributions that a corpus has, exactly, on any so many distinct contexts; any weights",
    scope="model",
    source=f"{MADDEN}, theorem 13",
    assumptions=(
        SMOOTH,
        needs(
            "its functions are made of exponentials and restricted analytic ones (unknown for erf in GELU)", _definable
        ),
    ),
)
def madden2025_empirical_upper(vocab_size: int, trainable: int) -> int:
    """No more than (2 + 1/(ζ − 1)) k/(ζ − 1) + 2 contexts when the distributions are a corpus's own (theorem 13).

    The paper's table 1 has + 1 in place of + 2.
    """
    others = vocab_size - 1
    return (2 * others + 1) * trainable // others**2 + 2


@madden(
    kind="lower",
    formula="m = 4 d_model",
    criterion="any distributions in the open simplex, exactly; weights chosen for them",
    scope="reference",
    source=f"{MADDEN}, theorem 21",
    assumptions=(
        needs(
            "activation analytic at a point and no polynomial there, one unit at a time",
            lambda activation, n_hidden: activation in ("gelu", "silu"),
        ),
        differs("hidden units are read out directly, not through channels", lambda: False),
        differs(
            "one layer without norms and skips",
            lambda n_layers, norms, skips: n_layers == 1 and not norms and not skips,
        ),
    ),
)
def madden2025_lower(n_hidden: int) -> int:
    """At least m contexts with any distributions, m the hidden units of a one-layer decoder of its own (theorem 21).

    There the read-out takes the hidden units themselves; here they pass d_model channels first, so this is a system of
    the same size, not the model.
    """
    return n_hidden


def madden_parameters(
    vocab_size: int, width: int, d_model: int, n_heads: int, d_value: int, d_head: int, length: int
) -> int:
    """Parameters k = ζ m + m(d + 1) + 2 m_0 (d_0 + d_1) d + (ζ + T) d of the paper's layer."""
    attention = 2 * n_heads * (d_value + d_head) * d_model
    return vocab_size * width + width * (d_model + 1) + attention + (vocab_size + length) * d_model


@sequences(
    formula="Õ(d + n + √(n N)) parameters are enough for N sequences of n tokens",
    source="Kim, Kim, Mozafari 2023 (ICLR)",
    standing="secondary",
    assumptions=(SEPARATED, "depth Õ(n + √(n N)), constant width: one head of size 1, an FFN of 16"),
)
def kim2023() -> None:
    """Parameters that are enough for sequence-to-sequence pairs."""


@sequences(
    formula="O(d n N + d²) parameters are enough for N sequences of n tokens",
    source="Kajitsuka, Sato 2024 (arXiv 2307.14023)",
    standing="secondary",
    assumptions=(SEPARATED, "one layer, one head of rank 1, an FFN of its own size"),
)
def kajitsuka_sato2024() -> None:
    """What one layer needs for N sequences."""


@sequences(
    formula="Õ(d + √N) parameters are enough, Ω(√N) are necessary, for N next tokens",
    criterion="the right next token, weights of √N bits and more, chosen for them",
    source=KAJITSUKA_SATO,
    standing="read",
    assumptions=(SEPARATED, "uniform attention between two deep ReLU FFNs of width 14"),
)
def kajitsuka_sato2025() -> None:
    """What a deep FFN around one layer needs for N next tokens."""


@sequences(
    formula="Õ(√(n N)) parameters are enough for N sequences of n tokens; hardmax needs Ω(√(n N / log(n N)))",
    source=KAJITSUKA_SATO,
    standing="read",
    assumptions=(SEPARATED,),
)
def kajitsuka_sato2025_all() -> None:
    """The same for labels at every position."""


@facts(
    formula="S R facts for d ≥ Õ(max(R, D)), H d_head ≥ Õ(S + R): about as many as attention has parameters",
    assumptions=(RANDOM, "one attention layer, no FFN"),
)
def nichani2025_attention() -> None:
    """Facts (subject, relation) → answer: as many as attention has parameters, up to logarithms."""


@facts(
    formula="S R facts for H d_head ≥ Õ(S + R), m d ≥ Õ(S R): about as many as the MLP has parameters",
    assumptions=(RANDOM, "one attention layer and an MLP of m hidden units"),
)
def nichani2025_mlp() -> None:
    """As many as an MLP has parameters, up to logarithms."""
