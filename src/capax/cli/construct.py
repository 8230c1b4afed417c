"""`capax construct`: weights that are built, not trained."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from capax.checks.saturation import Saturation
from capax.cli import output
from capax.cli.measure import GROUPS
from capax.errors import printable
from capax.specs import Associations, AssociativeAttention, KeyQueryChannel, Relations, Spec
from capax.theory.construct.construct import Constructed, construct
from capax.theory.construct.matrices import check_matrices
from capax.theory.construct.report import ConstructionReport, RelationReport

app = App(name="construct", help="Build weights that memorize as much as theory says, without training.")


def _field(spec: type[Spec], name: str, usual: str | None = None) -> Parameter:
    """A field of a task or model as a flag: its description, and its default where nothing else follows."""
    field = spec.model_fields[name]
    group = GROUPS["Model" if "model" in spec.model_fields else "Task"]
    return Parameter(help=f"{field.description} [default: {usual or field.default}]", group=group)


def _option(text: str, **more: Any) -> Parameter:
    return Parameter(help=text, group=GROUPS["Run"], **more)


Seed = Annotated[int, _option("Names all random draws; the same seed gives the same weights.")]
Save = Annotated[Path | None, _option("Where to write the weights (.safetensors).")]


@app.command
def associations(
    *,
    n_heads: Annotated[int | None, _field(AssociativeAttention, "n_heads")] = None,
    context_size: Annotated[int | None, _field(Associations, "context_size")] = None,
    d_model: Annotated[int | None, _field(AssociativeAttention, "d_model")] = None,
    d_head: Annotated[int | None, _field(AssociativeAttention, "d_head")] = None,
    contexts: Annotated[Literal["shared", "fresh"] | None, _field(Associations, "contexts")] = None,
    entries: Annotated[Literal["uniform", "normal"] | None, _field(Associations, "entries")] = None,
    labels: Annotated[Literal["classes", "uniform", "normal"] | None, _field(Associations, "labels")] = None,
    n_classes: Annotated[int | None, _field(Associations, "n_classes")] = None,
    d_out: Annotated[int | None, _field(Associations, "d_out")] = None,
    library_size: Annotated[int | None, _field(Associations, "library_size", "as many as the layer holds, T")] = None,
    library: Annotated[Path | None, _field(Associations, "library")] = None,
    dtype: Annotated[
        Literal["float64", "float32"], _option("Of the weights, and of what they are evaluated in.")
    ] = "float64",
    seed: Seed = 0,
    save: Save = None,
    as_json: Annotated[
        bool, _option("Print one JSON object (docs/schemas/construction.json).", name="--json", negative="")
    ] = False,
) -> None:
    """Weights of one attention layer that memorize T = H(min(n, d_head) − 1) + 1 associations exactly.

    The theorem is that of Mahdavi et al. 2024; the construction is ours.
    """
    task = _given(
        context_size=context_size,
        contexts=contexts,
        entries=entries,
        labels=labels,
        n_classes=n_classes,
        d_out=d_out,
        library_size=library_size,
        library=None if library is None else str(library),
    )
    model = _given(n_heads=n_heads, d_model=d_model, d_head=d_head)
    _check(save)
    built = construct(Associations(**task), AssociativeAttention(**model), seed=seed, dtype=dtype)
    _tell(built, save, as_json, _show)


@app.command
def relations(
    *,
    graph: Annotated[str, _field(Relations, "graph")] = "permutation",
    n_items: Annotated[int | None, _field(Relations, "n_items")] = None,
    n_edges: Annotated[int | None, _field(Relations, "n_edges")] = None,
    degree: Annotated[int | None, _field(Relations, "degree")] = None,
    embeddings: Annotated[str, _field(Relations, "embeddings")] = "gaussian",
    strict: Annotated[bool, _field(Relations, "strict")] = False,
    d_model: Annotated[
        int | None, _field(KeyQueryChannel, "d_model", "n_items for onehot items, those of the file, else 32")
    ] = None,
    method: Annotated[
        Literal["whitened", "hebbian", "onehot"],
        _option("whitened (pseudo-inverse), hebbian (outer products), or onehot (one head, one-hot items)."),
    ] = "whitened",
    n_heads: Annotated[
        int | None,
        _field(KeyQueryChannel, "n_heads", "one for onehot, else as many as hold d_model/4 edges each"),
    ] = None,
    d_head: Annotated[int | None, _field(KeyQueryChannel, "d_head", "the smallest found to reach F1 .99")] = None,
    bits: Annotated[int | None, _option("Of each weight, 1 to 8. [default: float64]")] = None,
    seed: Seed = 0,
    save: Save = None,
    as_json: Annotated[
        bool, _option("Print one JSON object (docs/schemas/construction_relations.json).", name="--json", negative="")
    ] = False,
) -> None:
    """Weights of a key-query channel that recognize a graph: which ordered pairs of items are its edges.

    That D_K = O(m' log m' / d_model) is enough is Adler 2025's; the constructions are ours.
    """
    task = _given(n_items=n_items, n_edges=n_edges, degree=degree, strict=strict or None)
    model = _given(d_model=d_model, n_heads=n_heads, d_head=d_head)
    _check(save)
    built = construct(
        Relations(graph=graph, embeddings=embeddings, **task),
        KeyQueryChannel(**model),
        seed=seed,
        method=method,
        bits=bits,
    )
    _tell(built, save, as_json, _show_relations)


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _check(save: Path | None) -> None:
    if save is not None:
        check_matrices(save)


def _tell(built: Constructed, save: Path | None, as_json: bool, show: Callable[[Any], None]) -> None:
    if save is not None:
        built.weights.save(save)
    if as_json:
        print(built.report.model_dump_json())
        return
    show(built.report)
    if save is not None:
        print(f"Weights: {printable(save)}")


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
