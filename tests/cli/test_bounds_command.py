"""`capax bounds` prints every bound with its reasons, one JSON object, and one line for bad input."""

import json

import pytest
from commands import narrow, refused, run

from capax import AssociativeAttention, Transformer
from capax.theory.bounds.catalogue import Catalogue, bounds

EXAMPLE = (
    "bounds", "--n-heads", "4", "--d-model", "64", "--d-head", "16", "--n-layers", "1", "--seq-len", "32",
    "--vocab-size", "100",
)  # fmt: skip


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, *EXAMPLE, "--json")
    found = Catalogue.model_validate_json(out)
    assert found == bounds(Transformer(n_heads=4, d_model=64, d_head=16), seq_len=32, vocab_size=100)
    assert json.loads(out)["bounds"][0]["value"] == 61
    more = run(capsys, *EXAMPLE, "--context-size", "8", "--library-size", "500", "--bits", "16", "--json")
    found = Catalogue.model_validate_json(more)
    assert (found["mahdavi2024"].value, found.bits_per_weight) == (29, 16)
    assert found["dana2025_accuracy"].value == pytest.approx(0.01 + 0.99 * 128 / 500)


def test_what_a_person_reads(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, *EXAMPLE, "--n-items", "256", "--n-edges", "256", "--library-size", "2500")
    for said in (
        "1 layer, 4 heads of 16, width 64; seq_len 32, vocab_size 100, context_size 31, n_items 256, n_edges 256",
        "parameters: 51648 trainable, 64448 in all",
        "Õ(d + n + √(n N)) parameters are enough for N sequences of n tokens",
        "not met: one head",
        "R² and γ are those of weights, and none are given",
        "a distribution that is exact has no finite number of bits",
    ):
        assert said in out
    table = out[: out.index("+ assumptions met")]
    lines = {line.split()[0]: line.split() for line in table.splitlines() if line}
    assert " ".join(lines["mahdavi2024"][1:]) == "constructive attention 61 – +2 −2 ?2 s Mahdavi 2024"
    assert lines["dana2025"][3:6] == ["128", "850.4", "+4"]
    assert not lines.keys() & {"kim2023", "adler2025", "vardi2022", "one_head"}
    for name in [one.name for one in bounds(Transformer()).bounds]:
        assert name in out


def test_sizes_that_are_not_given(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "bounds")
    assert "parameters: depend on the task" in out
    assert "context_size is not given" in out


def test_any_model_brings_its_flags(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("bounds", "--model", "associative_attention", "--d-head", "4", "--context-size", "8", "--n-classes", "10")
    found = Catalogue.model_validate_json(run(capsys, *flags, "--json"))
    assert found == bounds(AssociativeAttention(d_head=4), context_size=8, n_classes=10)
    assert "n_classes 10" in run(capsys, *flags)


def test_it_fits_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for width, sourced in ((100, True), (80, False)):
        narrow(monkeypatch, width)
        out = run(capsys, *EXAMPLE)
        assert max(map(len, out.splitlines())) <= width
        assert "…" not in out
        assert ("s Mahdavi 2024" in out) == sourced
        assert ("Left out, as the terminal is narrow (--json has them): source." in " ".join(out.split())) != sourced


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--seq-len", "1"], ["seq_len", "at least 2", "1"]),
        (["--vocab-size", "0"], ["vocab_size", "at least 2", "0"]),
        (["--n-heads", "0"], ["n_heads", "at least 1", "0"]),
        (["--n-items", "4", "--n-edges", "99"], ["n_edges", "0 to 12", "99"]),
        (["--library-size", "-3"], ["library_size", "at least 1", "-3"]),
        (["--context-size", "0"], ["context_size", "at least 1", "0"]),
        (["--bits", "0"], ["bits", "at least 1", "0"]),
        (["--bits", "many"], ["bits", "many"]),
        (["--activation", "tanh"], ["activation", "tanh", "gelu"]),
        (["--n-classes", "4"], ["n_classes", "transformer", "4"]),
    ],
)
def test_refuses(capsys: pytest.CaptureFixture[str], flags: list[str], said: list[str]) -> None:
    error = refused(capsys, "bounds", *flags)
    for part in said:
        assert part in error
