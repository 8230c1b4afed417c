"""`capax construct relations` says what it built, and builds for the user's graph and vectors."""

import json
from math import log2
from pathlib import Path

import numpy as np
import pytest
from commands import refused, run
from safetensors.numpy import load_file

from capax.seeds import numpy_generator
from capax.specs.relations import Relations
from capax.tasks.relations import draw
from capax.theory.construct.channel import recognize
from capax.theory.construct.report import RelationReport

COMMAND = ("construct", "relations")
SMALL = (*COMMAND, "--n-items", "96", "--d-model", "48")


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    flags = (*COMMAND, "--graph", "permutation", "--n-items", "256", "--d-model", "64", "--seed", "3", "--json")
    out = run(capsys, *flags)
    found = json.loads(out)
    assert found["f1"] >= 0.99
    assert 0 <= found["precision"] <= 1
    assert 0 <= found["recall"] <= 1
    assert found["total_key_dim"] == found["n_heads"] * found["d_head"]
    assert {"n_heads": found["n_heads"], "d_head": found["d_head"]}.items() <= found["tried"][0].items()
    assert [one["d_head"] for one in found["tried"][1:]] == [None] * 5
    assert found["constant"] == pytest.approx(found["total_key_dim"] * 64 / (256 * log2(256)))
    assert 4.16 < found["constant"] < 6.93
    assert (found["method"], found["bits"], found["seed"], found["notes"]) == ("whitened", None, 3, [])
    assert (found["task"]["n_edges"], found["model"]["d_head"]) == (256, found["d_head"])
    assert [bound["name"] for bound in found["bounds"]] == [
        "quantised",
        "margin",
        "real",
        "one_head",
        "one_edge_a_head",
    ]
    assert RelationReport.model_validate_json(out).model_dump_json() + "\n" == out
    assert run(capsys, *flags) == out


def test_what_a_person_reads(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, *SMALL, "--n-heads", "8", "--d-head", "30", "--bits", "4")
    for said in (
        "permutation, 96 items, 96 edges, gaussian in 48 channels; whitened weights, 4 bits a weight, seed 0",
        "total key dim                  240 = 8 heads of 30; c = D_K d / (m' log2 m') = ",
        "F1",
        "threshold",
        "bits (log2 !m",
        "quantised (lower)",
        "one_head (upper)",
    ):
        assert said in out
    assert "1 bit a weight" in run(capsys, *SMALL, "--d-head", "4", "--bits", "1")
    few = run(capsys, *COMMAND, "--n-items", "64", "--d-model", "8")
    assert "total key dim                  64 = 64 heads of 1; " in few
    assert "heads tried                    64 of 1; not enough: 32 of 1, 16 of 3, 8 of 7" in few
    assert "heads tried" not in run(capsys, *SMALL, "--d-head", "4")
    regular = run(capsys, *SMALL, "--graph", "regular", "--degree", "2", "--d-head", "4")
    assert "at least" in regular
    assert "none: not met" in regular


def test_the_reversed_and_the_complete_graph_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    stars = {"into": "0,1\n2,1\n3,1\n4,1\n5,1\n", "out": "1,0\n1,2\n1,3\n1,4\n1,5\n"}
    every = "".join(f"{i},{j}\n" for i in range(6) for j in range(6) if i != j)
    said = {}
    for name, edges in (stars | {"every": every}).items():
        Path(f"{name}.csv").write_text(f"source,target\n{edges}", encoding="utf-8")
        flags = ("--graph", f"{name}.csv", "--d-model", "16", "--save", f"{name}.safetensors")
        said[name] = run(capsys, *COMMAND, *flags)
        verified = run(capsys, "verify", f"{name}.safetensors")
        assert "The claim holds." in verified
    assert "whitened weights of the reversed graph, queries and keys exchanged, float64" in said["out"]
    assert "reversed" not in said["into"] + said["every"]
    assert "total key dim                  1 = 1 head of 1" in said["every"]
    assert "; 1 head of 1, width 16" in verified  # of the last one
    assert "every pair is an edge: the weights are zero" in said["every"]


def test_one_head_for_onehot_items(capsys: pytest.CaptureFixture[str]) -> None:
    flags = (*COMMAND, "--n-items", "64", "--embeddings", "onehot", "--method", "onehot", "--json")
    found = json.loads(run(capsys, *flags))
    assert (found["n_heads"], found["model"]["d_model"]) == (1, 64)
    assert found["f1"] >= 0.99
    assert found["d_head"] < 20


@pytest.mark.parametrize(
    "flags",
    [
        ["--graph", "random", "--n-edges", "200"],
        ["--graph", "regular", "--degree", "3"],
        ["--graph", "power_law", "--n-edges", "200"],
        ["--graph", "tree"],
        ["--embeddings", "low_coherence", "--method", "hebbian"],
    ],
)
def test_graphs(capsys: pytest.CaptureFixture[str], flags: list[str]) -> None:
    found = json.loads(run(capsys, *SMALL, *flags, "--json"))
    assert found["f1"] >= 0.99
    assert found["bounds"][2]["value"] < found["total_key_dim"]


def test_the_users_graph_and_vectors_and_the_weights(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    Path("mine.csv").write_text("source,target\na,b\nb,c\nc,d\nd,a\na,c\n")
    vectors = np.random.default_rng(0).standard_normal((4, 12))
    np.save("mine.npy", vectors)
    flags = ("--graph", "mine.csv", "--embeddings", "mine.npy", "--save", "w.safetensors")
    found = json.loads(run(capsys, *COMMAND, *flags, "--json"))
    assert (found["task"]["n_items"], found["task"]["n_edges"], found["model"]["d_model"]) == (4, 5, 12)
    assert found["graphs"]["name"] == "digraphs"
    assert len(found["notes"]) == 1
    kept = load_file("w.safetensors")
    items = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    edges = np.array([[0, 1], [0, 2], [1, 2], [2, 3], [3, 0]])
    again = recognize(kept["query"], kept["key"], items, edges, threshold=found["threshold"])
    assert again.f1 == found["f1"]
    said = run(capsys, *COMMAND, *flags)
    assert "Weights: w.safetensors" in said
    assert found["notes"][0] in said
    assert "norm" in refused(capsys, *COMMAND, *flags, "--strict")
    assert "d_model" in refused(capsys, *COMMAND, *flags, "--d-model", "9")


def test_the_seed_names_the_library_that_training_gets(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, *SMALL, "--seed", "5", "--save", "w.safetensors", "--json"))
    spec = Relations.model_validate(found["task"])
    items, signs, _ = draw(spec, 48, numpy_generator(5, "library"))
    kept = load_file("w.safetensors")
    again = recognize(kept["query"], kept["key"], items, np.argwhere(signs > 0), threshold=found["threshold"])
    assert (again.f1, again.margin) == pytest.approx((found["f1"], found["margin"]))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--bits", "0"], ["bits", "1 to 8", "got 0"]),
        (["--bits", "9"], ["bits", "1 to 8", "got 9"]),
        (["--d-head", "0"], ["d_head", "at least 1", "got 0"]),
        (["--n-heads", "0"], ["n_heads", "at least 1", "got 0"]),
        (["--n-heads", "1"], ["n_heads", "at most 48", "96 edges"]),
        (["--d-model", "0"], ["d_model", "at least 1", "got 0"]),
        (["--method", "onehot"], ["onehot", "d_model = n_items = 96", "got 48"]),
        (["--method", "onehot", "--d-model", "96"], ["onehot", "one-hot items"]),
        (["--embeddings", "onehot"], ["d_model", "96", "got 48"]),
        (["--method", "guess"], ["method", "guess", "whitened"]),
        (["--graph", "star"], ["graph", "star"]),
        (["--graph", "random"], ["n_edges", "required"]),
        (["--graph", "missing.csv"], ["missing.csv"]),
        (["--strict"], ["strict", "file"]),
        (["--seed", "-1"], ["seed", "at least 0", "-1"]),
        (["--save", "weights.npz"], ["save", ".safetensors", "weights.npz"]),
        (["--save", "nowhere/w.safetensors"], ["save", "cannot write", "nowhere/w.safetensors"]),
        (["--d-model", "8", "--n-heads", "16"], ["d_head", "F1", "not reached", "32"]),
        (["--d-model", "1"], ["n_heads", "F1", "not reached", "96"]),
        (["--target-f1", "0"], ["target_f1", "above 0", "got 0"]),
        (["--target-f1", "nan"], ["target_f1", "finite", "got 'nan'"]),
    ],
)
def test_refuses(capsys: pytest.CaptureFixture[str], flags: list[str], said: list[str]) -> None:
    command = [part for part in SMALL if not (part in ("--d-model", "48") and "--d-model" in flags)]
    line = refused(capsys, *command, *flags)
    for word in said:
        assert word in line, line
    assert list(Path.cwd().iterdir()) == []
