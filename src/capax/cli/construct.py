"""`capax construct`: weights that are built, not trained."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

if TYPE_CHECKING:
    from capax.specs import Associations, AssociativeAttention
    from capax.tasks.association_files import Examples
    from capax.theory.report import ConstructionReport
    from capax.theory.saturation import Saturation

app = App(name="construct", help="Build weights that memorize as much as theory says, without training.")


@app.command
def associations(
    *,
    n_heads: int = 1,
    context_size: int | None = None,
    d_model: int | None = None,
    d_head: int = 64,
    contexts: Literal["shared", "fresh"] | None = None,
    entries: Literal["uniform", "normal"] | None = None,
    labels: Literal["classes", "uniform", "normal"] | None = None,
    n_classes: int | None = None,
    d_out: int | None = None,
    library_size: int | None = None,
    library: Path | None = None,
    dtype: Literal["float64", "float32"] = "float64",
    seed: int = 0,
    save: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Weights of one attention layer that memorize T = H(min(n, d_head) − 1) + 1 associations exactly.

    The theorem is that of Mahdavi et al. 2024; the construction is ours.

    Parameters
    ----------
    n_heads
        Attention heads H.
    context_size
        Tokens n in a context, fewer than d_model. [default: 32]
    d_model
        Channels of a query and of a token. [default: 64]
    d_head
        Channels of a projected query and of a key.
    contexts
        One context for all examples, or one for each. [default: shared]
    entries
        Entries of the vectors: uniform in [0, 1), or standard normal. [default: uniform]
    labels
        A class each, or real numbers: uniform in [0, 1), or standard normal. [default: classes]
    n_classes
        Different classes; the layer gives their one-hot vectors. [default: 100]
    d_out
        Numbers in a real label. [default: 1]
    library_size
        Examples to memorize. [default: T]
    library
        The user's examples instead: a .safetensors file or a folder of .npy files with queries, contexts and labels.
    dtype
        Of the weights, and of what they are evaluated in.
    seed
        Names all random draws; the same seed gives the same weights.
    save
        Where to write the weights (.safetensors).
    as_json
        Print one JSON object (docs/schemas/construction.json).
    """
    from capax import machine
    from capax.errors import SpecError
    from capax.seeds import numpy_generator
    from capax.specs import AssociativeAttention
    from capax.theory.associations import construct
    from capax.theory.report import report

    if not 0 <= seed < 2**63:
        raise SpecError(f"seed: at least 0 and below 2^63, got {seed}")
    fields: dict[str, Any] = {
        "context_size": context_size,
        "contexts": contexts,
        "entries": entries,
        "labels": labels,
        "n_classes": n_classes,
        "d_out": d_out,
        "library_size": library_size,
        "library": None if library is None else str(library),
    }
    given = {name: value for name, value in fields.items() if value is not None}
    layer = AssociativeAttention(n_heads=n_heads, d_head=d_head)
    if d_model is not None:
        layer = layer.replace(d_model=d_model)
    elif library is not None:
        layer = layer.replace(d_model=_channels(library))
    task, examples = _examples(given, layer, seed)
    built = construct(
        examples,
        n_heads=n_heads,
        d_head=d_head,
        generator=numpy_generator(seed, "construction"),
        dtype=dtype,
        n_classes=task.n_classes if task.labels == "classes" else None,
    )
    if save is not None:
        built.weights.save(save)
    layer = layer.replace(d_value=built.weights.value.shape[2])
    found = report(built, task, layer, dtype, seed, machine.versions())
    if as_json:
        print(found.model_dump_json())
        return
    _show(found)
    if save is not None:
        print(f"Weights: {save}")


def _channels(library: Path) -> int:
    from capax.tasks import association_files

    return association_files.read(library).queries.shape[1]


def _examples(given: dict[str, Any], layer: AssociativeAttention, seed: int) -> tuple[Associations, Examples]:
    """The task with as many examples as the layer holds where none are given, and the examples."""
    from capax.seeds import numpy_generator
    from capax.specs import Associations
    from capax.tasks.associations import draw
    from capax.theory.associations import check_size, largest_library

    task = Associations(**given)
    sizes = (layer.n_heads, task.context_size, layer.d_model, layer.d_head)
    if task.library == "random" and "library_size" not in given:
        task = task.replace(library_size=largest_library(*sizes))
    check_size(task.library_size, *sizes)
    return task, draw(task, task.library_size, layer.d_model, numpy_generator(seed, "library"))


def _show(found: ConstructionReport) -> None:
    from capax.cli.output import console

    screen = console()
    task, layer = found.task, found.model
    tokens = f"{task.context_size} token{'s' * (task.context_size > 1)}"
    outputs = f"{task.n_classes} classes" if task.labels == "classes" else f"labels of {task.d_out}"
    screen.print(
        f"{layer.n_heads} head{'s' * (layer.n_heads > 1)} of {layer.d_head}, width {layer.d_model}, {task.contexts} "
        f"contexts of {tokens}, {outputs}; {found.parameters} parameters in {found.dtype}, "
        f"seed {found.seed}"
    )
    recalled = "" if found.recalled is None else f"; {found.recalled} of {found.library_size} arg-max right"
    rows = [
        ("examples", f"{found.library_size}; T = H(min(n, d_head) − 1) + 1 = {found.bound}"),
        ("largest error", f"{found.max_error:.2g} ({found.relative_error:.2g} of the largest label){recalled}"),
        ("condition number", f"{found.condition_number:.3g}"),
        (f"above {found.saturation.threshold:g}", "; ".join(_saturated(found.saturation))),
    ]
    if found.saturation.heads[0].own == min(task.context_size, layer.d_head):
        rows.append(("", "(head 1 has no rank to spare: as many examples of its own as min(n, d_head))"))
    for name, value in rows:
        screen.print(f"{name:18}{value}", soft_wrap=True)


def _saturated(found: Saturation) -> list[str]:
    """Heads with equal shares in one phrase."""
    phrases = []
    for (own, others), group in groupby(found.heads, lambda head: (head.own_share, head.others_share)):
        heads = [head.head for head in group]
        named = f"head {heads[0]}" if len(heads) == 1 else f"heads {heads[0]}–{heads[-1]}"
        shares = [f"{name} {share:.0%}" for name, share in (("own", own), ("others", others)) if share is not None]
        phrases.append(f"{named}: {', '.join(shares) or 'no examples'}")
    return phrases
