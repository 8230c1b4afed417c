"""`capax probe`: what it prints and draws, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import refused, run

import capax
from capax.probes.probe import Probes


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def kept(torch_on_one_thread: object, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Keys, by what was learned, and the store that they are in."""
    store = tmp_path_factory.mktemp("probe") / "s.db"
    long = capax.Sequences(seq_len=20, vocab_size=20, library_size=8, recall="all")
    small, once = capax.Transformer(d_model=8, d_head=4, n_heads=2), capax.Training(max_epochs=1)
    pairs = capax.Associations(library_size=4, context_size=2)
    channel = capax.KeyQueryChannel(d_model=4, d_head=2)
    found = {
        "long": capax.measure(
            long, small, capax.Training(max_epochs=150, lr=0.02), restarts=1, store=store, keep_weights=True
        ),
        "weightless": capax.measure(long, small, once, restarts=1, store=store),
        "associations": capax.measure(
            pairs, capax.AssociativeAttention(d_model=4), once, restarts=1, store=store, keep_weights=True
        ),
        "relations": capax.measure(
            capax.Relations(n_items=4), channel, once, restarts=1, store=store, keep_weights=True
        ),
    }
    return {what: run.key for what, run in found.items()} | {"store": str(store)}


@pytest.mark.slow
def test_tables_json_and_figure_say_the_same(capsys: pytest.CaptureFixture[str], kept: dict[str, str]) -> None:
    ask = ("runs", "probe", kept["long"][:9], "--store", kept["store"], "--trials", "50", "--seed", "3")
    found = Probes.model_validate_json(run(capsys, *ask, "--json"))
    assert found == capax.probe(capax.load(kept["long"], kept["store"]), trials=50, seed=3)
    assert len(found.cue.points) == len(found.ablation.positions) == 19
    assert found.recalled > 0
    said = run(capsys, *ask, "--figure", "f.png")
    assert Path("f.png").read_bytes().startswith(b"\x89PNG")
    assert f"{found.recalled} of 8 items recalled" in said
    assert "12 of 19 lengths" in said
    assert f"median {found.cue.median:g} tokens" in said
    assert f"{found.symmetry.heads[1].eta:+.3f}" in said
    assert "every token" in said
    assert found.gradient_noise is not None
    assert f"{found.gradient_noise.trained.scale:.3g}     exact" in said
    rows = [line.split()[0] for line in said.split("Cue:")[1].splitlines()[2:14]]
    assert rows[0] == "1"
    assert rows[-1] == "19"
    assert len(set(rows)) == 12


@pytest.mark.slow
def test_refused(capsys: pytest.CaptureFixture[str], kept: dict[str, str]) -> None:
    store = ("--store", kept["store"])
    assert "no run" in refused(capsys, "runs", "probe", "zzz", *store)
    assert "no such file" in refused(capsys, "runs", "probe", kept["long"], "--store", "none.db")
    assert "kept no weights" in refused(capsys, "runs", "probe", kept["weightless"], *store)
    for task in ("associations", "relations"):
        assert f"probes are of runs on sequences, run {kept[task][:12]} learned {task}" in refused(
            capsys, "runs", "probe", kept[task], *store
        )
    for flag, value, allowed in (("trials", "0", "1 to 1000000"), ("seed", "-1", "at least 0")):
        line = refused(capsys, "runs", "probe", kept["long"], *store, f"--{flag}", value)
        assert f"{flag}: {allowed}, got {value}" in line
    assert "trials: should be an integer" in refused(capsys, "runs", "probe", kept["long"], *store, "--trials", "many")
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.slow
def test_figures_that_cannot_be_written(capsys: pytest.CaptureFixture[str], kept: dict[str, str]) -> None:
    Path("folder.png").mkdir()
    for path, said in (
        ("none/f.png", "no such folder"),
        ("f.xyz", "should end in one of"),
        ("f", "should end in one of"),
        ("folder.png", "is a folder; name a file"),
        ("/proc/f.png", "cannot write"),
    ):
        line = refused(
            capsys, "runs", "probe", kept["long"], "--store", kept["store"], "--trials", "5", "--figure", path
        )
        assert line.startswith("capax: figure: ")
        assert said in line
    assert [path.name for path in Path.cwd().iterdir()] == ["folder.png"]
    shown = json.loads(run(capsys, "runs", "probe", kept["long"], "--store", kept["store"], "--trials", "5", "--json"))
    assert shown["trials"] == 5
