"""Several stores made one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from capax.errors import StoreError
from capax.store import Store


def merge(paths: Iterable[Path | str], out: Path | str) -> int:
    """Copy several stores into a new file, whole or not at all; how many runs it holds.

    Of one key, the run that finished last counts. Failures are taken where no store has the run. Rows imported from one
    source are those of the store named last. Kept weights stay beside their stores.

    Raises:
        StoreError: when `out` exists or cannot be written, or a store cannot be read.
    """
    paths, out = [Path(path) for path in paths], Path(out)
    if not paths:
        raise StoreError("stores: at least one to merge")
    for file in _files(out):  # a log that was left behind would be played into the new file
        if file.exists():
            raise StoreError(f"out: {file} exists; name a new file")
    part = out.with_name(out.name + ".part")
    _remove(part)
    try:
        with Store(part) as merged:
            for path in paths:
                with Store(path, create=False) as store:
                    merged.take(store)
            count = len(merged.keys())
        part.rename(out)
    except OSError as error:
        raise StoreError(f"out: cannot write {out}: {error.strerror}") from None
    finally:
        _remove(part)
    return count


def _files(path: Path) -> list[Path]:
    """The file of a store, and those that SQLite keeps beside it."""
    return [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")]


def _remove(path: Path) -> None:
    for file in _files(path):
        file.unlink(missing_ok=True)
