"""How far a number moves with each choice: every variation is an ordinary run, and nothing else is changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import capax
from capax import devices
from capax.errors import SpecError
from capax.literature import stated_by
from capax.probes import choices as module
from capax.probes.choices import allowed, published, value_of, variations_of, varied
from capax.probes.sensitivity import beyond_noise, compare
from capax.protocols.mac import best_of_restarts_interval
from capax.results import Interval, Measurement
from capax.specs import Run
from capax.store import Store

TASK = capax.Sequences(seq_len=4, vocab_size=10, library_size=80)
MODEL = capax.Transformer(d_model=8, d_head=4)
TRAINING = capax.Training(max_epochs=4, batch_size=32)
BASE = Run(task=TASK, model=MODEL, training=TRAINING, protocol=capax.Mac(restarts=2))
VARIED: dict[str, list[Any]] = {
    "lr": [1e-2, 1e-4],
    "batch_size": [16, "full"],
    "loss": ["last"],
    "epochs": [8],
    "steps": [3],
    "precision": ["float64", "bfloat16"],
    "schedule": ["cosine"],
    "patience": [None, 2],
    "restarts": [3],
}
ASSOCIATIONS = Run(
    task=capax.Associations(library_size=40, context_size=4), model=capax.AssociativeAttention(d_model=8, d_head=4)
)
RELATIONS = Run(
    task=capax.Relations(n_items=16), model=capax.KeyQueryChannel(d_model=8), protocol=capax.Budget(head_counts=(1,))
)
"""The channel's training is in steps, of the whole graph."""


def fields(run: Run) -> dict[str, Any]:
    """Every field of a run by its path."""
    parts = run.model_dump()
    return {f"{part}.{name}": value for part in parts if part != "seed" for name, value in parts[part].items()}


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> tuple[capax.Sensitivity, Path]:
    store = tmp_path_factory.mktemp("sensitivity") / "s.db"
    found = capax.sensitivity(TASK, MODEL, TRAINING, choices=VARIED, restarts=2, store=store)
    return found, store


@pytest.mark.very_slow
def test_every_variation_is_the_run_that_measure_does(studied: tuple[capax.Sensitivity, Path]) -> None:
    """Alone, without the store: the same key and the same outcome, bit for bit."""
    found, _ = studied
    base = capax.measure(TASK, MODEL, TRAINING, restarts=2)
    assert (found.key, found.number, found.memorized_per_restart) == (
        base.key, base.memorized_above_chance, base.memorized_per_restart,
    )  # fmt: skip
    by_name = {one.choice: one for one in found.choices}
    assert set(by_name) == set(VARIED)
    alone = {
        "lr": capax.measure(TASK, MODEL, TRAINING.replace(lr=1e-2), restarts=2),
        "batch_size": capax.measure(TASK, MODEL, TRAINING.replace(batch_size=16), restarts=2),
        "loss": capax.measure(TASK.replace(loss="last"), MODEL, TRAINING, restarts=2),
        "epochs": capax.measure(TASK, MODEL, TRAINING.replace(max_epochs=8), restarts=2),
        "steps": capax.measure(TASK, MODEL, capax.Training(max_steps=3, batch_size=32), restarts=2),
        "precision": capax.measure(TASK, MODEL, TRAINING.replace(precision="float64"), restarts=2),
        "restarts": capax.measure(TASK, MODEL, TRAINING, restarts=3),
    }
    for choice, run in alone.items():
        first = by_name[choice].alternatives[0]
        assert (first.key, first.number, first.memorized_per_restart, first.steps) == (
            run.key, run.memorized_above_chance, run.memorized_per_restart, run.steps,
        )  # fmt: skip
        assert first.change == first.number - base.memorized_above_chance


@pytest.mark.slow
def test_numbers_are_sorted_by_swing(studied: tuple[capax.Sensitivity, Path]) -> None:
    found, _ = studied
    for one in found.choices:
        numbers = [found.number, *(other.number for other in one.alternatives)]
        assert one.swing == max(numbers) - min(numbers)
        assert one.beyond_noise == any(other.beyond_noise for other in one.alternatives)
    swings = [one.swing for one in found.choices]
    assert swings == sorted(swings, reverse=True)
    assert swings[0] > 0


@pytest.mark.slow
def test_a_choice_that_does_not_come_into_play_is_told(studied: tuple[capax.Sensitivity, Path]) -> None:
    """4 epochs are over before a patience of 30 evaluations, or none, could end them."""
    found, _ = studied
    same = {(one.choice, str(other.value)): other.same_training for one in found.choices for other in one.alternatives}
    assert same["patience", "None"]
    assert not same["lr", "0.01"]
    assert not same["precision", "bfloat16"]


@pytest.mark.slow
def test_a_second_study_trains_nothing(studied: tuple[capax.Sensitivity, Path]) -> None:
    """All from the store, to the second that each took; a study of fewer choices needs no more either."""
    found, path = studied
    with Store(path) as store:
        before = store.keys()
        again = capax.sensitivity(TASK, MODEL, TRAINING, choices=VARIED, restarts=2, store=store)
        capax.sensitivity(TASK, MODEL, TRAINING, choices={"loss": None}, restarts=2, store=store)
        assert store.keys() == before
    assert again == found
    assert before == {found.key} | {other.key for one in found.choices for other in one.alternatives}


def test_an_interrupted_study_keeps_its_runs(tmp_path: Path) -> None:
    """Stopped at the third run and taken up: the two before are not trained again."""
    announced: list[str] = []

    def stop(name: str) -> Any:
        announced.append(name)
        if len(announced) == 3:
            raise KeyboardInterrupt
        from contextlib import nullcontext

        return nullcontext()

    study: dict[str, Any] = {"choices": {"lr": [1e-2, 1e-4]}, "restarts": 1, "store": tmp_path / "s.db"}
    with pytest.raises(KeyboardInterrupt):
        capax.sensitivity(TASK, MODEL, TRAINING, announce=stop, **study)
    with Store(tmp_path / "s.db") as store:
        kept = {run.key: run.seconds for run in store.runs()}
    assert len(kept) == 2
    found = capax.sensitivity(TASK, MODEL, TRAINING, announce=None, **study)
    (lr,) = found.choices
    assert kept[lr.alternatives[0].key] == lr.alternatives[0].seconds
    assert announced == ["1/3: base", "2/3: lr 0.01", "3/3: lr 0.0001"]


@pytest.mark.parametrize("choice", VARIED)
def test_nothing_else_is_changed(choice: str) -> None:
    homes = {"loss": "task.loss", "restarts": "protocol.restarts"}
    budget = {"training.max_epochs", "training.min_steps", "training.max_steps"}
    own = budget if choice in ("epochs", "steps") else {homes.get(choice, f"training.{choice}")}
    before = fields(BASE)
    for value in VARIED[choice]:
        after = varied(BASE, choice, value)
        assert after.seed == BASE.seed
        assert {name for name, one in fields(after).items() if one != before[name]} <= own
        assert after.key() != BASE.key()


def measured(counts: Sequence[int], protocol: Any = None, **changes: Any) -> Measurement:
    """A measurement of these counts, as far as a comparison looks at it."""
    run = BASE.replace(protocol=protocol or capax.Mac(restarts=len(counts)))
    size, chance = 80, 8.0
    memorized = max(counts)
    fields_: dict[str, Any] = {
        "memorized": memorized,
        "memorized_per_restart": tuple(counts),
        "chance": chance,
        "memorized_above_chance": (memorized - chance) / (1 - chance / size),
        "interval": best_of_restarts_interval(counts, size),
        "library_size": size,
        "recallable": size,
        "bits": 0.0,
        "bits_per_parameter": 0.0,
        "tokens_per_parameter": None,
        "parameters": {"trainable": 1, "total": 1},
        "epochs": 1,
        "steps": 1,
        "seconds": 0.0,
        "stop_reason": "plateau",
        "unreachable": None,
        "members": (),
        "spec": run,
        "key": run.key(),
        "versions": {},
    }
    return Measurement(**{**fields_, **changes})


def test_the_verdict_of_restarts_by_hand() -> None:
    """Counts 30, 34, 38: mean 34, deviation 4. The best of 3 new ones is drawn anew here, not read from the code."""
    base = measured([30, 34, 38])
    generator = np.random.default_rng(5)
    old, new = generator.standard_normal((2, 400_000, 3))
    low, high = 34 + 4 * np.quantile((new.max(1) - old.mean(1)) / old.std(1, ddof=1), [0.025, 0.975])
    assert (base.interval.low, min(high, 80)) == (pytest.approx(low, abs=0.5), pytest.approx(base.interval.high, abs=1))
    verdicts = {count: beyond_noise(base, measured([count] * 3)) for count in range(81)}
    assert {count for count, verdict in verdicts.items() if not verdict} == {
        count for count in range(81) if base.interval.low <= count <= base.interval.high
    }
    assert verdicts[38] is False
    assert verdicts[0] is True


def test_restarts_that_agree_leave_no_noise_and_one_restart_tells_nothing() -> None:
    agreeing, single = measured([30, 30]), measured([30])
    assert beyond_noise(agreeing, measured([30, 29])) is False
    assert beyond_noise(agreeing, measured([31, 29])) is True
    assert beyond_noise(single, measured([60])) is None
    assert any("no width" in note for note in compare(agreeing, [], []).notes)
    assert "unknown" in compare(single, [], []).noise
    assert any("whole library" in note for note in compare(measured([80, 79]), [], []).notes)


def searched(low: float, high: float | None) -> Measurement:
    return measured([40], capax.Mls(), interval=Interval(low=low, high=high, level=0.95, of="size"))


@pytest.mark.parametrize(
    ("there", "beyond"),
    [((46, 50), True), ((45, 50), False), ((20, 30), False), ((20, 29), True), ((46, None), True), ((20, None), False)],
)
def test_the_verdict_of_searches_by_hand(there: tuple[float, float | None], beyond: bool) -> None:
    """Intervals of estimates: 30 to 45 against others, that overlap or do not."""
    assert beyond_noise(searched(30, 45), searched(*there)) is beyond
    assert beyond_noise(searched(*there), searched(30, 45)) is beyond


@pytest.mark.very_slow
def test_a_largest_library_is_compared() -> None:
    task, model = TASK.replace(library_size=24, loss="last"), MODEL.replace(d_model=4, ffn="none")
    protocol = capax.Mls(first_size=4, seeds=2, max_trainings=8)
    training = capax.Training(lr=3e-2, max_epochs=200)
    found = capax.sensitivity(task, model, training, choices={"epochs": [2]}, protocol=protocol)
    base = capax.measure(task, model, training, protocol=protocol)
    assert found.number == base.memorized_above_chance == pytest.approx(base.memorized)  # whole, so it counts whole
    assert found.interval == base.interval is not None
    assert base.interval.high is not None
    assert 0 <= base.interval.low <= found.number <= base.interval.high
    assert found.choices[0].alternatives[0].number < found.number
    assert "do not overlap" in found.noise


@pytest.mark.slow
def test_a_key_dimension_is_compared() -> None:
    """3 steps are too few for any head size up to the width: then weights that are built say how many."""
    training = capax.Training(max_steps=60, eval_steps=20, lr=0.1)
    protocol = capax.Budget(head_counts=(1,), restarts=2, max_trainings=8)
    task, model = capax.Relations(n_items=4), capax.KeyQueryChannel(d_model=4)
    found = capax.sensitivity(task, model, training, choices={"steps": [3]}, protocol=protocol)
    base = capax.measure(task, model, training, protocol=protocol)
    assert found.compared == "total_key_dim"
    assert found.number == base.total_key_dim is not None
    assert found.interval == base.key_search.interval
    ((one,),) = (choice.alternatives for choice in found.choices)
    assert (one.number, one.change) == (4, 4 - base.total_key_dim)


def test_papers_alternatives_have_known_sources() -> None:
    table = stated_by("protocols")
    assert set(table["alternatives"]) == set(module.CHOICES)
    for rows in table["alternatives"].values():
        for row in rows:
            assert row["standing"] in table["standing"]
            assert row.get("paper") in table["papers"] or (row["standing"] == "ours" and "paper" not in row)


@pytest.mark.parametrize("run", [BASE, ASSOCIATIONS, RELATIONS], ids=["sequences", "associations", "relations"])
def test_papers_alternatives_are_allowed(run: Run) -> None:
    plans = variations_of(run, allowed(run))
    assert [one.choice for one in plans] == list(allowed(run))
    for one in plans:
        values = [variation.value for variation in one.variations]
        assert values or one.notes
        assert one.base_value not in values
        assert all(value_of(variation.run, one.choice) == variation.value for variation in one.variations)
        assert all(variation.sources for variation in one.variations)


def test_batches_are_cut_at_the_library() -> None:
    """Of 80 sequences a batch of 128 takes all, as one of 2048 and a full one do: one alternative, with all sources."""
    (one,) = variations_of(BASE, ["batch_size"])
    assert [variation.value for variation in one.variations] == [80]
    assert {source.paper for source in one.variations[0].sources} == {
        source.paper for _, source in published("batch_size", "sequences")
    }
    whole = BASE.replace(training=TRAINING.replace(batch_size=4096))
    with pytest.raises(SpecError, match=r"nothing to vary .*batch_size: .* 80"):
        variations_of(whole, ["batch_size"])


def test_a_budget_takes_the_place_of_the_whole_budget() -> None:
    """The published training of associations has 50,000 steps at least: 8 epochs must not be stretched to them."""
    assert value_of(ASSOCIATIONS, "epochs") == "500 epochs, at least 5000 steps"
    shorter = varied(ASSOCIATIONS, "epochs", 8)
    assert shorter.training.budget(40) == 8
    assert value_of(shorter, "epochs") == 8
    assert value_of(RELATIONS, "epochs") == "1500 steps"
    assert varied(RELATIONS, "epochs", 700).training.budget(16) == 700
    assert value_of(RELATIONS, "steps") == 1500


def test_the_bases_own_value_is_noted_and_not_measured() -> None:
    (one,) = variations_of(BASE, {"lr": ["1e-3", 3e-3]})
    assert [variation.value for variation in one.variations] == [3e-3]
    assert [note.split()[:2] for note in one.notes] == [["lr:", "0.001"]]
    (batch,) = variations_of(BASE.replace(training=TRAINING.replace(batch_size=80)), {"batch_size": [4096, 8]})
    assert [note.split()[:2] for note in batch.notes] == [["batch_size:", "4096"]]
    assert {source.paper for source in one.base_sources} > {"Härmä 2024", "Mahdavi 2024"}


@pytest.mark.parametrize(
    ("choice", "part", "value"),
    [
        ("vocab_size", "task", "7"),
        ("positions", "model", "frozen"),
        ("positions", "model", None),
        ("ffn", "model", None),
    ],
)
def test_fields_of_task_and_model_are_varied_alone(choice: str, part: str, value: str | None) -> None:
    other = varied(BASE, choice, value)
    expected = 7 if choice == "vocab_size" else value or "none"  # a model's none is one of its kinds
    assert value_of(other, choice) == expected != value_of(BASE, choice)
    assert other == BASE.replace(**{part: getattr(BASE, part).replace(**{choice: expected})})
    assert set(allowed(BASE)) - set(allowed(ASSOCIATIONS)) == {"loss", "vocab_size", "positions", "ffn"}
    assert not {"vocab_size", "positions", "ffn"} & set(allowed(RELATIONS))


def test_a_gpu_without_bfloat16_leaves_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a GPU is not at hand: only its answer is set."""
    assert capax.devices.multiplies_bfloat16("cpu")
    monkeypatch.setattr(devices, "multiplies_bfloat16", lambda device: False)
    found = capax.sensitivity(
        TASK, MODEL, TRAINING, choices={"precision": ["float64", "bfloat16"]}, restarts=1, device="cpu"
    )
    assert [other.value for other in found.choices[0].alternatives] == ["float64"]
    assert any("precision: bfloat16" in note for note in found.notes)


@pytest.mark.parametrize(
    ("run", "choices", "said"),
    [
        (BASE, ["dropout"], ["can vary lr, batch_size, loss", "got 'dropout'"]),
        (ASSOCIATIONS, ["loss"], ["'associations'", "can vary lr, batch_size, epochs", "got 'loss'"]),
        (BASE, {"ffn": ["wide"]}, ["ffn", "'mlp', 'identity' or 'none'", "'wide'"]),
        (BASE, {"vocab_size": [1]}, ["vocab_size", "1"]),
        (RELATIONS, ["restarts"], ["'budget'", "can vary", "got 'restarts'"]),
        (BASE, ["lr", "lr"], ["'lr' twice"]),
        (BASE, [], ["at least one choice of lr", "got none"]),
        (BASE, "lr", ["a list of choices", "'lr'"]),
        (BASE, {"lr": []}, ["lr", "a list of values", "[]"]),
        (BASE, {"lr": "0.1"}, ["lr", "a list of values", "'0.1'"]),
        (BASE, {"lr": [0.01, "1e-2"]}, ["lr", "each value once", "1e-2"]),
        (BASE, {"batch_size": [100, 200]}, ["batch_size", "each value once", "200"]),
        (BASE, {"lr": [1e-3]}, ["nothing to vary", "lr: 0.001"]),
        (BASE, {"lr": [-1]}, ["lr", "greater than 0", "-1"]),
        (BASE, {"lr": ["fast"]}, ["lr", "'fast'"]),
        (BASE, {"batch_size": [0]}, ["batch_size", "at least 1", "0"]),
        (BASE, {"batch_size": [None]}, ["batch_size", "None"]),
        (BASE, {"loss": ["first"]}, ["loss", "'all' or 'last'", "'first'"]),
        (BASE, {"epochs": [0]}, ["max_epochs", "at least 1", "0"]),
        (BASE, {"precision": ["float16"]}, ["precision", "float16"]),
        (BASE, {"restarts": [0]}, ["restarts", "at least 1"]),
        (BASE.replace(training=capax.Training()), ["schedule"], ["schedule", "needs a budget"]),
        (BASE.replace(training=capax.Training()), {"patience": [None]}, ["patience: none"]),
        (BASE.replace(training=TRAINING.replace(patience=None)), {"epochs": [None]}, ["epochs: none"]),
        (BASE.replace(protocol=capax.Shatter(trials=2)), ["lr"], ["protocol", "'shatter'", "'mac', 'mls', 'budget'"]),
    ],
)
def test_bad_choices(run: Run, choices: Any, said: list[str]) -> None:
    with pytest.raises(SpecError) as error:
        variations_of(run, choices)
    for word in said:
        assert word in str(error.value), str(error.value)


def test_json_is_the_record(studied: tuple[capax.Sensitivity, Path]) -> None:
    found, _ = studied
    assert capax.Sensitivity.model_validate_json(found.to_json()) == found
    assert json.loads(found.to_json())["choices"][0]["choice"] == found.choices[0].choice
