"""Cells of items and channels, and what their runs say of D_K*."""

from __future__ import annotations

import math

import numpy as np

from capax.papers.evidence import field
from capax.papers.recipe import Evidence, Unjudged, Verdict
from capax.results import HeadCount, Measurement
from capax.text import counted

TARGET = 0.99
# channels below which D_K* is larger than by any law (ours: with 8 it is): logarithm and diagonal are judged without
NARROWEST = 16


def items_of(run: Measurement) -> int:
    """The number of items (here of edges, too: permutations)."""
    return run.library_size


def width_of(run: Measurement) -> int:
    """Channels."""
    return int(field(run, "d_model"))


def is_wide(run: Measurement) -> bool:
    """Whether how D_K* grows can be told from it."""
    return width_of(run) >= NARROWEST


def load_of(run: Measurement) -> float:
    """The law's load m' log2 m' / d: what it says D_K* is proportional to."""
    return items_of(run) * math.log2(items_of(run)) / width_of(run)


def best_trained(run: Measurement) -> HeadCount | None:
    """The smallest key dimension that trainings reached, where built weights need less; None where these do not."""
    search = run.key_search
    return search.trained if search is not None and search.reached_by == "built" else None


def is_searched(run: Measurement) -> bool:
    """Whether some head size was enough for trainings, and explicit weights do not need less."""
    return run.total_key_dim is not None and best_trained(run) is None


def searched_cells(of: Evidence) -> list[Measurement]:
    """Cells whose D_K* trainings tell: where explicit weights need less, both are bounds from above.

    Raises:
        Unjudged: where there is none.
    """
    cells = [run for run in of.runs if is_searched(run)]
    if not cells:
        raise Unjudged("in no cell was any head size enough for trainings, with no more channels than explicit weights")
    return cells


def key_dims_of(cells: list[Measurement]) -> np.ndarray:
    """D_K* of each cell, as trainings reached it."""
    return np.array([run.total_key_dim or 0 for run in cells], float)


def with_left_out(verdict: Verdict, of: Evidence) -> Verdict:
    """A verdict on D_K* that tells of the cells that are left out."""
    built = [(run, found) for run in of.runs if (found := best_trained(run)) is not None]
    if not built:
        return verdict
    cells = ", ".join(
        f"m {items_of(run)}, d {width_of(run)}: {found.total_key_dim or 'none'} by training, {run.total_key_dim} built"
        for run, found in built
    )
    which = f"without {counted(len(built), 'cell')} where explicit weights need less than trainings ({cells})"
    return verdict.model_copy(update={"reason": f"{verdict.reason}; {which}"})


def cut_short(of: Evidence) -> str:
    """How many trainings were not at rest when they ended, in brackets; nothing where all were."""
    ended = sum(run.stop_reason == "budget" for run in of.runs)
    return f" ({ended} of {len(of.runs)} trainings ended at their budget)" if ended else ""


def counts_of(run: Measurement) -> tuple[HeadCount, ...]:
    """What the search of a cell found of each number of heads."""
    return () if run.key_search is None else run.key_search.per_heads
