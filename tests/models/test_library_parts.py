"""Parts of the transformer against Hugging Face's: the delta rules, a router's experts, blocks in parallel."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from reference import assert_same, random_tokens, randomized
from torch import Tensor
from versions import pinned

from capax.models.feed_forward import feed_forward
from capax.specs import Transformer
from capax.testing.mixers import mixer_of, random

pytest.importorskip("transformers")
NEWEST = pytest.mark.skipif(not pinned("transformers"), reason="functions inside transformers, which change")


@NEWEST
@pytest.mark.parametrize("attention", ["delta", "gated-delta"])
def test_the_delta_rule_is_that_of_qwen3_next(attention: str) -> None:
    """In single precision, as theirs is."""
    from transformers.models.qwen3_next.modeling_qwen3_next import torch_recurrent_gated_delta_rule

    spec = Transformer(attention=attention, n_heads=3, d_model=6, d_head=4, d_value=5)
    mixer: Any = mixer_of(spec)
    x = random(2, 7, 9, 6).detach()
    query, key, value = (part.flatten(0, 1).transpose(1, 2) for part in mixer.heads(x))
    kept, rate = (part.flatten(0, 1).transpose(1, 2) for part in (mixer.log_kept(x), mixer.rate(x)))
    read, _ = torch_recurrent_gated_delta_rule(query, key, value, kept, rate, use_qk_l2norm_in_kernel=True)
    expected = mixer.joined(read.transpose(1, 2).unflatten(0, (2, 7)).to(x.dtype))
    for name, found in {"definition": mixer.definition(x), "all queries": mixer.all_queries(x)}.items():
        assert_same(found, expected, 3e-6, name)


@pytest.mark.parametrize("top_k", [1, 2, 4])
def test_experts_are_those_of_olmoe(top_k: int) -> None:
    from transformers.models.olmoe import OlmoeConfig
    from transformers.models.olmoe.modeling_olmoe import OlmoeSparseMoeBlock

    config = OlmoeConfig(
        hidden_size=6, intermediate_size=24, num_experts=4, num_experts_per_tok=top_k, norm_topk_prob=False
    )
    config._experts_implementation = "eager"
    theirs = OlmoeSparseMoeBlock(config).double()
    generator = torch.Generator().manual_seed(0)
    for parameter in theirs.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    gate, up = theirs.experts.gate_up_proj.mT.chunk(2, -1)
    weights = {"router": theirs.gate.weight.T, "up": up, "gate": gate, "down": theirs.experts.down_proj.mT}
    weights |= {f"{name}_bias": torch.zeros(4, weights[name].shape[-1]).double() for name in ("up", "gate", "down")}
    spec = Transformer(d_model=6, n_experts=4, top_k=top_k, gated=True, activation="silu")
    y = random(1, 5, 7, 6).detach()
    found = feed_forward(y, spec, {name: weight[None] for name, weight in weights.items()}, None)
    assert_same(found[0], theirs(y[0]), 1e-6, "experts")  # their softmax is in single precision


@NEWEST
def test_blocks_in_parallel_are_those_of_gpt_neox() -> None:
    """Logits and the number of parameters, where its biases are 0."""
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    spec = Transformer(
        n_layers=2,
        n_heads=2,
        d_model=8,
        d_head=4,
        positions="none",
        parallel=True,
        embeddings="trained",
        readout="trained",
    )
    member = {
        name: tensor[0].detach()
        for name, tensor in randomized(spec, vocab_size=9, context=7, members=1, seed=2).parameters.items()
    }
    unturned = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.0}
    config = GPTNeoXConfig(
        vocab_size=9, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=16, tie_word_embeddings=False, rope_parameters=unturned,
    )  # fmt: skip
    config._attn_implementation = "eager"
    with torch.random.fork_rng():
        theirs = GPTNeoXForCausalLM(config).double().eval()
    state: dict[str, Tensor] = {name: torch.zeros_like(tensor) for name, tensor in theirs.state_dict().items()}
    state |= {"gpt_neox.embed_in.weight": member["token"], "lm_head.weight": member["readout"]}
    state["gpt_neox.final_layer_norm.weight"] = member["final_norm"]
    for layer in range(2):
        at, own = f"gpt_neox.layers.{layer}", {n: member[f"layers.{layer}.{n}"] for n in ("query", "key", "value")}
        joined = torch.stack([own[name].mT for name in ("query", "key", "value")], 1)  # heads, of each all three
        state |= {
            f"{at}.input_layernorm.weight": member[f"layers.{layer}.norm"],
            f"{at}.post_attention_layernorm.weight": member[f"layers.{layer}.ffn_norm"],
            f"{at}.attention.query_key_value.weight": joined.reshape(-1, 8),
            f"{at}.attention.dense.weight": member[f"layers.{layer}.out"].flatten(0, 1).T,
            f"{at}.mlp.dense_h_to_4h.weight": member[f"layers.{layer}.up"].T,
            f"{at}.mlp.dense_h_to_4h.bias": member[f"layers.{layer}.up_bias"],
            f"{at}.mlp.dense_4h_to_h.weight": member[f"layers.{layer}.down"].T,
            f"{at}.mlp.dense_4h_to_h.bias": member[f"layers.{layer}.down_bias"],
        }
    theirs.load_state_dict(state)
    tokens = random_tokens(1, 5, 7, 9, seed=1)
    ours = randomized(spec, vocab_size=9, context=7, members=1, seed=2)
    assert_same(ours.logits(tokens)[0], theirs(tokens[0]).logits, 3e-6, "logits")
