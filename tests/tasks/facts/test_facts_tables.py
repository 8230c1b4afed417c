"""Tables of facts (TSV, CSV, JSONL): what is written is read, and one line says what cannot be."""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.specs import Facts
from capax.tasks.facts.fact import Fact, FactsError
from capax.tasks.facts.files.columns import LONGEST_CELL
from capax.tasks.facts.files.lines import LONGEST_LINE
from capax.tasks.facts.files.read import TABLES, TRIPLES, read, size

CITIES = [Fact("Köln", "country", "Germany"), Fact("Paris", "country", "France")]
# no null characters, which no line may hold, no lone surrogates, which no file can hold
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12).filter(
    lambda text: text.strip() != ""
)
ON_A_LINE = TEXT.filter(lambda text: not {"\t", "\n", "\r"} & set(text))
TRIPLE = ("subject", "relation", "object")


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refusal(path: Path, **names: str) -> str:
    """The one line with which a file is refused, without the path."""
    with pytest.raises(FactsError) as refused:
        list(read(path, **names))
    message = str(refused.value)
    assert message.startswith("library: ")
    assert "\n" not in message
    assert len(message) < 400 + len(str(path))
    return message.replace(str(path), "FILE")


def plain(text: str) -> str:
    return normalize("NFC", text.strip())


def facts(rows: list[tuple[str, str, str]]) -> list[Fact]:
    return [Fact(*map(plain, row)) for row in rows]


# what is written is read


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(TEXT, TEXT, TEXT), min_size=1, max_size=8), quoting=st.sampled_from([0, 1]))
def test_a_csv_is_read_as_it_was_written(
    rows: list[tuple[str, str, str]], quoting: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("csv") / "own.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=quoting).writerows([TRIPLE, *rows])
    assert list(read(path)) == facts(rows)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(ON_A_LINE, ON_A_LINE, ON_A_LINE), min_size=1, max_size=8))
def test_a_tsv_is_read_as_it_was_written(
    rows: list[tuple[str, str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("tsv") / "own.tsv"
    with path.open("w", newline="", encoding="utf-8") as file:
        file.writelines("\t".join(row) + "\n" for row in [TRIPLE, *rows])
    assert list(read(path)) == facts(rows)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(TEXT, TEXT, TEXT), min_size=1, max_size=8), ascii_only=st.booleans())
def test_jsonl_is_read_as_it_was_written(
    rows: list[tuple[str, str, str]], ascii_only: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("jsonl") / "own.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(dict(zip(TRIPLE, row, strict=True)), ensure_ascii=ascii_only) + "\n")
    assert list(read(path)) == facts(rows)


@settings(max_examples=200, deadline=None)
@given(content=st.binary(max_size=200), suffix=st.sampled_from([".tsv", ".csv", ".jsonl", ".obo", ".nt"]))
def test_any_bytes_are_facts_or_are_refused_in_one_line(
    content: bytes, suffix: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = write(tmp_path_factory.mktemp("any"), "own" + suffix, content)
    message = ""
    try:
        assert list(read(path))
    except FactsError as refused:
        message = str(refused)
    assert "\n" not in message


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "subject\trelation\tobject\nKöln\tcountry\tGermany\nParis\tcountry\tFrance\n"),
        ("a.TSV", "\ufeffsubject\tpredicate\tobject\r\n Köln \tcountry\tGermany\r\n\r\nParis\tcountry\tFrance"),
        ("a.csv", 'Object,Subject,Relation\n"Germany",Köln,country\nFrance,Paris,country\n'),
        ("a.csv", "subject,object,what,weight\nKöln,Germany,country,1\nParis,France,country,1\n"),
        ("a.csv", "city,what,where\nKo\u0308ln,country,Germany\nParis,country,France\n"),
        ("a.ndjson", '{"relation": "country", "key": "Köln", "answer": "Germany", "more": [1]}\n\n'
         '{"key": "Paris", "answer": "France", "relation": "country"}\n'),
    ],
)  # fmt: skip
def test_columns_are_found_by_name_or_order_and_marks_and_blanks_are_left_out(
    tmp_path: Path, name: str, content: str
) -> None:
    path = write(tmp_path, name, content)
    assert list(read(path)) == CITIES
    assert size(path) == len(content.encode())


def test_quotes_inside_cells_stay_and_a_tsv_has_no_quoting(tmp_path: Path) -> None:
    tsv = write(tmp_path, "a.tsv", 'key\tanswer\n"Köln\ta "b"\n')
    assert list(read(tsv)) == [Fact('"Köln', "", 'a "b"')]
    quoted = write(tmp_path, "a.csv", 'key,answer\n"say ""hi"", she said","two\nlines"\n')
    assert list(read(quoted)) == [Fact('say "hi", she said', "", "two\nlines")]


def test_what_unicode_calls_a_line_separator_is_part_of_a_cell(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "key\tanswer\na\u2028b\tc\x85d\x0be\n")
    assert list(read(path)) == [Fact("a\u2028b", "", "c\x85d\x0be")]


def test_numbers_of_json_are_taken_as_they_are_written(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"key": 1.50, "answer": 12345678901234567890123, "count": 3}\n')
    assert list(read(path)) == [Fact("1.50", "", "12345678901234567890123", 3.0)]


def test_the_help_names_every_kind_of_file() -> None:
    said = str(Facts.model_fields["library"].description)
    assert {*TABLES, *TRIPLES} <= set(re.findall(r"\.[a-z]+", said))
    assert ".ttl (needs the extra facts)" in said


@pytest.mark.parametrize("said", ["3", "+3.0", " 3. ", ".3e1", "30E-1", "0.3e+01"])
def test_a_weight_is_a_decimal_number(tmp_path: Path, said: str) -> None:
    assert next(read(write(tmp_path, "a.csv", f"key,answer,count\na,b,{said}\n"))).weight == 3.0


def test_a_weight_is_named_or_called_so(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "key,answer,seen\na,b,2.5\n")
    assert list(read(path, weight="seen")) == [Fact("a", "", "b", 2.5)]
    path = write(tmp_path, "b.csv", "city,land,Count\na,b,4\n")
    assert list(read(path)) == [Fact("a", "", "b", 4.0)]
    path = write(tmp_path, "c.csv", "count,land\n4,b\n")
    assert list(read(path, key="count", answer="land")) == [Fact("4", "", "b")]


def test_named_columns_leave_others_alone(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "id,name,land,note,note\n1,Köln,Germany,,\n")
    assert list(read(path, key="name", answer="land")) == [Fact("Köln", "", "Germany")]
    assert list(read(path, key="name", answer="id", relation="land")) == [Fact("Köln", "Germany", "1")]


def test_a_relation_is_found_beside_columns_that_are_named(tmp_path: Path) -> None:
    """Without it, two answers of two relations would be two answers to one question."""
    path = write(tmp_path, "a.csv", "key,relation,answer,answer_fr\na,r,b,c\n")
    assert list(read(path, answer="answer_fr")) == [Fact("a", "r", "c")]
    path = write(tmp_path, "b.csv", "city,predicate,land\na,r,b\n")
    assert list(read(path, key="city", answer="land")) == [Fact("a", "r", "b")]
    assert list(read(path, key="city", answer="predicate")) == [Fact("a", "", "r")]


def test_what_is_not_named_is_found_by_its_name(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "subject,of,object,note,weight,count\na,r,b,n,2,3\n")
    assert list(read(path, relation="of", weight="count")) == [Fact("a", "r", "b", 3.0)]
    assert list(read(path, relation="of", answer="note", weight="weight")) == [Fact("a", "r", "n", 2.0)]
    assert list(read(path, key="of", answer="note", weight="weight")) == [Fact("r", "", "n", 2.0)]


def test_rows_are_taken_one_at_a_time(tmp_path: Path) -> None:
    """The first facts come before a later line is found to be broken."""
    path = write(tmp_path, "a.tsv", "key\tanswer\n" + "a\tb\n" * 3 + "broken\n")
    found = read(path)
    assert [next(found) for _ in range(3)] == [Fact("a", "", "b")] * 3
    with pytest.raises(FactsError, match="line 5: 1 cell"):
        next(found)


# what cannot be read


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.tsv", "", "FILE is empty"),
        ("a.csv", "\ufeff\n\n", "FILE is empty"),
        ("a.jsonl", "\n", "FILE is empty"),
        ("a.tsv", "key\tanswer\n", "FILE holds no facts"),
        ("a.csv", "key,answer\n\n", "FILE holds no facts"),
        ("a.tsv", "key\tanswer\na\tb\nc\n", "line 3: 1 cell, but the header has 2"),
        ("a.csv", 'key,answer\n"a\nb",c\nd,e,f\n', "line 4: 3 cells, but the header has 2"),
        ("a.csv", 'key,answer\na,b\nc,"d\ne,f\n', "line 3: broken CSV"),
        ("a.csv", 'key,answer\na,"b"c\n', "line 2: broken CSV"),
        ("a.tsv", "key\tanswer\na\t \n", "line 2: the answer is empty"),
        ("a.tsv", "key\tanswer\n\u3000\tb\n", "line 2: the key is empty"),
        ("a.tsv", "key\trelation\tanswer\na\t\tb\n", "line 2: the relation is empty"),
        ("a.tsv", "key\tanswer\tcount\na\tb\t0\n", "line 2: the weight should be a positive number, got '0'"),
        ("a.tsv", "key\tanswer\tcount\na\tb\tnan\n", "line 2: the weight should be a positive number, got 'nan'"),
        ("a.jsonl", '{"key": "a", "answer": "b"}\n{"key": "c", "answer": "d", "weight": 3}', "line 2: 'weight', which"),
        ("a.jsonl", '{"key": "a", "answer": "b"}\n{"key": "a", "relation": "r", "answer": "d"}', "line 2: 'relation'"),
        ("a.tsv", "key\tanswer\tcount\na\tb\t1_000\n", "line 2: the weight should be a positive number, got '1_000'"),
        ("a.tsv", "key\tanswer\tcount\na\tb\t\uff11\uff12\n", "line 2: the weight should be a positive number, got '"),
        ("a.jsonl", '{"key": "a", "answer": "b", "count": "1_0"}\n', "line 1: the weight should be a positive number"),
        ("a.tsv", "key\tanswer\tcount\na\tb\tinfinity\n", "line 2: the weight should be a positive number"),
        ("a.tsv", "key\tanswer\tcount\na\tb\tmany\n", "line 2: the weight should be a positive number, got 'many'"),
        ("a.tsv", "key\tanswer\na\tb\nK\u00f6ln\tc\n".encode("latin-1"), "line 3: not UTF-8 (byte 0xf6)"),
        ("a.csv", "key,answer\na,b\n".encode("utf-16"), "line 1: a null character; is the file UTF-8?"),
        ("a.csv", "key,answer\na,b\n".encode("utf-16-le"), "line 1: a null character; is the file UTF-8?"),
        ("a.tsv", f"key\tanswer\n{'k' * 10**6}\tb\n", "line 2: the key has 1000000 characters; at most 10000 are read"),
        (
            "a.csv",
            f"key,answer\n{'k' * 10**6},b\n",
            "line 2: a cell of more than 131072 characters; do its quotes end?",
        ),
        ("a.tsv", f"key\tanswer\n{'k' * LONGEST_LINE}\tb\n", f"line 2: longer than {LONGEST_LINE} bytes"),
        ("a.jsonl", '{"key": "a", "answer": "b"}\n{"key": "a", "answer": \n', "line 2: broken JSON ("),
        ("a.jsonl", '{"key": "a", "answer": NaN}\n', "line 1: broken JSON (NaN is no JSON)"),
        ("a.jsonl", "[" * 10**6, "line 1: broken JSON (nested too deeply)"),
        ("a.jsonl", '{"key": "a", "answer": "b"}\n["a", "b"]\n', 'line 2: should be a JSON object, got \'["a", "b"]\''),
        ("a.jsonl", '{"key": "a", "answer": "b"}\n{"key": "a"}\n', "line 2: the answer is missing"),
        ("a.jsonl", '{"key": "a", "answer": ["b"]}\n', "line 1: the answer should be a string or a number, got ['b']"),
        ("a.jsonl", '{"key": "a", "answer": true}\n', "line 1: the answer should be a string or a number, got True"),
        ("a.jsonl", '{"key": "\\ud800", "answer": "b"}\n', "line 1: the key '\\ud800' holds a lone surrogate"),
    ],
    ids=itertools.count(),
)
def test_bad_input_is_refused_in_one_line(tmp_path: Path, name: str, content: str | bytes, said: str) -> None:
    assert said in refusal(write(tmp_path, name, content))


def test_a_cell_of_the_longest_length_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", f"key\tanswer\n{'k' * LONGEST_CELL}\tb\n")
    assert list(read(path)) == [Fact("k" * LONGEST_CELL, "", "b")]


@pytest.mark.parametrize(
    ("header", "names", "said"),
    [
        ("id,a,b,c", {}, "FILE has the columns 'id', 'a', 'b', 'c'; which holds what? Name them with --key, --answer"),
        ("one", {}, "FILE has the column 'one'; which"),
        ("key,a,b,c", {}, "which holds what?"),
        ("a,b", {"key": "c"}, "FILE has no column 'c' (--key); it has the columns 'a', 'b'"),
        ("a,b", {"key": "a"}, "which holds what?"),
        ("a,b", {"weight": "w"}, "FILE has no column 'w' (--weight)"),
        ("a,b", {"key": "a", "answer": "a"}, "column 'a' cannot have two roles"),
        ("a,a,b", {"key": "a", "answer": "b"}, "FILE has two columns 'a'"),
        ("key,answer,subject,object", {}, "which holds what?"),
        ("subject,of,object,note", {}, "which holds what?"),
        ("subject,relation,predicate,object", {}, "columns 'relation' and 'predicate'; name one with --relation"),
        ("key,answer,weight,count", {}, "columns 'weight' and 'count'; name one with --weight"),
        (",".join(f"c{number}" for number in range(40)), {}, "'c9' and 30 more"),
    ],
)
def test_columns_that_cannot_be_told_are_listed(tmp_path: Path, header: str, names: dict[str, str], said: str) -> None:
    row = ",".join("x" for _ in header.split(","))
    assert said in refusal(write(tmp_path, "a.csv", f"{header}\n{row}\n"), **names)


@pytest.mark.parametrize("made", [lambda path: None, lambda path: path.mkdir()])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, made: Callable[[Path], None]) -> None:
    path = tmp_path / "a.tsv"
    made(path)
    with pytest.raises(FactsError, match=r"library: "):
        read(path)


@pytest.mark.parametrize("name", ["a.txt", "a", "a.rdf", "a.owl", "folder", "a.tsv.gz"])
def test_other_kinds_are_refused_with_a_list_of_those_that_are_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.mkdir() if name == "folder" else path.write_text("a\tb\n")
    message = refusal(path)
    assert ".tsv, .csv, .jsonl, .ndjson, .obo, .nt, .ttl, or a folder with WordNet's data.noun" in message
    assert ("RDF/XML is not read: convert it to .nt or .ttl" in message) == (path.suffix in (".rdf", ".owl"))


def test_columns_are_named_for_tables_alone(tmp_path: Path) -> None:
    assert "has no columns to name" in refusal(write(tmp_path, "a.obo", "[Term]\nid: A\n"), key="id")
