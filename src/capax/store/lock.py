"""One sweep at a time: locks that the operating system frees when their holder dies.

One is beside the store, where all hosts that see it find it: beside the file itself, whatever link names it. One is of
the file's device and inode, since a hard link names the same file in another folder. Its holder says in a file beside
the store who it is and how far the sweep is; the file is gone when the sweep ends, and left by one that was killed.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from capax.errors import StoreError, StoreWriteError
from capax.store.file import identity
from capax.store.schema import Time, now

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PATIENCE_SECONDS = 0.5
"""A lock that is held no longer than this belongs to somebody who looks at it, not to a sweep."""


@dataclass(frozen=True)
class SweepProgress:
    """How far a sweep is.

    Attributes:
        total: runs of the study; None in an adaptive sweep, which chooses them on the way.
        stored: runs that were in the store before.
        done, failed: of the others.
        running: runs in flight, which may be in fewer packs.
        memorized: items that the finished runs recalled.
        seconds_left: until the end, by the pace so far; None before the first run is done.
    """

    total: int | None
    stored: int
    done: int
    running: int
    failed: int
    memorized: int = 0
    seconds_left: float | None = None


@dataclass(frozen=True)
class Holder:
    """Which process sweeps a store since when (UTC), and how far it was when it last said so; None before it did."""

    pid: int
    host: str
    since: Time
    progress: SweepProgress | None = None


State = Literal["running", "killed", "none"]
Watch = Callable[[SweepProgress], None]


@contextmanager
def hold(store: Path) -> Iterator[Watch]:
    """Hold the lock of a store; what it yields tells those who look how far the sweep is.

    Raises:
        StoreError: when another holds it (the message says who), or when it cannot be made.
        StoreWriteError: on telling, where it cannot be written.
    """
    from filelock import FileLock, Timeout  # here: those who list runs hold no lock

    lock, path = FileLock(_lock(store), timeout=PATIENCE_SECONDS), _record(store)
    try:
        lock.acquire()
    except Timeout:
        raise StoreError(f"store: a sweep of {store} is under way: {_in_words(_read(path))}") from None
    except OSError as error:
        raise StoreError(f"store: cannot lock {lock.lock_file}: {error.strerror}") from None
    pid, host, since = os.getpid(), socket.gethostname(), now()
    inode = None
    try:
        inode = _hold_inode(store)
        path.unlink(missing_ok=True)  # that of one who was killed must not be taken for ours
        _write(path, Holder(pid, host, since))
        yield lambda progress: _write(path, Holder(pid, host, since, progress))
    finally:
        path.unlink(missing_ok=True)
        lock.release()
        if inode is not None:
            inode.close()


def _hold_inode(store: Path) -> socket.socket | None:
    """Hold a name made of the store's device and inode; where the system has no such names (not Linux), None.

    The file itself is not locked: closing it would drop the locks that SQLite holds on it in this process.

    Raises:
        StoreError: when another holds it.
    """
    file = identity(store)
    if file is None or not sys.platform.startswith("linux"):
        return None
    held = socket.socket(socket.AF_UNIX)
    try:
        held.bind(f"\0capax-sweep-{file[0]}-{file[1]}")  # no file: the name goes with its holder
    except OSError as error:
        held.close()
        if error.errno != errno.EADDRINUSE:
            return None
        raise StoreError(f"store: a sweep of {store} is under way, by another name of the file") from None
    return held


def look(store: Path) -> tuple[State, Holder | None]:
    """Whether a sweep of a store is under way, or the last one was killed; and what its holder said last."""
    path = _record(store)
    while True:
        holder = _read(path)
        if _is_held(_lock(store)):
            return "running", holder
        if _read(path) == holder:  # else one has begun or ended meanwhile
            return "none" if holder is None else "killed", holder


def _is_held(path: Path) -> bool:
    """Whether somebody holds the lock, without writing a file; where the system has no such locks, by the record."""
    if fcntl is None:
        return path.with_name(path.name + ".json").exists()
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreError(f"store: cannot read {path}: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: those who look are never taken for a sweep
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(file)


def _lock(store: Path) -> Path:
    store = store.resolve()
    return store.with_name(store.name + ".sweep-lock")


def _record(store: Path) -> Path:
    """Where the holder of the lock says how far the sweep is."""
    lock = _lock(store)
    return lock.with_name(lock.name + ".json")


def _write(path: Path, holder: Holder) -> None:
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(json.dumps(asdict(holder)))
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StoreWriteError(f"store: cannot write {path}: {error.strerror}") from None


def _read(path: Path) -> Holder | None:
    try:
        return TypeAdapter(Holder).validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def _in_words(holder: Holder | None) -> str:
    if holder is None:
        return "a process that has just begun or is about to end"
    return f"process {holder.pid} on {holder.host} since {holder.since}"
