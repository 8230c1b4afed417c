"""A task and a model of files named with `--plugin`, by every command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

import capax
from capax.cli import main
from capax.results import Measurement

ROOT = Path(__file__).parents[2]
PLUGINS = [f"--plugin={ROOT / 'examples' / 'plugins' / name}.py" for name in ("pairs", "gqa")]
PAIRS = ["pairs", "--n-keys", "20", "--n-values", "5", "--library-size", "12"]
LETTERS = ["sequences", "--seq-len", "4", "--vocab-size", "6", "--library-size", "24"]
GQA = ["--model", "gqa", "--n-heads", "4", "--n-kv-heads", "2", "--d-model", "8", "--d-head", "4"]
SHORT = ["--max-epochs", "30", "--lr", "0.02"]
PROTOCOLS = {
    "mac": ["--restarts", "2"],
    "mls": ["--protocol", "mls", "--first-size", "4", "--seeds", "4", "--max-trainings", "8"],
    "shatter": ["--protocol", "shatter", "--trials", "3"],
}
STUDY = """
store = "study.db"

[task]
seq_len = 4
vocab_size = 6
library_size = 150

[model]
model = "gqa"
n_heads = 4
d_head = 4

[training]
max_epochs = 20
lr = 0.04

[protocol]
restarts = 2

[grid]
n_kv_heads = [1, 2, 4]
d_model = [4, 6, 8]
"""


def said(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """What a command prints that ends well."""
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments), *PLUGINS])
    out, err = capsys.readouterr()
    assert ended.value.code == 0, (arguments, err)
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the tests of this module work."""
    before, path = Path.cwd(), tmp_path_factory.mktemp("plugins")
    os.chdir(path)
    yield path
    os.chdir(before)


@pytest.fixture(scope="module")
def kept(folder: Path, ours: SimpleNamespace) -> dict[str, str]:
    """Keys of a memory of each task that was kept in `kept.db`."""
    model = ours.GQA(n_heads=4, n_kv_heads=2, d_model=8, d_head=4)
    tasks = (
        ours.Pairs(n_keys=20, n_values=5, library_size=12),
        capax.Sequences(seq_len=4, vocab_size=6, library_size=24),
    )
    training = capax.Training(max_epochs=30, lr=0.02)
    return {
        task.task: capax.measure(task, model, training, restarts=2, store="kept.db", keep_weights=True).key
        for task in tasks
    }


@pytest.fixture(scope="module")
def study(folder: Path, ours: SimpleNamespace) -> Path:
    """A study over the variant's own field, measured."""
    (folder / "study.toml").write_text(STUDY)
    list(capax.sweep("study.toml", workers=1, device="cpu"))
    return folder / "study.db"


@pytest.fixture(autouse=True)
def in_folder(folder: Path, one_core: None) -> None:
    """Every command works there, and trains in this process."""


@pytest.mark.slow
@pytest.mark.parametrize(("task", "protocol"), [(PAIRS, "mac"), (LETTERS, "mls"), (PAIRS, "shatter")])
def test_measure(task: list[str], protocol: str, capsys: pytest.CaptureFixture[str]) -> None:
    printed = said(capsys, "measure", *task, *GQA, *SHORT, *PROTOCOLS[protocol], "--store", "m.db", "--json")
    found = Measurement.model_validate_json(printed)
    assert found.spec.model.columns()["n_kv_heads"] == 2
    assert found.spec.task.task == task[0]
    schema = json.dumps(Measurement.model_json_schema())
    assert '"gqa"' in schema
    assert '"pairs"' in schema
    assert "2 of keys and values" in said(
        capsys, "measure", *task, *GQA, *SHORT, *PROTOCOLS[protocol], "--store", "m.db"
    )


def test_sensitivity(capsys: pytest.CaptureFixture[str]) -> None:
    printed = said(
        capsys, "measure", *PAIRS, *GQA, "--max-epochs", "30", "--restarts", "2", "--sensitivity", "lr=0.01", "--json"
    )
    assert json.loads(printed)["spec"]["model"]["n_kv_heads"] == 2


@pytest.mark.slow
def test_runs(kept: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    listed = said(capsys, "runs", "--store", "kept.db")
    assert all(key[:12] in listed for key in kept.values())
    listed = json.loads(said(capsys, "runs", "--store", "kept.db", "--where", "task=pairs", "--json"))
    assert [run["key"] for run in listed] == [kept["pairs"]]
    said(capsys, "runs", "export", "runs.csv", "--store", "kept.db", "--where", "n_kv_heads=2")
    rows = pl.read_csv("runs.csv").select("task", "n_kv_heads", "n_keys").sort("task").rows()
    assert rows == [("pairs", 2, 20), ("sequences", 2, None)]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["pairs", "sequences"])
def test_a_run_is_shown(task: str, kept: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert "2 of keys and values" in said(capsys, "runs", "show", kept[task][:12], "--store", "kept.db")


@pytest.mark.parametrize(("task", "prefix"), [("pairs", "3"), ("sequences", "3 1 4")])
def test_recall(task: str, prefix: str, kept: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert "probability" in said(capsys, "runs", "recall", kept[task], prefix, "--store", "kept.db")


@pytest.mark.slow
@pytest.mark.parametrize("task", ["pairs", "sequences"])
def test_probe(task: str, kept: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    printed = said(capsys, "runs", "probe", kept[task], "--trials", "20", "--store", "kept.db", "--json")
    assert len(json.loads(printed)["ablation"]["heads"]) == 4


def test_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    """What is proved of the plain transformer alone is said not to apply."""
    found = json.loads(said(capsys, "bounds", "--model", "gqa", "--n-heads", "4", "--d-model", "8", "--json"))
    assert found["bounds"] or found["not_applicable"]


@pytest.mark.very_slow
def test_a_sweep_that_is_killed_goes_on(folder: Path, ours: SimpleNamespace) -> None:
    """The command itself, as two processes: the first is killed when it has stored a run."""
    (folder / "killed.toml").write_text(
        STUDY.replace("study.db", "killed.db").replace("max_epochs = 20", "max_epochs = 300")
    )
    command = [sys.executable, "-m", "capax", "sweep", "killed.toml", "--workers", "2", *PLUGINS]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as driver:
        known = 0
        while known < 1 and driver.poll() is None:
            try:
                with capax.Store("killed.db", create=False) as store:
                    known = len(store.runs())
            except capax.CapaxError:
                known = 0
        driver.kill()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with capax.Store("killed.db") as store:
        runs: list[Any] = [run.spec for run in store.runs()]
    assert len(runs) == 9
    assert {(run.model.n_kv_heads, run.model.d_model) for run in runs} == {(g, d) for g in (1, 2, 4) for d in (4, 6, 8)}


@pytest.fixture(scope="module")
def law(study: Path) -> Path:
    """A power law over the variant's own field."""
    axes = ["--law", "power", "--axes", "n_kv_heads,d_model", "--target", "memorized"]
    with pytest.raises(SystemExit) as ended:
        main(["fit", "--store", str(study), *axes, "--out", "law.json", *PLUGINS])
    assert ended.value.code == 0
    return study.parent / "law.json"


@pytest.mark.very_slow
def test_fit_and_predict(law: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(json.loads(law.read_text())["values"]) >= {"k", "n_kv_heads"}
    arguments = ["predict", "sequences", "--law", law, "--size", "n_kv_heads=2", "--d-model", "4", "--json"]
    found = json.loads(said(capsys, *arguments))
    assert found["n_kv_heads"] == 2
    assert found["value"] > 0


@pytest.mark.slow
def test_plan(law: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--probability", "0.5", "--multiple", "1", "--verify", "--json"]
    printed = said(capsys, "plan", "sequences", "--items", "20", "--law", law, *options)
    assert json.loads(printed)["architectures"][0]["n_kv_heads"] in (1, 2, 4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["width", "curves"])
def test_figure(kind: str, study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "figure", kind, study, "--out", f"{kind}.png")
    assert Path(f"{kind}.png").stat().st_size > 1000


@pytest.mark.slow
def test_report(study: Path, kept: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "report", study, "kept.db", "--out", "page.html")
    page = Path("page.html").read_text()
    assert "gqa" in page
    assert "n_kv_heads" in page


@pytest.mark.slow
def test_check_model(capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the command was run without the plugin before."""
    with pytest.raises(SystemExit):
        main(["check", "model", "--help"])
    capsys.readouterr()
    printed = said(capsys, "check", "model", *GQA, "--json")
    assert {check["verdict"] for check in json.loads(printed)["checks"]} <= {"passed", "cannot be judged"}
