"""`capax check assumptions`: do vectors satisfy what the memorization bound assumes?"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from rich.table import Table

from capax.checks.assumptions import AssumptionReport, Precision, check_assumptions
from capax.cli import output, progress
from capax.cli.flags import Json
from capax.errors import CapaxError, LibraryError
from capax.inputs import read_npy
from capax.specs.plugins import resolve


def assumptions(
    queries: Path | None = None,
    contexts: Path | None = None,
    /,
    *,
    hf: Path | None = None,
    text: Path | None = None,
    layer: int | None = None,
    query: Literal["first", "last"] | None = None,
    context_size: int | None = None,
    samples: int = 5000,
    seed: int = 0,
    precision: Precision | None = None,
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
    """
    if (hf is None) == (queries is None) or (hf is None) == (contexts is None):
        raise CapaxError("queries: two arrays (queries.npy contexts.npy), or --hf and --text")
    if (hf is None) != (text is None):
        raise CapaxError("text: needed with --hf, and only there")
    if hf is not None and text is not None:
        with progress.under_way():
            found = resolve("capax.checks.huggingface:check_blocks")(
                hf,
                text,
                layer=1 if layer is None else layer,
                query=query,
                context_size=context_size,
                precision=precision or "float32",
                samples=samples,
                seed=seed,
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
                *arrays, samples=samples, seed=seed, precision=precision, source=f"{queries}, {contexts}"
            )
    output.emit(found, _show, as_json=as_json)


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
    screen.print(
        "\nThe bound needs A1 and A2. Not refuted: sampling finds what is common, not what is rare. Examples count "
        "from 1."
    )
    for note in found.notes:
        screen.print(f"note: {note}")
