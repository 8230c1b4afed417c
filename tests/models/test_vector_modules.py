"""A user's modules of vectors: they learn associations and relations as our models do, and faults are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import capax
from capax.errors import CapaxError, SpecError
from capax.memory import AssociativeMemory, RelationMemory
from capax.models.module_traits import traits
from capax.specs import AssociationModule, Mls, RelationModule, Training
from capax.testing import trained
from capax.training.prepare import prepare

FRESH = capax.Associations(context_size=3, library_size=20, n_classes=4, contexts="fresh")
SHARED = FRESH.replace(contexts="shared")
REAL = capax.Associations(context_size=3, library_size=20, labels="normal", d_out=2, tolerance=0.5, contexts="fresh")
WHOLE = capax.Relations(graph="random", n_items=12, n_edges=20)
SUBSETS = WHOLE.replace(contexts="uniform", context_size=5)
EXACT = Training(precision="float64", lr=0.05, max_steps=12, eval_steps=4, batch_size=8)
HEADS: dict[str, int] = {"n_heads": 2, "d_model": 6, "d_head": 3}


def examples(name: str = "Layer", **arguments: Any) -> AssociationModule:
    return AssociationModule(factory=f"vectormodules:{name}", arguments=arguments)


def pairs(name: str = "Channel", **arguments: Any) -> RelationModule:
    return RelationModule(factory=f"vectormodules:{name}", arguments=arguments)


ALIKE = [
    (FRESH, examples(**HEADS), capax.AssociativeAttention(**HEADS)),
    (SHARED, examples(**HEADS), capax.AssociativeAttention(**HEADS)),
    (REAL, examples(**HEADS), capax.AssociativeAttention(**HEADS)),
    (WHOLE, pairs(**HEADS), capax.KeyQueryChannel(**HEADS)),
    (SUBSETS, pairs("Softmax", **HEADS), capax.KeyQueryChannel(channel="softmax", **HEADS)),
]


@pytest.mark.parametrize(("task", "module", "ours"), ALIKE, ids=["fresh", "shared", "real", "whole", "subsets"])
def test_our_model_as_a_module_is_trained_to_the_same_weights(task: Any, module: Any, ours: Any) -> None:
    """The definition in the user's hands, ours by its fast paths: losses, gradients and counts are the same."""
    found, expected = (prepare(trained.pack(task, model, EXACT, range(3))) for model in (module, ours))
    for _ in range(6):
        losses = [learner.step()[0] for learner in (found, expected)]
        torch.testing.assert_close(*losses, rtol=1e-10, atol=0)
    for name, tensor in expected.ensemble.trainable.items():
        torch.testing.assert_close(found.ensemble.parameters[name].view_as(tensor), tensor, rtol=1e-8, atol=1e-10)
    one, other = (learner.evaluate([0, 1, 2]) for learner in (found, expected))
    assert [each.memorized for each in one] == [each.memorized for each in other]
    assert found.ensemble.parameter_counts() == expected.ensemble.parameter_counts()


@pytest.mark.parametrize(
    ("task", "module"),
    [
        (FRESH, examples("Hard", **HEADS)),
        (SHARED, examples("Hard", **HEADS)),
        (WHOLE, pairs("HardPairs", **HEADS)),
        (SUBSETS, pairs("HardPairs", **HEADS)),
    ],
)
def test_modules_are_trained_in_train_mode_and_counted_in_eval_mode(task: Any, module: Any) -> None:
    """Else what has gradients in train mode alone would stay as it was."""
    learner = prepare(trained.pack(task, module, EXACT, range(2)))
    before = {name: tensor.clone() for name, tensor in learner.ensemble.trainable.items()}
    learner.step()
    assert learner.ensemble.template.training
    assert not torch.equal(learner.ensemble.trainable["query"], before["query"])
    learner.evaluate([0, 1])
    assert not learner.ensemble.template.training


@pytest.mark.slow
@pytest.mark.parametrize(("task", "module"), [(FRESH, ALIKE[0][1]), (WHOLE, ALIKE[3][1]), (SUBSETS, ALIKE[4][1])])
def test_a_member_is_the_same_bit_for_bit_in_any_pack(task: Any, module: Any) -> None:
    found = traits(module, task.sizes())
    assert found.together, found.computed
    assert trained.same_in_any_pack(task, module, EXACT.replace(precision="float32"))


@pytest.mark.very_slow
def test_a_search_for_the_key_dimension_ends_where_our_channels_does() -> None:
    """Modules of several head sizes are trained size by size, our channels together, padded."""
    protocol = capax.Budget(head_counts=(1, 2), restarts=2, max_trainings=8, target_f1=0.8)
    task, training = WHOLE.replace(n_items=8, n_edges=10), EXACT.replace(max_steps=60, lr=0.2)
    found, expected = (
        capax.measure(task, model, training, protocol=protocol)
        for model in (pairs(d_model=4), capax.KeyQueryChannel(d_model=4))
    )
    assert found.search is not None
    assert expected.search is not None
    assert found.search.per_heads == expected.search.per_heads
    assert found.search.total_key_dim == expected.search.total_key_dim
    assert found.parameters.trainable == expected.parameters.trainable
    assert found.search.built is None, "what a module can be built to hold is not known"


@pytest.mark.very_slow
def test_a_search_for_the_largest_library() -> None:
    training = EXACT.replace(precision="float32", max_steps=150, lr=0.02)
    found = capax.measure(SHARED, examples(**HEADS), training, protocol=Mls(max_trainings=40))
    assert found.interval is not None
    assert 1 <= found.memorized <= 20


@pytest.mark.parametrize(("task", "module"), [(FRESH, ALIKE[0][1]), (WHOLE, ALIKE[3][1]), (SUBSETS, ALIKE[4][1])])
def test_it_is_kept_loaded_and_listed(task: Any, module: Any, tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    run = capax.measure(task, module, EXACT, restarts=2, store=store, keep_weights=True)
    assert run.parameters.trainable == module.built_counts(**task.sizes())["trainable"]
    with pytest.raises(SpecError, match=r"trust: run [0-9a-f]{12} is of the module 'vectormodules:"):
        capax.load(run.key, store)
    memory: Any = capax.load(run.key, store, trust=True)
    if isinstance(memory, AssociativeMemory):
        assert int((memory.answers().argmax(1) == memory.library.labels).sum()) == run.memorized
        with pytest.raises(SpecError, match="whose heads are not known"):
            memory.attention()
    else:
        assert isinstance(memory, RelationMemory)
        assert int(((memory.outputs() > 0) & (memory.signs > 0)).sum()) == run.memorized
    (row,) = capax.read(store).to_dicts()
    assert (row["d_model"], row["n_heads"], row["d_head"]) == (6, 2, 3)
    assert row["model"] == module.model


@pytest.mark.parametrize(
    ("task", "module", "said"),
    [
        (FRESH, examples("Faulty", d_model=6, fault="shape"), r"should give scores \(2, 4\) to queries \(2, 6\) and"),
        (WHOLE, pairs("Faulty", d_model=6, fault="shape"), r"scores \(2, 12, 12\) to items \(2, 12, 6\), got"),
        (FRESH, examples("Faulty", d_model=6, fault="batch"), "depend on the others of its batch"),
        (WHOLE, pairs("Faulty", d_model=6, fault="batch"), "depend on the others of its batch"),
        (FRESH, examples("Faulty", d_model=6, fault="dropout"), "draws random numbers in training"),
        (
            WHOLE,
            pairs("Complex", d_model=6),
            "keeps complex numbers in 'turns': keep real and imaginary parts as an axis",
        ),
        (WHOLE, examples(**HEADS), "model: task 'relations' is learned by"),
        (WHOLE.replace(n_edges=None, graph="permutation", embeddings="onehot"), pairs(**HEADS), "d_model: one-hot"),
    ],
)
def test_faults_are_told(task: Any, module: Any, said: str) -> None:
    with pytest.raises(CapaxError, match=said):
        capax.measure(task, module, EXACT)


def test_members_with_buffers_of_their_own_do_not_begin_alike() -> None:
    found = traits(pairs("Features", d_model=6), WHOLE.sizes())
    assert not found.one_start


@pytest.mark.parametrize("width", [None, 0, 2.5, True, "8"])
def test_the_width_is_an_argument(width: Any) -> None:
    with pytest.raises(SpecError, match="arguments: d_model is required, the channels of a vector"):
        pairs(**({} if width is None else {"d_model": width}))


def test_heads_are_the_searchs() -> None:
    for arguments in ({"n_heads": 2}, {"d_head": 2}):
        with pytest.raises(SpecError, match="is what protocol 'budget' chooses, got 2"):
            capax.measure(WHOLE, pairs(d_model=6, **arguments), protocol="budget")
    with pytest.raises(SpecError, match="'mls' has no meaning for task 'relations'"):
        capax.measure(WHOLE, pairs(**HEADS), protocol="mls")
