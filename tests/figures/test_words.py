"""A sentence for each kind of runs says all that was asked for."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made import changed, made, trained

import capax
from capax.figures import words
from capax.figures.groups import alike
from capax.reports.report import VARIED
from capax.specs import Run, Spec
from capax.text import listed


def said(*specs: Run) -> str:
    """The sentence for runs of one kind."""
    (group,) = alike([trained().model_copy(update={"spec": spec}) for spec in specs], VARIED)
    return words.kind(group)


SEQUENCES = trained().spec
ASSOCIATIONS = Run(task=capax.Associations(), model=capax.AssociativeAttention())
BAG = ASSOCIATIONS.replace(task=capax.Associations(contexts="bag", labels="uniform", d_out=2))
RELATIONS = Run(
    task=capax.Relations(n_items=9, contexts="uniform", context_size=4), model=capax.KeyQueryChannel(d_head=2)
)
EXPERTS = changed(SEQUENCES, n_experts=3)
MLS = SEQUENCES.replace(protocol=capax.Mls())
CAPACITY = Run(
    task=capax.Sequences(seq_len=4, library_size=20), model=capax.Transformer(d_model=4), protocol=capax.Capacity()
)
BUDGET = Run(task=capax.Relations(n_items=9), model=capax.KeyQueryChannel(), protocol=capax.Budget())


def test_sizes_that_were_measured_are_named() -> None:
    runs = [
        made(3, seq_len=n, n_heads=h, d_model=w, n_layers=layers)
        for n, h, w, layers in ((4, 1, 4, 1), (8, 2, 16, 1), (16, 3, 8, 2))
    ]
    text = said(*(run.spec for run in runs))
    assert "4, 8 and 16 tokens" in text
    assert all(sizes in text for sizes in ("1 and 2 layers", "1 to 3 heads of 2 channels", "widths 4, 8 and 16"))
    assert "positions trained; token table and read-out frozen" in text
    text = said(*(changed(ASSOCIATIONS, library_size=n, d_head=d) for n, d in ((20, 1), (40, 4))))
    assert text.startswith("libraries of 20 and 40 ")
    assert "1 head of 1 and 4 channels, width 64" in text
    text = said(*(changed(BUDGET, n_items=n, head_counts=h) for n, h in ((8, (1, 2)), (16, (4,)))))
    assert "permutation graph of 8 and 16 items" in text
    assert "1, 2 and 4 heads, " in text


def test_what_the_user_brought_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "mine.npy", np.arange(12).reshape(4, 3))
    (tmp_path / "brought.py").write_text("def tiny(vocab_size, width=1): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    task = capax.Sequences(library=str(tmp_path / "mine.npy"))
    text = said(Run(task=task, model=capax.Module(factory="brought:tiny", arguments={"width": 2})))
    assert f"mine.npy (sha256 {task.library_sha256:.8}…)" in text
    assert "brought:tiny(width=2) (sha256 " in text
    (tmp_path / "graph.csv").write_text("source,target\n0,1\n1,2\n")
    text = said(Run(task=capax.Relations(graph=str(tmp_path / "graph.csv")), model=capax.KeyQueryChannel(d_head=2)))
    assert "graph.csv (sha256 " in text


def test_many_values_are_their_ends() -> None:
    assert listed([5]) == "5"
    assert listed([2, 1]) == "1 and 2"
    assert listed([3, 1, 2, 2]) == "1 to 3"
    assert listed([1, 2, 4, 8, 16, 32]) == "1, 2, 4, 8, 16 and 32"
    assert listed([1, 2, 4, 8, 16, 32, 64]) == "1 to 64 (7 of them)"


OTHERS: dict[str, list[tuple[Run, Any]]] = {
    "seq_len": [(SEQUENCES, 5)],
    "vocab_size": [(SEQUENCES, 12)],
    "library_size": [(SEQUENCES, 30), (ASSOCIATIONS, 30), (MLS, 30)],
    "loss": [(SEQUENCES, "last")],
    "recall": [(SEQUENCES, "all")],
    "duplicates": [(SEQUENCES, "keep")],
    "bos": [(SEQUENCES, True)],
    "context_size": [(ASSOCIATIONS, 7), (RELATIONS, 5)],
    "contexts": [(ASSOCIATIONS, "fresh"), (BAG, "fresh"), (RELATIONS, "targets")],
    "bag_size": [(BAG, 90)],
    "entries": [(ASSOCIATIONS, "normal")],
    "labels": [(BAG, "normal")],
    "n_classes": [(ASSOCIATIONS, 7)],
    "d_out": [(BAG, 3)],
    "tolerance": [(BAG, 0.1)],
    "n_items": [(RELATIONS, 12)],
    "graph": [(RELATIONS, "tree")],
    "embeddings": [(RELATIONS, "low_coherence"), (SEQUENCES, "trained")],
    "n_layers": [(SEQUENCES, 2)],
    "n_heads": [(SEQUENCES, 2), (ASSOCIATIONS, 2), (RELATIONS, 2)],
    "n_kv_heads": [(SEQUENCES, 1)],
    "window": [(SEQUENCES, 2)],
    "attention": [(SEQUENCES, "linear"), (SEQUENCES, "delta"), (SEQUENCES, "gated-delta")],
    "values": [(SEQUENCES, False)],
    "stride": [(SEQUENCES, 2)],
    "gated": [(SEQUENCES, True)],
    "n_experts": [(SEQUENCES, 2)],
    "top_k": [(EXPERTS, 2)],
    "norm": [(SEQUENCES, "rms")],
    "norm_place": [(SEQUENCES, "post")],
    "parallel": [(SEQUENCES, True)],
    "dropout": [(SEQUENCES, 0.1)],
    "d_model": [(SEQUENCES, 6), (ASSOCIATIONS, 6), (RELATIONS, 6)],
    "d_head": [(SEQUENCES, 6), (ASSOCIATIONS, 6), (RELATIONS, 6)],
    "d_value": [(SEQUENCES, 6), (ASSOCIATIONS, 6)],
    "ffn": [(SEQUENCES, "identity"), (SEQUENCES, "none")],
    "activation": [(SEQUENCES, "relu"), (SEQUENCES, "rrelu")],
    "positions": [(SEQUENCES, "frozen"), (SEQUENCES, "rotary"), (SEQUENCES, "alibi"), (SEQUENCES, "none")],
    "readout": [(SEQUENCES, "trained")],
    "norms": [(SEQUENCES, False)],
    "skips": [(SEQUENCES, False)],
    "start": [(RELATIONS, "built")],
    "profile": [(ASSOCIATIONS, "mahdavi2024")],
    "aggregate": [(RELATIONS, "sum")],
    "channel": [(BUDGET, "softmax")],
    "lr": [(SEQUENCES, 0.5)],
    "optimizer": [(SEQUENCES, "soap"), (SEQUENCES, "muon")],
    "gain_lr": [(SEQUENCES, 2.0)],
    "beta1": [(SEQUENCES, 0.8)],
    "beta2": [(SEQUENCES, 0.9)],
    "basis_beta": [(CAPACITY, 0.9)],
    "basis_every": [(CAPACITY, 7)],
    "cycle_steps": [(CAPACITY, 30)],
    "cycle_decay": [(CAPACITY, 0.5)],
    "cycle_tolerance": [(CAPACITY, 0.1)],
    "schedule": [(SEQUENCES, "cosine")],
    "warmup": [(SEQUENCES, 0.1)],
    "batch_size": [(SEQUENCES, 7)],
    "eval_every": [(SEQUENCES, 2)],
    "eval_steps": [(SEQUENCES, 3)],
    "patience": [(SEQUENCES, 9)],
    "min_loss_drop": [(SEQUENCES, 0.5)],
    "stop_when_complete": [(SEQUENCES, False)],
    "best_by": [(SEQUENCES.replace(training=SEQUENCES.training.replace(stop_when_complete=False)), "loss")],
    "max_epochs": [(SEQUENCES, 9)],
    "min_steps": [(SEQUENCES, 9)],
    "max_steps": [(SEQUENCES, 9)],
    "time_limit": [(SEQUENCES, 9.0)],
    "precision": [(SEQUENCES, "float64")],
    "compile": [(SEQUENCES, True)],
    "restarts": [(SEQUENCES, 9), (BUDGET, 9), (CAPACITY, 9)],
    "first_size": [(MLS, 8)],
    "seeds": [(MLS, 8)],
    "max_trainings": [(MLS, 80), (BUDGET, 80)],
    "interval_width": [(MLS, 0.2)],
    "head_counts": [(BUDGET, (1, 3))],
    "target_f1": [(BUDGET, 0.5)],
    "criterion": [(BUDGET, "mean")],
}
TOLD_OTHERWISE = {"task", "model", "protocol", "library", "library_sha256", "n_edges", "degree", "strict", "trials"}


@pytest.mark.parametrize("name", OTHERS)
def test_every_field_is_told(name: str) -> None:
    for spec, value in OTHERS[name]:
        assert said(changed(spec, **{name: value})) != said(spec)


def test_no_field_is_forgotten() -> None:
    parts: list[Spec] = [
        part
        for spec in (SEQUENCES, ASSOCIATIONS, RELATIONS, MLS, BUDGET)
        for part in (spec.task, spec.model, spec.training, spec.protocol)
    ]
    assert {name for part in parts for name in type(part).model_fields} <= set(OTHERS) | TOLD_OTHERWISE
