"""Files that a command writes: checked before any work is done for them, and written whole or not at all.

A file takes its place in one step, where a link leads to and with the rights that it had. What is no regular file (a
device, a pipe) is written to and stays what it is.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from capax.errors import OutputError, ReportError, shown

SQLITE = b"SQLite format 3\0"
"""How every database of SQLite begins, stores among them."""

BAD_PATH = {
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.EINVAL,
    errno.ENXIO,  # a pipe that nobody reads
}
"""Errors caused by the given path; others are the machine's."""


PAGE = (b"<!", "page")
"""How a report begins."""


def path_of(given: Path | str, name: str = "out") -> Path:
    """The path of a file that is to be written.

    Args:
        name: of the argument that gave it.

    Raises:
        ReportError: for what is no path.
    """
    if not isinstance(given, str | os.PathLike):
        raise ReportError(f"{name}: a path, got {shown(given)}")
    return Path(given)


def check(path: Path, name: str = "out", ours: tuple[bytes, str] | None = None) -> None:
    """Refuse a path that no file can be written to, or where there is something else than such a file.

    Args:
        name: of the flag that gave the path.
        ours: with which such files begin, and what they are: only one of them, or an empty file, is overwritten.

    Raises:
        ReportError: for a folder, a path in a folder that is not there or not writable, a store, or another file.
    """
    with _reported(name, path):
        there = _look(path, name)
        if ours is not None and there is not None and there.st_size and _is_replaced(there):
            start, what = ours
            with path.open("rb") as file:
                if file.read(len(start)) != start:
                    raise ReportError(f"{name}: {path} is there, and no {what}; name another file")
        if _is_replaced(there):
            with _beside(path, name) as part:
                part.unlink()
        elif not os.access(path, os.W_OK):
            raise OutputError(f"{name}: cannot write {path}: {os.strerror(errno.EACCES)}")


def check_folder(path: Path, name: str = "out") -> None:
    """Make a folder where there is none, and refuse one that nothing can be written into.

    Args:
        name: of the flag that gave the path.

    Raises:
        ReportError: for a file, or a folder that cannot be made or is not writable.
    """
    with _reported(name, f"into {path}"):
        if not path.is_dir() and _look(path, name) is not None:
            raise ReportError(f"{name}: cannot write into {path}: it is not a folder")
        path.mkdir(parents=True, exist_ok=True)
        with _beside(path / "any", name) as part:
            part.unlink()


def write(path: Path, content: bytes, name: str = "out") -> None:
    """Write a file, as `written`."""
    with written(path, name) as part:
        part.write_bytes(content)


@contextmanager
def written(path: Path, name: str = "out") -> Iterator[Path]:
    """A new file: what is written there takes the path's place, unless something is raised.

    Args:
        name: of the flag that gave the path.

    Raises:
        ReportError: for a path that `check` refuses.
        OutputError: when it cannot be written.
    """
    with _reported(name, path):
        there = _look(path, name)
        if _is_replaced(there):
            with _beside(path, name) as part:
                yield part
                if there is not None:
                    part.chmod(stat.S_IMODE(there.st_mode))
                part.replace(os.path.realpath(path))
            return
        with TemporaryDirectory(prefix="capax-") as folder:
            part = Path(folder) / "part"
            yield part
            _pour(part, path)


@contextmanager
def _reported(name: str, what: Path | str) -> Iterator[None]:
    """Report system errors by the name of the flag."""
    try:
        yield
    except OSError as error:
        kind = ReportError if error.errno in BAD_PATH else OutputError
        raise kind(f"{name}: cannot write {what}: {error.strerror or error}") from None


def _look(path: Path, name: str) -> os.stat_result | None:
    """What is at the path; None for nothing."""
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return None
    except ValueError as error:  # of a name with a null character, or with what is no text
        raise ReportError(f"{name}: cannot write {path}: {error}") from None
    if stat.S_ISDIR(there.st_mode):
        raise ReportError(f"{name}: {path} is a folder; name a file")
    if stat.S_ISREG(there.st_mode):
        with path.open("r+b") as file:
            if file.read(len(SQLITE)) == SQLITE:
                raise ReportError(f"{name}: {path} is a store or another database; name another file")
    return there


def _is_replaced(there: os.stat_result | None) -> bool:
    """Whether a new file takes the place of what is there, which a device, a pipe or our own stdout keep."""
    return there is None or (stat.S_ISREG(there.st_mode) and _stream(there) is None)


def _stream(there: os.stat_result) -> int | None:
    """Which of stdout and stderr a file is, as `/dev/stdout` is."""
    for stream in (1, 2):
        try:
            if os.path.samestat(os.fstat(stream), there):
                return stream
        except OSError:  # it is closed
            continue
    return None


@contextmanager
def _beside(path: Path, name: str) -> Iterator[Path]:
    """An empty file of a name that no other has, which is gone at the end, unless it has another name by then."""
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise ReportError(f"{name}: cannot write {path}: no such folder {folder if path.is_symlink() else path.parent}")
    part = folder / f".capax-{secrets.token_hex(8)}.part"
    part.open("xb").close()
    try:
        yield part
    finally:
        part.unlink(missing_ok=True)


def _pour(part: Path, path: Path) -> None:
    """Write what a file holds to what is no regular file."""
    stream = _stream(os.stat(path))
    if stream is None:  # a pipe that nobody reads is an error, not waited for
        to = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
        os.set_blocking(to, True)
    else:
        if sys.stdout is not None:
            sys.stdout.flush()
        to = os.dup(stream)
    with part.open("rb") as source, open(to, "wb") as file:
        shutil.copyfileobj(source, file)
