"""Networks to choose from by a law in bits: every depth, kind of tables and width, and widths between those."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from capax.errors import LawError
from capax.planning.answers import Columns
from capax.planning.question import Question

NARROWEST, WIDEST, STEPS, FINER = 8, 131_072, 4, 15
"""Widths that are tried, so many to an octave; and how many between the two that a target or a budget lies between."""
MULTIPLE = 8


@dataclass(frozen=True)
class Families:
    """Networks to choose from: of each family several widths.

    Attributes:
        models: all of them.
        table: a row of each, with the columns of the law.
        family: the number of each one's family, `(models,)`.
    """

    models: list[Any]
    table: Columns
    family: np.ndarray


def usual_widths(multiple: int) -> list[int]:
    """Multiples of a number, four to an octave."""
    octaves = int(np.log2(WIDEST / NARROWEST))
    steps = NARROWEST * 2 ** (np.arange(STEPS * octaves + 1) / STEPS)
    return sorted({max(round(step / multiple), 1) * multiple for step in steps.tolist()})


def between(below: int, above: int, multiple: int) -> list[int]:
    """Multiples of a number between two others, evenly spaced where they are many."""
    found = np.arange(below // multiple * multiple + multiple, above, multiple)
    kept = np.unique(np.linspace(0, len(found) - 1, FINER).round().astype(int)) if len(found) > FINER else slice(None)
    return [int(width) for width in found[kept]]


def finer(widths: list[int], chosen: int, multiple: int | None) -> list[int]:
    """Widths between the one that was chosen and its neighbours."""
    at = widths.index(chosen)
    near = widths[max(at - 1, 0) : at + 2]
    return [width for pair in itertools.pairwise(near) for width in between(*pair, multiple or MULTIPLE)]


def families(question: Question, multiple: int | None, further: Sequence[Sequence[int]] | None = None) -> Families:
    """Networks of every depth, kind of tables and width: as they were given, or the usual ones.

    Where all the law's data had one depth, number of heads or head size, so have the networks. Where the usual heads
    are larger than any of the law's data, its largest are tried first, so that such a network does not lie outside of
    the domain for its heads alone. Of a number of heads that is given, heads that share the width are tried, too.

    Args:
        further: more widths, of each family.

    Raises:
        LawError: where the law's model cannot be planned at any size, or a value is no positive integer.
    """
    if not question.model.depths:
        raise LawError(f"law: one in bits plans models that have depths to try, not {question.model.tag()}")
    given = {name: question.choices(name, 1) for name in question.sizes}
    question.check_multiple("d_model", multiple)
    widths = given.pop("d_model", None) or usual_widths(multiple or MULTIPLE)
    axes: dict[str, Any] = {"n_layers": question.model.depths, "n_heads": (None,), "d_head": (None,)}
    axes |= {name: (only,) for name in axes if (only := question.only(name)) is not None}
    axes |= given
    kinds = [{}] if question.tables is None else [{"embeddings": kind} for kind in question.tables]
    models, family, domain = [], list[int](), question.law.domain_
    for number, (fields, *values) in enumerate(itertools.product(kinds, *axes.values())):
        sizes = dict(zip(axes, values, strict=True))
        known = {column: domain.largest(column, question.kinds | fields) for column in ("d_head", "d_model")}
        for width in widths if further is None else sorted({*widths, *further[number]}):
            usual = question.spec({**sizes, "d_model": width}, fields)
            if sizes["d_head"] is None and usual.d_head > known["d_head"] and width <= known["d_model"]:
                models.append(question.spec({**sizes, "d_head": int(known["d_head"]), "d_model": width}, fields))
            if sizes["d_head"] is None and sizes["n_heads"] is not None and usual.d_head > width // usual.n_heads > 0:
                models.append(question.spec({**sizes, "d_head": width // usual.n_heads, "d_model": width}, fields))
            models.append(usual)
        family += [number] * (len(models) - len(family))
    return Families(models, question.table(models), np.array(family))
