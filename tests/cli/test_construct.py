"""`capax construct associations` says what it built, and builds from the user's examples."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import refused, run
from safetensors.numpy import load_file, save_file

from capax.tasks.association_files import Examples
from capax.theory.construct.layer import Weights, outputs
from capax.theory.construct.report import ConstructionReport

COMMAND = ("construct", "associations")
SMALL = (*COMMAND, "--n-heads", "4", "--context-size", "8", "--d-model", "16", "--d-head", "8")


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, *SMALL, "--contexts", "fresh", "--entries", "normal", "--seed", "3", "--json")
    found = json.loads(out)
    assert found["library_size"] == found["bound"] == found["recalled"] == 29
    assert found["max_error"] < 1e-10
    assert 1 < found["condition_number"] < 1e4
    heads = found["saturation"]["heads"]
    assert [head["own_share"] for head in heads] == [0, 0, 0, 0]
    assert [head["others_share"] for head in heads[1:]] == [1, 1, 1]
    assert (found["task"]["contexts"], found["task"]["entries"], found["seed"]) == ("fresh", "normal", 3)
    assert ConstructionReport.model_validate_json(out).model_dump_json() + "\n" == out
    assert run(capsys, *SMALL, "--contexts", "fresh", "--entries", "normal", "--seed", "3", "--json") == out


def test_what_a_person_reads(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, *SMALL)
    assert not [line for line in out.splitlines() if line.endswith(" ")]
    for said in ("29; T = H(min(n, d_head) − 1) + 1 = 29", "29 of 29 arg-max right", "condition number"):
        assert said in out
    assert "head 1: own 0%" in out
    assert "others 100%" in out
    assert "no rank" in out
    fewer = run(capsys, *SMALL, "--library-size", "5", "--labels", "uniform", "--d-out", "3", "--dtype", "float32")
    assert "5; T = " in fewer
    assert "+ 1 = 29" in fewer
    assert "labels of 3" in fewer
    assert "5 of 5 within 0.05" in fewer
    none = run(capsys, *SMALL, "--labels", "uniform", "--tolerance", "1e-17", "--dtype", "float32")
    assert "0 of 29 within 1e-17" in none
    assert "no rank" not in fewer


def test_the_users_examples_and_the_weights(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    queries, contexts = generator.random((7, 10)), generator.random((7, 4, 10))
    labels = generator.standard_normal((7, 2))
    save_file({"queries": queries, "contexts": contexts, "labels": labels}, tmp_path / "mine.safetensors")
    flags = ("--library", "mine.safetensors", "--n-heads", "2", "--d-head", "4", "--save", "w.safetensors")
    found = json.loads(run(capsys, *COMMAND, *flags, "--json"))
    assert found["library_size"] == found["bound"] == 7
    assert found["recalled"] == found["library_size"]
    assert (found["model"]["d_model"], found["model"]["d_value"], found["task"]["context_size"]) == (10, 2, 4)
    saved = load_file(tmp_path / "w.safetensors")
    assert saved["queries"].tolist() == queries.tolist()
    weights = Weights(**{name: saved[name] for name in ("query", "key", "value", "out")})
    answers = outputs(weights, Examples(queries, contexts, labels))
    assert answers == pytest.approx(labels, abs=1e-10)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.safetensors", "w.safetensors"]
    assert "Weights: w.safetensors" in run(capsys, *COMMAND, *flags)
    for flag, said in ((("--library-size", "8"), "library_size"), (("--d-model", "9"), "d_model")):
        assert said in refused(capsys, *COMMAND, *flags, *flag)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--n-heads", "0"], ["n_heads", "at least 1", "got 0"]),
        (["--d-head", "0"], ["d_head", "at least 1", "got 0"]),
        (["--d-model", "0"], ["d_model", "at least 1", "got 0"]),
        (["--context-size", "0"], ["context_size", "at least 1", "got 0"]),
        (["--context-size", "64"], ["context_size", "fewer than d_model = 64", "got 64"]),
        (["--n-heads", "4", "--library-size", "126"], ["library_size", "at most 125", "got 126"]),
        (["--library-size", "0"], ["library_size", "at least 1", "got 0"]),
        (["--contexts", "bags"], ["contexts", "bags", "shared"]),
        (["--entries", "given"], ["entries", "given", "library"]),
        (["--labels", "normal", "--n-classes", "5"], ["n_classes", "labels='classes'"]),
        (["--d-out", "5"], ["d_out", "real labels"]),
        (["--seed", "-1"], ["seed", "at least 0", "-1"]),
        (["--dtype", "float16"], ["dtype", "float16", "float32"]),
        (["--n-heads", "100000"], ["library_size", "at most 134217728"]),
        (["--library", "missing.safetensors"], ["missing.safetensors"]),
        (["--library", "examples.txt"], ["library", "examples.txt", ".safetensors"]),
        (["--save", "weights.npz"], ["save", ".safetensors", "weights.npz"]),
        (["--save", "nowhere/w.safetensors"], ["save", "cannot write", "nowhere/w.safetensors"]),
    ],
)
def test_refuses(capsys: pytest.CaptureFixture[str], flags: list[str], said: list[str]) -> None:
    line = refused(capsys, *COMMAND, *flags)
    for word in said:
        assert word in line, line
    assert list(Path.cwd().iterdir()) == []


def test_names_the_users_examples_that_are_not_independent(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    queries = generator.random((7, 10))
    queries[5] = 2 * queries[1]
    arrays = {"queries": queries, "contexts": generator.random((4, 10)), "labels": np.arange(7)}
    save_file(arrays, tmp_path / "mine.safetensors")
    line = refused(capsys, *COMMAND, "--library", "mine.safetensors", "--n-heads", "2")
    assert "examples 2, 6 are not" in line
