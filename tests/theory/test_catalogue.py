"""The catalogue of one architecture: complete, with reasons for what has no value, and never below a measurement."""

from math import log2
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import capax
from capax import Associations, AssociativeAttention, KeyQueryChannel, Relations, Run, Sequences, Training, Transformer
from capax.errors import SpecError
from capax.results import HeadCount, Interval, KeyDimensionSearch, Measurement, Parameters
from capax.tasks import graph_classes
from capax.theory.bounds.catalogue import Catalogue, bounds
from capax.theory.bounds.exceeded import exceeded

EXAMPLE = Transformer(n_heads=4, d_model=64, d_head=16)
LAYER = ["mahdavi2024", "shared_context_rank", "fresh_context_rank", "parameter_limit"]
MODEL = [
    "dana2025", "dana2025_accuracy", "madden2025_upper", "madden2025_empirical_upper", "madden2025_lower", "kim2023",
    "kajitsuka_sato2024", "kajitsuka_sato2025", "kajitsuka_sato2025_all", "nichani2025_attention", "nichani2025_mlp",
]  # fmt: skip
CHANNEL = ["adler2025", "quantised", "margin", "real", "sign_patterns", "one_head", "one_edge_a_head"]
RATES = ["allenzhu2024", "morris2025_bf16", "morris2025_bf16_gpt2", "morris2025_fp32", "morris2025_fp32_gpt2"]
MEMORIES = [
    "linear_associative_memory", "hopfield", "hopfield_all", "hopfield_retrieval", "dense_associative_memory",
    "ramsauer2020", "vardi2022", "baum1988", "perceptron", "binary_perceptron",
]  # fmt: skip


def applying(found: Catalogue) -> list[str]:
    return [one.name for one in found.bounds if "does not apply" not in str(one.reason)]


def complete(found: Catalogue) -> None:
    """Whatever has no value or no bits says why."""
    for one in found.bounds:
        assert (one.value is None) == (one.reason is not None), one.name
        assert (one.bits is None) == (one.bits_reason is not None), one.name
        broken = [assumption for assumption in one.assumptions if assumption.needed and assumption.met is False]
        assert not broken or one.value is None
        if one.kind == "order":
            assert one.value is None
            assert one.bits is None
        if one.kind == "rate":
            assert not any(assumption.needed for assumption in one.assumptions)
        if one.proved_for_recall:
            assert one.name in ("stored_bits", "quantised")
            assert one.standing == "derived"
    assert Catalogue.model_validate_json(found.model_dump_json()) == found


def test_every_bound_is_there() -> None:
    found = bounds(EXAMPLE, seq_len=32, vocab_size=100, n_items=256, n_edges=256, library_size=2500)
    complete(found)
    assert [one.name for one in found.bounds] == [*LAYER, *MODEL, *CHANNEL, "stored_bits", *RATES, *MEMORIES]
    assert {name: found[name].value for name in ("mahdavi2024", "dana2025", "madden2025_upper")} == {
        "mahdavi2024": 4 * 15 + 1,
        "dana2025": 4 * 16 + 64,
        "madden2025_upper": 51_648 // 99,
    }
    assert found["mahdavi2024"].bits is None  # values of 16 channels are fewer than the classes
    assert "d_value = 16 numbers" in found["mahdavi2024"].bits_reason
    assert found["dana2025_accuracy"].value == pytest.approx(0.01 + 0.99 * 128 / 2500)
    assert {one.scope for one in found.bounds[:4]} == {"attention"}
    with pytest.raises(KeyError):
        found["mahdavi"]


def test_each_assumption_is_met_unmet_or_unknown() -> None:
    found = bounds(EXAMPLE, seq_len=32, vocab_size=100)["mahdavi2024"]
    assert [assumption.met for assumption in found.assumptions] == [True, None, None, False, False, True]
    layer = EXAMPLE.replace(d_head=64, ffn="none", norms=False)
    met = [one.met for one in bounds(layer, seq_len=32)["mahdavi2024"].assumptions]
    assert met == [True, None, None, True, True, True]
    others: list[dict[str, Any]] = [{"n_heads": 2, "n_kv_heads": 1}, {"window": 4}, {"positions": "alibi"}]
    others += [
        {"positions": "rotary"},
        {"attention": "linear"},
        {"attention": "delta"},
        {"stride": 3},
        {"values": False},
    ]
    for other in others:
        found = bounds(layer.replace(**other), seq_len=32)["mahdavi2024"]
        assert (found.value, found.assumptions[-1].met) == (None, False)


def test_context_size_is_that_of_the_sequence_or_the_given() -> None:
    assert bounds(Transformer(n_heads=20, d_model=64), seq_len=33)["mahdavi2024"].value == 621
    assert bounds(Transformer(n_heads=20, d_model=64), seq_len=9, context_size=32)["mahdavi2024"].value == 621
    long = bounds(EXAMPLE, seq_len=65)["mahdavi2024"]
    assert (long.value, long.bits) == (None, None)
    assert "context_size < d_model" in long.reason


def test_without_sizes_reasons_take_the_place_of_values() -> None:
    for spec in (Transformer(), AssociativeAttention(), KeyQueryChannel(), KeyQueryChannel(d_head=3)):
        complete(bounds(spec))
        complete(bounds(spec, n_items=2, n_edges=2))  # one graph
    found = bounds(Transformer())
    assert "context_size" in found["mahdavi2024"].reason
    assert "vocab_size" in str(found["madden2025_upper"].reason)
    assert "seq_len" in str(found["stored_bits"].reason)
    assert found.parameters.trainable is None
    assert bounds(Transformer(positions="frozen")).parameters.trainable is not None
    assert "d_head" in str(bounds(KeyQueryChannel())["stored_bits"].reason)


def test_a_layer_and_a_channel_have_their_own() -> None:
    layer = bounds(AssociativeAttention(n_heads=20), context_size=32, n_classes=100)
    complete(layer)
    assert applying(layer) == [*LAYER, *CHANNEL, "stored_bits", *MEMORIES]
    assert layer["mahdavi2024"].value == 621
    assert layer["stored_bits"].value == int(32 * layer.parameters.trainable / log2(100))
    assert "labels" in bounds(AssociativeAttention(), context_size=32, d_out=3)["stored_bits"].reason
    channel = bounds(KeyQueryChannel(n_heads=2, d_head=8), n_items=64, n_edges=64)
    complete(channel)
    assert applying(channel) == [*CHANNEL, "stored_bits", *MEMORIES]
    assert "tokens or examples" in str(channel["mahdavi2024"].reason)
    per_edge = graph_classes.digraphs(64, 64).bits / 64
    assert channel["stored_bits"].value == int(32 * (2 * 32 * 16 + 2) / per_edge)
    routed = bounds(KeyQueryChannel(d_head=8, channel="softmax"), n_items=64, n_edges=64)
    assert "scores alone decide" in str(routed["quantised"].reason)
    assert "joined by their maximum" in str(routed["one_edge_a_head"].reason)


RUNS = [
    Run(
        task=Sequences(seq_len=4, vocab_size=8, library_size=40),
        model=Transformer(d_model=8, d_head=4),
        training=Training(max_epochs=3),
        protocol=capax.Mac(restarts=2),
    ),
    Run(
        task=Sequences(seq_len=3, vocab_size=8, library_size=64, library="all", recall="all"),
        model=Transformer(d_model=8, d_head=4, embeddings="trained", readout="trained"),
        training=Training(max_epochs=3, precision="float64"),
        protocol=capax.Mac(restarts=1),
    ),
    Run(
        task=Sequences(seq_len=4, vocab_size=8, library_size=30),
        model=Transformer(d_model=8, d_head=4),
        training=Training(max_epochs=10),
        protocol=capax.Mls(seeds=4, max_trainings=8, first_size=4),
    ),
    Run(
        task=Associations(context_size=4, library_size=30, n_classes=5),
        model=AssociativeAttention(d_model=8, d_head=4),
        training=Training(max_steps=20),
        protocol=capax.Mac(restarts=2),
    ),
    Run(
        task=Associations(context_size=4, library_size=30, labels="normal", contexts="fresh"),
        model=AssociativeAttention(d_model=8, d_head=4, profile="mahdavi2024"),
        training=Training(max_steps=20),
        protocol=capax.Mac(restarts=1),
    ),
    Run(
        task=Relations(n_items=12),
        model=KeyQueryChannel(d_model=8, d_head=4),
        training=Training(max_steps=100),
        protocol=capax.Mac(restarts=2),
    ),
    Run(
        task=Relations(n_items=12),
        model=KeyQueryChannel(d_model=8),
        training=Training(max_steps=50),
        protocol=capax.Budget(head_counts=(1, 2), restarts=2, max_trainings=8),
    ),
]


@pytest.fixture(scope="module")
def measured() -> list[Measurement]:
    return [
        capax.measure(run.task, run.model, run.training, protocol=run.protocol, seed=run.seed, workers=1)
        for run in RUNS
    ]


@pytest.mark.slow
def test_no_measurement_is_above_a_bound_proved_for_it(measured: list[Measurement]) -> None:
    for run in measured:
        assert exceeded(run) == ()
        bits = 64 if run.spec.training.precision == "float64" else 32
        assert run.bits <= bits * run.parameters.trainable


@pytest.mark.slow
def test_a_run_brings_its_sizes_and_counts_the_tensors(measured: list[Measurement]) -> None:
    for run in measured:
        found = bounds(run.spec)
        complete(found)
        if run.spec.model.model != "key_query_channel" or run.spec.model.d_head is not None:
            assert found.parameters.trainable == run.parameters.trainable
            assert found.parameters.total == run.parameters.total
            assert found["stored_bits"].bits == found.bits_per_weight * run.parameters.trainable
    assert [bounds(run).bits_per_weight for run in RUNS[:2]] == [32, 64]
    assert bounds(RUNS[1])["morris2025_fp32"].assumptions[2].met
    assert bounds(RUNS[1]).sizes.bits_per_item == 2 * log2(8)
    assert "share" in bounds(RUNS[4])["shared_context_rank"].reason
    assert "one head" in bounds(RUNS[6])["one_head"].reason  # up to 2 are searched
    assert bounds(RUNS[5]).sizes.graph_bits == graph_classes.derangements(12).bits


def doctored(run: Measurement, memorized: int, trainable: int, **changes: object) -> Measurement:
    """A measurement as it would be, had every training recalled so many with so few parameters."""
    pairs, size = {"predicted_pairs": float(memorized), "f1": 1.0}, changes.get("library_size", run.library_size)
    members = tuple(
        member.model_copy(update={"memorized": memorized, "metrics": pairs, "library_size": size})
        for member in run.members
    )
    counts = Parameters(trainable=trainable, total=trainable)
    changes |= {"chance_uniform": changes.get("chance", run.chance_uniform)}
    return run.model_copy(update={"members": members, "memorized": memorized, "parameters": counts, **changes})


def test_impossible_counts_are_called_so(measured: list[Measurement]) -> None:
    """40 items of 3 bits are 120 bits: more than 32 and 64 to spare, less than 64 and 64."""
    for at, whole in ((0, 40), (2, 30)):
        found = exceeded(doctored(measured[at], 40, 1, library_size=40, chance=40 / 8))
        assert [one.name for one in found] == ["stored_bits"]
        assert exceeded(doctored(measured[at], 40, 2, library_size=40, chance=40 / 8)) == ()
        assert exceeded(doctored(measured[at], whole // 2, 1, chance=whole / 8)) == ()
    labels = doctored(measured[3], 60, 1, library_size=60, chance=60 / 5)
    assert [one.name for one in exceeded(labels)] == ["stored_bits"]


def test_prefixes_that_are_distinct_by_construction_are_not_recalled_bits(measured: list[Measurement]) -> None:
    """64 whole sequences of 6 bits are 384, of which all prefixes being there are 88; 64 bits a weight, 64 to spare."""
    distinct = 64 * 6 - sum(log2(i) for i in range(2, 65))
    assert 384 - distinct == pytest.approx(296, abs=0.1)
    assert exceeded(doctored(measured[1], 64, 4, chance=64 / 8**2)) == ()  # 320 < 384 < 320 + 88
    assert [one.name for one in exceeded(doctored(measured[1], 64, 3, chance=64 / 8**2))] == ["stored_bits"]


def test_impossible_graphs_are_called_so(measured: list[Measurement]) -> None:
    spec = RUNS[5].replace(task=Relations(n_items=64))
    assert [one.name for one in exceeded(doctored(measured[5], 64, 1, spec=spec))] == ["stored_bits"]
    assert exceeded(doctored(measured[5], 64, 10, spec=spec)) == ()
    assert exceeded(doctored(measured[5], 12, 1, spec=spec)) == ()
    power_law = RUNS[5].replace(task=Relations(graph="power_law", n_items=64, n_edges=64))
    assert exceeded(doctored(measured[5], 64, 1, spec=power_law)) == ()


def test_impossible_key_dimensions_are_called_so(measured: list[Measurement]) -> None:
    spec = RUNS[6].replace(
        task=Relations(n_items=64),
        model=KeyQueryChannel(d_model=2),
        protocol=capax.Budget(head_counts=(1,), restarts=2, target_f1=1.0),
    )
    for high, said in ((1, ["quantised"]), (2, []), (None, [])):
        interval = Interval(low=1, high=high, level=0.95, of="total key dimension")
        count = HeadCount(n_heads=1, d_head=1, total_key_dim=1, interval=interval, f1=1.0, trainings=8)
        run = doctored(measured[6], 64, 6, spec=spec, search=KeyDimensionSearch(per_heads=(count,)))
        assert [one.name for one in exceeded(run)] == said


@settings(derandomize=True, deadline=None, max_examples=12)
@given(
    heads=st.integers(1, 8), d=st.integers(1, 64), layers=st.integers(1, 4), n=st.integers(2, 64), v=st.integers(2, 500)
)
def test_more_parameters_and_rarer_tokens(heads: int, d: int, layers: int, n: int, v: int) -> None:
    spec = Transformer(n_heads=heads, d_model=d, d_head=8, n_layers=layers)
    found = bounds(spec, seq_len=n, vocab_size=v)
    complete(found)
    stored = found["stored_bits"]
    assert stored.value * log2(v) <= stored.bits == 32 * found.parameters.trainable
    assert (stored.value + 1) * log2(v) > stored.bits * (1 - 1e-12)
    deeper = bounds(spec.replace(n_layers=layers + 1), seq_len=n, vocab_size=v)
    for name in ("stored_bits", "madden2025_upper", "allenzhu2024", "morris2025_fp32", "perceptron"):
        assert deeper[name].value >= found[name].value
    for name in (*LAYER, "dana2025", "hopfield", "linear_associative_memory"):
        assert deeper[name].value == found[name].value
    assert bounds(spec, seq_len=n, vocab_size=v + 1)["stored_bits"].value <= stored.value


@pytest.mark.parametrize(
    ("spec", "sizes", "said"),
    [
        (EXAMPLE, {"seq_len": 1}, "seq_len.*2.*1"),
        (EXAMPLE, {"vocab_size": 1}, "vocab_size.*2.*1"),
        (EXAMPLE, {"context_size": 0}, "context_size.*1.*0"),
        (EXAMPLE, {"n_items": 4, "n_edges": 13}, r"n_edges.*0.*12.*13"),
        (EXAMPLE, {"n_classes": 4}, "n_classes.*transformer.*4"),
        (EXAMPLE, {"bits": 0}, "bits.*1.*0"),
        (KeyQueryChannel(), {"seq_len": 4}, "seq_len.*key_query_channel.*4"),
        (AssociativeAttention(), {"n_classes": 4, "d_out": 2}, "d_out.*n_classes"),
        (RUNS[0], {"seq_len": 4}, "seq_len.*run.*4"),
    ],
)
def test_refuses(spec, sizes: dict[str, int], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        capax.bounds(spec, **sizes)
