"""Causal softmax attention, contracted in the cheapest order.

Every function computes softmax(Q Kᵀ / √d_head + bias) V W_O over the positions up to each query's own; there is a bias
where heads do not look at all of them alike. They differ in how the inputs are given (as vectors, as rows of a table,
as token + position) and in which queries they answer (all, or the last one). `Softmax` chooses by what is scored and by
size; the result is the same (tested to 1e-10 in float64).
Letters as in `mixer.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from capax.models.mixers.mixer import Inputs, Mixer, turned, turned_halves, turned_to_all, with_gain
from capax.models.operations import by_matrix, looked_up, softmax
from capax.specs.model import Scored

LOOK_UP = 8
"""Sequences per token of the vocabulary from which looking projections up is faster than computing them (measured)."""


GATHERED, TURNED = 24, 40
"""Multiplications that take as long as gathering one number, or turning one, both with their gradients (measured)."""

SCORED_WHOLE = 32
"""Tokens of a vocabulary up to which scoring all of their turned keys is faster than looking some up (measured)."""


class Softmax(Mixer):
    """Softmax attention by whichever of its fast ways costs least."""

    def all_queries(self, x: Float[Tensor, "e b n c"]) -> Float[Tensor, "e b n c"]:
        """The definition's result."""
        return all_queries(x, self._gained_weights(), self.bias(x.shape[2], x), rotary=self._rotary)

    def last_query(self, x: Float[Tensor, "e b n c"]) -> Float[Tensor, "e b c"]:
        """The definition's result at the last position."""
        way = last_query_turned if self._rotary else last_query
        return way(x, self._gained_weights(), self.bias(x.shape[2], x))

    def from_rows(
        self, rows: Float[Tensor, "e t c"], tokens: Int[Tensor, "e b n"], scored: Scored
    ) -> Float[Tensor, "e b p c"] | None:
        """The definition's result from what is computed once for each token of the vocabulary."""
        (b, n), (t, c) = tokens.shape[1:], rows.shape[1:]
        weights, bias, rotary = self._gained_weights(), self.bias(n, rows), self._rotary
        h, d = weights.key.shape[1], weights.key.shape[-1]
        if scored == "all":
            joined = not rotary and mixes_inputs(weights.key, weights.value, n)
            if joined or rows.device.type != "cpu" or not looking_up_pays(b, t if rotary else 0, c):
                return None
            return all_queries_of_tokens(rows, tokens, weights, bias, rotary)
        if rotary:
            if not turning_pays(b, t, c, h, d):
                return None
            return last_query_of_turned_tokens(rows, tokens, weights, bias)[:, :, None]
        if not factoring_pays(b, n, t, c, h):
            return None
        return last_query_factored(rows, None, None, tokens, weights, bias)[:, :, None]

    def shared(self, inputs: Inputs, scored: Scored, n_sequences: int) -> dict[str, Tensor]:
        """What all sequences of a step share, computed once (speed rules 3 and 4); differentiable in the parameters.

        Which tensors there are says how the result is computed: `token_part` for the factored last query, `asked` for
        looked-up queries and values, neither for projecting every vector. The choice counts operations.
        """
        (t, c), n = inputs.token.shape[-2:], inputs.position.shape[-2]
        if self._rotary:
            return {}
        if scored == "last":
            pays = factoring_pays(n_sequences, n, t, c, self.weights["query"].shape[1])
            return inputs.parts() if pays else {}
        weights = self._gained_weights()
        if t * LOOK_UP > n_sequences or not mixes_inputs(weights.key, weights.value, n):
            return {}
        return tabulate(inputs.vectors(), weights)

    def from_shared(self, shared: dict[str, Tensor], tokens: Int[Tensor, "e b n"]) -> Float[Tensor, "e b p c"] | None:
        """The first block's result (p = n or 1) from what `shared` gave; None where that holds nothing for it."""
        if "token_part" in shared:
            parts = (shared["token_part"], shared["position_part"], shared.get("inverse_deviation"))
            bias = self.bias(tokens.shape[-1], parts[0])
            return last_query_factored(*parts, tokens, self._gained_weights(), bias)[:, :, None]
        if "asked" in shared:
            return all_queries_from_tables(shared, tokens, self.bias(tokens.shape[-1], shared["asked"]))
        return None

    @property
    def _rotary(self) -> bool:
        return bool(self.spec.positions == "rotary")

    def _gained_weights(self) -> Weights:
        query, key = (with_gain(self.weights[name], self.gain) for name in ("query", "key"))
        if self.spec.values:
            value, out = with_gain(self.weights["value"], self.gain), self.weights["out"]
        else:  # the mean of what heads make of the inputs
            (e, h, c), g = query.shape[:3], key.shape[1]
            same = torch.eye(c, dtype=query.dtype, device=query.device).expand(e, 1, c, c)
            value, out = with_gain(same, self.gain).expand(e, g, c, c), (same / h).expand(e, h, c, c)
        if (share := query.shape[1] // key.shape[1]) > 1:  # heads that share a key and a value have equal ones
            key, value = key.repeat_interleave(share, 1), value.repeat_interleave(share, 1)
        return Weights(query, key, value, out)


@dataclass(frozen=True)
class Weights:
    """One layer's matrices, heads apart; the gain of the norm before them is in query, key and value."""

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


def causal_softmax(
    scores: Float[Tensor, "e b n h n"], bias: Float[Tensor, "g n n"] | None = None
) -> Float[Tensor, "e b n h n"]:
    """Softmax over the keys at or before each query, or of scores with a bias (g is h, or 1)."""
    if bias is not None:
        return softmax(scores + bias.transpose(0, 1))
    n = scores.shape[-1]
    future = torch.full((n, n), -torch.inf, dtype=scores.dtype, device=scores.device).triu(1)
    return softmax(scores + future[:, None])


def mixes_inputs(key: Float[Tensor, "e h c d"], value: Float[Tensor, "e h c v"], n: int) -> bool:
    """Whether to score and mix the inputs themselves, with W_Q W_Kᵀ and W_V W_O as one matrix each.

    Counts multiplications per query and head: inputs are c wide, but keys and values then need not be formed.
    """
    (c, d), v = key.shape[-2:], value.shape[-1]
    return 2 * c * (c + n) < (2 * c + n) * (d + v)


def joined_query(weights: Weights) -> Float[Tensor, "e c hc"]:
    """W_Q W_Kᵀ / √d_head of all heads side by side: an input times it is scored against inputs."""
    return (weights.scaled_query @ weights.key.mT).transpose(1, 2).flatten(2)


def joined_value(weights: Weights) -> Float[Tensor, "e h c c"]:
    """W_V W_O of each head."""
    return weights.value @ weights.out


def all_queries(
    x: Float[Tensor, "e b n c"],
    weights: Weights,
    bias: Float[Tensor, "g n n"] | None = None,
    rotary: bool = False,
) -> Float[Tensor, "e b n c"]:
    """Every position asks; inputs are vectors."""
    e, b, n, c = x.shape
    if mixes_inputs(weights.key, weights.value, n) and not rotary:
        asked = by_matrix(x.flatten(1, 2), joined_query(weights)).view(e, b, -1, c)  # e b nh c
        attention = causal_softmax((asked @ x.mT).view(e, b, n, -1, n), bias)
        mixed = attention.flatten(2, 3) @ x  # e b nh c
        return by_matrix(mixed.view(e, b * n, -1), joined_value(weights).flatten(1, 2)).view(x.shape)

    asks, answers = weights.scaled_query, weights.key
    if rotary:  # scores are the same in any order of the channels
        asks, answers = (torch.cat([part[..., ::2], part[..., 1::2]], -1) for part in (asks, answers))
    query, key = projected(x, asks), projected(x, answers)
    if rotary:
        query, key = turned_halves(query), turned_halves(key)
    attention = causal_softmax((query @ key.mT).transpose(2, 3), bias).transpose(2, 3)  # e b h n n
    mixed = attention @ projected(x, weights.value)  # e b h n v
    return by_matrix(mixed.transpose(2, 3).reshape(e, b * n, -1), weights.out.flatten(1, 2)).view(x.shape)


def projected(x: Float[Tensor, "e b n c"], weight: Float[Tensor, "e h c d"]) -> Float[Tensor, "e b h n d"]:
    """Inputs by each head's matrix."""
    flat = by_matrix(x.flatten(1, 2), weight.transpose(1, 2).flatten(2))
    return flat.view(*x.shape[:3], *weight.shape[1::2]).transpose(2, 3)


def tabulate(inputs: Float[Tensor, "e n t c"], weights: Weights) -> dict[str, Tensor]:
    """Inputs, what they ask, and their values W_V W_O for each (position, token) pair: n·t rows instead of b·n."""
    rows = inputs.flatten(1, 2)
    return {"input": rows, "asked": rows @ joined_query(weights), "value": rows[:, None] @ joined_value(weights)}


def all_queries_from_tables(
    tables: dict[str, Tensor], tokens: Int[Tensor, "e b n"], bias: Float[Tensor, "g n n"] | None = None
) -> Float[Tensor, "e b n c"]:
    """Every position asks; everything is looked up in what `tabulate` made."""
    e, b, n = tokens.shape
    h, rows, c = tables["value"].shape[1:]
    member = torch.arange(e, device=tokens.device).view(e, 1, 1)
    pair = tokens + torch.arange(n, device=tokens.device) * (rows // n)
    x = looked_up(tables["input"].flatten(0, 1), pair + member * rows)  # e b n c
    asked = looked_up(tables["asked"].flatten(0, 1), pair + member * rows)  # e b n hc
    attention = causal_softmax((asked.view(e, b, n * h, c) @ x.mT).view(e, b, n, h, n), bias)
    head = (torch.arange(h, device=tokens.device)[:, None] + member[..., None] * h) * rows  # e 1 h 1
    value = looked_up(tables["value"].flatten(0, 2), pair[:, :, None] + head)  # e b h n c
    return attention.flatten(3) @ value.flatten(2, 3)


def last_query(
    x: Float[Tensor, "e b n c"], weights: Weights, bias: Float[Tensor, "g n n"] | None = None
) -> Float[Tensor, "e b c"]:
    """Only the last position asks: W_K joins the query, W_V W_O act on the mixed input; no key or value is formed."""
    asked = chain(x[:, None, :, -1], weights.scaled_query, weights.key.mT)  # e h b c
    scores = asked.transpose(1, 2) @ x.mT  # e b h n
    attention = softmax(scores if bias is None else scores + bias[:, -1])
    return chain((attention @ x).transpose(1, 2), weights.value, weights.out).sum(1)


def last_query_turned(
    x: Float[Tensor, "e b n c"], weights: Weights, bias: Float[Tensor, "g n n"] | None = None
) -> Float[Tensor, "e b c"]:
    """Only the last position asks, with rotary positions: keys are formed, as each is turned by its own angle."""
    key = turned(projected(x, weights.key))  # e b h n d
    last = x[:, None, :, -1] @ weights.scaled_query  # e h b d
    query = turned(last.transpose(1, 2)[:, :, :, None].expand_as(key))[:, :, :, -1:]
    scores = (query @ key.mT)[:, :, :, 0]  # e b h n
    attention = softmax(scores if bias is None else scores + bias[:, -1])
    return chain((attention @ x).transpose(1, 2), weights.value, weights.out).sum(1)


def last_query_factored(
    token: Float[Tensor, "e t c"],
    position: Float[Tensor, "e n c"] | None,
    inverse_deviation: Float[Tensor, "e n t"] | None,
    tokens: Int[Tensor, "e b n"],
    weights: Weights,
    bias: Float[Tensor, "g n n"] | None = None,
) -> Float[Tensor, "e b c"]:
    """Only the last position asks; the inputs are `(token[tokens_i] + position[i]) · inverse_deviation[i, tokens_i]`.

    Scores and the mixed input are products with the t token rows and the n position rows: no vector of a (sequence,
    position) is formed, and the cost holds no term b·n·c. `inverse_deviation` is None without a norm, `position`
    without a table of positions; then the token rows are normed already.
    """
    e, b, n = tokens.shape
    h, t = weights.query.shape[1], token.shape[1]
    last = token.gather(1, tokens[:, :, -1, None].expand(-1, -1, token.shape[-1]))
    if position is not None:
        last = last + position[:, -1:]
    deviation = None
    if inverse_deviation is not None:
        at = (tokens + torch.arange(n, device=tokens.device) * t).flatten(1)
        deviation = inverse_deviation.flatten(1).gather(1, at).view(e, 1, b, n)
        last = last * deviation[:, 0, :, -1:]
    asked = chain(last[:, None], weights.scaled_query, weights.key.mT).flatten(1, 2)  # e hb c
    slot = tokens[:, None].expand(-1, h, -1, -1)  # e h b n
    scores = (asked @ token.mT).view(e, h, b, t).gather(3, slot)
    if position is not None:
        scores = scores + (asked @ position.mT).view(e, h, b, n)
    if deviation is not None:
        scores = scores * deviation
    if bias is not None:
        scores = scores + bias[:, -1][:, None]
    attention = softmax(scores) if deviation is None else softmax(scores) * deviation
    mixed = _per_token(attention, slot, t).flatten(1, 2) @ token
    if position is not None:
        mixed = mixed + attention.flatten(1, 2) @ position
    return chain(mixed.view(e, h, b, -1), weights.value, weights.out).sum(1)


def _per_token(attention: Float[Tensor, "e h b n"], slot: Int[Tensor, "e h b n"], t: int) -> Float[Tensor, "e h b t"]:
    """Attention to each token of the vocabulary."""
    none = torch.zeros(*attention.shape[:3], t, dtype=attention.dtype, device=attention.device)
    return none.scatter_add(3, slot, attention)


def all_queries_of_tokens(
    rows: Float[Tensor, "e t c"],
    tokens: Int[Tensor, "e b n"],
    weights: Weights,
    bias: Float[Tensor, "g n n"] | None = None,
    rotary: bool = False,
) -> Float[Tensor, "e b n c"]:
    """Every position asks; an input is its token's row, and queries, keys and values are looked up."""
    (e, b, n), (h, t) = tokens.shape, (weights.query.shape[1], rows.shape[1])
    head = torch.arange(e * h, device=tokens.device).view(e, h, 1, 1) * t
    token = tokens[:, None] + head  # e h b n
    tables = [rows[:, None] @ part for part in (weights.scaled_query, weights.key, weights.value)]
    places = [token] * 3
    if rotary:
        place = token * n + torch.arange(n, device=tokens.device)
        tables[:2] = [turned_to_all(table, 0, n).flatten(2, 3) for table in tables[:2]]
        places[:2] = [place] * 2
    query, key, value = (looked_up(one.flatten(0, 2), at) for one, at in zip(tables, places, strict=True))
    if bias is None:
        bias = torch.full((1, n, n), -torch.inf, dtype=rows.dtype, device=rows.device).triu(1)
    mixed = softmax(query @ key.mT + bias[:, None]) @ value  # e h b n v
    return (mixed.permute(0, 2, 3, 1, 4).reshape(e, b * n, -1) @ weights.out.flatten(1, 2)).view(e, b, n, -1)


def last_query_of_turned_tokens(
    rows: Float[Tensor, "e t c"],
    tokens: Int[Tensor, "e b n"],
    weights: Weights,
    bias: Float[Tensor, "g n n"] | None = None,
) -> Float[Tensor, "e b c"]:
    """Only the last position asks, with rotary positions; an input is its token's row.

    The keys of the vocabulary are turned once for every position. A small vocabulary is scored whole; of a large one
    keys are looked up.
    """
    (e, _, n), (h, t) = tokens.shape, (weights.query.shape[1], rows.shape[1])
    last = rows.gather(1, tokens[:, :, -1, None].expand(-1, -1, rows.shape[-1]))
    query = last[:, None] @ weights.scaled_query  # e h b d, at place 0: positions are told from the last
    key = turned_to_all(rows[:, None] @ weights.key, 1 - n, n)  # e h t n d
    pair = tokens * n + torch.arange(n, device=tokens.device)
    if t <= SCORED_WHOLE:
        scores = (query @ key.flatten(2, 3).mT).gather(3, pair[:, None].expand(-1, h, -1, -1))  # e h b n
    else:
        head = torch.arange(e * h, device=tokens.device).view(e, h, 1, 1) * t * n
        found = looked_up(key.flatten(0, 3), pair[:, None] + head)  # e h b n d
        scores = (found @ query[..., None])[..., 0]
    attention = softmax(scores if bias is None else scores + bias[:, -1][:, None])
    slot = tokens[:, None].expand(-1, h, -1, -1)
    mixed = _per_token(attention, slot, t) @ rows[:, None]
    return chain(mixed, weights.value, weights.out).sum(1)


def factoring_pays(b: int, n: int, t: int, c: int, h: int) -> bool:
    """Whether scoring and mixing token and position rows costs less than forming and reading every input vector.

    Counts multiplications; a vector that is gathered and normed is charged as many as were measured to take as long.
    """
    return 2 * b * h * (t + n) * c + n * t * c < b * n * c * (2 * h * 2 + GATHERED)


def turning_pays(b: int, t: int, c: int, h: int, d: int) -> bool:
    """Whether turning the vocabulary's keys for every position costs less than forming those of every input vector."""
    return t <= b and h * d * (min(t, GATHERED) + TURNED * t / b) < c * (h * (d + 1) + GATHERED)


def looking_up_pays(b: int, t: int, c: int) -> bool:
    """Whether looking up queries, keys and values costs less than forming them; t tokens are turned."""
    return t <= b and 3 * GATHERED + 2 * TURNED * t / b < 3 * c
