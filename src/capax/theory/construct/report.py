"""What built weights reach: one JSON object, and in words."""

from __future__ import annotations

from itertools import groupby
from typing import Annotated, Literal

from pydantic import Field

from capax.checks.saturation import Saturation
from capax.results import Result
from capax.specs import Associations, AssociativeAttention, KeyQueryChannel, Relations
from capax.specs.model import heads
from capax.tasks.graph_classes import GraphClass
from capax.text import counted
from capax.theory.bounds.bound import Bound
from capax.theory.construct.associations import Precision
from capax.theory.construct.construct import Report
from capax.theory.construct.relations import Method


class ConstructionReport(Report):
    """Weights of one attention layer that were built, not trained, to memorize a library."""

    library_size: Annotated[int, Field(description="Examples in the library.")]
    bound: Annotated[int, Field(description="T = H(min(n, d_head) − 1) + 1, the most that the construction holds.")]
    max_error: Annotated[
        float, Field(description="Largest distance of an output from its label, in two orders of additions.")
    ]
    relative_error: Annotated[float, Field(description="The same over the largest absolute number of a label.")]
    recalled: Annotated[
        int, Field(description="Examples whose arg-max is their class, or with every number within the tolerance.")
    ]
    condition_number: Annotated[float, Field(description="Of the features on which the read-out is solved.")]
    saturation: Saturation
    parameters: Annotated[int, Field(description="H(2 d d_head + d d_value + d_value d_out).")]
    dtype: Precision
    seed: int
    task: Associations
    model: AssociativeAttention
    versions: dict[str, str]
    schema_version: Literal[1] = 1

    def lines(self) -> list[str]:
        """The report in words."""
        task, layer = self.task, self.model
        tokens = counted(task.context_size, "token")
        outputs = f"{task.n_classes} classes" if task.labels == "classes" else f"labels of {task.d_out}"
        how = "arg-max right" if task.labels == "classes" else f"within {task.tolerance:g}"
        recalled = f"; {self.recalled} of {self.library_size} {how}"
        rows = [
            ("examples", f"{self.library_size}; T = H(min(n, d_head) − 1) + 1 = {self.bound}"),
            ("largest error", f"{self.max_error:.2g} ({self.relative_error:.2g} of the largest label){recalled}"),
            ("condition number", f"{self.condition_number:.3g}"),
            (f"above {self.saturation.threshold:g}", "; ".join(_in_words(self.saturation))),
        ]
        if self.saturation.heads[0].own == min(task.context_size, layer.d_head):
            rows.append(("", "(head 1 has no rank to spare: as many examples of its own as min(n, d_head))"))
        return [
            f"{heads(layer)}, width {layer.d_model}, {task.contexts} contexts of {tokens}, {outputs}; "
            f"{self.parameters} parameters in {self.dtype}, seed {self.seed}",
            *(f"{name:18}{value}" for name, value in rows),
        ]


class HeadsTried(Result):
    """One number of heads that the search for the least total key dimension tried."""

    n_heads: int
    d_head: Annotated[int | None, Field(description="The smallest found to be enough; None where `limit` is not.")]
    limit: Annotated[int, Field(description="The largest that was of interest, given what was found before.")]


class RelationReport(Report):
    """Weights of a key-query channel that were built, not trained, to recognize a graph."""

    total_key_dim: Annotated[int, Field(description="D_K = n_heads · d_head.")]
    n_heads: int
    d_head: int
    reverse: Annotated[
        bool,
        Field(
            description="Whether the weights are those of the reversed graph, queries and keys exchanged: where a "
            "source has more edges than any target, they may be smaller."
        ),
    ] = False
    tried: Annotated[
        tuple[HeadsTried, ...],
        Field(
            description="Numbers of heads that were searched in that direction, in order; none where heads or their "
            "size were given."
        ),
    ] = ()
    f1: Annotated[float, Field(description="Over all ordered pairs of different items.")]
    precision: float
    recall: float
    margin: Annotated[
        float | None,
        Field(description="Smallest score of an edge minus the largest of a non-edge; None where there is none."),
    ]
    threshold: Annotated[float, Field(description="A pair whose score is above it counts as an edge.")]
    constant: Annotated[
        float | None, Field(description="c = D_K · d_model / (m' log2 m') for m' edges; None for a single edge.")
    ]
    method: Method
    bits: Annotated[int | None, Field(description="Of each weight; None: float64.")]
    graphs: Annotated[GraphClass, Field(description="The class of graphs that the bounds are about.")]
    bounds: tuple[Bound, ...]
    notes: tuple[str, ...]
    seed: int
    task: Relations
    model: KeyQueryChannel
    versions: dict[str, str]
    schema_version: Literal[1] = 1

    def lines(self) -> list[str]:
        """The report in words."""
        weights = "float64" if self.bits is None else f"{counted(self.bits, 'bit')} a weight"
        constant = "" if self.constant is None else f"; c = D_K d / (m' log2 m') = {self.constant:.2f}"
        margin = "no non-edges" if self.margin is None else f"margin {self.margin:.3g}"
        at_least = "" if self.graphs.exact else "at least "
        direction = " of the reversed graph, queries and keys exchanged" if self.reverse else ""
        rows = [
            ("total key dim", f"{self.total_key_dim} = {heads(self)}{constant}"),
            *((("heads tried", _tried(self.tried)),) if self.tried else ()),
            ("F1", f"{self.f1:.4f} (precision {self.precision:.4f}, recall {self.recall:.4f})"),
            ("threshold", f"{self.threshold:.4g}, {margin}"),
            ("graphs", f"{at_least}{self.graphs.bits:.1f} bits ({self.graphs.formula})"),
        ]
        for bound in self.bounds:
            value = f"none: {bound.reason}" if bound.value is None else f"{bound.value:.4g} {bound.unit}"
            rows.append((f"{bound.name} ({bound.kind})", f"{value}; {bound.formula}"))
        return [
            f"{self.task.words()}, {self.task.embeddings} in {self.model.d_model} channels; {self.method} weights"
            f"{direction}, {weights}, seed {self.seed}",
            *(f"{name:31}{value}" for name, value in rows),
            *self.notes,
        ]


def _tried(tried: tuple[HeadsTried, ...]) -> str:
    """Heads and their size: those that are enough, and those that are not."""
    enough = ", ".join(f"{one.n_heads} of {one.d_head}" for one in tried if one.d_head is not None)
    failed = ", ".join(f"{one.n_heads} of {one.limit}" for one in tried if one.d_head is None)
    return f"{enough}; not enough: {failed}" if failed else enough


def _in_words(saturation: Saturation) -> list[str]:
    """Heads with equal shares in one phrase."""
    phrases = []
    for (own, others), group in groupby(saturation.heads, lambda head: (head.own_share, head.others_share)):
        numbers = [head.head for head in group]
        named = f"head {numbers[0]}" if len(numbers) == 1 else f"heads {numbers[0]}–{numbers[-1]}"
        shares = [f"{name} {share:.0%}" for name, share in (("own", own), ("others", others)) if share is not None]
        phrases.append(f"{named}: {', '.join(shares) or 'no examples'}")
    return phrases
