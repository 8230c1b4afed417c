"""Plain computations that the ensemble of transformers is compared with: one member at a time, one head at a time."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from capax.models.transformer import TransformerEnsemble
from capax.specs import Transformer

Member = dict[str, Tensor]


def activated(x: Tensor, activation: str) -> Tensor:
    if activation == "relu":
        return x * (x > 0)
    if activation == "silu":
        return x / (1 + torch.exp(-x))
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

    n = tokens.shape[1]
    x = member["token"][tokens]
    if "position" in member:
        x = x + member["position"] / math.sqrt(spec.d_model)
    back = torch.arange(n)[:, None] - torch.arange(n)[None, :]
    unseen = (back < 0) | (back >= (spec.window or n))
    for layer in range(spec.n_layers):
        at = f"layers.{layer}."
        y = norm(x, at + "norm")
        mixed = torch.zeros_like(x)
        for head in range(spec.n_heads):
            group = head * spec.kv_heads // spec.n_heads
            query, out = (member[at + name][head] for name in ("query", "out"))
            key, value = (member[at + name][group] for name in ("key", "value"))
            if spec.positions == "rotary":
                scores = torch.einsum("bid,ijde,bje->bij", y @ query, rotations(back, spec.d_head), y @ key)
            else:
                scores = torch.einsum("bic,cd,ed,bje->bij", y, query, key, y)
            scores = scores / math.sqrt(spec.d_head)
            if spec.positions == "alibi":
                scores = scores - slope(head, spec.n_heads) * back
            attention = torch.exp(scores.masked_fill(unseen, -math.inf))
            attention = attention / attention.sum(-1, keepdim=True)
            mixed = mixed + torch.einsum("bij,bjc,cv,vo->bio", attention, y, value, out)
        x = x + mixed if spec.skips else mixed
        if spec.ffn != "none":
            y = norm(x, at + "ffn_norm")
            if spec.ffn == "mlp":
                hidden = y @ member[at + "up"] + member[at + "up_bias"]
                gate = y @ member[at + "gate"] + member[at + "gate_bias"] if spec.gated else hidden
                hidden = activated(gate, spec.activation) * (hidden if spec.gated else 1)
                y = hidden @ member[at + "down"] + member[at + "down_bias"]
            x = x + y if spec.skips else y
    return norm(x, "final_norm") @ member["token" if spec.readout == "tied" else "readout"].T


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
        "final_norm": tensors[f"attn_layers.final_norm.{gain}"] + gain_offset,
        "readout": tensors["to_logits.weight"],
    }
    for layer in range(spec.n_layers):
        attention, ffn = (f"attn_layers.layers.{2 * layer + part}" for part in (0, 1))
        member |= {
            f"layers.{layer}.{name}": tensor
            for name, tensor in {
                "norm": tensors[f"{attention}.0.0.{gain}"] + gain_offset,
                "query": heads_first(tensors[f"{attention}.1.to_q.weight"], h)[order],
                "key": heads_first(tensors[f"{attention}.1.to_k.weight"], spec.kv_heads),
                "value": heads_first(tensors[f"{attention}.1.to_v.weight"], spec.kv_heads),
                "out": tensors[f"{attention}.1.to_out.weight"].T.reshape(h, -1, spec.d_model)[order],
                "ffn_norm": tensors[f"{ffn}.0.0.{gain}"] + gain_offset,
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


def assert_same(received: Tensor, expected: Tensor, tolerance: float, what: str) -> None:
    """Equal up to `tolerance` of the largest expected number (at least 1e-3: rounding is not relative to zero)."""
    assert received.shape == expected.shape, what
    difference = (received - expected).abs().max().item()
    scale = max(expected.abs().max().item(), 1e-3)
    assert difference <= tolerance * scale, f"{what}: differs by {difference:.3g}, largest number {scale:.3g}"
