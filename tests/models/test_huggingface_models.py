"""Hugging Face's language models as models of capax: of seven families, from configs and from local checkpoints."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import capax
from capax.errors import CapaxError, SpecError
from capax.specs import HuggingFace, Run, Sequences, Training
from capax.sweeps.grid import read_study
from capax.testing import ModelSuite
from capax.testing.trained import pack, recalled, same_when_taken_up
from capax.training.prepare import initial

TASK = Sequences(seq_len=5, vocab_size=9, library_size=12)
SIZES = {"vocab_size": 9, "context": 4}
SHORT = Training(max_epochs=3, lr=0.01)
SHAPE = {
    **{"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 24},
    "max_position_embeddings": 16,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "gpt2": {"n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 16},
    "llama": {**SHAPE, "num_key_value_heads": 1},
    "qwen2": {**SHAPE, "num_key_value_heads": 1},
    "gemma": {**SHAPE, "num_key_value_heads": 1, "head_dim": 4},
    "mistral": {**SHAPE, "num_key_value_heads": 1, "sliding_window": 3},
    "phi": SHAPE,
    "mamba": {"num_hidden_layers": 2, "hidden_size": 16, "state_size": 4},
}
SLOW = ("mamba", "qwen2", "gemma", "mistral", "phi")


def made(family: str, **fields: Any) -> HuggingFace:
    return HuggingFace(config={"model_type": family, **FAMILIES[family]}, **fields)


LLAMA = made("llama")


class TestLlama(ModelSuite):
    model, task = LLAMA, TASK


@pytest.mark.very_slow
class TestGpt2(ModelSuite):
    model: ClassVar = made("gpt2", set={"n_layer": 1} | dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0))
    task = TASK.replace(loss="last")


@pytest.mark.slow
@pytest.mark.parametrize("family", [pytest.param(f, marks=[pytest.mark.very_slow] * (f in SLOW)) for f in FAMILIES])
def test_a_family_is_measured_as_the_library_builds_it(family: str, tmp_path: Path) -> None:
    spec, store = made(family), tmp_path / "s.db"
    run = capax.measure(TASK, spec, SHORT, restarts=2, store=store, keep_weights=True)
    random = family == "gpt2"
    assert run.notes[:1] == (f"model: {family} by transformers {transformers.__version__}",)
    assert ("one by one (it draws random numbers" if random else "together (torch.vmap)") in run.notes[-1]
    config = transformers.AutoConfig.for_model(
        family, **FAMILIES[family], vocab_size=9, pad_token_id=None, bos_token_id=None, eos_token_id=None
    )
    with torch.random.fork_rng():
        torch.manual_seed(5)
        theirs = transformers.AutoModelForCausalLM.from_config(config).eval()
    ours, tokens = spec.torch_module(SIZES, 5).eval(), torch.tensor([[1, 2, 0, 8], [0, 0, 3, 4]])
    assert torch.equal(ours(tokens), theirs(input_ids=tokens).logits)
    assert run.parameters.total == sum(one.numel() for one in theirs.parameters())
    assert spec.parameter_counts(**SIZES) == {"trainable": run.parameters.total, "total": run.parameters.total}
    (row,) = capax.read(store).iter_rows(named=True)
    assert (row["n_layers"], row.get("n_heads"), row["d_model"]) == (2, None if family == "mamba" else 2, 16)
    assert recalled(run, store) == run.memorized


def test_a_config_is_kept_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "llama", **FAMILIES["llama"], "vocab_size": 3, "torch_dtype": "float16"}))
    by_file, by_folder = HuggingFace(config=str(path)), HuggingFace(config=tmp_path)  # type: ignore[arg-type]
    assert by_file == by_folder == LLAMA
    assert Run(task=TASK, model=by_file).key() == Run(task=TASK, model=LLAMA).key()
    shutil.rmtree(tmp_path)
    again = Run.model_validate_json(Run(task=TASK, model=by_file).model_dump_json())
    assert again.model == LLAMA
    assert again.model.parameter_counts(**SIZES) == LLAMA.parameter_counts(**SIZES)


def test_sizes_and_options_are_those_that_were_given_last() -> None:
    spec = made("gpt2", set={"num_hidden_layers": 3, "resid_pdrop": 0.0}, d_model=8)
    assert (spec.n_layers, spec.n_heads, spec.d_model, spec.d_head) == (3, 2, 8, None)
    assert spec == made("gpt2", set={"resid_pdrop": 0}, n_layers=3, d_model=8)
    assert spec.columns()["resid_pdrop"] == 0
    assert spec.replace(n_layers=1, set={"attn_pdrop": 0.5}).columns()["attn_pdrop"] == 0.5
    assert spec.replace(n_layers=1).n_layers == 1
    llama = {"model_type": "llama", **FAMILIES["llama"]}
    assert spec.replace(config=llama, set={}) == LLAMA
    assert spec.replace(config=llama, n_layers=5) == LLAMA.replace(n_layers=5)
    assert made("gemma").d_head == 4
    assert made("gemma", d_head=8).parameter_counts(**SIZES)["total"] > made("gemma").parameter_counts(**SIZES)["total"]
    defaults = HuggingFace(config={"model_type": "gpt2"})
    assert (defaults.n_layers, defaults.n_heads, defaults.d_model) == (12, 12, 768)


def test_no_token_has_a_role() -> None:
    """A token of padding would never be trained, and one of an end may lie outside of the vocabulary."""
    spec = HuggingFace(config={"model_type": "llama", **FAMILIES["llama"], "pad_token_id": 0, "eos_token_id": 50})
    assert spec == LLAMA
    module = spec.torch_module(SIZES, 0)
    module(torch.zeros(1, 4, dtype=torch.long)).sum().backward()
    assert module.network.model.embed_tokens.weight.grad[0].any()


def test_options_are_an_axis_of_studies(tmp_path: Path) -> None:
    (tmp_path / "llama.json").write_text(json.dumps({"model_type": "llama", **FAMILIES["llama"]}))
    (tmp_path / "s.toml").write_text(
        '[task]\nlibrary_size = 8\n[model]\nmodel = "hf"\nconfig = "llama.json"\n[grid]\n'
        "set = [{intermediate_size = 8}, {intermediate_size = 16}]\nn_layers = [1, 2]\n"
    )
    found = [run.model.columns() for run in read_study(tmp_path / "s.toml").runs]
    assert [(one["intermediate_size"], one["n_layers"]) for one in found] == [(8, 1), (8, 2), (16, 1), (16, 2)]


def test_a_training_with_dropout_goes_on_where_it_was() -> None:
    assert same_when_taken_up(pack(TASK, made("gpt2", n_layers=1), SHORT, [0, 1]), 1)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A small Llama with random weights, saved as the library saves."""
    config = transformers.AutoConfig.for_model("llama", **FAMILIES["llama"], vocab_size=12)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "llama")
    return tmp_path / "llama"


def changed(folder: Path, **tensors: torch.Tensor | None) -> None:
    """Replace tensors of a checkpoint, or take them away."""
    path = folder / "model.safetensors"
    found = load_file(path) | {name.replace("__", "."): tensor for name, tensor in tensors.items()}
    save_file({name: tensor for name, tensor in found.items() if tensor is not None}, path, {"format": "pt"})


@pytest.mark.slow
def test_training_starts_from_the_weights_of_a_checkpoint(checkpoint: Path, tmp_path: Path) -> None:
    spec = HuggingFace(weights=str(checkpoint))
    assert (spec.n_layers, spec.d_model, spec.config) == (2, 16, HuggingFace(config=checkpoint).config)  # type: ignore[arg-type]
    theirs = transformers.AutoModelForCausalLM.from_pretrained(checkpoint).eval()
    tokens = torch.tensor([[1, 2, 0, 8]])
    expected = theirs(input_ids=tokens).logits
    for vocab_size in (9, 12):
        module = spec.torch_module({"vocab_size": vocab_size, "context": 4}, 0).eval()
        torch.testing.assert_close(module(tokens), expected[..., :vocab_size])
        counts = spec.parameter_counts(vocab_size=vocab_size, context=4)
        assert counts["total"] == sum(one.numel() for one in module.parameters())
    run = capax.measure(TASK, spec, SHORT, restarts=2, store=tmp_path / "s.db", keep_weights=True)
    assert run.notes[1].startswith("weights: from llama (sha256 ")
    assert run.notes[1].endswith("the first 9 of its 12 tokens")
    assert "two seeds give the same weights" in run.notes[-1]
    assert run.interval is None
    assert capax.load(run.key, tmp_path / "s.db")
    found = capax.quantize(run.key, bits=8, store=tmp_path / "s.db")
    assert (found.networks, found.alike) == (2, None)
    assert all(row.bits.interval is None and row.bits_per_byte.interval is None for row in found.precisions)
    assert any("begin with the same weights" in note for note in found.notes)


def test_weights_count_by_their_content(checkpoint: Path, tmp_path: Path) -> None:
    spec = HuggingFace(weights=str(checkpoint))
    moved = shutil.copytree(checkpoint, tmp_path / "elsewhere")
    key = Run(task=TASK, model=spec).key()
    assert Run(task=TASK, model=HuggingFace(weights=str(moved))).key() == key
    changed(checkpoint, lm_head__weight=torch.zeros(12, 16))
    assert Run(task=TASK, model=HuggingFace(weights=str(checkpoint))).key() != key
    with pytest.raises(SpecError, match=r"^weights: .*llama has changed since the run was made"):
        capax.measure(TASK, spec, SHORT, restarts=1)
    shutil.rmtree(checkpoint)
    assert Run.model_validate_json(Run(task=TASK, model=spec).model_dump_json()).key() == key
    with pytest.raises(SpecError, match=r"^weights: no such file or folder .*llama"):
        capax.measure(TASK, spec, SHORT, restarts=1)


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({"model__norm__weight": None}, r"lacks 'model\.norm\.weight'$"),
        ({"lm_head__weight": None, "model__norm__weight": None}, r"lacks 'lm_head\.weight' and 1 more$"),
        ({"further": torch.zeros(2)}, r"holds what the model lacks: 'further'$"),
        (
            {"model__norm__weight": torch.zeros(17)},
            r"'model\.norm\.weight' in .* is \(17,\), the config makes it \(16,\)",
        ),
    ],
)
def test_weights_that_are_not_exactly_the_models(checkpoint: Path, tensors: dict[str, Any], said: str) -> None:
    changed(checkpoint, **tensors)
    with pytest.raises(SpecError, match=f"^weights: .*{said}"):
        capax.measure(TASK, HuggingFace(weights=str(checkpoint)), SHORT, restarts=1)


def test_a_checkpoint_of_other_layers_or_fewer_tokens(checkpoint: Path) -> None:
    with pytest.raises(SpecError, match=r"^weights: .* holds what the model lacks: 'model\.layers\.1"):
        capax.measure(TASK, HuggingFace(weights=str(checkpoint), n_layers=1), SHORT, restarts=1)
    with pytest.raises(SpecError, match=r"^weights: .* lacks 'model\.layers\.2.* and 8 more"):
        capax.measure(TASK, HuggingFace(weights=str(checkpoint), n_layers=3), SHORT, restarts=1)
    with pytest.raises(SpecError, match=r"^vocab_size: the weights in .*llama know 12 tokens, got 13"):
        capax.measure(TASK.replace(vocab_size=13), HuggingFace(weights=str(checkpoint)), SHORT, restarts=1)
    with pytest.raises(SpecError, match=r"^seq_len: the config has 16 positions .* questions of 17 tokens"):
        capax.measure(TASK.replace(seq_len=18), LLAMA, SHORT, restarts=1)


def test_positions_beyond_the_context_are_said() -> None:
    """They count as trained parameters, and no training reaches them."""
    sizes = TASK.sizes()
    spec, fewer = (
        HuggingFace(config={"model_type": "gpt2", "n_positions": n}, n_layers=1, n_heads=2, d_model=8)
        for n in (16, sizes["context"])
    )
    beyond = 16 - sizes["context"]
    (note,) = [one for one in spec.remarks(**sizes) if one.startswith("positions: ")]
    assert note.startswith(f"positions: {beyond} of 16 are beyond {sizes['context']} tokens and never trained")
    assert not any(one.startswith("positions: ") for one in fewer.remarks(**sizes))
    counts = [one.built_counts(**sizes)["trainable"] for one in (spec, fewer)]
    assert counts[0] - counts[1] == 8 * beyond
    assert f"count as {8 * beyond} trainable" in note


def test_a_config_without_heads_takes_none() -> None:
    with pytest.raises(SpecError, match=r"^n_heads: the config of 'mamba' has no num_attention_heads, got 2"):
        HuggingFace(config={"model_type": "mamba"}, n_layers=1, n_heads=2, d_model=8)


def test_nothing_pickled_and_no_code_is_read(checkpoint: Path, tmp_path: Path) -> None:
    for name in ("pytorch_model.bin", "adapter.pt"):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        shutil.copy(checkpoint / "config.json", folder)
        (folder / name).write_bytes(b"cos\nsystem\n")
        with pytest.raises(SpecError, match=f"^weights: .*{name} is pickled, which can run code"):
            HuggingFace(weights=str(folder))
    (folder / name).unlink()
    with pytest.raises(SpecError, match=r"^weights: no \.safetensors in"):
        HuggingFace(weights=str(folder))
    (folder / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(CapaxError, match=r"^(weights|model): "):
        capax.measure(TASK, HuggingFace(weights=str(folder)), SHORT, restarts=1)
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoModelForCausalLM": "m.M"}}))
    for fields in ({"weights": str(checkpoint)}, {"config": str(checkpoint)}):
        with pytest.raises(SpecError, match=r"names classes of its own \(auto_map\)"):
            HuggingFace(**fields)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "^config: is required: a config.json"),
        ({"config": "nowhere"}, r"^config: no such file or folder 'nowhere' \(nothing is downloaded\)"),
        ({"config": "gpt2"}, "^config: no such file or folder 'gpt2'"),
        ({"config": {"model_type": "llamma"}}, "^config: model_type .*got 'llamma'; the nearest are llama"),
        ({"config": {"model_type": "t5"}}, "^config: model_type .*causal language models.*got 't5'"),
        ({"config": {}}, "^config: model_type .*got none"),
        ({"config": {"model_type": ["gpt2"]}}, "^config: model_type .*got "),
        ({"config": 3}, "^config: .*dictionary"),
        ({"config": {"model_type": "gpt2", "auto_map": {}}}, "^config: .*auto_map"),
        ({"config": {"model_type": "gpt2", "attn_implementation": "a/b"}}, "^config: .*attention from elsewhere"),
        (
            {"config": {"model_type": "gpt2", "a": [{"_attn_implementation": "a/b"}]}},
            "^config: .*attention from elsewhere",
        ),
        ({"config": {"model_type": "gpt2", "quantization_config": {"bits": 4}}}, "^config: quantised"),
        (
            {"config": {"model_type": "mixtral", "num_local_experts": 10**9}},
            "^config: num_local_experts: at most 16384",
        ),
        (
            {"config": {"model_type": "llama", "num_key_value_heads": 0}},
            "^config: num_key_value_heads: at least 1, got 0",
        ),
        ({"config": {"model_type": "gpt2", "n_layer": "2"}}, "^n_layers: the config's n_layer .*got '2'"),
        ({"config": {"model_type": "gpt2", "n_layer": True}}, "^n_layers: the config's n_layer .*got True"),
        ({"config": {"model_type": "gpt2", "n_embd": -4}}, "^d_model: the config's n_embd .*got -4"),
        ({"set": {"num_layer": 3}}, "^set: the config of 'gpt2' .*'num_layer'; the nearest are n_layer"),
        ({"set": {"vocab_size": 3}}, "^set: vocab_size is the task's here, got 3"),
        ({"set": {"n_layer": 3}, "n_layers": 2}, "^set: n_layer is n_layers here, which is 2, got 3"),
        ({"set": {"resid_pdrop": "x"}}, "^config: transformers .* refuses it .*resid_pdrop"),
        ({"d_head": 5}, "^d_head: heads of 'gpt2' have d_model / n_heads = 8 channels, got 5"),
        ({"n_layers": 10**6}, "^n_layers: .*at most 1000"),
        ({"n_layers": True}, "^n_layers: should be no truth value"),
        ({"weights": "nowhere"}, "^weights: no such file or folder .*nowhere"),
    ],
    ids=str,
)
def test_what_is_no_model(fields: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    known = {"config": {"model_type": "gpt2", **FAMILIES["gpt2"]}} if fields and "config" not in fields else {}
    with pytest.raises(SpecError, match=said) as refused:
        HuggingFace(**{**known, **fields})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"n_heads": 3}, "^model: transformers refuses gpt2, .* 3 heads.*divisible"),
        ({"d_model": 10**7, "n_heads": 1}, "^memory: this run needs"),
        ({"set": {"attn_implementation": "flash_attention_9"}}, "^set: .*attn_implementation"),
        ({"set": {"activation_function": "wrong"}}, "^model: transformers refuses gpt2.*wrong"),
    ],
    ids=str,
)
def test_what_cannot_be_built(fields: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(CapaxError, match=said):
        capax.measure(TASK, made("gpt2", **fields), SHORT, restarts=1, store=tmp_path / "s.db")


def test_heads_that_cannot_share_keys_are_refused_before_training() -> None:
    config = LLAMA.config | {"num_key_value_heads": 3}
    with pytest.raises(CapaxError, match="num_key_value_heads: should divide num_attention_heads, which is 2, got 3"):
        capax.measure(TASK, LLAMA.replace(config=config, n_heads=2), SHORT, restarts=1)


def test_a_store_names_no_code() -> None:
    """What is read from data is not checked then, but before anything is built of it."""
    data = Run(task=TASK, model=LLAMA).model_dump(mode="json")
    data["model"]["config"]["auto_map"] = {"AutoModelForCausalLM": "somebody/code--m.M"}
    with pytest.raises(SpecError, match=r"^config: .*auto_map"):
        capax.measure(TASK, Run(**data).model, SHORT, restarts=1)


def test_any_number_of_tokens_where_a_config_has_no_limit() -> None:
    """XLNet says so by −1 positions."""
    fields = {"model_type": "xlnet", "d_model": 16, "n_layer": 1, "n_head": 2, "d_inner": 32}
    assert HuggingFace(config=fields).parameter_counts(vocab_size=10, context=5)["trainable"] > 0


def test_the_library_is_needed_to_build_and_not_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text = Run(task=TASK, model=LLAMA).model_dump_json()
    monkeypatch.setattr(HuggingFace, "package", "no-such-library")
    assert Run.model_validate_json(text).model.columns()["num_key_value_heads"] == 1
    with pytest.raises(SpecError, match=r"^model: needs no-such-library: pip install 'capax\[hf\]'"):
        HuggingFace(config="anywhere")  # type: ignore[arg-type]


@pytest.mark.slow
def test_experts_of_a_gpt_oss_keep_inputs_before_outputs() -> None:
    shape = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2, "head_dim": 8}
    experts = {"intermediate_size": 12, "num_local_experts": 3, "num_experts_per_tok": 1}
    model = HuggingFace(config={"model_type": "gpt_oss", **shape, "num_key_value_heads": 1, **experts})
    ensemble = initial(Run(task=TASK, model=model))
    axes = {name.rpartition("experts.")[2]: ensemble.input_axis(name) for name in ensemble.parameters}
    (up,) = [weights for name, weights in ensemble.parameters.items() if name.endswith("experts.gate_up_proj")]
    assert up.shape[1:] == (3, 16, 24)
    assert {name for name, axis in axes.items() if axis == -2} == {"gate_up_proj", "down_proj"}


def test_bounds_and_axes_of_a_gpt2() -> None:
    """Its layers keep their weights as (inputs, outputs); its shape says how many parameters it has."""
    spec = made("gpt2")
    ensemble = initial(Run(task=TASK, model=spec))
    axes = {name: ensemble.input_axis(name) for name in ensemble.parameters}
    (attention,) = [name for name in axes if name.endswith("h.0.attn.c_attn.weight")]
    assert ensemble.parameters[attention].shape[1:] == (16, 48)
    assert axes[attention] == -2
    assert axes[attention.replace("weight", "bias")] == -1
    assert {axes[name] for name in axes if "wte" in name or "ln" in name} == {-1}
    found = capax.bounds(spec, seq_len=16, vocab_size=10)  # as long as the config's positions
    assert found.parameters.morris2025 == found.parameters.trainable
    met = {one.text: one.met for bound in found.bounds if bound.name == "morris2025_fp32" for one in bound.assumptions}
    assert met["GPT-2 with tied embeddings"] is None, "it is not said to be none"
    found = capax.bounds(spec, seq_len=4, vocab_size=10)
    assert found.parameters.trainable == spec.parameter_counts(vocab_size=10, context=3)["trainable"]
    said = {bound.name: bound.reason for bound in found.bounds}
    assert "d_head is not given" not in said.values()


def test_a_model_with_an_encoder_is_refused() -> None:
    """Its sizes by capax's names are the encoder's, of which no part is trained."""
    with pytest.raises(SpecError, match="model_type: of a causal language model without an encoder, got 'bart'"):
        HuggingFace(config={"model_type": "bart", "d_model": 16}, n_layers=1)
