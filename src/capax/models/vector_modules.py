"""Ensembles of a user's modules that read vectors: of associations, and of relations.

Letters: e members, b examples, sources or contexts, n tokens or items of a context, m items, c channels (d_model),
o outputs.
"""

from __future__ import annotations

from typing import NoReturn

from jaxtyping import Float, Int
from torch import Tensor

from capax.errors import SpecError
from capax.models.module import Modules
from capax.models.operations import of_members


class ExampleModules(Modules):
    """Modules that read queries and contexts, as `AssociativeEnsemble` does."""

    def shared(
        self, n_examples: int, context_size: int, context: Float[Tensor, "g n c"] | None = None
    ) -> dict[str, Tensor]:
        """The context that all examples of a member have; nothing where each has its own."""
        return {} if context is None else {"context": context.expand(self.n_members, -1, -1)}

    def outputs(
        self,
        queries: Float[Tensor, "e b c"],
        contexts: Float[Tensor, "e b n c"] | None,
        shared: dict[str, Tensor],
        training: bool = False,
    ) -> Float[Tensor, "e b o"]:
        """Scores of the classes, or the numbers of a real label."""
        if contexts is None:
            contexts = shared["context"][:, None].expand(-1, queries.shape[1], -1, -1)
        queries, contexts = queries.expand(self.n_members, -1, -1), contexts.expand(self.n_members, -1, -1, -1)
        return self.asked(queries, contexts, training=training)

    def attention(self, *_: object) -> NoReturn:
        """Refuse: what a module's heads are is not known.

        Raises:
            SpecError: that says so.
        """
        raise SpecError(f"model: attention of heads that are known, got {self.spec.words()}, whose heads are not known")


class PairModules(Modules):
    """Modules that read the vectors of items, as `RoutingEnsemble` does."""

    def shared(self, items: Float[Tensor, "g m c"], training: bool = False) -> dict[str, Tensor]:
        """The scores of all pairs of the whole graph: every item is the context of every other."""
        every = items.expand(self.n_members, -1, -1)[:, None]
        return self._scale() | {"scores": self.asked(every, training=training)[:, 0]}

    def outputs(
        self, sources: Float[Tensor, "e b c"], rows: Int[Tensor, "e b"], shared: dict[str, Tensor]
    ) -> Float[Tensor, "e b m"]:
        """Scores of the sources at `rows` and every item: an edge where they are above zero."""
        scores = shared["scores"]
        return scores.gather(1, rows[:, :, None].expand(-1, -1, scores.shape[2]))

    def shared_by_contexts(self, items: Float[Tensor, "e m c"], n_read: int) -> dict[str, Tensor]:
        """The scale of scores."""
        return self._scale()

    def _scale(self) -> dict[str, Tensor]:
        """The scale of scores: they are counted as they are."""
        first = next(one for one in self.parameters.values() if one.is_floating_point())
        return {"scale": first.new_ones(self.n_members, 1)}

    def outputs_in_contexts(
        self,
        items: Float[Tensor, "e m c"],
        chosen: Int[Tensor, "e b n"],
        shared: dict[str, Tensor],
        training: bool = False,
    ) -> Float[Tensor, "e b n n"]:
        """Scores of each ordered pair of items of each context."""
        return self.asked(of_members(items, chosen), training=training)
