"""A law in bits asked about tasks that its data were not of: their items follow by their information."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import capax
from capax.cli import main
from capax.errors import LawError
from capax.planning.question import Question
from capax.planning.results import BitsFrontier
from capax.store import Store

SIZES: dict[str, Any] = {"n_layers": 2, "n_heads": 2, "d_head": 4, "d_model": 8}
PEOPLE: dict[str, Any] = {"task": "biographies", "reduction": 10}
KEPT = Path(__file__).parents[2] / "docs" / "reproduced" / "allenzhu2024-demo.db"


def test_people_are_so_many_bits_of_what_sequences_alike_hold() -> None:
    task = capax.Biographies(reduction=10)
    alike = {"seq_len": task.tokens_per_item + 1, "vocab_size": task.sizes()["vocab_size"], "loss": "all"}
    # a person's tokens follow one that is no other's: as many predictions as of a sequence that is longer by one
    sequences = capax.predict("reference", **SIZES, **alike, embeddings="trained")
    people = capax.predict("reference", **SIZES, **PEOPLE)
    assert people.bits == pytest.approx(sequences.bits, rel=1e-12)
    assert people.value == pytest.approx(people.bits / task.information_per_item(), rel=1e-12)
    assert people.task == "biographies"
    assert f"people are taken to be {task.information_per_item():.4g} bits each" in people.notes[0]


@pytest.mark.parametrize("layers", [1, 2])
def test_people_that_were_measured_lie_in_the_interval(layers: int) -> None:
    """Two networks, by SOAP, after 1000 exposures of 300 people: bits as Allen-Zhu and Li count them."""
    with Store(KEPT, create=False) as store:
        (run,) = (
            run
            for run in store.runs()
            if run.spec.model.n_layers == layers and run.epochs == 1000 and run.library_size == 300
            if run.spec.training.optimizer == "soap"
        )
    found = capax.predict("reference", **(SIZES | {"n_layers": layers}), **PEOPLE, exposures=1000)
    known = run.unit("allen_zhu_bits")
    assert known is not None
    worth = capax.Biographies(reduction=10).information_per_item()
    assert found.interval.high is not None
    assert found.interval.low * worth < known.amount < found.interval.high * worth
    assert found.trainable_parameters == run.parameters.trainable


def test_a_plan_of_people_comes_back_and_is_asked_again() -> None:
    found = capax.plan("reference", 100, n_layers=[1, 2], **PEOPLE)
    assert isinstance(found, BitsFrontier)
    assert {one.embeddings for one in found.architectures} == {"trained"}
    assert BitsFrontier.model_validate_json(found.model_dump_json()) == found
    again = Question("reference", dict(found.model_extra or {}), found.items)
    assert again.task.information_per_item() == capax.Biographies(reduction=10).information_per_item()
    one = found.architectures[0]
    sizes = {name: getattr(one, name) for name in SIZES}
    said = capax.predict("reference", **sizes, **PEOPLE)
    np.testing.assert_allclose(one.memorized, said.value, rtol=1e-6)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"task": "relations"}, "task: .*biographies.*sequences, got 'relations'"),
        ({"task": "facts"}, "task: .*biographies.*sequences, got 'facts'"),
        ({"task": 3}, "task: .*, got 3"),
        (PEOPLE | {"seq_len": 4}, "seq_len: follows from people: 12, got 4"),
        (PEOPLE | {"loss": "last"}, "loss: follows from people: all, got 'last'"),
        (PEOPLE | {"embeddings": "frozen"}, "embeddings: of people trained, .*, got 'frozen'"),
        (PEOPLE | {"reduction": 0}, "reduction: .*, got 0"),
    ],
)
def test_what_cannot_be_asked_is_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(LawError, match=reason):
        capax.predict("reference", **SIZES, **given)
    with pytest.raises(LawError, match="task: sequences, got 'biographies'"):
        capax.predict("reference:power", seq_len=8, n_heads=1, d_model=8, task="biographies")


def test_commands(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (
        ["predict", "biographies", "--reduction", "10", "--n-layers", "1", "--n-heads", "2", "--d-model", "8"],
        ["plan", "biographies", "--items", "100", "--reduction", "10", "--n-layers", "1"],
        ["plan", "biographies", "--budget-parameters", "5000", "--reduction", "10"],
    ):
        more = ["--d-head", "4"] if command[0] == "predict" else []
        with pytest.raises(SystemExit) as ended:
            main([*command, *more])
        out, err = capsys.readouterr()
        assert (ended.value.code, err) == (0, "")
        assert "people are taken to be 48.25 bits each" in " ".join(out.split())
    with pytest.raises(SystemExit) as ended:
        main(["plan", "text", "--items", "100"])
    assert ended.value.code == 2
    assert "law: of windows a file of capax fit --out is required" in capsys.readouterr().err
