"""What the study of adapters that ships says: how full an adapter may be, by the layers that it is in."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars

from capax.errors import LawError
from capax.planning.facts_study import Measured, shares
from capax.planning.fill import FEWEST, geometric, of_new
from capax.results import Measurement
from capax.store import table_files

STUDY = "lora.csv"
PLACES = ("attention", "mlp", "attention,mlp")
"""Targets that a plan chooses from where nothing is said."""
ADAPTER = ("base", "targets", "kind", "r")
"""Columns of a model that is an adapter."""
TRIED_SHARES = tuple(hundredths / 100 for hundredths in range(50, 100))
"""Shares recalled among which the least is named that the study tells."""


class Load(NamedTuple):
    """How many bits of facts an effective parameter takes for a share of them to be recalled.

    Attributes:
        bits: the geometric mean.
        spread: standard deviation of its logarithm.
        files: by which it is known.
    """

    bits: float
    spread: float
    files: int

    def quantile(self, level: float) -> float:
        """Of a new file's: Student's t, the mean's own error included."""
        return self.bits * math.exp(self.spread * of_new(self.files, level))


def rows(runs: Iterable[Measurement]) -> polars.DataFrame:
    """A row for each run of an adapter on facts: its file, its base, and what of the file is recalled."""
    found = []
    for run in runs:
        if run.spec.task.promise is None:
            continue
        model, task = run.spec.model.columns(), run.spec.task.columns()
        if not set(ADAPTER) <= set(model) or model.get("base_weights") == "shuffled":  # a control
            continue
        found.append(
            {
                "file": Path(task["library"]).stem,
                "base": Path(model["base"]).name,
                "base_parameters": run.parameters.total - run.parameters.trainable,
                **{name: model[name] for name in ("targets", "kind", "r")},
                "effective_parameters": run.parameters.effective,
                "trainable_parameters": run.parameters.trainable,
                "facts": run.library_size,
                "recalled": run.memorized,
                "entropy_bits": round(run.library_size * task["entropy_per_fact"], 1),
                "known_bits": round(known.amount if (known := run.unit("morris_bits")) else 0.0, 1),
                **{
                    name: None if (loss := run.metrics.get(name)) is None else round(loss, 4)
                    for name in ("base_loss", "base_loss_after")
                },
                "exposures": run.epochs,
                "stop_reason": run.stop_reason,
            }
        )
    return (
        polars.DataFrame(found).sort("file", "base", "targets", "effective_parameters") if found else polars.DataFrame()
    )


@cache
def study() -> polars.DataFrame:
    """The study of adapters that ships."""
    return table_files.shipped(STUDY)


def curves(table: polars.DataFrame, targets: str) -> list[Measured]:
    """What a study says of each file and adapter: shares recalled, by bits of the facts per effective parameter.

    Args:
        targets: of these layers, or of any where the study has none of them.
    """
    of_these = table.filter(polars.col("targets") == targets)
    found = []
    for (name, *_), some in (of_these if len(of_these) else table).group_by(
        "file", "base", "targets", "kind", "r", maintain_order=True
    ):
        loads = (some["entropy_bits"] / some["effective_parameters"]).to_numpy()
        order = np.argsort(loads)
        found.append(Measured(str(name), loads[order], (some["recalled"] / some["facts"]).to_numpy()[order]))
    return found


def load(table: polars.DataFrame, targets: str, recall: float) -> Load:
    """The bits that an effective parameter takes for a share to be recalled; of some files an upper bound (`shares`).

    Raises:
        LawError: for a share that the study does not reach on three files.
    """
    found = curves(table, targets)
    known, bounds = shares(found, recall)
    if len(known) < FEWEST:
        of = targets if studied(table, targets) else " and ".join(sorted(set(table["targets"])))
        told = next((share for share in TRIED_SHARES if len(shares(found, share)[0]) >= FEWEST), None)
        least = "none" if told is None else f"those from {told:g} on"
        raise LawError(f"recall: of adapters on {of} the study tells {least}, got {recall:g}")
    every = [*known, *bounds]
    files = min(len(every), len({one.name for one in found}))  # adapters on several layers share their files
    return Load(*geometric(every), files)


def studied(table: polars.DataFrame, targets: str) -> bool:
    """Whether a study has adapters on these layers."""
    return targets in set(table["targets"])


def expected_recall(table: polars.DataFrame, targets: str, bits: float) -> float:
    """The share that is recalled of so many bits per effective parameter: the mean of the study's files.

    An adapter that is fuller than any of a file's is taken to recall as many facts as the fullest.
    """
    recalled = []
    for one in curves(table, targets):
        share = float(np.interp(math.log(bits), np.log(one.fills), one.recalls))
        recalled.append(share * min(1.0, float(one.fills[-1]) / bits))
    return float(np.mean(recalled))
