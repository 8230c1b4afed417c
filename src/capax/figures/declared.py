"""Figures of counts and of what follows from them, declared.

What Härmä et al. 2024 (arXiv 2407.15425) draw is known from sentences that others quote and from
file names alone, so axes are ours.
"""

from __future__ import annotations

from collections.abc import Callable

from capax.figures.captions import bars, by_law, counts, exhausted, limited, same
from capax.figures.columns import (
    CONTEXT,
    HEADS,
    SEQ_LEN,
    TASK_SIZES,
    WIDTH,
    Column,
    Of,
    decades,
    free,
    value,
)
from capax.figures.law_lines import law_line
from capax.figures.lines import Lines, Measure, across, limits
from capax.protocols.units import scaled
from capax.results import Interval, Measurement
from capax.specs import Mac, Mls

HARMA = "Härmä et al. 2024"

MEMORIZED = Measure(
    "memorized {unit}",
    lambda run: run.memorized,
    lambda run: run.interval,
    most=lambda run: run.library_size,
    dots=lambda run: run.memorized_per_restart if run.spec.protocol.one_library else (),
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
    several=WIDTH,
    reference=limits,
    law=law_line,
    caption=(
        counts,
        bars,
        limited,
        by_law,
        "Parameters are counted from the tensors; frozen tables are not among them.",
        f"{HARMA} draw this for 64 tokens in Fig. 11, which follows from their Table 1 under one count of coefficients "
        "and not under another.",
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
        f"{HARMA} compare a trained FFN with the identity in Fig. 2, for two heads and two layers; whether that is "
        "x + norm(x) or no FFN is not known to us.",
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
    ),
    needs="mac, several embeddings, positions or readout",
)
NETWORK_SIZE = Lines(
    name="network-size",
    title="trainable parameters against width, per heads",
    of=f"{HARMA}, Fig. 3",
    heading="Trainable parameters against width",
    x=WIDTH,
    y=(Measure("trainable parameters", TRAINABLE, scale=decades),),
    line=HEADS,
    panel=TASK_SIZES,
    caption=(
        "Parameters are counted from the tensors; frozen tables are not among them.",
        f"Fig. 3 of {HARMA} is on trainable parameters; what its axes are is not known.",
    ),
    needs="mac, several d_model",
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
            "MAC minus chance",
        ),
        Measure(MEMORIZED.label, _of("mls"), MEMORIZED.interval, "MLS"),
    ),
    panel=(*TASK_SIZES, HEADS),
    protocols=("mac", "mls"),
    several=PROTOCOL,
    settings=(*Mac.model_fields, *Mls.model_fields, "library_size"),
    caption=(
        "MAC: the most items of one large library that a training recalls, best of the restarts; minus chance: less "
        "what guessing or one constant answer recalls, whichever is more. MLS: the largest library that is memorized "
        "whole in half of the trainings. "
        "Dots: each restart. Bars: 95 % intervals, of MAC for the best of as many new restarts (from 3 on), of MLS for "
        "its 50 % point.",
        same,
        f"{HARMA} draw this in Fig. 4; they call MLS a lower bound for storage capacity.",
    ),
    needs="mac and mls, of one architecture",
)


def _per_parameter(unit: str) -> Of:
    return lambda run: None if (one := run.unit(unit)) is None else one.per_trainable_parameter


def _interval_per_parameter(unit: str) -> Callable[[Measurement], Interval | None]:
    def interval(run: Measurement) -> Interval | None:
        one = run.unit(unit)
        return None if one is None else scaled(one.interval, lambda amount: amount / run.parameters.trainable)

    return interval


UNITS = Lines(
    name="units",
    share_y=False,
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
        exhausted,
        bars,
        same,
    ),
    needs="mac, several d_model",
)
