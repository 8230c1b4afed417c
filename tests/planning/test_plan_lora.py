"""Plans of adapters: the loads of a study, the smallest rank that is sure, and the rules beside it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import polars
import pytest
from made_base import write_base
from scipy import stats

import capax
from capax.cli import main
from capax.errors import LawError
from capax.planning.adapters import AdapterPlan, Layers, plan_lora, published_bits, verify_lora
from capax.planning.lora_study import curves, expected_recall, load, study
from capax.specs import Facts, Lora, Training
from capax.store import published


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def facts(base: Path) -> Facts:
    path = base / "facts.tsv"
    path.write_text("key\trelation\tanswer\n" + "".join(f"k{n}\tword\ta{n}\n" for n in range(40)))
    return Facts(library=str(path), tokenizer=str(base))


@pytest.fixture(scope="module")
def plan(facts: Facts, base: Path) -> AdapterPlan:
    return plan_lora(facts, base, recall=0.99)


def rows(file: str, shares: list[float], first: float) -> list[dict[str, object]]:
    """A file in networks of a thousand effective parameters, from a load on, each twice the one before."""
    same = {"file": file, "base": "b", "targets": "mlp", "kind": "LoRA", "r": 1, "effective_parameters": 1000}
    return [
        {**same, "facts": 100, "recalled": round(100 * share), "entropy_bits": first * 2**place * 1000}
        for place, share in enumerate(shares)
    ]


def test_a_load_is_the_mean_of_the_files_and_its_quantiles_are_students() -> None:
    table = polars.DataFrame(
        [*rows("a", [1.0, 0.5], 0.4), *rows("b", [1.0, 0.5], 0.8), *rows("c", [1.0, 0.5], 1.6), *rows("d", [1.0], 1.0)]
    )
    found = load(table, "mlp", 0.75)
    each = np.log([0.4, 0.8, 1.6]) + 0.5 * math.log(2)  # half way between 1.0 and 0.5, in logarithms
    assert found.bits == pytest.approx(math.exp(each.mean()), rel=1e-12)
    assert found.spread == pytest.approx(each.std(ddof=1), rel=1e-12)
    assert found.files == 3  # d was recalled whole by all that were tried
    low, high = stats.t.interval(0.95, 2, each.mean(), each.std(ddof=1) * math.sqrt(4 / 3))
    assert found.quantile(0.025) == pytest.approx(math.exp(low), rel=1e-9)
    assert found.quantile(0.975) == pytest.approx(math.exp(high), rel=1e-9)
    bound = load(polars.concat([table, polars.DataFrame(rows("e", [0.6, 0.5], 0.2))]), "mlp", 0.75)
    assert bound.files == 4
    assert bound.bits == pytest.approx(math.exp((each.sum() + np.log(0.2)) / 4), rel=1e-12)
    with pytest.raises(LawError, match=r"recall: of adapters on mlp the study tells those from 0\.51 on, got 0\.2$"):
        load(table, "mlp", 0.2)
    assert len(curves(table, "attention")) == 4  # none was measured: those of any layers


def test_layers_that_were_not_studied_count_each_file_once(facts: Facts, base: Path) -> None:
    """Three files on two kinds of layers are no six files."""
    table = study()
    assert load(table, "attention", 0.99).files == load(table, "mlp", 0.99).files == 3
    assert load(table, "attention,mlp", 0.99).files == 3
    found = plan_lora(facts, base, recall=0.99, targets=["attention", "attention,mlp"])
    assert {one.targets: one.studied for one in found.adapters} == {"attention": True, "attention,mlp": False}
    assert "attention,mlp: not in the study; its adapters on attention and mlp stand for them" in found.notes


def test_a_fuller_adapter_than_any_is_taken_to_recall_as_many_facts() -> None:
    table = polars.DataFrame([*rows("a", [1.0, 0.6], 0.5), *rows("b", [1.0, 0.8], 0.5)])
    assert expected_recall(table, "mlp", 0.25) == 1
    assert expected_recall(table, "mlp", 1.0) == pytest.approx(0.7)
    assert expected_recall(table, "mlp", 2.0) == pytest.approx(0.35)


def test_layers_count_as_the_adapter_does(facts: Facts, base: Path) -> None:
    for targets in ("attention", "mlp", "attention,mlp"):
        layers = Layers.of(Lora(base=str(base), lora={"r": 1}, targets=targets), facts)
        for rank in (1, 3):
            spec, sizes = Lora(base=str(base), lora={"r": rank}, targets=targets), facts.sizes()
            assert layers.trainable(rank) == spec.parameter_counts(**sizes)["trainable"]
            assert layers.effective(rank) == spec.effective_parameters(**sizes)


def test_each_rank_is_the_smallest_that_is_sure(plan: AdapterPlan, facts: Facts, base: Path) -> None:
    bits = facts.library_size * facts.known.entropy_per_fact
    sizes = [one.trainable_parameters for one in plan.adapters]
    assert sizes == sorted(sizes)
    for one in plan.adapters:
        layers = Layers.of(Lora(base=str(base), lora={"r": 1}, targets=one.targets), facts)
        sure = load(study(), one.targets, 0.99).quantile(0.1)
        assert layers.effective(one.r) * sure >= bits
        assert one.r == 1 or layers.effective(one.r - 1) * sure < bits
        assert one.at_least == pytest.approx(layers.effective(one.r) * sure / facts.known.entropy_per_fact)
        assert one.at_least >= facts.library_size
        assert one.interval.low < one.at_least < one.facts < one.interval.high  # type: ignore[operator]
        assert one.bytes == 4 * one.trainable_parameters
    assert plan.base_parameters == sum(
        one.numel()
        for one in Lora(base=str(base), lora={"r": 1}).torch_module(facts.sizes(), 0).parameters()
        if not one.requires_grad
    )


def test_rules_are_what_they_say(plan: AdapterPlan, facts: Facts) -> None:
    bits = facts.library_size * facts.known.entropy_per_fact
    two, samples, nguyen = plan.rules
    assert two.adapter.trainable_parameters * 2 >= bits
    assert samples.adapter.r == 8
    assert nguyen.adapter.r == 16  # the largest of any layer
    assert published_bits(plan.base_parameters, nguyen.adapter.trainable_parameters) < bits
    assert [rule.enough for rule in plan.rules] == [True, True, False]
    assert all(0 <= one.expected_recall <= 1 for one in plan.rules)
    assert two.size == pytest.approx(two.adapter.trainable_parameters / plan.adapters[0].trainable_parameters)


def test_a_published_law_is_told_to_be_asked_outside_its_data(plan: AdapterPlan) -> None:
    (note,) = [note for note in plan.notes if note.startswith("Nguyen")]
    assert note.startswith("Nguyen, refitted: an extrapolation, as the published data are of bases of 20 to")


def test_the_refitted_law_is_the_least_squares_of_logarithms() -> None:
    table = published.table("published:nguyen2026")
    found = [published_bits(*row) for row in table.select("base_parameters", "adapter_parameters").iter_rows()]
    logs = np.log(np.array(found)) - np.log(table["capacity_bits"].to_numpy())
    assert abs(logs.mean()) < 1e-9
    assert abs(np.corrcoef(logs, np.log(table["adapter_parameters"].to_numpy()))[0, 1]) < 1e-6


@pytest.mark.very_slow
def test_a_plan_is_verified_by_training(facts: Facts, plan: AdapterPlan, tmp_path: Path) -> None:
    found = verify_lora(facts, plan, training=Training(max_epochs=2), store=tmp_path / "s.db")
    run = found.measurement
    assert found.recall == run.memorized / 40
    assert found.held == (found.recall >= 0.99)
    assert (run.spec.model.columns()["r"], run.spec.model.columns()["targets"]) == (
        plan.adapters[0].r,
        plan.adapters[0].targets,
    )
    assert "base_loss_after" in run.metrics


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"recall": 1.0}, "recall: above 0 and below 1"),
        ({"probability": 0.3}, "probability: at least 0.5"),
        ({"targets": ()}, "targets: at least one"),
        ({"targets": ("nothing",)}, "targets: 'nothing' matches no linear layer"),
    ],
)
def test_bad_input_is_one_line(facts: Facts, base: Path, changes: dict[str, object], match: str) -> None:
    with pytest.raises(capax.CapaxError, match=match):
        plan_lora(facts, base, **{"recall": 0.99, **changes})  # type: ignore[arg-type]


def test_a_loss_on_the_questions_is_refused(facts: Facts, base: Path) -> None:
    with pytest.raises(capax.CapaxError, match="loss: 'answer'"):
        plan_lora(facts.replace(loss="all"), base)


def test_layers_that_the_study_does_not_tell_of_leave_the_others(facts: Facts, base: Path) -> None:
    found = plan_lora(facts, base, recall=0.95)
    assert {one.targets for one in found.adapters} == {"mlp", "attention,mlp"}
    assert any("attention: recall: of adapters on attention the study tells those from" in note for note in found.notes)
    with pytest.raises(LawError, match=r"^recall: of adapters on attention the study tells those from 0\.98 on"):
        plan_lora(facts, base, recall=0.95, targets=("attention",))
    wide = plan_lora(facts, base, recall=0.95, targets=("attention", "up_proj"))
    assert {one.targets for one in wide.adapters} == {"up_proj"}
    assert {rule.adapter.targets for rule in wide.rules} == {"up_proj"}, "rules are of layers that the study tells of"


def test_a_prompt_shows_what_the_rules_say(plan: AdapterPlan) -> None:
    rows = plan.overview().table
    assert len(rows["rank"]) == len(plan.adapters) + len(plan.rules)
    for rule, rank, recall in zip(plan.rules, rows["rank"][-3:], rows["recall"][-3:], strict=True):
        assert rank.startswith(">") is not rule.enough
        assert recall == f"{rule.expected_recall:.0%}"


def test_the_command_says_what_the_function_does(
    facts: Facts, base: Path, plan: AdapterPlan, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["plan", "lora", facts.library, "--base", str(base), "--recall", "0.99"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert ended.value.code == 0
    assert AdapterPlan.model_validate(told) == plan
    with pytest.raises(SystemExit):
        main(arguments)
    shown = capsys.readouterr().out
    for word in ("measured", "Schulman 2025", "Nguyen 2026", "attention,mlp"):
        assert word in shown
