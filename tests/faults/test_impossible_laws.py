"""A law that is none, or predicts what cannot be, is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import capax
from capax.errors import CapaxError, LawError
from capax.laws.files import from_json, load_law, to_json

NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("sigma", value) for value in (NAN, -0.1, 0.0, INFINITE)),
        *(("deviance", value) for value in (NAN, -1.0)),
        ("dof", -1),
        ("dof", 1.5),
        *(("values.k", value) for value in (NAN, INFINITE)),
        ("held", {"z": [1.0, "?"]}),
        ("undetermined", {"z": "?"}),
        ("free", ["z"]),
        ("draws.3.4", NAN),
        ("draws.3.4", -0.2),
        ("draws.3.0", NAN),
        ("draws", []),
        ("domain.ranges.d_model", [64, 16]),
        ("domain.ranges.d_model", [NAN, 64]),
        ("domain.ranges.d_model", [16, INFINITE]),
        ("domain.ranges", {"seq_len": [8, 32], "n_heads": [1, 4]}),
        ("domain.largest_library", NAN),
        ("columns", {"seq_len": [8.0]}),
        ("counts.0", NAN),
        ("counts.0", INFINITE),
        ("library", [2000.0]),
        ("options.n_bootstrap", 1.5),
        ("options.target", None),
        ("options.random_state", -1),
        ("options.n_bootstrap", -1),
        ("values.k", -2.0),
        ("options.axes", 5),
        *(("spreads", {kind: 2.0}) for kind in ("foo=bar", "d_model=16", "")),
        ("domain.protocol.model", "key_query_channel"),
    ],
)
def test_a_law_of_impossible_numbers_is_refused(tmp_path: Path, field: str, value: Any) -> None:
    file = json.loads(to_json(load_law("reference:power")))
    *parents, last = (int(name) if name.isdecimal() else name for name in field.split("."))
    place: Any = file
    for name in parents:
        place = place[name]
    place[last] = value
    (tmp_path / "law.json").write_text(json.dumps(file))
    with pytest.raises(CapaxError) as error:
        load_law(tmp_path / "law.json")
    line = str(error.value)
    assert line.startswith(f"law: {tmp_path / 'law.json'} is not a law: {field.split('.')[0]}")
    assert len(line) < 300 + len(str(tmp_path))


def test_laws_with_infinite_parameters_that_say_something_are_kept() -> None:
    """The capacity model of the reference study has an exponent that is infinite, and finite counts."""
    law = load_law("reference:ecm")
    assert to_json(from_json(to_json(law))) == to_json(law)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"law":' * 100_000, "null", "\x00"])
def test_a_law_that_is_nested_without_end_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "law.json").write_text(text)
    with pytest.raises(CapaxError, match="not a law"):
        load_law(tmp_path / "law.json")


def test_a_link_to_itself_is_no_law(tmp_path: Path) -> None:
    (tmp_path / "law.json").symlink_to(tmp_path / "law.json")
    with pytest.raises(CapaxError, match=r"^law: no such file"):
        load_law(tmp_path / "law.json")
    with pytest.raises(CapaxError, match=r"^law: a JSON file, reference, "):
        load_law("mine")


@pytest.mark.parametrize("value", ["many", NAN, 1.5, 10**30])
def test_a_law_whose_protocol_cannot_be_is_refused_when_it_is_asked(tmp_path: Path, value: Any) -> None:
    file = json.loads(to_json(load_law("reference:power")))
    file["domain"]["protocol"]["vocab_size"] = value
    (tmp_path / "law.json").write_text(json.dumps(file))
    with pytest.raises(CapaxError, match="vocab_size"):
        capax.plan(str(tmp_path / "law.json"), 100, seq_len=8)


def test_a_domain_without_end_is_not_written_out(tmp_path: Path) -> None:
    file = json.loads(to_json(load_law("reference:power")))
    file["domain"]["ranges"]["n_heads"] = [1, 1e12]
    (tmp_path / "law.json").write_text(json.dumps(file))
    with pytest.raises(CapaxError, match=r"^n_heads: .*1e\+12"):
        capax.plan(str(tmp_path / "law.json"), 100, seq_len=8)


def test_a_count_below_zero_is_no_prediction_and_is_told_of_its_errors() -> None:
    grid = [(n, h, d) for n in (8, 16, 32) for h in (1, 2) for d in (16, 32, 64, 256)]
    n, h, d = (np.array(column, dtype=float) for column in zip(*grid, strict=True))
    counts = 100 * np.minimum(d, 64) * h / n
    rows = pl.DataFrame({"seq_len": n, "n_heads": h, "d_model": d, "memorized_above_chance": counts})
    law = capax.Polynomial(degree=2, n_bootstrap=10)
    (score,) = capax.compare(rows, [law]).scores
    assert "left out: it predicts counts below zero, which no measurement can have" in score.reasons
    assert min(score.predicted_left_out or ()) < 0
    law.fit(rows)
    below = next(one for one in rows.to_dicts() if law.predict(pl.DataFrame([one]))[0] < 0)
    with pytest.raises(LawError, match=r"^polynomial: .* -\d"):
        capax.predict(law, **{name: int(below[name]) for name in law.columns})


def test_what_is_no_law_is_refused() -> None:
    for asks in (lambda: capax.plan(17, 10, seq_len=8), lambda: capax.load_law(17)):  # type: ignore[arg-type]
        with pytest.raises(LawError, match=r"^law: .*got 17$"):
            asks()
