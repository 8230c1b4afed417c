"""`capax figure`: the files it writes, and what it refuses before it does any work."""

from pathlib import Path

import pytest
from commands import refused, run
from PIL import Image

import capax
from capax.cli import main


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of two kinds, two widths each."""
    path = tmp_path_factory.mktemp("runs") / "s.db"
    for vocabulary in (9, 12):
        for width in (4, 8):
            capax.measure(
                capax.Sequences(seq_len=4, vocab_size=vocabulary, library_size=20),
                capax.Transformer(d_model=width, d_head=2),
                capax.Training(max_epochs=2),
                restarts=2,
                store=path,
            )
    return path


@pytest.mark.slow
def test_kinds_are_numbered_files(capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path) -> None:
    said = run(capsys, "figure", "width", store, "-o", tmp_path / "f.svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f-2.svg", "f.svg"]
    titles = [line.split(".svg: ")[1] for line in said.splitlines() if line.startswith("Figure: ")]
    assert len(set(titles)) == 2
    assert "Count: the best of 2 restarts" in said


def test_letters_that_a_font_lacks_are_a_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    task, model = capax.Sequences(seq_len=4, vocab_size=9, library_size=20), capax.Transformer(d_model=4, d_head=2)
    capax.measure(task, model, capax.Training(max_epochs=2), name="漢", store=tmp_path / "s.db")
    scatter = "figure", "scatter", tmp_path / "s.db", "--x", "d_model", "--y", "memorized", "--color", "name"
    with pytest.raises(SystemExit, match="0"):
        main([*map(str, scatter), "--out", str(tmp_path / "f.png")])
    assert capsys.readouterr().err == "capax: out: its font has no 漢: boxes stand for them\n"


def test_any_column_against_any_other(
    capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "capax.db").write_bytes(store.read_bytes())
    monkeypatch.chdir(tmp_path)
    size = ["--width", "3", "--height", "2.5", "--dpi", "100", "--format", "png"]
    columns = ["--x", "flops", "--y", "exposures", "--color", "vocab_size", "--log", "x", "--where", "d_model=4"]
    said = run(capsys, "figure", "scatter", *columns, *size)
    assert said.startswith("Figure: scatter.png: Exposures against FLOPs of one training\nEach mark is a run")
    with Image.open(tmp_path / "scatter.png") as image:
        assert image.size == (300, 250)
        assert image.info["Description"] in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["wdith", "s.db", "-o", "f.png"], "capax: figure: one of capacity, "),
        (["width", "s.db", "-o", "f.xyz"], "capax: out: should end in one of "),
        (["width", "s.db", "-o", "none/f.png"], "capax: out: cannot write none/f.png: no such folder none"),
        (["width", "-o", "f.png"], "capax: store: no such file: capax.db"),
        (["width", "none.db", "-o", "f.png"], "capax: store: "),
        (["width", "empty.db", "-o", "f.png"], "capax: store: no finished runs in empty.db"),
        (["shatter", "s.db", "-o", "f.png"], "capax: no run by protocol shatter"),
        (["width", "s.db", "-o", "f.png", "--law", "none.json"], "capax: law: "),
        (
            ["curves", "s.db", "-o", "f.png", "--law", "reference:power"],
            "capax: law: not drawn in figure curves; ",
        ),
        (["width", "s.db", "--x", "flops"], "capax: x: of figure scatter alone, width has its own columns"),
        (["width", "s.db", "--format", "gex"], "capax: format: one of "),
        (["width", "s.db", "--width", "0"], "capax: width: 1 to 40 inches, got 0"),
        (["width", "s.db", "--where", "d_model=5"], "capax: where: no row has d_model=5"),
        (["scatter", "s.db", "--x", "flops"], "capax: y: figure scatter needs a column"),
        (["scatter", "s.db", "--x", "flop", "--y", "bits"], "capax: x: no column 'flop'; the nearest are flops"),
    ],
)
def test_what_cannot_be_drawn_is_one_line_and_no_file(
    capsys: pytest.CaptureFixture[str],
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    (tmp_path / "s.db").write_bytes(store.read_bytes())
    capax.Store(tmp_path / "empty.db").close()
    monkeypatch.chdir(tmp_path)
    assert refused(capsys, "figure", *arguments).startswith(message)
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".db"] == []


def test_pictures_are_checked_before_the_work(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for command in (
        ["demo", "--quick", "--store", tmp_path / "d.db"],
        ["fit", "--data", "reference:grid", "--compare"],
    ):
        assert "figure: cannot write" in refused(capsys, *command, "--figure", tmp_path / "none" / "p.png")
    assert list(tmp_path.iterdir()) == []
