"""Whether a planned architecture holds what the plan says: train it on a library of the target's size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from capax.laws.law import Law
from capax.measures.measure import measure
from capax.measures.progress import Callback
from capax.planning.candidates import model
from capax.planning.plan import Architecture, Frontier, Verification
from capax.specs import Mac, Sequences, Spec, Training
from capax.store import Store
from capax.training.workers import Workers


def verify(
    frontier: Frontier,
    law: Law,
    architecture: Architecture | None = None,
    *,
    store: Store | Path | str | None = None,
    seed: int = 0,
    workers: int | Workers = 1,
    progress: Callback | None = None,
) -> Verification:
    """Train an architecture of a plan on a library of the target's size, as the law's data were trained.

    Its budget is as many steps as the law's data had: epochs of a smaller library have fewer.

    Args:
        frontier: the plan.
        law: the law it was made with: loss, learning rate, stop rule and restarts are those of its data, where it says.
        architecture: which one; the smallest when not given, or the nearest when none holds the target.
        store: where the run is kept, so that a law can be fitted anew with it.
        seed: names all random draws.
        workers: processes, or a pool of them.
        progress: called while training.

    Raises:
        CapaxError: when the library cannot be drawn (fewer prefixes than the target) or the run cannot be stored.
    """
    chosen = architecture or (frontier.architectures[0] if frontier.architectures else frontier.nearest)
    assert chosen is not None
    told = {name: value for name, value in law.domain_.protocol.items() if value is not None}

    def of(spec: type[Spec]) -> dict[str, Any]:
        return {name: value for name, value in told.items() if name in spec.model_fields}

    sizes = {"seq_len": frontier.seq_len, "vocab_size": frontier.vocab_size, "library_size": frontier.sequences}
    run = measure(
        Sequences(**{**of(Sequences), **sizes}),
        model(law, chosen.n_layers, chosen.n_heads, chosen.d_model, chosen.d_head),
        Training(**of(Training)),
        protocol=Mac(**of(Mac)),
        seed=seed,
        store=store,
        workers=workers,
        progress=progress,
    )
    missed = run.library_size - run.memorized
    return Verification(held=missed == 0, miss_percent=100 * missed / run.library_size, measurement=run)
