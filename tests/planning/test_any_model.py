"""Laws, predictions and plans of models that capax does not know: a user's spec, and a user's module."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import pytest
from pydantic import model_validator

import capax
from capax.cli import main
from capax.errors import CapaxError, LawError, TableError
from capax.laws.files import load_law, save_law
from capax.specs import Model
from capax.store import table_files

REAL = Path(__file__).parents[1] / "laws" / "data" / "study.csv"

TASK = capax.Sequences(seq_len=8, vocab_size=20, library_size=2000)
FEW = {"n_bootstrap": 50}
AXES = ["seq_len", "n_heads", "n_kv_heads", "d_model"]


@pytest.fixture(scope="module")
def grouped() -> Iterator[type[capax.Transformer]]:
    """A transformer with a field of its own, registered for these tests."""

    class Grouped(capax.Transformer):
        model: Literal["grouped"] = "grouped"  # type: ignore[assignment]
        n_kv_heads: int = 1

        @model_validator(mode="after")
        def _divides(self) -> Any:
            if self.n_heads % self.n_kv_heads:
                raise ValueError(f"n_kv_heads: should divide n_heads = {self.n_heads}, got {self.n_kv_heads}")
            return self

    yield Grouped
    del Model.registry["grouped"]


def measured(models: list[Any], sizes: tuple[str, ...], **columns: Any) -> pl.DataFrame:
    """A table as `capax.read` gives it, of counts that are 0.3 · Π size^0.7, less one percent of noise."""
    rng = np.random.default_rng(0)
    rows = []
    for model in models:
        counts = model.built_counts(**TASK.sizes())
        known = model.columns()
        held = 0.3 * np.prod([float(known[name]) ** 0.7 for name in sizes]) * np.exp(0.01 * rng.standard_normal())
        parts = TASK.model_dump(mode="json") | {n: v for n, v in known.items() if not isinstance(v, dict)}
        further = {"arguments": json.dumps(known["arguments"], sort_keys=True)} if "arguments" in known else {}
        rows.append(parts | further | {"trainable_parameters": counts["trainable"], "memorized": held} | columns)
    return pl.DataFrame(rows, infer_schema_length=None)


@pytest.fixture(scope="module")
def table(grouped: type[capax.Transformer]) -> pl.DataFrame:
    sizes = itertools.product((2, 4), (1, 2), (8, 16, 32))
    models = [grouped(n_heads=h, n_kv_heads=g, d_model=d) for h, g, d in sizes]  # type: ignore[call-arg]
    return measured(models, ("n_heads", "n_kv_heads", "d_model"))


@pytest.fixture(scope="module")
def law(table: pl.DataFrame) -> capax.PowerLaw:
    return capax.PowerLaw(axes=AXES, target="memorized", **FEW).fit(table)


def test_a_field_of_a_users_model_is_an_axis(law: capax.PowerLaw, tmp_path: Path) -> None:
    assert law.names == ("k", "p", "q", "n_kv_heads", "r")
    for name in ("q", "n_kv_heads", "r"):
        assert law.parameters_[name] == pytest.approx(0.7, abs=0.05)
    assert (law.domain_.protocol["model"], law.domain_.ranges["n_kv_heads"]) == ("grouped", (1, 2))
    save_law(law, tmp_path / "law.json")
    back = load_law(tmp_path / "law.json")
    assert (back.names, back.get_params()) == (law.names, law.get_params())
    asked = {"seq_len": [8], "n_heads": [4], "n_kv_heads": [2], "d_model": [16]}
    assert back.predict(asked) == law.predict(asked)


def test_predictions_and_plans_have_it(law: capax.PowerLaw, grouped: type[capax.Transformer]) -> None:
    found = capax.predict(law, n_heads=4, n_kv_heads=2, d_model=16)
    model = grouped(n_heads=4, n_kv_heads=2, d_model=16)  # type: ignore[call-arg]
    assert (found.n_kv_heads, found.seq_len) == (2, 8)
    assert found.trainable_parameters == model.parameter_counts(**TASK.sizes())["trainable"]
    planned = capax.plan(law, 7, probability=0.5)
    held = {(row.n_heads, row.n_kv_heads): row.d_model for row in planned.architectures}
    assert {kv for _, kv in held} == {1, 2}
    assert (3, 2) not in held, "a combination that the model refuses is no candidate"
    assert held[4, 2] < held[4, 1]
    with pytest.raises(LawError, match="n_kv_heads: is required"):
        capax.predict(law, n_heads=4, d_model=16)
    with pytest.raises(CapaxError, match=r"n_kv_heads: .*divide"):
        capax.predict(law, n_heads=3, n_kv_heads=2, d_model=16)


def test_rows_of_several_models_or_groups_are_no_law(table: pl.DataFrame) -> None:
    with pytest.raises(LawError, match=r"n_kv_heads: .* 1, 2"):
        capax.PowerLaw(target="memorized").fit(table)
    one = table.filter(pl.col("n_kv_heads") == 1)
    assert capax.PowerLaw(target="memorized").fit(one).domain_.protocol["n_kv_heads"] == 1
    both = pl.concat([one, one.with_columns(model=pl.lit("transformer"))])
    with pytest.raises(LawError, match=r"model: .*grouped, transformer"):
        capax.PowerLaw(target="memorized").fit(both)


def test_rows_without_an_axis_are_left_out_and_noted(table: pl.DataFrame) -> None:
    other = (
        table_files.from_file("reference:grid")
        .head(5)
        .select("task", "model", "seq_len", "n_heads", "d_model", "memorized")
    )
    mixed = pl.concat([table, other], how="diagonal_relaxed")
    law = capax.PowerLaw(axes=AXES, target="memorized").fit(mixed)
    assert len(law.rows_.counts) == len(table)
    assert any("5 runs" in note and "n_kv_heads" in note for note in law.notes_)
    with pytest.raises(TableError, match="axes: no run has a column 'n_kv_heads'"):
        capax.PowerLaw(axes=AXES, target="memorized").fit(other)


@pytest.mark.parametrize("axes", [[], ["n_heads", "n_heads"], "n_heads", [1], [""]])
def test_axes_that_are_none_are_named(table: pl.DataFrame, axes: Any) -> None:
    with pytest.raises(LawError, match=r"^axes: "):
        capax.PowerLaw(axes=axes, target="memorized").fit(table)


def test_the_usual_axes_are_the_usual_law() -> None:
    rows = pl.read_csv(REAL)
    usual, named = (capax.PowerLaw(axes=axes).fit(rows) for axes in (None, ["seq_len", "n_heads", "d_model"]))
    assert usual.parameters_ == named.parameters_
    depth = table_files.from_files([REAL, REAL.with_name("depth.csv")])
    axes = ["seq_len", "n_heads", "d_model", "n_layers"]
    of_depth = capax.PowerLaw(axes=[*axes, "d_head"])
    assert of_depth.form == "C = k · (seq_len − 1)^(−p) · n_heads^q · d_model^r · n_layers^s · d_head^(its exponent)"
    assert capax.PowerLaw(axes=axes).fit(depth).parameters_ == capax.DepthLaw().fit(depth).parameters_


@pytest.mark.slow
def test_the_command_line_takes_axes(
    table: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table.write_csv("t.csv")

    def said(*arguments: str) -> Any:
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--json"])
        assert ended.value.code == 0
        return json.loads(capsys.readouterr().out)

    axes = ",".join(AXES)
    fitted = said(
        "fit", "--data", "t.csv", "--law", "power", "--axes", axes, "--target", "memorized", "--out", "l.json"
    )
    assert fitted["options"]["axes"] == AXES
    sizes = ("--size", "n_kv_heads=2", "--n-heads", "4", "--d-model", "16", "--law", "l.json")
    assert said("predict", *sizes)["n_kv_heads"] == 2
    planned = said("plan", "--items", "5", "--law", "l.json", "--n-heads", "4", "--size", "n_kv_heads=1,2")
    assert {row["n_kv_heads"] for row in planned["architectures"]} == {1, 2}


FACTORY = """
from torch import nn

def made(vocab_size, width, depth=1):
    return nn.Sequential(nn.Embedding(vocab_size, width), *(nn.Linear(width, width) for _ in range(depth)),
                         nn.Linear(width, vocab_size))
"""


def test_arguments_of_a_module_are_axes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(tmp_path)
    modules = [capax.Module(factory="theirs:made", arguments={"width": w, "depth": 2}) for w in (4, 8, 12, 16, 24, 32)]
    table = measured(modules, ("width",))
    law = capax.PowerLaw(axes=["width"], target="memorized", **FEW).fit(table)
    assert law.parameters_["width"] == pytest.approx(0.7, abs=0.02)
    assert json.loads(str(law.domain_.protocol["arguments"])) == {"depth": 2}
    found = capax.predict(law, width=20)
    assert found.trainable_parameters == 20 * 20 + 2 * (20 * 20 + 20) + 20 * 20 + 20
    planned = capax.plan(law, 2)
    (row,) = planned.architectures
    assert law.quantile({"width": [row.width]}, 0.1)[0] >= 2 > law.quantile({"width": [row.width - 1]}, 0.1)[0]
    deeper = table.with_columns(arguments=pl.Series(['{"depth": 3, "width": 4}', *table["arguments"][1:]]))
    with pytest.raises(LawError, match=r"arguments: the rows mix .* one, or has depth as one of its axes$"):
        capax.PowerLaw(axes=["width"], target="memorized").fit(deeper)
    biased = table.with_columns(arguments=pl.Series(['{"bias": true}', *['{"bias": false}'] * (len(table) - 1)]))
    with pytest.raises(LawError, match=r"arguments: the rows mix .* a law describes one$"):
        capax.PowerLaw(axes=["width"], target="memorized").fit(biased)
