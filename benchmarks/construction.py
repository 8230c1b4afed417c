"""Time and peak memory of weights that recognize a graph, and of their exact verification on all ordered pairs.

A permutation of 4096 items in 512 dimensions, whitened weights, the smallest d_head with F1 ≥ .99 searched for; one
thread, a process of its own. Goal: 20 s and 4 GB.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import numpy as np
from threadpoolctl import threadpool_limits

from capax.specs.relations import Relations
from capax.tasks import embeddings, graphs
from capax.theory.construct.channel import recognize
from capax.theory.construct.relations import build

ITEMS, CHANNELS = 4096, 512
GOAL_SECONDS, GOAL_BYTES = 20, 4e9


def measured() -> dict[str, float]:
    """In this process: seconds of the search with its verifications, and of one verification, and the peak."""
    generator = np.random.default_rng(0)
    spec = Relations(n_items=ITEMS)
    edges, items = graphs.draw(spec, generator), embeddings.draw(spec, CHANNELS, generator)
    with threadpool_limits(1):
        began = time.perf_counter()
        made = build(edges, items, generator=generator)
        searched = time.perf_counter() - began
        began = time.perf_counter()
        found = recognize(made.weights.query, made.weights.key, items, edges)
        verified = time.perf_counter() - began
    assert found == made.recognition
    return {
        "seconds": searched,
        "verification_seconds": verified,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0,
        "n_heads": float(len(made.split)),
        "total_key_dim": float(made.weights.total_key_dim),
        "f1": found.f1,
    }


def main() -> list[dict[str, float]]:
    program = "import json; from benchmarks.construction import measured; print(json.dumps(measured()))"
    row = json.loads(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)
    print(
        f"construction  {ITEMS} items in {CHANNELS}: {row['seconds']:.1f} s (goal {GOAL_SECONDS}), of which one exact "
        f"verification {row['verification_seconds']:.1f} s; peak {row['peak_bytes'] / 1e9:.2f} GB (goal "
        f"{GOAL_BYTES / 1e9:.0f}); {row['n_heads']:.0f} heads, D_K {row['total_key_dim']:.0f}, F1 {row['f1']:.4f}",
        flush=True,
    )
    return [row]


if __name__ == "__main__":
    main()
