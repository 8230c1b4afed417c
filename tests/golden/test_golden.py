"""Keys, first weights, losses, laws and outputs are what they were: users have stored them, and build on them."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import golden
import pytest
import torch

import capax
from capax.cli import main
from capax.store.tables import read

HERE = Path(__file__).parent


def kept(name: str) -> Any:
    return json.loads((HERE / f"{name}.json").read_text())


def assert_alike(found: Any, expected: Any, where: str = "", rel: float = 1e-6) -> None:
    """Equal, numbers to rounding; versions are those of now."""
    if isinstance(expected, dict):
        assert isinstance(found, dict), where
        assert found.keys() == expected.keys(), where
        for name, value in expected.items():
            if name != "versions":
                assert_alike(found[name], value, f"{where}.{name}", rel)
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for place, value in enumerate(expected):
            assert_alike(found[place], value, f"{where}[{place}]", rel)
    elif isinstance(expected, float) and isinstance(found, int | float):
        assert math.isclose(found, expected, rel_tol=rel, abs_tol=1e-9), (where, found, expected)
    else:
        assert found == expected, where


def test_keys_of_runs_stay() -> None:
    assert golden.keys() == kept("keys")


def test_first_weights_and_losses_stay() -> None:
    """To the last bit with the instructions that they were written with."""
    found, expected = golden.first_steps(), kept("first_steps")
    if found["processor"] == expected["processor"] and torch.__version__ == kept("said_runs")[0]["versions"]["torch"]:
        assert {name: of for name, of in found.items() if name != "processor"} == {
            name: of for name, of in expected.items() if name != "processor"
        }
    for name in golden.PAIRS:
        assert_alike(found[name]["losses"], expected[name]["losses"], name, rel=1e-3)


def test_laws_that_ship_say_what_they_said() -> None:
    with pytest.warns(match="outside the domain"):
        assert_alike(golden.predictions(), kept("predictions"))


@pytest.mark.parametrize("name", golden.COMMANDS)
def test_commands_print_what_they_printed(name: str) -> None:
    assert_alike(golden.said(name), kept(f"said_{name}"), name, rel=1e-4)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A copy: opening a store of an earlier version may bring it up to date."""
    return Path(shutil.copy(golden.STORE, tmp_path / "store.db"))


def test_an_earlier_store_is_read_and_listed(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with capax.Store(store) as opened:
        runs = opened.runs()
    assert [run.key for run in runs] == [run.spec.key() for run in runs]
    assert len(runs) == 2 * len(golden.PAIRS)
    assert read(store).height == len(runs)
    with pytest.raises(SystemExit) as ended:
        main(["runs", "--store", str(store)])
    assert ended.value.code == 0
    assert len(capsys.readouterr().out.splitlines()) == len(runs) + 1


def test_an_earlier_store_is_known_to_measure(store: Path) -> None:
    task, model = golden.PAIRS["sequences, last"]
    seen: list[object] = []
    capax.measure(task, model, golden.SHORT, restarts=2, seed=1, store=store, device="cpu", progress=seen.append)
    assert seen == []


def test_an_earlier_store_has_a_page(store: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    with pytest.raises(SystemExit) as ended:
        main(["report", str(store), "--out", str(page)])
    assert ended.value.code == 0
    assert "key-query channel" in page.read_text()
