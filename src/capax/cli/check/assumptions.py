"""`capax check assumptions`: do vectors satisfy what the memorization bound assumes?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from rich.table import Table

from capax.checks.assumptions import AssumptionReport, Precision, check_assumptions
from capax.cli import output, progress
from capax.cli.flags import Flag, Json
from capax.errors import CapaxError, LibraryError
from capax.figures.drawing import check_writable, draw
from capax.figures.independence import chart
from capax.inputs import read_npy
from capax.specs.plugins import resolve


def assumptions(
    queries: Path | None = None,
    contexts: Path | None = None,
    /,
    *,
    hf: Path | None = None,
    text: Path | None = None,
    images: Path | None = None,
    layer: int | None = None,
    query: Literal["first", "last"] | None = None,
    context_size: int | None = None,
    samples: int = 5000,
    seed: int = 0,
    precision: Precision | None = None,
    curve: Annotated[bool, Flag] = False,
    figure: Path | None = None,
    as_json: Json = False,
) -> None:
    """Check the assumptions of the memorization bound: on arrays, or block by block on a Hugging Face model.

    Parameters
    ----------
    queries
        A .npy array of T queries × d channels.
    contexts
        A .npy array of T contexts × n tokens × d channels, or n × d for one that all share; n < d.
    hf
        Instead of arrays: a folder with a model, or a config.json with random weights. Nothing is downloaded.
    text
        With --hf: a file of one sequence a line.
    images
        With --hf of a vision model: a folder of .png and .jpg files, or a .npy array of T images × channels × height ×
        width.
    layer
        With --hf: the block to look into. [default: 1]
    query
        With --hf: the token whose vector is the query. [default: the first of an encoder, the last of a decoder]
    context_size
        With --hf: tokens to which every line is cut. [default: those of the shortest line]
    samples
        Subsets of queries to draw where there are too many to test all; a tenth of that for general position.
    seed
        Names all random draws, those of random weights too.
    precision
        Precision in which ranks are computed. [default: the arrays' own; with --hf float32]
    curve
        Count independent subsets of k queries, too, for k from 1 to d: a tenth of --samples for each.
    figure
        Where to draw that curve (.png, .pdf or .svg).
    """
    if (hf is None) == (queries is None) or (hf is None) == (contexts is None):
        raise CapaxError("queries: two arrays (queries.npy contexts.npy), or --hf and --text (or --images)")
    if (hf is None) != (text is None and images is None):
        raise CapaxError("text: it or images is needed with --hf, and only there")
    if figure is not None:
        check_writable(figure, "figure")
    curve = curve or figure is not None
    if hf is not None:
        with progress.under_way():
            found = resolve("capax.checks.huggingface:check_blocks")(
                hf,
                text,
                images=images,
                layer=1 if layer is None else layer,
                query=query,
                context_size=context_size,
                precision=precision or "float32",
                samples=samples,
                seed=seed,
                curve=curve,
            )
    else:
        for name, value in (("layer", layer), ("query", query), ("context_size", context_size)):
            if value is not None:
                raise CapaxError(f"{name}: only with --hf")
        assert queries is not None
        assert contexts is not None
        arrays = read_npy(queries, "queries", LibraryError), read_npy(contexts, "contexts", LibraryError)
        with progress.under_way():
            found = check_assumptions(
                *arrays,
                samples=samples,
                seed=seed,
                precision=precision,
                curve=curve,
                source=f"{queries}, {contexts}",
            )
    if figure is not None:
        draw(chart(found), figure, "figure")
    output.emit(found, _show, as_json=as_json, figure=figure)


def _show(found: AssumptionReport) -> None:
    screen = output.console()
    kind = "a shared context" if found.contexts == "shared" else "contexts"
    screen.print(
        f"{found.library_size} queries and {kind} of {found.context_size} tokens in {found.d_model} channels; "
        f"{found.tolerance}",
    )
    for one in found.representations:
        table = Table(box=None, pad_edge=False, title=f"\n{one.name}", title_justify="left")
        for name in ("assumption", "", "verdict", "evidence"):
            table.add_column(name)
        for row in one.checks:
            table.add_row(row.assumption, row.statement, row.verdict, row.evidence)
        screen.print(table)
        if one.curve:
            points = ", ".join(f"{point.size}: {point.independent_share:.4g}" for point in one.curve)
            screen.print(f"share of independent subsets of k queries: {points}")
    screen.print(
        "\nThe bound needs A1 and A2. Not refuted: sampling finds what is common, not what is rare. Examples count "
        "from 1."
    )
    output.show_notes(found.notes)
