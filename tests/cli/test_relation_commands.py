"""Measuring key-query channels from the command line: graphs that are drawn and the user's, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from commands import refused, run

from capax.specs import KeyQueryChannel, Relations
from capax.store import table_files

MEASURE = ("measure", "relations", "--d-model", "8", "--max-steps", "100", "--workers", "1")
DRAWN = (*MEASURE, "--n-items", "12")
CHANNEL = ("--n-heads", "2", "--d-head", "6", "--restarts", "2")
BUDGET = (
    *DRAWN, "--protocol", "budget", "--head-counts", "2,1", "--restarts", "2", "--max-trainings", "8",
    "--target-f1", "0.9",
)  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("relations") / "s.db"


def measured(capsys: pytest.CaptureFixture[str], *command: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(capsys, *command, "--json"))
    return found


def test_a_measurement(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    found = measured(capsys, *DRAWN, *CHANNEL, "--store", store)
    metrics = found["metrics"]
    assert {"f1", "precision", "recall", "margin"} <= metrics.keys()
    assert 2 / (1 / metrics["precision"] + 1 / metrics["recall"]) == pytest.approx(metrics["f1"])
    assert metrics["recall"] == found["memorized"] / 12
    assert found["library_size"] == 12
    assert found["search"] is None
    assert found["notes"] == []
    shown = run(capsys, *DRAWN, *CHANNEL, "--store", store)
    for part in ("key-query channel", "2 heads of 6", "width 8", "permutation", "12 items", "12 edges", "protocol mac"):
        assert part in shown
    rows = dict(line.split(None, 1) for line in shown.splitlines() if len(line.split()) > 1)
    assert float(rows["f1"]) == pytest.approx(metrics["f1"], rel=1e-3)
    assert float(rows["margin"]) == pytest.approx(metrics["margin"], rel=1e-3)
    assert "12 items" in run(capsys, "runs", "--store", store)


@pytest.mark.slow
def test_a_search_over_head_counts(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    whole = measured(capsys, *BUDGET, "--store", store)
    found = whole["search"]
    assert [count["n_heads"] for count in found["per_heads"]] == [1, 2]
    for count in found["per_heads"]:
        assert {"n_heads", "d_head", "total_key_dim", "interval", "f1"} <= count.keys()
        assert count["interval"]["low"] <= count["total_key_dim"] == count["n_heads"] * count["d_head"]
    best = min(found["per_heads"], key=lambda count: (count["total_key_dim"], count["n_heads"]))
    assert {name: found[name] for name in ("n_heads", "d_head", "total_key_dim")} == {
        name: best[name] for name in ("n_heads", "d_head", "total_key_dim")
    }
    assert found["reached_by"] == "training"
    assert found["interval"]["low"] == best["interval"]["low"]
    assert found["interval"]["high"] <= found["built"]["total_key_dim"]
    assert {"f1", "precision", "recall", "margin"} <= whole["metrics"].keys()
    assert {member["d_head"] for member in whole["members"]} <= set(range(1, 9))
    shown = run(capsys, *BUDGET, "--store", store)
    assert f"{best['total_key_dim']}: {best['n_heads']} x {best['d_head']}, reached by training; " in shown
    assert "1 head " in shown
    assert "2 heads" in shown


def test_a_width_that_no_head_size_makes_enough(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    command = [*BUDGET, "--store", str(tmp_path / "s.db")]
    for flag, value in (("--d-model", "2"), ("--head-counts", "1"), ("--max-steps", "40"), ("--target-f1", "1.0")):
        command[command.index(flag) + 1] = value
    whole = measured(capsys, *command)
    found = whole["search"]
    assert found["reached_by"] == "built"
    assert found["per_heads"][0]["total_key_dim"] is None
    assert found["total_key_dim"] == found["interval"]["high"] == found["built"]["total_key_dim"]
    assert found["per_heads"][0]["interval"]["high"] is None
    assert 0 <= whole["metrics"]["f1"] < 1
    assert "no head size" in run(capsys, *command)


@pytest.mark.slow
@pytest.mark.parametrize(("channel", "words"), [("softmax", "softmax channel"), ("block", "transformer block")])
def test_channels_that_route_values(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, channel: str, words: str
) -> None:
    command = (*DRAWN, *CHANNEL, "--channel", channel, "--store", tmp_path / "s.db")
    found = measured(capsys, *command)
    assert found["metrics"]["f1"] == 1
    assert found["spec"]["model"]["aggregate"] == "sum"
    assert f"{words}, 2 heads of 6, width 8" in run(capsys, *command)
    assert "aggregate: channel" in refused(capsys, *command, "--aggregate", "max")
    assert "values: only with channel" in refused(capsys, *DRAWN, *CHANNEL, "--no-values")


# the user's files


def files(folder: Path) -> tuple[Path, Path]:
    """One graph, as GraphML and as edges in a table."""
    graph = nx.DiGraph([("ant", "bee"), ("bee", "cat"), ("cat", "ant"), ("dog", "ant"), ("bee", "dog")])
    nx.write_graphml(graph, folder / "own.graphml")
    (folder / "own.csv").write_text("\n".join(["source,target", *(f"{a},{b}" for a, b in graph.edges)]))
    return folder / "own.graphml", folder / "own.csv"


def test_graphs_of_the_users(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One graph in two files is one task."""
    found = [
        measured(capsys, *MEASURE, *CHANNEL, "--graph", path, "--store", tmp_path / f"{path.suffix}.db")
        for path in files(tmp_path)
    ]
    assert found[0]["key"] == found[1]["key"]
    assert found[0]["members"] == found[1]["members"]
    assert [run_["library_size"] for run_ in found] == [5, 5]
    assert [run_["spec"]["task"]["n_items"] for run_ in found] == [4, 4]
    assert found[0]["memorized"] == 5
    assert found[0]["chance"] > 0
    shown = run(capsys, *MEASURE, *CHANNEL, "--graph", tmp_path / "own.csv", "--store", tmp_path / ".csv.db")
    assert "own.csv, 4 items, 5 edges" in shown


@pytest.mark.slow
def test_vectors_of_the_users(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    graph, place = files(tmp_path)[0], tmp_path / "vectors.npy"
    vectors = np.random.default_rng(0).standard_normal((4, 8))
    command = (*MEASURE, *CHANNEL, "--graph", graph, "--embeddings", place, "--store", tmp_path / "s.db")
    np.save(place, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    unit = measured(capsys, *command, "--strict")
    assert unit["notes"] == []
    np.save(place, vectors)
    other = measured(capsys, *command)
    assert len(other["notes"]) == 1
    assert "4 of 4 vectors are not of unit norm: item 1 ('ant') has norm" in other["notes"][0]
    assert other["notes"][0].endswith("all were normalised")
    assert other["members"] == unit["members"]
    assert "and strict refuses them" in refused(capsys, *command, "--strict")
    narrower = ("7" if word == "8" else word for word in command)
    assert "vectors.npy have 8 channels, got 7" in refused(capsys, *narrower)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("source,target\na,b\nb,b\n", "line 3: a self-loop at item 'b'"),
        ("source,target\na,b\nb,a\na,b\n", "line 4: the edge from 'a' to 'b' repeats, first in line 2"),
        ("source,target,weight\na,b,1\n", "unknown column 'weight'"),
        ("from,to\na,b\n", "unknown column 'from'"),
        ("source,target\n", "has no edges"),
    ],
)
def test_bad_edges_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "own.csv"
    path.write_text(content)
    assert said in refused(capsys, *MEASURE, *CHANNEL, "--graph", path, "--store", tmp_path / "s.db")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("edges", "said"),
    [
        ([("a", "b"), ("b", "b")], "a self-loop at item 'b'"),
        ([("a", "b"), ("b", "a"), ("a", "b")], "the edge from 'a' to 'b' repeats"),
    ],
)
def test_bad_graphml_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path, edges: Any, said: str) -> None:
    nx.write_graphml(nx.MultiDiGraph(edges), tmp_path / "own.graphml")
    told = refused(capsys, *MEASURE, *CHANNEL, "--graph", tmp_path / "own.graphml", "--store", tmp_path / "s.db")
    assert said in told


@pytest.mark.parametrize(
    ("value", "said"),
    [(np.nan, "item 2 ('bee') should be finite, but channel 1 is nan"), (0.0, "item 2 ('bee') is a zero vector")],
)
def test_bad_vectors_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path, value: float, said: str) -> None:
    vectors = np.eye(4, 8)
    vectors[1] = value
    np.save(tmp_path / "vectors.npy", vectors)
    command = (*MEASURE, *CHANNEL, "--graph", files(tmp_path)[1], "--embeddings", tmp_path / "vectors.npy")
    assert said in refused(capsys, *command, "--store", tmp_path / "s.db")


def test_an_item_without_a_vector_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", np.eye(3, 8))
    command = (*MEASURE, *CHANNEL, "--graph", files(tmp_path)[1], "--embeddings", tmp_path / "vectors.npy")
    assert "item 4 ('dog') has no vector" in refused(capsys, *command, "--store", tmp_path / "s.db")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "d_head: is required, got None"),
        (("--d-head", "4", "--protocol", "budget"), "d_head: is what protocol 'budget' searches for, got 4"),
        (("--d-head", "4", "--n-heads", "1,2"), "n_heads: should be an integer"),
        (("--d-head", "4", "--n-heads", "0"), "n_heads: should be at least 1, got 0"),
        (("--d-head", "4", "--head-counts", "1"), "head_counts: a field of protocol budget, not of 'mac'"),
        (("--protocol", "budget", "--head-counts", "1,two"), "head_counts.1: should be an integer"),
        (("--protocol", "budget", "--head-counts", "0"), "head_counts.0: should be at least 1, got '0'"),
        (("--protocol", "budget", "--n-heads", "2"), "n_heads: protocol 'budget' has head_counts"),
        (("--d-head", "4", "--protocol", "mls"), "protocol: one of mac, shatter, budget, got 'mls'"),
        (("--d-head", "4", "--graph", "random", "--n-edges", "133"), "n_edges: at most 132 (n_items 12), got 133"),
        (("--d-head", "4", "--graph", "random"), "n_edges: is required for a random graph"),
        (("--d-head", "4", "--n-edges", "11"), "n_edges: a permutation graph of 12 items has 12, got 11"),
        (("--d-head", "4", "--embeddings", "onehot"), "d_model: one-hot items need n_items = 12, got 8"),
        (("--d-head", "4", "--embeddings", "nowhere.npy"), "embeddings: no such file: nowhere.npy"),
        (("--d-head", "4", "--graph", "nowhere.csv"), "graph: no such file: nowhere.csv"),
        (("--d-head", "4", "--graph", "ring"), "graph: permutation, random, regular, power_law, tree"),
        (("--d-head", "4", "--strict"), "strict: only with embeddings of a file"),
        (("--d-head", "4", "--contexts", "uniform"), "context_size: is required, got None"),
        (("--d-head", "4", "--trials", "4"), "trials: a field of protocol shatter, not of 'mac'"),
    ],
)
def test_bad_flags_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, flags: tuple[str, ...], said: str
) -> None:
    assert said in refused(capsys, *DRAWN, *flags, "--store", tmp_path / "s.db")
    assert list(tmp_path.iterdir()) == []


def test_the_largest_library_has_no_meaning_for_relations() -> None:
    import capax
    from capax.errors import SpecError

    with pytest.raises(SpecError, match="protocol: 'mls' has no meaning for task 'relations'"):
        capax.measure(Relations(n_items=5), KeyQueryChannel(d_head=2), protocol="mls")


def test_the_law_that_ships_leaves_its_domain_when_told_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ("predict", "relations", "--n-items", "1000", "--n-edges", "5000", "--d-model", "64")
    assert "outside the domain" in refused(capsys, *asked)
    asked = (*asked, "--extrapolate")
    found = json.loads(run(capsys, *asked, "--json"))
    assert not found["inside_domain"]
    assert [reason.split()[0] for reason in found["outside"]] == ["n_edges", "n_items", "edges_per_item", "load"]
    assert found["interval"]["low"] < found["value"] < found["interval"]["high"]
    assert found["n_heads"] * found["d_head"] >= found["value"]
    assert "OUTSIDE its domain" in run(capsys, *asked)
    assert "n_edges: at most 90" in refused(capsys, *asked[:2], "--n-items", "10", "--n-edges", "91", "--d-model", "64")


def test_the_relation_law_is_fitted_to_key_dimensions(capsys: pytest.CaptureFixture[str]) -> None:
    """Not to edges recalled, as the laws of counts are; the numbers are those of a plane through the logarithms."""
    table = table_files.from_file("reference:relations")
    loads = np.log((table["n_edges"] * np.log2(table["n_edges"]) / table["d_model"]).to_numpy())
    ratios = np.log((table["n_items"] / table["n_edges"]).to_numpy())
    logs = np.log(table["total_key_dim"].to_numpy())
    (intercept, slope, power), *_ = np.linalg.lstsq(np.column_stack([np.ones(len(logs)), loads, ratios]), logs)
    found = measured(capsys, "fit", "--data", "reference:relations", "--law", "relation")
    assert {one["name"]: one["value"] for one in found["parameters"]} == pytest.approx(
        {"c": np.exp(intercept), "s": slope, "t": power}, rel=1e-3
    )
