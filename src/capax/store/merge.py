"""Merging stores."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from capax import outputs
from capax.errors import OutputError, StoreError, StoreWriteError
from capax.store import Store


def merge(paths: Iterable[Path | str], out: Path | str) -> int:
    """Copy several stores into a new file, whole or not at all; returns how many runs it holds.

    Of one key, the run that finished last counts. Failures are taken where no store has the run. Imported rows
    of all stores are kept, equal ones of one source once; where those of one source differ, later ones have a number
    after it, as in `data.csv (2)`. Kept weights stay beside their stores. A store that is named twice counts once.

    Raises:
        StoreError: when `out` exists, or a store cannot be read.
        ReportError: when `out` cannot be written.
    """
    paths, out = [Path(path) for path in paths], Path(out)
    if not paths:
        raise StoreError("stores: at least one to merge")
    if not os.path.isfile(out):
        outputs.check(out)
    for file in _files(out):  # a log that was left behind would be played into the new file
        if file.exists():
            raise StoreError(f"out: {file} exists; name a new file")
    with outputs.written(out) as part:
        try:
            with Store(part) as merged:
                for path in {os.path.realpath(path): path for path in paths}.values():
                    with Store(path, create=False) as store:
                        merged.take(store)
                count = len(merged.keys())
        except StoreWriteError as error:
            raise OutputError(f"out: cannot write {out}: {str(error).rpartition(': ')[2]}") from None
        finally:
            for file in _files(part)[1:]:
                file.unlink(missing_ok=True)
    return count


def _files(path: Path) -> list[Path]:
    """The file of a store, and those that SQLite keeps beside it."""
    return [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")]
