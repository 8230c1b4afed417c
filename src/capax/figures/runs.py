"""The runs that figures and reports are of: those of stores, or measurements at hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from capax.errors import ReportError, SpecError, shown
from capax.figures.light import Light
from capax.laws.files import load_law
from capax.laws.law import Law
from capax.results import Measurement
from capax.store import Store
from capax.store.schema import Failure

Given = Store | Path | str | Measurement | Iterable[Store | Path | str | Measurement]
"""A store or several of them, or measurements."""


class Runs(NamedTuple):
    """What some stores hold.

    Attributes:
        runs: light, without their curves (`light.Light`).
        imported: by source, how many rows of others, which are not shown.
        stores: the one that a run was read from, by its key.
        kept: the store beside which the weights of a run lie, by its key.
        sources: the stores.
    """

    runs: list[Measurement]
    failures: list[Failure]
    imported: dict[str, int]
    stores: dict[str, Path]
    kept: dict[str, Path]
    sources: tuple[Path, ...] = ()

    def with_curves(self, run: Measurement) -> Measurement:
        """One of the runs with its curves.

        Raises:
            StoreError: when its store cannot be read any more, or does not hold it any more.
        """
        if run.key not in self.stores:
            return run
        with Store(self.stores[run.key], create=False) as opened:
            return run.model_copy(update={"members": opened.find(run.key).members})


def read(stores: Sequence[Path]) -> Runs:
    """The runs and failures of some stores; of a run that several hold that counts which finished last.

    Raises:
        StoreError: when one is missing or no store.
    """
    runs: dict[str, Measurement] = {}
    failures: dict[str, Failure] = {}
    imported: dict[str, int] = {}
    places: dict[str, Path] = {}
    kept: dict[str, Path] = {}
    ended: dict[str, str] = {}
    light = Light()
    for path in stores:
        with Store(path, create=False) as opened:
            finished = {one.key: one.finished for one in opened.summaries()}
            newest = {key for key, when in finished.items() if key not in ended or when >= ended[key]}
            ended |= {key: finished[key] for key in newest}
            found = {run.key: light.run(run) for run in opened.each() if run.key in newest}
            runs |= found
            places |= dict.fromkeys(found, path)
            kept = {key: place for key, place in kept.items() if key not in found}
            kept |= {key: path for key in found if opened.weights_path(key).exists()}
            failures |= {failure.key: failure for failure in opened.failures()}
            imported |= opened.sources()
    unfinished = [failure for key, failure in failures.items() if key not in runs]
    return Runs(list(runs.values()), unfinished, imported, places, kept, tuple(stores))


def of(given: Given, imported: bool = False) -> Runs:
    """The runs that somebody asked for; at least one.

    Args:
        imported: whether imported rows are enough.

    Raises:
        SpecError: for neither stores nor measurements.
        StoreError: for a store that is missing or none.
        ReportError: where there is no finished run.
    """
    if not isinstance(given, Store | Path | str | Measurement | Iterable):
        raise SpecError(f"runs: should be stores, or measurements, got {shown(given)}")
    some = [given] if isinstance(given, Store | Path | str | Measurement) else list(given)
    measured = [one for one in some if isinstance(one, Measurement)]
    paths = [one.path if isinstance(one, Store) else Path(one) for one in some if isinstance(one, Store | Path | str)]
    if not some:
        raise SpecError("store: at least one file of finished runs")
    if len(measured) < len(some) and len(paths) < len(some):
        raise SpecError("runs: should be stores, or measurements, got both or something else")
    found = Runs(measured, [], {}, {}, {}) if measured else read(paths)
    if not found.runs and not (imported and found.imported):
        raise ReportError(none_in([path.name for path in paths], found.failures, found.imported))
    return found


def none_in(sources: Iterable[str], failures: Sequence[Failure], imported: dict[str, int]) -> str:
    """What is said of stores without a finished run."""
    there = [f"{len(failures)} failed"] if failures else []
    there += [f"imported rows, which are no runs: {sum(imported.values())}"] if imported else []
    told = f" ({', '.join(there)})" if there else ""
    return f"store: no finished runs in {', '.join(sources)}{told}"


def the_law(given: Law | Path | str | None) -> Law | None:
    """A law by its name, or as it is.

    Raises:
        LawError: when there is no such law.
    """
    return None if given is None else load_law(given)
