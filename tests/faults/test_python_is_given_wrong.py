"""Numbers and paths that Python is given wrong: an error of capax that names the field."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from smallest import MODEL, TASK, TRAINING

import capax
from capax.calibration import perceptron
from capax.calibration.calibrate import compare
from capax.errors import LONGEST, CapaxError
from capax.store.merge import merge

NUMBERS = (10**30, 10**400, 10**5000, -1, -(10**400), math.nan, math.inf, -math.inf)
PATHS = ("missing", "folder", "x" * 5000, "a\0b", "\ud800", f"folder/{'y' * 300}", "file/in")


OF_NUMBERS: dict[str, Callable[[Any], Any]] = {
    **{
        f"bounds.{name}": lambda value, name=name: capax.bounds(capax.Transformer(), **{name: value})
        for name in ("seq_len", "vocab_size", "context_size", "n_items", "n_edges", "library_size", "bits")
    },
    **{
        f"plan.{name}": lambda value, name=name: capax.plan(
            "reference:power", **{"items": 9, "seq_len": 8, name: value}
        )
        for name in ("items", "seq_len", "vocab_size", "probability", "multiple")
    },
    **{
        f"plan.{name}": lambda value, name=name: capax.plan("reference:power", 9, seq_len=8, **{name: [value]})
        for name in ("n_heads", "n_layers", "d_model")
    },
    **{
        f"predict.{name}": lambda value, name=name: capax.predict(
            "reference:power", n_heads=1, d_model=32, extrapolate=True, **{"seq_len": 8, name: value}
        )
        for name in ("seq_len", "vocab_size", "level")
    },
    "check_model.seed": lambda value: capax.check_model(MODEL, TASK, seed=value),
    "Run.seed": lambda value: capax.Run(task=TASK, model=MODEL, training=TRAINING, protocol=capax.Mac(), seed=value),
    "measure.seed": lambda value: capax.measure(TASK, MODEL, TRAINING, restarts=1, seed=value),
    "measure.workers": lambda value: capax.measure(TASK, MODEL, TRAINING, restarts=1, workers=value),
    "sweep.retries": lambda value: list(capax.sweep([], "s.db", retries=value)),
}


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_python_says_which_number_cannot_be(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No OverflowError and no ValueError: an error of capax that names the field, at once."""
    monkeypatch.chdir(tmp_path)
    checked = name.startswith(("bounds.", "measure.workers"))  # in tests, for their types
    for value in (value for value in NUMBERS if isinstance(value, int) or not checked):
        with pytest.raises(CapaxError) as error:
            OF_NUMBERS[name](value)
        assert name.partition(".")[2] in str(error.value)
        assert len(str(error.value)) <= LONGEST


OF_PATHS: dict[str, Callable[[str], Any]] = {
    "library": lambda path: capax.Associations(library=path),
    "library:": lambda path: capax.Sequences(library=path),
    "graph": lambda path: capax.Relations(graph=path),
    "store": lambda path: capax.read(path),
    "store:": lambda path: capax.load("0", path),
    "store: ": lambda path: capax.measure(TASK, MODEL, TRAINING, restarts=1, store=f"{path}/s.db"),
    "store:  ": lambda path: list(capax.sweep([], f"{path}/s.db")),
    "law": lambda path: capax.load_law(path),
    "law:": lambda path: capax.plan(path, 9, seq_len=8),
    "out": lambda path: capax.save_law(capax.load_law(), f"{path}/law.json"),
    "out:": lambda path: merge(["s.db"], f"{path}/merged.db"),
    "save": lambda path: capax.construct(capax.Relations(n_items=4)).save(f"{path}/w.safetensors"),
    "save:": lambda path: capax.save_run("0", f"{path}/w.safetensors"),
    "file": lambda path: capax.verify(path),
}
OF_TYPES: dict[str, Callable[[Any], Any]] = {
    "file": lambda path: capax.verify(path),
    "only": lambda names: capax.calibrate(names or 5),
    "system": compare,
    "d_model": perceptron.known,
    "out": lambda path: capax.save_law(capax.load_law(), path),
    "out:": lambda path: capax.report("missing.db", path),
    "out: ": lambda path: capax.figure("capacity", "missing.db", out=5 if path is None else path),
    "save": lambda path: capax.construct(capax.Relations(n_items=4)).save(path),
    "save:": lambda path: capax.save_run("0", path),
}


@pytest.mark.parametrize("value", [None, 5.5, b"a", "", [["a"]]])
@pytest.mark.parametrize("name", OF_TYPES)
def test_python_names_what_has_another_type(name: str, value: Any) -> None:
    with pytest.raises(CapaxError, match=f"^{name.strip(': ')}: "):
        OF_TYPES[name](value)


@pytest.mark.parametrize("name", OF_PATHS)
def test_python_says_which_path_cannot_be(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No OSError and no ValueError, however long or strange the name is."""
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    for path in PATHS:
        with pytest.raises(CapaxError) as error:
            OF_PATHS[name](path)
        assert name.strip(": ") in str(error.value)
        assert len(str(error.value)) <= LONGEST
        assert str(error.value).isprintable()


VECTORS = np.random.default_rng(0).standard_normal((2, 8, 8))
SIZES = {"seq_len": 8, "n_heads": 1, "d_model": 16}

OF_TRUTH: dict[str, Callable[[Any], Any]] = {
    "fresh": lambda value: capax.measure(TASK, MODEL, TRAINING, restarts=1, fresh=value),
    "fresh:": lambda value: capax.sensitivity(TASK, MODEL, TRAINING, choices=["lr"], fresh=value),
    "keep_weights": lambda value: capax.measure(TASK, MODEL, TRAINING, restarts=1, keep_weights=value),
    "extrapolate": lambda value: capax.predict("reference:power", **SIZES, extrapolate=value),
    "extrapolate:": lambda value: capax.plan("reference:power", 9, seq_len=8, extrapolate=value),
    "extrapolate: ": lambda value: capax.plan_relations(capax.Relations(n_items=8), d_model=8, extrapolate=value),
    "trust": lambda value: capax.load("0", "missing.db", trust=value),
    "trust:": lambda value: capax.memorization("0", store="missing.db", trust=value),
    "trust: ": lambda value: capax.quantize("0", store="missing.db", trust=value),
    "curve": lambda value: capax.check_assumptions(VECTORS[0], VECTORS[1, :4], curve=value),
    "as_printed": lambda value: capax.ECM(as_printed=value).fit({name: [size] for name, size in SIZES.items()}, [1]),
}


@pytest.mark.parametrize("name", OF_TRUTH)
def test_python_says_what_is_no_truth_value(name: str) -> None:
    """Of a text such as "no" python makes True, which would run code that it forbids."""
    for value in ("no", "", 0, 1.0):
        with pytest.raises(CapaxError, match=rf"^{name.strip(': ')}: True or False, got {value!r}$"):
            OF_TRUTH[name](value)


OF_ARRAYS: dict[str, Callable[[], Any]] = {
    "queries": lambda: capax.check_assumptions([[1.0, 2.0], [3.0]], VECTORS[1, :4]),
    "contexts": lambda: capax.check_assumptions(VECTORS[0], [[1.0], [2.0, 3.0]]),
    "attention": lambda: capax.saturation([[[1.0], [0.5, 0.5]]]),
}


@pytest.mark.parametrize("name", OF_ARRAYS)
def test_python_says_what_is_no_array(name: str) -> None:
    with pytest.raises(CapaxError, match=f"^{name}: "):
        OF_ARRAYS[name]()


OF_KINDS: dict[str, Callable[[], Any]] = {
    "keys: of runs with kept weights, got None": lambda: capax.quantize(None),  # type: ignore[arg-type]
    "n_heads: one value, got [1, 2]": lambda: capax.predict("reference:power", **{**SIZES, "n_heads": [1, 2]}),
    "lr: a list of values to try, got 0.1": lambda: capax.sensitivity(TASK, MODEL, TRAINING, choices={"lr": 0.1}),
}


@pytest.mark.parametrize("said", OF_KINDS)
def test_python_says_what_is_of_another_kind(said: str) -> None:
    with pytest.raises(CapaxError) as error:
        OF_KINDS[said]()
    assert str(error.value) == said


def test_tensors_are_arrays() -> None:
    """Those that record gradients, and of bfloat16, too."""
    queries, contexts = (torch.from_numpy(part).bfloat16().requires_grad_() for part in (VECTORS[0], VECTORS[1, :4]))
    found = capax.check_assumptions(queries, contexts)
    plain = (part.detach().float().numpy() for part in (queries, contexts))
    assert found == capax.check_assumptions(*plain)


def test_a_law_says_which_number_cannot_be() -> None:
    law = capax.load_law()
    row = {"seq_len": [8], "n_heads": [1], "d_model": [16]}
    for level in NUMBERS:
        with pytest.raises(CapaxError, match="level"):
            law.predict_interval(row, level)
    for ask in (law.predict, law.predict_interval):
        with pytest.raises(CapaxError, match="d_model"):
            ask({**row, "d_model": [10**400]})
