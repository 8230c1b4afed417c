"""The package as users get it: light to import, complete, one version everywhere, installable."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import capax
from capax import machine

ROOT = Path(__file__).parents[1]
HEAVY = ("lmfit", "matplotlib", "scipy", "sklearn", "torch")

IMPORT = "import capax"
HELP = """
import sys
from capax.cli import main
sys.argv = ["capax", "--help"]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """What a command prints; its errors are shown when it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("code", [IMPORT, HELP], ids=["import capax", "capax --help"])
def test_loads_nothing_heavy(code: str) -> None:
    printed = run(sys.executable, "-c", f"{code}\nimport sys\nprint()\nprint(*sys.modules)")
    assert not set(HEAVY) & set(printed.splitlines()[-1].split())


EXTRAS = ("transformers", "peft", "tokenizers", "ray", "submitit", "x_transformers", "rdflib", "zstandard")


@pytest.mark.slow
def test_every_command_has_its_help_without_extras() -> None:
    """As a plain install has none of them; `completion` reads all commands."""
    missing = f"import sys\nsys.modules.update(dict.fromkeys({EXTRAS}))\n"
    for command in (["completion", "bash"], ["size", "--help"]):
        call = f"sys.argv = ['capax', *{command}]\nfrom capax.cli import main\nmain()"
        assert run(sys.executable, "-c", missing + call)


def test_every_public_name_resolves() -> None:
    assert len(set(capax.__all__)) == len(capax.__all__)
    for name in capax.__all__:
        assert getattr(capax, name) is not None
    assert set(capax.__all__) <= set(dir(capax))


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = capax.no_such_name


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_versions_agree() -> None:
    stated = pyproject()["project"]["version"]
    citation = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    latest = re.search(r"^## \[(\d\S*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert citation is not None
    assert latest is not None
    assert [citation[1], latest[1], capax.__version__, version("capax")] == [stated] * 4


def normalized(name: str) -> str:
    """A distribution's name as PyPI compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(name: str = "constraints.txt") -> dict[str, str]:
    """The exact version of every distribution in a file of constraints; any other line is an error."""
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
    exact = [re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([0-9][0-9A-Za-z.]*)", line) for line in lines]
    assert [line for line, match in zip(lines, exact, strict=True) if match is None] == []
    return {normalized(match[1]): match[2] for match in exact if match is not None}


def named_dependencies() -> Iterator[str]:
    """The name of every requirement in pyproject.toml: of the build, the package, its extras and the groups."""
    stated = pyproject()
    package = [stated["build-system"]["requires"], stated["project"]["dependencies"]]
    extras = stated["project"].get("optional-dependencies", {}).values()
    for requirement in chain(*package, *extras, *stated["dependency-groups"].values()):
        if isinstance(requirement, str):
            yield normalized(re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0])


def test_every_dependency_is_pinned() -> None:
    assert {*named_dependencies(), "pip"} <= pins().keys()


def test_what_capax_takes_at_least_is_what_the_oldest_tests_run_with() -> None:
    """Each lower bound of pyproject.toml is the version in constraints-oldest.txt."""
    oldest, project = pins("constraints-oldest.txt"), pyproject()["project"]
    for requirement in [*project["dependencies"], *chain(*project["optional-dependencies"].values())]:
        name, least = requirement.split(">=")
        assert re.sub(r"(\.0)+$", "", oldest[normalized(name)]) == re.sub(r"(\.0)+$", "", least), requirement
    assert {name: version for name, version in oldest.items() if name not in pins()} == {}


def named_pages() -> set[str]:
    """The pages that help and errors name."""
    sources = (path.read_text() for path in (ROOT / "src").rglob("*.py"))
    return {page for source in sources for page in re.findall(r"\bdocs/(?:schemas|[\w/-]+\.md)", source)}


def test_pages_that_help_names_are_there() -> None:
    assert len(named_pages()) > 5
    assert not [page for page in named_pages() if not (ROOT / page).exists()]
    assert [machine.folder(name) for name in ("docs", "examples")] == [ROOT / "docs", ROOT / "examples"]


@pytest.mark.very_slow
def test_wheel_works_in_an_empty_environment(tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    constraints = ("--constraint", ROOT / "constraints.txt")
    run(*pip, "wheel", "--no-deps", *constraints, "--build-constraint", ROOT / "constraints.txt", "-w", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("capax-*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "empty")
    python = tmp_path / "empty" / "bin" / "python"
    run(*pip, "--python", python, "install", *constraints, wheel)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def installed(*arguments: str) -> str:
        return run(python.parent / "capax", *arguments, cwd=elsewhere)

    assert capax.__version__ in installed("--version")
    assert capax.__version__ in installed("info")
    told = json.loads(installed("info", "--json"))
    pages, examples = Path(told["docs"]), Path(told["examples"])
    assert {path.relative_to(examples) for path in examples.rglob("*.toml")} == {
        path.relative_to(ROOT / "examples") for path in (ROOT / "examples").rglob("*.toml")
    }
    assert "12 runs" in installed("sweep", str(examples / "quick.toml"), "--dry-run", "--store", "s.db")
    assert pages.is_relative_to(tmp_path / "empty")
    assert {path.relative_to(pages) for path in pages.rglob("*.md")} == {
        path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")
    }
    assert not [page for page in named_pages() if not (pages.parent / page).exists()]
    small = ("--library-size", "8", "--d-model", "16", "--restarts", "1", "--max-epochs", "5")
    measured = json.loads(installed("measure", "sequences", *small, "--json"))
    assert 0 <= measured["memorized"] <= 8


def test_data_that_ship_stay_small() -> None:
    """Tables, laws and published measurements together: a wheel is downloaded by many who need none of them."""
    files = [path for path in (Path(capax.__file__).parent / "data").rglob("*") if path.is_file()]
    assert len(files) > 10
    assert sum(path.stat().st_size for path in files) < 2_000_000
