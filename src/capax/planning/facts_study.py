"""How full a network may be for the facts that it learns to be recalled: a study that ships, and runs of one's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars

from capax.errors import LawError
from capax.laws.files import load_law
from capax.planning.answers import predicted
from capax.planning.fill import FEWEST, Fill, geometric
from capax.results import Measurement
from capax.specs import Facts, Training
from capax.store import Store, table_files
from capax.text import counted

FILLS = "facts.csv"


class Measured(NamedTuple):
    """What the study of facts says of one file: at which fill each share was recalled."""

    name: str
    fills: np.ndarray
    recalls: np.ndarray

    def fill_at(self, recall: float) -> float | None:
        """The fill at which a share is still recalled, between the networks on both sides; None outside of them."""
        above = np.flatnonzero(self.recalls >= recall)
        if not len(above) or above[-1] == len(self.fills) - 1:
            return None
        last = above[-1]  # fills rise: the fullest network that recalls so much
        low, high = self.recalls[last + 1], self.recalls[last]
        share = (high - recall) / (high - low) if high > low else 0.0
        return float(np.exp(np.log(self.fills[last]) + share * np.log(self.fills[last + 1] / self.fills[last])))


def shares(files: Sequence[Measured], recall: float) -> tuple[list[float], list[float]]:
    """At which fill files are recalled so far, where networks on both sides tell; and what is known of the others.

    Of a file that no network recalled so far the emptiest one's fill is an upper bound. It is the second kind, and in
    place of that file's value, where it is below the mean of the others; above it says nothing.
    """
    known = [share for one in files if (share := one.fill_at(recall)) is not None]
    short = [float(one.fills[0]) for one in files if (one.recalls < recall).all()]
    mean = np.exp(np.log(known).mean()) if known else 0.0
    return known, [share for share in short if share < mean]


MODEL = ("n_layers", "n_heads", "d_head", "d_model", "embeddings", "ffn")


def rows(runs: Iterable[Measurement]) -> polars.DataFrame:
    """A row for each run on facts: its file, its network, and what of the file is recalled."""
    found = []
    for run in runs:
        if run.spec.task.promise is None:
            continue
        task, model = run.spec.task.columns(), run.spec.model.columns()
        if not set(MODEL) <= set(model):
            continue
        found.append(
            {
                "file": Path(task["library"]).stem,
                **{name: task[name] for name in ("seq_len", "vocab_size", "relations", "tokenization")},
                **{name: model[name] for name in MODEL},
                "loss": run.spec.task.scored("loss"),
                "effective_parameters": run.parameters.effective,
                "trainable_parameters": run.parameters.trainable,
                "facts": run.library_size,
                "recalled": run.memorized,
                "bits": round(run.library_size * task["bits_per_fact"], 1),
                "entropy_bits": round(run.library_size * task["entropy_per_fact"], 1),
                "known_bits": round(known.amount if (known := run.unit("morris_bits")) else 0.0, 1),
                "steps": run.steps,
                "stop_reason": run.stop_reason,
            }
        )
    return polars.DataFrame(found).sort("file", "effective_parameters") if found else polars.DataFrame()


@cache
def study() -> tuple[Measured, ...]:
    """The study of facts that ships: files of several structures in networks of several widths."""
    return _by_file(table_files.shipped(FILLS))


def _by_file(table: polars.DataFrame) -> tuple[Measured, ...]:
    """What rows say of each file and kind of tokens, by the law of capacity that ships."""
    law, found = load_law("reference"), []
    for (name, _, _), some in table.group_by("file", "tokenization", "facts", maintain_order=True):
        columns = {column: some[column].to_numpy() for column in law.columns if column in some.columns}
        fills = some["entropy_bits"].to_numpy() / predicted(law, columns)
        order = np.argsort(fills)
        found.append(Measured(str(name), fills[order], (some["recalled"] / some["facts"]).to_numpy()[order]))
    return tuple(found)


def exposures(facts: Facts) -> int:
    """Times that a training with the task's usual budget shows each fact, at most."""
    training = Training(**facts.usual_training)
    budget = training.budget(facts.library_size)
    assert budget is not None
    return budget // training.steps_per_epoch(facts.library_size)


def _ended_early(run: Measurement) -> bool:
    """Whether more training might have taught a run's network more: then it says nothing of what it holds."""
    task: Any = run.spec.task
    return run.stop_reason == "diverged" or (run.stop_reason == "budget" and run.epochs < exposures(task))


def _of_ones_own(data: Sequence[Path | str]) -> tuple[list[Measured], int]:
    """What the runs of stores say, and how many ended early, which are left out.

    Files that are called alike are not one, nor are a file and its shuffled control.
    """
    short = 0
    alike: dict[tuple[str | None, ...], list[Measurement]] = {}
    for path in [data] if isinstance(data, str | Path) else data:
        with Store(path, create=False) as store:
            for run in store.each():
                task = run.spec.task.columns()
                if run.spec.task.promise is None or not task["entropy_per_fact"]:
                    continue
                if _ended_early(run):
                    short += 1
                else:
                    of = tuple(task[name] for name in ("library_sha256", "control", "ambiguous", "loss"))
                    alike.setdefault(of, []).append(run)
    tables = (rows(some) for some in alike.values())
    return [one for table in tables if len(table) for one in _by_file(table)], short


def fill(recall: float, data: Sequence[Path | str] = ()) -> Fill:
    """At which share of its capacity a network recalls so much of what it learned, by the study that ships.

    Files of the study that no network recalled so far count by an upper bound (`shares`); of data of one's own such
    files are left out, and so are trainings that ended before the usual budget.

    Args:
        data: stores with runs on facts, which join the study.

    Raises:
        LawError: for a share that the study does not reach on three files.
        StoreError: for a store that cannot be read.
    """
    own, short = _of_ones_own(data)
    (ships, bounds), (given, _) = shares(study(), recall), shares(own, recall)
    if (known := len(ships) + len(given)) < FEWEST:
        raise LawError(f"recall: the study of facts reaches it on {known} files, got {recall:g}")
    return pooled(ships, bounds, given)._replace(short=short)


def pooled(ships: Sequence[float], bounds: Sequence[float], given: Sequence[float] = ()) -> Fill:
    """The fill of a new file: of files of the study, their upper bounds, and files of one's own."""
    return Fill(*geometric([*ships, *given, *bounds]), len(ships), len(given))


def in_words(held: Fill, recall: float) -> str:
    """What a note says of how full a network may be, and by how many files that is known."""
    bounds = len(shares(study(), recall)[1])
    of_data = f" and {held.more} of the data given" if held.more or held.short else ""
    of_bounds = (
        f"; {counted(bounds, 'file')} more, of which no network recalled so much, by an upper bound" if bounds else ""
    )
    return (
        f"a network recalls {recall:.6g} of what it learns when that has {held.share:.0%} of the bits that it can hold "
        f"(standard deviation of the logarithm {held.spread:.2f}, by a study of {held.files} files{of_data}"
        f"{of_bounds}; codes alone were studied)"
    )
