"""The README is true: its commands and its Python run, its output is what comes out."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHELL = {"make demo": "capax demo --quick"}
"""What stands in for a command: the demo in a reduced size; `make test` is what runs this."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def run(command: list[str], folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def test_every_command_runs_and_prints_what_the_readme_shows(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    printed = {}
    for line in "".join(blocks("sh")).splitlines():
        if line == "make test":
            continue
        printed[line] = run(shlex.split(SHELL.get(line, line)), tmp_path)
    assert len(printed) == 11
    shown, predicted = (block.strip() for block in blocks("text"))
    first = next(out for line, out in printed.items() if "--keep-weights" in line)
    assert (tmp_path / "law.json").is_file()

    def wordless(text: str) -> list[str]:
        """Words without numbers: how long it took, and how many epochs, differ between machines."""
        return re.sub(r"[\d.e+]+", "#", text).split()

    assert wordless(first) == wordless(shown)
    answer = next(out for line, out in printed.items() if line.startswith("capax predict"))
    assert wordless(answer) == wordless(predicted)
    assert "about 589" in answer
    assert "memorized 300 of 300" in " ".join(first.split())
    recalled = next(out for line, out in printed.items() if line.startswith("capax recall"))
    assert recalled.startswith("74 ")
    assert "the library says the same" in recalled
    (shatter,) = (json.loads(out) for line, out in printed.items() if "shatter" in line)
    assert shatter["shatter"]["epochs"]
    assert (tmp_path / "capax-demo.png").is_file()


def test_the_python_runs(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    measured, fitted = blocks("python")
    assert len(measured.strip().splitlines()) <= 10
    out = run([sys.executable, "-c", measured], tmp_path)
    assert "of 100 by luck 1.0" in out
    assert "agrees=True" in out
    assert "1 48 31440" in run([sys.executable, "-c", fitted], tmp_path)


@pytest.mark.parametrize("link", re.findall(r"\]\((?!http)([^)]+)\)", README))
def test_links_lead_somewhere(link: str) -> None:
    assert (ROOT / link).exists()


def test_schemas_are_current() -> None:
    out = run(
        [sys.executable, "-c", "import make; import json; print(json.dumps(make.schemas()))"], ROOT / "docs/schemas"
    )
    for name, text in json.loads(out).items():
        assert (ROOT / "docs/schemas" / f"{name}.json").read_text(encoding="utf-8") == text
