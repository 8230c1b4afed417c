"""What a second worker process brings: the same members on one and on two, in turn. Goal: at least 1.7 times."""

from __future__ import annotations

import statistics
import time

from capax.specs import Sequences, Training, Transformer
from capax.training.pack import Pack
from capax.training.workers import Workers

MEMBERS = 8


def main(pairs: int = 3) -> None:
    task = Sequences(seq_len=8, library_size=4000)
    pack = Pack(
        task,
        Transformer(n_heads=2, d_model=64),
        Training(max_epochs=8),
        seeds=(0,) * MEMBERS,
        members=tuple(range(MEMBERS)),
        sizes=(task.library_size,) * MEMBERS,
        largest=task.library_size,
        mixed=False,
        one_library=True,
    )
    ratios = []
    with Workers(1) as one, Workers(2) as two:
        two.train(pack)  # the processes start
        for _ in range(pairs):
            times = []
            for workers in (one, two):
                started = time.perf_counter()
                workers.train(pack)
                times.append(time.perf_counter() - started)
            ratios.append(times[0] / times[1])
    print(f"workers  two against one: {statistics.median(ratios):.2f} times as fast (goal 1.7)", flush=True)


if __name__ == "__main__":
    main()
