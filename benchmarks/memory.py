"""Peak memory of a measurement of 16,000 sequences, all processes together. Goal: under 2 GB.

The model and the number of restarts are the defaults.

Memory does not grow with epochs, so two of them are enough.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import capax


def proportional_bytes(pid: int) -> int:
    """Memory of a process and its children, pages that they share counted once."""
    total = 0
    for process in [pid, *children(pid)]:
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def children(pid: int) -> list[int]:
    try:
        direct = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [descendant for child in direct for descendant in (child, *children(child))]


def main() -> None:
    with TemporaryDirectory() as folder:
        command = "from capax.cli import main; main()"
        flags = ["measure", "sequences", "--library-size", "16000", "--max-epochs", "2", "--device", "cpu", "--json"]
        process = subprocess.Popen([sys.executable, "-c", command, *flags], cwd=folder, stdout=subprocess.PIPE)
        peak = 0

        def watch() -> None:
            nonlocal peak
            while process.poll() is None:
                peak = max(peak, proportional_bytes(process.pid))
                time.sleep(0.05)

        watcher = threading.Thread(target=watch)
        watcher.start()
        assert process.stdout is not None
        run = capax.Measurement.from_json(json.dumps(json.load(process.stdout)))
        watcher.join()
    print(
        f"memory  {run.library_size} sequences, {len(run.members)} restarts: peak {peak / 1e9:.2f} GB (goal 2)",
        flush=True,
    )


if __name__ == "__main__":
    main()
