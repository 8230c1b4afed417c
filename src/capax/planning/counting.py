"""The parameters of a Hugging Face model: all of them, those that a token uses, and those that a law counts."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, NamedTuple

from pydantic import Field
from torch import nn

from capax.errors import SpecError
from capax.models.hf_config import told
from capax.results import Result
from capax.specs.effective import spare_in_products

EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "num_moe_experts")
CHOSEN = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k", "top_k_experts")
EMPTY = "zero_expert_num"
"""Fields of configs: how many experts there are, how many of them a token uses, and how many of these do nothing."""
ROUTES = re.compile(r"Expert|MoE$|MoeBlock|MoEBlock|SparseMoe|MoeLayer|MOE|Router")
"""In names of classes that send a token to some of several experts."""
UNLIKE = ("qk_layernorm", "add_cross_attention")
"""Fields that make a model of a plain family another one."""


class Plain(NamedTuple):
    """A family of transformers of the kind that the law was fitted to: attention and an FFN in every block.

    Attributes:
        rotary: whether positions turn queries and keys.
        gated: whether hidden channels of the FFN are multiplied by others.
    """

    rotary: bool
    gated: bool


PLAIN = {
    "gpt2": Plain(rotary=False, gated=False),
    "phi": Plain(rotary=True, gated=False),
    **dict.fromkeys(("llama", "mistral", "qwen2", "gemma", "gemma2", "phi3"), Plain(rotary=True, gated=True)),
}


class Counts(Result):
    """Parameters of a model, each tensor counted once, however many layers share it."""

    total: int
    active: Annotated[
        int | None, Field(description="That a token uses: all but the experts that it is not sent to; None: not known.")
    ]
    effective: Annotated[
        int,
        Field(
            description="As the law counts: W_Q W_Kᵀ and W_V W_O by the freedom of the product, and a gated FFN "
            "without the scale of its channels (docs/capacity.md); what norms take back, about two in a width, and "
            "a rotation of the whole stream are counted. Equal to total where the family is no plain one."
        ),
    ]
    plain: Annotated[bool, Field(description="Whether it is of a family of plain transformers: `effective` is known.")]
    embedding: Annotated[int, Field(description="Of tables of tokens and positions, and of the read-out.")]
    embedding_share: float
    tied: Annotated[bool, Field(description="Whether the read-out is the token table.")]
    multiplied: Annotated[
        int | None,
        Field(description="Of the active ones those that are multiplied: tables that are looked up are not."),
    ]
    experts: Annotated[int | None, Field(description="Experts of a block; None where it has none.")]
    experts_per_token: int | None


class Shape(Result):
    """The sizes that a config names; None where it has none of that name."""

    n_layers: int | None
    n_heads: int | None
    n_kv_heads: int | None
    d_head: int | None
    d_model: int | None
    vocab_size: int | None


def shape(config: Any) -> Shape:
    """The sizes of a config of transformers (of its language model, where it has several parts)."""
    text = config.get_text_config()
    heads, width = _first(text, "num_attention_heads"), _first(text, "hidden_size")
    whole = width // heads if heads and width else None
    return Shape(
        n_layers=_first(text, "num_hidden_layers"),
        n_heads=heads,
        n_kv_heads=heads and (_groups(text) or heads),
        d_head=heads and (_first(text, "qk_head_dim", "head_dim") or whole),
        d_model=width,
        vocab_size=_first(text, "vocab_size"),
    )


def positions(config: Any) -> int | None:
    """The most tokens that a config has positions for; None where it does not say."""
    return _first(config.get_text_config(), "max_position_embeddings", "n_positions")


def _groups(text: Any) -> int | None:
    """Heads of keys and values; Falcon has its own names for them, and of its older kind one or all."""
    if told(text, "multi_query") is True and not told(text, "new_decoder_architecture"):
        return 1
    older = told(text, "new_decoder_architecture") is False
    return _first(text, "num_key_value_heads", *(() if older else ("num_kv_heads",)))


def count(model: Any, config: Any, kind: str) -> Counts:
    """The parameters of a model of transformers.

    Args:
        model: on any device, the meta device too.
        config: its own.
        kind: its `model_type`.
    """
    own = {id(tensor): tensor.numel() for tensor in model.parameters()}  # each once: tied weights are one tensor
    total, readout = sum(own.values()), _readout(model)
    looked_up = {id(one.weight) for one in model.modules() if isinstance(one, nn.Embedding)}
    tables = looked_up | ({id(readout)} if readout is not None else set())
    tied = readout is not None and id(readout) in looked_up
    experts, chosen, routed = _experts(model, config)
    idle: int | None = None if routed else 0
    if experts is not None:
        known = chosen is not None and routed > 0 and not routed * (experts - chosen) % experts
        idle = routed * (experts - chosen) // experts if known and chosen is not None else None
    active = None if idle is None else total - idle
    embedding = sum(own[one] for one in tables if one in own)
    free = sum(own[one] for one in looked_up if one in own and not (tied and one == id(readout)))
    odd = any(told(config.get_text_config(), name) for name in UNLIKE)
    family = None if odd else PLAIN.get(kind)
    return Counts(
        total=total,
        active=active,
        effective=total if family is None else total - _spare(config, family),
        plain=family is not None,
        embedding=embedding,
        embedding_share=embedding / total if total else 0.0,
        tied=tied,
        multiplied=None if active is None else active - free,
        experts=experts,
        experts_per_token=chosen if experts is not None else None,
    )


def _readout(model: Any) -> Any:
    """The matrix of the read-out; None where a model has none of its own."""
    found = model.get_output_embeddings()
    return getattr(found, "weight", None)


def _experts(model: Any, config: Any) -> tuple[int | None, int | None, int]:
    """Experts of a block, those that a token uses, and the parameters of all of them together."""
    from transformers import PreTrainedConfig  # of an extra, which the command's help must do without

    text = config.get_text_config()
    parts = [text, *(part for part in vars(text).values() if isinstance(part, PreTrainedConfig))]
    experts = next((n for part in parts if (n := _first(part, *EXPERTS)) is not None), None)
    found: dict[int, int] = {}
    routes = False
    for name, module in model.named_modules():
        last, kind = name.rpartition(".")[2], type(module).__name__
        if last == "experts" or (kind.endswith("Experts") and not last.startswith("shared")):
            found |= {id(tensor): tensor.numel() for tensor in module.parameters()}
        routes = routes or ROUTES.search(kind) is not None
    if experts is not None and (experts < 2 or not (found or routes)):  # a config may name experts and use none
        return None, None, 0
    if experts is None:
        return None, None, sum(found.values())
    chosen = None if _first(text, EMPTY) else next((n for part in parts if (n := _first(part, *CHOSEN))), None)
    if chosen is not None and chosen > experts:
        raise SpecError(f"config: {experts} experts of a block at most for a token, got {chosen}")
    return experts, chosen, sum(found.values())


def _spare(config: Any, family: Plain) -> int:
    """Parameters that say nothing more, of all layers, as `Transformer.product_parameters` counts them.

    Of a head positions may turn only some channels (`partial_rotary_factor`). Biases and gains count as they are.
    """
    text, sizes = config.get_text_config(), shape(config)
    layers, heads, groups, head, width = sizes.n_layers, sizes.n_heads, sizes.n_kv_heads, sizes.d_head, sizes.d_model
    if not (layers and heads and groups and head and width):  # of a config without channels
        return 0
    turned = int(head * (_rotary_share(text) if family.rotary else 0.0))
    gated = _first(text, "intermediate_size") or 0 if family.gated else 0
    return layers * spare_in_products(width, heads, groups, head, d_value=head, turned=turned, gated=gated)


def _rotary_share(text: Any) -> float:
    said = getattr(text, "rope_parameters", None)
    found = said.get("partial_rotary_factor") if isinstance(said, dict) else None
    found = getattr(text, "partial_rotary_factor", None) if found is None else found
    share = 1.0 if found is None else float(found)
    return share if math.isfinite(share) and 0 <= share <= 1 else 1.0


def _first(config: Any, *names: str) -> int | None:
    """The first of some fields that a config has, where it is an integer."""
    values = (told(config, name) for name in names)
    return next((value for value in values if isinstance(value, int) and not isinstance(value, bool)), None)
