"""A fraction is taken for an integer nowhere: not by a flag, not in Python, not in a study."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from smallest import SMALL, refused

import capax
from capax.cli import main
from capax.errors import CapaxError, SpecError
from capax.sweeps.executors import Processes


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("measure sequences --restarts 1.5", "restarts: should be an integer, got '1.5'"),
        ("measure sequences --seed 1.5", "seed: should be an integer, got '1.5'"),
        ("measure sequences --batch-size 1.5e1", "batch_size: should be an integer, got '1.5e1'"),
        ("measure sequences --workers 1.5", "workers: should be an integer, got '1.5'"),
        ("measure associations --n-classes 2.5", "n_classes: should be an integer, got '2.5'"),
        ("measure relations --n-items 12.5", "n_items: should be an integer, got '12.5'"),
        ("measure relations --n-items 12 --n-heads 1.5", "n_heads: should be an integer, got '1.5'"),
        ("predict --n-heads 1.6 --d-model 32 --seq-len 8", "n_heads: should be an integer, got '1.6'"),
        ("plan --items 100.7 --seq-len 8", "items: should be an integer, got '100.7'"),
        ("plan --items 100 --seq-len 8 --n-heads 1.5,2", "n_heads: integers separated by commas, got '1.5,2'"),
        ("fit --data reference --law polynomial --degree 2.5", "degree: should be an integer, got '2.5'"),
        ("sweep none.toml --workers 1.5", "workers: should be an integer, got '1.5'"),
        ("bounds --n-heads 1.5", "n_heads: should be an integer, got '1.5'"),
        ("runs probe abc --trials 9.9", "trials: should be an integer, got '9.9'"),
    ],
)
def test_a_flag_takes_no_fraction_for_an_integer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refused(capsys, *arguments.split())
    assert not list(tmp_path.iterdir())


def test_a_flag_takes_a_fraction_that_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    answers = []
    for heads in ("2", "2.0", "+2.00"):
        with pytest.raises(SystemExit):
            main(
                [
                    "predict",
                    "--n-heads",
                    heads,
                    "--d-model",
                    "16",
                    "--seq-len",
                    "8",
                    "--law",
                    "reference:power",
                    "--json",
                ]
            )
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0] == answers[1] == answers[2]
    large = "9007199254740993.0"  # no float
    assert "got 9007199254740993" in refused(
        capsys,
        "predict",
        "--n-heads",
        "2",
        "--d-model",
        "32",
        "--seq-len",
        "8",
        "--vocab-size",
        large,
        "--law",
        "reference:power",
    )


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: capax.plan("reference:power", 100.7, seq_len=8), "items: should be a whole number, got 100.7"),  # type: ignore[arg-type]
        (lambda: capax.plan("reference:power", 100, seq_len=8.5), "seq_len: should be a whole number, got 8.5"),  # type: ignore[arg-type]
        (
            lambda: capax.plan("reference:power", 100, seq_len=8, n_heads=[1.5]),
            "n_heads: should be a whole number, got 1.5",
        ),  # type: ignore[list-item]
        (lambda: capax.plan("reference:power", float("inf"), seq_len=8), "items: should be a whole number, got inf"),  # type: ignore[arg-type]
        (lambda: capax.plan("reference:power", True, seq_len=8), "items: should be a whole number, got True"),
        (
            lambda: capax.predict("reference:power", n_heads=1, d_model=32, seq_len=8.5),  # type: ignore[arg-type]
            "seq_len: should be a whole number, got 8.5",
        ),
        (
            lambda: capax.plan("reference:association", 9.5, context_size=8),
            "items: should be a whole number, got 9.5",
        ),  # type: ignore[arg-type]
        (
            lambda: capax.predict("reference:relation", n_edges=99.5, d_model=32),  # type: ignore[arg-type]
            "n_edges: should be a whole number, got 99.5",
        ),
        (lambda: capax.Transformer(n_heads=1.6), "n_heads: "),  # type: ignore[arg-type]
        (lambda: capax.Transformer(n_heads=True), "n_heads: should be no truth value, got True"),
        (lambda: capax.Run.model_validate_json(_run(seed=1.5)), "seed: "),
        (lambda: capax.Run.model_validate_json(_run(seed=True)), "seed: should be no truth value, got True"),
        (lambda: Processes(1.5), "workers: should be a whole number, got 1.5"),  # type: ignore[arg-type]
        (lambda: capax.measure(SMALL, capax.Transformer(), restarts=1.5), "restarts: "),  # type: ignore[arg-type]
    ],
)
def test_a_fraction_is_no_integer_in_python(call: Any, said: str) -> None:
    with pytest.raises(CapaxError) as error:
        call()
    assert str(error.value).startswith(said)


def _run(**fields: Any) -> str:
    return json.dumps(capax.Run(task=SMALL, model=capax.Transformer()).model_dump(mode="json") | fields)


@pytest.mark.parametrize("field", ["restarts = 1.5", "restarts = true"])
def test_a_fraction_is_no_integer_in_a_study(tmp_path: Path, field: str) -> None:
    (tmp_path / "s.toml").write_text(f"[task]\nlibrary_size = 20\n[protocol]\n{field}\n")
    with pytest.raises(SpecError, match=r"s\.toml: protocol\.restarts: "):
        next(iter(capax.sweep(tmp_path / "s.toml", tmp_path / "s.db")))
