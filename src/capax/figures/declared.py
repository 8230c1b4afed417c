"""The figures of Härmä et al. 2024 (arXiv 2407.15425) that set measured counts side by side, of any runs on sequences.

Figures that need a law are in `harma_laws`, epochs to completion in `harma_shatter`. What the paper draws is
known from its text and file names alone, so axes are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from capax.figures import words
from capax.figures.chart import Axis, Chart, Panel, Series
from capax.figures.expectations import about
from capax.figures.groups import Group, alike
from capax.figures.lines import (
    MEMORIZED,
    by,
    d_model,
    ends_of,
    has_law,
    keys,
    law_line,
    limits,
    log_axis,
    measured,
    n_heads,
    of_transformers,
    or_error,
    said_of_lines,
    seq_len,
    titled,
)
from capax.figures.words import of_heads
from capax.laws.law import Law
from capax.measures.units import scaled
from capax.results import Interval, Measurement
from capax.specs import Mac, Mls, Transformer

WIDTH = "width d_model"
ARCHITECTURE = frozenset({"seq_len", "n_heads", "d_model"})
PROTOCOLS = frozenset((*Mac.model_fields, *Mls.model_fields))

Named = Callable[[Measurement], str]


def counted(group: Group) -> str:
    """How the counts of a group were made, as the beginning of a caption."""
    return f"Count: {words.protocol(group.runs[0].spec)}. "


def memorized_against_width(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Fig. 7: memorized against width, a line per number of heads, a panel per length, with the law's band."""
    charts = []
    for group in alike(of_transformers(runs, Mac), ARCHITECTURE):
        axis = log_axis(WIDTH, map(d_model, group.runs))
        places = {heads: place for place, heads in enumerate(sorted({n_heads(run) for run in group.runs}))}
        panels = []
        for (length,), members in by(group.runs, seq_len).items():
            if len({d_model(run) for run in members}) < 2:
                continue
            series = []
            for (heads,), line in by(members, n_heads).items():
                name, place = of_heads(int(heads)), places[int(heads)]
                series += measured(line, d_model, name, place) + law_line(law, line, d_model, name, place)
            series += limits(members, group.runs, d_model, ends_of(axis))
            panels.append(Panel(title=f"{length} tokens", x=axis, y=MEMORIZED, series=tuple(series)))
        if not panels:
            continue
        charts.append(
            Chart(
                name="width",
                title=titled("Memorized sequences against width", group),
                caption=f"{said_of_lines(group.runs, panels)}{about(law, group.runs, has_law(panels))} "
                "Härmä et al. 2024 draw this in Fig. 7.",
                panels=keys(panels),
            )
        )
    return or_error(charts, "no runs that differ in width and in nothing else but heads and length")


def memorized_against_batch_size(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Fig. 6: memorized against batch size, a line per length, a panel per architecture."""
    charts = []
    for group in alike(of_transformers(runs, Mac), ARCHITECTURE | {"batch_size"}):
        swept = [
            (architecture, members)
            for architecture, members in by(group.runs, n_heads, d_model).items()
            if len({_batch(run) for run in members}) > 1
        ]
        if not swept:
            continue
        shown = [run for _, members in swept for run in members]
        axis = log_axis("batch size", map(_batch, shown))
        places = {length: place for place, length in enumerate(sorted({seq_len(run) for run in shown}))}
        panels = []
        for (heads, width), members in swept:
            series = []
            for (length,), line in by(members, seq_len).items():
                series += measured(line, _batch, f"{length} tokens", places[int(length)])
            series += limits(members, shown, _batch, ends_of(axis))
            title = f"{of_heads(int(heads))}, width {width}"
            panels.append(Panel(title=title, x=axis, y=MEMORIZED, series=tuple(series)))
        charts.append(
            Chart(
                name="batch-size",
                title=titled("Memorized sequences against batch size", group),
                caption=f"{said_of_lines(group.runs, panels)} A larger batch has fewer steps in an epoch: "
                "where epochs end the training, it also learned for fewer steps. A batch is never larger than the "
                "library. Härmä et al. 2024 draw this in Fig. 6 for 32 and 128 tokens.",
                panels=keys(panels),
            )
        )
    return or_error(charts, "no runs that differ in batch_size and in nothing else but the architecture and length")


def _batch(run: Measurement) -> int:
    return min(run.spec.training.batch_size, run.library_size)


def ffn_trained_or_identity(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Fig. 2: memorized against width with the FFN trained, frozen to the identity, and left out."""
    names = {"mlp": "FFN trained", "identity": "FFN the identity", "none": "no FFN"}
    caption = (
        "The identity adds norm(x) to the stream and has no weights that learn. Härmä et al. 2024 compare the first "
        "two in Fig. 2, for two heads and two layers."
    )
    charts = _compared(
        of_transformers(runs, Mac),
        "ffn",
        "FFN trained or not",
        {"ffn"},
        lambda run: names[_transformer(run).ffn],
        caption,
    )
    return or_error(charts, "no runs that differ in ffn and in nothing else but the architecture and length")


def _transformer(run: Measurement) -> Transformer:
    assert isinstance(run.spec.model, Transformer)
    return run.spec.model


TABLES = ("embeddings", "positions", "readout")


def trainable_parts(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Fig. 3: what training embeddings, positions and read-out does to counts and to trainable parameters."""

    def name(run: Measurement) -> str:
        trained = [part for part in TABLES if getattr(_transformer(run), part) == "trained"]
        return f"trained: {', '.join(trained)}" if trained else "none of them trained"

    caption = (
        "Parts that are not named are frozen as they were drawn; the blocks are trained in all. The last panels are "
        "the numbers of trainable parameters, counted from the tensors. Fig. 3 of Härmä et al. 2024 is on trainable "
        "parameters; what its axes are is not known."
    )
    charts = _compared(
        of_transformers(runs, Mac), "trainable", "Parts trained or frozen", set(TABLES), name, caption, parameters=True
    )
    return or_error(
        charts,
        "no runs that differ in embeddings, positions or readout and in nothing else but architecture and length",
    )


def mac_against_mls(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Fig. 4: the most that is recalled of one large library (MAC) against the largest recalled whole (MLS)."""
    both = of_transformers(runs, Mac, Mls)
    charts = []
    for group in alike(both, ARCHITECTURE | PROTOCOLS | {"library_size"}):
        kinds = {
            kind: alike([run for run in group.runs if isinstance(run.spec.protocol, kind)], ARCHITECTURE)
            for kind in (Mac, Mls)
        }
        if not all(kinds.values()):
            continue
        lines: list[tuple[str, Callable[[Measurement], float] | None, Group]] = []
        for found in kinds[Mac]:
            lines += [(_told("MAC", found), None, found), (_told("MAC less luck", found), _less_luck, found)]
        lines += [(_told("MLS", found), None, found) for found in kinds[Mls]]
        axis = log_axis(WIDTH, map(d_model, group.runs))
        panels = []
        for architecture, members in by(group.runs, seq_len, n_heads).items():
            if len({type(run.spec.protocol) for run in members}) < 2:
                continue
            series: list[Series] = []
            for place, (name, value, found) in enumerate(lines):
                here = by(found.runs, seq_len, n_heads).get(architecture, [])
                series += measured(here, d_model, name, place, value, _interval_less_luck) if here else []
            panels.append(Panel(title=_architecture(architecture), x=axis, y=MEMORIZED, series=tuple(series)))
        if panels:
            charts.append(
                Chart(
                    name="mac-mls",
                    title=titled("MAC against MLS", group),
                    caption="MAC: the most sequences of one large library that a training recalls, best of the "
                    "restarts; less luck: without those that luck alone recalls, library_size / vocab_size in a random "
                    "library. MLS: the largest library that is memorized whole in half of the trainings. Dots: each "
                    "restart. Bars: 95 % intervals, of MAC for the best of as many new restarts (from 3 on), of MLS "
                    "for its 50 % point. Härmä et al. 2024 draw this in Fig. 4; they call MLS a lower bound, though "
                    "MAC less luck may be below it.",
                    panels=keys(panels),
                )
            )
    return or_error(charts, "no architecture that was measured by both protocols, mac and mls, with the same training")


def _less_luck(run: Measurement) -> float:
    return run.memorized - run.chance


def _interval_less_luck(run: Measurement) -> Interval | None:
    return scaled(run.interval, lambda count: count - run.chance)


def _told(name: str, group: Group) -> str:
    words = group.apart
    return f"{name} ({words})" if words else name


def _architecture(values: Sequence[int | str]) -> str:
    length, heads = values
    return f"{length} tokens, {of_heads(int(heads))}"


def _compared(
    runs: Sequence[Measurement],
    figure: str,
    title: str,
    varied: Collection[str],
    name: Named,
    caption: str,
    parameters: bool = False,
) -> list[Chart]:
    """Memorized against width, a line per choice, a panel per length and number of heads that has several choices."""
    charts = []
    for group in alike(runs, ARCHITECTURE | set(varied)):
        compared = [
            (architecture, members)
            for architecture, members in by(group.runs, seq_len, n_heads).items()
            if len({name(run) for run in members}) > 1
        ]
        if not compared:
            continue
        shown = [run for _, members in compared for run in members]
        axis = log_axis(WIDTH, map(d_model, shown))
        places = {choice: place for place, choice in enumerate(sorted({name(run) for run in shown}))}
        panels = []
        for architecture, members in compared:
            series = []
            for (choice,), line in by(members, name).items():
                series += measured(line, d_model, str(choice), places[str(choice)])
            series += limits(members, shown, d_model, ends_of(axis))
            panels.append(Panel(title=_architecture(architecture), x=axis, y=MEMORIZED, series=tuple(series)))
        if parameters:
            panels += _sizes([run for _, members in compared for run in members], name, places, axis)
        charts.append(
            Chart(
                name=figure,
                title=titled(f"{title}: memorized sequences against width", group),
                caption=f"{said_of_lines(group.runs, panels)} {caption}",
                panels=keys(panels),
                share_y=not parameters,
            )
        )
    return charts


def _sizes(runs: Sequence[Measurement], name: Named, places: dict[str, int], axis: Axis) -> list[Panel]:
    """Trainable parameters against width, a panel for each length and number of heads."""
    return [
        Panel(
            title=_architecture(architecture),
            x=axis,
            y=Axis(label="trainable parameters", log=10),
            series=tuple(
                part
                for (choice,), line in by(members, name).items()
                for part in measured(
                    line, d_model, str(choice), places[str(choice)], lambda run: run.parameters.trainable
                )
            ),
        )
        for architecture, members in by(runs, seq_len, n_heads).items()
    ]
