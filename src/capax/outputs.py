"""Files that a command writes: checked before any work is done for them, and written whole or not at all."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from capax.errors import ReportError

SQLITE = b"SQLite format 3\0"
"""How every database of SQLite begins, stores among them."""


def check(path: Path, name: str = "out") -> None:
    """Refuse a path that no file can be written to.

    Args:
        name: of the flag that gave the path.

    Raises:
        ReportError: for a folder, a path in a folder that is not there or not writable, or a store.
    """
    try:
        if path.is_dir():
            raise ReportError(f"{name}: {path} is a folder; name a file")
        if path.exists():
            _check_replaceable(path, name)
    except OSError as error:
        raise ReportError(f"{name}: cannot write {path}: {error.strerror}") from None
    with _beside(path, name) as part:
        part.unlink()


def check_folder(path: Path, name: str = "out") -> None:
    """Make a folder where there is none, and refuse one that nothing can be written into.

    Args:
        name: of the flag that gave the path.

    Raises:
        ReportError: for a file, or a folder that cannot be made or is not writable.
    """
    try:
        if path.exists() and not path.is_dir():
            raise ReportError(f"{name}: cannot write into {path}: it is not a folder")
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReportError(f"{name}: cannot write into {path}: {error.strerror}") from None
    with _beside(path / "any", name, f"into {path}") as part:
        part.unlink()


@contextmanager
def written(path: Path, name: str = "out") -> Iterator[Path]:
    """A new file in the path's folder: what is written there takes the path's place, unless something is raised.

    Args:
        name: of the flag that gave the path.

    Raises:
        ReportError: when it cannot be written.
    """
    with _beside(path, name) as part:
        yield part
        part.replace(path)


@contextmanager
def _beside(path: Path, name: str, what: str = "") -> Iterator[Path]:
    """An empty file of a name that no other has, which is gone at the end, unless it has another name by then."""
    part = path.with_name(f".capax-{secrets.token_hex(8)}.part")
    made = False
    try:
        if not path.parent.is_dir():
            raise ReportError(f"{name}: no such folder {path.parent}")
        part.open("xb").close()
        made = True
        yield part
    except OSError as error:
        raise ReportError(f"{name}: cannot write {what or path}: {error.strerror or error}") from None
    finally:
        if made:
            part.unlink(missing_ok=True)


def _check_replaceable(path: Path, name: str) -> None:
    if not path.is_file():
        raise ReportError(f"{name}: {path} is not a regular file")
    with path.open("r+b") as file:
        if file.read(len(SQLITE)) == SQLITE:
            raise ReportError(f"{name}: {path} is a store or another database; name another file")
