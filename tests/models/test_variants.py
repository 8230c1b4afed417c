"""Options of the transformer: each against x-transformers' own, with exact counts; what cannot be is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from reference import assert_same, from_x_transformers, random_tokens, randomized, stacked
from torch import Tensor
from x_transformers import Decoder, TransformerWrapper

from capax.errors import SpecError
from capax.models.mixers import mixer, recurrent
from capax.specs import Transformer

SHAPE: dict[str, Any] = {"n_layers": 2, "n_heads": 4, "d_model": 8, "d_head": 4}
ALL: dict[str, Any] = {"embeddings": "trained", "readout": "trained"}
VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "no positions": ({"positions": "none"}, {}),
    "rotary": ({"positions": "rotary"}, {"rotary_pos_emb": True, "rotary_emb_dim": 4}),
    "alibi": ({"positions": "alibi"}, {"alibi_pos_bias": True, "alibi_num_heads": 4}),
    "alibi of six heads": ({"positions": "alibi", "n_heads": 6}, {"alibi_pos_bias": True, "alibi_num_heads": 6}),
    "grouped": ({"n_kv_heads": 2}, {"attn_kv_heads": 2}),
    "one key": ({"n_kv_heads": 1}, {"attn_kv_heads": 1}),
    "window": ({"window": 3}, {"attn_max_attend_past": 2}),
    "GEGLU": ({"gated": True}, {"ff_glu": True}),
    "SwiGLU": ({"gated": True, "activation": "silu"}, {"ff_glu": True, "ff_swish": True}),
    "RMS norm": ({"norm": "rms"}, {"use_rmsnorm": True}),
    "norms after": ({"norm_place": "post"}, {"pre_norm": False}),
    "most of today": (
        {"positions": "rotary", "n_kv_heads": 2, "gated": True, "activation": "silu", "norm": "rms"},
        {"rotary_pos_emb": True, "rotary_emb_dim": 4, "attn_kv_heads": 2, "ff_glu": True, "ff_swish": True}
        | {"use_rmsnorm": True},
    ),
}


def theirs(spec: Transformer, options: dict[str, Any]) -> Any:
    """x-transformers' model, with nothing at its initial value."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        decoder = Decoder(
            dim=spec.d_model,
            depth=spec.n_layers,
            heads=spec.n_heads,
            attn_dim_head=spec.d_head,
            attn_project_out=True,
            **options,
        )
        model = TransformerWrapper(num_tokens=9, max_seq_len=7, use_abs_pos_emb=spec.has_table, attn_layers=decoder)
        model = model.double()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.3 * torch.randn_like(parameter)
    return model


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", VARIANTS)
def test_it_is_the_option_of_x_transformers(name: str) -> None:
    """Scores, gradients and the number of parameters; its softmax is in single precision."""
    ours, options = VARIANTS[name]
    spec, model = Transformer(**{**SHAPE, **ALL, **ours}), theirs(Transformer(**{**SHAPE, **ours}), options)
    gain = "g" if spec.norm == "rms" else "gamma"
    tensors = from_x_transformers(model.state_dict(), spec, gain=gain, gain_offset=1.0)
    ensemble = stacked(spec, [tensors])
    tokens = random_tokens(1, 5, 8, 9, seed=1)[0]
    for scored in ("all", "last"):
        logits = ensemble.logits(tokens[None, :, :-1], scored)[0]  # type: ignore[arg-type]
        expected = model(tokens[:, :-1])[:, -logits.shape[1] :]
        assert_same(logits, expected, 3e-6, f"{scored}: logits")
        target = tokens[:, -logits.shape[1] :]
        loss, expected_loss = (F.cross_entropy(one.transpose(1, 2), target) for one in (logits, expected))
        found = torch.autograd.grad(loss, list(ensemble.parameters.values()))
        named = dict(model.named_parameters())
        expected_found = dict(zip(named, torch.autograd.grad(expected_loss, list(named.values())), strict=True))
        buffers = {key: value for key, value in model.state_dict().items() if key not in named}
        by_name = from_x_transformers(buffers | expected_found, spec, gain=gain, gain_offset=0.0)
        for tensor, gradient in zip(ensemble.parameters, found, strict=True):
            assert_same(gradient[0], by_name[tensor], 3e-6, f"{scored}: gradient of {tensor}")
    counted = spec.parameter_counts(vocab_size=9, context=7)
    assert counted["trainable"] == counted["total"] == sum(one.numel() for one in model.parameters())


def test_sinusoidal_positions_are_a_fixed_table_of_the_same_network() -> None:
    spec = Transformer(**SHAPE, positions="sinusoidal")
    ensemble = randomized(spec, vocab_size=9, context=7, members=1, seed=0)
    assert not ensemble.parameters["position"].requires_grad
    fresh = type(ensemble).initialize(
        spec, {"vocab_size": 9, "context": 7}, generators=[torch.Generator()], dtype=torch.float64
    )
    place, channel = torch.arange(7, dtype=torch.float64)[:, None], torch.arange(4, dtype=torch.float64)
    angles = place / 10_000 ** (2 * channel / 8)
    assert_same(fresh.parameters["position"][0, :, ::2], angles.sin(), 1e-12, "sines")
    assert_same(fresh.parameters["position"][0, :, 1::2], angles.cos(), 1e-12, "cosines")


TRAINED: dict[str, Any] = {"embeddings": "trained", "readout": "trained", "ffn": "none"}
TIED: dict[str, Any] = {"embeddings": "trained", "readout": "tied", "ffn": "none"}
DELTA: dict[str, Any] = {"attention": "delta", "norms": False, "ffn": "none"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"norms": False, "ffn": "none"},
        {"norms": False, "ffn": "none", "n_heads": 2, "n_kv_heads": 1},
        {"norms": False, "ffn": "none", "n_heads": 4, "n_kv_heads": 2, "d_head": 3},
        {"norms": False, "ffn": "none", "positions": "rotary"},
        {"norms": False, "ffn": "none", "n_heads": 2, "n_kv_heads": 1, "positions": "rotary", "d_head": 4},
        {"norms": False, "ffn": "none", "positions": "rotary", "d_head": 8},
        {"norms": False, "ffn": "none", "n_heads": 2, "positions": "alibi", "d_head": 6},
        {"norms": False, "gated": True, "positions": "frozen"},
        {"norms": False, "ffn": "none", "n_heads": 2, "values": False},
        {"norms": False, "ffn": "none", "stride": 3},
        {"norms": False, "ffn": "none", "n_heads": 2, "n_kv_heads": 1, "attention": "linear"},
        {**DELTA, "n_heads": 2, "n_kv_heads": 1, "d_head": 3},
        {**DELTA, "d_head": 6},
        {**DELTA, "d_head": 4, "positions": "rotary"},
        {**DELTA, "n_heads": 2, "attention": "gated-delta", "d_head": 3, "positions": "none"},
        {"norms": False, "n_experts": 2, "top_k": 2, "positions": "none"},
        {},
        {"norm": "rms"},
        {"ffn": "none"},
        {"ffn": "identity", "norm": "rms"},
        {"ffn": "none", "values": False},
        {"n_heads": 2, "n_kv_heads": 1, "attention": "delta", "d_head": 3, "ffn": "none"},
        {"activation": "relu", "seed": 6},
        {"activation": "softmax"},
        {"gated": True, "activation": "relu", "norm": "rms"},
        {"n_experts": 2, "top_k": 2},
        {"norm_place": "post", "ffn": "none"},
        {"norm_place": "post", "ffn": "none", "n_layers": 2},
        {"parallel": True},
        {"ffn": "none", "n_layers": 3},
        TRAINED,
        TRAINED | {"positions": "rotary", "norm": "rms"},
        TRAINED | {"norms": False},
        TIED,
        TIED | {"positions": "none"},
        TIED | {"norms": False},
        TIED | {"norm_place": "post", "ffn": "mlp"},
        {"embeddings": "trained", "ffn": "none"},
        {"embeddings": "trained", "ffn": "none", "positions": "sinusoidal", "d_model": 5},
    ],
    ids=str,
)
def test_effective_parameters_are_what_the_chances_can_tell_of(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rank of the derivative of log-probabilities of all tokens at all positions, by everything trained."""
    for module, name in ((recurrent, "LENGTH_EPS"), (mixer, "NORM_EPS")):
        monkeypatch.setattr(module, name, 0.0)  # with it, a millionth of a scale is left
    options = dict(options)
    seed = options.pop("seed", 3)  # one with which every hidden channel of a ReLU is open for some inputs only
    spec = Transformer(**{"d_model": 4, "d_head": 2, **options})
    sizes = {"vocab_size": 9, "context": 6}
    ensemble = randomized(spec, **sizes, members=1, seed=seed)
    names = [name for name, parameter in ensemble.parameters.items() if parameter.requires_grad]
    tokens = random_tokens(1, 100, 6, 9, seed=2)

    def said(*values: Tensor) -> Tensor:
        changed = type(ensemble)(spec, ensemble.parameters | dict(zip(names, values, strict=True)))
        return changed.logits(tokens).log_softmax(-1).flatten()[::5]

    derivatives = torch.func.jacfwd(said, argnums=tuple(range(len(names))))(
        *(ensemble.parameters[name].detach() for name in names)
    )
    whole = torch.cat([one.flatten(1) for one in derivatives], 1)
    values = torch.linalg.svdvals(whole / whole.norm(dim=0).clamp_min(1e-12))
    rank = int((values > 1e-9 * values[0]).sum())
    assert spec.effective_parameters(**sizes) == rank


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"n_heads": 4, "n_kv_heads": 3}, "n_kv_heads"),
        ({"n_heads": 2, "n_kv_heads": 4}, "n_kv_heads"),
        ({"n_kv_heads": 0}, "n_kv_heads"),
        ({"positions": "rotary", "d_head": 5}, "d_head"),
        ({"positions": "relative"}, "positions"),
        ({"window": 0}, "window"),
        ({"gated": True, "ffn": "none"}, "gated"),
        ({"norm": "batch"}, "norm"),
        ({"attention": "hard"}, "attention"),
        ({"attention": "delta", "window": 3}, "window"),
        ({"attention": "linear", "stride": 3}, "stride"),
        ({"attention": "linear", "positions": "alibi"}, "positions"),
        ({"attention": "linear", "values": False}, "values"),
        ({"values": False, "d_value": 3}, "d_value"),
        ({"stride": 0}, "stride"),
        ({"n_experts": 0}, "n_experts"),
        ({"n_experts": 1025}, "n_experts"),
        ({"n_experts": 2, "ffn": "none"}, "n_experts"),
        ({"n_experts": 2, "top_k": 3}, "top_k"),
        ({"norm_place": "post", "norms": False}, "norm_place"),
        ({"norm": "rms", "norms": False}, "norm"),
        ({"parallel": True, "ffn": "none"}, "parallel"),
        ({"parallel": True, "skips": False}, "parallel"),
        ({"parallel": True, "norm_place": "post"}, "parallel"),
        ({"dropout": 1.0}, "dropout"),
        ({"dropout": -0.1}, "dropout"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(options: dict[str, Any], field: str) -> None:
    with pytest.raises(SpecError, match=f"^{field}: "):
        Transformer(**options)


def test_a_default_that_came_later_changes_no_key() -> None:
    """Of the options only those that are chosen are part of what names a run."""
    plain = Transformer()
    options = {"n_kv_heads", "window", "gated", "norm", "attention", "values", "stride", "n_experts", "top_k"}
    assert not (options | {"norm_place", "parallel", "dropout"}) & set(plain.canonical())
    assert Transformer(window=3).canonical()["window"] == 3
    assert Transformer(gated=True).canonical()["gated"]
