"""A kept memory says what was counted."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import capax
from capax.errors import CapaxError, StoreError

TASK = capax.Sequences(seq_len=5, vocab_size=20, library_size=80, loss="last")


@pytest.mark.slow
def test_recall_of_every_item_adds_up_to_the_count(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    model, training = capax.Transformer(d_model=12, n_layers=2), capax.Training(max_epochs=60)
    run = capax.measure(TASK, model, training, restarts=3, store=store, keep_weights=True)
    assert 0 < run.memorized < 80
    memory = capax.load(run.key[:9], store)
    for prefix in ([1.5, 2, 3], memory.library[:2], "123", [None]):
        with pytest.raises(CapaxError, match=r"^prefix: "):
            memory.recall(prefix)  # type: ignore[arg-type]
    for key in ("", None):
        with pytest.raises(StoreError, match=r"^key: a run's key, or how it begins, got "):
            capax.load(key, store)  # type: ignore[arg-type]
    with pytest.raises(StoreError, match=r"^store: a path, got 3"):
        capax.load(run.key, 3)  # type: ignore[arg-type]
    with pytest.raises(CapaxError, match=r"^memory: what capax\.load gives, got "):
        capax.probe(run.key)  # type: ignore[arg-type]
    assert capax.quantize(run.key, bits=8, store=store) == capax.quantize(run.key, bits=[8], store=store)
    answers = [memory.recall(item[:-1].tolist()) for item in memory.library]
    assert sum(bool(answer.agrees) for answer in answers) == run.memorized
    assert all(answer.library_token == item[-1] for answer, item in zip(answers, memory.library, strict=True))
    assert capax.measure(TASK, model, training, restarts=3, store=store, keep_weights=True) == run


def test_a_measurement_anew_leaves_no_weights_of_the_one_before(tmp_path: Path) -> None:
    store, model, training = tmp_path / "s.db", capax.Transformer(d_model=4), capax.Training(max_epochs=1)
    run = capax.measure(TASK, model, training, restarts=2, store=store, keep_weights=True)
    assert len(list((tmp_path / "s.db-weights").iterdir())) == 2
    assert capax.measure(TASK, model, training, restarts=2, store=store, fresh=True).key == run.key
    with pytest.raises(StoreError, match="kept no weights"):
        capax.load(run.key, store)


@pytest.mark.slow
def test_of_contradicting_items_either_answer_is_the_library_s(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0 1 2\n0 1 3\n")
    task = capax.Sequences(library=str(tmp_path / "a.txt"), vocab_size=4, duplicates="keep")
    store, training = tmp_path / "s.db", capax.Training(max_epochs=200, lr=0.01)
    run = capax.measure(task, capax.Transformer(d_model=8), training, restarts=1, store=store, keep_weights=True)
    assert run.memorized == 1
    answer = capax.load(run.key, store).recall([0, 1])
    assert answer.agrees
    assert answer.library_token == answer.token


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    run = capax.measure(
        TASK, capax.Transformer(d_model=4), capax.Training(max_epochs=1), restarts=1, store=store, keep_weights=True
    )
    (path,) = (tmp_path / "s.db-weights").iterdir()
    weights = load_file(path)
    weights["readout"][0, 0] = torch.nan
    save_file(weights, path)
    with pytest.raises(StoreError, match="'readout' has what is no number"):
        capax.load(run.key, store)
    path.write_bytes(b"not weights")
    with pytest.raises(StoreError, match="cannot read"):
        capax.load(run.key, store)
    with pytest.raises(CapaxError, match="how it begins"):
        capax.load("", store)
