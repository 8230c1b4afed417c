"""Tasks and models from a user's file: `--plugin FILE`, and the commands that are made of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import refused, run

from capax.cli import PLUGINS
from capax.specs import Model, Task, plugins

PLUGIN = '''
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

import capax
from capax.specs.task import Task


class CliPairs(Task):
    """Remember the value of each key."""

    learner = capax.Transformer
    task: Literal["cli_pairs"] = "cli_pairs"
    n_keys: Annotated[int, Field(description="Different keys.")] = 20
    n_values: int = 10
    library_size: int = 20
    seed: int = 3
    weights: tuple[float, ...] = (1.0, 2.0)

    def sizes(self):
        return {"vocab_size": self.n_keys + self.n_values, "context": 1}

    def guess_probability(self):
        return 1 / self.n_values

    def tokens(self, size, generator):
        keys = generator.permutation(self.n_keys)[:size]
        return np.stack([keys, self.n_keys + generator.integers(self.n_values, size=size)], 1)


class CliWide(capax.Transformer):
    """A transformer by another name."""

    model: Literal["cli_wide"] = "cli_wide"
    extra: int = 1
'''
SMALL = ("--d-model", "4", "--d-head", "2", "--restarts", "1", "--max-epochs", "1", "--workers", "1")
PAIRS = ("measure", "cli_pairs", *SMALL)


@pytest.fixture(autouse=True)
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file, in the working directory; what it registers is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = {kind: dict(kind.registry) for kind in (Task, Model)}
    modules = set(sys.modules)
    (tmp_path / "mine.py").write_text(PLUGIN)
    yield tmp_path / "mine.py"
    for kind, known in before.items():
        for tag in set(kind.registry) - set(known):
            del kind.registry[tag]
    for name in set(sys.modules) - modules:
        if name.startswith("capax_plugin_"):
            del sys.modules[name], plugins._FILES[name]


@pytest.mark.parametrize(
    "arguments",
    [("--plugin", "mine.py", *PAIRS), (*PAIRS, "--plugin", "mine.py"), (*PAIRS, "--plugin=mine.py"), PAIRS],
)
def test_a_task_is_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    """Wherever its file is named; a flag whose name is taken is that of the task."""
    if arguments == PAIRS:
        monkeypatch.setenv(PLUGINS, "mine.py")
    flags = ("--n-keys", "6", "--library-size", "5", "--task-seed", "7", "--task-weights", "3,4.5", "--seed", "1")
    found = json.loads(run(capsys, *arguments, *flags, "--json"))
    assert found["spec"]["task"] == {
        "task": "cli_pairs", "n_keys": 6, "n_values": 10, "library_size": 5, "seed": 7, "weights": [3, 4.5],
    }  # fmt: skip
    assert found["spec"]["seed"] == 1
    assert found["library_size"] == 5
    key = found["key"]
    assert json.loads(run(capsys, "runs", "show", key[:12], "--json", "--plugin", "mine.py")) == found
    assert "n_keys 6" in run(capsys, "runs", "--plugin", "mine.py")


def test_a_model_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    measure = ("measure", "sequences", *SMALL, "--library-size", "4", "--plugin", "mine.py")
    found = json.loads(run(capsys, *measure, "--model", "cli_wide", "--extra", "2", "--json"))
    assert (found["spec"]["model"]["model"], found["spec"]["model"]["extra"]) == ("cli_wide", 2)
    assert run(capsys, *measure, "--json").count('"model":"transformer"') == 1


def test_a_plugin_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert "cli_pairs" in run(capsys, "measure", "--help", "--plugin", "mine.py")
    shown = " ".join(run(capsys, "measure", "cli_pairs", "--help", "--plugin", "mine.py").split())
    assert "Different keys." in shown
    assert "cli_wide" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((*PAIRS, "--extra", "2"), ["extra", "model", "'transformer'"]),
        ((*PAIRS, "--model", "cli_wide", "--module", "a:b"), ["model", "--module"]),
        ((*PAIRS, "--model", "key_query_channel"), ["model", "cli_wide", "key_query_channel"]),
        ((*PAIRS, "--n-keys", "many"), ["n_keys", "integer", "many"]),
        ((*PAIRS, "--task-weights", "1,x"), ["weights.1", "'x'"]),
        (("measure", "nothing"), ["command", "cli_pairs", "'nothing'"]),
        ((*PAIRS, "--plugin", "missing.py"), ["plugin", "no such file", "missing.py"]),
        ((*PAIRS, "--plugin", "mine.txt"), ["plugin", ".py"]),
        ((*PAIRS, "--plugin", "broken.py"), ["plugin", "broken.py", "ZeroDivisionError"]),
        ((*PAIRS, "--plugin"), ["plugin", ".py"]),
        ((*PAIRS, "--plugin="), ["plugin", ".py"]),
    ],
)
def test_refuses(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: list[str]) -> None:
    Path("broken.py").write_text("1 / 0")
    line = refused(capsys, "--plugin", "mine.py", *arguments)
    for word in said:
        assert word in line, line
    assert not Path("capax.db").exists()


@pytest.mark.slow
def test_a_task_is_unknown_without_its_plugin(capsys: pytest.CaptureFixture[str]) -> None:
    assert "cli_pairs" in refused(capsys, *PAIRS)
    run(capsys, *PAIRS, "--n-keys", "20", "--plugin", "mine.py", "--quiet")
    code = "from capax.cli import main; main(['runs', '--json'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert "--plugin" in done.stderr


@pytest.mark.parametrize(
    ("of", "instead", "said"),
    [
        (
            'task: Literal["cli_pairs"]',
            "task: str",
            "CliPairs: has no tag; give it one of its own, which registers it: `",
        ),
        ('Literal["cli_pairs"]', 'Literal["cli_pairs", "pears"]', "CliPairs: has no tag"),
        ('    task: Literal["cli_pairs"] = "cli_pairs"\n', "", "CliPairs: has no tag"),
        (
            "learner: ClassVar = capax.Transformer",
            "learner: ClassVar = None",
            "CliPairs: learner: should be a model's class, got None",
        ),
        ("library_size: int", "size: int", "task 'cli_pairs': needs a field library_size"),
        (
            "n_keys: Annotated",
            "n_heads: Annotated",
            "CliPairs: n_heads: is a field of the model, too; call it otherwise",
        ),
        ("n_keys: Annotated", "lr: Annotated", "CliPairs: lr: is a field of the training, too; call it otherwise"),
    ],
)
def test_a_task_that_cannot_be_one_is_refused(
    of: str, instead: str, said: str, plugin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PLUGIN.replace("import Annotated", "import Annotated, ClassVar").replace("learner =", "learner: ClassVar =")
    assert of in text
    plugin.write_text(text.replace(of, instead))
    assert said in refused(capsys, *PAIRS, "--plugin", "mine.py")


def test_a_field_that_is_a_list_has_a_flag(plugin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugin.write_text(PLUGIN.replace("weights: tuple[float, ...] = (1.0, 2.0)", "weights: list[float] = [1.0, 2.0]"))
    assert run(capsys, *PAIRS, "--plugin", "mine.py").startswith("1 layer")


def test_the_help_of_capax_loads_no_command() -> None:
    code = """
import sys
from capax.cli import main
for arguments in (["--help"], ["measur"]):
    try:
        main(arguments)
    except SystemExit:
        pass
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert {name for name in loaded if name.startswith("capax.cli.")} == {"capax.cli.streams", "capax.cli.tokens"}
    assert not {"torch", "numpy", "pydantic"} & loaded
    assert "measure" in done.stderr
