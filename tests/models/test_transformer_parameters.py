"""How many parameters a transformer has, and what is drawn for them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import (
    from_x_transformers,
)
from scipy import stats
from torch import Tensor
from transformer_paths import ALL_TRAINED, transformers, x_transformers
from x_transformers import Decoder, TransformerWrapper

from capax.models.transformer import TransformerEnsemble
from capax.specs import Transformer

# parameter counts


def counts(spec: Transformer, vocab_size: int, context: int) -> dict[str, int]:
    generators = [torch.Generator().manual_seed(member) for member in range(2)]
    return TransformerEnsemble.initialize(
        spec, {"vocab_size": vocab_size, "context": context}, generators=generators
    ).parameter_counts()


@pytest.mark.parametrize(
    ("n_heads", "d_model", "trainable"),
    [
        (1, 16, 6_272),
        (2, 16, 10_368),
        (1, 32, 16_640),
        (1, 64, 49_664),
        (1, 128, 164_864),
        (1, 256, 591_872),
        (1, 512, 2_232_320),
        (4, 512, 2_625_536),
        (1, 1024, 8_658_944),
    ],
)
def test_trainable_parameters_of_the_papers_network(n_heads: int, d_model: int, trainable: int) -> None:
    spec = Transformer(n_heads=n_heads, d_model=d_model, positions="frozen")
    assert counts(spec, vocab_size=2, context=1)["trainable"] == trainable


@settings(derandomize=True, max_examples=40, deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 12), st.integers(2, 20), st.integers(2, 9))
def test_counts_are_the_closed_form(n_layers: int, n_heads: int, d_model: int, vocab_size: int, seq_len: int) -> None:
    n, b = seq_len - 1, d_model
    closed = n_layers * (8 * b**2 + 256 * n_heads * b + 7 * b) + b
    total = 2 * vocab_size * b + n * b + closed
    spec = Transformer(n_layers=n_layers, n_heads=n_heads, d_model=d_model)
    assert counts(spec, vocab_size, n) == {"trainable": closed + n * b, "total": total}
    assert counts(spec.replace(positions="frozen"), vocab_size, n) == {"trainable": closed, "total": total}
    assert counts(spec.replace(**ALL_TRAINED), vocab_size, n) == {"trainable": total, "total": total}


@settings(derandomize=True, max_examples=60, deadline=None)
@given(spec=transformers(), vocab_size=st.integers(2, 9), context=st.integers(1, 6))
def test_counts_of_any_fields(spec: Transformer, vocab_size: int, context: int) -> None:
    b, h, d, g = spec.d_model, spec.n_heads, spec.d_head, spec.n_kv_heads or spec.n_heads
    v = d if spec.d_value is None else spec.d_value
    heads = (h + g) * b * (d + (v if spec.values else 0))
    gates = {"softmax": 0, "linear": 0, "delta": b * g, "gated-delta": 2 * b * g + 2 * g}[spec.attention]
    mlp = spec.n_experts * (8 * b**2 + 5 * b + (4 * b**2 + 4 * b if spec.gated else 0)) if spec.ffn == "mlp" else 0
    router = b * spec.n_experts if spec.n_experts > 1 else 0
    heads, mlp = heads + gates, mlp + router
    norms = b * ((spec.ffn != "none") + 1) if spec.norms else 0
    final = b if spec.norms and spec.norm_place == "pre" else 0
    tables = {"embeddings": vocab_size * b}
    if spec.positions in ("trained", "frozen", "sinusoidal"):
        tables["positions"] = context * b
    if spec.readout != "tied":
        tables["readout"] = vocab_size * b
    network = spec.n_layers * (heads + mlp + norms) + final
    assert counts(spec, vocab_size, context) == {
        "trainable": network + sum(size for name, size in tables.items() if getattr(spec, name) == "trained"),
        "total": network + sum(tables.values()),
    }


@pytest.mark.parametrize(("n_layers", "n_heads", "d_model"), [(1, 1, 16), (2, 3, 24)])
def test_as_many_parameters_as_x_transformers(n_layers: int, n_heads: int, d_model: int) -> None:
    spec = Transformer(n_layers=n_layers, n_heads=n_heads, d_model=d_model)
    theirs = x_transformers(spec, 20, 7, torch.float32)
    assert counts(spec, 20, 7)["total"] == sum(p.numel() for p in theirs.parameters())


# initial weights


def initial(spec: Transformer, seeds: list[int], **sizes: int) -> dict[str, Tensor]:
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    ensemble = TransformerEnsemble.initialize(spec, {"vocab_size": 500, "context": 300} | sizes, generators=generators)
    return {name: p.detach() for name, p in ensemble.parameters.items()}


def test_initial_distributions() -> None:
    b, h, d, v = 48, 3, 40, 24
    drawn = initial(Transformer(n_heads=h, d_model=b, d_head=d, d_value=v), seeds=[0, 1])
    bounds = {"query": b, "key": b, "value": b, "out": h * v, "up": b, "up_bias": b, "down": 4 * b, "down_bias": 4 * b}
    expected: dict[str, Any] = {
        "token": stats.norm(0, math.sqrt(2 / b)),
        "position": stats.norm(0, 1),
        "readout": stats.uniform(-1 / math.sqrt(b), 2 / math.sqrt(b)),
        **{
            f"layers.0.{name}": stats.uniform(-1 / math.sqrt(fan_in), 2 / math.sqrt(fan_in))
            for name, fan_in in bounds.items()
        },
    }
    for name, distribution in expected.items():
        numbers = drawn[name].double().flatten().numpy()
        assert stats.kstest(numbers, distribution.cdf).pvalue > 1e-3, name
        spread = distribution.std() * math.sqrt(distribution.stats("k") + 2) / 2 / math.sqrt(len(numbers))
        assert abs(numbers.std() - distribution.std()) < 4 * spread, name
        assert abs(numbers.mean()) < 4 * distribution.std() / math.sqrt(len(numbers)), name
        low, high = distribution.support()
        assert low * 1.000001 <= numbers.min(), name
        assert numbers.max() <= high * 1.000001, name
    gains = {name for name in drawn if name.endswith("norm")}
    assert gains == {"layers.0.norm", "layers.0.ffn_norm", "final_norm"}
    assert all((drawn[name] == 1).all() for name in gains)
    assert drawn.keys() == expected.keys() | gains


def test_initial_distributions_are_those_of_x_transformers() -> None:
    spec = Transformer(n_layers=2, n_heads=2, d_model=32)
    ours = initial(spec, seeds=[0], vocab_size=200, context=100)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        decoder = Decoder(dim=32, depth=2, heads=2)
        theirs = TransformerWrapper(num_tokens=200, max_seq_len=100, attn_layers=decoder).state_dict()
    for name, tensor in from_x_transformers(theirs, spec, gain="gamma", gain_offset=1.0).items():
        assert stats.ks_2samp(ours[name].flatten(), tensor.flatten()).pvalue > 1e-3, name
        assert ours[name][0].shape == tensor.shape, name


def test_precision_rounds_the_same_draw() -> None:
    spec = Transformer(d_model=8, d_head=4)
    single, double = (
        TransformerEnsemble.initialize(
            spec, {"vocab_size": 9, "context": 5}, generators=[torch.Generator().manual_seed(1)], dtype=dtype
        ).parameters
        for dtype in (torch.float32, torch.float64)
    )
    assert all(torch.equal(single[name].double(), tensor) for name, tensor in double.items())
