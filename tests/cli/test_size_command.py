"""`capax size`: what it prints, its JSON, and what it refuses."""

import json
import re
from pathlib import Path

import pytest
from commands import narrow, refused, run

import capax
from capax.planning.known import HELD

pytest.importorskip("transformers")

ROOT = Path(__file__).parents[2]
COUNTRIES = ROOT / "examples" / "facts" / "countries.tsv"
CONFIGS = ROOT / "examples" / "configs"


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tiny = {"model_type": "gpt2", "n_embd": 16, "n_head": 1, "n_layer": 1, "vocab_size": 400, "n_positions": 16}
    Path("config.json").write_text(json.dumps(tiny))


def test_a_config_of_another_class_says_which_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    config = json.loads(Path("config.json").read_text())
    for named, said in (("GPT2LMHeadModel", False), ("GPT2ForSequenceClassification", True)):
        Path("config.json").write_text(json.dumps({**config, "architectures": [named]}))
        text = run(capsys, "size", "config.json")
        note = f"config.json is of '{named}'; this is transformers' GPT2LMHeadModel, which predicts the next token"
        assert (note in text) == said


def test_a_config_alone(capsys: pytest.CaptureFixture[str]) -> None:
    curve = capax.load_law("reference:exposure")
    assert isinstance(curve, capax.ExposureLaw)
    text = run(capsys, "size", CONFIGS / "mixtral-8x7b.json")
    for said in (
        "mixtral (MixtralForCausalLM), 32 layers, 32 heads of 128 (8 of keys and values), width 4096",
        "46,702,792,704 parameters; 12,879,925,248 of them active (2 of 8 experts); 0.6% in tables and read-out",
        "187 GB as float32, 93.4 GB as bfloat16, 46.7 GB as int8, 23.4 GB as int4",
        "95 % interval",
        "arXiv 2404.05405",
    ):
        assert said in text
    known = curve.domain_.ranges["effective_parameters"][1]
    assert f", at least those of the nearest network that it knows ({known:,.0f} parameters, 8 layers)" in text
    (after,) = re.findall(r"90% after ([\d,]+)", text)
    row = {"effective_parameters": [curve.domain_.ranges["effective_parameters"][1]], "n_layers": [8]}
    assert curve.known_share(row | {"exposures": [int(after.replace(",", ""))]}, HELD) == pytest.approx(0.9, abs=1e-3)
    assert "used:" not in text
    assert "note: costs" not in text


def test_facts_in_a_folders_config(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "size", ".", "--facts", COUNTRIES, "--recall", "0.9")
    for said in (
        "1 layer, 1 head of 16, width 16, vocabulary 400",
        "the read-out is the token table",
        "countries.tsv: 180 facts, 3 relations",
        "765 bit, 0.9 of the facts recalled: held with probability above 99.9% by the law, where 90% is wanted: it",
        "The weights by the packed facts: 34.2× as float32",
        "100 exposures",
        "A100 under a second",
        "note: costs: 1074 tokens of 4 bytes of text each",
    ):
        assert said in text
    found = json.loads(run(capsys, "size", "config.json", "--facts", COUNTRIES, "--recall", "0.9", "--json"))
    assert found["schema_version"] == 1
    assert found["parameters"]["total"] == 9968
    assert found["asked"]["facts"]["name"] == "countries.tsv"
    assert found["asked"]["fits"] is True


def test_bits_that_do_not_fit_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow(monkeypatch, 80)
    text = run(capsys, "size", "config.json", "--bits", "2e6")
    assert "below 0.1% by the law, where 90% is wanted: IT DOES NOT FIT" in " ".join(text.split())
    assert "FLOP:" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_facts_with_several_answers(capsys: pytest.CaptureFixture[str]) -> None:
    Path("two.csv").write_text("who,what\n" + "".join(f"k{n % 15},a{n}\n" for n in range(20)))
    asked = ("size", "config.json", "--facts", "two.csv", "--key", "who", "--answer", "what")
    assert "several answers" in refused(capsys, *asked)
    assert "10 are asked" in run(capsys, *asked, "--ambiguous", "drop")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.json"], ["config", "missing.json", "nothing is downloaded"]),
        (["config.json", "--bits", "-1"], ["bits", "positive"]),
        (["config.json", "--bits", "9", "--facts", str(COUNTRIES)], ["bits", "only without facts"]),
        (["config.json", "--recall", "0.9"], ["recall", "only with facts"]),
        (["config.json", "--ambiguous", "drop"], ["ambiguous", "only with --facts"]),
        (["config.json", "--bits", "9", "--probability", "1"], ["probability", "0.999"]),
        (["config.json", "--facts", "config.json"], ["library", "config.json"]),
        (["config.json", "--facts", "missing.tsv"], ["facts: no such file: missing.tsv"]),
        (["config.json", "--facts", str(COUNTRIES), "--key", "none"], ["none"]),
    ],
)
def test_bad_flags(capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]) -> None:
    line = refused(capsys, "size", *arguments)
    for word in words:
        assert word in line


def test_without_transformers(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capax.models.hf_config.transformers", None)
    assert "pip install 'capax[hf]'" in refused(capsys, "size", "config.json")
