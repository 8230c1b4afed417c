"""`capax check`: do embeddings satisfy what the memorization bound assumes?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from capax.checks.assumptions import AssumptionReport


def check(
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
    precision: Literal["float32", "float64"] | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
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
        With --hf: the token that asks. [default: the first of an encoder, the last of a decoder]
    context_size
        With --hf: tokens to which every line is cut. [default: those of the shortest line]
    samples
        Subsets of queries to draw where there are too many to test all; a tenth of it for general position.
    seed
        Of the draws, and of random weights.
    precision
        In which ranks are judged. [default: the arrays' own; with --hf float32]
    as_json
        Print one JSON object (docs/schemas/check.json).
    """
    from capax.checks.assumptions import AssumptionReport, epsilon, represent, tolerance
    from capax.errors import CapaxError

    if (hf is None) == (queries is None) or (hf is None) == (contexts is None):
        raise CapaxError("check: two arrays (queries.npy contexts.npy), or --hf and --text")
    if (hf is None) != (text is None):
        raise CapaxError("text: needed with --hf, and only there")
    notes: tuple[str, ...] = ()
    if hf is None:
        from capax.tasks.association_files import load_array, pairs

        for name, value in (("layer", layer), ("query", query), ("context_size", context_size)):
            if value is not None:
                raise CapaxError(f"{name}: only with --hf")
        assert queries is not None
        assert contexts is not None
        arrays = [("given arrays", *pairs(load_array(queries, "queries"), load_array(contexts, "contexts")))]
        source = f"{queries}, {contexts}"
    else:
        from capax.checks.huggingface import read

        assert text is not None
        embedded = read(
            hf,
            text,
            layer=1 if layer is None else layer,
            query=query,
            context_size=context_size,
            precision=precision or "float32",
            seed=seed,
        )
        arrays, notes = [(one.name, one.queries, one.contexts) for one in embedded.representations], embedded.notes
        source = f"{hf}, {text}"
    _, asked, tokens = arrays[0]
    found = AssumptionReport(
        source=source,
        library_size=len(asked),
        context_size=tokens.shape[1],
        d_model=tokens.shape[2],
        contexts="shared" if len(tokens) == 1 else "fresh",
        samples=samples,
        seed=seed,
        tolerance=tolerance(epsilon(asked, tokens, precision)),
        representations=tuple(
            represent(name, *given, samples=samples, seed=seed, precision=precision) for name, *given in arrays
        ),
        notes=notes,
    )
    if as_json:
        print(found.model_dump_json())
    else:
        _show(found)


def _show(found: AssumptionReport) -> None:
    from rich.table import Table

    from capax.cli.output import console

    screen = console()
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
