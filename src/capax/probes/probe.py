"""`probe`: what a trained memory is like, by the measures that the ECM paper names beside the count."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field

from capax.errors import SpecError, shown
from capax.memory import AssociativeMemory, Memory, RelationMemory
from capax.models.transformer import TransformerEnsemble
from capax.probes.ablation import AblationProbe, ablation_probe
from capax.probes.asking import recalled
from capax.probes.basin import BasinProbe, basin_probe
from capax.probes.cue import CueProbe, cue_probe
from capax.probes.gradient_noise import GradientNoiseProbe, gradient_noise_probe
from capax.probes.symmetry import SymmetryProbe, drawn_again, symmetry_probe
from capax.results import LEVEL, Result
from capax.seeds import numpy_generator
from capax.specs import Run
from capax.specs.spec import whole
from capax.tasks.facts.memory import FactMemory

TRIALS = 1000
MOST_TRIALS = 1_000_000
"""Trials of one kind are in memory together."""


class Probes(Result):
    """What one trained memory of sequences is like: cues, corruption, symmetry, ablations, gradient noise."""

    key: str
    spec: Run
    library_size: int
    memorized: Annotated[int, Field(description="Items that the measurement counted.")]
    recalled: Annotated[
        int, Field(description="Items recalled here, by what the task's recall counts; equal but for rounding.")
    ]
    trials: Annotated[int, Field(description="Per number of corrupted tokens, and per replaced position.")]
    seed: Annotated[int, Field(description="Of the trials.")]
    level: Annotated[float, Field(description="Of all intervals.")]
    cue: CueProbe
    basin: BasinProbe
    symmetry: SymmetryProbe
    ablation: AblationProbe
    gradient_noise: Annotated[
        GradientNoiseProbe | None,
        Field(description="B_simple, before and after training; None for a library of one item."),
    ]
    notes: tuple[str, ...]


def probe(memory: Memory | AssociativeMemory | RelationMemory, *, trials: int = TRIALS, seed: int = 0) -> Probes:
    """Probe a memory of sequences: minimum cue, basin of attraction, degree of symmetry, ablations, gradient noise.

    As we reconstruct it, Härmä et al. 2024 name the first and the third; how they are taken is ours (docs/probes.md).

    Args:
        memory: what `capax.load` gave, of a run on sequences.
        trials: corrupted prefixes for each number of corrupted tokens, and replaced tokens for each position.
        seed: of these trials.

    Raises:
        SpecError: for a memory of anything but sequences, trials outside 1 to 1,000,000, or a negative seed.
    """
    if not isinstance(memory, Memory | AssociativeMemory | RelationMemory | FactMemory):
        raise SpecError(f"memory: what capax.load gives, got {shown(memory)}")
    if not isinstance(memory, Memory):
        raise SpecError(
            f"key: probes are of runs on sequences, run {memory.run.key[:12]} learned {memory.run.spec.task.task}"
        )
    if not isinstance(memory.model, TransformerEnsemble):
        kind = memory.run.spec.model.model
        raise SpecError(f"key: probes are of capax's own transformers, run {memory.run.key[:12]} is of {kind}")
    if not 1 <= whole("trials", trials, None) <= MOST_TRIALS:
        raise SpecError(f"trials: 1 to {MOST_TRIALS}, got {trials}")
    whole("seed", seed, 0)
    task, model, library = memory.run.spec.task, memory.model, memory.library
    if memory.before:
        learned = f"run {memory.run.key[:12]} learned {task.task} with one"
        raise SpecError(f"key: probes are of sequences without a token before the first, {learned}")
    if lacking := {"query", "key", "out"} - {one.name for one in model.spec.mixer_parameters()}:
        raise SpecError(f"key: probes are of attention, run {memory.run.key[:12]} is of a mixer without {min(lacking)}")
    recall, size = task.scored("recall"), task.sizes()["vocab_size"]
    known = recalled(model, torch.from_numpy(library), recall).numpy()
    initial = drawn_again(memory.run, model)
    basin = basin_probe(model, library, known, recall, size, trials, numpy_generator(seed, "probe basin"))
    ablation = ablation_probe(
        model,
        library,
        known,
        recall,
        size,
        task.guess_probability() or 0.0,
        trials,
        numpy_generator(seed, "probe positions"),
    )
    return Probes(
        key=memory.run.key,
        spec=memory.run.spec,
        library_size=len(library),
        memorized=memory.run.memorized,
        recalled=int(known.sum()),
        trials=trials,
        seed=seed,
        level=LEVEL,
        cue=cue_probe(model, library, size),
        basin=basin,
        symmetry=symmetry_probe(model, initial),
        ablation=ablation,
        gradient_noise=gradient_noise_probe(model, initial, task, library, memory.run.spec.training.batch_size, seed),
        notes=tuple(_notes(task.scored("loss"), recall, basin, initial is not None)),
    )


def _notes(loss: Literal["all", "last"], recall: Literal["last", "all"], basin: BasinProbe, redrawn: bool) -> list[str]:
    notes = []
    if loss == "last":
        notes.append(
            "the loss covered the last token alone: the model never learned to predict those between, "
            "so only the longest cue says how much it remembers"
        )
    if not basin.items:
        notes.append("no item is recalled: there is nothing to corrupt or to ablate")
    if (basin.chance if recall == "last" else basin.chance_whole) >= 0.5:
        notes.append("a guess is right half of the time: the radius says nothing")
    other = max((point.other_item for point in basin.points), default=0.0)
    if other >= 0.01:
        notes.append(
            f"up to {other:.0%} of the corrupted prefixes are other items' own: these are asked for the wrong item"
        )
    if not redrawn:
        notes.append("the initial weights cannot be drawn again: frozen tables differ from those kept")
    return notes
