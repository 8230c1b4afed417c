"""Channels for a graph: the smaller of what the law says and of what can be built."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import pytest
from commands import refused, run

import capax
from capax import working
from capax.errors import CapaxError


@pytest.mark.slow
def test_no_channel_is_larger_than_what_is_built() -> None:
    found = capax.plan_relations(capax.Relations(n_items=64), d_model=[8, 16])
    narrow, wide = found.channels
    assert (narrow.by, narrow.total_key_dim, narrow.trained) == ("built", 64, None)
    assert (wide.by, wide.built.total_key_dim) == ("law", 64)
    assert wide.total_key_dim == wide.trained.total_key_dim == wide.n_heads * wide.d_head < 64
    assert any("d_model 8" in note for note in found.notes)
    law = capax.plan("reference:relation", 64, n_items=64, d_model=[16]).architectures[0]
    assert (law.n_heads, law.d_head) == (wide.n_heads, wide.d_head)


@pytest.mark.slow
def test_a_law_is_no_ceiling_outside_its_domain() -> None:
    found = capax.plan_relations(capax.Relations(n_items=64), d_model=2, extrapolate=True).channels[0]
    assert found.trained.total_key_dim == found.total_key_dim == 64
    rows = capax.plan("reference:relation", 64, n_items=64, d_model=[1, 2], extrapolate=True)
    assert [(row.n_heads, row.d_head, row.at_least) for row in rows.architectures] == [(64, 1, 64), (64, 1, 64)]
    assert any("built, not trained" in note for note in rows.notes)


def test_a_networkx_graph_as_it_is(tmp_path: Path) -> None:
    graph = nx.gnm_random_graph(12, 30, seed=0, directed=True)
    found = capax.plan_relations(graph, d_model=6)
    assert (found.n_items, found.n_edges) == (12, 30)
    assert found.channels[0].total_key_dim <= 30
    task = capax.Relations.from_graph(graph, tmp_path / "g.graphml", embeddings="gaussian")
    again = capax.plan_relations(task, d_model=6)
    assert again.channels == found.channels
    assert set(nx.read_graphml(tmp_path / "g.graphml").edges) == {(str(a), str(b)) for a, b in graph.edges}


def test_kinds_that_the_law_was_not_measured_on_are_named() -> None:
    def notes(**fields: object) -> str:
        return " ".join(capax.plan_relations(capax.Relations(n_items=32, **fields), d_model=16).notes)

    assert "measured" not in notes() + notes(graph="tree")
    assert "measured on gaussian vectors; not on low_coherence ones" in notes(embeddings="low_coherence")
    star = capax.plan_relations(nx.DiGraph([(0, i) for i in range(1, 33)]), d_model=32)
    assert "tree graphs; yours may be of no such kind" in " ".join(star.notes)
    assert star.channels[0].built.total_key_dim < 32


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        ([1], "a directed networkx graph"),
        (nx.Graph([(0, 1)]), "undirected"),
        (nx.DiGraph(), "no edges"),
        (nx.DiGraph([(1, 1)]), "self-loop"),
    ],
    ids=str,
)
def test_what_is_no_graph_of_relations(graph: object, said: str, tmp_path: Path) -> None:
    with pytest.raises(CapaxError, match=said):
        capax.plan_relations(graph)
    with pytest.raises(CapaxError, match=said):
        capax.Relations.from_graph(graph, tmp_path / "g.graphml")
    assert not (tmp_path / "g.graphml").exists()
    with pytest.raises(CapaxError, match=r"path: .*graphml"):
        capax.Relations.from_graph(nx.DiGraph([(0, 1)]), tmp_path / "g.csv")


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("g.csv").write_text("source,target\na,b\nb,c\nc,a\na,d\n")
    ask = ("plan", "relations", "--graph", "g.csv", "--d-model", "16")
    assert "4 x 1" in run(capsys, *ask)
    assert "note: the law was measured on permutation or power_law or random or regular or tree graphs; yours" in run(
        capsys, *ask
    )
    found = json.loads(run(capsys, *ask, "--json"))
    assert (found["n_edges"], found["channels"][0]["by"]) == (4, "built")
    for flags, said in (
        ((), "n_items"),
        (("--n-items", "8", "--d-model", "0"), "d_model"),
        (("--n-items", "8", "--d-model", "a"), "d_model"),
        (("--n-items", "8", "--probability", "1"), "probability"),
        (("--n-items", "8", "--law", "reference:power"), "law"),
        (("--n-items", "8", "--d-model", "1"), "d_model"),
        (("--graph", "none.csv"), "none.csv"),
    ):
        assert said in refused(capsys, "plan", "relations", *flags)


def test_a_plan_says_how_far_it_is() -> None:
    said: list[tuple[str, int, int | None]] = []
    with working.heard_by(lambda *told: said.append(told)):
        capax.plan_relations(capax.Relations(n_items=40), d_model=[8, 16])
    assert [told for told in said if told[0] == "widths planned"] == [
        ("widths planned", 0, 2),
        ("widths planned", 1, 2),
    ]
    assert any(told[0] == "numbers of heads tried" and told[1] > 0 for told in said)
