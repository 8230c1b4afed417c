"""The experiments of Mahdavi et al. 2024 (arXiv 2306.02010): what their code sweeps, and smaller sweeps of each.

The published grids and training are read in the authors' code. Their figures plot accuracy, of which only the trends
are known to us: linear in the heads (R² at least .98), rising with the context, and with the head size up to the
context's. The small and demo scales are ours: they look for the same trends, in minutes on two cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from capax.papers.recipe import Scale
from capax.specs import Associations, AssociativeAttention, Mac, Run, Training

SEED = 42
"""That of the published data."""

SIZES = (1, 5, 10, 20, 30, 40, 50, 60)


@dataclass(frozen=True)
class Experiment:
    """One panel: a size is swept, at several sizes of the library.

    Attributes:
        swept: the field that varies (`n_heads`, `context_size` or `d_head`).
        values: what it takes.
        library_sizes: a line of the panel each.
        fixed: the other sizes.
        steps: steps of the training at least (published), or in all (small).
    """

    swept: str
    values: tuple[int, ...]
    library_sizes: tuple[int, ...]
    contexts: Literal["shared", "fresh"]
    labels: Literal["classes", "uniform"]
    fixed: dict[str, int]
    training: Training

    def runs(self, seed: int = SEED) -> list[Run]:
        """The experiment's runs, library by library."""
        found = []
        for library_size in self.library_sizes:
            for value in self.values:
                sizes: dict[str, Any] = {**self.fixed, self.swept: value}
                context_size = sizes.pop("context_size")
                task = Associations(
                    context_size=context_size, library_size=library_size, contexts=self.contexts, labels=self.labels
                )
                model = AssociativeAttention(**sizes, profile="mahdavi2024")
                run = Run(task=task, model=model, training=self.training, protocol=Mac(restarts=1), seed=seed)
                found.append(run)
        return found


def _thousands(*sizes: int) -> tuple[int, ...]:
    return tuple(1000 * size for size in sizes)


def _published(
    swept: str,
    library_sizes: tuple[int, ...],
    contexts: Literal["shared", "fresh"],
    labels: Literal["classes", "uniform"] = "classes",
    values: tuple[int, ...] = SIZES,
    n_heads: int = 20,
    training: Training | None = None,
) -> Experiment:
    fixed = {"n_heads": n_heads, "context_size": 32, "d_model": 64, "d_head": 64}
    return Experiment(swept, values, library_sizes, contexts, labels, fixed, training or Training())


LONG = Training(max_epochs=500, min_steps=300_000)
PUBLISHED = {
    "heads-shared": _published("n_heads", _thousands(10, 20, 30, 40), "shared"),
    "heads-fresh": _published("n_heads", _thousands(30, 50, 70, 90, 110, 130), "fresh"),
    "context-shared": _published("context_size", _thousands(6, 10, 14, 18), "shared"),
    "context-fresh": _published("context_size", _thousands(20, 30, 40, 50, 60), "fresh"),
    "head-size-shared": _published(
        "d_head", _thousands(10, 15, 20), "shared", values=(*range(10, 61, 5), 64), n_heads=30, training=LONG
    ),
    "heads-shared-regression": _published("n_heads", _thousands(10, 15, 20, 25, 30), "shared", "uniform"),
    "heads-fresh-regression": _published("n_heads", _thousands(10, 30, 50, 70, 90), "fresh", "uniform"),
    "context-shared-regression": _published("context_size", _thousands(10, 15, 20, 25), "shared", "uniform"),
    "context-fresh-regression": _published("context_size", _thousands(10, 30, 50, 70, 90), "fresh", "uniform"),
    "saturation-4-heads": _published(
        "n_heads", (550,), "shared", values=(4,), training=LONG.replace(stop_when_complete=False)
    ),
    "saturation-8-heads": _published(
        "n_heads", (1300,), "shared", values=(8,), training=LONG.replace(stop_when_complete=False)
    ),
}
"""Every sweep of the published `reproduce.sh`, one seed of six."""


def _small(
    swept: str,
    values: tuple[int, ...],
    contexts: Literal["shared", "fresh"],
    labels: Literal["classes", "uniform"] = "classes",
    library_size: int = 4000,
    **fixed: int,
) -> Experiment:
    sizes = {"n_heads": 8, "context_size": 16, "d_model": 32, "d_head": 32} | fixed
    return Experiment(swept, values, (library_size,), contexts, labels, sizes, Training(lr=3e-3, max_steps=6000))


HEADS, CONTEXTS, HEAD_SIZES = (1, 2, 4, 6, 8, 10, 12), (1, 2, 4, 8, 16, 24), (1, 2, 4, 8, 16, 32)
SMALL = {
    "heads-shared": _small("n_heads", HEADS, "shared"),
    "heads-fresh": _small("n_heads", HEADS, "fresh"),
    "context-shared": _small("context_size", CONTEXTS, "shared"),
    "context-fresh": _small("context_size", CONTEXTS, "fresh"),
    "head-size-shared": _small("d_head", HEAD_SIZES, "shared", context_size=8),
    "heads-shared-regression": _small("n_heads", HEADS, "shared", "uniform"),
    "heads-fresh-regression": _small("n_heads", HEADS, "fresh", "uniform"),
    "context-shared-regression": _small("context_size", CONTEXTS, "shared", "uniform"),
    "context-fresh-regression": _small("context_size", CONTEXTS, "fresh", "uniform"),
    "saturation-4-heads": _small("n_heads", (4,), "shared", library_size=100, context_size=8),
}
"""The same sweeps at half the width and with a short training: minutes on two cores for all of them."""


def _demo(
    swept: str,
    values: tuple[int, ...],
    contexts: Literal["shared", "fresh"],
    labels: Literal["classes", "uniform"] = "classes",
    **fixed: int,
) -> Experiment:
    sizes = {"n_heads": 8, "context_size": 8, "d_model": 16, "d_head": 16} | fixed
    return Experiment(swept, values, (1000,), contexts, labels, sizes, Training(lr=1e-2, max_steps=2000))


FEW_HEADS, FEW_CONTEXTS, FEW_HEAD_SIZES = (1, 2, 3, 4, 6, 8), (1, 2, 4, 6, 8, 12), (1, 2, 4, 8, 16)
DEMO = {
    "heads-shared": _demo("n_heads", FEW_HEADS, "shared"),
    "heads-fresh": _demo("n_heads", FEW_HEADS, "fresh"),
    "context-shared": _demo("context_size", FEW_CONTEXTS, "shared"),
    "context-fresh": _demo("context_size", FEW_CONTEXTS, "fresh"),
    "head-size-shared": _demo("d_head", FEW_HEAD_SIZES, "shared", context_size=4),
    "heads-shared-regression": _demo("n_heads", FEW_HEADS, "shared", "uniform"),
    "heads-fresh-regression": _demo("n_heads", FEW_HEADS, "fresh", "uniform"),
    "context-shared-regression": _demo("context_size", FEW_CONTEXTS, "shared", "uniform"),
    "context-fresh-regression": _demo("context_size", FEW_CONTEXTS, "fresh", "uniform"),
}
"""The same sweeps at a quarter of the width: a few seconds a run."""

SCALES: dict[Scale, dict[str, Experiment]] = {"paper": PUBLISHED, "small": SMALL, "demo": DEMO}
