"""`capax measure --model x-transformers` and `--model hf`: what libraries build is measured as any model is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from commands import refused, run
from made_base import write_base

from capax.checks.model import ModelReport
from capax.results import Measurement
from capax.store import Store

SMALL = ["--library-size", "10", "--restarts", "2", "--max-epochs", "2", "--vocab-size", "9", "--workers", "1"]
SHAPE = ["--n-heads", "2", "--d-model", "8", "--d-head", "4"]
THEIRS = ["measure", "sequences", *SMALL, "--model", "x-transformers", *SHAPE]
GPT2 = {"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 8, "n_positions": 16}
HF = ["measure", "sequences", *SMALL, "--model", "hf", "--config", "gpt2.json"]


@pytest.fixture(autouse=True)
def _beside_a_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gpt2.json").write_text(json.dumps(GPT2))
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_x_transformers_is_measured_filtered_and_recalled(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--set", "attn_kv_heads=1", "--set", "ff_glu=True", "--set", "rel_pos_bias=False"]
    found = Measurement.from_json(run(capsys, *THEIRS, *options, "--keep-weights", "--json"))
    assert found.spec.model.model_dump()["set"] == {"attn_kv_heads": 1, "ff_glu": True, "rel_pos_bias": False}
    shown = run(capsys, *THEIRS, *options)
    assert shown.startswith("1 layer, 2 heads of 4, width 8, attn_kv_heads 1, ff_glu, rel_pos_bias False by x-transf")
    assert found.key[:12] in shown
    run(capsys, *THEIRS, "--set", "attn_kv_heads=2")
    for where, count in (("attn_kv_heads=1", 1), ("model=x-transformers", 2), ("ff_glu=true", 1)):
        assert len(json.loads(run(capsys, "runs", "--where", where, "--json"))) == count, where
    answer = json.loads(run(capsys, "runs", "recall", found.key, "1 2 3 4 5 6 7", "--json"))
    assert 0 <= answer["token"] < 9


def test_a_word_is_not_taken_for_true(capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, *THEIRS, "--set", "ff_glu=no")
    assert "set: ff_glu should be true or false, got the word 'no'" in line


@pytest.mark.slow
def test_an_adapter_is_checked_on_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    """Facts alone are said in the tokens of its base."""
    write_base(Path("base"))
    adapter = ["--base", "base", "--lora", "r=1", "--seq-len", "5", "--vocab-size", "9", "--library-size", "20"]
    report = ModelReport.model_validate_json(run(capsys, "check", "model", *adapter, "--json"))
    assert report.failed == ()


def test_native_takes_the_variant_of_capax(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--set", "attn_kv_heads=1", "--set", "ff_glu=true", "--native", "--json"]
    found = Measurement.from_json(run(capsys, *THEIRS, *options))
    ours = [*SHAPE, "--n-kv-heads", "1", "--gated", "--embeddings", "trained", "--readout", "trained"]
    assert json.loads(run(capsys, "measure", "sequences", *SMALL, *ours, "--json"))["key"] == found.key


@pytest.mark.slow
def test_hf_is_measured_and_checked(capsys: pytest.CaptureFixture[str]) -> None:
    found = Measurement.from_json(run(capsys, *HF, "--set", "resid_pdrop=0", "--n-layers", "2", "--json"))
    assert found.spec.model.columns()["n_layers"] == 2
    assert run(capsys, *HF).startswith("gpt2, 1 layer, 2 heads, width 8 by transformers ")
    with Store("capax.db") as store:
        assert [summary.n_layers for summary in store.summaries()] == [2, 1]
    task = ["--library-size", "20", "--seq-len", "5"]
    report = ModelReport.model_validate_json(
        run(capsys, "check", "model", "--model", "hf", "--config", "gpt2.json", *task, "--json")
    )
    assert report.failed == ()


@pytest.mark.very_slow
def test_bounds_and_reports_take_them(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, *THEIRS, "--set", "ff_mult=2")
    run(capsys, *HF)
    run(capsys, "report", "capax.db", "--out", "page")
    page = next(Path().glob("page*")) if not Path("page").is_dir() else Path("page") / "report.html"
    assert "x-transformers" in page.read_text(encoding="utf-8")
    assert run(capsys, "bounds", "--model", "x-transformers", *SHAPE, "--seq-len", "4", "--vocab-size", "9")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([*THEIRS, "--set", "attn_kv_head=1"], ["set", "'attn_kv_head'", "attn_kv_heads"]),
        ([*THEIRS, "--set", "attn_kv_heads"], ["set", "name=value", "'attn_kv_heads'"]),
        ([*THEIRS, "--set", "=1"], ["set", "name=value", "'=1'"]),
        ([*THEIRS, "--set", "ff_mult=1", "--set", "ff_mult=2"], ["set", "ff_mult", "twice"]),
        ([*THEIRS, "--set", "ff_mult=NaN"], ["set", "ff_mult", "finite"]),
        ([*THEIRS, "--set", "ff_mult=\udcff"], ["set", "UTF-8"]),
        ([*THEIRS, "--set", f"ff_mult={'[' * 10_000}"], ["x-transformers refuses", "ValueError"]),
        ([*THEIRS, "--set", f"ff_mult={'[' * 500}{']' * 500}"], ["set", "nested"]),
        ([*THEIRS, "--set", "rotary_pos_emb=true", "--native"], ["native", "turn all 4 channels", "got 2"]),
        ([*THEIRS, "--config", "gpt2.json"], ["config", "x-transformers"]),
        ([*THEIRS, "--window", "2"], ["window", "x-transformers"]),
        ([*THEIRS, "--compile"], ["compile", "True"]),
        ([*THEIRS, "--module", "a:b"], ["model", "--module"]),
        (["measure", "sequences", "--native"], ["native", "x-transformers", "transformer"]),
        (["measure", "sequences", "--set", "a=1"], ["set", "'transformer'"]),
        (["measure", "sequences", "--model", "hf"], ["config", "required"]),
        ([*HF, "--native"], ["native", "got hf"]),
        ([*HF, "--set", "n_embed=4"], ["set", "'n_embed'", "n_embd"]),
        ([*HF, "--n-heads", "3"], ["transformers refuses", "divisible"]),
        ([*HF[:-1], "folder"], ["config", "no config.json"]),
        ([*HF[:-1], "pipe"], ["config", "not a regular file"]),
        ([*HF[:-1], "/dev/zero"], ["config", "not a regular file"]),
        ([*HF[:-1], "x" * 100_000], ["config", "xxx"]),
        ([*HF[:-1], '{"model_type": "gpt3"}'], ["config", "'gpt3'", "gpt2"]),
        ([*HF[:-1], "list.json"], ["config", "JSON object"]),
        ([*HF[:-1], '{"model_type": "gpt2", "a": ' + "[" * 99 + "]" * 99 + "}"], ["config", "nested"]),
        ([*HF[:-1], '{"model_type": "gpt2", "a": "\\ud800"}'], ["config", "UTF-8"]),
        (["measure", "sequences", "--module", "a:b", "--arguments", '{"a": "\\ud800"}'], ["arguments", "UTF-8"]),
        ([*HF, "--weights", "folder"], ["weights", "no config.json"]),
        ([*HF, "--weights", "gpt2.json"], ["weights", "no .safetensors"]),
        ([*HF, "--weights", "pipes"], ["weights", "not a regular file"]),
    ],
    ids=lambda value: " ".join(value)[-40:] if isinstance(value, list) else "",
)
def test_bad_input(capsys: pytest.CaptureFixture[str], flags: list[str], said: list[str]) -> None:
    for name in ("folder", "pipes"):
        Path(name).mkdir()
    os.mkfifo("pipe")
    os.mkfifo("pipes/model.safetensors")
    Path("pipes/config.json").write_text(json.dumps(GPT2))
    Path("list.json").write_text("[1]")
    line = refused(capsys, *flags)
    for word in said:
        assert word in line, line
