"""`capax measure … --sensitivity`: the table, the JSON, the figure, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import refused, run

import capax
from capax.store import Store

MEASURE = [
    *("measure", "sequences", "--seq-len", "4", "--vocab-size", "10", "--library-size", "80", "--d-model", "8"),
    *("--d-head", "4", "--max-epochs", "4", "--restarts", "2", "--workers", "1"),
]


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_table_json_and_figure_say_what_python_says(capsys: pytest.CaptureFixture[str]) -> None:
    words = "lr=1e-3:1e-2,loss,patience=10"
    found = capax.sensitivity(
        capax.Sequences(seq_len=4, vocab_size=10, library_size=80),
        capax.Transformer(d_model=8, d_head=4),
        capax.Training(max_epochs=4),
        choices={"lr": [1e-3, 1e-2], "loss": None, "patience": [10]},
        restarts=2,
        store="capax.db",
    )
    with Store("capax.db") as store:
        before = store.keys()
    printed = run(capsys, *MEASURE, "--sensitivity", words, "--json", "--figure", "t.png")
    assert capax.Sensitivity.model_validate_json(printed) == found
    assert Path("t.png").read_bytes().startswith(b"\x89PNG")
    table = run(capsys, *MEASURE, "--sensitivity", words, "--figure", "t.pdf")
    assert Path("t.pdf").read_bytes().startswith(b"%PDF")
    with Store("capax.db") as store:
        assert store.keys() == before
    lines = [" ".join(line.split()) for line in table.splitlines()]
    for part in (f"{found.number:.4g} above chance", f"{found.memorized} of 80", f"{found.chance:.4g} by luck"):
        assert part in lines[1]
    by_name = {one.choice: one for one in found.choices}
    assert [line for line in lines if line in by_name] == [one.choice for one in found.choices]
    (lr,), (patience,) = by_name["lr"].alternatives, by_name["patience"].alternatives
    papers = "base Härmä, Mahdavi, Changalidis, Nichani"
    assert lines[lines.index("lr") + 1] == f"0.001 {found.number:.4g} {papers}"
    row = lines[lines.index("lr") + 2]
    relative = "" if lr.relative_change is None else f"({lr.relative_change:+.0%}) "
    assert row.startswith(f"0.01 {lr.number:.4g} {lr.change:+.4g} {relative}")
    assert row.endswith(f"{'beyond' if lr.beyond_noise else 'within'} Nichani")
    nothing = "" if patience.relative_change is None else "(+0%) "
    assert lines[lines.index("patience") + 2].startswith(f"10 {patience.number:.4g} +0 {nothing}")
    assert any(line.startswith("note: lr: 0.001 ") for line in lines)
    assert lines[-1] == "Figure: t.pdf"
    assert run(capsys, *MEASURE, "--sensitivity", words, "--quiet") == ""


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--sensitivity", ""], ["sensitivity", "lr,batch_size=64:128", "''"]),
        (["--sensitivity", "lr,,loss"], ["sensitivity", "'lr,,loss'"]),
        (["--sensitivity", "lr=:1"], ["lr", "separated by colons", "':1'"]),
        (["--sensitivity", "lr="], ["lr", "separated by colons", "''"]),
        (["--sensitivity", "batch-size,batch_size"], ["'batch_size' twice"]),
        (["--sensitivity", "dropout"], ["can vary lr, batch_size, loss", "'dropout'"]),
        (["--sensitivity", "lr=0"], ["lr", "greater than 0", "'0'"]),
        (["--sensitivity", "patience=none", "--max-epochs", "4", "--protocol", "shatter"], ["protocol", "'shatter'"]),
        (["--sensitivity", "lr", "--keep-weights"], ["keep_weights", "--sensitivity"]),
        (["--sensitivity", "lr", "--figure", "t.doc"], ["figure", ".png", "t.doc"]),
        (["--sensitivity", "lr", "--figure", "none/t.png"], ["figure", "no such folder none"]),
        (["--sensitivity", "lr", "--figure", "/proc/t.png"], ["figure", "cannot write", "/proc/t.png"]),
        (["--figure", "t.png"], ["figure", "only with --sensitivity"]),
    ],
)
def test_bad_input_leaves_nothing(capsys: pytest.CaptureFixture[str], flags: list[str], said: list[str]) -> None:
    line = refused(capsys, "measure", "sequences", "--library-size", "80", *flags)
    for word in said:
        assert word in line, line
    assert list(Path.cwd().iterdir()) == []


def test_a_task_without_the_choice_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "measure", "associations", "--library-size", "20", "--sensitivity", "lr,loss")
    assert "a run of 'associations' by protocol 'mac' can vary lr, batch_size, epochs, steps" in line
    assert "got 'loss'" in line
