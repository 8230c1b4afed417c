"""Files of a user's that a command would overwrite or silently misread."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import capax
from capax.cli import main
from capax.errors import TableError
from capax.laws.law import Law
from capax.store import table_files, tables
from capax.sweeps.grid import StudyError, read_study
from capax.tasks.facts.fact import FactsError


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def ended(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    return int(caught.value.code or 0), capsys.readouterr().err


@pytest.mark.slow
def test_a_law_overwrites_laws_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """Such as the measurements that it was fitted to."""
    table = table_files.from_file("reference:grid")
    rows = table.select("seq_len", "n_heads", "d_model", memorized=table["capacity_items"])
    rows.write_csv("m.csv")
    before = Path("m.csv").read_bytes()
    fit = ("fit", "--data", "m.csv", "--law", "power", "--target", "memorized", "--out")
    assert ended(capsys, *fit, "m.csv") == (2, "capax: out: m.csv is there, and no law; name another file\n")
    assert Path("m.csv").read_bytes() == before
    for _ in range(2):
        assert ended(capsys, *fit, "law.json")[0] == 0


@pytest.mark.slow
def test_a_report_overwrites_pages_alone(capsys: pytest.CaptureFixture[str]) -> None:
    capax.measure(capax.Sequences(seq_len=4, library_size=8), capax.Transformer(d_model=8), restarts=1, store="s.db")
    Path("notes.txt").write_text("mine")
    assert ended(capsys, "report", "s.db", "--out", "notes.txt")[0] == 2
    assert Path("notes.txt").read_text() == "mine"
    for _ in range(2):
        assert ended(capsys, "report", "s.db", "--out", "page.html")[0] == 0


def test_a_first_line_that_is_a_fact_is_not_taken_for_a_header() -> None:
    Path("f.tsv").write_text("a\tr\tx\nb\tr\ty\nc\tr\tz\n")
    with pytest.raises(FactsError, match="line 2: 'r' is in the first line, too"):
        capax.Facts(library="f.tsv").largest_library  # noqa: B018
    Path("f.tsv").write_text("who\twhat\twhich\nb\tr\ty\nc\tr\tz\n")
    assert capax.Facts(library="f.tsv").library_size == 2


def test_a_name_that_is_twice_in_a_json_line_is_refused() -> None:
    Path("f.jsonl").write_text('{"key": "a", "key": "b", "answer": "x"}\n')
    with pytest.raises(FactsError, match="line 1: broken JSON \\('key' is there twice\\)"):
        capax.Facts(library="f.jsonl").largest_library  # noqa: B018


@pytest.mark.parametrize(
    ("header", "row", "said"),
    [
        ("memorized,library_size", "500,100", "memorized: row 1: 500 of 100"),
        ("memorized,memorized", "5,6", "memorized: two columns are called so"),
    ],
)
def test_rows_that_cannot_be_are_not_imported(header: str, row: str, said: str) -> None:
    Path("m.csv").write_text(f"seq_len,n_heads,d_model,{header}\n8,1,16,{row}\n")
    with pytest.raises(TableError, match=said):
        capax.Store("s.db").import_rows(pl.read_csv("m.csv"), "m.csv")


def test_a_cell_that_is_no_number_is_named() -> None:
    with pytest.raises(TableError, match="d_model: row 3: should be a number, got x"):
        tables.numbers({"d_model": ["8", "16", "x"]}, "d_model")


def test_a_mark_of_byte_order_is_no_part_of_a_study() -> None:
    Path("s.toml").write_bytes(b"\xef\xbb\xbf[task]\nlibrary_size = 8\n")
    assert len(read_study(Path("s.toml")).runs) == 1
    Path("s.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(StudyError):
        read_study(Path("s.toml"))


def test_a_module_that_ends_the_process_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("ends.py").write_text(
        "import sys\nimport torch\n\n\nclass M(torch.nn.Module):\n    def __init__(self, vocab_size):\n"
        "        super().__init__()\n        self.e = torch.nn.Embedding(vocab_size, vocab_size)\n\n"
        "    def forward(self, tokens):\n        sys.exit(3)\n"
    )
    code, err = ended(capsys, "measure", "sequences", "--module", "ends:M", "--library-size", "8", "--seq-len", "4")
    assert code == 2
    assert "module: ends:M() failed when it was asked (SystemExit: 3)" in err


@pytest.mark.parametrize("flags", [("--retries", "-1"), ("--gpus-per-run", "0.5")])
def test_a_dry_run_refuses_what_a_run_does(capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]) -> None:
    Path("s.toml").write_text("[task]\nlibrary_size = 8\n")
    assert ended(capsys, "sweep", "s.toml", "--dry-run", *flags)[0] == 2


def test_terms_that_were_not_chosen_may_differ() -> None:
    law: Law = capax.CapacityLaw(axes=["n_layers"], n_bootstrap=50).fit(table_files.from_file("reference:capacity"))
    assert law.domain_.ranges["vocab_size"] == (16, 2048)
