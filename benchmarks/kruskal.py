"""Time of Kruskal sampling, 5000 subsets of 197 vectors in 768 dimensions, against numpy's matrix_rank of each subset.

The size is that of the check on vision transformers by Mahdavi et al. (2024). Vectors are Gaussian, or have a common
part so large that the cheap certificate fails: then eigenvalues decide for float32, and for float64 the singular values
themselves, the slowest case. One thread. numpy does fewer subsets, after ours; the ratio is that of times a subset.
"""

from __future__ import annotations

import time

import numpy as np
from threadpoolctl import threadpool_limits

from capax.checks.independence import probe_subsets

VECTORS, CHANNELS, SIZE = 1973, 768, 197
SUBSETS, SUBSETS_NUMPY = 5000, 100
GOAL_SECONDS = 60
CASES = [(np.float32, 0.0), (np.float64, 0.0), (np.float32, 1e2), (np.float64, 1e7)]
"""Precision, and size of the common part."""


def main() -> list[dict[str, object]]:
    rows = []
    with threadpool_limits(1):
        for precision, common in CASES:
            draws = np.random.default_rng(0)
            vectors = draws.standard_normal((VECTORS, CHANNELS)) + common * draws.standard_normal(CHANNELS)
            began = time.perf_counter()
            found = probe_subsets(vectors, SIZE, float(np.finfo(precision).eps), SUBSETS, seed=0)
            seconds = time.perf_counter() - began
            began = time.perf_counter()
            for _ in range(SUBSETS_NUMPY):
                np.linalg.matrix_rank(vectors[draws.choice(VECTORS, SIZE, replace=False)])
            theirs = (time.perf_counter() - began) / SUBSETS_NUMPY
            ratio = theirs / (seconds / found.tested)
            print(
                f"kruskal  {precision.__name__}  common part {common:5.0e}  {found.tested:4} subsets of {SIZE} in "
                f"{CHANNELS}: {seconds:5.1f} s (goal {GOAL_SECONDS} s), {found.dependent} dependent, {found.close} "
                f"close  numpy {theirs * 1e3:5.2f} ms a subset  ratio {ratio:4.1f}",
                flush=True,
            )
            rows.append(
                {
                    "precision": precision.__name__,
                    "common_part": common,
                    "tested": found.tested,
                    "dependent": found.dependent,
                    "seconds": seconds,
                    "numpy_ms": theirs * 1e3,
                    "ratio": ratio,
                }
            )
    return rows


if __name__ == "__main__":
    main()
