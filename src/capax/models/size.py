"""How many parameters a transformer has, without building it."""

from __future__ import annotations

from capax.specs import Transformer


def parameter_counts(spec: Transformer, vocab_size: int, context: int) -> dict[str, int]:
    """Numbers that `TransformerEnsemble` holds for one member: `trainable` and `total`.

    For the default model L·(8B² + 4·D·H·B + 7B) + B + context·B are trained (L layers, H heads of D channels, width B),
    and the two frozen tables add 2·vocab_size·B.

    Args:
        spec: the model.
        vocab_size: different tokens.
        context: positions that the network sees: seq_len − 1.
    """
    width, heads = spec.d_model, spec.n_heads
    block = 2 * heads * width * (spec.d_head + (spec.d_value or spec.d_head))
    if spec.norms:
        block += width if spec.ffn == "none" else 2 * width
    if spec.ffn == "mlp":
        block += 8 * width**2 + 5 * width
    fixed = spec.n_layers * block + (width if spec.norms else 0)
    trainable = total = fixed
    for state, size in (
        (spec.embeddings, vocab_size * width),
        (spec.positions, context * width),
        (spec.readout, vocab_size * width),
    ):
        total += size
        trainable += size if state == "trained" else 0
    return {"trainable": trainable, "total": total}
