"""Names and tags on the command line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from commands import refused, run

import capax

TINY = ["--seq-len", "3", "--vocab-size", "9", "--library-size", "6", "--d-model", "4", "--max-epochs", "1"]
MEASURE = ["measure", "sequences", *TINY, "--restarts", "1", "--workers", "1", "--store", "s.db"]


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Of three runs: baseline with two tags, one with a tag, and one that has neither."""
    monkeypatch.chdir(tmp_path)
    labels = (["--name", "baseline", "--tag", "rotary", "--tag", "v2"], ["--tag", "v2"], [])
    told = [run(capsys, *MEASURE, "--seed", str(seed), *given, "--json") for seed, given in enumerate(labels)]
    return [json.loads(one)["key"] for one in told]


@pytest.mark.slow
def test_runs_are_listed_chosen_and_exported_by_name_and_tag(
    keys: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    listing = run(capsys, "runs", "--store", "s.db").splitlines()
    assert listing[0].split()[:3] == ["key", "name", "tags"]
    assert listing[1].split()[:4] == [keys[0][:12], "baseline", "rotary,", "v2"]
    assert listing[3].split()[:3] == [keys[2][:12], "-", "-"]
    for chosen, found in (
        (["--tag", "v2"], keys[:2]),
        (["--tag", "v2", "--tag", "rotary"], keys[:1]),
        (["--where", "name=baseline"], keys[:1]),
        (["--where", "tags=v2", "--where", "seed=1"], keys[1:2]),
        (["--where", "tags=none"], keys[2:]),
    ):
        told = json.loads(run(capsys, "runs", "--store", "s.db", *chosen, "--json"))
        assert [one["key"] for one in told] == found
        run(capsys, "runs", "export", "r.csv", "--store", "s.db", *chosen)
        with open("r.csv") as file:
            assert [row["key"] for row in csv.DictReader(file)] == found


def test_a_run_is_named_and_tagged_later(keys: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    told = run(capsys, "runs", "tag", keys[2][:12], "late", "v3", "--name", "third", "--store", "s.db")
    assert told == f"{keys[2][:12]}: name third, tags late, v3\n"
    assert "third" in run(capsys, "runs", "show", keys[2], "--store", "s.db")
    told = run(capsys, "runs", "tag", keys[2], "--remove", "late", "--name", "", "--store", "s.db")
    assert told == f"{keys[2][:12]}: name (none), tags v3\n"
    with capax.Store("s.db") as store:
        assert store.keys() == set(keys)


@pytest.mark.slow
def test_bad_labels_are_refused_and_change_nothing(keys: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with capax.Store("s.db") as store:
        before = store.runs()
    at = ["--store", "s.db"]
    assert "tags: without commas" in refused(capsys, "runs", "tag", keys[0], "new", "a,b", "--name", "other", *at)
    assert "tags: at least one" in refused(capsys, "runs", "tag", keys[0], *at)
    assert "remove: the run has the tags" in refused(capsys, "runs", "tag", keys[0], "--remove", "no", *at)
    assert "no run has a key" in refused(capsys, "runs", "tag", "zzz", "a", *at)
    assert "no row has tags=no" in refused(capsys, "runs", *at, "--tag", "no")
    assert "tag: not together with --failed" in refused(capsys, "runs", *at, "--tag", "v2", "--failed")
    assert "name: 1 to 100" in refused(capsys, *MEASURE, "--seed", "9", "--name", "a\tb")
    assert "name: not with --sensitivity" in refused(capsys, *MEASURE, "--name", "a", "--sensitivity", "lr")
    with capax.Store("s.db") as store:
        assert store.runs() == before


def test_a_store_without_labels_is_listed_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run(capsys, *MEASURE, "--quiet")
    assert run(capsys, "runs", "--store", "s.db").split()[:2] == ["key", "protocol"]
