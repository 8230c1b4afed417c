"""The smallest run, and how a command in this process ends."""

from __future__ import annotations

import pytest

import capax
from capax.cli import main

TASK = capax.Sequences(seq_len=3, vocab_size=4, library_size=4)
MODEL = capax.Transformer(d_model=4, d_head=2)
TRAINING = capax.Training(max_epochs=1)
SMALL = capax.Sequences(seq_len=4, vocab_size=8, library_size=20)


def ended(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    return int(exit_.value.code or 0)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that ends with code 2."""
    with pytest.raises(SystemExit) as exit_:
        main(list(arguments))
    out, err = capsys.readouterr()
    assert (exit_.value.code, out) == (2, ""), err
    assert err.startswith("capax: ")
    assert err.count("\n") == 1
    return err
