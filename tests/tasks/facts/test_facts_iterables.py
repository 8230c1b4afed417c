"""Facts that a program holds: frames, tuples, dictionaries and graphs say what a file of them would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import capax
from capax.tasks.facts.fact import Fact, FactsError
from capax.tasks.facts.files.iterables import facts_of
from capax.tasks.facts.files.read import read

TRIPLES = [("Köln", "country", "Germany"), ("Köln", "river", "Rhine"), ("Paris", "river", "Seine")]
FACTS = [Fact(*row) for row in TRIPLES]
COLUMNS = ["subject", "relation", "object"]
CELL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(str.strip)


def refusal(source: Any, **names: str) -> str:
    with pytest.raises(FactsError) as refused:
        list(facts_of(source, **names))
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    "source",
    [
        TRIPLES,
        [list(row) for row in TRIPLES],
        (row for row in TRIPLES),
        [dict(zip(COLUMNS, row, strict=True)) for row in TRIPLES],
        pd.DataFrame(TRIPLES, columns=COLUMNS),
        pl.DataFrame(TRIPLES, schema=COLUMNS, orient="row"),
        pl.LazyFrame(TRIPLES, schema=COLUMNS, orient="row"),
        nx.DiGraph([(key, answer, {"relation": relation}) for key, relation, answer in TRIPLES]),
        nx.MultiDiGraph([(key, answer, relation) for key, relation, answer in TRIPLES]),
    ],
    ids=["tuples", "lists", "generator", "dictionaries", "pandas", "polars", "lazy", "graph", "multigraph"],
)
def test_every_source_gives_the_same_facts(source: Any) -> None:
    assert list(facts_of(source)) == FACTS


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(st.tuples(CELL, CELL), min_size=1, max_size=6))
def test_a_frame_and_the_file_that_it_writes_give_the_same_facts(
    rows: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("frame") / "own.csv"
    frame = pl.DataFrame(rows, schema=["key", "answer"], orient="row")
    frame.write_csv(path)
    assert list(facts_of(frame)) == list(read(path)) == list(facts_of(rows))


def test_numbers_are_taken_as_they_are_printed_and_weights_as_in_files() -> None:
    frame = pd.DataFrame({"city": ["a"], "people": [3], "count": [2]})
    assert list(facts_of(frame)) == [Fact("a", "", "3", 2.0)]
    assert list(facts_of(frame, key="people", answer="city", weight="count")) == [Fact("3", "", "a", 2.0)]
    assert list(facts_of([(np.int64(1), np.float64(0.5))])) == [Fact("1", "", "0.5")]


def test_a_weight_beyond_all_floats_is_refused() -> None:
    with pytest.raises(FactsError, match="the weight should be a positive number, got 1000"):
        list(facts_of([{"key": "a", "answer": "b", "weight": 10**400}]))


def test_a_graph_without_relations_has_one_that_is_not_named() -> None:
    assert list(facts_of(nx.path_graph(3, nx.DiGraph))) == [Fact("0", "", "1"), Fact("1", "", "2")]
    weighted = nx.DiGraph([("a", "b", {"weight": 2.5})])
    assert list(facts_of(weighted)) == [Fact("a", "", "b", 2.5)]
    assert list(facts_of(nx.MultiDiGraph([("a", "b"), ("a", "b")]))) == [Fact("a", "", "b")] * 2


def test_a_graph_without_directions_does_not_say_which_node_is_the_key() -> None:
    """Networkx gives this edge as (b, a), as b was there first."""
    graph = nx.Graph()
    graph.add_node("b")
    graph.add_edge("a", "b")
    with pytest.raises(FactsError, match="source: the graph is undirected"):
        list(facts_of(graph))


@pytest.mark.parametrize("source", [[], pd.DataFrame({"key": [], "answer": []}), nx.DiGraph()])
def test_a_source_without_facts_has_none(source: Any) -> None:
    """The caller says so: a file's name would be told."""
    assert list(facts_of(source)) == []


@pytest.mark.parametrize(
    ("source", "names", "said"),
    [
        (7, {}, "got int"),
        ("ab", {}, "got str"),
        ({"a": "b"}, {}, "got dict"),
        (Path("a.tsv"), {}, "got PosixPath"),
        (["ab", "cd"], {}, "(key, answer) or (subject, relation, object), got 'ab'"),
        ([("a",)], {}, "(key, answer) or (subject, relation, object), got ('a',)"),
        ([("a", "b"), ("a", "b", "c")], {}, "row 1 should have 2 cells, as row 0 has"),
        ([{"key": "a", "answer": "b"}, ("a", "b")], {}, "row 1 should be a dictionary, as row 0 is"),
        ([{"key": "a", "answer": "b"}, {"key": "a"}], {}, "row 1: the answer is missing"),
        (
            [{"key": "a", "answer": "b"}, {"key": "c", "answer": "d", "relation": "r"}],
            {},
            "source: row 1: 'relation', which the first dictionary lacks",
        ),
        ([("a", "b"), ("a", " ")], {}, "row 1: the answer is empty"),
        ([("a", None)], {}, "row 0: the answer is missing"),
        ([("a", b"b")], {}, "row 0: the answer should be a string or a number, got b'b'"),
        ([("a", "b")], {"key": "k"}, "tuples have no columns to name"),
        (nx.Graph([("a", "b")]), {"key": "k"}, "a graph has no columns to name"),
        (nx.DiGraph([("a", "b", {"relation": "r"}), ("b", "c", {})]), {}, "the graph, edge 1: the relation is missing"),
        (pd.DataFrame({"key": ["a", "b"], "answer": ["b", np.nan]}), {}, "the frame, row 1: the answer is missing"),
        (pd.DataFrame({"key": ["a"], "answer": pd.array([None], "Int64")}), {}, "row 0: the answer is missing"),
        (pl.DataFrame({"key": ["a"], "answer": [None]}), {}, "the frame, row 0: the answer is missing"),
        (pd.DataFrame({"x": ["a"], "y": ["b"]}), {"key": "z"}, "the frame has no column 'z' (--key)"),
        (pd.DataFrame({name: ["a"] for name in "abcd"}), {}, "which holds what?"),
    ],
)
def test_what_is_no_fact_is_refused_in_one_line(source: Any, names: dict[str, str], said: str) -> None:
    assert said in refusal(source, **names)


def test_pairs_become_a_task(tmp_path: Path) -> None:
    """A relation that no fact has is not written, as it would be read as an empty one."""
    facts = capax.Facts.from_data([("a", "b"), ("c", "d")], tmp_path / "pairs.jsonl")
    assert (facts.known.facts, facts.known.relations) == (2, 1)


def test_a_source_without_facts_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_text("old")
    with pytest.raises(FactsError, match="source: holds no facts"):
        capax.Facts.from_data([], path)
    assert path.read_text() == "old"
