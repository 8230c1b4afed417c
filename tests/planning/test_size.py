"""What a config of Hugging Face means: counts against published ones and built models, and laws asked by hand."""

import json
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import capax
from capax.cli import main
from capax.errors import CapaxError
from capax.laws.exposure import ExposureLaw
from capax.planning.answers import predicted
from capax.planning.cost import hours_on
from capax.planning.known import HELD

transformers = pytest.importorskip("transformers")

import torch  # noqa: E402

from capax.models import hf_config  # noqa: E402
from capax.models.hf_config import causal_model, read_config  # noqa: E402
from capax.planning.counting import count  # noqa: E402
from capax.planning.facts_study import fill  # noqa: E402
from capax.planning.size import model_size, nearest  # noqa: E402

SEVEN = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}
"""What Llama 3 8B, Mistral 7B and Mixtral 8x7B have in common."""
EXPERTS = {"num_local_experts": 8, "num_experts_per_tok": 2}
QWEN_MOE = {
    **{"hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_hidden_layers": 48},
    **{"num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936},
    **{"num_experts": 128, "num_experts_per_tok": 8},
}
PUBLISHED = {
    "Llama 3 8B": ({"model_type": "llama", "vocab_size": 128256, **SEVEN}, 8_030_261_248, 8.03),
    "Mistral 7B": ({"model_type": "mistral", "vocab_size": 32000, **SEVEN}, 7_241_732_096, 7.24),
    "GPT-2 small": ({"model_type": "gpt2"}, 124_439_808, 0.124),
    "Mixtral 8x7B": ({"model_type": "mixtral", "vocab_size": 32000, **SEVEN, **EXPERTS}, 46_702_792_704, 12.9),
    "Qwen3 30B A3B": ({"model_type": "qwen3_moe", **QWEN_MOE}, 30.5e9, 3.3),
    "DeepSeek V3": ({"model_type": "deepseek_v3"}, 671e9, 37),
}
"""Parameters as the model cards have them: all (exactly, or rounded), and 10^9 active ones."""

GIANT = PUBLISHED["Llama 3 8B"][0] | {"hidden_size": 2**20, "intermediate_size": 2**22}

TINY = {
    **{"hidden_size": 24, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 40, "vocab_size": 60},
    **{"max_position_embeddings": 32, "pad_token_id": 0},
}
GROUPED = {**TINY, "num_key_value_heads": 2}
FAMILIES: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 24, "n_head": 4, "n_layer": 2, "n_positions": 32, "vocab_size": 60},
    "llama": GROUPED,
    "mistral": GROUPED,
    "qwen2": GROUPED,
    "qwen3": {**GROUPED, "head_dim": 8},
    "gemma": {**GROUPED, "head_dim": 8},
    "gemma2": {**GROUPED, "head_dim": 8},
    "gemma3_text": {**GROUPED, "head_dim": 8},
    "phi": {**TINY, "partial_rotary_factor": 0.5},
    "phi3": GROUPED,
    "mamba": {"hidden_size": 24, "num_hidden_layers": 2, "state_size": 4, "vocab_size": 60},
    "mixtral": {**GROUPED, "num_local_experts": 5, "num_experts_per_tok": 2},
    "qwen2_moe": {
        **{**GROUPED, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 8},
        "shared_expert_intermediate_size": 12,
    },
}


def written(tmp_path: Path, **said: Any) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(said))
    return path


def family(tmp_path: Path, kind: str, **changes: Any) -> Path:
    return written(tmp_path, **{"model_type": kind, **FAMILIES[kind], **changes})


@pytest.mark.parametrize("name", PUBLISHED)
def test_counts_are_those_that_model_cards_have(tmp_path: Path, name: str) -> None:
    said, total, active = PUBLISHED[name]
    described = read_config(written(tmp_path, **said))
    model = causal_model(described)
    found = count(model, described.config, described.kind)
    assert found.total == total if isinstance(total, int) else found.total == pytest.approx(total, rel=2e-3)
    assert found.active is not None
    assert found.active / 1e9 == pytest.approx(active, rel=0.02)
    assert all(tensor.is_meta for tensor in model.parameters())


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", FAMILIES)
def test_counts_are_those_of_the_model_as_it_is_built(tmp_path: Path, kind: str, tied: bool) -> None:
    """Of tiny models with memory: every number that is stored, each once."""
    described = read_config(family(tmp_path, kind, tie_word_embeddings=tied))
    with torch.random.fork_rng(devices=[]):
        built: Any = causal_model(described, "cpu")
    stored = {tensor.data_ptr(): tensor.numel() for tensor in built.parameters()}
    found = count(causal_model(described), described.config, kind)
    assert found.total == sum(stored.values())
    tables = [built.get_input_embeddings().weight, built.get_output_embeddings().weight]
    if kind == "gpt2":
        tables.append(built.transformer.wpe.weight)
    assert found.embedding == sum({one.data_ptr(): one.numel() for one in tables}.values())
    assert found.tied == (tables[0].data_ptr() == tables[1].data_ptr())
    assert found.multiplied is not None
    assert found.active is not None
    looked_up = found.embedding - tables[1].numel()
    assert found.multiplied == found.active - looked_up


@pytest.mark.parametrize("kind", ["mixtral", "qwen2_moe"])
def test_active_parameters_are_those_that_a_token_uses(tmp_path: Path, kind: str) -> None:
    """Experts that a token is not sent to have no gradient."""
    described = read_config(family(tmp_path, kind))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = causal_model(described, "cpu")
    found = count(model, described.config, kind)
    model(input_ids=torch.tensor([[7]])).logits.square().sum().backward()
    idle = 0
    for name, tensor in model.named_parameters():
        if ".experts." in name:
            assert tensor.grad is not None
            used = tensor.grad.flatten(1).any(1)
            idle += int((~used).sum()) * tensor[0].numel()
    assert 0 < idle < found.total
    assert found.active == found.total - idle


@pytest.mark.parametrize(
    ("kind", "changes", "model"),
    [
        ("gpt2", {}, {"n_heads": 4}),
        ("llama", {"intermediate_size": 96}, {"n_heads": 4, "n_kv_heads": 2, "positions": "rotary", "gated": True}),
        ("phi", {"partial_rotary_factor": 1.0}, {"n_heads": 4, "positions": "rotary"}),
    ],
)
def test_products_count_as_in_the_same_network_here(
    tmp_path: Path, kind: str, changes: dict[str, Any], model: dict[str, Any]
) -> None:
    """What is counted twice does not depend on biases, gains and tables, which differ."""
    described = read_config(family(tmp_path, kind, **changes))
    found = count(causal_model(described), described.config, kind)
    ours = capax.Transformer(n_layers=2, d_model=24, d_head=6, **model)
    sizes = {"vocab_size": 60, "context": 32}
    spare = ours.parameter_counts(**sizes)["trainable"] - ours.product_parameters(**sizes)
    assert found.plain
    assert found.total - found.effective == spare


def test_effective_parameters_where_some_channels_are_turned(tmp_path: Path) -> None:
    """Of a head with 2 turned and 2 other channels: the rank of the derivative of its scores at several distances."""
    width, head, turned = 6, 4, 2
    angles = torch.arange(1.0, 6.0, dtype=torch.float64) * 0.7
    turns = torch.eye(head, dtype=torch.float64).repeat(len(angles), 1, 1)
    turns[:, 0, 0], turns[:, 0, 1] = angles.cos(), -angles.sin()
    turns[:, 1, 0], turns[:, 1, 1] = angles.sin(), angles.cos()
    generator = torch.Generator().manual_seed(0)
    matrices = tuple(torch.randn(width, head, dtype=torch.float64, generator=generator) for _ in range(2))

    def scores(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return torch.einsum("id,mde,je->mij", query, turns, key).flatten()

    derivative = torch.cat([one.flatten(1) for one in torch.autograd.functional.jacobian(scores, matrices)], 1)
    rank = int(torch.linalg.matrix_rank(derivative))
    sizes = {"hidden_size": width, "num_attention_heads": 1, "head_dim": head, "num_hidden_layers": 1}
    described = read_config(family(tmp_path, "phi", **sizes, partial_rotary_factor=turned / head))
    described.config.head_dim = head
    found = count(causal_model(described), described.config, "phi")
    values = head * head  # W_V and W_O of a head: any matrix between them changes nothing
    assert found.total - found.effective == (2 * width * head - rank) + values


@pytest.fixture(scope="module")
def sized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return family(tmp_path_factory.mktemp("llama"), "llama")


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("facts") / "facts.tsv"
    path.write_text("key\tanswer\n" + "".join(f"key {n}\tanswer {n % 40}\n" for n in range(200)))
    return path


def test_what_it_holds_is_what_the_laws_and_sources_say(sized: Path) -> None:
    found = model_size(sized)
    law, curve = capax.load_law("reference"), capax.load_law("reference:exposure")
    assert isinstance(curve, ExposureLaw)
    ours, *published = found.densities
    # as long as its positions go
    sizes = {"n_layers": 2, "n_heads": 4, "d_head": 6, "d_model": 24, "vocab_size": 60, "seq_len": 32}
    kinds = {"loss": "all", "embeddings": "trained", "ffn": "mlp"}
    row = {"effective_parameters": found.parameters.effective, **sizes, **kinds}
    table = {name: np.array([value]) for name, value in row.items()}
    assert ours.bits == predicted(law, table)[0]
    assert (ours.low, ours.high) == tuple(float(one[0]) for one in law.quantiles(table, (0.025, 0.975)))
    assert ours.low is not None
    assert ours.high is not None
    assert ours.low < ours.bits < ours.high
    each = [(one.name, one.exposures, round(one.bits_per_parameter, 2), one.standing) for one in published]
    assert each == [
        ("Allen-Zhu and Li 2024", 1000, 2.0, "read"),
        ("Allen-Zhu and Li 2024", 100, 1.0, "read"),
        ("Allen-Zhu and Li 2024, int8", 1000, 2.0, "secondary"),
        ("Allen-Zhu and Li 2024, int4", 1000, 0.7, "secondary"),
        ("Morris et al. 2025, float32", None, 3.83, "read"),
        ("Morris et al. 2025, bfloat16", None, 3.51, "read"),
    ]
    for one in published:
        assert one.bits == pytest.approx(one.bits_per_parameter * found.parameters.total)
    size = nearest(curve, found.parameters, found.shape)
    table = {name: np.full(3, value) for name, value in size.items()}
    told = curve.known_share(table | {"exposures": np.array([one.exposures for one in found.exposures])}, HELD)
    assert [one.share for one in found.exposures] == [0.5, 0.9, 0.95]
    assert told == pytest.approx([0.5, 0.9, 0.95])
    total = found.parameters.total
    assert found.bytes == {"float32": 4 * total, "bfloat16": 2 * total, "int8": total, "int4": -(-total // 2)}
    assert found.asked is None


def test_a_model_outside_the_law_says_so_where_it_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where its number of parameters is inside, and by the ranges of the kinds that a language model is of."""
    said = {"model_type": "gpt2", "n_embd": 64, "n_layer": 4, "n_head": 1, "vocab_size": 64, "n_positions": 16}
    (tmp_path / "config.json").write_text(json.dumps(said))
    found = model_size(tmp_path)
    assert "n_layers 4 is outside 1 to 2 with loss all, embeddings trained and ffn mlp" in found.outside
    assert found.overview().rows["outside"] == "; ".join(found.outside)
    assert any(note.startswith("the law is asked for seq_len 16,") for note in found.notes), "it reads no more"
    with pytest.raises(SystemExit):
        main(["size", str(tmp_path)])
    assert "It lies OUTSIDE the domain of the law of capacity: " in " ".join(capsys.readouterr().out.split())


def test_facts_fit_with_the_probability_that_the_law_and_the_fills_give(sized: Path, facts: Path) -> None:
    found = model_size(sized, facts=facts)
    asked = found.asked
    assert asked is not None
    assert asked.facts is not None
    plan = capax.plan_facts(capax.Facts(library=str(facts)), n_layers=1, tokenizations="code")
    assert asked.facts == plan.file
    assert asked.fill == plan.fill
    assert asked.bits == pytest.approx(200 * np.log2(40))
    assert asked.fits
    assert asked.probability == pytest.approx(0.999)
    compressed = asked.facts.compressed_bytes
    assert compressed is not None
    assert asked.times_packed == {name: size / compressed for name, size in found.bytes.items()}
    assert [one.used for one in found.densities] == [asked.bits / one.bits for one in found.densities]
    assert asked.tokens == asked.facts.text_bytes / 4
    text = "".join(f"key {n}\t\tanswer {n % 40}\n" for n in range(200))
    assert asked.facts.text_bytes == len(text)


def test_the_probability_of_bits_is_the_level_of_their_quantile(sized: Path) -> None:
    law_says = model_size(sized).densities[0]
    assert law_says.low is not None
    assert law_says.high is not None
    for bits, expected in ((law_says.low, 0.975), (law_says.high, 0.025)):
        asked = model_size(sized, bits=bits, probability=0.975).asked
        assert asked is not None
        assert asked.probability == pytest.approx(expected, abs=1e-3)
    chances = [asked.probability for bits in (1e2, 3e4, 4e4, 1e9) if (asked := model_size(sized, bits=bits).asked)]
    assert chances == sorted(chances, reverse=True)
    assert (chances[0], chances[-1]) == pytest.approx((0.999, 0.001))


def test_costs_are_those_of_the_exposures_that_the_law_says(sized: Path) -> None:
    law_says, curve = model_size(sized).densities[0], capax.load_law("reference:exposure")
    assert isinstance(curve, ExposureLaw)
    asked = model_size(sized, bits=0.9 * law_says.bits, tokens=1000).asked
    assert asked is not None
    sizes = nearest(curve, model_size(sized).parameters, model_size(sized).shape)
    row = {name: [value] for name, value in sizes.items()}
    held = curve.known_share(row | {"exposures": [HELD]})[0]  # what the law calls held
    exposures = np.ceil(curve.exposures_for(0.9 * held, **sizes))
    assert 300 < asked.exposures == exposures < 3000
    multiplied = model_size(sized).parameters.multiplied
    assert multiplied is not None
    assert asked.flops == 6 * 1000 * exposures * multiplied
    assert asked.accelerator_hours is not None
    assert asked.accelerator_hours["h100"] == pytest.approx(hours_on("h100", asked.flops, 24))
    few, many = (model_size(sized, bits=share * law_says.bits).asked for share in (1e-6, 1.01))
    assert few is not None
    assert many is not None
    assert (few.exposures, few.tokens, few.tokens_from) == (100, 1e-6 * law_says.bits, "bits")
    assert (many.exposures, many.flops, many.accelerator_hours, many.fits) == (None, None, None, False)


@pytest.mark.parametrize(
    ("said", "notes"),
    [
        (PUBLISHED["Llama 3 8B"][0], ["times as many as the largest", "13% of the parameters"]),
        ({"model_type": "gpt2", **FAMILIES["gpt2"], "n_embd": 4, "n_layer": 1, "vocab_size": 9}, ["this is smaller"]),
        ({"model_type": "mamba", **FAMILIES["mamba"]}, ["fitted to plain transformers", "of mamba"]),
        ({"model_type": "mixtral", **FAMILIES["mixtral"]}, ["mixture of experts", "1.3 times less", "(secondary)"]),
        (
            {"model_type": "llama", **GROUPED, "auto_map": {"AutoConfig": "evil.Evil"}},
            ["code of its own", "not loaded"],
        ),
        ({"model_type": "llama", **GROUPED, "quantization_config": {"quant_method": "fp8"}}, ["quantised"]),
        ({"model_type": "llama", **GROUPED, "hiden_act": "relu"}, ["'hiden_act'", "lacks: is it hidden_act?"]),
    ],
)
def test_what_is_assumed_is_said(tmp_path: Path, said: dict[str, Any], notes: list[str]) -> None:
    found = " ".join(model_size(written(tmp_path, **said), bits=1e4).notes)
    for words in notes:
        assert words in found


def test_far_outside_the_law_its_interval_ends_at_the_weights_own_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a law whose density rises with the size for ever."""
    sizes = np.geomspace(600, 10_000, 40)
    steep = capax.CapacityLaw(axes=[]).fit({"effective_parameters": sizes, "capacity_bits": 0.2 * sizes**1.3})
    laws = {"reference": steep, "reference:exposure": capax.load_law("reference:exposure")}
    monkeypatch.setattr("capax.planning.size.load_law", laws.__getitem__)
    found = model_size(written(tmp_path, **GIANT))
    assert any("32 bits a parameter" in note for note in found.notes)
    assert found.densities[0].high == 32 * found.parameters.total
    assert found.densities[0].cut
    assert any("effective_parameters" in reason for reason in found.outside)


def test_experts_of_which_nothing_is_known(tmp_path: Path) -> None:
    """Experts that do nothing (LongCat) are chosen by some tokens and not by others."""
    path = family(tmp_path, "mixtral", zero_expert_num=2)
    found = model_size(path, bits=1e4)
    assert (found.parameters.active, found.parameters.multiplied) == (None, None)
    assert found.asked is not None
    assert found.asked.flops is None
    assert any("which experts a token uses is not known" in note for note in found.notes)


DBRX = {
    **{"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "vocab_size": 100352},
    "attn_config": {"kv_n_heads": 8, "rope_theta": 5e5},
    "ffn_config": {"moe_num_experts": 16, "moe_top_k": 4, "ffn_hidden_size": 10752, "hidden_size": 6144},
}
NO_EXPERTS = {"num_hidden_layers": 2, "mlp_only_layers": [0, 1]}


@pytest.mark.parametrize(
    ("said", "experts", "chosen", "active"),
    [
        (DBRX, 16, 4, 36e9),  # as its model card says, of 132 billion
        ({"model_type": "qwen2_moe", **NO_EXPERTS}, None, None, None),
        ({"model_type": "doge"}, None, None, None),
    ],
)
def test_experts_are_those_that_are_built(
    tmp_path: Path, said: dict[str, Any], experts: int | None, chosen: int | None, active: float | None
) -> None:
    """Wherever a config names them; where no block has any, all parameters are active."""
    found = model_size(written(tmp_path, **said)).parameters
    assert (found.experts, found.experts_per_token) == (experts, chosen)
    assert found.active == (pytest.approx(active, rel=0.02) if active else found.total)


@pytest.mark.parametrize(
    ("said", "groups", "d_head"),
    [
        ({"model_type": "falcon"}, 1, 64),
        ({"model_type": "falcon", "multi_query": False}, 71, 64),
        (
            {"model_type": "falcon", "new_decoder_architecture": True, "num_kv_heads": 8, "num_attention_heads": 64}
            | {"hidden_size": 4096},
            *(8, 64),
        ),
        ({"model_type": "gpt_bigcode"}, 1, 64),
        ({"model_type": "deepseek_v3"}, 128, 192),
        ({"model_type": "gemma4_text"}, 4, 288),
    ],
)
def test_heads_are_those_that_are_built(tmp_path: Path, said: dict[str, Any], groups: int, d_head: int) -> None:
    """Channels of a head are those of its queries and keys; fields that may differ between layers are no fault."""
    found = model_size(written(tmp_path, **said)).shape
    assert (found.n_kv_heads, found.d_head) == (groups, d_head)


@pytest.mark.parametrize(("kind", "unlike"), [("phi", {"qk_layernorm": True}), ("gpt2", {"add_cross_attention": True})])
def test_a_plain_family_may_have_models_that_are_not(tmp_path: Path, kind: str, unlike: dict[str, bool]) -> None:
    plain, other = (model_size(family(tmp_path, kind, **changes)) for changes in ({}, unlike))
    assert plain.parameters.plain
    assert not other.parameters.plain
    assert other.parameters.effective == other.parameters.total
    assert any("counted as they are" in note for note in other.notes)


BAD: dict[str, tuple[dict[str, Any] | str, list[str]]] = {
    "no JSON": ("{", ["config", "JSON object"]),
    "a list": ("[1]", ["config", "JSON object"]),
    "no model_type": ({}, ["model_type", "got none"]),
    "an unknown one": ({"model_type": "gtp2"}, ["model_type", "'gtp2'"]),
    "one of another kind": ({"model_type": ["gpt2"]}, ["model_type", "['gpt2']"]),
    "no language model": ({"model_type": "t5"}, ["causal language model", "'t5'"]),
    "heads that do not fit": ({"model_type": "llama", **TINY, "num_attention_heads": 5}, ["llama", "heads"]),
    "no heads": ({"model_type": "llama", **TINY, "num_attention_heads": 0}, ["num_attention_heads: at least 1, got 0"]),
    "no width at all": ({"model_type": "llama", **TINY, "hidden_size": 0}, ["hidden_size: at least 1, got 0"]),
    "no width by its own name": ({"model_type": "gpt2", "n_embd": 0}, ["n_embd: at least 1, got 0"]),
    "no width in a part": ({"model_type": "gemma3", "text_config": {"hidden_size": 0}}, ["hidden_size: at least 1"]),
    "nobody to share": ({"model_type": "llama", **TINY, "num_key_value_heads": 0}, ["num_key_value_heads: at least 1"]),
    "uneven groups": (
        {"model_type": "llama", **TINY, "num_key_value_heads": 3},
        ["num_key_value_heads: should divide num_attention_heads, which is 4, got 3"],
    ),
    "more keys than heads": (
        {"model_type": "qwen2", **TINY, "num_key_value_heads": 8},
        ["num_key_value_heads: should divide num_attention_heads, which is 4, got 8"],
    ),
    "a width of words": ({"model_type": "llama", **TINY, "hidden_size": "wide"}, ["llama", "hidden_size", "str"]),
    "no width": ({"model_type": "llama", **TINY, "hidden_size": None}, ["llama", "hidden_size"]),
    "no layers": ({"model_type": "gpt2", "n_layer": 0}, ["num_hidden_layers", "at least 1"]),
    "a billion layers": ({"model_type": "gpt2", "n_layer": 10**9}, ["n_layer", "at most 16384"]),
    "a billion experts": (
        {"model_type": "mixtral", "num_local_experts": 10**9},
        ["num_local_experts", "at most 16384"],
    ),
    "more than memory has": (
        {"model_type": "gpt2", "n_embd": 10**12, "n_head": 1},
        ["gpt2", "n_embd: a tensor has", "got 1000000000000"],
    ),
    "no 64 bits": ({"model_type": "gpt2", "vocab_size": 10**30}, ["gpt2", "vocab_size: a tensor has"]),
    "an unknown kind of layer": ({"model_type": "llama", **TINY, "layer_types": ["x", "y"]}, ["llama", "layer"]),
}


@pytest.mark.parametrize("name", BAD)
def test_a_config_that_is_none_is_one_line(tmp_path: Path, name: str) -> None:
    said, words = BAD[name]
    path = tmp_path / "config.json"
    path.write_text(said if isinstance(said, str) else json.dumps(said))
    with pytest.raises(CapaxError) as error:
        model_size(path)
    line = str(error.value)
    assert line.startswith("config: ")
    assert "\n" not in line
    for word in words:
        assert word in line


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bits": 0}, ["bits", "positive", "0"]),
        ({"bits": float("nan")}, ["bits", "positive", "nan"]),
        ({"bits": 1e4, "facts": "facts.tsv"}, ["bits", "only without facts"]),
        ({"tokens": 5}, ["tokens", "only with"]),
        ({"probability": 0.99}, ["probability", "only with facts or bits"]),
        ({"bits": 1e4, "tokens": 0}, ["tokens", "0"]),
        ({"bits": 1e4, "probability": 1.0}, ["probability", "0.999", "1.0"]),
        ({"bits": 1e300, "probability": 0.0005}, ["probability", "0.001", "0.0005"]),
        ({"facts": "missing.tsv"}, ["missing.tsv"]),
        ({"facts": "facts.tsv", "recall": "0.5"}, ["recall", "above 0 and below 1", "'0.5'"]),
        ({"bits": 100, "recall": 0.5}, ["recall", "only with facts"]),
        ({"facts": 3}, ["facts", "a file of facts", "got 3"]),
        ({"facts": "facts.tsv", "recall": 1.0}, ["recall", "above 0 and below 1"]),
    ],
)
def test_a_bad_option_is_one_line(
    sized: Path, facts: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], words: list[str]
) -> None:
    monkeypatch.chdir(facts.parent)
    with pytest.raises(CapaxError) as error:
        model_size(sized, **options)
    for word in words:
        assert word in str(error.value)


def test_facts_without_bits_are_refused(sized: Path, tmp_path: Path) -> None:
    path = tmp_path / "same.tsv"
    path.write_text("key\tanswer\n" + "".join(f"key {n}\tyes\n" for n in range(20)))
    with pytest.raises(CapaxError, match="no bits"):
        model_size(sized, facts=path)


def test_a_config_of_more_modules_than_any_model_has(sized: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hf_config, "MOST_MODULES", 10)
    with pytest.raises(CapaxError, match="no llama can be built of it: more than 10 modules"):
        model_size(sized)


@pytest.mark.slow
def test_no_family_has_more_by_default_than_is_allowed() -> None:
    """Not the fields that are sizes of layers and experts, such as `vocab_size_per_layer_input` of Gemma 3n."""
    kinds, without = list(transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES), []
    for kind in kinds:
        try:
            usual = transformers.CONFIG_MAPPING[kind]()
        except Exception:  # it has no defaults
            without.append(kind)
        else:
            hf_config.refuse_many(usual.to_dict(), kind)
            hf_config.refuse_none(usual.to_dict(), usual.attribute_map, kind)
    assert len(without) < 0.05 * len(kinds), without


@pytest.mark.parametrize(
    ("said", "near"),
    [({}, ""), ({"model_type": ["gpt2"]}, ""), ({"model_type": "zzz"}, ""), ({"model_type": "gtp2"}, "gpt2")],
    ids=str,
)
def test_only_names_that_are_alike_are_offered(tmp_path: Path, said: dict[str, Any], near: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(said))
    with pytest.raises(CapaxError, match="model_type") as error:
        model_size(tmp_path)
    assert str(error.value).partition("; the nearest are ")[2] == near


def test_heads_that_share_nothing_need_not_be_divisible(tmp_path: Path) -> None:
    """GPT-2 has no keys that heads share: what a config says of them makes no other model."""
    plain = model_size(family(tmp_path, "gpt2")).parameters.total
    said = {"model_type": "gpt2", **FAMILIES["gpt2"], "num_key_value_heads": 3}
    (tmp_path / "config.json").write_text(json.dumps(said))
    assert model_size(tmp_path / "config.json").parameters.total == plain


def test_paths_that_are_no_config(tmp_path: Path) -> None:
    with pytest.raises(CapaxError, match=r"^config: a JSON file, or a folder with config\.json, got None$"):
        model_size(None)  # type: ignore[arg-type]
    for path, word in ((tmp_path / "none", "nothing is downloaded"), (tmp_path, "no config.json")):
        with pytest.raises(CapaxError, match=word):
            model_size(path)
    assert model_size(family(tmp_path, "gpt2").parent).kind == "gpt2"


def test_nothing_reaches_the_network_or_runs_code_and_nothing_stays_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a config that names classes, kernels and weights of a hub, beside a file of code and pickled weights."""
    from huggingface_hub import constants

    def refuse(*_: object) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    marker = tmp_path / "ran"
    (tmp_path / "evil.py").write_text(f"open({str(marker)!r}, 'w')")
    (tmp_path / "pytorch_model.bin").write_bytes(b"cos\nabort\n(tR.")
    theirs = {"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "somebody/theirs--evil.Evil"}
    kernels = {"attn_implementation": "somebody/kernel", "_attn_implementation": "somebody/kernel", "dtype": "evil"}
    more = {"_name_or_path": "somebody/theirs", "experts_implementation": "somebody/kernel", "num_labels": 10**9}
    path = family(tmp_path, "mixtral", auto_map=theirs, transformers_weights="x", **kernels, **more)
    enabled = transformers.integrations.hub_kernels._kernels_enabled
    before = torch.get_rng_state(), transformers.utils.logging.get_verbosity(), torch.get_default_dtype()
    assert model_size(path.parent).parameters.total == model_size(family(tmp_path, "mixtral")).parameters.total
    after = torch.get_rng_state(), transformers.utils.logging.get_verbosity(), torch.get_default_dtype()
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]
    assert constants.HF_HUB_OFFLINE is False
    assert transformers.integrations.hub_kernels._kernels_enabled is enabled
    assert not marker.exists()


def test_without_transformers_one_line_says_what_to_install(sized: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hf_config, "transformers", None)
    with pytest.raises(CapaxError, match=r"capax\[hf\]"):
        model_size(sized)


def test_facts_that_fill_it_as_the_study_says_fit_with_even_chances(sized: Path, tmp_path: Path) -> None:
    """Neither is the probability near an end, where it would be the same without the fill."""
    count = round(model_size(sized).densities[0].bits * fill(0.99).share / np.log2(40))
    (tmp_path / "many.tsv").write_text("".join(f"key {n}\tanswer {n % 40}\n" for n in range(count)))
    asked = model_size(sized, facts=tmp_path / "many.tsv").asked
    assert asked is not None
    assert asked.probability == pytest.approx(0.5, abs=0.03)
