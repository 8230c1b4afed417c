"""`capax plan`: a target in, architectures out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from capax.cli.numbers import integers

if TYPE_CHECKING:
    from capax.planning.associations import AssociationFrontier
    from capax.planning.plan import Frontier, Verification

Flag = Parameter(negative="")

app = App(name="plan", help="Choose an architecture that holds a target.")


@app.default
@app.command(name="sequences")
def sequences(
    *,
    sequences: int,
    seq_len: int,
    vocab_size: int | None = None,
    probability: float = 0.9,
    n_heads: str | None = None,
    n_layers: str | None = None,
    d_model: str | None = None,
    width_multiple: int = 8,
    max_parameters: int | None = None,
    precision: Literal["float32", "float64", "bfloat16"] = "float32",
    law: str = "reference",
    extrapolate: Annotated[bool, Flag] = False,
    verify: Annotated[bool, Flag] = False,
    seed: int = 0,
    workers: int | None = None,
    store: Path = Path("capax.db"),
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """The smallest architecture of each number of heads that holds so many sequences, smallest first.

    Parameters
    ----------
    sequences
        How many are to be memorized.
    seq_len
        Tokens in a sequence.
    vocab_size
        Different tokens. [default: the law's]
    probability
        With which a new measurement is to reach the target.
    n_heads
        Head counts to choose from: "1,2,4". [default: those of the law's domain]
    n_layers
        Depths to choose from. [default: those of the law's domain]
    d_model
        Widths to choose from. [default: multiples of the next in the law's domain]
    width_multiple
        What widths are multiples of.
    max_parameters
        Most trainable parameters.
    precision
        In which bytes are counted.
    law
        A file of `capax fit --out`; reference (reference:ecm, reference:bits), fitted to the study that ships with
        capax; or published:harma2024.
    extrapolate
        Go outside the domain of the law.
    verify
        Train the first architecture on a library of that size, and say whether it holds.
    seed
        Of the verification.
    workers
        Worker processes of the verification. [default: one per core, at most 8]
    store
        Where the verification's run is kept.
    as_json
        Print one JSON object (docs/schemas/plan.json).
    """
    from capax.laws.files import load_law
    from capax.planning.plan import plan

    found = load_law(law)
    frontier = plan(
        sequences,
        seq_len,
        vocab_size,
        found,
        probability=probability,
        n_heads=None if n_heads is None else integers("n_heads", n_heads),
        n_layers=None if n_layers is None else integers("n_layers", n_layers),
        d_model=None if d_model is None else integers("d_model", d_model),
        width_multiple=width_multiple,
        max_parameters=max_parameters,
        precision=precision,
        extrapolate=extrapolate,
    )
    if not as_json:
        _show(frontier)
    checked = None
    if verify:
        from capax import machine
        from capax.cli import output
        from capax.planning.verify import verify as train

        with output.progress_bar() as progress:
            processes = min(machine.cores(), 8) if workers is None else workers
            checked = train(frontier, found, store=store, seed=seed, workers=processes, progress=progress)
        if not as_json:
            _show_verification(checked)
    if as_json:
        print(frontier.model_copy(update={"verification": checked}).model_dump_json())


@app.command
def associations(
    *,
    associations: int,
    context_size: int,
    probability: float = 0.9,
    n_heads: str | None = None,
    d_model: str | None = None,
    d_head: str | None = None,
    size_multiple: int = 4,
    max_parameters: int | None = None,
    precision: Literal["float32", "float64", "bfloat16"] = "float32",
    law: str = "reference:association",
    extrapolate: Annotated[bool, Flag] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """The attention layers that hold so many associations, smallest first: of each width and head count one head size.

    Parameters
    ----------
    associations
        How many are to be memorized.
    context_size
        Tokens in a context.
    probability
        With which a new measurement is to reach the target.
    n_heads
        Head counts to choose from: "1,2,4". [default: those of the law's domain]
    d_model
        Widths to choose from. [default: multiples of 32 in the law's domain]
    d_head
        Head sizes to choose from. [default: multiples of the next in the law's domain]
    size_multiple
        What head sizes are multiples of.
    max_parameters
        Most trainable parameters.
    precision
        In which bytes are counted.
    law
        A file of `capax fit --law association --out`, or reference:association, fitted to the study that ships with
        capax.
    extrapolate
        Go outside the domain of the law.
    as_json
        Print one JSON object (docs/schemas/plan_associations.json).
    """
    from capax.planning.associations import plan_associations

    found = plan_associations(
        associations,
        context_size,
        law,
        probability=probability,
        n_heads=None if n_heads is None else integers("n_heads", n_heads),
        d_model=None if d_model is None else integers("d_model", d_model),
        d_head=None if d_head is None else integers("d_head", d_head),
        size_multiple=size_multiple,
        max_parameters=max_parameters,
        precision=precision,
        extrapolate=extrapolate,
    )
    if as_json:
        print(found.model_dump_json())
    else:
        _show_layers(found)


def _show_layers(found: AssociationFrontier) -> None:
    from capax.cli.output import console, show_lines

    screen = console()
    screen.print(
        f"{found.associations} associations in contexts of {found.context_size} tokens, with probability "
        f"{found.probability:.0%}; law: {found.law} ({found.source})"
    )
    if not found.layers:
        screen.print(f"No layer in the domain ({found.domain.in_words()}) holds them. The nearest:")
    rows = found.layers or tuple(filter(None, (found.nearest,)))
    shown = show_lines(
        {
            "heads": [str(row.n_heads) for row in rows],
            "width": [str(row.d_model) for row in rows],
            "head size": [str(row.d_head) for row in rows],
            "parameters": [str(row.trainable_parameters) for row in rows],
            "size": [_size(row.bytes) for row in rows],
            "expected": [f"{row.memorized:.0f}" for row in rows],
            "at least": [f"{row.at_least:.0f}" for row in rows],
            "+head": [_gain(row.gain_of_head) for row in rows],
            "+head size": [_gain(row.gain_of_head_size) for row in rows],
        },
        spare=("size",),
    )
    size = f"size: of all parameters as {found.precision}; " if "size" in shown else ""
    screen.print(
        f"{size}expected, at least: associations (the latter with {found.probability:.0%}); +head, +head size: "
        "associations per 1000 parameters that one more head or the next head size adds"
    )
    for note in found.notes:
        screen.print(f"note: {note}")


def _show(found: Frontier) -> None:
    from capax.cli.output import console, show_lines

    screen = console()
    screen.print(
        f"{found.sequences} sequences of {found.seq_len} tokens from {found.vocab_size}, with probability "
        f"{found.probability:.0%}; law: {found.law} ({found.source})"
    )
    shown = found.architectures or tuple(filter(None, (found.nearest,)))
    if not found.architectures:
        screen.print(f"No architecture in the domain ({found.domain.in_words()}) holds them. The nearest:")
    columns = show_lines(
        {
            "layers": [str(row.n_layers) for row in shown],
            "heads": [str(row.n_heads) for row in shown],
            "width": [str(row.d_model) for row in shown],
            "trainable": [str(row.trainable_parameters) for row in shown],
            "total": [str(row.total_parameters) for row in shown],
            "size": [_size(row.bytes) for row in shown],
            "expected": [f"{row.memorized:.0f}" for row in shown],
            "at least": [f"{row.at_least:.0f}" for row in shown],
            "tokens/par.": [f"{row.tokens_per_parameter:.3g}" for row in shown],
            "+head": [_gain(row.gain_of_head) for row in shown],
            "+width": [_gain(row.gain_of_width) for row in shown],
        },
        spare=("size", "total", "tokens/par."),
    )
    words = {
        "trainable": "trainable, total: parameters" if "total" in columns else "trainable: parameters",
        "size": f"size: of all of them as {found.precision}",
        "expected": f"expected, at least: sequences (the latter with {found.probability:.0%})",
        "+head": "+head, +width: sequences per 1000 trainable parameters that one more head or the next width adds",
    }
    screen.print("; ".join(text for name, text in words.items() if name in columns))
    for note in found.notes:
        screen.print(f"note: {note}")


def _gain(gain: float | None) -> str:
    return "–" if gain is None else f"{gain:.3g}"


def _size(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


def _show_verification(found: Verification) -> None:
    run = found.measurement
    what = f"{run.memorized} of {run.library_size} memorized"
    if found.held:
        print(f"Verified: it holds: {what} (run {run.key[:12]}).")
    else:
        print(f"Verified: it does not hold: {what}, a miss of {found.miss_percent:.1f} % (run {run.key[:12]}).")
