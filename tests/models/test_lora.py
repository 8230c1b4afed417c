"""Low-rank adapters: peft over a frozen base that all members share."""

from __future__ import annotations

import json
import math
import shutil
import warnings
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from made_base import SHAPE, TEXT, TOKENS, write_base
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

import capax
from capax.cli import main
from capax.errors import SpecError
from capax.models import lora
from capax.models.module import ModuleEnsemble, stack
from capax.planning.facts import promised
from capax.specs import Lora, Run, Sequences, Training
from capax.specs.model import freedom
from capax.sweeps.grid import read_study
from capax.testing import ModelSuite
from capax.testing.trained import pack
from capax.training.loop import Course

TASK = Sequences(seq_len=5, vocab_size=9, library_size=12, loss="all")
SIZES = {"vocab_size": 9, "context": 4}
SHORT = Training(max_epochs=3, lr=0.01)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_base(tmp_path_factory.mktemp("base"))


def made(base: Path, **fields: Any) -> Lora:
    return Lora(base=str(base), **{"lora": {"r": 2}, **fields})


@pytest.mark.slow
class TestLora(ModelSuite):
    task: ClassVar = TASK

    @pytest.fixture(autouse=True)
    def _of_the_base(self, base: Path) -> None:
        type(self).model = made(base)


@pytest.mark.parametrize(
    "options", [{"r": 2}, {"r": 3, "lora_alpha": 5, "use_rslora": True}, {"r": 2, "use_dora": True}]
)
def test_scores_and_gradients_are_those_of_peft(base: Path, options: dict[str, Any]) -> None:
    spec, tokens = made(base, lora=options), torch.tensor([[1, 2, 0, 8], [0, 0, 3, 4]])
    ours = spec.torch_module(SIZES, 7)
    network = AutoModelForCausalLM.from_pretrained(base)
    names = [n for n, one in network.named_modules() if isinstance(one, torch.nn.Linear) and n != "lm_head"]
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft asks transformers what it deprecates
        torch.manual_seed(7)
        theirs = get_peft_model(network, LoraConfig(**options, target_modules=names))
    for one in (ours, theirs):  # the second factor begins at zero, where gradients of the first vanish
        with torch.no_grad(), torch.random.fork_rng():
            torch.manual_seed(1)
            for name, parameter in one.named_parameters():
                if parameter.requires_grad:
                    parameter.copy_(torch.randn(parameter.shape) * 0.3 + ("magnitude" in name))
    mine, other = ours(tokens), theirs(input_ids=tokens).logits[..., :9]
    assert torch.equal(mine, other)
    trained = [[p for p in one.parameters() if p.requires_grad] for one in (ours, theirs)]
    grads = [torch.autograd.grad(s.square().sum(), p) for s, p in zip((mine, other), trained, strict=True)]
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))
    assert all(grad.any() for grad in grads[0])


def test_members_share_the_base_and_are_each_their_own(base: Path) -> None:
    spec = made(base)
    modules = [spec.torch_module(SIZES, seed).double() for seed in range(3)]
    for place, one in enumerate(modules):
        for number, parameter in enumerate(p for p in one.parameters() if p.requires_grad):
            generator = torch.Generator().manual_seed(10 * place + number)
            parameter.data.normal_(0, 0.5, generator=generator)
    stacked, common = stack(modules[0], modules[1:], spec)
    assert all("lora_" in name for name in stacked)
    assert all("lora_" not in name for name in common)
    tokens = torch.randint(9, (3, 4, 4), generator=torch.Generator().manual_seed(0))
    leaves = {name: tensor.requires_grad_() for name, tensor in stacked.items()}
    together = ModuleEnsemble(spec, leaves, modules[0], together=True, common=common)
    scores = together.logits(tokens)
    alone = torch.stack([one(row) for one, row in zip(modules, tokens, strict=True)])
    assert torch.allclose(scores, alone, rtol=1e-10, atol=1e-10)
    found = torch.autograd.grad(scores.square().sum(), list(leaves.values()))
    expected = torch.autograd.grad(
        alone.square().sum(), [p for m in modules for p in m.parameters() if p.requires_grad]
    )
    for place, grad in enumerate(found):
        one = torch.stack([expected[member * len(found) + place] for member in range(3)])
        assert torch.allclose(grad, one, rtol=1e-10, atol=1e-10)
    whole = sum(p.numel() for p in modules[0].parameters())
    assert together.parameter_counts()["total"] == whole
    picked = together.select(torch.tensor([2]))
    assert torch.allclose(picked.logits(tokens[2:]), scores[2:], rtol=1e-10, atol=1e-10)


def test_a_place_that_the_base_lacks_is_not_offered(tmp_path: Path) -> None:
    """Experts are parameters, not linear layers."""
    base = write_base(tmp_path, "mixtral", **SHAPE, num_local_experts=2, num_experts_per_tok=1)
    with pytest.raises(SpecError, match="'mlp' matches no linear layer of the base; it has attention, k_proj"):
        made(base).parameter_counts(**SIZES)
    assert made(base, targets="attention").parameter_counts(**SIZES)["trainable"] > 0


def test_a_member_that_would_change_the_base_is_refused(base: Path) -> None:
    spec = made(base)
    modules = [spec.torch_module(SIZES, seed) for seed in range(2)]
    next(p for p in modules[1].parameters() if not p.requires_grad).data += 1
    with pytest.raises(capax.CapaxError, match="which is frozen, differs"):
        stack(modules[0], modules[1:], spec)


@pytest.mark.slow
def test_a_run_trains_the_adapter_alone_and_says_what_the_base_loses(base: Path, tmp_path: Path) -> None:
    spec, store = made(base), tmp_path / "s.db"
    run = capax.measure(TASK, spec, Training(max_epochs=40, lr=0.05), restarts=2, store=store, keep_weights=True)
    tensors = load_file(base / "model.safetensors")
    assert run.parameters.total - run.parameters.trainable == sum(one.numel() for one in tensors.values())
    assert "module: members together (torch.vmap)" in run.notes
    # an independent count of both losses, with peft and the kept adapter
    kept = load_file(next((tmp_path / "s.db-weights").glob(f"{run.key}.safetensors")))
    assert all("lora_" in name for name in kept)
    module = spec.torch_module(SIZES, 0)
    held_out = lora.held_out_tokens(spec)
    names = dict(module.named_parameters())
    network = module.network

    def loss() -> float:
        with torch.no_grad():
            scores = network(input_ids=held_out).logits.double()
        return float(F.cross_entropy(scores[:, :-1].flatten(0, 1), held_out[:, 1:].flatten()))

    assert run.metrics["base_loss"] == pytest.approx(loss(), abs=1e-5)
    for name, tensor in kept.items():
        names[name].data.copy_(tensor)
    assert run.metrics["base_loss_after"] == pytest.approx(loss(), abs=1e-5)
    assert run.metrics["base_loss_after"] != pytest.approx(run.metrics["base_loss"], abs=1e-3)
    memory = capax.load(run.key, store)
    assert sum(memory.recall(item[:-1].tolist()).agrees for item in memory.library) == run.memorized  # type: ignore
    (row,) = capax.read(store).iter_rows(named=True)
    assert (row["r"], row["n_layers"], row["d_model"], row["targets"]) == (2, 2, 16, "attention,mlp")


@pytest.mark.slow
def test_a_training_that_was_cut_off_goes_on(base: Path) -> None:
    whole, cut = (Course(pack(TASK, made(base), SHORT, members=(0, 1))) for _ in range(2))
    for course, steps in ((whole, 3), (cut, 1)):
        for _ in range(steps):
            course.step(lambda: False)
    again = Course(cut.pack, cut.snapshot(0.0))
    for _ in range(2):
        again.step(lambda: False)
    for one, other in zip(whole.outcomes(), again.outcomes(), strict=True):
        assert (one.curve, one.metrics) == (other.curve, other.metrics)
        assert "base_loss_after" in one.metrics


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_targets_are_places_or_names(kind: str, tmp_path: Path) -> None:
    """GPT-2's layers are of a class of its own."""
    gpt2 = {"n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 64}
    folder = write_base(tmp_path / "base", kind, **({} if kind == "llama" else gpt2))

    def layers(targets: str) -> set[str]:
        spec = made(folder, targets=targets)
        return {one.name.rpartition(".lora_A")[0] for one in spec.parameters(**SIZES) if ".lora_A." in one.name}

    attention, mlp, both = layers("attention"), layers("mlp"), layers("mlp, attention")
    assert attention | mlp == both
    assert not attention & mlp
    assert len(attention) == (8 if kind == "llama" else 4)
    assert len(mlp) == (6 if kind == "llama" else 4)
    assert layers("q_proj" if kind == "llama" else "c_attn") < attention


@pytest.mark.slow
def test_effective_parameters_are_the_rank_of_the_derivative(base: Path) -> None:
    spec = made(base, lora={"r": 2}, targets="mlp,q_proj")
    module = spec.torch_module({"vocab_size": TOKENS, "context": 20}, 0).double()
    trained = [p for p in module.parameters() if p.requires_grad]
    for number, parameter in enumerate(trained):
        parameter.data.normal_(0, 0.3, generator=torch.Generator().manual_seed(number))
    tokens = torch.randint(TOKENS, (12, 20), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        hidden = module.network.base_model.model.model
    scores = hidden(input_ids=tokens).last_hidden_state
    rows = scores.flatten()[torch.randperm(scores.numel(), generator=torch.Generator().manual_seed(1))[:700]]
    each = torch.autograd.grad(rows, trained, torch.eye(700, dtype=torch.float64), is_grads_batched=True)
    derivative = torch.cat([one.flatten(1) for one in each], dim=1)
    sizes = {"vocab_size": TOKENS, "context": 20}
    assert int(torch.linalg.matrix_rank(derivative, rtol=1e-9)) == spec.effective_parameters(**sizes)
    assert spec.parameter_counts(**sizes)["trainable"] == derivative.shape[1] > spec.effective_parameters(**sizes)
    assert freedom(16, 2, 24) == 2 * (16 + 24 - 2)


@pytest.mark.slow
def test_a_run_is_known_by_the_content_of_its_base(base: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(base, tmp_path / "moved")
    here, there = (Run(task=TASK, model=made(one)) for one in (base, moved))
    assert here.key() == there.key()
    assert Run(task=TASK, model=made(base, targets="mlp")).key() != here.key()
    assert Run(task=TASK, model=made(base, lora={"r": 3})).key() != here.key()
    text = here.model_dump_json()
    again = Run.model_validate_json(text)
    assert again.model == here.model
    assert again.key() == here.key()
    (moved / "held-out.txt").write_text(TEXT + TEXT)
    assert Run(task=TASK, model=made(moved)).key() != here.key()
    with pytest.raises(SpecError, match=r"held_out.*has changed"):
        capax.measure(TASK, there.model, SHORT)
    (moved / "held-out.txt").write_text(TEXT)
    weights = (moved / "model.safetensors").read_bytes()
    (moved / "model.safetensors").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    with pytest.raises(SpecError, match=r"weights.*has changed"):
        capax.measure(TASK, there.model, SHORT)


@pytest.mark.very_slow
def test_a_shuffled_base_is_a_control_that_all_runs_share(base: Path, tmp_path: Path) -> None:
    """Its shape, tokens and numbers are the checkpoint's, in another order that no seed changes."""
    spec, theirs = made(base, base_weights="shuffled"), made(base)
    modules = [one.torch_module(SIZES, seed) for one, seed in ((spec, 0), (spec, 1), (theirs, 0))]
    frozen = [{n: p for n, p in one.named_parameters() if not p.requires_grad} for one in modules]
    assert frozen[0].keys() == frozen[2].keys()
    drawn = [name for name, tensor in frozen[0].items() if tensor.std() > 0]
    assert len(drawn) > 5
    for name in drawn:
        assert torch.equal(frozen[0][name], frozen[1][name])
        assert frozen[0][name].shape == frozen[2][name].shape
        assert not torch.equal(frozen[0][name], frozen[2][name])
        assert torch.equal(frozen[0][name].flatten().sort()[0], frozen[2][name].flatten().sort()[0])
    keys = {Run(task=TASK, model=one).key() for one in (spec, theirs, made(base, base_weights="checkpoint"))}
    assert len(keys) == 2
    assert spec.effective_parameters(**SIZES) == theirs.effective_parameters(**SIZES)
    run = capax.measure(TASK, spec, SHORT, restarts=2, store=tmp_path / "s.db")
    assert run.metrics["base_loss"] > 0.9 * math.log(TOKENS)
    assert any("weights shuffled" in note for note in run.notes)
    assert "weights shuffled" in run.spec.model.name
    assert capax.read(tmp_path / "s.db")["base_weights"].to_list() == ["shuffled"]


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"base_weights": "none"}, "base_weights: "),
        ({"lora": {}}, "lora: r=RANK is required"),
        ({"lora": {"r": 0}}, "lora: r=RANK is required"),
        ({"lora": {"r": 17}}, "lora: r: at most the base's width 16, got 17"),
        ({"lora": {"r": 2, "init_lora_weights": "pissa"}}, "init_lora_weights that leaves the base as it is"),
        ({"lora": {"r": 2, "bias": "all"}}, "bias 'none', which leaves the base as it is, got 'all'"),
        ({"lora": {"r": 2, "use_dora": "False"}}, "lora: use_dora should be true or false, got the word 'False'"),
        ({"lora": {"r": 2, "alpha": 3}}, "lora: .*no option 'alpha'.*lora_alpha"),
        ({"lora": {"r": 2, "target_modules": "q_proj"}}, "lora: not target_modules: targets say where"),
        ({"lora": {"r": 2, "modules_to_save": ["lm_head"]}}, "lora: not modules_to_save: .* left as it is"),
        ({"lora": {"r": 2, "layer_replication": [[0, 1], [0, 1]]}}, "lora: not layer_replication: "),
        ({"lora": {"r": 2, "use_dora": "maybe"}}, "lora: use_dora should be true or false, got 'maybe'"),
        ({"lora": {"r": 2, "use_rslora": 1}}, "lora: use_rslora should be true or false, got 1"),
        ({"lora": {"r": 2, "rank_pattern": {"q_proj": 17}}}, "lora: rank_pattern: ranks from 1 to .* 16, got 17"),
        ({"lora": {"r": 2, "rank_pattern": {"nope": 4}}}, "lora: rank_pattern: 'nope' matches no layer"),
        ({"lora": {"r": 2, "alpha_pattern": {"(": 4}}}, "lora: alpha_pattern: '.' matches no layer"),
        ({"lora": {"r": 2, "alpha_pattern": {"q_proj": 0}}}, "lora: alpha_pattern: factors above 0, got 0"),
        ({"lora": {"r": 2, "lora_dropout": 1.0}}, "lora: lora_dropout from 0 to below 1, got 1.0"),
        ({"lora": {"r": 2, "lora_alpha": float("nan")}}, "lora"),
        ({"lora": {"r": 2, "lora_alpha": 0}}, "lora: lora_alpha above 0, .* got 0"),
        ({"lora": {"r": 2, "lora_alpha": "much"}}, "lora: lora_alpha above 0, .* got 'much'"),
        ({"targets": "heads"}, "^targets: 'heads' matches no linear layer.*attention, mlp"),
        ({"targets": "lm_head"}, "targets: 'lm_head' matches no linear layer"),
        ({"base": "/nowhere"}, "base: no such file or folder '/nowhere'"),
        ({"held_out": "/nowhere.txt"}, "held_out: no such file"),
    ],
)
def test_bad_input_is_one_line(base: Path, fields: dict[str, Any], match: str) -> None:
    with pytest.raises(SpecError, match=match) as error:
        made(**{"base": base, **fields})
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [("megatron_core", "nowhere.at_all"), ("modules_to_save", ["lm_head"]), ("init_lora_weights", "pissa")],
)
def test_what_a_store_says_of_an_adapter_is_checked_when_it_is_built(base: Path, option: str, value: Any) -> None:
    """A spec of a store is not checked when it is read, and peft would import what some options name."""
    spec = made(base)
    stored = spec.model_copy(update={"lora": {**spec.lora, option: value}})
    with pytest.raises(SpecError, match=f"^lora: .*{option}"):
        lora.make(stored, 10, 8)


def test_held_out_text_is_read_whole_whatever_its_tokenizer_would_cut(base: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    shutil.copytree(base, cut)
    tokenizer = json.loads((cut / "tokenizer.json").read_text())
    tokenizer["truncation"] = {"direction": "Right", "max_length": 70, "strategy": "LongestFirst", "stride": 0}
    plain = lora.held_out_tokens(made(base))
    (cut / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert torch.equal(lora.held_out_tokens(made(cut)), plain)


def test_a_base_without_its_parts_is_refused(base: Path, tmp_path: Path) -> None:
    for name, match in {
        "held-out.txt": "held_out: is required",
        "tokenizer.json": "held_out: .*no tokenizer.json",
        "model.safetensors": "base: no .safetensors",
    }.items():
        folder = shutil.copytree(base, tmp_path / name)
        (folder / name).unlink()
        with pytest.raises(SpecError, match=match):
            made(folder)
    folder = shutil.copytree(base, tmp_path / "short")
    (folder / "held-out.txt").write_text("short")
    with pytest.raises(SpecError, match=r"held_out: .* has \d+ tokens; at least 64 are needed"):
        made(folder)
    with pytest.raises(SpecError, match=r"vocab_size: the base in .* knows 280 tokens, got 300"):
        capax.measure(TASK.replace(vocab_size=300), made(base), SHORT)


def test_a_study_names_a_base_beside_it(base: Path, tmp_path: Path) -> None:
    shutil.copytree(base, tmp_path / "base")
    (tmp_path / "s.toml").write_text(
        '[task]\nlibrary_size = 8\n[model]\nmodel = "lora"\nbase = "base"\n[grid]\n'
        'lora = [{r = 1}, {r = 2, use_dora = true}]\ntargets = ["mlp", "attention"]\n'
    )
    runs = read_study(tmp_path / "s.toml").runs
    models: list[Any] = [run.model for run in runs]
    assert [(one.rank, one.kind, one.targets) for one in models] == [
        (1, "LoRA", "mlp"),
        (1, "LoRA", "attention"),
        (2, "DoRA", "mlp"),
        (2, "DoRA", "attention"),
    ]
    assert {one.base for one in models} == {str(tmp_path / "base")}
    assert len({run.key() for run in runs}) == 4


def test_others_see_names_without_folders(base: Path) -> None:
    seen = made(base).without_folders(lambda path: Path(path).name)
    assert str(base.parent) not in seen.model_dump_json()
    assert seen.canonical() == made(base).canonical()


@pytest.mark.slow
def test_the_flag_of_a_base_chooses_the_model_and_its_tokens(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "f.tsv").write_text("key\tanswer\n" + "".join(f"k{n}\ta{n}\n" for n in range(9)))
    given = ["measure", "facts", str(tmp_path / "f.tsv"), "--base", str(base), "--lora", "r=2", "--max-epochs", "1"]
    given += ["--restarts", "1", "--workers", "1", "--store", str(tmp_path / "s.db"), "--json"]

    def spec(*more: str) -> dict[str, Any]:
        with pytest.raises(SystemExit) as ended:
            main([*given, *more])
        out, err = capsys.readouterr()
        assert ended.value.code == 0, err
        found: dict[str, Any] = json.loads(out)["spec"]
        return found

    first = spec()
    assert (first["model"]["model"], first["model"]["lora"]) == ("lora", {"r": 2})
    assert (first["task"]["tokenization"], first["task"]["tokenizer"]) == ("bpe", str(base))
    assert first["training"]["lr"] == 0.01
    assert spec("--tokenization", "code", "--lr", "0.5")["task"]["tokenizer"] is None
    for more, line in {
        ("--lora", "r=3"): "lora: r is given twice",
        ("--base", "/nowhere"): "base: no such file or folder '/nowhere' (nothing is downloaded)",
    }.items():
        with pytest.raises(SystemExit) as ended:
            main([*(word for word in given if more[0] == "--lora" or word not in ("--base", str(base))), *more])
        assert ended.value.code == 2
        assert capsys.readouterr().err == f"capax: {line}\n"


@pytest.mark.slow
def test_a_kept_model_becomes_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(TEXT + TEXT[::-1])
    text = capax.Text(library=str(tmp_path / "text.txt"), bpe_size=280, seq_len=8)
    model = capax.HuggingFace(config={"model_type": "llama", **SHAPE}, set={})
    store = tmp_path / "s.db"
    run = capax.measure(text, model, Training(max_epochs=3), restarts=1, store=store, keep_weights=True)
    written = capax.checkpoint(run.key, tmp_path / "out", store)
    assert written.files == ("config.json", "model.safetensors", "held-out.txt", "tokenizer.json")
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    memory: Any = capax.load(run.key, store)
    tokens = torch.from_numpy(memory.library[:3, :-1])
    with torch.no_grad():
        expected = memory.model.logits(tokens[None], "all")[0]
        assert torch.allclose(theirs(input_ids=tokens).logits, expected, atol=1e-5)
    again = Lora(base=str(tmp_path / "out"), lora={"r": 1}, held_out=str(tmp_path / "text.txt"))
    assert again.known_tokens == text.vocab_size + 1
    half = capax.checkpoint(run.key, tmp_path / "half", store, precision="bfloat16")
    assert half.parameters == written.parameters
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("out", "half")]
    assert sizes[1] < 0.6 * sizes[0]
    rounded = AutoModelForCausalLM.from_pretrained(tmp_path / "half", dtype=torch.float32).state_dict()
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(rounded[name], tensor.bfloat16().float())
    with pytest.raises(capax.CapaxError, match="precision: float32 or bfloat16, got 'int8'"):
        capax.checkpoint(run.key, tmp_path / "half", store, precision="int8")  # type: ignore[arg-type]
    plain = capax.measure(TASK, capax.Transformer(d_model=8), SHORT, restarts=1, store=store, keep_weights=True)
    with pytest.raises(capax.CapaxError, match=r"key: run .* should be of model 'hf', got 'transformer'"):
        capax.checkpoint(plain.key, tmp_path / "out", store)
    tokens_alone = capax.measure(TASK, model, Training(max_epochs=1), restarts=1, store=store, keep_weights=True)
    with pytest.raises(capax.CapaxError, match=r"folder: .*out has tokenizer.json of another model"):
        capax.checkpoint(tokens_alone.key, tmp_path / "out", store)
    assert capax.checkpoint(tokens_alone.key, tmp_path / "alone", store).files == ("config.json", "model.safetensors")


@pytest.mark.very_slow
def test_a_report_of_adapters_on_facts_is_written(base: Path, tmp_path: Path) -> None:
    """No plan of networks that learn from scratch speaks of them; paths stay at home."""
    (tmp_path / "f.tsv").write_text("key\tanswer\n" + "".join(f"k{n}\ta{n}\n" for n in range(9)))
    task = capax.Facts(library=str(tmp_path / "f.tsv"), tokenizer=str(base))
    for rank in (1, 2):
        capax.measure(task, made(base, lora={"r": rank}), SHORT, restarts=1, store=tmp_path / "s.db")
    with pytest.raises(capax.CapaxError, match="model: one that plans are made of"):
        promised(task, made(base), 0.9)
    capax.report([tmp_path / "s.db"], out=tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "LoRA of rank 1" in page
    assert str(tmp_path) not in page
    assert str(base.parent) not in page
