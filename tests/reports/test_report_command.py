"""`capax report` refuses what it cannot show or write, in one line, and leaves files as they were."""

import os
from pathlib import Path

import polars as pl
import pytest

import capax
from capax.cli import main
from capax.store import table_files

TASK = capax.Sequences(seq_len=4, vocab_size=9, library_size=12)
MODEL = capax.Transformer(d_model=4, d_head=2)
TRAINING = capax.Training(max_epochs=1)


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def run() -> capax.Measurement:
    return capax.measure(TASK, MODEL, TRAINING, restarts=1)


@pytest.fixture
def one(run: capax.Measurement) -> Path:
    with capax.Store("one.db") as store:
        store.add(run)
    return Path("one.db")


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit_:
        main(["report", *arguments])
    out, err = capsys.readouterr()
    return int(exit_.value.code or 0), out, err


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    ended, out, err = report(capsys, *arguments)
    assert (ended, out) == (code, "")
    assert err.startswith("capax: ")
    assert err.count("\n") == 1
    after = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    assert {path: text for path, text in after.items() if not path.name.endswith(("-wal", "-shm"))} == before
    return err


@pytest.mark.slow
def test_one_run_makes_a_report_that_says_what_is_missing(capsys: pytest.CaptureFixture[str], one: Path) -> None:
    code, out, err = report(capsys, str(one))
    assert (code, err) == (0, "")
    assert out.startswith("Report: report.html (")
    html = Path("report.html").read_text(encoding="utf-8")
    assert "1 run of one.db" in html
    assert "1 run without" in html
    assert "do not fill" in html
    assert not list(Path().glob("*.part"))


def test_stores_without_finished_runs(capsys: pytest.CaptureFixture[str], run: capax.Measurement) -> None:
    capax.Store("empty.db").close()
    assert "store: no finished runs" in refused(capsys, "empty.db")
    with capax.Store("failed.db") as store:
        store.fail(run.spec, "out of memory")
    assert "failed.db (1 failed)" in refused(capsys, "failed.db")
    assert "store: at least one" in refused(capsys)
    assert "missing.db" in refused(capsys, "missing.db")
    Path("text.db").write_text("text")
    assert "text.db" in refused(capsys, "text.db")


@pytest.mark.slow
def test_rows_of_others_are_named_and_not_shown(capsys: pytest.CaptureFixture[str], one: Path) -> None:
    rows = pl.DataFrame({"seq_len": [8], "n_heads": [1], "d_model": [16], "memorized": [9]})
    for name in (str(one), "others.db"):
        with capax.Store(name) as store:
            assert store.import_rows(rows, "their <rows>.csv") == 1
    code, out, _ = report(capsys, str(one))
    assert code == 0
    assert "1 run; imported rows left out: 1" in out
    assert "1 row imported from their &lt;rows&gt;.csv" in Path("report.html").read_text(encoding="utf-8")
    assert "others.db (imported rows, which are no runs: 1)" in refused(capsys, "others.db")


@pytest.mark.slow
def test_a_failure_beside_a_run_is_listed(
    capsys: pytest.CaptureFixture[str], one: Path, run: capax.Measurement
) -> None:
    with capax.Store(one) as store:
        store.fail(run.spec.replace(seed=5), "out of <memory>")
    assert report(capsys, str(one))[0] == 0
    html = Path("report.html").read_text(encoding="utf-8")
    assert "out of &lt;memory&gt;" in html


@pytest.mark.slow
def test_runs_of_other_protocols_are_told_apart(capsys: pytest.CaptureFixture[str], one: Path) -> None:
    others = [
        capax.measure(TASK, MODEL, TRAINING, protocol=capax.Shatter(trials=2)),
        capax.measure(TASK, MODEL.replace(d_model=8), TRAINING.replace(lr=0.1), restarts=2),
        capax.measure(capax.Relations(n_items=4), capax.KeyQueryChannel(d_model=4, d_head=2), TRAINING, restarts=1),
    ]
    with capax.Store(one) as store:
        for other in others:
            store.add(other)
    assert report(capsys, str(one))[0] == 0
    html = Path("report.html").read_text(encoding="utf-8")
    assert "<strong>3 runs in 3 groups, of which the first:</strong>" in html
    assert "<strong>1 run:</strong>" in html
    assert html.count('<td class="best">') == 4
    assert "protocol shatter, trials 2" in html
    assert 'id="width-0"' not in html  # the two widths were trained at different rates


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("missing/report.html", "out: cannot write missing/report.html: no such folder missing"),
        (".", "out: . is a folder"),
        ("report.pdf", "out: should end in .html, got report.pdf"),
        ("one.db", "out: one.db is a store or another database"),
        ("x" * 300 + ".html", "out: cannot write"),
    ],
)
def test_where_no_report_can_be_written(capsys: pytest.CaptureFixture[str], one: Path, out: str, said: str) -> None:
    assert said in refused(capsys, str(one), "-o", out)


def test_the_output_is_checked_before_any_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert "missing" in refused(capsys, "missing.db", "-o", "missing/report.html")


@pytest.mark.slow
def test_a_file_of_nearly_the_same_name_is_left_alone(capsys: pytest.CaptureFixture[str], one: Path) -> None:
    for name in ("report.html.part", ".capax-part", "f.png.part"):
        Path(name).write_text("mine")
    assert report(capsys, str(one))[0] == 0
    with pytest.raises(SystemExit) as exit_:
        main(["figure", "bounds", str(one), "-o", "f.png"])
    assert not exit_.value.code
    assert Path("f.png").exists()
    assert {path.name: path.read_text() for path in Path().glob("*part")} == {
        name: "mine" for name in ("report.html.part", ".capax-part", "f.png.part")
    }


def test_a_figure_does_not_take_a_store_s_place(
    capsys: pytest.CaptureFixture[str], one: Path, run: capax.Measurement
) -> None:
    other = capax.measure(TASK, MODEL, TRAINING.replace(lr=0.1), restarts=1)
    third = capax.measure(capax.Sequences(seq_len=4, vocab_size=8, library_size=12), MODEL, TRAINING, restarts=1)
    with capax.Store(one) as store:
        store.add(other)
        store.add(third)
    for name in ("store.png", "f-2.png"):
        with capax.Store(name) as store:
            store.add(run)
        before = Path(name).read_bytes()
        with pytest.raises(SystemExit) as exit_:
            main(["figure", "curves", str(one), "-o", name.replace("-2", "")])
        out, err = capsys.readouterr()
        assert (exit_.value.code, out) == (2, "")
        assert err == f"capax: out: {name} is a store or another database; name another file\n"
        assert Path(name).read_bytes() == before
    assert not Path("f.png").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is read-only for the superuser")
def test_a_read_only_folder(capsys: pytest.CaptureFixture[str], one: Path) -> None:
    folder = Path("locked")
    folder.mkdir(mode=0o500)
    assert "out: cannot write" in refused(capsys, str(one), "-o", "locked/report.html", code=1)


@pytest.mark.parametrize("law", ["missing.json", "published:nobody", "reference:none"])
def test_a_law_that_is_not_there(capsys: pytest.CaptureFixture[str], one: Path, law: str) -> None:
    assert law.rpartition(":")[2] in refused(capsys, str(one), "--law", law)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "said"),
    [
        pytest.param(
            "reference:association", "Which model memorizes so many associations?", marks=pytest.mark.very_slow
        ),
        ("reference:relation", "No plan here: the law relation says what edges need"),
        ("published:harma2024:2", "is not usable as published"),
        pytest.param("published:harma2024", "Errata in the paper that printed it", marks=pytest.mark.very_slow),
        ("reference:ecm", "Empirical capacity model"),
    ],
)
def test_the_section_of_a_law(capsys: pytest.CaptureFixture[str], one: Path, law: str, said: str) -> None:
    assert report(capsys, str(one), "--law", law)[0] == 0
    html = Path("report.html").read_text(encoding="utf-8")
    assert said in html
    assert "It ships with capax and was not fitted" not in html


@pytest.mark.slow
def test_any_law_of_counts_plans_in_the_page(capsys: pytest.CaptureFixture[str], one: Path) -> None:
    from capax.laws.files import save_law

    save_law(capax.Polynomial(degree=1, n_bootstrap=100).fit(table_files.from_file("reference:grid")), "law.json")
    assert report(capsys, str(one), "--law", "law.json")[0] == 0
    html = Path("report.html").read_text(encoding="utf-8")
    assert "No plan here" not in html
    assert 'data-values="[' in html


def test_a_name_that_is_no_text_is_written_all_the_same(capsys: pytest.CaptureFixture[str], one: Path) -> None:
    name = os.fsdecode(b"caf\xe9.db")
    one.rename(name)
    assert report(capsys, name, "--title", os.fsdecode(b"\xff"))[0] == 0
    assert "caf?.db" in Path("report.html").read_text(encoding="utf-8")
