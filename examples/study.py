"""A small real study: 48 architectures, 3 restarts each, in 45 minutes on two cores (it may be interrupted).

python examples/study.py [STORE] [TABLE]: trains what is not in the store yet, then writes the table (CSV) that
`capax fit --data` reads.
"""

from __future__ import annotations

import sys
from itertools import product

import capax
from capax.training.workers import Workers

WIDTHS, LENGTHS, HEADS = (16, 32, 48, 64), (8, 16, 32), (1, 2, 3, 4)


def main(store: str = "study.db", table: str = "study.csv") -> None:
    with capax.Store(store) as opened, Workers(2) as workers:
        for d_model, seq_len, n_heads in product(WIDTHS, LENGTHS, HEADS):
            run = capax.measure(
                capax.Sequences(seq_len=seq_len, library_size=2000),
                capax.Transformer(n_heads=n_heads, d_model=d_model),
                capax.Training(max_epochs=150),
                restarts=3,
                store=opened,
                device="cpu",
                workers=workers,
            )
            print(
                f"{seq_len} tokens, {n_heads} heads, width {d_model}: {run.memorized} ({run.seconds:.0f} s)", flush=True
            )
    capax.read(store).write_csv(table)


if __name__ == "__main__":
    main(*sys.argv[1:])
