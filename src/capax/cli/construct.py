"""`capax construct`: weights that are built, not trained."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

if TYPE_CHECKING:
    from capax.checks.saturation import Saturation
    from capax.specs import Associations, AssociativeAttention
    from capax.tasks.association_files import Examples
    from capax.theory.construct.relation_report import RelationReport
    from capax.theory.construct.report import ConstructionReport

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
    from capax.errors import SpecError, printable
    from capax.seeds import numpy_generator
    from capax.specs import AssociativeAttention
    from capax.theory.construct.associations import construct
    from capax.theory.construct.matrices import check_matrices
    from capax.theory.construct.report import report

    if not 0 <= seed < 2**63:
        raise SpecError(f"seed: at least 0 and below 2^63, got {seed}")
    if save is not None:
        check_matrices(save)
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
        print(f"Weights: {printable(save)}")


@app.command
def relations(
    *,
    graph: str = "permutation",
    n_items: int | None = None,
    n_edges: int | None = None,
    degree: int | None = None,
    embeddings: str = "gaussian",
    strict: bool = False,
    d_model: int | None = None,
    method: Literal["whitened", "hebbian", "onehot"] = "whitened",
    n_heads: int | None = None,
    d_head: int | None = None,
    bits: int | None = None,
    seed: int = 0,
    save: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Weights of a key-query channel that recognize a graph: which ordered pairs of items are its edges.

    That D_K = O(m' log m' / d_model) is enough is Adler 2025's; the constructions are ours.

    Parameters
    ----------
    graph
        permutation, random, regular, power_law, tree; or a .graphml file, or a .csv of edges (source, target).
    n_items
        Items; with the user's files it follows from them.
    n_edges
        Edges of a random or power-law graph.
    degree
        Edges from and to each item of a regular graph.
    embeddings
        gaussian, onehot, low_coherence; or a .npy file of one vector an item.
    strict
        Refuse a file's vectors that are not of unit norm; else they are normalised.
    d_model
        Channels of an item's vector. [default: n_items for onehot items, those of the file, else 32]
    method
        whitened (pseudo-inverse), hebbian (outer products), or onehot (one head, one-hot items).
    n_heads
        Heads. [default: one for onehot, else as many as hold d_model/4 edges each]
    d_head
        Channels of a query and a key. [default: the smallest found to reach F1 .99]
    bits
        Of each weight, 1 to 8. [default: float64]
    seed
        Names all random draws; the same seed gives the same weights.
    save
        Where to write the weights (.safetensors).
    as_json
        Print one JSON object (docs/schemas/construction_relations.json).
    """
    from capax import machine
    from capax.errors import SpecError, printable
    from capax.seeds import numpy_generator
    from capax.specs import KeyQueryChannel, Relations
    from capax.tasks import graphs, relation_files
    from capax.tasks.embeddings import draw
    from capax.theory.construct.matrices import check_matrices
    from capax.theory.construct.relation_report import report
    from capax.theory.construct.relations import construct
    from capax.training.room import refuse_too_large_to_build

    if not 0 <= seed < 2**63:
        raise SpecError(f"seed: at least 0 and below 2^63, got {seed}")
    if save is not None:
        check_matrices(save)
    fields: dict[str, Any] = {"n_items": n_items, "n_edges": n_edges, "degree": degree, "strict": strict or None}
    given = {name: value for name, value in fields.items() if value is not None}
    task = Relations(graph=graph, embeddings=embeddings, **given)
    if d_model is None and embeddings == "onehot":
        d_model = task.n_items
    if d_model is None and (vectors := relation_files.load(task).vectors) is not None:
        d_model = vectors.shape[1]
    layer = KeyQueryChannel() if d_model is None else KeyQueryChannel(d_model=d_model)
    channel = KeyQueryChannel(n_heads=1 if n_heads is None else n_heads, d_model=layer.d_model, d_head=d_head)
    refuse_too_large_to_build(task, channel)
    library = numpy_generator(seed, "library")  # in this order, as for training: the same seed names the same library
    edges = graphs.draw(task, library)
    items = draw(task, layer.d_model, library)
    built = construct(
        edges,
        items,
        generator=numpy_generator(seed, "construction"),
        method=method,
        n_heads=n_heads,
        d_head=d_head,
        bits=bits,
    )
    if save is not None:
        built.weights.save(save)
    found = report(built, edges, items, task, method=method, bits=bits, seed=seed, versions=machine.versions())
    if as_json:
        print(found.model_dump_json())
        return
    _show_relations(found)
    if save is not None:
        print(f"Weights: {printable(save)}")


def _channels(library: Path) -> int:
    from capax.tasks import association_files

    return association_files.read(library).queries.shape[1]


def _examples(given: dict[str, Any], layer: AssociativeAttention, seed: int) -> tuple[Associations, Examples]:
    """The task with as many examples as the layer holds where none are given, and the examples."""
    from capax.seeds import numpy_generator
    from capax.specs import Associations
    from capax.tasks.associations import draw
    from capax.theory.construct.associations import check_size, largest_library
    from capax.training.room import refuse_too_large_to_build

    task = Associations(**given)
    sizes = (layer.n_heads, task.context_size, layer.d_model, layer.d_head)
    if task.library == "random" and "library_size" not in given:
        task = task.replace(library_size=largest_library(*sizes))
    check_size(task.library_size, *sizes)
    refuse_too_large_to_build(task, layer)
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


def _show_relations(found: RelationReport) -> None:
    from capax.cli.output import console

    screen = console()
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
