"""`capax plan facts`, `runs recall` and the report of facts, from a file to an answer."""

import json
from pathlib import Path

import pytest
from commands import refused, run

from capax.cli import main

COUNTRIES = Path(__file__).parents[2] / "examples" / "facts" / "countries.tsv"


def test_from_a_file_to_an_answer_on_the_command_line(tmp_path, monkeypatch, capsys) -> None:
    """Planned, trained, asked in words, reported."""
    monkeypatch.chdir(tmp_path)
    plan = ("plan", "facts", COUNTRIES, "--tokenizations", "code", "--n-layers", "1", "--embeddings", "frozen")
    text = run(capsys, *plan, "--verify", "--workers", "1")
    assert "countries.tsv: 180 facts, 3 relations" in text
    assert "the plan holds" in text
    key = text.rsplit("(run ", 1)[1][:12]
    assert run(capsys, "runs", "recall", key, "Norway", "capital").startswith("Oslo (probability 0.9")
    assert "relation: one of capital, continent, currency" in refused(capsys, "runs", "recall", key, "Norway")
    found = json.loads(run(capsys, "runs", "recall", key, "Norway", "capital", "--json"))
    assert found["answer"] == "Oslo"
    assert found["agrees"] is True
    assert "continent 60 of 60" in run(capsys, "runs", "show", key)
    run(capsys, "report", "capax.db", "--out", "page.html")
    page = Path("page.html").read_text()
    assert "What is recalled, and what is missed" in page
    assert "A plan expects such a network to recall 99%" in page
    assert str(COUNTRIES.parent) not in page
    checked = json.loads(run(capsys, *plan, "--json"))
    assert checked["networks"][0]["tokenization"] == "code"


def test_bad_files_end_with_two(tmp_path, capsys) -> None:
    (tmp_path / "bad.tsv").write_text("key\tanswer\nk\ta\nk\n")
    assert "line 3" in refused(capsys, "plan", "facts", tmp_path / "bad.tsv")
    (tmp_path / "two.tsv").write_text("key\tanswer\nk\ta\nk\tb\n")
    assert "no model recalls more than 1 of 2 facts" in refused(capsys, "measure", "facts", tmp_path / "two.tsv")
    with pytest.raises(SystemExit) as ended:
        main(["plan", "facts"])
    assert ended.value.code == 2


def test_protocols_that_draw_libraries_say_how_facts_are_drawn(capsys) -> None:
    line = refused(capsys, "measure", "facts", COUNTRIES, "--protocol", "mls")
    assert "library_size should be below 180, the facts of the file" in line
