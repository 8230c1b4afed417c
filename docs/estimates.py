"""What the networks of all stores of this folder would reach, by the rule of today: `python docs/estimates.py`.

Estimates follow from the ends of cycles, which stores keep, so a better rule needs no new training. Everything that is
made of stores is made anew after it. A test compares.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np

from capax.protocols.capacity import estimated
from capax.results import Measurement
from capax.store import Store

STORES = tuple(sorted(Path(__file__).parent.rglob("*.db")))


def renewed(run: Measurement) -> Measurement:
    """A run with what its restarts would reach by the rule of today."""
    held = run.capacity
    if held is None:
        return run
    ends = [np.maximum.accumulate([end.bits for end in member.cycles]).tolist() for member in run.members]
    ended = all(member.stop_reason == "converged" for member in run.members)
    found = estimated(ends, ended, run.parameters, held.library_bits, held.library_sizes)
    if held.extrapolated is not None and held.interval is None:  # restarts that had one start
        found = found.model_copy(update={"interval": None})
    return run.model_copy(update={"capacity": found})


def main() -> None:
    """Write the runs that change, in place: when they were measured stays."""
    for path in STORES:
        with Store(path, read_only=True) as store:
            changed = [anew for run in store.each() if (anew := renewed(run)) != run]
        with closing(sqlite3.connect(path)) as connection, connection:
            for run in changed:
                text = run.model_copy(update={"name": None, "tags": ()}).to_json()
                connection.execute("UPDATE runs SET measurement = ? WHERE key = ?", (text, run.key))
        print(f"{path.name}: {len(changed)} runs")


if __name__ == "__main__":
    main()
