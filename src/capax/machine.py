"""The machine: its cores and memory, versions, and worker processes."""

from __future__ import annotations

import multiprocessing
import os
import platform
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from multiprocessing.connection import wait
from pathlib import Path

from capax.errors import SpecError

UNSTARTED = (
    "workers: the worker processes die while they start; in a script, put what starts them below "
    '`if __name__ == "__main__":`, since each worker imports the script, or ask for workers=1'
)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> int:
    """Bytes that this process may use: those of the machine, of its container, or of a limit, whichever are fewest."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")] if hasattr(os, "sysconf") else []
    with suppress(OSError, ValueError):  # no container, or "max"
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    with suppress(ImportError):  # Windows
        import resource

        limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
        found += [limit for limit in limits if limit != resource.RLIM_INFINITY]
    return min(found, default=2**62)


def host() -> str | None:
    """The name of the machine in its network; None where it has none."""
    return platform.node() or None


def versions() -> dict[str, str]:
    """Versions of what a result depends on."""
    return {"capax": _version("capax"), "python": platform.python_version()} | {
        name: _version(name) for name in ("torch", "numpy", "scipy")
    }


def folder(name: str) -> Path:
    """The folder of the documentation's pages (docs), or of its examples: in the package, or beside the sources."""
    installed = Path(__file__).parent / name
    return installed if installed.is_dir() else Path(__file__).parents[2] / name


_version = cache(version)
"""Reads the package's files; every measurement and checkpoint asks."""


@contextmanager
def starting_workers() -> Iterator[None]:
    """Keep Ctrl-C from processes that are started meanwhile, from their first moment on; here it waits until the end.

    A worker that ignores it only once it has started would print a traceback before that.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_if_imported_by_a_worker() -> None:
    """End a worker process that starts workers while it imports its parent's script; the parent reports UNSTARTED."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        sys.exit(1)


def check_script() -> None:
    """Refuse workers where the script comes from stdin: each would look for a file of that name, and die.

    Raises:
        SpecError: there.
    """
    if getattr(sys.modules["__main__"], "__file__", None) == "<stdin>":
        raise SpecError(
            "workers: each worker imports the script, which cannot be had from stdin; put it in a file, "
            "or ask for workers=1"
        )


def end_with_parent() -> None:
    """Let this worker process end when its parent is gone, however that ended."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch(sentinel: int) -> None:
        wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, args=(parent.sentinel,), daemon=True).start()
