"""Small jobs for tests of sweeps."""

from __future__ import annotations

import capax


def small(seed: int = 0, epochs: int = 3, library_size: int = 40) -> capax.Run:
    """A run of a fraction of a second."""
    return capax.Run(
        task=capax.Sequences(seq_len=4, vocab_size=10, library_size=library_size),
        model=capax.Transformer(d_model=8, d_head=8),
        training=capax.Training(max_epochs=epochs),
        protocol=capax.Mac(restarts=2),
        seed=seed,
    )


def endless(seed: int = 0) -> capax.Run:
    """A run that does not end by itself while a test lasts."""
    return small(seed, epochs=10_000_000, library_size=900).replace(
        training=capax.Training(max_epochs=10_000_000, patience=10_000_000)
    )


def impossible() -> capax.Run:
    """A run that finds no memory: one of its weights would take 160 GB."""
    return small().replace(model=capax.Transformer(d_model=200_000, d_head=200_000))
