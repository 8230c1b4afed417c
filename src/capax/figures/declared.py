"""Figures of counts and of what follows from them, declared.

What Härmä et al. 2024 (arXiv 2407.15425) and Mahdavi et al. 2024 (arXiv 2306.02010) draw is known from their text, file
names and code alone, so axes are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from capax.errors import CapaxError
from capax.figures.chart import Series
from capax.figures.columns import (
    CONTEXT,
    HEAD_SIZE,
    HEADS,
    LIBRARY,
    SEQ_LEN,
    TASK_SIZES,
    WIDTH,
    Column,
    Of,
    by,
    decades,
    free,
    in_words,
    value,
)
from capax.figures.lines import (
    Lines,
    Measure,
    Shown,
    across,
    bars,
    by_law,
    counts,
    law_line,
    left_out,
    limited,
    limits,
    same,
)
from capax.protocols.units import scaled
from capax.results import Amount, Interval, Measurement
from capax.specs import Mac, Mls
from capax.theory.bounds.catalogue import Catalogue, bounds

HARMA = "Härmä et al. 2024"
MAHDAVI = "Mahdavi et al. 2024, Fig. 2"

MEMORIZED = Measure(
    "memorized {unit}",
    lambda run: run.memorized,
    lambda run: run.interval,
    dots=lambda run: run.memorized_per_restart if run.spec.protocol.protocol == "mac" else (),
)
TRAINABLE = Column(
    "trainable_parameters",
    "trainable parameters",
    scale=decades,
    of=lambda run: run.parameters.trainable,
    fields=("d_model",),
)
BATCH = Column(
    "batch_size", "batch size", of=lambda run: min(run.spec.training.batch_size, run.library_size)
)  # never larger than the library
PROTOCOL = Column("protocol", of=lambda run: run.spec.protocol.protocol)

WIDTH_FIGURE = Lines(
    name="width",
    title="memorized against width, per heads and length, with a law's band",
    of=f"{HARMA}, Fig. 7",
    heading="Memorized {unit} against width",
    x=WIDTH,
    y=(MEMORIZED,),
    line=HEADS,
    panel=TASK_SIZES,
    reference=limits,
    law=law_line,
    caption=(counts, bars, limited, by_law, f"{HARMA} draw this in Fig. 7."),
    needs="mac, several d_model",
)
PARAMETERS = Lines(
    name="parameters",
    title="memorized against trainable parameters",
    of=f"{HARMA}, Fig. 11",
    heading="Memorized {unit} against trainable parameters",
    x=TRAINABLE,
    y=(MEMORIZED,),
    line=HEADS,
    panel=TASK_SIZES,
    reference=limits,
    law=law_line,
    caption=(
        counts,
        bars,
        limited,
        by_law,
        "Parameters are counted from the tensors; frozen tables are not among them.",
        f"{HARMA} draw this for 64 tokens in Fig. 11, which does not follow from their Table 1.",
    ),
    needs="mac, several d_model",
)
BATCH_SIZE = Lines(
    name="batch-size",
    title="memorized against batch size",
    of=f"{HARMA}, Fig. 6",
    heading="Memorized {unit} against batch size",
    x=BATCH,
    y=(MEMORIZED,),
    line=SEQ_LEN,
    panel=(CONTEXT, HEADS, WIDTH),
    reference=limits,
    caption=(
        counts,
        bars,
        limited,
        same,
        "A larger batch has fewer steps in an epoch: where epochs end the training, it also learned for fewer steps. "
        "A batch is never larger than the library.",
        f"{HARMA} draw this in Fig. 6 for 32 and 128 tokens.",
    ),
    needs="mac, several batch_size",
)

FFN = {"mlp": "FFN trained", "identity": "FFN the identity", "none": "no FFN"}
FFN_KIND = Column("ffn", said="{}", of=lambda run: FFN.get(value(run, "ffn")))
FFN_FIGURE = Lines(
    name="ffn",
    title="FFN trained, frozen to the identity, left out",
    of=f"{HARMA}, Fig. 2",
    heading="FFN trained or not: memorized {unit} against width",
    x=WIDTH,
    y=(MEMORIZED,),
    line=FFN_KIND,
    panel=(*TASK_SIZES, HEADS),
    several=FFN_KIND,
    wanted=("ffn",),
    reference=limits,
    caption=(
        counts,
        bars,
        limited,
        same,
        "The identity adds norm(x) to the stream and has no weights that learn.",
        f"{HARMA} compare the first two in Fig. 2, for two heads and two layers.",
    ),
    needs="mac, several ffn",
)

TABLES = ("embeddings", "positions", "readout")


def _trained(run: Measurement) -> str:
    trained = [part for part in TABLES if value(run, part) == "trained"]
    return f"trained: {', '.join(trained)}" if trained else "none of them trained"


TRAINED = Column("trainable", said="{}", of=_trained, fields=TABLES)
TRAINABLE_FIGURE = Lines(
    name="trainable",
    title="embeddings, positions and read-out trained or frozen",
    of=f"{HARMA}, Fig. 3",
    heading="Parts trained or frozen: memorized {unit} against width",
    x=WIDTH,
    y=(MEMORIZED, Measure("trainable parameters", TRAINABLE, scale=decades)),
    line=TRAINED,
    panel=(*TASK_SIZES, HEADS),
    several=TRAINED,
    wanted=TABLES,
    reference=limits,
    caption=(
        counts,
        bars,
        limited,
        same,
        "Parts that are not named are frozen as they were drawn; the blocks are trained in all. The last panels are "
        "the numbers of trainable parameters, counted from the tensors.",
        f"Fig. 3 of {HARMA} is on trainable parameters; what its axes are is not known.",
    ),
    needs="mac, several embeddings, positions or readout",
)


def _of(protocol: str, of: Of = lambda run: run.memorized) -> Of:
    return lambda run: of(run) if run.spec.protocol.protocol == protocol else None


MAC_MLS = Lines(
    name="mac-mls",
    title="most recalled of one library (MAC) against largest recalled whole (MLS)",
    of=f"{HARMA}, Fig. 4",
    heading="MAC against MLS",
    x=WIDTH,
    y=(
        Measure(MEMORIZED.label, _of("mac"), MEMORIZED.interval, "MAC", dots=MEMORIZED.dots),
        Measure(
            MEMORIZED.label,
            _of("mac", lambda run: run.memorized - run.chance),
            lambda run: scaled(run.interval, lambda count: count - run.chance),
            "MAC less luck",
        ),
        Measure(MEMORIZED.label, _of("mls"), MEMORIZED.interval, "MLS"),
    ),
    panel=(*TASK_SIZES, HEADS),
    protocols=("mac", "mls"),
    several=PROTOCOL,
    settings=(*Mac.model_fields, *Mls.model_fields, "library_size"),
    caption=(
        "MAC: the most items of one large library that a training recalls, best of the restarts; less luck: without "
        "those that luck alone recalls. MLS: the largest library that is memorized whole in half of the trainings. "
        "Dots: each restart. Bars: 95 % intervals, of MAC for the best of as many new restarts (from 3 on), of MLS for "
        "its 50 % point.",
        same,
        f"{HARMA} draw this in Fig. 4; they call MLS a lower bound, though MAC less luck may be below it.",
    ),
    needs="mac and mls, of one architecture",
)


def _amount(run: Measurement, unit: str) -> Amount | None:
    return next((one for one in run.units if one.name == unit), None)


def _per_parameter(unit: str) -> Of:
    return lambda run: None if (one := _amount(run, unit)) is None else one.per_trainable_parameter


def _interval_per_parameter(unit: str) -> Callable[[Measurement], Interval | None]:
    def interval(run: Measurement) -> Interval | None:
        one = _amount(run, unit)
        return None if one is None else scaled(one.interval, lambda amount: amount / run.parameters.trainable)

    return interval


UNITS = Lines(
    name="units",
    title="bits per trainable parameter, by every definition",
    heading="Bits per trainable parameter",
    x=WIDTH,
    y=tuple(
        Measure(
            "bits per trainable parameter",
            _per_parameter(unit),
            _interval_per_parameter(unit),
            name,
            scale=free,
        )
        for unit, name in (
            ("bits", "items above chance"),
            ("morris_bits", "Morris et al. 2025"),
            ("allen_zhu_bits", "Allen-Zhu and Li 2024"),
        )
    ),
    panel=(*TASK_SIZES, HEADS),
    reference=across("nothing known", 0.0),
    caption=(
        counts,
        "One run by three definitions. Items above chance: bits of the tokens that count as recalled. Morris et al. "
        "2025: what the cross-entropy of an item is below that of a uniform guess, summed over the items where it is "
        "below. Allen-Zhu and Li 2024: the same over all items, so that it may be negative. The last two count all "
        "that the loss covers.",
        bars,
        same,
    ),
    needs="mac, several d_model",
)

SHARE = Measure(
    "share of the library recalled",
    lambda run: run.memorized / run.library_size,
    lambda run: scaled(run.interval, lambda count: count / run.library_size),
)
THEORY = {
    "theorem 1": (
        ("mahdavi2024",),
        "H(min(n, d_head) − 1) + 1 examples, to which the theorem's layer (no embedding, no positions) can give any "
        "labels, as a share of the smallest library",
    ),
    "rank limit": (
        ("shared_context_rank", "fresh_context_rank"),
        "the most with query and key weights that do not depend on the labels, which trained ones do",
    ),
}
"""Bounds by the name of their line: the first of them that applies, and what it is."""


def in_theory(rows: Sequence[Measurement], shown: Shown, x: Of) -> list[Series]:
    """What theory says of the smallest library, and what luck recalls of it."""
    least = min(run.library_size for run in rows)
    runs = {size: found[0] for (size,), found in by((run for run in rows if run.library_size == least), x).items()}
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
    return [*found, Series(name="by luck", kind="reference", x=tuple(runs), y=lucky, group=2)]


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


def greys(shown: Shown) -> str:
    """What the grey lines are."""
    names = {one.name.split(",")[0] for panel in shown.panels for one in panel.series if one.kind == "reference"}
    told = {name: text for name, (_, text) in THEORY.items()} | {"by luck": "what luck recalls"}
    return f"Grey: {'; '.join(f'{name}: {text}' for name, text in told.items() if name in names)}."


NAMED = 4
"""Numbers that a caption lists one by one."""


def straight_in_heads(shown: Shown) -> str:
    """R² of a straight line through the shares recalled, of each line."""
    columns = [LIBRARY, *(column for column in (CONTEXT, HEAD_SIZE, WIDTH) if len(set(map(column, shown.rows))) > 1)]
    lines = by(shown.rows, *columns).items()
    known = {in_words(columns, key): r for key, runs in lines if (r := straightness(runs)) is not None}
    if not known:
        return ""
    if len(known) > NAMED:
        ends = f"{min(known.values()):.3f} to {max(known.values()):.3f}"
        return f"R² of a straight line in the heads: {ends} over {len(known)} lines."
    return f"R² of a straight line in the heads: {', '.join(f'{r:.3f} ({line})' for line, r in known.items())}."


def straightness(runs: Sequence[Measurement]) -> float | None:
    """R² of a straight line in the heads; None below three of them, or where all shares are the same."""
    x, y = np.array([HEADS(run) for run in runs], dtype=float), np.array([SHARE.of(run) for run in runs])
    if len(set(x)) < 3 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1] ** 2)


def _recalled(shown: Shown) -> str:
    return f"Recalled examples of all, {shown.group.runs[0].spec.protocol.words()}."


def _seeds(shown: Shown) -> str:
    return "Of several seeds the mean." if len({run.spec.seed for run in shown.rows}) > 1 else ""


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
            bars,
            _seeds,
            same,
            greys,
            *trend,
            f"The paper's accuracies are not known to us. {MAHDAVI}.",
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
        "The paper finds it linear in the heads (R² at least .98, read where others restate it).",
    ),
    _accuracy("accuracy-context", "context size", CONTEXT, "The paper finds that it rises with the context."),
    _accuracy(
        "accuracy-head-size",
        "head size",
        HEAD_SIZE,
        "The paper finds that it rises with the head size up to the context's size n, and not beyond.",
    ),
)
