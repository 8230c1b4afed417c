"""Each check fails for a module with exactly its fault, and passes for one without; the module is left as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from usermodels import Bag, Scored, Torch, x_transformers

import capax
from capax.checks.model import ModelReport, check_model
from capax.errors import CapaxError, SpecError
from capax.specs import HuggingFace, Module, Sequences, Transformer

TASK = Sequences(seq_len=6, vocab_size=12, library_size=30)


def seeded(kind: Any, *arguments: Any, seed: int = 0, **given: Any) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made: nn.Module = kind(*arguments, **given)
    return made


def made(kind: Any, **given: Any) -> nn.Module:
    return seeded(kind, 12, 5, **given)


def verdicts(report: ModelReport) -> dict[str, str]:
    return {one.check: one.verdict for one in report.checks}


def evidence(report: ModelReport, check: str) -> str:
    return next(one.evidence for one in report.checks if one.check == check)


def factory(name: str, **arguments: Any) -> Module:
    return Module(factory=f"usermodels:{name}", arguments=arguments)


@pytest.mark.parametrize(
    "model",
    [
        Transformer(n_layers=2, n_heads=2, d_model=8, d_head=4),
        factory("Torch", n_layers=2),
        factory("x_transformers"),
        factory("Scored"),
        lambda: Bag(12, 5, fault="gate"),
    ],
)
def test_sound_models_pass(model: Any) -> None:
    report = capax.check_model(model, TASK)
    found = verdicts(report)
    if found["score scale"] == "cannot be judged":
        assert report.model == "<lambda>"  # the only one without attention
        found["score scale"] = "passed"
    assert set(found.values()) == {"passed"}, report.failed
    assert report.failed == ()
    assert ModelReport.model_validate_json(report.model_dump_json()) == report


def test_our_transformer_that_learns_the_last_token_passes() -> None:
    report = check_model(Transformer(d_model=8), TASK.replace(loss="last"))
    assert verdicts(report)["no look ahead"] == "cannot be judged"
    assert report.failed == ()
    assert report.frozen == ("token", "readout")


@pytest.mark.parametrize(
    ("model", "check", "words"),
    [
        (made(Torch, batch_first=False), "batch independence", "in eval mode"),
        (made(Bag, fault="batch norm"), "batch independence", "in train mode"),
        (made(Bag, fault="deaf"), "tokens reach the score", "positions 1, 2 of 5"),
        (made(Torch, causal=False), "no look ahead", "position 2 changes the scores of position 1"),
        (made(Bag, fault="always dropout"), "nothing random", "differ by"),
        (made(Bag, fault="remembers"), "nothing kept", "in eval mode, a pass over other tokens changes the next"),
        (made(Scored, scale="model"), "score scale", "√d_model = √16, where d_head = 4"),
        (made(Scored, scale="model", early="query"), "score scale", "√d_model = √16, where d_head = 4"),
        (made(Scored, scale="model", early="key"), "score scale", "√d_model = √16, where d_head = 4"),
        (made(Scored, scale="none"), "score scale", "not divided by anything, with d_head = 4"),
        (made(Scored, scale="other"), "score scale", "multiplied by 0.378, where 1/√d_head = 0.5"),
        (made(Bag, fault="unused"), "parameters are trained", "no gradient reaches spare.weight, spare.bias"),
        (factory("Bag", fault="numpy"), "seeds", "one seed gives two sets of weights: readout.weight"),
        (factory("Bag", fault="one seed"), "seeds", "two seeds give the same readout.weight, readout.bias"),
        (lambda: seeded(Bag, 12, 5), "seeds", "two seeds give the same weights in all"),
        (made(Torch, n_layers=2, copied=True), "no tensor twice", "layers.1.self_attn.in_proj_weight = layers.0"),
    ],
    ids=lambda value: "",
)
def test_a_fault_is_found(model: Any, check: str, words: str) -> None:
    report = check_model(model, TASK)
    assert verdicts(report)[check] == "failed"
    assert words in evidence(report, check)
    also = {"batch independence": {"tokens reach the score", "nothing random"}, "nothing random": set(verdicts(report))}
    others = {name for name, verdict in verdicts(report).items() if verdict == "failed"} - {check}
    assert others <= also.get(check, set())


def test_a_look_ahead_does_not_matter_where_the_last_position_alone_is_scored() -> None:
    report = check_model(made(Torch, causal=False), TASK.replace(loss="last"))
    assert verdicts(report)["no look ahead"] == "passed"
    assert "last position" in evidence(report, "no look ahead")


def test_dropout_rates_are_told() -> None:
    report = check_model(made(Torch, dropout=0.25), TASK)
    assert report.failed == ()
    said = evidence(report, "nothing random")
    assert "dropout 0.25 in layers.0.self_attn, layers.0.dropout" in said
    assert "two passes differ" in said


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (Torch, {}),
        *((Scored, {"early": early}) for early in ("query", "key", "both", "")),
        (Scored, {"tied": True}),
        (x_transformers, {}),
    ],
)
def test_the_scale_of_attention_is_seen(kind: Any, arguments: dict[str, Any]) -> None:
    report = check_model(made(kind, **arguments), TASK)
    size = 4 if kind is Scored else 8
    assert evidence(report, "score scale") == f"1 seen: divided by √d_head = √{size}"


def test_items_that_repeat_or_contradict() -> None:
    model = made(Bag)
    items = np.arange(24).reshape(4, 6) % 12
    assert verdicts(check_model(model, TASK, items=items))["library"] == "failed"  # 0 and 2, 1 and 3 are the same
    items = np.array([[0, 1, 2, 3, 4, 5], [1, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 6]])
    report = check_model(model, TASK, items=items)
    assert evidence(report, "library") == (
        "1 of 3 contradict others (one prefix, two targets); the first with one prefix: items 1 and 3"
    )
    assert verdicts(check_model(model, TASK, items=items[:2]))["library"] == "passed"
    whole = check_model(model, TASK.replace(recall="all"), items=np.array([[0, 1, 2, 3, 4, 5], [0, 2, 2, 3, 4, 5]]))
    assert "one first token, two sequences" in evidence(whole, "library")


def test_parameters_that_the_optimizer_lacks() -> None:
    model = made(Bag, fault="frozen")
    held = torch.optim.SGD([model.positions], lr=0.1)
    held.add_param_group({"params": [model.readout.bias], "lr": 0.0})
    report = check_model(model, TASK, optimizer=held)
    said = evidence(report, "parameters are trained")
    assert "the optimizer does not train readout.weight, readout.bias" in said
    assert said.endswith("frozen: tokens.weight")
    whole = check_model(model, TASK, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    assert verdicts(whole)["parameters are trained"] == "passed"


@pytest.mark.parametrize("training", [True, False])
def test_the_module_is_left_as_it_was(training: bool) -> None:
    model = made(Torch, dropout=0.2).train(training)
    model.norm.eval()
    model.batch_norm = nn.BatchNorm1d(3)
    model.tokens.weight.grad = torch.ones_like(model.tokens.weight)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    modes = [one.training for one in model.modules()]
    random, fast = torch.get_rng_state(), torch.backends.mha.get_fastpath_enabled()
    check_model(model, TASK)
    assert torch.equal(random, torch.get_rng_state())
    assert torch.backends.mha.get_fastpath_enabled() == fast
    assert [one.training for one in model.modules()] == modes
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(model.tokens.weight.grad, torch.ones_like(model.tokens.weight))
    assert model.positions.weight.grad is None


@pytest.mark.parametrize(
    ("model", "given", "said"),
    [
        (3, {}, "model.*int"),
        (made(Bag, fault="tuple"), {}, "Bag.*tensor"),
        (made(Bag, fault="all frozen"), {}, "module.*parameter"),
        (seeded(Torch, 12, 3), {}, "module.*Torch"),
        (made(Bag), {"items": np.zeros((2, 5), int)}, r"items.*6.*2, 5"),
        (made(Bag), {"items": np.full((2, 6), 12)}, r"items.*0\.\.11"),
        (Transformer(), {"optimizer": torch.optim.SGD([torch.zeros(1)], lr=0.1)}, "optimizer"),
        (lambda: 3, {}, "module.*int"),
    ],
)
def test_what_cannot_be_checked(model: Any, given: dict[str, Any], said: str) -> None:
    with pytest.raises(CapaxError, match=said) as refused:
        check_model(model, TASK, **given)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_libraries_of_other_tasks_are_judged_by_what_can_be_recalled(tmp_path: Path) -> None:
    """Rows of facts and people all begin with one token, which is no contradiction."""
    (tmp_path / "two.csv").write_text("key,answer\na,x\nb,y\nc,x\n")
    (tmp_path / "ambiguous.csv").write_text("key,answer\na,x\na,y\nc,x\n")
    facts = capax.Facts(library=str(tmp_path / "two.csv"), tokenization="words")
    kept = capax.Facts(library=str(tmp_path / "ambiguous.csv"), tokenization="words", ambiguous="keep")
    people = capax.Biographies(library_size=20, reduction=10)
    found = {task: verdicts(check_model(Transformer(d_model=8), task))["library"] for task in (facts, kept, people)}
    assert found == {facts: "passed", kept: "failed", people: "passed"}


def test_items_of_several_lengths_are_refused() -> None:
    with pytest.raises(SpecError, match="items: should be an array of numbers, with rows of one length, got"):
        check_model(Transformer(d_model=8), TASK, items=[[1, 2, 3, 4, 5, 6], [1]])


@pytest.mark.parametrize("recall", ["last", "all"])
def test_items_of_the_library_that_repeat_others_are_named(recall: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0 1 2\n3 1 2\n0 1 2\n")
    task = Sequences(library=str(tmp_path / "a.txt"), vocab_size=4, duplicates="keep", recall=recall)
    report = check_model(Transformer(d_model=8), task)
    assert verdicts(report)["library"] == "failed"
    assert "1 of 3 repeat others" in next(one.evidence for one in report.checks if one.check == "library")


@pytest.mark.slow
def test_what_is_set_and_not_drawn_is_no_fault() -> None:
    """Mamba begins every layer with one A, log 1 to log n in each row, whatever the seed."""
    config = {"model_type": "mamba", "num_hidden_layers": 2, "hidden_size": 16, "state_size": 4}
    found = verdicts(check_model(HuggingFace(config=config), TASK))
    assert (found["seeds"], found["no tensor twice"]) == ("passed", "passed")
