"""The papers' figures, each drawn from its own recipe's runs, with the law that is fitted to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from sklearn.base import clone

from capax import tables
from capax.errors import CapaxError
from capax.figures.chart import Chart
from capax.figures.registry import FIGURES, Figure
from capax.laws.law import Law
from capax.papers.recipe import Recipe, Scale
from capax.results import Measurement


def fitted(some: Sequence[Recipe], found: Mapping[str, Measurement], scale: Scale) -> Law | None:
    """The law of a paper's studies, fitted to the runs of its study; None where none has one, or too few runs."""
    for recipe in some:
        if recipe.study is not None and recipe.study.law is not None:
            runs = [run for run in recipe.of(found, scale) if run.above_chance]
            try:
                return clone(recipe.study.law).fit(tables.table(runs)) if runs else None
            except CapaxError:
                return None
    return None


def figures(some: Sequence[Recipe], found: Mapping[str, Measurement], scale: Scale) -> dict[str, Figure]:
    """The recipes' figures, by the recipe's name, and then those of `FIGURES` that no recipe has."""
    drawn = {recipe.figure: (recipe, FIGURES[recipe.chart]) for recipe in some if recipe.chart is not None}
    own = {
        name: Figure(f"{name}: {recipe.title}", figure.of, partial(_shown, name, figure, recipe.of(found, scale)))
        for name, (recipe, figure) in drawn.items()
    }
    others = FIGURES.keys() - {recipe.chart for recipe, _ in drawn.values()}
    return own | {name: figure for name, figure in FIGURES.items() if name in others}


def _shown(
    name: str, figure: Figure, own: Sequence[Measurement], runs: Sequence[Measurement], law: Law | None
) -> list[Chart]:
    """The charts of the recipe's own runs, of all that a page has, titled with the recipe's name."""
    return [chart.model_copy(update={"title": f"{name}: {chart.title}"}) for chart in figure.shown(own, law)]
