"""Sweeps of seconds' fractions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import capax
from capax.results import Measurement

TASK = capax.Sequences(seq_len=4, vocab_size=10, library_size=60)


def spec(seed: int = 0, epochs: int = 40, d_model: int = 8) -> capax.Run:
    return capax.Run(
        task=TASK,
        model=capax.Transformer(d_model=d_model, d_head=8),
        training=capax.Training(max_epochs=epochs, patience=1000),
        protocol=capax.Mac(restarts=2),
        seed=seed,
    )


def timeless(runs: Sequence[Measurement]) -> dict[str, Measurement]:
    return {run.key: run.model_copy(update={"seconds": 0.0}) for run in runs}


def sweep(runs: Sequence[capax.Run], store: Path, **options: Any) -> Iterator[Measurement]:
    return capax.sweep(runs, store, **{"workers": 1, "device": "cpu"} | options)
