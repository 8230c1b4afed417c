"""What a preview of a sweep times: steps of the whole library, or of a part where they would take long."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import capax
from capax.errors import CapaxError
from capax.sweeps import packs, preview
from capax.sweeps.grid import Study

LARGE = capax.Run(
    task=capax.Sequences(seq_len=32, vocab_size=256),
    model=capax.Transformer(n_layers=2, n_heads=4, d_model=64, d_head=16),
    protocol=capax.Capacity(),
)
SMALL = capax.Run(task=capax.Sequences(), model=capax.Transformer(d_model=8, d_head=8), protocol=capax.Capacity())


def test_a_step_that_takes_long_is_timed_on_a_part_of_the_library() -> None:
    whole = packs.whole_pack((LARGE,), "cpu")
    timed = preview._timed(whole)
    assert timed.members == whole.members
    each = LARGE.model.operations(LARGE.task.sizes(), LARGE.task.scored("loss")) * len(whole.members)
    assert (timed.largest - 1) * each < preview.MOST_OPERATIONS <= timed.largest * each
    assert timed.largest < whole.largest
    assert set(timed.sizes) == {timed.largest}


@pytest.mark.parametrize(
    "run",
    [
        SMALL,
        LARGE.replace(training=LARGE.training.replace(batch_size=256)),  # its steps are those of a batch
    ],
)
def test_others_are_timed_as_they_are(run: capax.Run) -> None:
    whole = packs.whole_pack((run,), "cpu")
    assert preview._timed(whole) == whole


@pytest.mark.slow
def test_memory_is_that_of_the_whole_library(monkeypatch: pytest.MonkeyPatch) -> None:
    run = SMALL.replace(task=SMALL.task.replace(library_size=4000))
    whole = preview._cost((run,), "cpu")
    monkeypatch.setattr(preview, "MOST_OPERATIONS", 1e6)
    assert preview._timed(packs.whole_pack((run,), "cpu")).largest < 100
    part = preview._cost((run,), "cpu")
    assert part.bytes == pytest.approx(whole.bytes, rel=1e-3)


def test_a_pack_that_cannot_be_run_is_told_beside_the_others(tmp_path: Path) -> None:
    large = SMALL.replace(task=SMALL.task.replace(vocab_size=10**7, seq_len=4), model=SMALL.model.replace(d_model=4096))
    study = Study(tmp_path / "s.toml", (SMALL, large), 0, None)
    found = preview.preview(study, tmp_path / "s.db", workers=1, device="cpu")
    assert found.runs == 2
    assert found.seconds is not None
    assert [text.partition(":")[0] for text in found.refused] == ["memory"]
    assert found.refused[0].endswith(" (seq_len 4, vocab_size 10000000, d_model 4096)")
    assert "1 pack of those that were tried would fail: memory: this run needs" in found.in_words()
    with pytest.raises(CapaxError, match=r"^memory: "):
        preview.preview(Study(tmp_path / "s.toml", (large,), 0, None), tmp_path / "s.db", workers=1, device="cpu")
    rounded = SMALL.replace(training=SMALL.training.replace(precision="tf32"))
    with pytest.raises(CapaxError, match=r"^precision: only GPUs of CUDA multiply in TF32 .*got 'tf32' on 'cpu'"):
        preview.preview(Study(tmp_path / "s.toml", (SMALL, rounded), 0, None), tmp_path / "s.db", device="cpu")
    with pytest.raises(CapaxError, match=r"^store: folder .* does not exist"):
        preview.preview(study, tmp_path / "none" / "s.db", workers=1, device="cpu")


def test_of_what_cycles_end_the_usual_time_is_told_beside_the_longest(tmp_path: Path) -> None:
    assert SMALL.training.budget(100) == 25_500
    assert SMALL.training.usual_steps(100) == 3100
    found = preview.preview(Study(tmp_path / "s.toml", (SMALL,), 0, None), tmp_path / "s.db", workers=1, device="cpu")
    assert found.seconds is not None
    assert found.usual_seconds == pytest.approx(found.seconds * 3100 / 25_500)
    assert re.search(r"expected time: .+ if trainings converge in 5 cycles, as most do; at most .+;", found.in_words())
    short = SMALL.replace(training=SMALL.training.replace(max_steps=200))
    fixed = SMALL.replace(training=capax.Training(max_epochs=300), protocol=capax.Mac())
    for run, steps in ((short, 200), (fixed, 300)):
        assert run.training.usual_steps(100) == run.training.budget(100) == steps
        found = preview.preview(Study(tmp_path / "s.toml", (run,), 0, None), tmp_path / "s.db", workers=1, device="cpu")
        assert found.seconds == found.usual_seconds
        assert "expected time: at most " in found.in_words()
        assert ("and more where a library of twice the size follows" in found.in_words()) is (run is short)


def test_without_a_budget_the_usual_time_is_told(tmp_path: Path) -> None:
    run = SMALL.replace(training=capax.Training(batch_size=10), protocol=capax.Mac(restarts=1))
    assert run.training.usual_steps(100) == 10 * 500
    study = Study(tmp_path / "s.toml", (run,), 0, None)
    found = preview.preview(study, tmp_path / "s.db", workers=1, device="cpu")
    assert found.seconds is None
    assert "if trainings without a budget of steps take 500 epochs; memory" in found.in_words()
