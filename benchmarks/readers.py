"""What reads a store of 10,000 runs, and a report of 2000: seconds and peak memory of the whole command.

Goals: 300 MB each; `runs --where` 3 s, `runs --json` 5 s, `report` 8 s.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

import capax
from benchmarks.report import many, measured

RUNS, REPORTED = 10_000, 2000
TIMES = 3
EPOCHS = 120
"""A measurement is then 16 kB, most of it curves."""
MEGABYTES = 300
TIMED = """
import json, os, sys, time
began = time.perf_counter()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, 1, 0)])
_, status, used = os.wait4(pid, 0)
seconds = [time.perf_counter() - began, used.ru_utime + used.ru_stime]
print(json.dumps([*seconds, used.ru_maxrss / 1e3, os.waitstatus_to_exitcode(status)]))
"""
"""A small process that starts the command: a child's peak counts that of the process it was copied from."""


class Timed(NamedTuple):
    """What a command took: seconds by the clock, seconds of a processor, peak megabytes."""

    seconds: float
    processor: float
    megabytes: float


def timed(*arguments: str | Path) -> Timed:
    """What a command takes in a process of its own."""
    command = [sys.executable, "-c", "from capax.cli import main; main()", *map(str, arguments)]
    told = subprocess.run([sys.executable, "-S", "-c", TIMED, *command], check=True, capture_output=True, text=True)
    *took, code = json.loads(told.stdout)
    if code:
        raise SystemExit(f"capax {' '.join(map(str, arguments))}: exit code {code}: {told.stderr}")
    return Timed(*took)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole, part, page = folder / "runs.db", folder / "reported.db", folder / "report.html"
        real = measured(EPOCHS)
        for path, count in ((whole, RUNS), (part, REPORTED)):
            with capax.Store(path) as kept:
                for run in many(real, count):
                    kept.add(run)
        print(f"readers  {RUNS} runs: {whole.stat().st_size / 1e6:.0f} MB", flush=True)
        commands: dict[str, tuple[tuple[str | Path, ...], float]] = {
            "runs --where": (("runs", "--store", whole, "--where", "n_heads=2"), 3),
            "runs --json": (("runs", "--store", whole, "--json"), 5),
            "report": (("report", part, "--out", page), 8),
        }
        for label, (arguments, goal) in commands.items():
            found = [timed(*arguments) for _ in range(TIMES)]
            seconds, processor = (median(one[place] for one in found) for place in range(2))
            rows = REPORTED if label == "report" else RUNS
            print(
                f"readers  {label}, {rows} runs: {seconds:.1f} s (goal {goal}), {processor:.1f} s of a processor, "
                f"{max(one.megabytes for one in found):.0f} MB (goal {MEGABYTES})",
                flush=True,
            )


if __name__ == "__main__":
    main()
