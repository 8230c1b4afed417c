"""Shares of examples that are recalled, beside theory (Mahdavi et al. 2024, Fig. 2), declared.

What the paper draws is known from those who restate it and from the authors' code alone, so axes are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from capax.errors import CapaxError
from capax.figures.captions import bars, left_out, means, same
from capax.figures.chart import Series
from capax.figures.columns import (
    CONTEXT,
    HEAD_SIZE,
    HEADS,
    LIBRARY,
    WIDTH,
    Column,
    Of,
    by,
    in_words,
)
from capax.figures.lines import Lines, Measure, Shown
from capax.protocols.units import scaled
from capax.results import Measurement
from capax.theory.bounds.catalogue import Catalogue, bounds

MAHDAVI = "Mahdavi et al. 2024, Fig. 2"

SHARE = Measure(
    "share of the library recalled",
    lambda run: run.memorized / run.library_size,
    lambda run: scaled(run.interval, lambda count: count / run.library_size),
    most=lambda run: 1.0,
)
THEORY = {
    "theorem 1": (
        ("mahdavi2024",),
        "H(min(n, d_head) − 1) + 1 examples, to which the theorem's layer (no embedding, no positions) can give any "
        "labels, as a share of that library",
    ),
    "rank limit": (
        ("shared_context_rank", "fresh_context_rank"),
        "the most with exact labels and query and key weights that do not depend on them; trained weights do, and an "
        "arg-max or a tolerance asks for less",
    ),
}
"""Bounds by the name of their line: the first of them that applies, and what it is."""


def in_theory(rows: Sequence[Measurement], shown: Shown, x: Of) -> list[Series]:
    """What theory says of a library, the smallest of those with most places, and what is recalled of it by chance.

    The same one in all panels that have it; nothing at a single place, which is no line.
    """
    every_place = {size: by(found, x) for (size,), found in by(shown.rows, LIBRARY).items()}
    places = {size: by(found, x) for (size,), found in by(rows, LIBRARY).items()}
    least = min(places, key=lambda size: (-len(every_place[size]), size))
    if len(places[least]) < 2:
        return []
    runs = {size: found[0] for (size,), found in places[least].items()}
    every = {size: _bounds(run) for size, run in runs.items()}
    found: list[Series] = []
    for place, (name, (bounds_of, _)) in enumerate(THEORY.items()):
        values = {size: _first(catalogue, bounds_of) for size, catalogue in every.items()}
        known = {size: min(number / least, 1.0) for size, number in values.items() if number is not None}
        line = (tuple(known), tuple(known.values()))
        if known and line not in [(one.x, one.y) for one in found]:  # one line where both are the same
            told = f"{name}, {LIBRARY.words(least)}"
            found.append(Series(name=told, kind="reference", x=line[0], y=line[1], group=place))
    lucky = tuple(run.chance / least for run in runs.values())  # of each run's own library
    chance = f"by chance, {LIBRARY.words(least)}"
    return [*found, Series(name=chance, kind="reference", x=tuple(runs), y=lucky, group=2)]


def _bounds(run: Measurement) -> Catalogue | None:
    try:
        return bounds(run.spec)
    except CapaxError:  # of a model that no bound is known for
        return None


def _first(catalogue: Catalogue | None, names: Sequence[str]) -> float | None:
    known = {} if catalogue is None else {one.name: one for one in catalogue.bounds}
    for name in names:
        one = known.get(name)
        if one is not None and one.value is not None and one.assumptions[0].met is not False:  # others: of the model
            return one.value
    return None


def _luck(runs: Sequence[Measurement]) -> str:
    """What is called luck: runs of earlier versions know of guesses alone."""
    known = {run.chance_constant is not None for run in runs}
    told = (
        "what guessing or one constant answer recalls, whichever is more" if True in known else "expected from guessing"
    )
    return f"{told} (of runs of earlier versions guessing alone)" if len(known) > 1 else told


def greys(shown: Shown) -> str:
    """What the grey lines are."""
    names = {one.name.split(",")[0] for panel in shown.panels for one in panel.series if one.kind == "reference"}
    told = {name: text for name, (_, text) in THEORY.items()} | {"by chance": _luck(shown.rows)}
    return f"Grey: {'; '.join(f'{name}: {text}' for name, text in told.items() if name in names)}."


BELOW = 0.95
"""Share from which a library is recalled nearly whole, which bends a line: as the verdict on the claim has it."""
NAMED = 4
"""Numbers that a caption lists one by one."""


def straight_in_heads(shown: Shown) -> str:
    """R² of a straight line through the shares recalled, of each line."""
    columns = [LIBRARY, *(column for column in (CONTEXT, HEAD_SIZE, WIDTH) if len(set(map(column, shown.rows))) > 1)]
    lines = by(shown.rows, *columns).items()
    known = {in_words(columns, key): r for key, runs in lines if (r := straightness(runs)) is not None}
    if not known:
        return ""
    said = ", ".join(f"{r:.3f} ({line})" for line, r in known.items())
    if len(known) > NAMED:
        said = f"{min(known.values()):.3f} to {max(known.values()):.3f} over {len(known)} lines"
    return f"R² of a straight line in the heads, below {BELOW:.0%}: {said}."


def straightness(runs: Sequence[Measurement]) -> float | None:
    """R² of a straight line in the heads of less than all; None below three of them, or where shares are the same.

    Of means over seeds, where there are several.
    """
    known = [run for run in runs if SHARE.of(run) is not None]
    means = {heads: np.mean([SHARE.of(run) for run in of]) for (heads,), of in by(known, HEADS).items()}
    x, y = np.array([(heads, mean) for heads, mean in means.items() if mean < BELOW], dtype=float).reshape(-1, 2).T
    if len(x) < 3 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1] ** 2)


def _recalled(shown: Shown) -> str:
    return f"Share of the examples that is recalled: {shown.group.runs[0].spec.protocol.words()}."


def _accuracy(name: str, title: str, x: Column, *trend: Any) -> Lines:
    return Lines(
        name=name,
        title=f"share recalled against {title}",
        of=MAHDAVI,
        heading=f"Share recalled against {x.label}",
        x=x,
        y=(SHARE,),
        line=LIBRARY,
        panel=tuple(column for column in (HEADS, CONTEXT, HEAD_SIZE, WIDTH) if column is not x),
        wanted=("context_size", "n_heads", "d_head", "d_model"),
        reference=in_theory,
        caption=(
            _recalled,
            means,
            bars,
            same,
            greys,
            *trend,
            f"{MAHDAVI} (classes, one context for all): its accuracies are not known to us.",
            left_out,
        ),
        most_panels=8,
        needs=f"associations, mac, several {x.name}",
    )


ACCURACY = (
    _accuracy(
        "accuracy-heads",
        "heads",
        HEADS,
        straight_in_heads,
        "The paper finds it linear in the heads, for classes and one context for all (R² at least .98, secondary).",
    ),
    _accuracy(
        "accuracy-context",
        "context size",
        CONTEXT,
        "The paper finds that it rises with the context, for classes and one context for all (secondary).",
    ),
    _accuracy(
        "accuracy-head-size",
        "head size",
        HEAD_SIZE,
        "The paper finds that it rises with the head size up to the context's size n, and not beyond (secondary).",
    ),
)
