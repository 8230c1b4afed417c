"""Libraries of associations: what is drawn, what a batch is, what counts as recalled; and the user's arrays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from capax.errors import CapaxError, LibraryError
from capax.specs import Associations, AssociativeAttention, Mac, Run, Training
from capax.specs.papers import as_in
from capax.tasks.association_files import checked, constant_share, read
from capax.tasks.associations import AssociationLibrary, draw


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# drawing


@pytest.mark.parametrize(("contexts", "kept"), [("shared", 1), ("fresh", 200), ("bag", 200)])
@pytest.mark.parametrize("entries", ["uniform", "normal"])
def test_entries_are_as_asked(contexts: Any, kept: int, entries: Any) -> None:
    spec = Associations(context_size=7, library_size=200, contexts=contexts, entries=entries)
    examples = draw(spec, 200, 11, rng())
    assert examples.queries.shape == (200, 11)
    assert examples.contexts.shape == (kept, 7, 11)
    mean, spread = (0.5, 1 / np.sqrt(12)) if entries == "uniform" else (0.0, 1.0)
    for array in (examples.queries, examples.contexts) if contexts == "fresh" else (examples.queries,):
        assert abs(array.mean() - mean) < 5 * spread / np.sqrt(array.size)
        assert abs(array.std() - spread) < 0.05 * spread
        if entries == "uniform":
            assert array.min() >= 0
            assert array.max() < 1


def test_contexts_of_a_bag_are_different_tokens_of_it() -> None:
    examples = draw(Associations(context_size=4, library_size=300, contexts="bag", bag_size=6), 300, 5, rng())
    tokens = np.unique(examples.contexts.reshape(-1, 5), axis=0)
    assert len(tokens) == 6
    assert all(len(np.unique(context, axis=0)) == 4 for context in examples.contexts)
    assert len(np.unique(examples.contexts.reshape(300, -1), axis=0)) > 150  # of 360 orders


@pytest.mark.parametrize(
    ("labels", "share"), [("classes", 1 / 10), ("uniform", 0.1), ("normal", 0.0399)], ids=lambda value: str(value)
)
def test_labels_and_chance_agree(labels: Any, share: float) -> None:
    """The best constant guess recalls the share that is stated as chance."""
    spec = Associations(labels=labels, library_size=200_000, **({"n_classes": 10} if labels == "classes" else {}))
    assert spec.guess_probability() == pytest.approx(share, abs=1e-4)
    assert spec.bits_per_item() == pytest.approx(-np.log2(spec.guess_probability()))
    drawn = draw(spec.replace(context_size=1), 200_000, 1, rng()).labels
    constant = {"classes": 3, "uniform": 0.4, "normal": 0.0}[labels]
    hits = np.abs(drawn - constant) <= (0 if labels == "classes" else spec.tolerance)
    assert hits.mean() == pytest.approx(share, abs=0.004)


def test_the_best_constant_of_given_labels() -> None:
    labels = np.array([[0.0], [0.05], [0.1], [1.0], [5.0]])
    assert constant_share(labels, 0.05) == 3 / 5
    assert constant_share(np.hstack([labels, labels[::-1]]), 0.05) == 1 / 5
    assert constant_share(np.zeros((4, 2)), 0.1) == 1


def test_a_label_may_be_the_best_constant_where_windows_of_numbers_share_no_row() -> None:
    """Each number is 0 most often, but never both at once."""
    apart = 10 + np.arange(40.0)
    first, second = np.zeros((40, 2)), np.zeros((40, 2))
    first[:, 1], second[:, 0] = apart, apart
    labels = np.concatenate([first, second, np.full((20, 2), 9.0)])
    assert constant_share(labels, 0.1) == 20 / 100


# batches and recall


def library(spec: Associations, sizes: tuple[int, ...], one: bool = False, d_model: int = 3) -> AssociationLibrary:
    generators = [rng(seed) for seed in range(1 if one else len(sizes))]
    return AssociationLibrary.build(
        spec, AssociativeAttention(d_model=d_model), sizes, generators, dtype=torch.float64, padded_to=max(sizes)
    )


@pytest.mark.parametrize("contexts", ["shared", "fresh", "bag"])
@pytest.mark.parametrize("one", [True, False])
def test_a_batch_holds_each_members_own_rows(contexts: Any, one: bool) -> None:
    spec = Associations(context_size=2, library_size=9, contexts=contexts)
    sizes = (9, 9) if one else (9, 4)
    found = library(spec, sizes, one)
    rows = torch.tensor([[0, 3, 1], [2, 2, 0]])
    batch = found.batch(rows)
    for member in range(2):
        own = draw(spec, sizes[member], 3, rng(0 if one else member))
        assert np.array_equal(batch.queries[member], own.queries[rows[member]])
        assert np.array_equal(batch.labels[member], own.labels[rows[member]])
        if contexts == "shared":
            assert batch.contexts is None
            assert np.array_equal(found.contexts[0 if one else member, 0], own.contexts[0])
        else:
            assert batch.contexts is not None
            assert np.array_equal(batch.contexts[member], own.contexts[rows[member]])
    assert np.array_equal(found.select([1]).batch(rows[1:]).queries, batch.queries[1:])


@pytest.mark.parametrize("labels", ["uniform", "normal"])
def test_the_loss_of_an_answer_of_zero(labels: Any) -> None:
    """Against which a training is told to diverge: untrained layers answer about zero."""
    spec = Associations(context_size=2, library_size=4000, labels=labels, d_out=3)
    found = library(spec, (4000,))
    batch = found.batch(torch.arange(4000)[None])
    weight = torch.full((1, 4000), 1 / 4000, dtype=torch.float64)
    assert found.losses(0 * batch.labels, batch, weight).item() == pytest.approx(found.uniform_loss, rel=0.03)
    assert found.uniform_loss_of(0) == found.uniform_loss


def test_losses_and_recall_by_hand() -> None:
    spec = Associations(context_size=2, library_size=3, labels="uniform", d_out=2, tolerance=0.1)
    found = library(spec, (3,))
    batch = found.batch(torch.arange(3)[None])
    outputs = batch.labels + torch.tensor([[[0.0, 0.0], [0.05, -0.099], [0.2, 0.0]]])
    assert found.recalled(outputs, batch).tolist() == [[True, True, False]]
    weight = torch.tensor([[0.5, 0.25, 1.0]], dtype=torch.float64)
    expected = 0.25 * (0.05**2 + 0.099**2) / 2 + 0.2**2 / 2
    assert found.losses(outputs, batch, weight).item() == pytest.approx(expected)
    rows = {name: values[0] for name, values in found.row_metrics(outputs, batch).items()}
    evaluation = found.evaluation(0, 2, rows)
    assert not evaluation.complete
    metrics = evaluation.metrics
    assert metrics["largest_error"] == pytest.approx(0.2)
    assert metrics["mean_squared_error"] == pytest.approx((0.05**2 + 0.099**2 + 0.2**2) / 6)
    classes = library(Associations(context_size=2, library_size=3, n_classes=4), (3,))
    batch = classes.batch(torch.arange(3)[None])
    right = torch.nn.functional.one_hot(batch.labels, 4).double()
    assert classes.recalled(right, batch).all()
    assert not classes.recalled(-right, batch).any()
    assert classes.losses(0 * right, batch, torch.full((1, 3), 1 / 3)).item() == pytest.approx(classes.uniform_loss)


# the user's arrays


def write(folder: Path, queries: Any, contexts: Any, labels: Any, kind: str) -> Path:
    arrays = {"queries": np.array(queries), "contexts": np.array(contexts), "labels": np.array(labels)}
    if kind == "safetensors":
        save_file(arrays, folder / "given.safetensors")
        return folder / "given.safetensors"
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder


EYE = np.eye(4)


@pytest.mark.parametrize("kind", ["npy", "safetensors"])
def test_arrays_say_what_they_are(tmp_path: Path, kind: str) -> None:
    fresh = write(tmp_path, EYE, rng().random((4, 3, 4)), rng().random((4, 2)), kind)
    spec = Associations(library=str(fresh))
    assert (spec.library_size, spec.context_size, spec.contexts) == (4, 3, "fresh")
    assert (spec.labels, spec.d_out, spec.entries) == ("given", 2, "given")
    again = Associations.model_validate_json(spec.model_dump_json())
    assert again == spec
    examples = draw(again, 4, 4, rng())
    assert np.array_equal(examples.queries, EYE)
    shared = write(tmp_path, EYE, rng().random((3, 4)), [0, 2, 1, 2], kind)
    spec = Associations(library=str(shared))
    assert (spec.contexts, spec.labels, spec.n_classes) == ("shared", "classes", 3)
    with pytest.raises(LibraryError, match=r"^library: .*changed"):
        draw(again, 4, 4, rng())
    with pytest.raises(LibraryError, match=r"d_model: .* 4 channels, got 5"):
        draw(spec, 4, 5, rng())


def test_the_content_counts_not_the_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    arrays = (EYE, rng().random((3, 4)), [0, 2, 1, 2])
    paths = [write(tmp_path / "folder", *arrays, "npy"), write(tmp_path, *arrays, "safetensors")]
    keys = {Run(task=Associations(library=str(path)), model=AssociativeAttention(d_model=4)).key() for path in paths}
    assert len(keys) == 1


BAD: list[tuple[Callable[[], Any], str]] = [
    (lambda: checked(EYE[:0], EYE, []), r"queries: an empty array of shape \(0, 4\)"),
    (lambda: checked(EYE, np.full((2, 4), np.nan), [0] * 4), "contexts: should be finite, number 1 is not"),
    (lambda: checked(np.diag([1, 1, np.inf, 1]), EYE, [0] * 4), "queries: should be finite, number 3 is not"),
    (lambda: checked(EYE, EYE[:, :3], [0] * 4), "contexts: 4 channels as the queries, got 3"),
    (lambda: checked(EYE, EYE[None, :2].repeat(3, 0), [0] * 4), "one for all or one for each of 4 queries, got 3"),
    (lambda: checked(EYE, EYE, [0] * 3), "labels: one for each of 4 queries"),
    (lambda: checked(EYE, EYE, 3), "labels: one for each of 4 queries"),
    (lambda: checked(EYE, EYE, [0, 1, -1, 0]), "classes are 0 or more, example 3 has -1"),
    (lambda: checked(EYE, EYE, [[0]] * 4), "classes are one integer an example"),
    (lambda: checked(EYE, EYE, ["a"] * 4), r"labels: integers \(classes\) or floats, got 1-D of <U1"),
    (lambda: checked(EYE[[0, 1, 2, 1]], EYE, [0, 1, 2, 3]), "examples 2 and 4 are one query in one context"),
    (lambda: checked(EYE.astype(int), EYE, [0] * 4), "queries: a 2-D array of floats, got 2-D of int64"),
    (lambda: read(Path("nowhere.safetensors")), "no such file: nowhere.safetensors"),
    (lambda: read(Path("nowhere.csv")), "a .safetensors file, or a folder"),
]


@pytest.mark.parametrize(("act", "said"), BAD, ids=[said[:40] for _, said in BAD])
def test_bad_arrays_are_named(act: Callable[[], Any], said: str) -> None:
    with pytest.raises(CapaxError, match=said) as refused:
        act()
    assert "\n" not in str(refused.value)


def test_one_query_in_two_contexts_is_no_contradiction() -> None:
    assert len(checked(EYE[[0, 0]], rng().random((2, 3, 4)), [0, 1])) == 2
    assert len(checked(EYE[[0, 0]], EYE, [1, 1])) == 2


def test_fields_that_contradict_the_arrays_are_refused(tmp_path: Path) -> None:
    path = str(write(tmp_path, EYE, rng().random((3, 4)), [0, 2, 1, 2], "npy"))
    for fields, said in (
        ({"context_size": 4}, "context_size: .* has 3, got 4"),
        ({"n_classes": 2}, "example 2 is of class 2, but classes are 0..1"),
        ({"contexts": "fresh"}, "contexts: .* has 'shared', got 'fresh'"),
    ):
        with pytest.raises(CapaxError, match=said):
            Associations(library=path, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tolerance": 0.1}, "tolerance: only with real labels, got 0.1"),
        ({"bag_size": 20}, "bag_size: only with contexts='bag', got 20"),
        ({"labels": "uniform", "n_classes": 5}, "n_classes: only with labels='classes', got 5"),
        ({"contexts": "bag", "bag_size": 20}, "bag_size: at least context_size = 32"),
        ({"entries": "given"}, "entries: 'given' is for the user's arrays"),
        ({"labels": "given"}, "labels: 'given' is for the user's arrays"),
        ({"context_size": 0}, "context_size: should be at least 1, got 0"),
        ({"library_size": 10**8}, "library_size: at most 10000000 items"),
        ({"d_model": 8}, "d_model: unknown field"),
    ],
)
def test_bad_fields_are_named(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(CapaxError, match=said):
        Associations(**fields)


# runs


def test_a_run_of_associations_is_trained_as_published_where_nothing_is_said() -> None:
    task, model = Associations(library_size=10_000), AssociativeAttention()
    training = Run(task=task, model=model).training
    assert (training.batch_size, training.schedule, training.eval_steps, training.patience) == (
        256,
        "cosine",
        500,
        None,
    )
    assert training.budget(10_000) == 500 * 40
    assert training.budget(1000) == 5000
    published = as_in("mahdavi2024", task, model, Training(), Mac())[2]
    assert (published.budget(10_000), published.budget(130_000)) == (50_000, 500 * 508)
    assert training.budget(130_000) == 500 * 508
    short = Run(task=task, model=model, training=Training(max_steps=300, batch_size=64)).training
    assert (short.budget(10_000), short.batch_size, short.eval_steps) == (300, 64, 500)
    assert Run(task=task, model=model, training=Training(max_epochs=2)).training.budget(10_000) == 80
    by_epochs = Run(task=task, model=model, training=Training(eval_every=3)).training
    assert (by_epochs.eval_every, by_epochs.eval_steps) == (3, None), "what is given has an effect"
    assert Run(task=task, model=model, training=Training(eval_steps="none")).training.eval_steps is None


def test_tasks_and_models_go_together() -> None:
    with pytest.raises(CapaxError, match=r"^model: .*AssociativeAttention"):
        Run(task=Associations(), model=capax_transformer())
    with pytest.raises(CapaxError, match=r"^library_size: "):
        Run(task=Associations(library_size=10**6, contexts="fresh"), model=AssociativeAttention(d_model=512))


def capax_transformer() -> Any:
    from capax.specs import Transformer

    return Transformer()
