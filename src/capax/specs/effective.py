"""How many of a transformer's trained numbers say anything: those that the chances of tokens can tell apart.

Derived, with the eps of norms as 0; tests compare the ranks of derivatives. Counted although they say nothing are the
scales that norms take back where skips are off, and the shifts that biases take back where norms are.
"""

from __future__ import annotations

import math
from typing import Any

from capax.specs.model import freedom


def effective_parameters(model: Any, vocab_size: int, context: int, own_mixer: bool) -> int:
    """Trained numbers of a transformer, without those that others can take back.

    Products of matrices count by their `freedom`. A layer norm takes one direction, the mean, of what is read and
    written, and from the tables; the gain of a norm before matrices is part of them; what is added to all tokens can be
    taken from all positions; what is added to all scores makes no difference; and where all tables are trained, the
    channels may be turned.

    Args:
        own_mixer: whether its mixers have other tensors than attention; all of theirs are counted.
    """
    c = model.d_model
    first = model.norms and model.norm_place == "pre"
    seen = c - 1 if model.norm_kind == "layer" else c
    counted = _free_of_tables(model, vocab_size, context, seen if first else c)
    for layer in range(min(model.n_layers, 2)):  # those after the second are as it is
        read = seen if first or layer else c
        if own_mixer:
            block = sum(math.prod(one.shape) for one in model.mixer_parameters())
        else:
            block = free_of_attention(model, read, seen)
        block += free_of_feed_forward(model, seen, seen) if model.ffn == "mlp" else 0
        if model.norms:
            block += 0 if first and not own_mixer and model.values else c
            block += c if model.ffn == "identity" or (model.ffn == "mlp" and not first) else 0
        counted += block * (model.n_layers - 1 if layer else 1)
    in_matrix = model.readout == "trained"
    counted += (vocab_size - 1) * seen if in_matrix else 0
    if model.norms and first != in_matrix:  # the last gain is its own, or part of the read-out
        counted += c if first else -c
    if model.norms and not first:  # of what a norm gives, the next one takes the scale
        counted -= model.n_layers * (1 if model.ffn == "none" else 2) - 1
    return counted if own_mixer else counted - _turns(model)


def spare_in_products(
    width: int, n_heads: int, n_kv_heads: int, d_head: int, d_value: int, turned: int, gated: int = 0
) -> int:
    """Numbers of one block that its products do not need, and the scales of a gated FFN.

    Args:
        d_value: channels of a value; 0 where there are none.
        turned: channels of a head that rotary positions turn.
        gated: hidden channels of the FFN that are multiplied by others.
    """
    share = n_heads // n_kv_heads
    numbers = (share + 1) * width * (d_head + d_value)
    return n_kv_heads * (numbers - free_of_products(width, width, share, d_head, d_value, turned)) + gated


def free_of_products(read: int, written: int, share: int, d_head: int, d_value: int, turned: int) -> int:
    """Numbers of a key's matrices, its queries', its value's and their outputs' that softmax attention can tell apart.

    Queries that share a key are one matrix above each other, and so are outputs that share a value; products count by
    their `freedom`. Of channels that rotary positions turn, the key can take back one
    complex factor of each pair.

    Args:
        read: directions of the inputs that are not always 0.
        written: directions of the outputs that make a difference.
        share: queries that share the key.
        d_value: channels of a value; 0 where there are none.
        turned: channels of a head that positions turn.
    """
    of_turned = (share + 1) * read * turned - turned
    return of_turned + freedom(share * read, d_head - turned, read) + freedom(read, d_value, share * written)


def free_of_attention(model: Any, read: int, written: int) -> int:
    """Numbers of one block's attention that its outputs can tell apart (derived: ranks of derivatives agree).

    A softmax's are `free_of_products`. Of a linear attention's queries, whose features are of each channel, keys can
    take back nothing; of a delta rule's, whose keys are normed, the rotations of the channels, or of each pair of them
    where positions are rotary, and one scale for each matrix.

    Args:
        read: directions of the inputs that are not always 0.
        written: directions of the outputs that make a difference.
    """
    d, value = model.d_head, (model.d_value or model.d_head) if model.values else 0
    share, rotary = model.n_heads // model.kv_heads, model.positions == "rotary"
    rows = (share + 1) * read
    if model.attention == "softmax":
        return model.kv_heads * free_of_products(read, written, share, d, value, d if rotary else 0)
    if model.attention == "linear":
        free = rows * d
    else:
        turns = d // 2 if rotary else _rotations(d) - _rotations(max(d - rows, 0))
        free = rows * d - turns - (share + 1) + read
    if model.attention == "gated-delta":
        free += read + 2
    return model.kv_heads * (free + freedom(read, value, share * written))


def _rotations(channels: int) -> int:
    """Dimensions of the rotations of so many channels."""
    return channels * (channels - 1) // 2


def free_of_feed_forward(model: Any, read: int, written: int) -> int:
    """Numbers of one FFN that its outputs can tell apart (derived: ranks of derivatives agree).

    Hidden channels of a gated FFN, and those of a ReLU, have a scale that the next matrix can take back; a softmax does
    not see what is added to all of its scores, neither in the FFN nor in the router; it sums to 1, as a bias does.

    Args:
        read: directions of the inputs that are not always 0.
        written: directions of the outputs that make a difference.
    """
    hidden = 4 * model.d_model
    into = hidden * (read + 1)
    active = {"softmax": into - read - 1, "relu": into - hidden, "rrelu": into - hidden}.get(model.activation, into)
    free_bias = model.gated or model.activation != "softmax"
    each = active + (into - hidden if model.gated else 0) + (hidden + free_bias) * written
    return model.n_experts * each + read * (model.n_experts - 1)


def _free_of_tables(model: Any, vocab_size: int, context: int, read: int) -> int:
    """Numbers of the tables of tokens and positions that what reads them can tell apart."""
    c, tied = model.d_model, model.readout == "tied"
    trained = model.positions == "trained"
    free = context * read if trained else 0
    if model.embeddings == "trained":
        free += vocab_size * (c if tied else read)
        free -= (c if tied else read) if trained else (c - read if tied else 0)
    return free


def _turns(model: Any) -> int:
    """Dimensions of the changes of all channels at once that no chance can tell, the scale of norms among them."""
    c = model.d_model
    if model.embeddings == "frozen" or model.positions in ("frozen", "sinusoidal"):
        return 0
    rotations = _rotations(c)
    if not model.norms:
        return {"frozen": 0, "tied": rotations, "trained": c * c}[model.readout]
    of_one_channel = model.readout != "trained" or model.norm_place == "post" or not model.values  # gains, or a table
    if of_one_channel or model.ffn == "identity":
        return 1
    return 1 + (rotations if model.norm == "rms" else _rotations(c - 1))
