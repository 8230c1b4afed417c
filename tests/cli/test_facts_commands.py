"""`capax plan facts`, `runs recall` and the report of facts, from a file to an answer."""

import json
from pathlib import Path

import pytest
from commands import refused, run

from capax.cli import main, recall
from capax.results import FactRecall

COUNTRIES = Path(__file__).parents[2] / "examples" / "facts" / "countries.tsv"


@pytest.mark.slow
def test_from_a_file_to_an_answer_on_the_command_line(tmp_path, monkeypatch, capsys) -> None:
    """Planned, trained, asked in words, reported."""
    monkeypatch.chdir(tmp_path)
    plan = ("plan", "facts", COUNTRIES, "--tokenizations", "code", "--n-layers", "1", "--embeddings", "frozen")
    text = run(capsys, *plan, "--verify", "--workers", "1")
    assert "countries.tsv: 180 facts, 3 relations" in text
    assert "the plan holds" in text
    key = text.rsplit("(run ", 1)[1][:12]
    assert run(capsys, "runs", "recall", key, "Norway", "capital").startswith("Oslo (probability 0.9")
    assert "relation: is required; one of capital, continent, currency" in refused(
        capsys, "runs", "recall", key, "Norway"
    )
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


@pytest.mark.slow
def test_a_first_line_that_may_be_a_fact_is_said(tmp_path, capsys) -> None:
    """Of two columns that have no known names."""
    (tmp_path / "two.tsv").write_text("Norway\tOslo\nSweden\tStockholm\nSpain\tMadrid\n")
    shown = run(capsys, "plan", "facts", tmp_path / "two.tsv")
    assert "two.tsv: 2 facts, 1 relation" in shown
    assert "the first line was taken for the names of the columns: Norway (key), Oslo (answer)" in shown
    (tmp_path / "two.csv").write_text("key,answer\nSweden,Stockholm\nSpain,Madrid\n")
    assert "first line was taken" not in run(capsys, "plan", "facts", tmp_path / "two.csv")
    named = ("--key", "Norway", "--answer", "Oslo")
    assert "first line was taken" not in run(capsys, "plan", "facts", tmp_path / "two.tsv", *named)


def test_bad_files_end_with_two(tmp_path, capsys) -> None:
    (tmp_path / "bad.tsv").write_text("key\tanswer\nk\ta\nk\n")
    assert "line 3" in refused(capsys, "plan", "facts", tmp_path / "bad.tsv")
    (tmp_path / "two.tsv").write_text("key\tanswer\nk\ta\nk\tb\n")
    assert "no model recalls more than 1 of 2 facts" in refused(capsys, "measure", "facts", tmp_path / "two.tsv")
    assert "workers: only with --verify, got 1" in refused(capsys, "plan", "facts", COUNTRIES, "--workers", "1")
    for option, kind in (("code_len", "code"), ("bpe_size", "bpe")):
        given = ("--tokenization", kind, f"--{option.replace('_', '-')}", "300" if kind == "bpe" else "3")
        line = refused(capsys, "plan", "facts", COUNTRIES, *given, "--tokenizations", "words,bytes")
        assert f"{option}: only with {kind} among the tokenizations, got words, bytes" in line
    with pytest.raises(SystemExit) as ended:
        main(["plan", "facts"])
    assert ended.value.code == 2


def test_protocols_that_draw_libraries_say_how_facts_are_drawn(capsys) -> None:
    line = refused(capsys, "measure", "facts", COUNTRIES, "--protocol", "mls")
    assert "library_size should be below 180, the facts of the file" in line


def test_a_plan_says_what_was_given_in_plain_words(tmp_path, capsys) -> None:
    """Repeats are no facts of their own, and --tokenization is heard."""
    (tmp_path / "two.tsv").write_text("key\tanswer\na\tx\na\tx\na\tx\nb\ty\n")
    plan = ("plan", "facts", tmp_path / "two.tsv", "--n-layers", "1", "--library-size", "2")
    text = run(capsys, *plan, "--tokenization", "words")
    assert "two.tsv: 2 facts (and 2 repeats), 1 relation\n" in text
    assert "exposures of each of 2 facts," in text
    assert "The first: words," in text
    assert "code" not in text.partition("note:")[0]


def test_any_of_several_answers_is_no_ceiling(tmp_path, capsys) -> None:
    lines = [
        f"{key}\t{answer}" for key in "abcdef" for answer in ("xy" if key < "d" else "uvwxyz"["abcdef".index(key)])
    ]
    (tmp_path / "any.tsv").write_text("\n".join(["key\tanswer", *lines]))
    text = run(capsys, "plan", "facts", tmp_path / "any.tsv", "--ambiguous", "any", "--tokenizations", "code")
    assert "3 of 6 pairs of key and relation have several answers: any of them counts; 9 are asked" in text
    text = run(capsys, "plan", "facts", tmp_path / "any.tsv", "--ambiguous", "drop", "--tokenizations", "code")
    assert "several answers: no model recalls more than 66.7% of all facts; 3 are asked" in text


def test_a_path_that_cannot_be_looked_at_is_bad_input(capsys) -> None:
    assert "File name too long" in refused(capsys, "measure", "facts", f"{'a' * 5000}.tsv")


@pytest.mark.slow
def test_an_answer_does_not_steer_the_terminal(tmp_path, monkeypatch, capsys) -> None:
    """Nor is a key asked for by a relation where the file names none; facts that were not drawn are not denied."""
    monkeypatch.chdir(tmp_path)
    Path("red.tsv").write_text("key\tanswer\na\t\x1b[31mred\nb\t\x1b[31mred\nc\t[blue]x\n")
    options = ("--library-size", "2", "--tokenization", "words", "--d-model", "16", "--d-head", "16", "--seed", "0")
    text = run(capsys, "measure", "facts", "red.tsv", *options, "--restarts", "1", "--keep-weights", "--json")
    key = json.loads(text)["key"]
    said = [run(capsys, "runs", "recall", key, name) for name in "abc"]
    assert all("\x1b" not in line for line in said)
    assert sum("the file says" in line for line in said) == 2
    assert sum("none of the facts that it learned answers this" in line for line in said) == 1
    assert "relation: the file names none, got 'of'" in refused(capsys, "runs", "recall", key, "a", "of")


def test_facts_of_one_answer_are_reported(tmp_path, monkeypatch, capsys) -> None:
    """They have no bits, by which no plan divides."""
    monkeypatch.chdir(tmp_path)
    Path("same.tsv").write_text("key\tanswer\na\tx\nb\tx\n")
    size = ("--d-model", "8", "--d-head", "8")
    run(capsys, "measure", "facts", "same.tsv", *size, "--max-steps", "1", "--restarts", "1")
    run(capsys, "report", "capax.db", "--out", "page.html")
    assert "A plan expects" not in Path("page.html").read_text()


@pytest.mark.parametrize(
    ("answer", "agrees", "said"),
    [
        ("Oslo", True, "Oslo (probability 0.500); the file says the same, and Bergen"),
        ("Rome", False, "Rome (probability 0.500); the file says Oslo or Bergen"),
    ],
)
def test_all_that_the_file_says_is_told(
    answer: str, agrees: bool, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recall._show(FactRecall(answer=answer, probability=0.5, file_answers=("Oslo", "Bergen"), agrees=agrees), "file")
    assert capsys.readouterr().out == f"{said}\n"
