"""Relations (Adler 2025, arXiv 2509.22840)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from capax.specs.channel import KeyQueryChannel
from capax.specs.model import Model
from capax.specs.plugins import resolve
from capax.specs.protocols import Protocol
from capax.specs.spec import LARGEST_LIBRARY, filled_in, must_be_given
from capax.specs.task import Task
from capax.text import Over, counted

GRAPHS = ("permutation", "random", "regular", "power_law", "tree")
EMBEDDINGS = ("gaussian", "onehot", "low_coherence")
HF = "hf:"
"""What a folder of Hugging Face begins with, where embeddings are its tokens'."""

LARGEST_LOW_COHERENCE = 2048
"""Items whose vectors can be made of low coherence: the time grows as items² · channels."""

PAIRS = 6
"""Numbers held of each ordered pair of items while a graph is drawn: signs, weights, importance and their parts."""


class Relations(Task):
    """Recognize relations: of every ordered pair of items, whether it is an edge of a directed graph.

    Items are unit vectors of the model's `d_model` channels. A drawn graph has no self-loops; the user's must not
    either (a networkx graph becomes a file by `Relations.from_graph`). We do not
    know how the paper samples contexts; what holds for the whole graph, the default, holds in each (its lemma 4.1).
    """

    reads: ClassVar[str] = "pairs"
    learner: ClassVar = KeyQueryChannel
    unit: ClassVar[str] = "edges"
    metric: ClassVar[str] = "f1"
    loss_unit: ClassVar[str] = "nats (binary cross-entropy), summed over pairs by their importance"
    axes: ClassVar[tuple[str, ...]] = ("n_items", "n_edges")
    library_class: ClassVar[str] = "capax.tasks.relations:RelationLibrary"
    memory_class: ClassVar[str] = "capax.memory:RelationMemory"
    constructor: ClassVar[str | None] = "capax.theory.construct.constructors:CHANNEL"
    planner: ClassVar[str | None] = "capax.cli.plan_relations:plan"
    # The paper's training is not known; ours takes the whole graph in each step.
    usual_training: ClassVar[Mapping[str, Any]] = {
        "lr": 0.05,
        "beta2": 0.99,
        "schedule": "cosine",
        "warmup": 1 / 30,
        "batch_size": LARGEST_LIBRARY,
        "eval_steps": 50,
        "patience": None,
        "max_steps": 1500,
    }

    task: Literal["relations"] = "relations"
    graph: Annotated[
        str,
        Field(
            description="permutation (one target each, none its own), random (n_edges anywhere), regular (degree in "
            "and out), power_law (in-degrees), tree (every item but the root points to its parent); or a .graphml "
            "file, or a .csv of edges with columns source and target."
        ),
    ] = "permutation"
    n_items: Annotated[
        int | None, Field(ge=2, le=LARGEST_LIBRARY, description="Items; with the user's files it follows from those.")
    ] = None
    n_edges: Annotated[
        int | None,
        Field(ge=1, le=LARGEST_LIBRARY, description="Edges of a random or power-law graph; of the others it follows."),
    ] = None
    degree: Annotated[
        int | None, Field(ge=1, le=LARGEST_LIBRARY, description="Edges from and to each item of a regular graph.")
    ] = None
    embeddings: Annotated[
        str,
        Field(
            description="gaussian (unit norm), onehot (d_model = n_items), low_coherence (inner products made small), "
            "a .npy file of one vector an item, or hf:FOLDER: tokens of a Hugging Face model, drawn at random."
        ),
    ] = "gaussian"
    strict: Annotated[
        bool, Field(description="Refuse a file's vectors that are not of unit norm; else they are normalised.")
    ] = False
    contexts: Annotated[
        Literal["whole", "uniform", "targets"],
        Field(
            description="Pairs that are counted: of all items, of uniform subsets, or of subsets of half sources, a "
            "target of each, and others that fill them up."
        ),
    ] = "whole"
    context_size: Annotated[
        int | None, Field(ge=2, le=LARGEST_LIBRARY, description="Items in a context, where it is a subset.")
    ] = None
    library_sha256: Annotated[
        str | None,
        filled_in("Content of the user's files: filled in when they are read, checked when they are used."),
    ] = None

    @classmethod
    def of_size(cls, size: int, **fields: Any) -> Self:
        """Relations of so many edges: of the graph that is given where it can have them, else of a random one."""
        edges, graph = fields.get("n_edges") or size, fields.get("graph", "permutation")
        items = fields.get("n_items") or max(edges + (graph == "tree"), 2)
        degree = {"degree": edges // items} if graph == "regular" else {}
        follows = {"permutation": items, "tree": items - 1, "regular": items * (edges // items)}.get(graph, edges)
        shape = {"graph": graph, **degree} if follows == edges else {"graph": "random"}
        return cls(**{**fields, **shape, "n_items": items, "n_edges": edges})

    @classmethod
    def from_graph(cls, graph: Any, path: Path | str, **fields: Any) -> Self:
        """The relations of a directed networkx graph, written to a file: a run is known by its file.

        Args:
            graph: its nodes are the items, in its order; attributes are ignored.
            path: the file, ending in .graphml, that is written, or written anew.
            fields: of the task.

        Raises:
            LibraryError: for what is no such graph, or another path.
        """
        resolve("capax.tasks.relation_files:write_graph")(graph, Path(path))
        return cls(graph=str(path), **fields)

    @property
    def library_size(self) -> int:
        """Edges: the items to be recalled."""
        assert self.n_edges is not None
        return self.n_edges

    @property
    def library(self) -> str:
        """'random' where a graph is drawn, 'file' where it is the user's."""
        return "random" if self.graph in GRAPHS else "file"

    @property
    def files(self) -> tuple[str, ...]:
        """Fields that name the user's files."""
        known = {"graph": GRAPHS, "embeddings": EMBEDDINGS}
        return tuple(name for name, drawn in known.items() if getattr(self, name) not in drawn)

    @property
    def items(self) -> str:
        """What an item is, in a few words."""
        return f"{self.graph if self.library == 'random' else Path(self.graph).name}, {self.n_items} items"

    @property
    def drawn(self) -> bool:
        """Whether another seed draws another graph."""
        return self.library == "random"

    def words(self) -> str:
        """The task in a few words."""
        return f"{self.items}, {counted(self.library_size, 'edge')}"

    def described(self, over: Over, number: str) -> str:
        """What is to be remembered and when it counts as recalled, in a sentence."""
        drawn = f"a {self.graph.replace('_', '-')} graph"
        graph = drawn if self.library == "random" else self._user_file(self.graph)
        degree = f" of degree {over.listed('degree')}" if self.degree is not None else ""
        known = {"gaussian": "Gaussian", "onehot": "one-hot", "low_coherence": "low-coherence"}
        vectors = known.get(self.embeddings) or self._user_file(self.embeddings)
        if self.embeddings.startswith(HF):
            vectors += "'s token"
        pairs = {
            "whole": "all pairs of items are tested",
            "uniform": f"pairs in random contexts of {self.context_size} items are tested",
            "targets": f"pairs in contexts of {self.context_size} items, half of them sources with a target each, "
            "are tested",
        }
        return (
            f"{number} relations: edges of {graph}{degree} of {over.listed('n_items')} items ({vectors} vectors); "
            f"{pairs[self.contexts]}; an edge counts when its score is above the threshold"
        )

    def sizes(self) -> dict[str, int]:
        """`n_items`, and `context_size` where contexts are subsets."""
        assert self.n_items is not None
        subsets = {} if self.context_size is None else {"context_size": self.context_size}
        return {"n_items": self.n_items} | subsets

    def rows(self, library_size: int) -> int:
        """Items: each is the source of a row of pairs."""
        return self.sizes()["n_items"]

    def learned_rows(self, library_size: int, model: Model) -> int:
        """Items, or the contexts that are learned from."""
        if not self.within_contexts(model):
            return self.rows(library_size)
        found: int = resolve("capax.tasks.context_relations:learned_contexts")(self)
        return found

    def within_contexts(self, model: Model) -> bool:
        """Whether scores depend on contexts, which then are what is learned from, many at a time."""
        return self.contexts != "whole" and model.needs_context

    def usual_with(self, model: Model) -> Mapping[str, Any]:
        """Batches of contexts where scores depend on them (ours)."""
        return {"lr": 0.1, "batch_size": 64, "max_steps": 4000} if self.within_contexts(model) else {}

    def library_bytes(self, model: Model) -> int:
        """Bytes that one graph and its items' vectors take while they are drawn, at least."""
        items = self.sizes()["n_items"]
        return 8 * items * (PAIRS * items + int(getattr(model, "d_model", 0)))

    def guess_probability(self) -> None:
        """None: pairs are guessed, as many as the channel takes for edges."""

    def lucky(self, library_size: int, metrics: Mapping[str, float]) -> float:
        """Edges among as many pairs at random as the channel takes for edges."""
        items = self.sizes()["n_items"]
        return metrics["predicted_pairs"] * library_size / (items * (items - 1))

    def bits_recalled(self, recalled: float, above_chance: float, worth: float, metrics: Mapping[str, float]) -> float:
        """Of `graph_bits` the share by which what is taken for edges narrows down where so many edges lie."""
        missed, items = self.library_size - recalled, self.sizes()["n_items"]
        wrong = max(metrics["predicted_pairs"] - metrics["recalled"], 0.0)
        share: float = resolve("capax.tasks.graph_classes:narrowed")(items, recalled, missed, wrong)
        return self.graph_bits() * share

    def graph_bits(self) -> float:
        """log2 of how many graphs could have been drawn; power-law and the user's count as any of as many edges."""
        return float(resolve("capax.tasks.graph_classes:drawn_from")(self).bits)

    def least_graph_bits(self) -> float | None:
        """The largest b known such that no graph is drawn with a probability above 2^−b; None where none is."""
        bits: float | None = resolve("capax.tasks.graph_classes:least_bits")(self)
        return bits

    def bound_facts(self) -> dict[str, Any]:
        """Whether all pairs are counted."""
        return {"whole_graph": self.contexts == "whole"}

    def bound_sizes(self) -> dict[str, Any]:
        """`n_items`, `n_edges`, which are the library, and how many graphs there are."""
        bits = {"graph_bits": self.graph_bits(), "bits_per_item": self.bits_per_item()}
        sizes = {"n_items": self.sizes()["n_items"], "n_edges": self.library_size, "library_size": self.library_size}
        return sizes | bits

    def bits_per_item(self) -> float:
        """An edge's share of `graph_bits`."""
        return self.graph_bits() / self.library_size

    def refuse(self, model: Model, protocol: Protocol) -> None:
        """Refuse vectors that the model cannot read."""
        width = getattr(model, "d_model", None)
        if self.embeddings == "onehot" and width != self.n_items:
            raise ValueError(f"d_model: one-hot items need n_items = {self.n_items}, got {width}")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.library == "file" or self.embeddings not in EMBEDDINGS:
            if self.library_sha256 is None:
                must_be_given("library_sha256")
                self._describe_files()
        elif self.library_sha256 is not None:
            raise ValueError("library_sha256: only for the user's files, but all is drawn")
        if self.n_items is None:
            raise ValueError("n_items: is required, unless the graph or the embeddings are a file")
        self._count_edges(self.n_items)
        if self.strict and self.embeddings in EMBEDDINGS:
            raise ValueError(f"strict: only with embeddings of a file, got embeddings={self.embeddings!r}")
        if self.embeddings == "low_coherence" and self.n_items > LARGEST_LOW_COHERENCE:
            raise ValueError(f"n_items: at most {LARGEST_LOW_COHERENCE} with low_coherence, got {self.n_items}")
        if (self.contexts == "whole") != (self.context_size is None):
            needed = "only with contexts 'uniform' or 'targets'" if self.contexts == "whole" else "is required"
            raise ValueError(f"context_size: {needed}, got {self.context_size}")
        if self.context_size is not None and self.context_size > self.n_items:
            raise ValueError(f"context_size: at most n_items = {self.n_items}, got {self.context_size}")
        return self

    def _count_edges(self, n_items: int) -> None:
        """Fill in, or check, how many edges there are."""
        if (self.graph == "regular") != (self.degree is not None):
            needed = "is required" if self.graph == "regular" else "only for a regular graph"
            raise ValueError(f"degree: {needed}, got {self.degree}")
        if self.degree is not None and self.degree >= n_items:
            raise ValueError(f"degree: at most n_items - 1 = {n_items - 1}, got {self.degree}")
        known = {"permutation": n_items, "tree": n_items - 1, "regular": n_items * (self.degree or 0)}.get(self.graph)
        if known is not None:
            if self.n_edges not in (None, known):
                raise ValueError(f"n_edges: a {self.graph} graph of {n_items} items has {known}, got {self.n_edges}")
            object.__setattr__(self, "n_edges", known)
            self.model_fields_set.discard("n_edges")
        elif self.n_edges is None:
            raise ValueError(f"n_edges: is required for a {self.graph} graph")
        most = n_items * (n_items - 1)
        if self.library_size > min(most, LARGEST_LIBRARY):
            raise ValueError(
                f"n_edges: at most {min(most, LARGEST_LIBRARY)} (n_items {n_items}), got {self.library_size}"
            )

    def _describe_files(self) -> None:
        """Sizes and content hash of the user's files come from the files themselves."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        self.fill(**resolve("capax.tasks.relation_files:describe")(self.graph, self.embeddings, given))
        self.model_fields_set.discard("library_sha256")  # a copy with changes reads the files again
