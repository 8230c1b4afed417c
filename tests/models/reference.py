"""Plain computations that the ensemble of transformers is compared with: one member at a time, one head at a time."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from capax.models.transformer import TransformerEnsemble
from capax.specs import Transformer
from capax.testing.trained import assert_same as assert_same

Member = dict[str, Tensor]


def activated(x: Tensor, activation: str) -> Tensor:
    if activation == "relu":
        return x * (x > 0)
    if activation == "silu":
        return x / (1 + torch.exp(-x))
    if activation == "rrelu":
        return torch.where(x < 0, x * 11 / 48, x)
    if activation == "softmax":
        return torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def plain_logits(spec: Transformer, member: Member, tokens: Tensor) -> Tensor:
    """Next-token scores `(b, n, t)` of one member at every position of its sequences `(b, n)`."""

    def norm(x: Tensor, gain: str) -> Tensor:
        if not spec.norms:
            return x
        if spec.norm == "rms":
            return x / torch.sqrt((x**2).mean(-1, keepdim=True) + torch.finfo(x.dtype).eps) * member[gain]
        centred = x - x.mean(-1, keepdim=True)
        return centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + 1e-5) * member[gain]

    x = member["token"][tokens]
    if "position" in member:
        x = x + member["position"] / math.sqrt(spec.d_model)
    post = spec.norm_place == "post"
    for layer in range(spec.n_layers):
        at = f"layers.{layer}."

        def added(x: Tensor, y: Tensor, gain: str) -> Tensor:
            x = x + y if spec.skips else y
            return norm(x, gain) if post else x

        mixed = plain_mixed(spec, member, at, x if post else norm(x, at + "norm"))
        if spec.parallel:
            x = x + mixed + plain_feed_forward(spec, member, at, norm(x, at + "ffn_norm"))
            continue
        x = added(x, mixed, at + "norm")
        if spec.ffn != "none":
            x = added(x, plain_feed_forward(spec, member, at, x if post else norm(x, at + "ffn_norm")), at + "ffn_norm")
    return (x if post else norm(x, "final_norm")) @ member["token" if spec.readout == "tied" else "readout"].T


def plain_mixed(spec: Transformer, member: Member, at: str, y: Tensor) -> Tensor:
    """What attention makes of its inputs `(b, n, c)`, head by head."""
    n = y.shape[1]
    back = torch.arange(n)[:, None] - torch.arange(n)[None, :]
    unseen = (back < 0) | (back >= (spec.window or spec.stride or n))
    if spec.stride:
        unseen &= (back < 0) | (back % spec.stride > 0)
    mixed = torch.zeros_like(y)
    for head in range(spec.n_heads):
        group = head * spec.kv_heads // spec.n_heads
        query, key = member[at + "query"][head], member[at + "key"][group]
        value = member[at + "value"][group] if spec.values else torch.eye(spec.d_model, dtype=y.dtype)
        out = member[at + "out"][head] if spec.values else value / spec.n_heads
        asked, keys = y @ query, y @ key
        if spec.positions == "rotary" and spec.attention != "softmax":
            first = torch.arange(n)[:, None] - torch.zeros(n, dtype=torch.long)
            asked, keys = (torch.einsum("bie,ide->bid", x, rotations(-first, spec.d_head)[:, 0]) for x in (asked, keys))
        if spec.attention != "softmax":
            mixed = mixed + plain_state(spec, member, at, group, asked, keys, y @ value, y) @ out
            continue
        if spec.positions == "rotary":
            scores = torch.einsum("bid,ijde,bje->bij", asked, rotations(back, spec.d_head), keys)
        else:
            scores = torch.einsum("bic,cd,ed,bje->bij", y, query, key, y)
        scores = scores / math.sqrt(spec.d_head)
        if spec.positions == "alibi":
            scores = scores - slope(head, spec.n_heads) * back
        attention = torch.exp(scores.masked_fill(unseen, -math.inf))
        attention = attention / attention.sum(-1, keepdim=True)
        mixed = mixed + torch.einsum("bij,bjc,cv,vo->bio", attention, y, value, out)
    return mixed


def plain_state(
    spec: Transformer, member: Member, at: str, group: int, asked: Tensor, keys: Tensor, values: Tensor, y: Tensor
) -> Tensor:
    """What a head reads of its state `(b, d, v)`, position by position; a matrix times the state, then a sum."""
    b, n, d = keys.shape
    if spec.attention == "linear":
        asked, keys = (torch.where(x > 0, x + 1, torch.exp(x)) for x in (asked, keys))
    else:
        asked, keys = (x / torch.sqrt((x**2).sum(-1, keepdim=True) + 1e-6) for x in (asked, keys))
    state, weight, read = torch.zeros(b, d, values.shape[-1], dtype=y.dtype), torch.zeros(b, d, dtype=y.dtype), []
    for place in range(n):
        key, value, query = keys[:, place], values[:, place], asked[:, place]
        if spec.attention == "linear":
            state = state + torch.einsum("bd,bv->bdv", key, value)
            weight = weight + key
            read.append(torch.einsum("bd,bdv->bv", query, state) / torch.einsum("bd,bd->b", query, weight)[:, None])
            continue
        rate = 1 / (1 + torch.exp(-y[:, place] @ member[at + "rate"][:, group]))
        if spec.attention == "gated-delta":
            speed = torch.log(
                1 + torch.exp(y[:, place] @ member[at + "decay"][:, group] + member[at + "decay_bias"][group])
            )
            state = state * torch.exp(-torch.exp(member[at + "decay_scale"][group]) * speed)[:, None, None]
        erased = torch.eye(d, dtype=y.dtype) - rate[:, None, None] * torch.einsum("bd,be->bde", key, key)
        state = erased @ state + rate[:, None, None] * torch.einsum("bd,bv->bdv", key, value)
        read.append(torch.einsum("bd,bdv->bv", query, state) / math.sqrt(d))
    return torch.stack(read, 1)


def plain_feed_forward(spec: Transformer, member: Member, at: str, y: Tensor) -> Tensor:
    """What the FFN makes of its inputs `(b, n, c)`: each expert alone, weighted by the router's softmax."""
    if spec.ffn == "identity":
        return y

    def expert(number: int) -> Tensor:
        own = {
            name.removeprefix(at): tensor if spec.n_experts == 1 else tensor[number]
            for name, tensor in member.items()
            if name.startswith((at + "up", at + "gate", at + "down"))
        }
        hidden = y @ own["up"] + own["up_bias"]
        gate = y @ own["gate"] + own["gate_bias"] if spec.gated else hidden
        hidden = activated(gate, spec.activation) * (hidden if spec.gated else 1)
        return hidden @ own["down"] + own["down_bias"]

    if spec.n_experts == 1:
        return expert(0)
    chances = torch.exp(y @ member[at + "router"])
    chances = chances / chances.sum(-1, keepdim=True)
    smallest = chances.sort(-1, descending=True).values[..., spec.top_k - 1, None]
    chosen = torch.where(chances >= smallest, chances, 0.0)
    return torch.stack([chosen[..., one, None] * expert(one) for one in range(spec.n_experts)]).sum(0)


def rotations(back: Tensor, channels: int) -> Tensor:
    """What turns a key `(n, n, d, d)` by how far `(n, n)` a query lies behind it, as blocks of 2 × 2."""
    found = torch.zeros(*back.shape, channels, channels, dtype=torch.float64)
    for pair in range(channels // 2):
        angle = back.double() * 10_000 ** (-2 * pair / channels)
        cosine, sine = torch.cos(angle), torch.sin(angle)
        at = 2 * pair
        found[..., at, at], found[..., at, at + 1] = cosine, sine
        found[..., at + 1, at], found[..., at + 1, at + 1] = -sine, cosine
    return found


def slope(head: int, heads: int) -> float:
    """ALiBi's, as the paper's code has it: those of the power of two below, then every other of the one above."""
    below = 1
    while 2 * below <= heads:
        below *= 2
    return 2 ** (-8 * (head + 1) / below) if head < below else 2 ** (-8 * (2 * (head - below) + 1) / (2 * below))


def plain_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean over sequences and positions of −log p(target)."""
    chosen = logits.gather(-1, targets[..., None])[..., 0]
    return (torch.logsumexp(logits, -1) - chosen).mean()


def members_of(ensemble: TransformerEnsemble) -> list[Member]:
    """Each member's tensors as leaves of their own."""
    return [
        {name: p[e].detach().clone().requires_grad_(p.requires_grad) for name, p in ensemble.parameters.items()}
        for e in range(ensemble.n_members)
    ]


def randomized(
    spec: Transformer, *, vocab_size: int, context: int, members: int, seed: int, dtype: torch.dtype = torch.float64
) -> TransformerEnsemble:
    """An ensemble with nothing at its initial value: gains around 1 and every other tensor perturbed too."""
    generators = [torch.Generator().manual_seed(seed + member) for member in range(members)]
    ensemble = TransformerEnsemble.initialize(
        spec, {"vocab_size": vocab_size, "context": context}, generators=generators, dtype=dtype
    )
    generator = torch.Generator().manual_seed(seed)
    for parameter in ensemble.parameters.values():
        noise = torch.randn(parameter.shape, generator=generator, dtype=dtype)
        parameter.data += 0.3 * noise
    return ensemble


def random_tokens(members: int, sequences: int, seq_len: int, vocab_size: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocab_size, (members, sequences, seq_len), generator=generator)


def from_x_transformers(tensors: dict[str, Tensor], spec: Transformer, *, gain: str, gain_offset: float) -> Member:
    """x-transformers' tensors (weights, or their gradients with `gain_offset` 0) under capax's names and layout.

    Args:
        gain: last part of a norm's name: `gamma`, or `weight` in the paper's time.
        gain_offset: what the stored gain lacks (1 where it is stored as gain − 1).
    """
    h = spec.n_heads
    # its queries take keys in turn, ours one after the other: heads are in another order
    order = [head for group in range(spec.kv_heads) for head in range(group, h, spec.kv_heads)]

    def heads_first(weight: Tensor, heads: int) -> Tensor:
        return weight.view(heads, -1, spec.d_model).mT

    member = {
        "token": tensors["token_emb.emb.weight"],
        **({"position": tensors["pos_emb.emb.weight"]} if spec.has_table else {}),
        "readout": tensors["to_logits.weight"],
    }
    place = {"pre": 0, "post": 2}[spec.norm_place]
    if spec.norm_place == "pre":
        member["final_norm"] = tensors[f"attn_layers.final_norm.{gain}"] + gain_offset
    for layer in range(spec.n_layers):
        attention, ffn = (f"attn_layers.layers.{2 * layer + part}" for part in (0, 1))
        member |= {
            f"layers.{layer}.{name}": tensor
            for name, tensor in {
                "norm": tensors[f"{attention}.0.{place}.{gain}"] + gain_offset,
                "query": heads_first(tensors[f"{attention}.1.to_q.weight"], h)[order],
                "key": heads_first(tensors[f"{attention}.1.to_k.weight"], spec.kv_heads),
                "value": heads_first(tensors[f"{attention}.1.to_v.weight"], spec.kv_heads),
                "out": tensors[f"{attention}.1.to_out.weight"].T.reshape(h, -1, spec.d_model)[order],
                "ffn_norm": tensors[f"{ffn}.0.{place}.{gain}"] + gain_offset,
                **hidden(tensors, f"{ffn}.1.ff.0", spec),
                "down": tensors[f"{ffn}.1.ff.2.weight"].T,
                "down_bias": tensors[f"{ffn}.1.ff.2.bias"],
            }.items()
        }
    return member


def hidden(tensors: dict[str, Tensor], at: str, spec: Transformer) -> Member:
    """The FFN's first matrix; where it is gated, what is gated and then the gate."""
    if not spec.gated:
        return {"up": tensors[f"{at}.0.weight"].T, "up_bias": tensors[f"{at}.0.bias"]}
    up, gate = tensors[f"{at}.proj.weight"].T.chunk(2, -1)
    up_bias, gate_bias = tensors[f"{at}.proj.bias"].chunk(2)
    return {"up": up, "up_bias": up_bias, "gate": gate, "gate_bias": gate_bias}


def stacked(spec: Transformer, members: list[Member]) -> TransformerEnsemble:
    """An ensemble of given members that trains every tensor."""
    names = members[0].keys()
    parameters = {n: torch.stack([member[n] for member in members]).detach().requires_grad_() for n in names}
    return TransformerEnsemble(spec, parameters)
