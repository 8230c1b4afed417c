"""Ontologies, RDF and WordNet: what is said once is a fact, under names that one can ask for."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdflib import Graph, Literal, URIRef

import capax
from capax.tasks.facts.encoding import prepared
from capax.tasks.facts.fact import Fact, FactsError
from capax.tasks.facts.files import turtle
from capax.tasks.facts.files.columns import LONGEST_CELL
from capax.tasks.facts.files.read import read, size

WORDNET = Path(__file__).parent / "data" / "wordnet"
OBO = """format-version: 1.4
ontology: made

[Term]
id: A:1
name: whole ! not a comment of ours
is_a: A:0 {source="B:7", note="x"} ! thing
relationship: part_of A:2 {all_only="true"} ! other
relationship: has\\:it A:3

[Typedef]
id: part_of
is_a: related_to

[Term]
id: A:9
is_a: A:0
is_obsolete: true

[Term]
id: A:2
is_a: A:0
is_a: A:1"""
TURTLE = """@prefix r: <http://e.org/resource/> .
@prefix o: <http://e.org/ontology#> .
r:Köln o:country r:Germany ; o:label "Köln"@de, "Cologne"@EN ; o:people 01073096, "1.50"^^o:number .
r:Bonn a o:City ; o:near [ o:country r:Germany ] ; o:list ("a") .
o:Bonn o:country r:Germany .
"""


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def triples(path: Path) -> list[tuple[str, str, str]]:
    return [(fact.key, fact.relation, fact.answer) for fact in read(path)]


def refusal(path: Path) -> str:
    """The one line with which a file is refused, without the path."""
    with pytest.raises(FactsError) as refused:
        list(read(path))
    message = str(refused.value)
    assert message.startswith("library: ")
    assert "\n" not in message
    assert len(message) < 400 + len(str(path))
    return message.replace(str(path), "FILE")


# OBO


def test_a_term_is_something_and_related_to_others(tmp_path: Path) -> None:
    assert triples(write(tmp_path, "a.obo", OBO)) == [
        ("A:1", "is_a", "A:0"),
        ("A:1", "part_of", "A:2"),
        ("A:1", "has:it", "A:3"),
        ("A:2", "is_a", "A:0"),
        ("A:2", "is_a", "A:1"),
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "FILE holds no facts"),
        ("[Term]\nid: A\n", "FILE holds no facts"),
        ("[Term]\nname: a\nis_a: B\n", "line 1: a term with no id"),
        ("x: y\n[Term]\nid: A\nid: B\nis_a: C\n", "line 2: a term with 2 ids"),
        ("[Term]\nid: A\nis_a: ! nothing\n", "line 3: the answer is empty"),
        ("[Term]\nid: A\nrelationship: part_of\n", "line 3: the answer is empty"),
        (b"[Term]\nid: A\nname: \xe9\n", "line 3: not UTF-8 (byte 0xe9)"),
    ],
)
def test_a_broken_ontology_is_refused_with_its_line(tmp_path: Path, content: str | bytes, said: str) -> None:
    assert said in refusal(write(tmp_path, "a.obo", content))


# RDF


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["http://e.org/a/x", "http://e.org/b/x", "http://e.org/a/ü", "urn:thing", "http://e.org/"]),
            st.sampled_from(["http://e.org/p", "http://e.org/o#p", "http://e.org/q"]),
            st.one_of(
                st.sampled_from(["http://e.org/a/x", "http://e.org/c#y"]).map(URIRef),
                st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip).map(Literal),
                st.just(Literal("Köln", lang="de")),
                st.just(Literal('a "b"\\\n\tc')),
            ),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_ntriples_and_turtle_say_the_same(
    rows: list[tuple[str, str, URIRef | Literal]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Both are written by rdflib from the same graph."""
    graph, folder = Graph(), tmp_path_factory.mktemp("rdf")
    for subject, predicate, named in rows:
        graph.add((URIRef(subject), URIRef(predicate), named))
    graph.serialize(folder / "a.nt", format="nt", encoding="utf-8")
    graph.serialize(folder / "a.ttl", format="turtle", encoding="utf-8")
    found = triples(folder / "a.nt")
    assert Counter(found) == Counter(triples(folder / "a.ttl"))
    assert len(found) == len(graph)


def test_iris_are_shortened_as_far_as_they_stay_different(tmp_path: Path) -> None:
    assert triples(write(tmp_path, "a.ttl", TURTLE)) == [
        ("Köln", "country", "Germany"),
        ("Köln", "label@de", "Köln"),
        ("Köln", "label@en", "Cologne"),
        ("Köln", "people", "1073096"),
        ("Köln", "people", "1.50"),
        ("http://e.org/resource/Bonn", "type", "City"),
        ("http://e.org/ontology#Bonn", "country", "Germany"),
    ]


def test_every_form_of_an_ntriple_is_read(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "a.nt",
        "# a comment\n\n"
        '<http://e.org/K\\u00F6ln> <http://e.org/p> "a\\tb\\"\\U0001F600"@de-AT . # why\n'
        '<http://e.org/a><http://e.org/p>"1"^^<http://e.org/int>.\n'
        "_:b0 <http://e.org/p> <http://e.org/a> .\n"
        "<http://e.org/a> <http://e.org/p> _:b.1 .\n"
        "\t<http://e.org/a/>\t<http://e.org/p>\t<http://e.org/c> .\r\n",
    )
    assert triples(path) == [
        ("Köln", "p@de-at", 'a\tb"\U0001f600'),
        ("a", "p", "1"),
        ("http://e.org/a/", "p", "c"),
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "FILE holds no facts"),
        ("_:a <b> <c> .\n", "FILE holds no facts"),
        ("<a> <b> <c> .\n<a> <b> .\n", "line 2: no triple of RDF: '<a> <b> .'"),
        ("<a> <b> <c>\n", "line 1: no triple of RDF"),
        ('<a> <b> "c .\n', "line 1: no triple of RDF"),
        ('"a" <b> <c> .\n', "line 1: no triple of RDF"),
        ("<a> <b> <c> . <d> <e> <f> .\n", "line 1: no triple of RDF"),
        ('<a> <b> "\\q" .\n', "line 1: \\q is no escape of RDF"),
        ('<a> <b> "\\UFFFFFFFF" .\n', "line 1: "),
        ('<a> <b> "\\uD800" .\n', "line 1: the answer '\\ud800' holds a lone surrogate"),
        ('<a> <b> "  " .\n', "line 1: the answer is empty"),
        (f"<{'k' * 10**6}> <b> <c> .\n", "line 1: the key has 1000000 characters; at most 10000 are read"),
        (b"<a> <b> <\xff> .\n", "line 1: not UTF-8 (byte 0xff)"),
    ],
    ids=range(13),
)
def test_broken_ntriples_are_refused_with_their_line(tmp_path: Path, content: str | bytes, said: str) -> None:
    assert said in refusal(write(tmp_path, "a.nt", content))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "FILE holds no facts"),
        ("<a> <b> <c> .\n<a> <b> ; .\n", "line 2: no Turtle: "),
        ("<a> <b> <c d> .\n", "no Turtle: ' ' in the IRI"),
        ('<a> <b> "c\n', "no Turtle: newline found in string literal"),
        ("x:a x:b x:c .\n", "line 1: no Turtle: "),
        ("<a> <b> " + "(" * 10**5, "FILE: nested too deeply"),
        (b"<a> <b> <c> .\n<a> <b> <\xff> .\n", "line 2: not UTF-8 (byte 0xff)"),
        (f"@prefix p: <http://e/{'x' * LONGEST_CELL}> .\n<a> <b> p:c .\n", "triple 1 has a term of 10010 characters"),
    ],
    ids=range(8),
)
def test_broken_turtle_is_refused(tmp_path: Path, content: str | bytes, said: str) -> None:
    assert said in refusal(write(tmp_path, "a.ttl", content))


def test_a_literal_that_says_it_is_xml_stays_text(tmp_path: Path) -> None:
    """Entities that stand for each other would be expanded to gigabytes."""
    laughs = "<!DOCTYPE a [<!ENTITY b 'lol'><!ENTITY c '&b;&b;'>]><a>&c;</a>"
    xml = "http://www.w3.org/1999/02/22-rdf-syntax-ns#XMLLiteral"
    path = write(tmp_path, "a.ttl", f'<a> <b> "{laughs}"^^<{xml}> .\n')
    assert triples(path) == [("a", "b", laughs)]


def test_a_prefix_that_stands_for_too_much_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turtle, "MOST_TEXT", 10_000)
    rows = "".join(f"<a> <b> p:c{number} .\n" for number in range(100))
    path = write(tmp_path, "a.ttl", f"@prefix p: <http://e/{'x' * 5000}> .\n{rows}")
    assert "its terms have more than 10000 characters" in refusal(path)


def test_turtle_needs_rdflib_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "capax.tasks.facts.files.turtle")
    monkeypatch.setitem(sys.modules, "rdflib", None)
    assert "pip install 'capax[facts]'" in refusal(write(tmp_path, "a.ttl", TURTLE))


# WordNet


def test_wordnet_gives_one_direction_of_each_pair_of_pointers() -> None:
    """The excerpt has the synsets above Bonn, Germany and Paris, and the licence."""
    found = triples(WORDNET)
    assert Counter(relation for _, relation, _ in found) == {
        "hypernym": 57,
        "part_holonym": 16,
        "instance_hypernym": 9,
        "member_holonym": 7,
        "domain_topic": 2,
    }
    assert ("paris.n.01", "instance_hypernym", "national_capital.n.01") in found
    assert ("paris.n.01", "part_holonym", "france.n.01") in found
    both = nx.DiGraph((key, answer) for key, _, answer in found)
    assert nx.is_directed_acyclic_graph(both)
    assert set(nx.descendants(both, "paris.n.01")) >= {"europe.n.01", "entity.n.01"}
    assert size(WORDNET) == (WORDNET / "data.noun").stat().st_size


def test_the_names_of_wordnet_are_read_again_where_the_index_alone_changed(tmp_path: Path) -> None:
    write(tmp_path, "data.noun", "00000001 03 n 01 a 0 001 @ 00000002 n 0000 | x\n00000002 03 n 01 b 0 000 | x\n")
    found = []
    for senses in ("00000001", "00000003 00000001"):
        many = len(senses.split())
        write(tmp_path, "index.noun", f"a n {many} 0 {many} 0 {senses}\nb n 1 0 1 0 00000002\n")
        found.append(prepared(capax.Facts(library=str(tmp_path))).table.entities)
    assert found == [["a.n.01", "b.n.01"], ["a.n.02", "b.n.01"]]


@pytest.mark.parametrize(
    ("data", "index", "said"),
    [
        (
            "00000001 03 n 01 a 0 001 @ 00000002 n 0000 | x\n",
            "a n 1 0 1 0 00000001\n",
            "line 1: points to 00000002 (n)",
        ),
        ("00000001 03 n 01 a 0 002 @ 00000001 n 0000 | x\n", "a n 1 0 1 0 00000001\n", "line 1: not as WordNet's"),
        ("00000001 03 n 01 a 0 000 | x\n00000002 03\n", "a n 1 0 1 0 00000001\n", "line 2: not as WordNet's"),
        ("00000001 03 n 01 b 0 000 | x\n", "a n 1 0 1 0 00000001\n", "line 1: not as WordNet's"),
        ("00000001 03 n 01 a 0 000 | x\n", "a n\n", "index.noun, line 1: not as WordNet's"),
        ("00000001 03 n 01 a 0 000 | x\n", None, "no such file: FILE/index.noun"),
        ("  1 licence\n", "  1 licence\n", "FILE holds no facts"),
    ],
)
def test_a_broken_database_is_refused_with_its_line(tmp_path: Path, data: str, index: str | None, said: str) -> None:
    write(tmp_path, "data.noun", data)
    if index is not None:
        write(tmp_path, "index.noun", index)
    assert said in refusal(tmp_path)


def test_relations_of_facts_are_not_empty() -> None:
    assert all(isinstance(fact, Fact) and fact.relation for fact in read(WORDNET))
