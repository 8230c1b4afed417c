"""Measuring, sweeping, fitting, planning and looking into attention layers from the command line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import refused, run

MEASURE = (
    "measure", "associations", "--n-heads", "2", "--context-size", "4", "--d-model", "6", "--d-head", "5",
    "--library-size", "20", "--n-classes", "4", "--profile", "mahdavi2024", "--max-steps", "60", "--eval-steps", "20",
    "--restarts", "2", "--workers", "1",
)  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("associations") / "s.db"


@pytest.fixture
def measured(capsys: pytest.CaptureFixture[str], store: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(capsys, *MEASURE, "--store", store, "--keep-weights", "--json"))
    return found


def test_a_measurement_is_the_json_of_every_task(measured: dict[str, Any]) -> None:
    assert measured["chance_uniform"] == 5 <= measured["chance"]
    assert measured["library_size"] == 20
    assert measured["spec"]["model"] == {
        "model": "associative_attention", "n_heads": 2, "d_model": 6, "d_head": 5, "d_value": None,
        "profile": "mahdavi2024", "n_layers": 1,
    }  # fmt: skip
    assert measured["spec"]["training"]["schedule"] == "cosine"
    assert measured["spec"]["training"]["min_steps"] is None
    assert measured["parameters"]["trainable"] == 2 * (2 * 6 * 5 + 2 * 6) + 42 + 28
    assert measured["steps"] == 60
    assert len(measured["memorized_per_restart"]) == 2


def test_a_table_says_what_was_measured(capsys: pytest.CaptureFixture[str], store: Path, measured: Any) -> None:
    shown = run(capsys, *MEASURE, "--store", store)
    for part in ("the published layer", "2 heads of 5", "width 6", "shared context of 4", "4 classes", "protocol mac"):
        assert part in shown
    assert f"{measured['memorized']} of 20" in shown
    listed = run(capsys, "runs", "--store", store)
    assert "shared context of 4" in listed


def test_saturation_of_a_kept_layer(
    capsys: pytest.CaptureFixture[str], store: Path, measured: Any, tmp_path: Path
) -> None:
    key, place = measured["key"], tmp_path / "map.npy"
    found = json.loads(run(capsys, "check", "saturation", key, "--store", store, "--threshold", "0.3", "--json"))
    shown = run(capsys, "check", "saturation", key, "--store", store, "--threshold", "0.3", "--out", place)
    drawn = np.load(place)
    assert drawn.shape == (2, 20)
    assert drawn.sum(1).tolist() == [head["saturated"] for head in found["heads"]]
    assert np.bincount(drawn.sum(0), minlength=3).tolist() == found["examples_by_heads"]
    assert "20 examples" in shown
    assert "threshold: " in refused(capsys, "check", "saturation", key, "--store", store, "--threshold", "1.5")
    assert "out: a .npy file" in refused(capsys, "check", "saturation", key, "--store", store, "--out", "map.png")
    assert "learned associations" in refused(capsys, "runs", "recall", key, "--store", store, "1 2")
    assert not list(tmp_path.glob("*.png"))


@pytest.mark.slow
def test_the_users_arrays(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    folder = tmp_path / "given"
    folder.mkdir()
    for name, array in (
        ("queries", rng.random((12, 6))), ("contexts", rng.random((12, 4, 6))), ("labels", rng.random((12, 2)))
    ):  # fmt: skip
        np.save(folder / f"{name}.npy", array)
    store = tmp_path / "s.db"
    command = (
        "measure", "associations", "--library", folder, "--d-model", "6", "--max-steps", "30", "--restarts", "1",
        "--workers", "1", "--store", store, "--json",
    )  # fmt: skip
    found = json.loads(run(capsys, *command))
    assert found["library_size"] == 12
    assert set(found["metrics"]) == {"mean_squared_error", "largest_error"}
    assert "d_model: the vectors of" in refused(capsys, *(word if word != "6" else "7" for word in command), "--fresh")
    np.save(folder / "labels.npy", np.zeros((11, 2)))
    assert "labels: " in refused(capsys, *command)
    np.save(folder / "labels.npy", rng.standard_normal((12, 3)))  # no constant is close to all numbers of any label
    assert json.loads(run(capsys, *command))["chance"] == 1
    np.save(folder / "labels.npy", 1e30 * rng.random((12, 2)))  # whose squares no float32 holds
    assert set(json.loads(run(capsys, *command))["metrics"]) == {"largest_error"}
    assert "12 " in run(capsys, "runs", "list", "--store", store)
    np.save(folder / "labels.npy", np.arange(12) * 100_000)
    assert "n_classes: at most 1000000, but" in refused(capsys, *command)


def test_drawn_labels_of_many_numbers_are_worth_their_bits(capsys: pytest.CaptureFixture[str]) -> None:
    """A guess of all of them is right with a probability that no float holds."""
    for labels, each in (("uniform", math.log2(10)), ("normal", -math.log2(math.erf(0.05 / math.sqrt(2))))):
        found = json.loads(
            run(
                *(capsys, "measure", "associations", "--labels", labels, "--d-out", "400", "--library-size", "5"),
                *("--d-model", "4", "--context-size", "3", "--max-steps", "2", "--restarts", "1", "--json"),
            )
        )
        assert found["bits_per_item"] == pytest.approx(400 * each)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("--n-heads", "0"), "n_heads: should be at least 1, got 0"),
        (("--context-size", "0"), "context_size: should be at least 1, got 0"),
        (("--contexts", "bag", "--bag-size", "3"), "bag_size: at least context_size = 4"),
        (("--tolerance", "0.2"), "tolerance: only with real labels"),
        (("--library", "nowhere.npz"), "library: 'random', a .safetensors file, or a folder"),
        (("--warmup", "1.5"), "warmup: should be less than 1, got 1.5"),
        (("--min-steps", "5"), "min_steps: only with max_epochs"),
        (("--seeds", "4"), "seeds: a field of protocol mls, not of 'mac'"),
        (("--profile", "mahdavi"), "profile: should be 'plain' or 'mahdavi2024'"),
    ],
)
def test_bad_flags_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, change: tuple[str, ...], said: str
) -> None:
    command = list(MEASURE)
    for flag in (flag for flag in change if flag in command):
        del command[command.index(flag) : command.index(flag) + 2]
    assert said in refused(capsys, *command, *change, "--store", tmp_path / "s.db")
    assert list(tmp_path.iterdir()) == []


STUDY = """
[task]
task = "associations"
library_size = 80
n_classes = 60
[model]
d_model = 6
profile = "mahdavi2024"
[training]
max_steps = 150
eval_steps = 50
lr = 0.05
[protocol]
restarts = 1
[grid]
n_heads = [1, 2]
context_size = [2, 4]
d_head = [2, 4]
"""


@pytest.mark.very_slow
def test_from_a_study_to_a_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    study, store, law = tmp_path / "study.toml", tmp_path / "s.db", tmp_path / "law.json"
    study.write_text(STUDY)
    told = json.loads(run(capsys, "sweep", study, "--store", store, "--workers", "1", "--json"))
    assert told["done"] == 8
    fitted = json.loads(
        run(capsys, "fit", "--store", store, "--law", "association", "--target", "memorized", "--out", law, "--json")
    )
    assert [parameter["name"] for parameter in fitted["parameters"]] == ["k", "a", "b", "c", "g"]
    assert "held at 0" in fitted["parameters"][4]["reason"]
    answer = json.loads(
        run(
            capsys, "predict", "associations", "--law", law, "--n-heads", "2", "--context-size", "4", "--d-head", "4",
            "--d-model", "6", "--json",
        )
    )  # fmt: skip
    assert answer["interval"]["low"] < answer["value"] < answer["interval"]["high"]
    plan = ("plan", "associations", "--items", "1", "--context-size", "4", "--law", law, "--d-model", "6")
    found = json.loads(run(capsys, *plan, "--multiple", "2", "--json"))
    assert found["architectures"]
    assert "+head size" in run(capsys, *plan, "--multiple", "2")
    assert "outside the domain" in refused(
        capsys, *plan[:3], "1", "--context-size", "64", "--law", law, "--d-model", "6"
    )
    other = study.with_name("other.toml")
    other.write_text(STUDY.replace("d_head = [2, 4]", "seq_len = [2, 4]"))
    assert "grid.seq_len: no such axis" in refused(capsys, "sweep", other, "--store", store)
    other.write_text(STUDY.replace('"associations"', '"association"'))
    said = "task.task: one of associations, biographies, facts, relations, sequences"
    assert said in refused(capsys, "sweep", other, "--store", store)


def test_the_law_that_ships(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "plan", "associations", "--items", "300", "--context-size", "16")
    assert "300 associations (context_size 16)" in shown
    sizes = ("--n-heads", "8", "--context-size", "16", "--d-head", "16", "--d-model", "32")
    assert "memorizes about" in run(capsys, "predict", "associations", *sizes)
