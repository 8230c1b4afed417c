"""One sweep at a time: locks that the operating system frees when their holder dies.

One is beside the store, where all hosts that see it find it: beside the file itself, whatever link names it. One is of
the file's device and inode, since a hard link names the same file in another folder. Its holder says in a file beside
the store who it is and where the sweep stands; the file is gone when the sweep ends, and left by one that was killed.
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

PATIENCE_SECONDS = 0.5
"""A lock that is held for no longer is somebody's look at it, not a sweep."""


@dataclass(frozen=True)
class Standing:
    """Where a sweep stands.

    Attributes:
        runs: of its study; None where they are chosen on the way.
        stored: of these, those that were in the store before.
        done, failed: of the others.
        running: packs of runs in flight.
    """

    runs: int | None
    stored: int
    done: int
    running: int
    failed: int


@dataclass(frozen=True)
class Holder:
    """Who sweeps a store since when (UTC), and where the sweep stood when it last said so; None before it did."""

    pid: int
    host: str
    since: Time
    standing: Standing | None = None


State = Literal["running", "killed", "none"]
Tell = Callable[[Standing], None]


@contextmanager
def hold(store: Path) -> Iterator[Tell]:
    """Hold the lock of a store; what it gives tells those who look where the sweep stands.

    Raises:
        StoreError: when another holds it (the message says who), or when it cannot be made.
        StoreWriteError: on telling, where it cannot be written.
    """
    from filelock import FileLock, Timeout

    path, place = _lock(store), _place(store)
    try:
        lock = FileLock(path, timeout=PATIENCE_SECONDS)
        lock.acquire()
    except Timeout:
        raise StoreError(f"store: a sweep of {store} is under way: {_in_words(_read(place))}") from None
    except OSError as error:
        raise StoreError(f"store: cannot lock {path}: {error.strerror}") from None
    pid, host, since = os.getpid(), socket.gethostname(), now()
    inode = None
    try:
        inode = _hold_inode(store)
        place.unlink(missing_ok=True)  # that of one who was killed must not be taken for ours
        _write(place, Holder(pid, host, since))
        yield lambda standing: _write(place, Holder(pid, host, since, standing))
    finally:
        place.unlink(missing_ok=True)
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
    place = _place(store)
    while True:
        holder = _read(place)
        if _is_held(_lock(store)):
            return "running", holder
        if _read(place) == holder:  # else one has begun or ended meanwhile
            return "none" if holder is None else "killed", holder


def _is_held(path: Path) -> bool:
    """Whether somebody holds the lock, without writing a file; where the system has no such locks, by the record."""
    try:
        import fcntl
    except ImportError:  # Windows
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


def _place(store: Path) -> Path:
    store = store.resolve()
    return store.with_name(store.name + ".sweep-lock.json")


def _write(place: Path, holder: Holder) -> None:
    part = place.with_name(place.name + ".part")
    try:
        part.write_text(json.dumps(asdict(holder)))
        part.replace(place)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StoreWriteError(f"store: cannot write {place}: {error.strerror}") from None


def _read(place: Path) -> Holder | None:
    try:
        return TypeAdapter(Holder).validate_json(place.read_bytes())
    except (OSError, ValidationError):
        return None


def _in_words(holder: Holder | None) -> str:
    if holder is None:
        return "a process that has just begun or is about to end"
    return f"process {holder.pid} on {holder.host} since {holder.since}"
