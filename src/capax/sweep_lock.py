"""One sweep at a time: a lock beside the store that the operating system frees when its holder dies."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from capax.errors import StoreError
from capax.store_schema import now


@contextmanager
def hold(store: Path) -> Iterator[None]:
    """Hold the lock of a store.

    Raises:
        StoreError: at once, when another holds it (the message says who), or when it cannot be made.
    """
    from filelock import FileLock, Timeout

    path = store.with_name(store.name + ".sweep-lock")
    holder = path.with_name(path.name + ".json")
    try:
        lock = FileLock(path, timeout=0)
        lock.acquire()
    except Timeout:
        raise StoreError(f"store: a sweep of {store} is under way: {_in_words(holder)}") from None
    except OSError as error:
        raise StoreError(f"store: cannot lock {path}: {error.strerror}") from None
    try:
        _write(holder)
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _write(holder: Path) -> None:
    holder.unlink(missing_ok=True)  # that of one who was killed must not be taken for ours
    part = holder.with_name(holder.name + ".part")
    try:
        part.write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": now()}))
        part.replace(holder)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StoreError(f"store: cannot write {holder}: {error.strerror}") from None


def _in_words(holder: Path) -> str:
    try:
        told = json.loads(holder.read_text())
        return f"process {told['pid']} on {told['host']} since {told['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "a process that has just begun or is about to end"
