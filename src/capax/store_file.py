"""The file of a store, apart from what is in it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from capax.errors import StoreError

ANY_WRITE_BIT = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


def check_path(path: Path, create: bool = True) -> None:
    """Refuse a path where no store can be.

    Raises:
        StoreError: when it is a folder or no regular file, is missing and may not be made, or is read-only.
    """
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):  # told below
        pass
    except (OSError, ValueError) as error:  # ValueError: a null character
        raise StoreError(f"store: cannot open {path}: {getattr(error, 'strerror', None) or error}") from None
    if path.is_dir():
        raise StoreError(f"store: {path} is a folder; name a file")
    if not path.parent.is_dir():
        raise StoreError(f"store: folder {path.parent} does not exist")
    if not path.exists():
        if not create:
            raise StoreError(f"store: no such file: {path}")
        return
    if not path.is_file():
        raise StoreError(f"store: {path} is not a regular file")
    if create and not is_writable(path):
        raise StoreError(f"store: {path} or its folder is read-only")


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
