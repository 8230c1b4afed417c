"""Plans by the law of capacity that ships."""

from __future__ import annotations

from functools import cache

import capax
from capax.laws.law import Law
from capax.planning.results import BitsFrontier, Network


@cache
def law() -> Law:
    return capax.load_law("reference")


def planned(*args: object, **asked: object) -> BitsFrontier:
    found = capax.plan(law(), *args, **asked)
    assert isinstance(found, BitsFrontier)
    return found


def model_of(one: Network) -> capax.Transformer:
    tied = one.embeddings == "trained"
    return capax.Transformer(
        n_layers=one.n_layers,
        n_heads=one.n_heads,
        d_head=one.d_head,
        d_model=one.d_model,
        embeddings="trained" if tied else "frozen",
        readout="tied" if tied else "frozen",
    )
