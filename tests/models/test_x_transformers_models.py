"""x-transformers as a model of capax: every option, checked by the library; the same numbers as the native variant."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pytest
import torch
from reference import assert_same, from_x_transformers, random_tokens, stacked
from x_transformers import TransformerWrapper

import capax
from capax.errors import CapaxError, SpecError
from capax.specs import Run, Sequences, Training, XTransformers
from capax.store.schema import Summary
from capax.sweeps.grid import read_study
from capax.testing import ModelSuite
from capax.testing.trained import pack, recalled, same_when_taken_up

TASK = Sequences(seq_len=5, vocab_size=9, library_size=12)
SIZES = {"vocab_size": 9, "context": 4}
SHAPE: dict[str, Any] = {"n_layers": 1, "n_heads": 2, "d_model": 8, "d_head": 4}
TODAY = {"rotary_pos_emb": True, "rotary_emb_dim": 4, "attn_kv_heads": 1, "ff_glu": True, "ff_swish": True}
SHORT = Training(max_epochs=3, lr=0.01)


def made(options: dict[str, Any], **sizes: int) -> XTransformers:
    return XTransformers(**{**SHAPE, **sizes}, set=options)


class TestADecoderOfToday(ModelSuite):
    model, task = made({**TODAY, "use_rmsnorm": True}), TASK


@pytest.mark.very_slow
class TestADecoderThatNoVariantIs(ModelSuite):
    model: ClassVar = made({"attn_qk_norm": True, "ff_relu_squared": True, "num_memory_tokens": 2})
    task = TASK.replace(loss="last")


TIED = [{"tie_embedding": True, "tie_embedding_scale": 1}]
HAS_SCALE = "tie_embedding_scale" in signature(TransformerWrapper).parameters
"""Versions before 2.31 do not know the scale of a tied read-out, without which it is no variant of ours."""


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"attn_kv_heads": 2, "attn_value_dim_head": 3},
        {"attn_one_kv_head": True, "use_abs_pos_emb": False},
        {"attn_max_attend_past": 2, "ff_swish": True},
        {"alibi_pos_bias": True, "use_abs_pos_emb": False},
        {"ff_glu": True, "pre_norm": False},
        {"use_rmsnorm": True, "attn_project_out": True, "attn_flash": False},
        *(TIED if HAS_SCALE else []),
        {**TODAY, "attn_kv_heads": 2, "use_rmsnorm": True},
    ],
    ids=str,
)
def test_the_native_variant_has_its_scores(options: dict[str, Any]) -> None:
    """From the same weights, and as many of them; nothing is at its first value."""
    spec = made(options, n_heads=4, n_layers=2)
    module, native = spec.torch_module(SIZES, 0).double(), spec.native()
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=noise, dtype=parameter.dtype)
    state = module.state_dict()
    gain = "g" if native.norm == "rms" else "gamma"
    tensors = from_x_transformers({"to_logits.weight": torch.empty(0), **state}, native, gain=gain, gain_offset=1.0)
    if native.readout == "tied":
        del tensors["readout"]
    tokens = random_tokens(1, 5, 4, 9, seed=2)
    assert_same(stacked(native, [tensors]).logits(tokens)[0], module(tokens[0]), 3e-6, "scores")
    assert native.parameter_counts(**SIZES) == spec.parameter_counts(**SIZES)
    assert native.effective_parameters(**SIZES) == spec.effective_parameters(**SIZES)
    assert "--native" in spec.remarks(**SIZES)[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rotary_pos_emb": True}, "turn all 4 channels .*got 2"),
        ({"alibi_pos_bias": True}, "table of positions"),
        ({"tie_embedding": True}, "has tie_embedding"),
        ({"attn_talking_heads": 3, "ff_mult": 2}, "has .*ff_mult 2"),
        ({"attn_dropout": 0.1}, "has attn_dropout 0.1"),
        ({"attn_kv_heads": "two"}, "has attn_kv_heads two"),
        ({"scaled_sinu_pos_emb": True}, "has scaled_sinu_pos_emb"),
        ({"attn_project_out": False}, "has attn_project_out False"),
        ({"pre_norm": 0}, "has pre_norm 0"),
        ({"ff_glu": 1}, "has ff_glu 1"),
        ({"use_abs_pos_emb": 1, "alibi_pos_bias": True}, "has use_abs_pos_emb 1, alibi_pos_bias"),
        ({"alibi_pos_bias": True, "use_abs_pos_emb": False, "alibi_num_heads": 1}, "all 2 heads .*got 1"),
        ({"alibi_pos_bias": True, "rotary_pos_emb": True}, "rotary positions and alibi"),
        ({"attn_kv_heads": True}, "has attn_kv_heads"),
    ],
)
def test_what_no_variant_has_is_named(options: dict[str, Any], said: str) -> None:
    spec = XTransformers.model_construct(**SHAPE, set=options, package_version="1")
    with pytest.raises(SpecError, match=f"^native: .*{said}"):
        spec.native()
    assert spec.remarks() == ("model: by x-transformers 1",)


@pytest.mark.slow
def test_it_is_measured_stored_listed_and_recalled_without_trust(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    spec = made({"attn_qk_norm": True, "attn_kv_heads": 1, "ff_mult": 2})
    run = capax.measure(TASK, spec, Training(lr=0.02, max_epochs=60), restarts=2, store=store, keep_weights=True)
    assert run.memorized > 4
    assert run.notes == (f"model: by {spec.library}", "module: members together (torch.vmap)")
    module = spec.torch_module(SIZES, 0)
    assert run.parameters.total == sum(one.numel() for one in module.parameters())
    assert recalled(run, store) == run.memorized
    (row,) = capax.read(store).iter_rows(named=True)
    known = {"n_layers": 1, "n_heads": 2, "d_model": 8, "attn_kv_heads": 1, "attn_qk_norm": True, "ff_mult": 2}
    assert {name: row[name] for name in known} == known
    summary = Summary.of(run)
    assert (summary.n_layers, summary.n_heads, summary.d_model) == (1, 2, 8)
    assert capax.Measurement.from_json(run.to_json()) == run


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [capax.Mls(first_size=4, seeds=4, max_trainings=8), capax.Capacity(restarts=2)])
def test_searches_and_capacities_take_it(protocol: Any) -> None:
    training = SHORT if protocol.protocol == "mls" else Training(max_steps=20, cycle_steps=10)
    run = capax.measure(TASK, made({"attn_gate_values": True}), training, protocol=protocol)
    assert (run.search or run.capacity) is not None


def test_a_training_with_dropout_goes_on_where_it_was() -> None:
    assert same_when_taken_up(pack(TASK, made({"attn_dropout": 0.3, "ff_dropout": 0.2}), SHORT, [0, 1]), 1)


def test_options_are_an_axis_of_studies_and_laws(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        '[task]\nlibrary_size = 8\n[model]\nmodel = "x-transformers"\nn_heads = 4\nset = {ff_mult = 2}\n[grid]\n'
        "set = [{attn_kv_heads = 1}, {attn_kv_heads = 2, rotary_pos_emb = true}]\nd_model = [8, 16]\n"
    )
    runs = read_study(tmp_path / "s.toml").runs
    assert [run.model.columns().get("rotary_pos_emb") for run in runs] == [None, None, True, True]
    assert [run.model.d_model for run in runs] == [8, 16, 8, 16]  # type: ignore[attr-defined]
    (tmp_path / "s.toml").write_text('[model]\nmodel = "x-transformers"\n[grid]\npackage_version = ["1"]\n')
    with pytest.raises(SpecError, match=r"package_version: no such axis; allowed are .*set"):
        read_study(tmp_path / "s.toml")


def test_a_law_and_a_plan_are_over_its_own_numbers() -> None:
    models = [made({"ff_mult": mult, "ff_glu": True}, d_model=width) for mult in (1, 2, 3, 4) for width in (8, 16, 24)]
    noise = torch.Generator().manual_seed(0)
    rows = []
    for model in models:
        columns = {n: v for n, v in model.columns().items() if not isinstance(v, dict)} | {"set": None}
        held = 0.5 * model.given()["ff_mult"] ** 0.5 * model.d_model**0.8
        told = {"set": f'{{"ff_glu": true, "ff_mult": {model.given()["ff_mult"]}}}'}
        counts = {"trainable_parameters": model.parameter_counts(**TASK.sizes())["trainable"]}
        held *= 1 + 0.01 * float(torch.randn((), generator=noise))
        rows.append(
            TASK.replace(library_size=99).model_dump(mode="json") | columns | told | counts | {"memorized": held}
        )
    table = pl.DataFrame(rows, infer_schema_length=None)
    law = capax.PowerLaw(axes=["ff_mult", "d_model"], target="memorized", n_bootstrap=50).fit(table)
    assert law.parameters_["ff_mult"] == pytest.approx(0.5, abs=0.05)
    found = capax.plan(law, 3, n_layers=1, n_heads=2, d_head=4, ff_mult=[1, 2])
    assert {row.ff_mult for row in found.architectures} <= {1, 2}
    (first, *_) = found.architectures
    sizes = {"d_model": first.d_model, "n_heads": 2, "d_head": 4}
    same = made({"ff_mult": first.ff_mult, "ff_glu": True}, **sizes)
    assert first.trainable_parameters == same.parameter_counts(**TASK.sizes())["trainable"]


def test_another_version_is_another_run_and_is_not_built() -> None:
    spec = made({})
    other = XTransformers(**SHAPE, package_version="2.0")
    runs = [Run(task=TASK, model=model) for model in (spec, other)]
    assert runs[0].key() != runs[1].key()
    assert Run.model_validate_json(runs[1].model_dump_json()) == runs[1]
    with pytest.raises(SpecError, match=r"^package_version: .* x-transformers 2.0, and .* is installed.*==2.0"):
        capax.measure(TASK, other, SHORT, restarts=1)
    without = runs[0].model_dump(mode="json")
    del without["model"]["package_version"]
    with pytest.raises(CapaxError, match=r"package_version: is required"):
        Run(**without)


def test_columns_and_keys_are_there_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(task=TASK, model=made({"ff_mult": 2}))
    monkeypatch.setattr(XTransformers, "package", "no-such-library")
    again = Run.model_validate_json(run.model_dump_json())
    assert (again.key(), again.model.columns()["ff_mult"]) == (run.key(), 2)
    with pytest.raises(SpecError, match=r"^model: needs no-such-library: pip install 'capax\[x-transformers\]'"):
        made({})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"attn_kv_head": 1}, r"^set: x-transformers .* no option 'attn_kv_head'; the nearest are attn_kv_heads"),
        ({"depth": 3}, "^set: depth is n_layers here, got 3"),
        ({"num_tokens": 3}, "^set: num_tokens is the task's vocab_size here, got 3"),
        ({"xyz": 1}, "no option 'xyz'$"),
        ({"attn_kv_heads": 3}, "^model: x-transformers refuses .*attn_kv_heads 3 .AssertionError"),
        ({"attn_kv_heads": "x"}, "^model: x-transformers refuses .*attn_kv_heads x .TypeError"),
        ({"num_memory_tokens": 10**11}, "^memory: this run needs"),
        ({"return_only_embed": True}, "should give .*scores"),
        ({"cross_attend": True}, "failed"),
    ],
)
def test_what_cannot_be_measured(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(CapaxError, match=said) as refused:
        capax.measure(TASK, made(options), SHORT, restarts=1, store=tmp_path / "s.db")
    assert "\n" not in str(refused.value)
    assert refused.value.exit_code == 2


def test_sizes_that_no_machine_has_are_refused_before_anything_is_built() -> None:
    with pytest.raises(CapaxError, match=r"^memory: this run needs"):
        capax.measure(TASK, made({}, d_model=10**6), SHORT, restarts=1)
    with pytest.raises(SpecError, match=r"^n_layers: .*at most 1000"):
        made({}, n_layers=1001)
    with pytest.raises(SpecError, match=r"^compile: not for x-transformers"):
        Run(task=TASK, model=made({}), training=Training(compile=True))
