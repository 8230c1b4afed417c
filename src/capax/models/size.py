"""How many parameters a model has, without building it."""

from __future__ import annotations

from capax.errors import SpecError
from capax.specs import AssociativeAttention, KeyQueryChannel, Model, Module, Relations, Sequences, Task, Transformer


def parameter_counts(task: Task, model: Model) -> dict[str, int]:
    """Numbers that an ensemble holds for one member: `trainable` and `total`.

    Raises:
        SpecError: for a user's module, whose parameters are known once it is built.
    """
    if isinstance(model, Module):
        raise SpecError(f"model: the size of a user's module is not known beforehand, got {model.name}")
    if isinstance(task, Sequences):
        assert isinstance(model, Transformer)
        return transformer_parameters(model, task.vocab_size, task.seq_len - 1)
    if isinstance(task, Relations):
        assert isinstance(model, KeyQueryChannel)
        return channel_parameters(model)
    assert isinstance(model, AssociativeAttention)
    return associative_parameters(model, task.n_outputs)


def transformer_parameters(spec: Transformer, vocab_size: int, context: int) -> dict[str, int]:
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


def associative_parameters(spec: AssociativeAttention, n_outputs: int) -> dict[str, int]:
    """Numbers that an ensemble holds for one member, all of them trained: `trainable` and `total`.

    H(2·d·d_head + d·d_value + d_value·outputs); the published layer has d² + d more for the embedding and, between its
    output matrix (to d channels) and the outputs, a read-out of (d + 1)·outputs.
    """
    d, v = spec.d_model, spec.value_size(n_outputs)
    heads = spec.n_heads * (2 * d * spec.d_head + d * v)
    if spec.profile == "plain":
        count = heads + spec.n_heads * v * n_outputs
    else:
        count = heads + spec.n_heads * v * d + d * d + d + (d + 1) * n_outputs
    return {"trainable": count, "total": count}


def channel_parameters(spec: KeyQueryChannel) -> dict[str, int]:
    """2·d_model·n_heads·d_head, a scale and a threshold, all of them trained; beside them a constant, `first_scale`.

    Channels that route values have d_model² more a head, and a constant `temperature`; a block 8·d_model² + 7·d_model.
    """
    assert spec.d_head is not None
    c, constants = spec.d_model, 1
    count = 2 * c * spec.n_heads * spec.d_head + 2
    if spec.channel != "threshold":
        count, constants = count + spec.n_heads * c**2, 2
    if spec.channel == "block":
        count += 8 * c**2 + 7 * c
    return {"trainable": count, "total": count + constants}
