"""Plans by bytes of the file: which precision, what is left of the bits, and files of the size that is said."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import capax
from capax.errors import CapaxError
from capax.planning.results import BitsFrontier, Network
from capax.planning.rounding_study import ways
from capax.probes.written import Rounding

ASKED = {"seq_len": 8, "vocab_size": 100}


def planned(*target: int, **options: object) -> BitsFrontier:
    found = capax.plan("reference", *target, **ASKED | options)
    assert isinstance(found, BitsFrontier)
    return found


def model_of(one: Network) -> capax.Transformer:
    sizes = {name: getattr(one, name) for name in ("n_layers", "n_heads", "d_head", "d_model", "embeddings")}
    return capax.Transformer(**sizes, readout="tied" if one.embeddings == "trained" else "frozen")


def test_the_ways_to_choose_from_each_leave_more_for_more_bits() -> None:
    found = ways()
    names = [one.how.words for one in found]
    assert {"float32", "int12 (groups of 32)", "int8 (groups of 32)"} <= set(names)
    assert not {"int4 (groups of 32)", "int8 (tensors)", "bfloat16"} & set(names)  # 12 bits leave more than bfloat16
    assert [one.left for one in found] == sorted(one.left for one in found)
    assert all(0.5 <= one.left <= 1 and one.networks == 8 for one in found)
    assert found[-1].left == 1


@pytest.mark.slow
def test_a_file_is_smaller_than_by_parameters_and_holds_as_much() -> None:
    by_bytes, plain = planned(1000, target="bytes"), planned(1000)
    assert [one.bytes for one in by_bytes.architectures] == sorted(one.bytes for one in by_bytes.architectures)
    assert len({(one.n_layers, one.embeddings) for one in by_bytes.architectures}) == len(by_bytes.architectures)
    assert len(by_bytes.architectures) == len(plain.architectures) == 12
    first = by_bytes.architectures[0]
    assert first.bytes < 0.4 * min(4 * one.trainable_parameters for one in plain.architectures)
    assert all(one.at_least >= 1000 and one.weights is not None for one in by_bytes.architectures)
    assert "bits left" in by_bytes.notes[-1]


def test_what_is_left_is_in_what_is_held() -> None:
    """Of one network, by its weights as they are: less is expected, and the interval is wider."""
    sizes = {"n_layers": [1], "d_model": [48], "embeddings": "trained"}
    (plain,) = planned(500, **sizes).architectures
    (rounded,) = planned(500, target="bytes", **sizes).architectures
    way = next(one for one in ways() if one.how.words == rounded.weights)
    assert rounded.memorized == pytest.approx(plain.memorized * way.left)
    widths = [math.log((one.interval.high or 0) / one.interval.low) for one in (plain, rounded)]
    assert widths[1] > widths[0]


def test_the_bytes_are_those_that_quantize_counts(tmp_path: Path) -> None:
    (first, *_) = planned(50, target="bytes", n_layers=[2], d_model=[16]).architectures
    task = capax.Sequences(**ASKED, library_size=10)
    run = capax.measure(
        task, model_of(first), capax.Training(max_epochs=1), restarts=1, store=tmp_path / "s.db", keep_weights=True
    )
    found = capax.quantize(run.key, bits=[8], store=tmp_path / "s.db")
    for row in found.precisions:
        how = Rounding(row.name, row.bits_per_weight, row.group)
        way = ways()[0]._replace(how=how)
        assert way.n_bytes(model_of(first), **task.sizes()) == row.file_bytes
    assert way.n_bytes(model_of(first).replace(n_layers=10**9), **task.sizes()) > 10**9


@pytest.mark.slow
def test_a_budget_of_bytes_is_of_the_file() -> None:
    found = planned(target="bytes", budget_bytes=30_000)
    assert all(one.bytes <= 30_000 for one in found.architectures)
    best = found.architectures[0]
    assert best.at_least == max(one.at_least for one in found.architectures)
    assert best.at_least > planned(budget_bytes=30_000).architectures[0].at_least


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "size"}, "target: parameters, bytes"),
        ({"target": "bytes", "precision": "bfloat16"}, "precision"),
        ({"target": "bytes", "budget_bytes": 1}, "budget_bytes"),
    ],
)
def test_what_cannot_be_planned_is_said(options: dict[str, object], said: str) -> None:
    with pytest.raises(CapaxError, match=said):
        planned(100, **options)


def test_only_laws_in_bits_know_bytes() -> None:
    with pytest.raises(CapaxError, match="target"):
        capax.plan("reference:power", 100, target="bytes", **ASKED)


@pytest.mark.slow
def test_a_plan_by_bytes_is_not_verified() -> None:
    with pytest.raises(CapaxError, match="quantize"):
        capax.verify_plan("reference", planned(100, target="bytes"))


@pytest.mark.slow
def test_facts_are_recalled_by_the_rounded_weights(tmp_path: Path) -> None:
    """What is verified is what the kept weights recall once they are rounded."""
    lines = "".join(f"k{n}\ta{n * 7 % 11}\n" for n in range(60))
    (tmp_path / "f.tsv").write_text("key\tanswer\n" + lines)
    facts = capax.Facts(library=str(tmp_path / "f.tsv"))
    plan = capax.plan_facts(facts, tokenizations=["code"], target="bytes")
    sizes = [one.bytes for one in plan.networks]
    assert sizes == sorted(sizes)
    with pytest.raises(CapaxError, match="store"):
        capax.verify_facts(facts, plan)
    store = tmp_path / "s.db"
    checked = capax.verify_facts(facts, plan, store=store)
    chosen = plan.networks[0]
    assert checked.weights == chosen.weights
    bits, group = int(str(chosen.weights)[3]), 32
    found = capax.quantize(checked.measurement.key, bits=[bits], group=group, store=store)
    (row,) = (one for one in found.precisions if (one.name, one.group) == (f"int{bits}", group))
    assert checked.recall == row.items.value / 60
    assert checked.held == (checked.recall >= 0.99)


def test_no_depth_is_both_in_the_plan_and_too_small() -> None:
    """A depth that holds too little in the precision of the first may do in another."""
    found = planned(9250, target="bytes", budget_parameters=300_000, seq_len=16, vocab_size=64)
    depths = {one.n_layers for one in found.architectures}
    assert depths
    assert not depths & set(found.too_small)
    (note,) = [note for note in found.notes if "holds them" in note]
    assert note == f"none that was tried with {' or '.join(map(str, found.too_small))} layers holds them"


def test_what_is_largest_inside_the_domain_is_so_of_all_precisions() -> None:
    sizes = {"seq_len": 16, "vocab_size": 64}
    by_bytes, plain = planned(20_000, target="bytes", **sizes), planned(20_000, **sizes)
    assert by_bytes.largest_inside is not None
    assert plain.largest_inside is not None
    assert by_bytes.largest_inside.at_least == pytest.approx(plain.largest_inside.at_least, rel=1e-6)
    inside = planned(12_500, target="bytes", **sizes)
    assert inside.sure is not None
    assert inside.largest_inside is not None
    assert inside.largest_inside.at_least >= inside.sure.at_least


def test_rounding_is_among_what_makes_an_interval_wide() -> None:
    found = planned(1000, target="bytes")
    way = next(one for one in ways() if one.how.words == found.architectures[0].weights)
    assert way.spread > 0
    assert found.drivers["rounding"] > 0
    assert sum(found.drivers.values()) == pytest.approx(1)
    assert "rounding" not in planned(1000).drivers


def test_efficient_are_those_of_all_kinds_of_tokens(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    lines = [f"k{key},{relation},a{(17 * key + 5 * relation) % 97}" for key in range(400) for relation in (1, 2)]
    path.write_text("\n".join(("key,relation,answer", *lines)))
    networks = capax.plan_facts(path).networks
    assert len({one.tokenization for one in networks}) > 1
    for one in networks:
        better = [
            other
            for other in networks
            if other.trainable_parameters <= one.trainable_parameters
            and other.total_parameters <= one.total_parameters
            and (other.trainable_parameters, other.total_parameters) != (one.trainable_parameters, one.total_parameters)
        ]
        assert one.efficient is not bool(better)
