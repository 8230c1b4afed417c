"""A process that forks to run bad invocations, and how each of them ended.

As a script it is that process: a line of JSON in (arguments, folder), a line of JSON out (how it ended). It imports
what the commands do, so that a case costs milliseconds.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from invocations import asks_for_work

CPU_SECONDS, AMOUNT_SECONDS = 30, 3
WALL_FACTOR = 8
"""Seconds for each of the CPU's: others may be at work, too."""
DATA_BYTES = 6 * 2**30
PEAK_BYTES = int(1.5e9)


@dataclass(frozen=True)
class Ended:
    """How an invocation ended; `signal` where it was killed, which `timeout` did if it took too long."""

    arguments: list[str]
    code: int
    signal: int
    timeout: bool
    peak: int
    out: str
    err: str
    made: list[str]

    def faults(self) -> list[str]:
        """What a user should never see."""
        found = []
        if self.timeout:
            if not asks_for_work(self.arguments):
                found.append("takes too long")
        elif self.signal:
            found.append(f"was killed by signal {self.signal}")
        elif self.code not in (0, 1, 2, 130):
            found.append(f"ended with code {self.code}")
        if "Traceback" in self.err or "Traceback" in self.out:
            found.append("printed a traceback")
        ours = ("runs done", "resource_tracker", "warnings.warn(")  # a fork leaves what an ordinary end cleans up
        lines = [line for line in self.err.splitlines() if not any(sign in line for sign in ours)]
        if not self.timeout and len(lines) > 1:
            found.append(f"said {len(lines)} lines")
        if self.code in (1, 2) and not self.signal and not lines:
            found.append("was refused without a word")
        if any(sign in self.err for sign in "\x1b\x00"):
            found.append("printed control characters")
        if self.peak > PEAK_BYTES and (self.code == 2 or not asks_for_work(self.arguments)):
            found.append(f"took {self.peak / 1e9:.1f} GB")
        if self.code == 2 and self.made and not self.timeout:
            found.append(f"left {', '.join(self.made)} behind")
        return found


class Server:
    """The process that runs invocations, each in a fork of its own in a fresh copy of a folder."""

    def __init__(self, template: Path) -> None:
        self._template = template
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def run(self, arguments: list[str]) -> Ended:
        """Run one invocation to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            before = _copy(self._template, Path(folder))
            seconds = AMOUNT_SECONDS if asks_for_work(arguments) else CPU_SECONDS
            asked = {"arguments": arguments, "folder": folder, "seconds": seconds}
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            told = json.loads(self._process.stdout.readline())
            made = sorted(name for name in _names(Path(folder)) - before if _counts(name, before))
            return Ended(arguments=arguments, made=made, **told)


def _counts(name: str, before: set[str]) -> bool:
    """Whether a file should not be there: the lock of a store that was there before may."""
    return not name.startswith("stdio/") and name.removesuffix(".sweep-lock") not in before


def _copy(template: Path, folder: Path) -> set[str]:
    """Links to large files, copies of others; the names that are there."""
    for path in sorted(template.rglob("*")):
        place = folder / path.relative_to(template)
        if path.is_dir() and not path.is_symlink():
            place.mkdir()
        elif path.is_symlink():
            place.symlink_to(path.readlink())
        elif path.is_fifo():
            os.mkfifo(place)
        elif path.stat().st_size > 2**20:
            place.hardlink_to(path)
        else:
            place.write_bytes(path.read_bytes())
    (folder / "stdio").mkdir()
    return _names(folder)


def _names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def _child(arguments: list[str], folder: str, seconds: int) -> None:
    """Run one invocation in this process, which ends with it."""
    os.setsid()
    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (DATA_BYTES, DATA_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number, name in ((1, "stdio/out"), (2, "stdio/err")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from capax.cli import main

    code = 99
    try:
        main(arguments)
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _serve() -> None:
    import importlib
    import pkgutil

    import torch

    import capax
    import capax.cli
    from capax.cli import progress

    progress.FIRST_SECONDS = 3600.0  # however slow the machine is, nothing is said of progress

    torch.set_num_threads(1)
    for module in pkgutil.walk_packages(capax.__path__, "capax."):
        importlib.import_module(module.name)
    capax.cli.command_line()
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            _child(**asked)
        handle, timeout = os.pidfd_open(child), False
        if not select.select([handle], [], [], WALL_FACTOR * asked["seconds"])[0]:
            timeout = True
            os.killpg(child, signal.SIGKILL)
        _, status, used = os.wait4(child, 0)
        os.close(handle)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # workers that it left
        ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        texts = {
            name: (Path(asked["folder"]) / "stdio" / name).read_text(errors="replace")[:20_000]
            for name in ("out", "err")
            if (Path(asked["folder"]) / "stdio" / name).exists()
        }
        told = {
            "code": -1 if ended else os.WEXITSTATUS(status),
            "signal": ended,
            "timeout": timeout or ended == signal.SIGXCPU,
            "peak": used.ru_maxrss * 1024,
            "out": texts.get("out", ""),
            "err": texts.get("err", ""),
        }
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    _serve()
