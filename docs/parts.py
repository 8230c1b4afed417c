"""What scripts of this folder have in common: parts of pages between two comments, and stores of a study's runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from capax.papers import evidence
from capax.papers.evidence import Estimate
from capax.reports.report import content, without_folders
from capax.store import Store


def filled(text: str, name: str, script: str, part: str) -> str:
    """The page with a part as its script makes it now."""
    begin, end = f"<!-- {name}: python docs/{script} -->\n", f"<!-- end of {name} -->\n"
    before, rest = text.split(begin)
    return f"{before}{begin}\n{part.strip()}\n\n{end}{rest.split(end)[1]}"


def head(*names: str) -> list[str]:
    """The first two lines of a table."""
    return [f"| {' | '.join(names)} |", f"| {' | '.join('---' for _ in names)} |"]


def powers(
    rows: pl.DataFrame, of: str, others: Mapping[str, pl.Expr], target: str
) -> tuple[Estimate, dict[str, Estimate]]:
    """The power of a column that a target grows by, with each value of the column as one unit, and those of others.

    Where a column's effect is no power exactly, rows of one value err alike: as units of their own they would make its
    interval too narrow.
    """
    logs = {name: np.log(rows.select(column).to_series().to_numpy()) for name, column in others.items()}
    held = np.log(rows[target].to_numpy())
    found = evidence.slopes(list(logs.values()), held, rows[of].to_list())
    rest = held - sum(slope.value * logs[name] for name, slope in zip(logs, found, strict=True))
    levels = rows.select(of).with_columns(level=rest).group_by(of).agg(pl.col("level").mean()).sort(of)
    return evidence.exponent(levels[of].to_list(), np.exp(levels["level"].to_numpy())), dict(
        zip(logs, found, strict=True)
    )


def keep(folder: Path, path: Path) -> None:
    """Keep the runs of a folder's stores, in one store, with the names of their files in place of paths."""
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    with Store(path) as store:
        for run in without_folders(content(sorted(folder.glob("*.db")))).runs:
            store.add(run)
