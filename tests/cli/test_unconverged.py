"""The first lines of a count say where it is none of what the model can hold."""

from __future__ import annotations

import pytest
from commands import narrow
from made import made

import capax
from capax.cli import measurement
from capax.results import Curve


def shown(run: capax.Measurement, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    narrow(monkeypatch, 200)
    measurement.show(run)
    return capsys.readouterr().out.splitlines()


def ended(reason: str, *losses: float | None) -> capax.Measurement:
    """A run that ended so; the best of its restarts had these losses, one each epoch."""
    run = made(2, 3)
    curve = Curve(epoch=tuple(range(len(losses))), memorized=(0,) * len(losses), loss=losses)
    (first, *_) = run.members
    members = (first.model_copy(update={"memorized": 3, "curve": curve}), first.model_copy(update={"memorized": 2}))
    return run.model_copy(update={"stop_reason": reason, "members": members})


@pytest.mark.parametrize(("reason", "where"), [("budget", "at its budget"), ("plateau", "on a plateau")])
def test_a_count_of_a_training_that_ended_early_says_how_far_its_loss_still_fell(
    reason: str, where: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ended(reason, None, 4.0, 3.9, 3.8, 3.7, 3.6, 3.5, 3.4, 3.3, 2.0, 1.5)
    line = shown(run, capsys, monkeypatch)[1]
    assert line.startswith("not a capacity")
    assert f"ended {where}: a count of what this training reached" in line
    assert "its loss fell 25.0% over its last tenth" in line
    assert "--protocol capacity" in line


def test_a_loss_that_rose_or_is_not_known_is_said_as_such(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "rose 10.0% over" in shown(ended("budget", None, *[1.0] * 9, 1.1), capsys, monkeypatch)[1]
    assert "loss" not in shown(ended("budget", None, 1.0), capsys, monkeypatch)[1]


def test_the_span_over_which_the_loss_fell_is_the_one_that_was_looked_at(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run that was evaluated three times, half of it; of one that ended in its first epoch, none."""
    run = ended("budget", None, 4.0, 3.0)
    (first, *others) = run.members
    for epochs, said in (((0, 20, 40), "its loss fell 25.0% since epoch 20 of 40"), ((0, 0, 0), "reached;")):
        curve = first.curve.model_copy(update={"epoch": epochs})
        members = (first.model_copy(update={"curve": curve}), *others)
        line = shown(run.model_copy(update={"members": members}), capsys, monkeypatch)[1]
        assert said in line
        assert ("its loss" in line) is (epochs[-1] > 0)


@pytest.mark.parametrize("reason", ["complete", "diverged", "converged"])
def test_other_ends_say_nothing_of_it(
    reason: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = shown(ended(reason, None, 2.0, 1.0), capsys, monkeypatch)
    assert not any("not a capacity" in line for line in lines)


@pytest.mark.parametrize(("recallable", "whole"), [(20, False), (3, True)])
def test_where_all_was_recalled_that_can_be_that_is_said(
    recallable: int, whole: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of items that contradict others a budget never sees the whole library recalled."""
    run = ended("budget", None, 2.0, 1.0).model_copy(update={"recallable": recallable})
    lines = shown(run, capsys, monkeypatch)
    assert any("not a capacity" in line for line in lines) is not whole
    assert any("3 of 20, all that can be recalled" in line for line in lines) is whole


def test_a_count_of_relations_that_ended_early_says_so_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, model = capax.Relations(n_items=12), capax.KeyQueryChannel(d_model=8, n_heads=1, d_head=1)
    run = capax.measure(task, model, capax.Training(max_steps=20), restarts=1)
    (line,) = (line for line in shown(run, capsys, monkeypatch) if line.startswith("not a capacity"))
    assert "--protocol capacity" not in line  # it has none
