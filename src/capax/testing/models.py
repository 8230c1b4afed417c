"""What every model does."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from capax import devices
from capax.specs import Mac, Model, Run, Task, Training
from capax.testing.specs import SpecSuite
from capax.testing.trained import assert_same, pack, same_in_any_pack
from capax.training import ensemble as steps
from capax.training.ensemble import Learner
from capax.training.prepare import PURPOSES, prepare


class ModelSuite(SpecSuite):
    """Tests that every model passes.

    Attributes:
        model: a small one.
        task: that it learns, of a dozen items or so.
        training: of a few steps.
    """

    model: Model
    task: Task
    training: Training = Training(max_epochs=3, lr=0.01)

    @property
    def spec(self) -> Model:
        """The model."""
        return self.model

    @property
    def run(self) -> Run:
        """A run of it."""
        return Run(task=self.task, model=self.model, training=self.training, protocol=Mac(restarts=2), seed=3)

    def learner(self, *members: int, training: Training | None = None) -> Learner:
        """Some members before their first step."""
        return prepare(pack(self.task, self.model, training or self.run.training, members))

    def test_tensors_are_those_of_the_table(self) -> None:
        ensemble = self.learner(0, 1).ensemble
        table = self.model.parameters(**self.task.sizes())
        members = {one.name: (2, *one.shape) for one in table if one.trained or not self.model.shares_frozen}
        assert members == {n: tuple(p.shape) for n, p in ensemble.parameters.items()}
        assert {one.name for one in table if one.trained} == ensemble.trainable.keys()
        assert self.model.parameter_counts(**self.task.sizes()) == ensemble.parameter_counts()

    def test_first_weights_are_a_members_own(self) -> None:
        alone, among = self.learner(2).ensemble, self.learner(0, 2, 1).ensemble
        for name, tensor in alone.parameters.items():
            assert torch.equal(tensor[0], among.parameters[name][1]), name
        if not among.one_start:
            assert any(not torch.equal(p[0], p[1]) for p in among.parameters.values())

    def test_activations_have_a_size(self) -> None:
        assert all(self.model.floats_per_row(self.task.sizes(), self.task.scored(purpose)) >= 1 for purpose in PURPOSES)

    def test_a_member_changes_no_other(self) -> None:
        """Not where its weights differ, and not where they are no numbers."""
        for change in 1.5, math.nan:
            kept = []
            for factor in 1.0, change:
                learner = self.learner(0, 1, 2)
                for parameter in learner.ensemble.parameters.values():
                    parameter.data[1] *= factor
                losses = [learner.step()[0][[0, 2]] for _ in range(2)]
                kept.append([*losses, *(p.detach()[[0, 2]] for p in learner.ensemble.parameters.values())])
            assert all(torch.equal(one, other) for one, other in zip(*kept, strict=True))

    def test_selected_members_are_what_they_were(self) -> None:
        learner = self.learner(0, 1, 2)
        chosen = learner.ensemble.select(torch.tensor([2, 0]))
        assert chosen.trainable.keys() == learner.ensemble.trainable.keys()
        for name, parameter in chosen.parameters.items():
            assert torch.equal(parameter, learner.ensemble.parameters[name][[2, 0]])
            parameter.data.zero_()
        assert any(p.any() for p in learner.ensemble.parameters.values())

    def test_micro_batches_change_nothing(self) -> None:
        """Losses and weights of a few steps, with batches whole and in parts of one row."""
        training = self.run.training.replace(precision="float64")
        found: list[dict[str, Tensor]] = []
        for floats in 10**9, 1:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(steps, "CACHE_FLOATS", floats)
                learner = self.learner(0, 1, training=training)
                losses = torch.stack([learner.step()[0] for _ in range(3)])
                found.append({"losses": losses} | {n: p.detach() for n, p in learner.ensemble.trainable.items()})
        for name, expected in found[0].items():
            assert_same(found[1][name], expected, 1e-8, name)

    def test_steps_lower_the_loss(self) -> None:
        learner = self.learner(0, 1)
        losses = [learner.step(0.003)[0] for _ in range(30)]
        assert (losses[-1] < losses[0]).all()

    def test_a_member_is_the_same_in_any_pack(self) -> None:
        if self.model.exact and devices.rounds_batches_alike():
            assert same_in_any_pack(self.task, self.model, self.run.training)
