"""`capax measure sequences --module` and `capax check model`, on a file in the working directory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from commands import refused, run

from capax.checks.model import ModelReport
from capax.results import Measurement

DOCS = Path(__file__).parents[2] / "docs" / "modules.md"
SMALL = ["--library-size", "10", "--restarts", "2", "--max-epochs", "2", "--vocab-size", "9", "--workers", "1"]


@pytest.fixture(autouse=True)
def _beside_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the model of the docs, as `mymodel.py`; what was imported of it is forgotten afterwards."""
    (text,) = [part.split("```")[0] for part in DOCS.read_text().split("```python\n# mymodel.py\n")[1:]]
    (tmp_path / "mymodel.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "mymodel", raising=False)


@pytest.mark.slow
def test_a_module_is_measured_listed_and_recalled(capsys: pytest.CaptureFixture[str]) -> None:
    measure = ["measure", "sequences", "--module", "mymodel:Memory", "--arguments", '{"d_model": 8}', *SMALL]
    found = Measurement.from_json(run(capsys, *measure, "--keep-weights", "--json"))
    assert found.spec.model.model == "module"
    assert run(capsys, *measure, "--json") == found.to_json() + "\n"
    shown = run(capsys, *measure)
    assert shown.startswith("mymodel:Memory(d_model=8); ")
    for part in ("8 tokens from 9", "all positions", "protocol mac"):
        assert part in shown
    assert "members together (torch.vmap)" in shown or "one by one" in shown  # as products are rounded here
    listed = run(capsys, "runs").splitlines()[1].split()
    assert listed[6:9] == ["-", "-", "8"]  # what the arguments name
    answer = json.loads(run(capsys, "runs", "recall", found.key, "1 2 3 4 5 6 7", "--trust", "--json"))
    assert 0 <= answer["token"] < 9


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_what_a_module_prints_is_no_part_of_the_json(workers: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither in this process nor in one that trains; without --json it is where the module printed it."""
    body = "    print('HELLO')\n    return Memory(vocab_size, context_size, d_model=8)\n"
    make = f"def make(vocab_size, context_size):\n{body}"
    Path("talks.py").write_text(f"{Path('mymodel.py').read_text()}\n\n{make}")
    measure = ["measure", "sequences", "--module", "talks:make", *SMALL[:-1], workers, "--fresh"]
    done = subprocess.run([sys.executable, "-m", "capax", *measure, "--json"], capture_output=True, text=True)
    assert Measurement.from_json(done.stdout).library_size == 10
    assert "HELLO" in done.stderr
    assert "HELLO" in run(capfd, *measure)


@pytest.mark.slow
def test_a_model_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    task = ["--library-size", "20", "--seq-len", "5"]
    found = ModelReport.model_validate_json(
        run(capsys, "check", "model", "--module", "mymodel:Memory", *task, "--json")
    )
    assert found.failed == ()
    assert "none failed" in run(capsys, "check", "model", "--n-heads", "2", *task)
    Path("faulty.py").write_text(Path("mymodel.py").read_text().replace("batch_first=True", "batch_first=False"))
    shown = run(capsys, "check", "model", "--module", "faulty:Memory", *task)
    assert "batch independence      failed" in shown
    assert shown.splitlines()[-1].endswith("of 10 failed")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--module", "mymodel"], ["factory", "package.module:name", "'mymodel'"]),
        (["--module", "absent:make"], ["cannot import 'absent'", "ModuleNotFoundError"]),
        (["--module", "wrong:make"], ["cannot import 'wrong'", "SyntaxError"]),
        (["--module", "mymodel:absent"], ["has no 'absent'"]),
        (["--module", "mymodel:nn"], ["callable", "module"]),
        (["--module", "mymodel:Memory", "--n-heads", "2"], ["n_heads", "--module"]),
        (["--module", "mymodel:Memory", "--arguments", "{"], ["arguments", "JSON object", "'{'"]),
        (["--module", "mymodel:Memory", "--arguments", "[1]"], ["arguments", "JSON object", "[1]"]),
        (["--module", "mymodel:Memory", "--arguments", '{"width": 3}'], ["TypeError", "width"]),
        (["--module", "mymodel:Memory", "--arguments", '{"context_size": 3}'], ["RuntimeError"]),
        (["--module", "mymodel:Memory", "--compile"], ["compile", "True"]),
        (["--arguments", "{}"], ["arguments", "--module"]),
    ],
)
def test_bad_input(capsys: pytest.CaptureFixture[str], flags: list[str], said: list[str]) -> None:
    Path("wrong.py").write_text("def make(:\n")
    line = refused(capsys, "measure", "sequences", *SMALL, *flags)
    for word in said:
        assert word in line, line


@pytest.mark.very_slow
def test_other_processes_find_the_module() -> None:
    def said(*arguments: str) -> str:
        command = [sys.executable, "-c", "from capax.cli import main; main()", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    measure = ["measure", "sequences", "--module", "mymodel:Memory", "--arguments", '{"dropout": 0.1}', *SMALL[:-2]]
    found = [
        Measurement.from_json(said(*measure, "--workers", workers, "--fresh", "--keep-weights", "--json"))
        for workers in ("1", "2")
    ]
    assert found[0].members == found[1].members
    assert "probability" in said("runs", "recall", found[0].key, "1 2 3 4 5 6 7", "--trust")
    Path("s.toml").write_text(
        '[task]\nlibrary_size = 5\nvocab_size = 9\n[model]\nmodel = "module"\nfactory = "mymodel:Memory"\n'
        "[training]\nmax_epochs = 1\n[protocol]\nrestarts = 1\n[grid]\nseed = [0, 1]\n"
    )
    assert json.loads(said("sweep", "s.toml", "--workers", "2", "--json"))["done"] == 2
