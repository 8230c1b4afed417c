"""What every task does."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from capax import devices
from capax.protocols.measure import measure
from capax.results import Measurement
from capax.seeds import numpy_generator
from capax.specs import Mac, Model, Run, Task, Training
from capax.testing.specs import SpecSuite
from capax.testing.trained import pack, same_in_any_pack
from capax.training.prepare import prepare


class TaskSuite(SpecSuite):
    """Tests that every task passes.

    Attributes:
        task: a small one, of a dozen items or so.
        model: that learns it; the task's usual one when not given.
        training: of a few steps; the task's usual one for three epochs when not given.
    """

    task: Task
    model: Model | None = None
    training: Training = Training(max_epochs=3, lr=0.01)

    @property
    def spec(self) -> Task:
        """The task."""
        return self.task

    @property
    def run(self) -> Run:
        """A run of it."""
        model = self.model or self.task.learner()
        return Run(task=self.task, model=model, training=self.training, protocol=Mac(restarts=2), seed=3)

    def libraries(self, *seeds: int, padded_to: int | None = None) -> Any:
        """One library for each seed."""
        size = self.task.library_size
        generators = [numpy_generator(seed, "library") for seed in seeds]
        sizes = (size,) * len(seeds)
        return self.task.library_type().build(self.task, self.run.model, sizes, generators, padded_to=padded_to)

    def test_a_library_is_as_large_as_the_task_says(self) -> None:
        library = self.libraries(0, 1)
        assert library.sizes == (self.task.library_size,) * 2
        assert library.row_counts == (self.task.rows(self.task.library_size),) * 2
        learned = self.task.learned_rows(self.task.library_size, self.run.model)
        assert library.learned_counts == (learned,) * 2
        assert self.task.library_bytes(self.run.model) > 0

    def test_a_seed_draws_one_library_and_another_one_another(self) -> None:
        zero, again, one = (_tensors(self.libraries(seed)) for seed in (0, 0, 1))
        assert all(torch.equal(zero[name], again[name]) for name in zero)
        differs = any(zero[name].shape != one[name].shape or not torch.equal(zero[name], one[name]) for name in zero)
        assert differs or not self.task.drawn

    def test_selected_members_keep_their_libraries(self) -> None:
        whole, chosen = self.libraries(0, 1, 2), self.libraries(0, 1, 2).select([2, 0])
        rows = torch.arange(2).expand(3, 2)
        for mine, theirs in zip(_parts(chosen.batch(rows[:2])), _parts(whole.batch(rows)), strict=True):
            assert torch.equal(mine, theirs[[2, 0]])

    def test_a_library_of_twice_the_size_is_drawn_or_there_is_a_largest(self) -> None:
        if not self.task.drawn or "library_size" not in type(self.task).model_fields:
            return
        size = min(2 * self.task.library_size, self.task.largest_library)
        task = self.task.replace(library_size=size)
        library = task.library_type().build(task, self.run.model, (size,), [numpy_generator(0, "library")])
        assert library.row_counts == (task.rows(size),)

    def test_a_uniform_guess_has_the_information_of_an_item(self) -> None:
        if (nats := self.libraries(0).uniform_nats) is not None:
            assert math.isclose(nats, self.task.information_per_item() * math.log(2), rel_tol=1e-9)

    def test_tokens_are_of_the_vocabulary(self) -> None:
        if self.task.reads != "tokens":
            return
        sizes = self.task.sizes()
        tokens = self.libraries(0).tokens[0, : self.task.library_size]
        assert tokens.shape == (self.task.library_size, sizes["context"] + 1)
        assert tokens.min() >= 0
        assert tokens.max() < sizes["vocab_size"]

    def test_chance_is_a_probability(self) -> None:
        probability = self.task.guess_probability()
        if probability is None:
            return
        assert 0 < probability <= 1
        assert self.task.bits_per_item() >= 0
        assert self.task.information_per_item() >= 0
        assert 0 <= self.task.lucky(self.task.library_size, {}) <= self.task.library_size

    def test_chance_is_that_of_the_targets(self) -> None:
        """No more different targets than guesses there are, and the best constant answer recalls no fewer items."""
        probability, library = self.task.guess_probability(), self.libraries(0)
        if probability is None or not self.task.targets_drawn:
            return
        assert len(library.targets(0)) <= round(1 / probability)
        if (constant := library.constant(0)) is not None and library.targets(0):
            assert constant.recalled >= self.task.library_size * probability / 2

    def test_padding_changes_no_loss(self) -> None:
        rows = self.libraries(0, 1).rows
        learner = prepare(pack(self.task, self.run.model, self.run.training, (0, 1)))
        losses = []
        for library in self.libraries(0, 1), self.libraries(0, 1, padded_to=self.task.library_size + 3):
            weight = torch.zeros(2, library.rows)
            weight[:, :rows] = 1 / rows
            with torch.no_grad():
                shared = library.shared(learner.ensemble, "loss", rows)
                batch = library.batch(torch.arange(library.rows).expand(2, -1))
                losses.append(library.losses(library.outputs(learner.ensemble, batch, "loss", shared), batch, weight))
        torch.testing.assert_close(losses[0], losses[1], rtol=1e-5, atol=1e-6)

    def test_a_library_changes_no_other_member(self) -> None:
        learner = prepare(pack(self.task, self.run.model, self.run.training, (0, 1)))
        losses = []
        for seeds in (0, 1), (0, 2):
            library = self.libraries(*seeds)
            rows = torch.arange(library.rows).expand(2, -1)
            with torch.no_grad():
                shared = library.shared(learner.ensemble, "loss", library.rows)
                batch = library.batch(rows)
                outputs = library.outputs(learner.ensemble, batch, "loss", shared)
                losses.append(library.losses(outputs, batch, torch.full(rows.shape, 1 / library.rows)))
        assert losses[0][0] == losses[1][0]

    def test_a_member_is_the_same_in_any_pack(self) -> None:
        if self.run.model.exact and devices.rounds_batches_alike():
            for one_library in True, False:
                assert same_in_any_pack(self.task, self.run.model, self.run.training, one_library)

    def test_it_is_measured(self) -> None:
        run = self.run
        found = measure(run.task, run.model, run.training, restarts=2, seed=3, device="cpu")
        assert 0 <= found.memorized <= self.task.library_size
        assert Measurement.model_validate_json(found.model_dump_json()) == found


def _tensors(library: Any) -> dict[str, Tensor]:
    return {name: part for name, part in vars(library).items() if isinstance(part, Tensor)}


def _parts(batch: Any) -> list[Tensor]:
    """The tensors of a batch, whatever holds them."""
    if isinstance(batch, Tensor):
        return [batch]
    parts = batch if isinstance(batch, tuple) else vars(batch).values()
    return [part for part in parts if isinstance(part, Tensor)]
