"""Plans: what holds a target, what comes nearest, and whether a trained model keeps the promise."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import capax
from capax.errors import CapaxError, LawError, OutsideDomain
from capax.laws.law import Law
from capax.models.transformer import TransformerEnsemble
from capax.planning.answers import KINDS
from capax.planning.question import Question
from capax.store import table_files

REAL = Path(__file__).parents[1] / "laws" / "data" / "study.csv"


@pytest.fixture(scope="module")
def law() -> Law:
    return capax.PowerLaw(n_bootstrap=200).fit(pl.read_csv(REAL))


# Sizes


@settings(derandomize=True, max_examples=40, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 5)] * 3, st.integers(1, 9), st.none() | st.integers(1, 9)),
    ffn=st.sampled_from(["mlp", "identity", "none"]),
    states=st.tuples(*[st.sampled_from(["frozen", "trained"])] * 3),
    norms=st.booleans(),
    tokens=st.tuples(st.integers(2, 9), st.integers(1, 6)),
)
def test_counts_are_those_of_the_tensors(
    sizes: tuple[int, int, int, int, int | None], ffn: Any, states: Any, norms: bool, tokens: tuple[int, int]
) -> None:
    n_layers, n_heads, d_model, d_head, d_value = sizes
    embeddings, positions, readout = states
    spec = capax.Transformer(
        n_layers=n_layers,
        n_heads=n_heads,
        d_model=d_model,
        d_head=d_head,
        d_value=d_value,
        ffn=ffn,
        embeddings=embeddings,
        positions=positions,
        readout=readout,
        norms=norms,
    )
    sizes = {"vocab_size": tokens[0], "context": tokens[1]}
    built = TransformerEnsemble.initialize(spec, sizes, generators=[torch.Generator().manual_seed(0)])
    assert spec.parameter_counts(**sizes) == built.parameter_counts()


@pytest.mark.parametrize(("d_model", "n_heads", "published"), [(16, 1, 6_272), (256, 1, 591_872), (512, 4, 2_625_536)])
def test_counts_are_those_of_x_transformers(d_model: int, n_heads: int, published: int) -> None:
    """Blocks, norms and no tables: L·(8B² + 256HB + 7B) + B."""
    spec = capax.Transformer(d_model=d_model, n_heads=n_heads, positions="frozen")
    assert spec.parameter_counts(vocab_size=100, context=31)["trainable"] == published


# Plans


def rows(n_heads: int, d_model: int) -> dict[str, np.ndarray]:
    """The row of one architecture, of 8 tokens."""
    question = Question(fitted(), {"seq_len": 8})
    return question.table([capax.Transformer(n_heads=n_heads, d_model=d_model)])


def test_each_architecture_holds_and_the_next_smaller_does_not(law: Law) -> None:
    found = capax.plan(law, 300, seq_len=8, multiple=4)
    assert [row.n_heads for row in found.architectures] == sorted(
        (row.n_heads for row in found.architectures),
        key=lambda heads: next(row.trainable_parameters for row in found.architectures if row.n_heads == heads),
    )
    for row in found.architectures:
        assert row.at_least >= 300
        smaller = rows(row.n_heads, row.d_model - 4)
        assert law.quantile(smaller, 0.1)[0] < 300
        here = rows(row.n_heads, row.d_model)
        assert law.quantile(here, 0.1)[0] == pytest.approx(row.at_least, rel=1e-9)
        assert law.predict(here)[0] == pytest.approx(row.memorized, rel=1e-9)
        assert row.tokens_per_parameter == pytest.approx(8 * row.memorized / row.trainable_parameters)
        assert row.bytes == 4 * row.total_parameters
    assert found.architectures[0].efficient
    assert found.nearest is None


@pytest.mark.slow
@settings(derandomize=True, max_examples=12, deadline=None)
@given(target=st.integers(20, 1200), probability=st.floats(0.55, 0.99))
def test_more_or_surer_needs_no_less(target: int, probability: float) -> None:
    law = fitted()

    def size(sequences: int, sure: float) -> float:
        found = capax.plan(law, sequences, seq_len=8, probability=sure)
        return found.architectures[0].trainable_parameters if found.architectures else np.inf

    assert size(target, probability) <= size(target + 100, probability)
    assert size(target, probability) <= size(target, (1 + probability) / 2)


@cache
def fitted() -> Law:
    return capax.PowerLaw(n_bootstrap=200).fit(pl.read_csv(REAL))


def test_gains_are_differences_per_parameter(law: Law) -> None:
    first = next(row for row in capax.plan(law, 300, seq_len=8).architectures if row.n_heads == 2)
    grown = {"gain_of_head": rows(3, first.d_model), "gain_of_width": rows(2, first.d_model + 8)}
    for name, table in grown.items():
        more = law.predict(table)[0] - first.memorized
        assert getattr(first, name) == pytest.approx(
            1000 * more / (table["trainable_parameters"][0] - first.trainable_parameters)
        )
    most = next(row for row in capax.plan(law, 300, seq_len=8).architectures if row.n_heads == 4)
    assert most.gain_of_head is None


def test_constraints_are_kept(law: Law) -> None:
    found = capax.plan(law, 100, seq_len=16, n_heads=[4, 2], multiple=16, precision="bfloat16", probability=0.5)
    assert {row.n_heads for row in found.architectures} == {2, 4}
    assert all(row.d_model % 16 == 0 for row in found.architectures)
    assert all(row.bytes == 2 * row.total_parameters for row in found.architectures)
    tight = capax.plan(law, 300, seq_len=8, budget_parameters=35_000)
    assert {row.n_heads for row in tight.architectures} < {1, 2, 3, 4}
    assert all(row.trainable_parameters <= 35_000 for row in tight.architectures)
    exact = capax.plan(law, 300, seq_len=8, d_model=[50], n_heads=[1])
    assert [row.d_model for row in exact.architectures] == [50]


def test_a_target_that_nothing_holds_gives_the_nearest(law: Law) -> None:
    found = capax.plan(law, 10**6, seq_len=8)
    assert found.architectures == ()
    assert found.nearest is not None
    assert (found.nearest.n_heads, found.nearest.d_model) == (4, 64)
    assert found.nearest.at_least < 10**6


def test_the_default_law_and_the_published_one() -> None:
    assert capax.plan("reference:power", 100, seq_len=32).source == "reference:grid"
    found = capax.plan("published:harma2024", 1000, seq_len=32)
    assert found.source == "published:harma2024"
    assert [row.n_heads for row in found.architectures] == [4, 3, 2, 1]
    assert any("Table 1" in note for note in found.notes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"items": 0}, "items: .*0"),
        ({"items": None}, "items: is required"),
        ({"seq_len": 1}, "seq_len: .*2.*got 1"),
        ({"seq_len": None}, "seq_len: is required"),
        ({"seq_len": 64}, "seq_len 64 is outside 8 to 32"),
        ({"vocab_size": 16}, "vocab_size 16 is not 100"),
        ({"vocab_size": 1}, "vocab_size"),
        ({"context_size": 4}, "context_size: .*seq_len.*n_heads"),
        ({"n_heads": [8]}, "n_heads 8 is outside 1 to 4"),
        ({"n_heads": []}, "n_heads: .*none"),
        ({"n_heads": [0]}, "n_heads: .*0"),
        ({"n_layers": [2]}, "n_layers 2 is not 1"),
        ({"d_model": [512]}, "d_model 512 is outside 16 to 64"),
        ({"multiple": 100}, "d_model: the law's domain .* offers none"),
        ({"multiple": 0}, "multiple: .*0"),
        ({"multiple": 4, "d_model": [8]}, "multiple: not where d_model is given.*got 4"),
        ({"budget_parameters": 10}, "budget_parameters: at least 6384 .*10"),
        ({"probability": 1.0}, "probability: .*1.0"),
        ({"precision": "int8"}, "precision: float32, float64, bfloat16.*'int8'"),
    ],
)
def test_bad_plans_are_refused(law: Law, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(CapaxError, match=said):
        capax.plan(law, **{"items": 100, "seq_len": 8} | changes)


@pytest.mark.slow
def test_what_was_not_tried_is_said(law: Law) -> None:
    """A value that was given and lies outside by what follows from it, and an end of the domain between two steps."""
    found = capax.plan("reference:relation", 64, n_items=64, d_model=[32, 128])
    assert {row.d_model for row in found.architectures} == {32}
    assert "d_model 128 is left out: outside the domain of the law: load 3 is outside 5 to 72" in found.notes
    coarse = capax.plan(law, 5000, seq_len=8, multiple=48)
    assert "d_model was tried up to 48, and the domain ends at 64: a smaller multiple tries more" in coarse.notes
    assert not any("was tried up to" in note for note in capax.plan(law, 5000, seq_len=8).notes)
    assert not any("was tried up to" in note for note in capax.plan(law, 5, seq_len=8, multiple=48).notes)


def test_extrapolation_is_said(law: Law) -> None:
    found = capax.plan(law, 5000, seq_len=8, n_heads=[8], d_model=[64, 128, 256], extrapolate=True)
    assert found.architectures[0].d_model == 128
    assert any("n_heads 8" in note and "1 to 4" in note for note in found.notes)
    with pytest.raises(LawError, match="changes sign"):
        capax.plan("published:harma2024", 5000, seq_len=8, n_heads=[12], extrapolate=True)


def test_predictions_say_where_they_stand(law: Law) -> None:
    inside = capax.predict(law, n_heads=2, d_model=40, seq_len=16)
    assert inside.inside_domain
    assert inside.interval.low < inside.value < inside.interval.high
    assert inside.vocab_size == 100
    outside = capax.predict(law, n_heads=2, d_model=128, seq_len=16, extrapolate=True)
    assert outside.outside == ("d_model 128 is outside 16 to 64",)
    with pytest.raises(LawError, match="d_head 32 is not 64"):
        capax.predict(law, n_heads=2, d_model=32, d_head=32, seq_len=16)


# Verified by training


@pytest.mark.very_slow
def test_a_plan_holds_when_it_is_trained(law: Law, tmp_path: Path) -> None:
    """120 sequences of 8 tokens: the planned model is trained as the law's data were, and the law learns from it."""
    found = capax.plan(law, 120, seq_len=8, probability=0.95, n_heads=[2])
    checked = capax.verify_plan(law, found, store=tmp_path / "s.db")
    run = checked.measurement
    assert run.library_size == 120
    assert run.spec.training.max_steps == 600  # as many steps as 150 epochs of 2000 sequences
    assert run.spec.protocol.restarts == 3
    assert checked.miss_percent == pytest.approx(100 * (120 - run.memorized) / 120)
    assert checked.held == (run.memorized == 120)
    learned = capax.PowerLaw().fit(
        pl.concat([pl.read_csv(REAL), capax.read(tmp_path / "s.db")], how="diagonal_relaxed")
    )
    assert len(learned.rows_.counts) == 45  # four of the study are not above chance


def test_a_plan_that_cannot_hold_is_told_so(tmp_path: Path) -> None:
    """A law that promises too much: the smallest model does not hold 60 sequences after 2 epochs."""
    rows_ = pl.read_csv(REAL).with_columns(
        max_epochs=pl.lit(2), restarts=pl.lit(1), memorized_above_chance=pl.lit(99.0)
    )
    rows_ = rows_.with_columns(memorized_above_chance=99.0 + pl.col("d_model"))
    law = capax.PowerLaw(n_bootstrap=20).fit(rows_)
    found = capax.plan(law, 60, seq_len=8)
    assert (found.architectures[0].n_heads, found.architectures[0].d_model) == (1, 16)
    checked = capax.verify_plan(law, found, store=tmp_path / "s.db")
    assert not checked.held
    assert checked.miss_percent > 50
    assert len(capax.read(tmp_path / "s.db")) == 1


def test_where_all_is_outside_the_domain_that_is_said_and_no_budget() -> None:
    """The law of bits depends on parameters, whose range no size that is given alone tells of."""
    rows = table_files.from_file("reference:grid")
    law = capax.BitsLaw(target="capacity_items", n_bootstrap=10).fit(rows)
    least, most = law.domain_.ranges["trainable_parameters"]
    with pytest.raises(OutsideDomain, match=r"^outside the domain of bits .*: trainable_parameters \d+ is outside"):
        capax.plan(law, 40, seq_len=8, n_heads=[4], d_model=[32])
    with pytest.raises(LawError, match=r"^budget_parameters: at least (\d+) .* got 1$") as error:
        capax.plan(law, 40, seq_len=8, n_heads=[1], d_model=[8, 32], budget_parameters=1)
    assert least <= int(str(error.value).split()[3]) <= most


@pytest.mark.slow
def test_widths_whose_load_a_law_does_not_know_are_left_out() -> None:
    """With 64 edges width 128 has a load of 3, below all that the law knows; the other widths are planned."""
    frontier = capax.plan("reference:relation", 64, n_items=64)
    widths = {row.d_model for row in frontier.architectures}
    assert widths
    assert max(widths) < 128
    with pytest.raises(OutsideDomain, match="load"):
        capax.plan("reference:relation", 64, n_items=64, d_model=128)


@pytest.mark.slow
@pytest.mark.parametrize("heads", [(1, 2, 3, 4), (1, 4)])
def test_beyond_the_domain_the_smallest_is_found_whatever_else_is_asked(heads: tuple[int, ...]) -> None:
    """Few heads need a width that lies further beyond it than that of many, and are smaller."""
    each = [
        capax.plan("reference:power", 3000, seq_len=8, n_heads=[count], extrapolate=True).architectures
        for count in heads
    ]
    together = capax.plan("reference:power", 3000, seq_len=8, n_heads=list(heads), extrapolate=True).architectures
    smallest = min((rows[0] for rows in each), key=lambda row: row.trainable_parameters)
    assert (together[0].n_heads, together[0].d_model) == (smallest.n_heads, smallest.d_model)


def test_kinds_of_networks_that_no_data_were_of_are_told() -> None:
    sizes = {"seq_len": 16, "vocab_size": 100, "n_layers": 2, "n_heads": 2, "d_head": 16, "d_model": 32}
    plain, mixed = capax.predict(**sizes), capax.predict(**sizes, n_experts=4)
    assert KINDS in mixed.notes
    assert KINDS not in plain.notes


def test_a_law_of_somebodys_column_is_no_question_to_a_model() -> None:
    rows = {"my_size": np.geomspace(1, 100, 12), "memorized": 3 * np.geomspace(1, 100, 12) ** 0.9}
    law = capax.PowerLaw(axes=["my_size"], target="memorized").fit(rows)
    for asked in (lambda: capax.predict(law, my_size=20), lambda: capax.plan(law, 100)):
        with pytest.raises(LawError, match=r"^my_size: is no size of the model transformer, but a column of the law's"):
            asked()
    assert law.predict({"my_size": [20.0]})[0] == pytest.approx(3 * 20**0.9)


def test_heads_beyond_the_domain_are_the_fewest_that_are_enough() -> None:
    """They are doubled first; also where a budget lies between two doublings."""
    asked: dict[str, Any] = {"context_size": 4, "extrapolate": True}
    first = capax.plan("reference:association", 20_000, **asked).architectures[0]
    assert first.at_least >= 20_000

    def holds(n_heads: int) -> bool:
        sizes = {"n_heads": n_heads, "d_model": first.d_model, "d_head": first.d_head}
        return bool(capax.plan("reference:association", 20_000, **asked, **sizes).architectures)

    assert holds(first.n_heads)
    assert not holds(first.n_heads - 1)
    within = capax.plan("reference:association", 20_000, budget_parameters=first.trainable_parameters + 1, **asked)
    assert [one.n_heads for one in within.architectures] == [first.n_heads]
    less = capax.plan("reference:association", 20_000, budget_parameters=first.trainable_parameters - 1, **asked)
    assert less.architectures == ()
    assert less.nearest is not None
