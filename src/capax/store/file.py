"""Checks on the path of a store's file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from capax.errors import StoreError
from capax.inputs import exists, regular

ONE_PAGE = 4096
ANY_WRITE_BIT = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


def check_path(path: Path, create: bool = True) -> None:
    """Refuse a path where no store can be.

    Raises:
        StoreError: when it is a folder or no regular file, is missing and may not be made, is read-only, or has other
            names: SQLite keeps a log beside each, and one log would be written over the other.
    """
    there = exists(path, "store", StoreError)
    if not path.parent.is_dir():
        raise StoreError(f"store: folder {path.parent} does not exist")
    if there or not create:
        regular(path, "store", StoreError)
    if not there and create and not os.access(path.parent, os.W_OK):
        raise StoreError(f"store: folder {path.parent} is read-only")
    if there and create and not is_writable(path):
        raise StoreError(f"store: {path} or its folder is read-only")
    if there and create and has_other_names(path):
        raise StoreError(f"store: {path} has other names (hard links); remove them, or make a copy and use that")


def check_names(path: Path, log: Path) -> None:
    """Refuse a file whose content lies in the log of another of its names: a second log would later replace it.

    SQLite keeps a log beside each name. Until it brings the first into the file, that is one page without a table.

    Raises:
        StoreError: for such a file.
    """
    if path.exists() and not log.exists() and has_other_names(path) and 0 < path.stat().st_size <= ONE_PAGE:
        raise StoreError(f"store: {path} is in use by another name of the file (a hard link); use that name")


def has_other_names(path: Path) -> bool:
    """Whether the file has other names (hard links), each of which would get a log of its own."""
    return path.stat().st_nlink > 1


def identity(path: Path) -> tuple[int, int] | None:
    """Which file a path names now; None where it names none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def is_writable(path: Path) -> bool:
    """Whether a file may be changed; its mode counts for the superuser, too, and SQLite writes a log beside it."""
    return bool(path.stat().st_mode & ANY_WRITE_BIT) and os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
