"""Every recipe of every paper, by name."""

from __future__ import annotations

from collections.abc import Sequence

from capax.errors import SpecError
from capax.papers import adler2025, harma2024, mahdavi2024_recipes
from capax.papers.recipe import SCALES, Recipe, Scale

PAPERS: dict[str, tuple[Recipe, ...]] = {
    "harma2024": harma2024.RECIPES,
    "mahdavi2024": mahdavi2024_recipes.RECIPES,
    "adler2025": adler2025.RECIPES,
}
NAMES = {
    "harma2024": "Härmä, Pietrasik, Wilbik 2024, arXiv 2407.15425",
    "mahdavi2024": "Mahdavi, Liao, Thrampoulidis 2024, arXiv 2306.02010",
    "adler2025": "Adler 2025, arXiv 2509.22840",
}


def recipes(paper: str, figure: str | None = None) -> tuple[Recipe, ...]:
    """Those of a paper, or of one of its figures.

    Raises:
        SpecError: for a paper or a figure that there is not.
    """
    if paper not in PAPERS:
        raise SpecError(f"paper: one of {', '.join(PAPERS)}, all, got {paper!r}")
    found = tuple(recipe for recipe in PAPERS[paper] if figure in (None, recipe.figure))
    if not found:
        known = ", ".join(recipe.figure for recipe in PAPERS[paper])
        raise SpecError(f"figure: of {paper} one of {known}, got {figure!r}")
    return found


def seconds(some: Sequence[Recipe], scale: Scale) -> float:
    """Expected time of some recipes: a study that several share is run once."""
    studies = {(recipe.paper, recipe.study.name): recipe.seconds(scale) for recipe in some if recipe.study}
    return sum(studies.values())


def check_scale(scale: str) -> Scale:
    """A scale by its name.

    Raises:
        SpecError: for one that there is not.
    """
    for known in SCALES:
        if scale == known:
            return known
    raise SpecError(f"scale: one of {', '.join(SCALES)}, got {scale!r}")
