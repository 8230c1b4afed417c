"""Time of a step against the size of its micro-batches (all-position loss, seq_len 32, d_model 64, 2 heads)."""

from __future__ import annotations

import statistics

import torch

from benchmarks.step import MODEL, Step, capax_step, seconds
from capax.training import ensemble

SIZES = [2**18, 2**19, 2**20, 2**21, 2**22]


def main(rounds: int = 7) -> None:
    torch.set_num_threads(1)
    chosen = ensemble.CACHE_FLOATS
    step = capax_step(MODEL, Step("all", 16, 32))
    times: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(rounds):
        for size in SIZES:
            ensemble.CACHE_FLOATS = size
            times[size].append(seconds(step))
    ensemble.CACHE_FLOATS = chosen
    for size in SIZES:
        mark = " (in use)" if size == chosen else ""
        print(
            f"micro-batch  {size * 4 / 2**20:5.1f} MB  {statistics.median(times[size]) * 1e3:6.1f} ms{mark}", flush=True
        )


if __name__ == "__main__":
    main()
