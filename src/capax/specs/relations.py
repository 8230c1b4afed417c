"""Relations and the key-query channel that learns them (Adler 2025, arXiv 2509.22840)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from capax.specs.spec import LARGEST_LIBRARY, LARGEST_SIZE, Size, Spec, must_be_given

GRAPHS = ("permutation", "random", "regular", "power_law", "tree")
EMBEDDINGS = ("gaussian", "onehot", "low_coherence")

LARGEST_LOW_COHERENCE = 2048
"""Items whose vectors can be made of low coherence: the time grows as items² · channels."""


class Relations(Spec):
    """Recognize relations: of every ordered pair of items, whether it is an edge of a directed graph.

    Items are unit vectors of the model's `d_model` channels. A drawn graph has no self-loops; the user's must not
    either (a networkx graph becomes a file by `networkx.write_graphml(graph, path)`). We do not
    know how the paper samples contexts; what holds for the whole graph, the default, holds in each (its lemma 4.1).
    """

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
        int | None, Field(ge=2, le=LARGEST_LIBRARY, description="Items; with the user's files it follows from them.")
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
            "or a .npy file of one vector an item."
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
        Field(description="Content of the user's files: filled in when they are read, checked when they are used."),
    ] = None

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
        from capax.tasks.relation_files import describe

        given = {name: getattr(self, name) for name in self.model_fields_set}
        for name, value in describe(self.graph, self.embeddings, given).items():
            object.__setattr__(self, name, value)
            self.model_fields_set.add(name)
        self.model_fields_set.discard("library_sha256")  # a copy with changes reads the files again


class KeyQueryChannel(Spec):
    """The key-query channel: per head the score of a pair is (x_i W_Q)(x_j W_K)ᵀ; a pair is an edge above a threshold.

    Scores of the heads are joined by their maximum (the paper's), or added up; threshold and scale are learned, too.
    `softmax` normalises each head's scores over the context, adds up the values that the heads route, and compares
    that with every item; `block` is a whole transformer block on the given vectors. The paper's third version has
    such channels, but its designs are not known to us: these are ours (see `capax.models.routing`). Their values, and
    the block's MLP, store relations as well, so less key dimension is enough.
    """

    model: Literal["key_query_channel"] = "key_query_channel"
    n_heads: Annotated[Size, Field(description="Heads.")] = 1
    d_model: Annotated[Size, Field(description="Channels of an item's vector.")] = 32
    d_head: Annotated[
        int | None,
        Field(ge=1, le=LARGEST_SIZE, description="Channels of a query and a key; the budget protocol searches for it."),
    ] = None
    aggregate: Annotated[
        Literal["max", "sum"],
        Field(description="How heads are joined (the paper's: max); softmax and block always sum what they route."),
    ] = "max"
    channel: Annotated[
        Literal["threshold", "softmax", "block"],
        Field(description="What the scores are for: a threshold, attention that routes values, or a whole block."),
    ] = "threshold"

    @model_validator(mode="after")
    def _sums(self) -> Self:
        """What is routed is added up, and nothing else can be asked for."""
        if self.channel != "threshold" and self.aggregate == "max":
            if "aggregate" in self.model_fields_set:
                raise ValueError(f"aggregate: channel {self.channel!r} adds its heads up ('sum'), got 'max'")
            object.__setattr__(self, "aggregate", "sum")
        return self

    @property
    def total_key_dim(self) -> int | None:
        """n_heads · d_head, where a head size is given."""
        return None if self.d_head is None else self.n_heads * self.d_head
