"""The commands do what they say."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import refused, run
from rich.console import Console

import capax
from capax.cli import main, output, progress
from capax.protocols.progress import Progress
from capax.results import Info, Measurement
from capax.specs import Capacity, Mac, Mls, Training
from capax.store import Store
from capax.training.pack import Status

ALONE = ["--workers", "1"]  # starting worker processes takes seconds
SMALL = ["measure", "sequences", "--d-model", "16", "--loss", "last", "--restarts", "2"]
MEASURE = [*SMALL, "--library-size", "8", "--lr", "0.01", *ALONE]


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as exit_:
        main(list(arguments))
    out, err = capsys.readouterr()
    assert exit_.value.code == 0, err
    return out


def test_json_is_one_object_with_the_promised_keys(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, *MEASURE, "--json")
    result = json.loads(out)
    promised = (
        "memorized memorized_per_restart chance memorized_above_chance interval library_size bits bits_per_parameter "
        "tokens_per_parameter parameters epochs steps seconds stop_reason spec key versions schema_version"
    )
    assert set(promised.split()) <= set(result)
    assert set(result["parameters"]) == {"trainable", "total", "effective"}
    assert result["memorized"] == 8
    assert result["stop_reason"] == "complete"
    assert result["chance_uniform"] == pytest.approx(0.08)
    assert result["chance"] == result["chance_constant"] == 1  # the eight targets differ
    assert Measurement.from_json(out).to_json() + "\n" == out


def test_a_stored_run_is_returned_and_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    first = said(capsys, *MEASURE, "--json")
    assert said(capsys, *MEASURE, "--json") == first
    fresh = json.loads(said(capsys, *MEASURE, "--json", "--fresh"))
    assert fresh["seconds"] != json.loads(first)["seconds"]
    assert fresh["members"] == json.loads(first)["members"]
    with Store("capax.db", create=False) as store:
        assert len(store.runs()) == 1


def test_result_and_runs_are_readable(capsys: pytest.CaptureFixture[str]) -> None:
    table = said(capsys, *MEASURE)
    assert "8 of 8" in table
    assert "the library was complete" in table
    said(capsys, *MEASURE, "--seed", "1", "--quiet")
    assert len(said(capsys, "runs").splitlines()) == 3
    assert [run["spec"]["seed"] for run in json.loads(said(capsys, "runs", "--json"))] == [0, 1]


def test_quiet_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, *MEASURE, "--quiet") == ""


def test_recall_of_a_kept_memory(capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.txt").write_text("1 2 3 4\n2 2 3 5\n\n3 2 3 6\n")
    run = json.loads(
        said(capsys, "measure", "sequences", "--library", "s.txt", "--restarts", "1", "--keep-weights", "--json")
    )
    assert run["memorized"] == 3
    answer = json.loads(said(capsys, "runs", "recall", run["key"][:10], "2, 2, 3", "--json"))
    assert answer["token"] == answer["library_token"] == 5
    assert answer["agrees"] is True
    assert 0 < answer["probability"] <= 1
    assert "the library says the same" in said(capsys, "runs", "recall", run["key"], "1 2 3")
    assert "does not hold" in said(capsys, "runs", "recall", run["key"], "1 1 1")


def test_keep_weights_of_a_stored_run_trains_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    without = json.loads(said(capsys, *MEASURE, "--json"))
    kept = json.loads(said(capsys, *MEASURE, "--keep-weights", "--json"))
    assert kept["members"] == without["members"]
    assert Path("capax.db-weights", f"{kept['key']}.safetensors").is_file()


def test_contradictions_that_are_kept_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.txt").write_text("1 2 3\n1 2 4\n2 2 5\n1 2 3\n")
    flags = ["--library", "s.txt", "--duplicates", "keep", "--max-epochs", "3", "--restarts", "1", "--json"]
    run = json.loads(said(capsys, "measure", "sequences", *flags))
    assert run["recallable"] == 3
    assert any("at most 3 of 4 items can be recalled" in note for note in run["notes"])


def test_version_and_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "--version").strip() == "0.1.0"
    facts = Info.model_validate_json(said(capsys, "info", "--json"))
    assert facts.versions["capax"] == "0.1.0"
    assert "torch" in said(capsys, "info")


def test_a_diverging_rate_ends_as_diverged(capsys: pytest.CaptureFixture[str]) -> None:
    run = json.loads(said(capsys, *SMALL, "--library-size", "8", *ALONE, "--lr", "1e6", "--json"))
    assert run["stop_reason"] == "diverged"
    assert {member["stop_reason"] for member in run["members"]} == {"diverged"}


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.very_slow)])
def test_interrupt_saves_what_was_finished(capsys: pytest.CaptureFixture[str], workers: str) -> None:
    said(capsys, *MEASURE, "--quiet")
    long = [*SMALL[:-1], "4", "--library-size", "5000", "--patience", "100000", "--workers", workers]
    # A test run in the background may have been started with Ctrl-C ignored, and its children inherit that.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from capax.cli import main; main()"
    command = [sys.executable, "-c", code, *long]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "TTY_COMPATIBLE": "1", "COLUMNS": "120"},  # draws its progress though stderr is a pipe
    )
    assert process.stderr is not None
    drawn = b""
    try:
        while b"recalled" not in drawn:  # until it trains
            drawn += (part := os.read(process.stderr.fileno(), 4096))
            assert part, drawn
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert out == b""
    assert b"interrupted" in err
    assert b"Traceback" not in err
    with Store("capax.db", create=False) as store:
        assert len(store.runs()) == 1


@pytest.mark.parametrize(("columns", "whole"), [(80, False), (120, True)])
def test_a_line_of_progress_fits(monkeypatch: pytest.MonkeyPatch, columns: int, whole: bool) -> None:
    """Drawn for a terminal of so many columns."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=columns, color_system=None)
    monkeypatch.setattr(output, "console", lambda stderr: console)
    status = Status(0, 0, 2000, 12345, 1234, 0.123, None, 9)
    with progress.training(label="18/36: 2 heads") as show:
        assert show is not None
        show(Progress((status,), 100, 60.0, 5400.0))
    assert "…" not in screen.getvalue()
    last = "1.5 h left unless it improves" if whole else "1.5 h left or more"
    assert last in screen.getvalue()


def test_what_is_left_without_patience_is_the_longest() -> None:
    """A training that ends at its budget, or by cycles, cannot go on as it improves; a search adds trainings."""
    status = Status(0, 0, 2000, 12345, 1234, 0.123, None, 9)
    task, model = capax.Sequences(library_size=20), capax.Transformer(d_model=8, d_head=8)
    short, by_cycles = Training(patience=None, max_steps=9), Training(cycle_tolerance=0.1)
    for protocol, training, words in (
        (Mac(), short, "at most 1.5 h left"),
        (Capacity(), by_cycles, "at most 1.5 h left"),
        (Mls(), short, "1.5 h left unless it improves"),
        (Mac(), Training(patience=3), "1.5 h left unless it improves"),
    ):
        run = capax.Run(task=task, model=model, training=training, protocol=protocol)
        assert progress._left(Progress((status,), 100, 60.0, 5400.0, run)) == words


@pytest.mark.slow
def test_a_training_without_patience(capsys: pytest.CaptureFixture[str]) -> None:
    """It goes on to its budget; a library that was complete on the way did not end it, and the words say so."""
    run(capsys, *MEASURE, "--patience", "none", "--max-epochs", "2", "--json", "--store", "a.db")
    shown = run(capsys, *MEASURE, "--patience", "none", "--max-epochs", "60", "--no-stop-when-complete")
    assert "60 epochs" in shown
    assert "the library was complete, and training went on to its end" in " ".join(shown.split())
    with Store("a.db") as store:
        assert [one.spec.training.patience for one in store.runs()] == [None]
    assert "patience" in refused(capsys, *MEASURE, "--patience", "never")
