"""Commands as a user gives them, and what they print."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from capax.cli import main, output


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """What a command prints that ends well and says nothing on stderr."""
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert exit_.value.code == 0, err
    assert err == ""
    return out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """The one line on stderr of a command that ends with code 2 and prints nothing else."""
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert exit_.value.code == 2, (out, err)
    assert out == ""
    assert err.startswith("capax: ")
    assert err.count("\n") == 1
    return err


def without_answer(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[str, str]:
    """What a plan that holds nothing prints, and its line on stderr."""
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert exit_.value.code == 3, err
    assert err.startswith("capax: plan: no ")
    assert err.count("\n") == 1
    return out, err


def narrow(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """What is printed is for a terminal of so many columns."""
    plain = {"highlight": False, "markup": False, "emoji": False, "color_system": None}
    console = partial(Console, **plain, force_terminal=True, width=width)
    monkeypatch.setattr(output, "console", lambda stderr=False: console(stderr=stderr))
