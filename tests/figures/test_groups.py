"""Groups of runs are told apart in the fewest words that say all differences."""

from pathlib import Path

import numpy as np
from made import changed, made, trained

import capax
from capax.figures.groups import alike
from capax.results import Measurement


def of(run: capax.Run) -> Measurement:
    """A run of any spec: groups look at nothing else."""
    return trained().model_copy(update={"spec": run})


ASSOCIATIONS = capax.Associations(context_size=4, library_size=10, n_classes=3)


def associations(**fields: object) -> Measurement:
    return of(capax.Run(task=ASSOCIATIONS.replace(**fields), model=capax.AssociativeAttention()))


def relations(protocol: object, d_head: int | None, n_items: int = 6) -> Measurement:
    return of(
        capax.Run(task=capax.Relations(n_items=n_items), model=capax.KeyQueryChannel(d_head=d_head), protocol=protocol)
    )


def test_one_group_is_told_from_nothing() -> None:
    assert [group.apart for group in alike([made(3, d_model=w) for w in (4, 8)], {"d_model"})] == [""]


def test_of_one_kind_all_that_differs_is_said() -> None:
    groups = alike([made(3), made(3, lr=0.05, vocab_size=12), made(3, patience=None)], ())
    assert [group.apart for group in groups] == [
        "vocab_size 9, lr 0.001, patience 30",
        "vocab_size 12, lr 0.05, patience 30",
        "vocab_size 9, lr 0.001, no patience",
    ]


def test_of_several_tasks_the_task_is_said_and_what_differs_within_it() -> None:
    runs = [made(3, lr=0.1), made(3, lr=0.2), associations(), relations(capax.Mac(), 2), relations(capax.Mac(), 2, 8)]
    assert [group.apart for group in alike(runs, {"n_items", "n_edges"})] == [
        "relations",  # of several items
        "sequences, lr 0.1",
        "sequences, lr 0.2",
        "associations: shared context of 4, 3 classes",
    ]


def test_fields_that_another_kind_lacks_are_not_said() -> None:
    runs = [relations(capax.Mac(), 2), relations(capax.Budget(), None)]
    assert [group.apart for group in alike(runs, {"d_head"})] == ["protocol mac", "protocol budget"]
    runs = [associations(), associations(labels="uniform", d_out=2, n_classes=100), associations(n_classes=4)]
    assert [group.apart for group in alike(runs, ())] == [
        "labels classes, n_classes 3",
        "labels uniform",
        "labels classes, n_classes 4",
    ]


def test_a_users_file_is_told_by_its_name_and_content(tmp_path: Path) -> None:
    libraries = []
    for folder, seed in (("a", 0), ("b", 0), ("c", 1)):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "mine.npy"
        np.save(path, np.random.default_rng(seed).integers(0, 9, (7, 6)))
        libraries.append(of(changed(trained().spec).replace(task=capax.Sequences(library=str(path)))))
    same, other = alike(libraries, {"vocab_size"})
    assert len(same.runs) == 2  # wherever the file lies
    hashes = [run.spec.task.library_sha256[:8] for run in (same.runs[0], other.runs[0])]
    assert [same.apart, other.apart] == [f"library mine.npy {one}" for one in hashes]
