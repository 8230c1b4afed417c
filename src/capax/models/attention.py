"""Causal self-attention of an ensemble, contracted in the cheapest order.

Every function computes softmax(Q Kᵀ / √d_head) V W_O over the positions up to each query's own. They differ in how the
inputs are given (as vectors, as rows of a table, as token + position) and in which queries they answer (all, or the
last one). `transformer.py` chooses by what is scored and by size; the result is the same (tested to 1e-10 in float64).

Letters: e members, b sequences, n positions, h heads, c channels (d_model), d d_head, v d_value, t vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Weights:
    """One layer's matrices, heads apart; the scale 1/√d_head is applied to queries."""

    query: Float[Tensor, "e h c d"]
    key: Float[Tensor, "e h c d"]
    value: Float[Tensor, "e h c v"]
    out: Float[Tensor, "e h v c"]

    @property
    def scaled_query(self) -> Float[Tensor, "e h c d"]:
        """W_Q / √d_head."""
        return self.query * self.query.shape[-1] ** -0.5


def chain(
    x: Float[Tensor, "e g r i"], first: Float[Tensor, "e h i j"], second: Float[Tensor, "e h j k"]
) -> Float[Tensor, "e h r k"]:
    """`x @ first @ second` per member and head, in the order of fewer multiplications (g is h, or 1 for all)."""
    rows, (i, j), k = x.shape[-2], first.shape[-2:], second.shape[-1]
    if i * k * (j + rows) < rows * j * (i + k):
        return x @ (first @ second)
    return (x @ first) @ second


def causal_softmax(scores: Float[Tensor, "*batch n n"]) -> Float[Tensor, "*batch n n"]:
    """Softmax over the keys at or before each query."""
    n = scores.shape[-1]
    future = torch.full((n, n), -torch.inf, dtype=scores.dtype, device=scores.device).triu(1)
    return (scores + future).softmax(-1)


def merge_heads(mixed: Float[Tensor, "e b h n v"], out: Float[Tensor, "e h v c"]) -> Float[Tensor, "e b n c"]:
    """The output projection: one product over heads and values together."""
    e, b, h, n, v = mixed.shape
    return (mixed.transpose(2, 3).reshape(e, b * n, h * v) @ out.reshape(e, h * v, -1)).view(e, b, n, -1)


def all_queries(x: Float[Tensor, "e b n c"], weights: Weights) -> Float[Tensor, "e b n c"]:
    """Every position asks; inputs are vectors."""

    def project(weight: Float[Tensor, "e h c d"]) -> Float[Tensor, "e b h n d"]:
        e, h, c, d = weight.shape
        flat = x.flatten(1, 2) @ weight.transpose(1, 2).reshape(e, c, h * d)
        return flat.view(*x.shape[:3], h, d).transpose(2, 3)

    scores = project(weights.scaled_query) @ project(weights.key).mT
    return merge_heads(causal_softmax(scores) @ project(weights.value), weights.out)


def absorbs_output(n: int, c: int, v: int) -> bool:
    """Whether a table of values should hold W_V W_O (c wide) rather than W_V (v wide, W_O applied after mixing)."""
    return n * c < (n + c) * v


def tabulate(inputs: Float[Tensor, "e n t c"], weights: Weights) -> dict[str, Float[Tensor, "e h nt k"]]:
    """Queries, keys and values of each (position, token) pair, so that n·t rows are projected instead of b·n."""
    e, n, t, c = inputs.shape
    rows = inputs.view(e, 1, n * t, c)
    absorb = absorbs_output(n, c, weights.value.shape[-1])
    value = chain(rows, weights.value, weights.out) if absorb else rows @ weights.value
    return {"query": rows @ weights.scaled_query, "key": rows @ weights.key, "value": value}


def all_queries_from_tables(
    tables: dict[str, Float[Tensor, "e h nt k"]], tokens: Int[Tensor, "e b n"], weights: Weights
) -> Float[Tensor, "e b n c"]:
    """Every position asks; queries, keys and values are looked up in what `tabulate` made."""
    e, b, n = tokens.shape
    h, rows = tables["query"].shape[1:3]
    head = torch.arange(e * h, device=tokens.device).view(e, 1, h, 1) * rows
    where = head + (tokens + torch.arange(n, device=tokens.device) * (rows // n))[:, :, None]  # e b h n

    def look_up(table: Float[Tensor, "e h r k"]) -> Float[Tensor, "e b h n k"]:
        return F.embedding(where, table.reshape(e * h * rows, -1))

    attention = causal_softmax(look_up(tables["query"]) @ look_up(tables["key"]).mT)  # e b h n n
    value = look_up(tables["value"])
    c, v = weights.value.shape[-2:]
    if not absorbs_output(n, c, v):
        return merge_heads(attention @ value, weights.out)
    flat = attention.transpose(2, 3).reshape(e * b, n, h * n) @ value.view(e * b, h * n, c)
    return flat.view(e, b, n, c)


def last_query(x: Float[Tensor, "e b n c"], weights: Weights) -> Float[Tensor, "e b c"]:
    """Only the last position asks: W_K joins the query, W_V W_O act on the mixed input; no key or value is formed."""
    asked = chain(x[:, None, :, -1], weights.scaled_query, weights.key.mT)  # e h b c
    attention = (asked.transpose(1, 2) @ x.mT).softmax(-1)  # e b h n
    return chain((attention @ x).transpose(1, 2), weights.value, weights.out).sum(1)


def last_query_factored(
    token: Float[Tensor, "e t c"],
    position: Float[Tensor, "e n c"],
    inverse_deviation: Float[Tensor, "e n t"] | None,
    gain: Float[Tensor, "e c"] | None,
    tokens: Int[Tensor, "e b n"],
    weights: Weights,
) -> Float[Tensor, "e b c"]:
    """Only the last position asks; its inputs are `(token[tokens_i] + position[i]) · inverse_deviation · gain`.

    Scores and the mixed input are products with the t token rows and the n position rows: no vector of a (sequence,
    position) is formed, and the cost holds no term b·n·c. Without a norm, `inverse_deviation` and `gain` are None.
    """
    e, b, n = tokens.shape
    h, t = weights.query.shape[1], token.shape[1]
    last = token.gather(1, tokens[:, :, -1, None].expand(-1, -1, token.shape[-1])) + position[:, -1:]
    if inverse_deviation is not None and gain is not None:
        at = (tokens + torch.arange(n, device=tokens.device) * t).flatten(1)
        deviation = inverse_deviation.flatten(1).gather(1, at).view(e, 1, b, n)
        gain = gain[:, None, None]
        last = last * deviation[:, 0, :, -1:] * gain[:, 0]
    asked = chain(last[:, None], weights.scaled_query, weights.key.mT)  # e h b c
    asked = (asked if gain is None else asked * gain).flatten(1, 2)
    slot = tokens[:, None].expand(-1, h, -1, -1)  # e h b n
    scores = (asked @ token.mT).view(e, h, b, t).gather(3, slot) + (asked @ position.mT).view(e, h, b, n)
    attention = scores.softmax(-1) if gain is None else (scores * deviation).softmax(-1) * deviation
    per_token = torch.zeros(e, h, b, t, dtype=attention.dtype, device=attention.device).scatter_add(3, slot, attention)
    mixed = (per_token.flatten(1, 2) @ token + attention.flatten(1, 2) @ position).view(e, h, b, -1)
    return chain(mixed if gain is None else mixed * gain, weights.value, weights.out).sum(1)
