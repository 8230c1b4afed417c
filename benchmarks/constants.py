"""The constant c = D_K d_model / (m' log2 m') of weights that recognize a graph, over graphs, draws, methods and bits.

The table of docs/relations.md. Heads and their size are those that the search finds; F1 ≥ .99, or 1 where so said.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from capax.specs.relations import Relations
from capax.tasks import embeddings, graphs
from capax.theory.construct.relations import build

DRAWS = 3
EXACT = {"target_f1": 1.0}
HEBBIAN = {"method": "hebbian"}

Cell = tuple[dict[str, Any], int, tuple[dict[str, Any], ...]]
CELLS: tuple[Cell, ...] = (
    ({"n_items": 64}, 16, ({},)),
    ({"n_items": 128}, 32, ({}, EXACT, HEBBIAN)),
    ({"n_items": 256}, 32, ({}, EXACT, HEBBIAN)),
    ({"n_items": 256}, 64, ({}, EXACT, HEBBIAN)),
    ({"n_items": 512}, 128, ({}, EXACT, HEBBIAN)),
    ({"n_items": 1024}, 256, ({},)),
    ({"n_items": 256, "graph": "random", "n_edges": 512}, 128, ({},)),
    ({"n_items": 256, "graph": "random", "n_edges": 1024}, 128, ({},)),
    ({"n_items": 256, "graph": "regular", "degree": 4}, 128, ({},)),
    ({"n_items": 256, "graph": "regular", "degree": 8}, 128, ({},)),
    ({"n_items": 256, "graph": "tree"}, 128, ({},)),
    *(({"n_items": 256, "graph": "power_law", "n_edges": edges}, 128, ({},)) for edges in (512, 1024, 2048)),
    *(({"n_items": 256}, 64, ({"bits": bits}, {"bits": bits} | HEBBIAN)) for bits in (1, 2, 3, 4, 8)),
    *(({"n_items": 256, "embeddings": "low_coherence"}, 64, (options,)) for options in ({}, HEBBIAN)),
)


def measured(fields: dict[str, Any], d_model: int, options: dict[str, Any]) -> dict[str, Any]:
    """c, heads and their size of each draw."""
    spec = Relations(**fields)
    row: dict[str, Any] = {**fields, "d_model": d_model, **options, "constants": [], "sizes": []}
    for seed in range(DRAWS):
        generator = np.random.default_rng(seed)
        edges, items = graphs.draw(spec, generator), embeddings.draw(spec, d_model, generator)
        made = build(edges, items, generator=generator, **options)
        assert made.recognition.f1 >= options.get("target_f1", 0.99)
        row["constants"].append(round(made.constant or 0.0, 2))
        row["sizes"].append([len(made.split), made.weights.query.shape[2]])
    return row


def main() -> list[dict[str, Any]]:
    rows = []
    with threadpool_limits(1):
        for fields, d_model, several in CELLS:
            for options in several:
                rows.append(measured(fields, d_model, options))
                print("constants ", rows[-1], flush=True)
    return rows
