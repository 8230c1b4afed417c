"""`capax construct`: weights that are built, not trained."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from capax.checks.saturation import Saturation
from capax.cli import output
from capax.cli.flags import GROUPS, Json, Part, command
from capax.specs import Associations, Model, Relations, Task
from capax.theory.construct.associations import Precision
from capax.theory.construct.construct import construct
from capax.theory.construct.matrices import check_matrices
from capax.theory.construct.relations import Method
from capax.theory.construct.report import ConstructionReport, RelationReport

app = App(name="construct", help="Build weights that memorize as much as theory says, without training.")

Seed = Annotated[int, Parameter(help="Names all random draws; the same seed gives the same weights.")]
Save = Annotated[
    Path | None,
    Parameter(
        help="Where to write the weights (.safetensors).",
        validator=lambda _, path: path and check_matrices(path),  # before the specs look into the user's files
    ),
]
SIZES = ("n_heads", "d_model", "d_head")


def _associations(
    task: Task,
    model: Model,
    *,
    dtype: Precision = "float64",
    seed: Seed = 0,
    save: Save = None,
    as_json: Json = False,
) -> None:
    """Build an attention layer that memorizes T = H(min(n, d_head) − 1) + 1 associations exactly.

    The theorem is that of Mahdavi et al. 2024; the construction is ours.

    Parameters
    ----------
    dtype
        Of the weights, and of what they are evaluated in.
    """
    _build(_show, task, model, save, as_json, seed=seed, dtype=dtype)


def _relations(
    task: Task,
    model: Model,
    *,
    method: Method = "whitened",
    bits: int | None = None,
    seed: Seed = 0,
    save: Save = None,
    as_json: Json = False,
) -> None:
    """Build a key-query channel that recognizes a graph: which ordered pairs of items are its edges.

    That D_K = O(m' log m' / d_model) is enough is Adler 2025's; the constructions are ours.

    Parameters
    ----------
    method
        whitened (pseudo-inverse), hebbian (outer products), or onehot (one head, one-hot items).
    bits
        Of each weight, 1 to 8. [default: float64]
    """
    _build(_show_relations, task, model, save, as_json, seed=seed, method=method, bits=bits)


def _build(
    show: Callable[[Any], None], task: Task, model: Model, save: Path | None, as_json: bool, **options: Any
) -> None:
    built = construct(task, model, **options)
    if save is not None:
        built.weights.save(save)
    output.emit(built.report, show, as_json=as_json, weights=save)


_ASSOCIATIONS = (
    Part("Task", {"": Associations}, usual={"library_size": "as many as the layer holds, T"}),
    Part("Model", {"": Associations.learner}, only=SIZES),
)
_RELATIONS = (
    Part("Task", {"": Relations}, only=("graph", "n_items", "n_edges", "degree", "embeddings", "strict")),
    Part(
        "Model",
        {"": Relations.learner},
        only=SIZES,
        usual={
            "d_model": "n_items for onehot items, those of the file, else 32",
            "n_heads": "one for onehot, else as many as hold d_model/4 edges each",
            "d_head": "the smallest found to reach F1 .99",
        },
    ),
)
app.command(command(_associations, *_ASSOCIATIONS), name=Associations.tag(), group_parameters=GROUPS["Run"])
app.command(command(_relations, *_RELATIONS), name=Relations.tag(), group_parameters=GROUPS["Run"])


def _show(found: ConstructionReport) -> None:
    screen = output.console()
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


def _show_relations(found: RelationReport) -> None:
    screen = output.console()
    precision = "float64" if found.bits is None else f"{found.bits} bit{'s' * (found.bits > 1)} a weight"
    screen.print(
        f"{found.task.items}, {found.task.library_size} edges, {found.task.embeddings} in {found.model.d_model} "
        f"channels; {found.method} weights, {precision}, seed {found.seed}",
        soft_wrap=True,
    )
    constant = "" if found.constant is None else f"; c = D_K d / (m' ln m') = {found.constant:.2f}"
    margin = "no non-edges" if found.margin is None else f"margin {found.margin:.3g}"
    heads = f"{found.n_heads} head{'s' * (found.n_heads > 1)}"
    rows = [
        ("total key dim", f"{found.total_key_dim} = {heads} of {found.d_head}{constant}"),
        ("F1", f"{found.f1:.4f} (precision {found.precision:.4f}, recall {found.recall:.4f})"),
        ("threshold", f"{found.threshold:.4g}, {margin}"),
        ("graphs", f"{'' if found.graphs.exact else 'at least '}{found.graphs.bits:.1f} bits ({found.graphs.formula})"),
    ]
    for bound in found.bounds:
        value = f"none: {bound.reason}" if bound.value is None else f"{bound.value:.4g} {bound.unit}"
        rows.append((f"{bound.name} ({bound.kind})", f"{value}; {bound.formula}"))
    for name, value in rows:
        screen.print(f"{name:31}{value}", soft_wrap=True, highlight=False)
    for note in found.notes:
        screen.print(note, soft_wrap=True)
