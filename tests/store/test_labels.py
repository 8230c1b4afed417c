"""Names and tags: kept with a run, changed without it, and no part of its key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stores import OLDER, older, raw

import capax
from capax.errors import SpecError, StoreError, TableError
from capax.results import Measurement
from capax.specs.labels import LONGEST, Labels
from capax.store.conditions import where
from capax.store.merge import merge
from capax.sweeps.grid import StudyError, read_study

TASK = capax.Sequences(seq_len=3, vocab_size=5, library_size=4)
MODEL = capax.Transformer(d_model=2, d_head=2)
HOW: dict[str, Any] = {"training": capax.Training(max_epochs=1), "restarts": 1}


def called(store: Path) -> dict[str, tuple[str | None, tuple[str, ...]]]:
    with capax.Store(store, create=False) as opened:
        by_run = {run.key: (run.name, run.tags) for run in opened.each()}
        assert by_run == {summary.key: (summary.name, summary.tags) for summary in opened.summaries()}
    return by_run


def test_a_measurement_has_its_name_and_tags_with_a_store_and_without(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    plain = capax.measure(TASK, MODEL, **HOW)
    for place in (None, store):
        run = capax.measure(TASK, MODEL, **HOW, name="baseline", tags=("rotary", "v2", "rotary"), store=place)
        assert (run.name, run.tags, run.key) == ("baseline", ("rotary", "v2"), plain.key)
    assert called(store) == {plain.key: ("baseline", ("rotary", "v2"))}


def test_what_is_measured_or_named_again_keeps_its_tags(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    key = capax.measure(TASK, MODEL, **HOW, name="first", tags=("a",), store=store).key
    assert capax.measure(TASK, MODEL, **HOW, store=store).name == "first"
    again = capax.measure(TASK, MODEL, **HOW, name="second", tags=("b",), store=store)
    assert (again.name, again.tags) == ("second", ("a", "b"))
    capax.measure(TASK, MODEL, **HOW, tags=("c",), store=store, fresh=True)
    assert called(store) == {key: ("second", ("a", "b", "c"))}


def test_labels_are_changed_and_go_with_their_run(tmp_path: Path, three: list[Measurement]) -> None:
    with capax.Store(tmp_path / "s.db") as store:
        store.add(three[0])
        store.label(three[0].key, name="n", tags=["x", "y"])
        store.label(three[0].key, tags=["z"], remove=["x"])
        assert store.get(three[0].key) == three[0].model_copy(update={"name": "n", "tags": ("y", "z")})
        store.label(three[0].key, name="", remove=["y", "z"])
        assert store.get(three[0].key) == three[0]
        store.label(three[0].key, name="n")
        assert store.delete(three[0].key)
        store.add(three[0])
        assert store.get(three[0].key) == three[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": 3}, "name: 1 to 100 printable letters, got 3"),
        ({"name": " "}, "name: 1 to 100"),
        ({"name": "a\nb"}, "name: 1 to 100"),
        ({"name": "a" * (LONGEST + 1)}, "name: 1 to 100"),
        ({"tags": "rotary"}, "tags: a list of texts, got 'rotary'"),
        ({"tags": 3}, "tags: a list of texts, got 3"),
        ({"tags": ["a,b"]}, "tags: without commas, got 'a,b'"),
        ({"tags": [None]}, "tags: 1 to 100 printable letters, got None"),
    ],
)
def test_what_is_no_name_or_tag_is_refused_before_anything_is_done(
    given: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match=said):
        capax.measure(TASK, MODEL, **HOW, store=tmp_path / "s.db", **given)
    with pytest.raises(SpecError, match=said):
        capax.sweep([capax.Run(task=TASK, model=MODEL)], tmp_path / "s.db", workers=1, **given)
    assert not (tmp_path / "s.db").exists()


def test_only_runs_that_are_there_are_labelled(tmp_path: Path, three: list[Measurement]) -> None:
    with capax.Store(tmp_path / "s.db") as store:
        with pytest.raises(StoreError, match="no run has the key"):
            store.label(three[0].key, name="n")
        store.add(three[0])
        with pytest.raises(SpecError, match=r"remove: the run has the tags \(none\), got 'x'"):
            store.label(three[0].key, name="n", remove=["x"])
        assert store.get(three[0].key) == three[0]


def test_merging_joins_tags_and_takes_the_later_name(tmp_path: Path, three: list[Measurement]) -> None:
    for name, tags in (("a", ["x"]), ("b", ["y"]), ("", ["z"])):
        with capax.Store(tmp_path / f"{tags[0]}.db") as store:
            store.add(three[0])
            store.label(three[0].key, name=name, tags=tags)
    merge([tmp_path / "x.db", tmp_path / "y.db", tmp_path / "z.db"], tmp_path / "all.db")
    assert called(tmp_path / "all.db") == {three[0].key: ("b", ("x", "y", "z"))}


@OLDER
def test_runs_of_older_stores_are_labelled(tmp_path: Path, three: list[Measurement], version: int) -> None:
    path = older(tmp_path / "s.db", three, version)
    with capax.Store(path) as store:
        store.label(three[1].key, tags=["x"])
        assert [run.tags for run in store.each()] == [(), ("x",), ()]


@OLDER
def test_older_stores_that_cannot_be_written_are_read(tmp_path: Path, three: list[Measurement], version: int) -> None:
    path = older(tmp_path / "s.db", three, version)
    before = path.read_bytes()
    with capax.Store(path, read_only=True) as store:
        assert [(run.name, run.tags) for run in store.each()] == [(None, ())] * 3
        assert [run.tags for run in store.summaries()] == [()] * 3
    assert path.read_bytes() == before


@pytest.mark.parametrize("tags", ["no json", '{"a": 1}', "[1]"])
def test_damaged_labels_are_said_to_be_so(tmp_path: Path, three: list[Measurement], tags: str) -> None:
    with capax.Store(tmp_path / "s.db") as store:
        store.add(three[0].model_copy(update={"tags": ("x",)}))
        with store._database.writing("test") as connection:
            connection.execute("UPDATE labels SET tags = ?", (tags,))
        for read in (store.runs, store.summaries):
            with pytest.raises(StoreError, match="damaged"):
                read()
    assert raw(tmp_path / "s.db", "SELECT count(*) FROM labels") == [(1,)]


STUDY = """
{}
[task]
seq_len = 3
vocab_size = 5
library_size = 4
[model]
d_head = 2
[training]
max_epochs = 1
[protocol]
restarts = 1
[grid]
d_model = [2, 4]
"""


def test_a_study_names_and_tags_its_runs_done_before_or_now(tmp_path: Path) -> None:
    study, store = tmp_path / "s.toml", tmp_path / "s.db"
    study.write_text(STUDY.format('name = "grid"\ntags = ["v1"]'))
    assert read_study(study).labels == Labels("grid", ("v1",))
    earlier = next(iter(read_study(study).runs))
    capax.measure(earlier.task, earlier.model, earlier.training, restarts=1, name="old", tags=("kept",), store=store)
    runs = list(capax.sweep(study, store, workers=1, tags=("v2",)))
    assert {run.name for run in runs} == {"grid"}
    assert sorted(called(store).values()) == [("grid", ("kept", "v1", "v2")), ("grid", ("v1", "v2"))]
    keys = {run.key() for run in read_study(study).runs}
    study.write_text(STUDY.format(""))
    assert {run.key() for run in read_study(study).runs} == keys == set(called(store))


@pytest.mark.parametrize("line", ['tags = "v1"', "name = 3", 'tags = ["a,b"]', "[name]"])
def test_a_study_with_other_names_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "s.toml").write_text(STUDY.format(line))
    with pytest.raises(StudyError, match=r"s\.toml: (name|tags): "):
        read_study(tmp_path / "s.toml")


def test_a_tag_that_no_run_has_is_one_line(tmp_path: Path, three: list[Measurement]) -> None:
    """In a store whose runs have no tags, too."""
    with capax.Store(tmp_path / "s.db") as store:
        for run in three:
            store.add(run)
    with pytest.raises(TableError, match=r"^where: no row has tags=nope$"):
        where(capax.read(tmp_path / "s.db"), ["tags=nope"])
