"""What is known of a model and its task when bounds are asked for: sizes, numbers of parameters, the architecture."""

from __future__ import annotations

from collections.abc import Mapping
from math import log2
from typing import Annotated, Any

from pydantic import Field

from capax.errors import SpecError, shown
from capax.models.size import associative_parameters, channel_parameters, transformer_parameters
from capax.results import Result
from capax.specs import Associations, AssociativeAttention, KeyQueryChannel, Model, Sequences, Task, Transformer
from capax.specs.spec import whole
from capax.tasks import graph_classes
from capax.theory.bounds.associations import n_parameters
from capax.theory.bounds.bound import LEAST, NO_GRAPH, NO_OUTPUTS, Unknown
from capax.theory.bounds.rates import gpt2_parameters
from capax.theory.bounds.transformers import madden_parameters

MEANINGFUL = {
    "tokens": ("seq_len", "vocab_size", "context_size", "n_items", "n_edges", "library_size"),
    "examples": ("context_size", "n_classes", "d_out", "n_items", "n_edges", "library_size"),
    "pairs": ("n_items", "n_edges"),
}
"""Sizes that bounds depend on, by what a model reads."""

WORTH = {"tokens": "vocab_size is not given", "examples": NO_OUTPUTS, "pairs": NO_GRAPH}
"""What bits per item depend on, by what a model reads."""


class Sizes(Result):
    """Sizes of the task that a model is for, as far as they are known."""

    seq_len: int | None = None
    vocab_size: int | None = None
    context_size: Annotated[int | None, Field(description="n; seq_len − 1 where nothing else is given.")] = None
    n_items: int | None = None
    n_edges: int | None = None
    library_size: int | None = None
    n_classes: int | None = None
    d_out: int | None = None
    graph_bits: Annotated[
        float | None, Field(description="log2 of how many graphs there are: with so many edges, or of the run's kind.")
    ] = None
    bits_per_item: Annotated[
        float | None, Field(description="log2 of how many answers an item could have; None for real labels.")
    ] = None


class ParameterCounts(Result):
    """Parameters as they are counted here and there; None where that depends on sizes that were not given."""

    trainable: Annotated[int | None, Field(description="Of the model, counted as its tensors are.")]
    total: int | None
    attention: Annotated[
        int | None, Field(description="Of one attention layer alone: H(2 d d_head + d d_value + d_value d_out).")
    ]
    madden2025: Annotated[
        int | None, Field(description="Of that paper's one-layer decoder with 4 d_model hidden units.")
    ] = None
    morris2025: Annotated[
        int | None,
        Field(description="Of a GPT-2 of this depth, width and vocabulary: 12 d² L + 13 d L + (V + S) d + 2 d."),
    ] = None


# What follows to the next line of this kind is to be answered by tasks and models themselves.


def reads(model: Model) -> str:
    """`model.reads`."""
    if isinstance(model, AssociativeAttention):
        return "examples"
    return "pairs" if isinstance(model, KeyQueryChannel) else "tokens"


def of_task(task: Task) -> Sizes:
    """The sizes of a task."""
    match task:
        case Sequences():
            tokens = 1 if task.recall == "last" else task.seq_len - 1
            return Sizes(
                seq_len=task.seq_len,
                vocab_size=task.vocab_size,
                context_size=task.seq_len - 1,
                library_size=task.library_size,
                bits_per_item=tokens * log2(task.vocab_size),
            )
        case Associations():
            classes = task.labels == "classes"
            return Sizes(
                context_size=task.context_size,
                library_size=task.library_size,
                n_classes=task.n_classes if classes else None,
                d_out=None if classes else task.d_out,
                bits_per_item=log2(task.n_classes) if classes else None,
            )
    assert task.n_items is not None
    n, edges = task.n_items, task.library_size
    match task.graph:
        case "permutation":
            graphs = graph_classes.derangements(n)
        case "tree":
            graphs = graph_classes.rooted_trees(n)
        case "regular":
            graphs = graph_classes.regular_digraphs(n, edges // n)
        case _:
            graphs = graph_classes.digraphs(n, edges)
    return Sizes(
        n_items=n, n_edges=edges, library_size=edges, graph_bits=graphs.bits, bits_per_item=graphs.bits / edges
    )


def parameter_counts(model: Model, **sizes: int) -> dict[str, int]:
    """`model.parameter_counts(**sizes)`."""
    if isinstance(model, Transformer):
        return transformer_parameters(model, sizes["vocab_size"], sizes["context"])
    if isinstance(model, AssociativeAttention):
        return associative_parameters(model, sizes["n_outputs"])
    if isinstance(model, KeyQueryChannel):
        if model.d_head is None:
            raise SpecError("d_head is not given")
        return channel_parameters(model)
    raise SpecError("the parameters of a user's module are known once it is built")


def architecture(model: Model, sizes: Sizes) -> dict[str, Any]:
    """What bounds may know of a model beside its numbers of parameters: its fields, and what they say of its layers."""
    fields = {name: getattr(model, name) for name in type(model).model_fields if name != "model"}
    if isinstance(model, Transformer):
        return fields | {
            "d_value": model.d_value or model.d_head,
            "d_out": model.d_model,
            "n_classes": sizes.vocab_size,
            "n_hidden": 4 * model.d_model if model.ffn == "mlp" else None,
        }
    if isinstance(model, AssociativeAttention):
        outputs = sizes.n_classes or sizes.d_out
        return fields | {
            "d_value": model.d_value if outputs is None else model.value_size(outputs),
            "d_out": outputs,
        }
    return fields if isinstance(model, KeyQueryChannel) else {}


# To here.


def checked(model: Model, given: Mapping[str, int]) -> Sizes:
    """The sizes that were given, and what follows from them.

    Raises:
        SpecError: for a size that is not allowed, or that means nothing for this model.
    """
    for name, size in given.items():
        if name not in MEANINGFUL[reads(model)]:
            raise SpecError(f"{name}: means nothing for a {type(model).__name__}, got {shown(size)}")
        whole(name, size, LEAST[name])
    if "n_classes" in given and "d_out" in given:
        raise SpecError(f"d_out: labels are classes or real numbers, got n_classes and d_out = {given['d_out']}")
    sizes: dict[str, Any] = dict(given)
    if "seq_len" in given:
        sizes.setdefault("context_size", given["seq_len"] - 1)
    if "n_items" in given and "n_edges" in given:
        sizes["graph_bits"] = graph_classes.digraphs(given["n_items"], given["n_edges"]).bits
    answers = given.get("vocab_size") or given.get("n_classes")
    if answers is not None:
        sizes["bits_per_item"] = log2(answers)
    elif reads(model) == "pairs" and "graph_bits" in sizes:
        sizes["bits_per_item"] = sizes["graph_bits"] / given["n_edges"]
    return Sizes(**sizes)


def facts(model: Model, sizes: Sizes, bits: int, **more: Any) -> dict[str, Any]:
    """All that bounds may ask for, by the names of their arguments.

    Args:
        model: the model.
        sizes: of its task.
        bits: of a weight.
        more: what a run says beside them.
    """
    of = reads(model)
    worth = "labels are real numbers" if sizes.d_out is not None else WORTH[of]
    trainable, total = _counted(model, of, sizes)
    known = (
        {"n_hidden": None}
        | sizes.model_dump()
        | {"bits_per_item": Unknown(worth) if sizes.bits_per_item is None else sizes.bits_per_item}
        | architecture(model, sizes)
        | {"reads": of, "trainable": trainable, "total": total, "bits": bits, "precision": None}
        | {"constants": 2, "shared_context": None}  # of a trained channel: a threshold and a scale
    )
    known["gpt2"] = _if_known(gpt2_parameters, known, "n_layers", "d_model", "vocab_size", "seq_len")
    return known | more


def parameters(known: Mapping[str, Any]) -> ParameterCounts:
    """The parameters of a model as they are counted here and there."""
    length = known["context_size"] if known["seq_len"] is None else known["seq_len"] - 1
    layer = ("n_heads", "d_model", "d_head", "d_value", "d_out")
    madden = ("vocab_size", "n_hidden", "d_model", "n_heads", "d_value", "d_head", "length")
    counts = {name: known[name] for name in ("trainable", "total")}
    return ParameterCounts(
        **{name: None if isinstance(count, Unknown) else count for name, count in counts.items()},
        attention=_if_known(n_parameters, known, *layer),
        madden2025=_if_known(madden_parameters, {**known, "length": length}, *madden),
        morris2025=known["gpt2"],
    )


def _if_known(count: Any, known: Mapping[str, Any], *names: str) -> int | None:
    values = [known.get(name) for name in names]
    return None if None in values else int(count(*values))


def _counted(model: Model, of: str, sizes: Sizes) -> tuple[int | Unknown, int | Unknown]:
    """Trainable and all parameters; known as well where they do not depend on the sizes that are not given."""
    context = sizes.context_size if sizes.seq_len is None else sizes.seq_len - 1
    needed = {
        "tokens": {"vocab_size": sizes.vocab_size, "context": context},
        "examples": {"n_outputs": sizes.n_classes or sizes.d_out},
        "pairs": {"n_items": sizes.n_items},
    }[of]
    missing = [
        {"context": "seq_len", "n_outputs": "n_classes or d_out"}.get(n, n) for n, s in needed.items() if s is None
    ]
    try:
        one, other = (
            parameter_counts(model, **{name: absent if size is None else size for name, size in needed.items()})
            for absent in (1, 2)
        )
    except SpecError as error:
        return Unknown(str(error)), Unknown(str(error))
    unknown = Unknown(f"the number of parameters depends on {' and '.join(missing)}, not given")
    trainable, total = (one[name] if one[name] == other[name] else unknown for name in ("trainable", "total"))
    return trainable, total
