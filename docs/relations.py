"""Writes what relations.md shows of D_K*, and the reference data of relations: `python docs/relations.py`.

The stores are those that `capax sweep` wrote of examples/relations-converged.toml, and of relations-random.toml,
-regular.toml and -tree.toml, and of tokens the one of the paper's figures. A test compares the page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from parts import filled
from scipy import stats

import capax
from capax.figures.columns import HEADS, Column, by
from capax.figures.runs import read
from capax.papers.evidence import mean
from capax.results import Measurement
from capax.specs.relations import HF
from capax.store import tables

FOLDER = Path(__file__).with_name("capacity")
PAGE = Path(__file__).with_name("relations.md")
REFERENCE = Path(__file__).parents[1] / "src/capax/data/reference/relations.csv"
STORES = ("relations-converged.db", "relations-graphs.db")
GRAPHS = ("permutation", "random", "power_law", "regular", "tree")
FEWEST = (16, 32, 8)


def runs() -> list[Measurement]:
    """The searches, by graph, items per channel and size."""

    def place(run: Measurement) -> tuple[int, float, int, int]:
        task, d_model = run.spec.task.columns(), run.spec.model.columns()["d_model"]
        return GRAPHS.index(task["graph"]), task["n_items"] / d_model, task["n_items"], _edges(run)

    return sorted((run for store in STORES for run in read([FOLDER / store]).runs), key=place)


def _edges(run: Measurement) -> int:
    return run.library_size


def _load(run: Measurement) -> float:
    edges = _edges(run)
    return edges * math.log2(edges) / run.spec.model.columns()["d_model"]


def table(found: Sequence[Measurement]) -> list[str]:
    """A row for each search."""
    lines = [
        "| graph | m | m' | d_model | m/d | D_K* (95 %) | heads | by head count | m' log2 m' / d |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for run in found:
        task, d_model, search = run.spec.task.columns(), run.spec.model.columns()["d_model"], run.key_search
        assert search is not None
        ends = "" if search.interval is None else f" ({search.interval.low:.0f} to {search.interval.high:.0f})"
        counts = "; ".join(f"{one.n_heads}: {one.total_key_dim or '–'}" for one in search.per_heads)
        items = task["n_items"]
        cells = (
            *(str(task["graph"]).replace("_", " "), items, _edges(run), d_model, f"{items / d_model:g}"),
            *(f"{search.total_key_dim}{ends}", search.n_heads, counts, f"{_load(run):.0f}"),
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def laws() -> list[str]:
    """The law with the logarithm and the one without, by the fewest channels of the cells that they are fitted to."""
    study = tables.table(runs())
    lines = [
        "| channels | cells | law | s (95 %) | t (95 %) | spread of log D_K* | AIC |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for fewest in FEWEST:
        rows = study.filter(pl.col("d_model") >= fewest)
        for law, name in ((capax.RelationLaw(), "m' log m' / d"), (capax.LinearRelationLaw(), "m' / d")):
            fitted = law.fit(rows)
            ends = fitted.parameter_intervals()
            said = (f"{fitted.parameters_[one]:.2f} ({ends[one][0]:.2f} to {ends[one][1]:.2f})" for one in ("s", "t"))
            aic, _ = fitted.information()
            cells = (f"{fewest} or more", len(rows), name, *said, f"{fitted.sigma_:.2f}", f"{aic:.1f}")
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def logarithm() -> str:
    """The power of log m' that least squares find beside those of m'/d and m/m'."""
    study, said = tables.table(runs()), []
    for fewest in FEWEST[:2]:
        rows = study.filter(pl.col("d_model") >= fewest)
        items, edges, d_model, needed = (
            rows[name].to_numpy().astype(float) for name in ("n_items", "n_edges", "d_model", "total_key_dim")
        )
        loads = np.log(np.column_stack([np.log2(edges), edges / d_model, items / edges]))
        columns = np.column_stack([loads, np.ones(len(loads))])
        powers, (squares,), *_ = np.linalg.lstsq(columns, np.log(needed))
        left = len(columns) - columns.shape[1]
        spread = math.sqrt(squares / left * np.linalg.inv(columns.T @ columns)[0, 0])
        low, high = powers[0] + spread * stats.t.ppf([0.025, 0.975], left)
        said.append(f"{powers[0]:.2f} ({low:.2f} to {high:.2f}) from {fewest} channels on")
    return f"With the power of the logarithm free: {', '.join(said)} (least squares, 95 %)."


def tokens() -> list[str]:
    """Mean F1 on tokens of a model's table, by channel, heads and budget of steps, and why trainings ended."""
    runs = read([FOLDER.with_name("reproduced") / "adler2025-small.db"]).runs
    of_tokens = [run for run in runs if run.spec.task.columns()["embeddings"].startswith(HF)]
    found = by(of_tokens, Column("channel"), HEADS, Column("max_steps"))
    lines = ["| channel, heads | steps at most | mean F1 (95 %) | steps | ended |", "| --- | --- | --- | --- | --- |"]
    for (channel, heads, most), some in found.items():
        f1 = mean([run.metrics["f1"] for run in some])
        steps = ", ".join(str(run.members[0].steps) for run in some)
        ended = ", ".join(sorted({str(run.stop_reason) for run in some}))
        ends = f"{max(f1.low, 0):.2f} to {min(f1.high, 1):.2f}"  # F1 ends there, Student's t does not
        lines.append(f"| {channel}, {heads} | {most} | {f1.value:.2f} ({ends}) | {steps} | {ended} |")
    return lines


def page(text: str) -> str:
    """The page with the tables of today."""
    text = filled(text, "searches", "relations.py", "\n".join(table(runs())))
    text = filled(text, "tokens", "relations.py", "\n".join(tokens()))
    return filled(text, "law", "relations.py", "\n".join([*laws(), "", logarithm()]))


def reference() -> bytes:
    """The searches as the table that ships with capax."""
    return tables.table(runs()).write_csv().encode()


if __name__ == "__main__":
    REFERENCE.write_bytes(reference())
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
