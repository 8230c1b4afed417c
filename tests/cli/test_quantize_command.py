"""`capax quantize`: what it prints, draws and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import refused, run

import capax
from capax.probes.quantization import Quantization

TASK = capax.Sequences(seq_len=5, vocab_size=20, library_size=30)


@pytest.fixture(scope="module")
def kept(torch_on_one_thread: object, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A run with kept weights, one of another network, one without, and the store that they are in."""
    store = tmp_path_factory.mktemp("quantize") / "s.db"
    widths = {"key": (16, 80, True), "wider": (20, 1, True), "weightless": (24, 1, False)}
    keys = {
        name: capax.measure(
            TASK,
            capax.Transformer(d_model=width, d_head=8),
            capax.Training(max_epochs=epochs, lr=0.003),
            restarts=2,
            device="cpu",
            store=store,
            keep_weights=weights,
        ).key
        for name, (width, epochs, weights) in widths.items()
    }
    return keys | {"store": str(store)}


@pytest.mark.slow
def test_words_json_and_figure_say_the_same(
    capsys: pytest.CaptureFixture[str], kept: dict[str, str], tmp_path: Path
) -> None:
    ask = ("quantize", kept["key"][:10], "--bits", "8,4", "--group", "16", "--store", kept["store"])
    found = Quantization.model_validate_json(run(capsys, *ask, "--json"))
    assert found == capax.quantize(kept["key"], bits=[8, 4], group=16, store=kept["store"])
    assert [(row.name, row.group) for row in found.precisions] == [
        *(("float32", None), ("bfloat16", None)),
        *(("int8", None), ("int8", 16), ("int4", None), ("int4", 16)),
    ]
    said = run(capsys, *ask, "--figure", str(tmp_path / "q.png"))
    assert (tmp_path / "q.png").stat().st_size > 1000
    lines = {tuple(line.split()[:3]): line for line in said.splitlines()}
    for row in found.precisions:
        steps = ("–",) if row.group is None and row.bits_per_weight >= 16 else ("a", "tensor")
        steps = ("16", "weights") if row.group else steps
        line = lines[(row.name, *steps, str(row.file_bytes))[:3]]
        assert f" {row.bits_per_byte.value:.3f} " in line
        assert str(row.file_bytes) in line
    best = found.precisions[found.most]
    assert f"holds most as {best.name}" in said
    assert f"{best.bits_per_byte.value:.3g} bits" in said
    assert "mean of 2 networks, 30 items" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--bits", "1"), "bits: 2 to 16, got 1"),
        (("--bits", "8,40"), "bits: 2 to 16, got 40"),
        (("--bits", "four"), "bits: integers separated by commas"),
        (("--group", "0"), "group: at least 1, got 0"),
        (("--figure", "q.txt"), "figure"),
        (("weightless",), "kept no weights"),
        (("wider",), "differ in their seed alone"),
    ],
)
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str], kept: dict[str, str], arguments: tuple[str, ...], said: str
) -> None:
    words = [kept.get(word, word) for word in arguments]
    assert said in refused(capsys, "quantize", kept["key"], *words, "--store", kept["store"])


def test_a_key_is_required(capsys: pytest.CaptureFixture[str], kept: dict[str, str]) -> None:
    assert "keys: at least one" in refused(capsys, "quantize", "--store", kept["store"])
