"""Plans come true: a planned architecture is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from capax.errors import LawError, shown
from capax.laws.files import load_law
from capax.laws.law import Law
from capax.planning import proxies
from capax.planning.question import Question
from capax.planning.results import (
    Architecture,
    BitsFrontier,
    Frontier,
    Network,
    Verification,
)
from capax.protocols.measure import measure
from capax.protocols.progress import Callback
from capax.specs import Mac, Training
from capax.store import Store
from capax.training.workers import Workers


def refuse_unverified(*, early: bool, by_bytes: bool) -> None:
    """Refuse to verify a plan of what is known after some exposures, or one by bytes.

    Raises:
        LawError: that names the option.
    """
    if by_bytes:
        raise LawError(
            "target: parameters where the plan is to be verified, got bytes (--target); to see what a file "
            "of its weights keeps, measure it with --keep-weights and quantize the run (capax quantize)"
        )
    if early:
        raise LawError("exposures: none where the plan is to be verified: that measures what is held at convergence")


def verify_plan(
    law: Law | str,
    frontier: Frontier,
    architecture: Architecture | None = None,
    *,
    store: Store | Path | str | None = None,
    seed: int = 0,
    workers: int | Workers = 1,
    progress: Callback | None = None,
) -> Verification:
    """Train an architecture of a plan on a library of the target's size, as the law's data were trained.

    Its budget is as many steps as the law's data had: epochs of a smaller library have fewer. With a law in bits its
    capacity is measured, or that of a narrower network of its family where it would take too long (`proxy`).

    Args:
        law: the law that the plan was made with: loss, learning rate, stop rule and restarts are those of its data,
            where it says.
        frontier: the plan.
        architecture: which one; the smallest when not given, or the nearest when none holds the target.
        store: where the run is kept, so that a law can be fitted anew with it.
        seed: names all random draws.
        workers: processes, or a pool of them.
        progress: called while training.

    Raises:
        CapaxError: for what is no plan, when the library cannot be drawn (fewer prefixes than the target), or when the
            run cannot be stored.
    """
    law = load_law(law)
    if not isinstance(frontier, Frontier):
        raise LawError(f"frontier: what capax.plan gives, got {shown(frontier)}")
    asked = dict(frontier.model_extra or {})
    target = frontier.items
    question = Question(law, asked, target)
    chosen = architecture or (frontier.architectures[0] if frontier.architectures else frontier.nearest)
    assert chosen is not None
    if isinstance(frontier, BitsFrontier) and isinstance(chosen, Network):
        refuse_unverified(early=frontier.early, by_bytes=chosen.weights is not None)
        return proxies.verify(question, frontier, chosen, store=store, seed=seed, workers=workers, progress=progress)
    assert target is not None
    sizes: dict[str, Any] = {
        name: value for name, value in (chosen.model_extra or {}).items() if not name.startswith("gain_of_")
    }
    run = measure(
        question.kind.of_size(target, **(question.of(question.kind, files=True) | question.asked)),
        question.spec(sizes),
        Training(**question.of(Training)),
        protocol=Mac(**{name: value for name, value in question.of(Mac).items() if name != "protocol"}),
        seed=seed,
        store=store,
        workers=workers,
        progress=progress,
    )
    missed = run.library_size - run.memorized
    success = run.metrics.get("f1")  # of relations: that no other pair is taken for one counts, too
    held = missed == 0 if success is None else success >= float(question.told.get("target_f1", 0.99))
    return Verification(held=held, miss_percent=100 * missed / run.library_size, measurement=run)
