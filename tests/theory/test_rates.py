"""Measured rates: the papers' parameter counts, and what unmet assumptions leave."""

from typing import Any

import pytest

from capax import Transformer, bounds
from capax.theory.bounds.bound import TABLE, Bound
from capax.theory.bounds.facts import Sizes, facts
from capax.theory.bounds.rates import gpt2_parameters

PRINTED = [  # layers, width, parameters as the table of Morris et al. 2025 prints them
    (1, 32, "8.04e+04"), (1, 64, "1.85e+05"), (1, 128, "4.69e+05"), (1, 256, "1.33e+06"),
    (2, 32, "9.31e+04"), (2, 64, "2.35e+05"), (2, 128, "6.67e+05"), (2, 256, "2.12e+06"),
    (4, 32, "1.18e+05"), (4, 64, "3.35e+05"), (4, 128, "1.06e+06"), (4, 256, "3.70e+06"),
    (8, 32, "1.69e+05"), (8, 64, "5.35e+05"), (8, 128, "1.86e+06"), (8, 256, "6.86e+06"),
]  # fmt: skip


def rates(spec: Transformer, trainable: int | None, precision: str | None, **sizes: int) -> list[Bound]:
    known = facts(spec, Sizes(**sizes), 32, precision=precision) | {"trainable": trainable}
    return [one(**known) for one in TABLE.values() if one.declared.kind == "rate"]


@pytest.mark.parametrize(("layers", "width", "printed"), PRINTED)
def test_parameters_as_printed(layers: int, width: int, printed: str) -> None:
    assert f"{gpt2_parameters(layers, width, 2048, 64):.2e}" == printed


def test_rates_by_hand() -> None:
    spec = Transformer(n_layers=2, embeddings="trained", readout="trained")
    rows = rates(spec, 1000, "float32", seq_len=64, vocab_size=2048)
    found = {one.name: one for one in rows}
    assert found["allenzhu2024"].value == 2000
    assert found["morris2025_bf16"].value == pytest.approx(3510)
    assert found["morris2025_fp32"].value == pytest.approx(3830)
    assert found["morris2025_fp32_gpt2"].value == pytest.approx(3.83 * gpt2_parameters(2, 32, 2048, 64))
    for one in rows:
        assert (one.kind, one.unit, one.standing) == ("rate", "bits", "read")
        assert one.bits == one.value
        assert not one.proved_for_recall
    assert [found[f"morris2025_{name}"].assumptions[2].met for name in ("bf16", "fp32")] == [False, True]


@pytest.mark.parametrize(
    ("options", "met"),
    [
        ({"readout": "tied"}, True),
        ({"readout": "trained"}, True),
        ({"readout": "tied", "positions": "rotary"}, True),
        ({"readout": "tied", "positions": "none"}, True),
        ({"readout": "frozen"}, False),
        ({"readout": "tied", "positions": "frozen"}, False),
    ],
)
def test_whether_all_parameters_are_trained_is_counted(options: dict[str, str], met: bool) -> None:
    spec = Transformer(n_layers=2, embeddings="trained", **options)
    found = {one.name: one for one in bounds(spec, seq_len=64, vocab_size=2048).bounds}
    for name in ("allenzhu2024", "morris2025_fp32"):
        (every,) = (one for one in found[name].assumptions if one.text == "all parameters are trained")
        assert every.met is met


@pytest.mark.parametrize("options", [{}, {"n_kv_heads": 2}, {"values": False}, {"attention": "gated-delta"}])
def test_the_attention_layer_counts_as_its_tensors_are(options: dict[str, Any]) -> None:
    spec = Transformer(n_heads=4, d_model=32, d_head=8, ffn="none", norms=False, **options)
    found = bounds(spec, seq_len=8, vocab_size=100).parameters
    tables = 7 * 32  # positions
    assert found.attention == spec.parameter_counts(vocab_size=100, context=7)["trainable"] - tables
    decoder = bounds(spec.replace(ffn="mlp"), seq_len=8, vocab_size=100).parameters.madden2025
    assert (decoder is None) == bool(options)  # the paper's heads are all alike


def test_rates_keep_their_value_where_assumptions_are_not_met() -> None:
    found = rates(Transformer(), 1000, None, seq_len=8, vocab_size=100)
    unmet = [assumption.text for assumption in found[0].assumptions if assumption.met is False]
    assert unmet[:2] == ["all parameters are trained", "at least 2 layers"]
    assert all(one.value is not None for one in found)
    unknown = rates(Transformer(), None, None)
    assert all(one.value is None and "not" in str(one.reason) for one in unknown)
