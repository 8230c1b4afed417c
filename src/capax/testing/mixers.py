"""What every mixer does: its fast ways equal its definition."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from capax.models.ensemble import drawn, stacked
from capax.models.mixers.mixer import Inputs, Mixer
from capax.specs import Transformer
from capax.specs.model import Scored
from capax.specs.transformer import Norm
from capax.testing.trained import assert_same

TOLERANCE = 1e-10
MANY = 10**9
"""Sequences of a step with which every table pays."""


class MixerSuite:
    """Tests that every mixer passes, in float64.

    Attributes:
        models: small transformers of this mixer: of all the shapes that it computes in ways of their own.
        vocab_size: tokens; positions are `contexts` many.
    """

    models: tuple[Transformer, ...]
    vocab_size: int = 5
    contexts: tuple[int, ...] = (1, 6)

    def mixers(self, members: int = 2) -> list[Mixer]:
        """One of each model, with random weights and gains that require gradients."""
        return [mixer_of(model, members) for model in self.models]

    def test_every_query_equals_the_definition(self) -> None:
        for mixer in self.mixers():
            for context in self.contexts:
                x = random(2, 3, context, mixer.spec.d_model)
                compare(mixer, x, lambda x, mixer=mixer: mixer.all_queries(x), mixer.definition)

    def test_the_last_query_equals_the_definition(self) -> None:
        for mixer in self.mixers():
            for context in self.contexts:
                x = random(2, 3, context, mixer.spec.d_model)
                compare(mixer, x, mixer.last_query, lambda x, mixer=mixer: mixer.definition(x)[:, :, -1])

    @pytest.mark.parametrize("scored", ["all", "last"])
    @pytest.mark.parametrize("n_sequences", [1, MANY])
    @pytest.mark.parametrize("norm", ["layer", "rms", None])
    def test_what_sequences_share_equals_the_definition(
        self, scored: Scored, n_sequences: int, norm: Norm | None
    ) -> None:
        for mixer in self.mixers():
            for context in self.contexts:
                self.compare_shared(mixer, context, scored, n_sequences, norm)

    def compare_shared(self, mixer: Mixer, context: int, scored: Scored, n_sequences: int, norm: Norm | None) -> bool:
        """Compare what a mixer makes of the vocabulary's and the positions' rows with the definition.

        Returns:
            Whether it makes anything of them.
        """
        tables = random(2, self.vocab_size + context, mixer.spec.d_model)
        tokens = torch.randint(self.vocab_size, (2, 3, context), generator=torch.Generator().manual_seed(0))

        def inputs(tables: Tensor) -> Inputs:
            return Inputs(tables[:, : self.vocab_size], tables[:, self.vocab_size :], norm)

        def fast(tables: Tensor) -> Tensor | None:
            return mixer.from_shared(mixer.shared(inputs(tables), scored, n_sequences), tokens)

        def plain(tables: Tensor) -> Tensor:
            rows = inputs(tables).vectors()
            member, position = torch.arange(2)[:, None, None], torch.arange(context)
            found = mixer.definition(rows[member, position, tokens])
            return found if scored == "all" else found[:, :, -1:]

        if fast(tables) is None:
            return False
        compare(mixer, tables, fast, plain)
        return True

    @pytest.mark.parametrize("scored", ["all", "last"])
    def test_what_the_vocabulary_gives_equals_the_definition(self, scored: Scored) -> None:
        for mixer in self.mixers():
            for context in self.contexts:
                self.compare_rows(mixer, context, scored)

    def compare_rows(self, mixer: Mixer, context: int, scored: Scored) -> bool:
        """Compare what a mixer makes of inputs that are rows of the vocabulary with the definition.

        Returns:
            Whether it makes anything of them.
        """
        rows = random(2, self.vocab_size, mixer.spec.d_model)
        shape, generator = (2, 3, context), torch.Generator().manual_seed(0)
        tokens, member = torch.randint(self.vocab_size, shape, generator=generator), torch.arange(2)[:, None, None]

        def plain(rows: Tensor) -> Tensor:
            found = mixer.definition(rows[member, tokens])
            return found if scored == "all" else found[:, :, -1:]

        if mixer.from_rows(rows, tokens, scored) is None:
            return False
        compare(mixer, rows, lambda rows: mixer.from_rows(rows, tokens, scored), plain)
        return True

    def test_a_later_position_changes_no_earlier(self) -> None:
        for mixer in self.mixers():
            x = random(2, 3, 5, mixer.spec.d_model)
            for way in mixer.definition, mixer.all_queries:
                before = way(x)
                for position in range(1, 5):
                    changed = x.detach().clone()
                    changed[:, :, position] += 1
                    after = way(changed)
                    assert_same(after[:, :, :position], before[:, :, :position], TOLERANCE, f"before {position}")
                    assert not torch.equal(after[:, :, position], before[:, :, position])

    def test_a_member_changes_no_other(self) -> None:
        for mixer in self.mixers(3):
            x = random(3, 3, 5, mixer.spec.d_model)
            changed = x.detach().clone()
            changed[1] += 1
            for way in mixer.definition, mixer.all_queries, mixer.last_query:
                before, after = way(x), way(changed)
                assert torch.equal(before[[0, 2]], after[[0, 2]])
                assert not torch.equal(before[1], after[1])


def mixer_of(model: Transformer, members: int = 2, seed: int = 0) -> Mixer:
    """A mixer with random weights and gains that require gradients, in float64."""
    table = model.mixer_parameters()
    generators = [torch.Generator().manual_seed(seed + member) for member in range(members)]
    weights = stacked(table, [drawn(table, one) for one in generators], torch.float64, "cpu")
    for name, weight in weights.items():
        weights[name] = (weight.detach() + 0.3 * random(*weight.shape, seed=seed).detach()).requires_grad_()
    gain = 1 + 0.3 * random(members, model.d_model, seed=seed + 1).detach() if model.norms else None
    found: Mixer = model.mixer_type()(model, weights, None if gain is None else gain.requires_grad_())
    return found


def random(*shape: int, seed: int = 7) -> Tensor:
    """Normal numbers that require gradients."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


def compare(mixer: Mixer, x: Tensor, fast: Any, plain: Any) -> None:
    """One way and another: results, and gradients of inputs, weights and gain."""
    leaves = {"inputs": x, **mixer.weights} | ({} if mixer.gain is None else {"gain": mixer.gain})
    found, expected = fast(x), plain(x)
    assert_same(found, expected, TOLERANCE, f"{mixer.spec}")
    weight = random(*expected.shape, seed=9).detach()
    gradients = [
        torch.autograd.grad((result * weight).sum(), list(leaves.values()), allow_unused=True, materialize_grads=True)
        for result in (found, expected)
    ]
    for name, one, other in zip(leaves, *gradients, strict=True):
        assert_same(one, other, TOLERANCE, f"gradient of {name}, {mixer.spec}")
