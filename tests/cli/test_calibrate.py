"""`capax calibrate`: what it prints, and how it ends."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from commands import refused, run

from capax.calibration import explicit
from capax.calibration.calibrate import SYSTEMS, Calibration
from capax.calibration.system import System
from capax.cli import main
from capax.papers.reproduce import Reproduction

calibrate_command: Any = import_module("capax.cli.calibrate")


@pytest.mark.slow
def test_json_is_what_python_says(capsys: pytest.CaptureFixture[str]) -> None:
    printed = run(capsys, "calibrate", "--only", "attention-memory", "hopfield-half", "--seed", "2", "--json")
    found = Calibration.model_validate_json(printed)
    assert [one.system for one in found.systems] == ["attention-memory", "hopfield-half"]
    assert (found.off, found.seed, json.loads(printed)["schema_version"]) == ((), 2, 1)


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line.split() for line in run(capsys, "calibrate", "--only", "attention-memory").splitlines()]
    assert ["system", "known", "measured", "95%", "interval", "tolerance", "verdict"] in lines
    assert ["attention-memory", "29", "29", "29", "to", "30", "±", "0.5", "holds"] in lines
    assert any(line[:1] == ["known:"] for line in lines)
    assert any(line[:4] == ["1", "of", "1", "hold;"] for line in lines)


def broken() -> System:
    """One head fewer than its bound is of."""
    return replace(explicit.associations(n_heads=3), known=explicit.associations(n_heads=4).known)


@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_exit_code_1_when_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    monkeypatch.setitem(SYSTEMS, "attention-memory", broken)
    with pytest.raises(SystemExit) as exit_:
        main(["calibrate", "--only", "attention-memory", *flags])
    out, err = capsys.readouterr()
    assert exit_.value.code == 1
    assert "attention-memory: " in err
    assert err.count("\n") == 1
    if flags:
        assert json.loads(out)["off"] == ["attention-memory"]
    else:
        assert "0 of 1 hold" in out


def reproduced(paper: str, folder: Path) -> Reproduction:
    """A claim that differs, and one that cannot be judged."""
    claims = [
        {"says": f"{paper} says", "value": "3.83", "standing": "read", "answer": "differs", "measured": "2.5 (2 to 3)"},
        {"says": "more", "value": None, "standing": "derived", "answer": "cannot be judged", "measured": None},
    ]
    recipe = {"figure": "density", "title": "", "runs": 1, "of": 1, "command": None}
    return Reproduction.model_validate(
        {
            "paper": paper, "source": paper, "figure": None, "scale": "demo", "store": None, "report": None,
            "seconds": 1, "expected_seconds": 1, "standings": {}, "versions": {},
            "recipes": [recipe | {"claims": [claim | {"reason": "why"} for claim in claims]}],
        }
    )  # fmt: skip


@pytest.mark.slow
def test_papers_that_measured_bits_are_beside_the_systems_and_make_none_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(calibrate_command, "reproduce", reproduced)
    flags = ("calibrate", "--only", "attention-memory", "--literature", "-o", str(tmp_path))
    found = Calibration.model_validate_json(run(capsys, *flags, "--json"))
    assert [(claim.paper, claim.verdict) for claim in found.literature] == [
        ("morris2025", "differs"),
        ("morris2025", "cannot be judged"),
        ("allenzhu2024", "differs"),
        ("allenzhu2024", "cannot be judged"),
    ]
    assert found.off == ()
    out = " ".join(run(capsys, *flags).split())
    assert "morris2025 says: 3.83 (read) differs: 2.5 (2 to 3); why" in out
    assert "more (derived) cannot be judged: why" in out
    assert "1 of 1 hold" in out


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--only", "perceptrons"], "'perceptrons'"),
        (["--only"], "only: "),
        (["--only", "key-query", "--seed", "-1"], "seed: "),
        (["--only", "key-query", "--seed", "x"], "seed"),
        (["key-query"], "key-query"),
        (["--only", "perceptron-exact", "--out", "folder"], "out: only with --literature, got folder"),
    ],
)
def test_bad_input(capsys: pytest.CaptureFixture[str], flags: list[str], said: str) -> None:
    assert said in refused(capsys, "calibrate", *flags)
