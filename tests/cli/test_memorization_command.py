"""`capax runs memorization`: what it prints and what it refuses."""

from __future__ import annotations

import pytest
from commands import refused, run
from made_text import folder

import capax
from capax.probes.memorization import Memorization


@pytest.fixture(scope="module")
def kept(torch_on_one_thread: object, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The keys of a run on each half, and the store that they are in."""
    home = tmp_path_factory.mktemp("memorization")
    store, text = home / "s.db", capax.Text(library=str(folder(home / "b")), bpe_size=300, seq_len=8, library_size=20)
    model = capax.Transformer(n_heads=2, d_model=32, d_head=16, embeddings="trained", readout="tied")
    keys = {
        half: capax.measure(
            text.replace(half=half),
            model,
            capax.Training(max_epochs=60),
            restarts=1,
            device="cpu",
            store=store,
            keep_weights=True,
        ).key
        for half in ("first", "second")
    }
    return keys | {"store": str(store)}


@pytest.mark.slow
def test_words_and_json_say_the_same(capsys: pytest.CaptureFixture[str], kept: dict[str, str]) -> None:
    ask = ("runs", "memorization", kept["first"][:10], "--store", kept["store"])
    for more in ((), ("--reference", kept["second"][:10])):
        found = Memorization.model_validate_json(run(capsys, *ask, *more, "--json"))
        assert found == capax.memorization(kept["first"], kept["second"] if more else None, store=kept["store"])
        said = " ".join(run(capsys, *ask, *more).split())
        assert found.held_out is not None
        assert "the last 4 tokens after the first 4" in said
        assert f"learned 20 {found.learned.recalled} {found.learned.rate:.1%}" in said
        assert f"held out 20 {found.held_out.recalled} {found.held_out.rate:.1%}" in said
        assert ("Unintended memorization" in said) == bool(more)
        assert "floor of what a reference does" in said


@pytest.mark.slow
def test_a_reference_of_the_same_half_is_refused(capsys: pytest.CaptureFixture[str], kept: dict[str, str]) -> None:
    said = refused(
        capsys, "runs", "memorization", kept["first"], "--reference", kept["first"], "--store", kept["store"]
    )
    assert said.startswith("capax: reference: should have learned the other half")
