"""A pack's learner, made from its specs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch

from capax import devices
from capax.models.ensemble import Ensemble
from capax.models.reachability import unreachable_tokens
from capax.seeds import numpy_generator, torch_generator
from capax.specs import Run
from capax.specs.task import Purpose
from capax.tasks.library import Constant, Library
from capax.training.batches import BatchOrder
from capax.training.ensemble import AtOnce, Learner, one
from capax.training.pack import Pack

DTYPES = {"float64": torch.float64} | dict.fromkeys(("float32", "bfloat16", "tf32"), torch.float32)
PURPOSES: tuple[Purpose, ...] = ("loss", "recall", "information")


def prepare(pack: Pack, at_once: AtOnce = one) -> Learner:
    """A pack before its first step: libraries, weights and batch orders drawn from their streams.

    Args:
        at_once: how many micro-batches are computed at once.
    """
    library, ensemble = build_library(pack), untrained(pack)
    ensemble.begin(library, lambda name: _streams(pack, name), pack.d_heads)
    order = BatchOrder(
        library.learned_counts,
        pack.training.batch_size,
        _streams(pack, "order"),
        pack.device,
        DTYPES[pack.training.precision],
        padded_to=min(pack.training.batch_size, pack.largest) if pack.mixed else None,
    )
    floats = {purpose: pack.model.floats_per_row(pack.task.sizes(), pack.task.scored(purpose)) for purpose in PURPOSES}
    learner = Learner(ensemble, library, pack.training, order, floats, at_once)
    if (caveat := devices.caveat(pack.training.precision, pack.device)) is not None:
        learner.notes.append(caveat)
    learner.notes += ensemble.notes
    return learner


def _streams(pack: Pack, name: str) -> list[torch.Generator]:
    """A random stream of each member."""
    return [torch_generator(seed, name, member) for seed, member in zip(pack.seeds, pack.members, strict=True)]


def _share_one(pack: Pack) -> bool:
    """Whether all members learn one library."""
    return pack.one_library and len(set(pack.seeds)) == 1


def build_library(pack: Pack) -> Library[Any]:
    """The libraries of a pack's members."""
    owners = zip(pack.seeds, itertools.repeat(0) if pack.one_library else pack.members)  # noqa: B905
    generators: list[np.random.Generator] = [numpy_generator(seed, "library", member) for seed, member in owners]
    found: Library[Any] = pack.task.library_type().build(
        pack.task,
        pack.model,
        pack.sizes,
        generators[:1] if _share_one(pack) else generators,
        device=pack.device,
        dtype=DTYPES[pack.training.precision],
        padded_to=pack.largest,
    )
    return found


def untrained(pack: Pack) -> Ensemble[Any]:
    """The members of a pack before their first step."""
    found: Ensemble[Any] = pack.model.ensemble_type().untrained(
        pack.model,
        pack.task,
        lambda name: _streams(pack, name),
        dtype=DTYPES[pack.training.precision],
        device=pack.device,
        d_heads=pack.d_heads,
    )
    return found


def initial(run: Run) -> Ensemble[Any]:
    """The first restart of a run before its training."""
    size = run.task.library_size
    return untrained(
        Pack(run.task, run.model, run.training, (run.seed,), (0,), (size,), size, mixed=False, one_library=True)
    )


def unreachable(pack: Pack, learner: Learner) -> list[tuple[int, ...]]:
    """Per member, the targets that its frozen read-out cannot rank first."""
    if not pack.model.frozen_readout:
        return [()] * len(pack.members)
    ensemble: Any = learner.ensemble
    readouts = ensemble.readout.detach().double().cpu().numpy()
    return [
        tuple(unreachable_tokens(readout, learner.library.targets(member))) for member, readout in enumerate(readouts)
    ]


def constants(pack: Pack, learner: Learner) -> list[Constant | None]:
    """Per member, the best constant answer to its library."""
    if _share_one(pack):
        return [learner.library.constant(0)] * len(pack.members)
    return [learner.library.constant(member) for member in range(len(pack.members))]
