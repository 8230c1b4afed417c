"""The facts that bounds depend on: sizes of the task, numbers of parameters, the architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log2
from typing import Annotated, Any

from pydantic import Field

from capax.errors import SpecError, shown
from capax.results import Result
from capax.specs import Model, Spec
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

COUNTS = ("trainable", "total")
SIZES = {"context": "seq_len", "n_outputs": "n_classes or d_out"}
"""What sizes that a model is built with are called where they are given."""

CONSTANTS = 2
"""Numbers that a trained channel has beside its matrices: threshold and scale."""

WORTH = {"tokens": "vocab_size is not given", "examples": NO_OUTPUTS, "pairs": NO_GRAPH}
"""What bits per item depend on, by what a model reads."""


class Sizes(Spec):
    """Sizes of the model's task, as far as they are known."""

    seq_len: Annotated[int | None, Field(description="Tokens in a sequence; the last one is the target.")] = None
    vocab_size: Annotated[int | None, Field(description="Different tokens.")] = None
    context_size: Annotated[
        int | None, Field(description="Tokens n in a context; seq_len − 1 where nothing else is given.")
    ] = None
    n_items: Annotated[int | None, Field(description="Items m of a graph of relations.")] = None
    n_edges: Annotated[int | None, Field(description="Edges m' of that graph.")] = None
    library_size: Annotated[
        int | None, Field(description="Items to memorize, for the accuracy that a capacity implies.")
    ] = None
    n_classes: Annotated[int | None, Field(description="Different classes, of associations.")] = None
    d_out: Annotated[int | None, Field(description="Numbers in a real label, of associations.")] = None
    graph_bits: Annotated[
        float | None, Field(description="log2 of how many graphs there are: with so many edges, or of the run's kind.")
    ] = None
    bits_per_item: Annotated[
        float | None, Field(description="log2 of how many answers an item could have; None for real labels.")
    ] = None


class ParameterCounts(Result):
    """Parameter counts by several definitions; None where a count depends on sizes that were not given."""

    trainable: Annotated[int | None, Field(description="Of the model, counted as its tensors are.")]
    total: int | None
    attention: Annotated[
        int | None,
        Field(
            description="Of one attention layer alone: H(2 d d_head + d d_value + d_value d_out) where each head has "
            "keys and values of its own, else as its tensors are."
        ),
    ]
    madden2025: Annotated[
        int | None,
        Field(
            description="Of that paper's one-layer decoder with 4 d_model hidden units; None where its heads are not "
            "the model's."
        ),
    ] = None
    morris2025: Annotated[
        int | None,
        Field(description="Of a GPT-2 of this depth, width and vocabulary: 12 d² L + 13 d L + (V + S) d + 2 d."),
    ] = None


def checked(model: Model, given: Mapping[str, int]) -> Sizes:
    """The sizes that were given, and what follows from them.

    Raises:
        SpecError: for a size that is not allowed, or that means nothing for this model.
    """
    for name, size in given.items():
        if name not in MEANINGFUL.get(model.reads, LEAST):
            raise SpecError(f"{name}: means nothing for model {model.model!r}, got {shown(size)}")
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
    elif model.reads == "pairs" and "graph_bits" in sizes:
        sizes["bits_per_item"] = sizes["graph_bits"] / given["n_edges"]
    return Sizes(**sizes)


def of_model(model: Model, sizes: Sizes) -> dict[str, int | None]:
    """What a model has to know of its task to be built (`Task.sizes`), as far as it is given."""
    context = sizes.context_size if sizes.seq_len is None else sizes.seq_len - 1
    known: dict[str, dict[str, int | None]] = {
        "tokens": {"vocab_size": sizes.vocab_size, "context": context},
        "examples": {"n_outputs": sizes.n_classes or sizes.d_out, "context_size": context, "n_contexts": 1},
        "pairs": {"n_items": sizes.n_items},
    }
    return known.get(model.reads, {})


def facts(model: Model, sizes: Sizes, bits: int, built: Mapping[str, int] | None = None, **more: Any) -> dict[str, Any]:
    """All facts that bounds may use, by the names of their arguments.

    Args:
        model: the model.
        sizes: of its task.
        bits: of a weight.
        built: what the model has to know to be built (`Task.sizes`). [default: as far as the sizes say it]
        more: what a run says beside them.
    """
    worth = "labels are real numbers" if sizes.d_out is not None else WORTH.get(model.reads, "it is not known")
    # Another attention may have been made by subclassing ours: then nothing is known of it but what it says itself.
    own = model.architecture(**sizes.model_dump()) if "architecture" in vars(type(model)) else {}
    known = (
        {"n_hidden": None, "precision": None, "shared_context": None, "constants": CONSTANTS}
        | sizes.model_dump()
        | {"bits_per_item": Unknown(worth) if sizes.bits_per_item is None else sizes.bits_per_item}
        | own
        | _counted(model, of_model(model, sizes) if built is None else built)
        | {"reads": model.reads, "bits": bits}
    )
    needed = ("n_layers", "d_model", "vocab_size", "seq_len")
    # Sizes that a library's config has are no architecture, and say of a GPT-2 all that is asked.
    of_gpt2: dict[str, Any] = {name: known.get(name) or getattr(model, name, None) for name in needed}
    missing = [name for name, size in of_gpt2.items() if size is None]
    unknown = Unknown(f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} not given")
    known["gpt2"] = unknown if missing else gpt2_parameters(*of_gpt2.values())
    return known | more


def parameters(known: Mapping[str, Any]) -> ParameterCounts:
    """The parameter counts of a model, by several definitions."""
    length = known["context_size"] if known["seq_len"] is None else known["seq_len"] - 1
    layer = ("n_heads", "d_model", "d_head", "d_value", "d_out")
    madden = ("vocab_size", "n_hidden", "d_model", "n_heads", "d_value", "d_head", "length")
    counts = {name: known[name] for name in COUNTS}
    formula = _if_known(n_parameters, known, *layer)
    attention = known.get("attention_parameters", formula)
    return ParameterCounts(
        **{name: None if isinstance(count, Unknown) else count for name, count in counts.items()},
        attention=attention,
        madden2025=_if_known(madden_parameters, {**known, "length": length}, *madden) if attention == formula else None,
        morris2025=None if isinstance(known["gpt2"], Unknown) else known["gpt2"],
    )


def _if_known(count: Callable[..., int], known: Mapping[str, Any], *names: str) -> int | None:
    values = [known.get(name) for name in names]
    return None if None in values else count(*values)


def _counted(model: Model, built: Mapping[str, int | None]) -> dict[str, int | Unknown]:
    """Trainable and all parameters; known as well where they do not depend on the sizes that are not given."""
    if model.uncounted is not None:
        return dict.fromkeys(COUNTS, Unknown(model.uncounted))
    sizes = {name: 1 if size is None else size for name, size in built.items()}
    missing = [name for name, size in built.items() if size is None]
    try:
        counts = model.parameter_counts(**sizes)
        others = {name: model.parameter_counts(**sizes | {name: 2}) for name in missing}
    except (SpecError, NotImplementedError):
        return dict.fromkeys(COUNTS, Unknown(f"the number of parameters of a {type(model).__name__} is not known"))
    found: dict[str, int | Unknown] = {}
    for count in COUNTS:
        needed = [SIZES.get(name, name) for name, other in others.items() if other[count] != counts[count]]
        unknown = Unknown(f"the number of parameters depends on {' and '.join(needed)}, not given")
        found[count] = unknown if needed else counts[count]
    return found
