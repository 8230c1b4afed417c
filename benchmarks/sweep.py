"""Sweeps: two workers against one (goal 1.7), the driver's share (goal 2 %), the dry run's guess (goal: factor 2),
500 tiny runs against single commands (goal 5), how soon a resume of 10,000 runs knows what is missing (goal 2 s)."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

import capax
from capax import machine
from capax.sweeps.grid import Study
from capax.sweeps.preview import preview


def timed(runs: list[capax.Run], workers: int) -> tuple[float, float]:
    """Seconds of a sweep after its workers have started, and of its trainings."""
    with tempfile.TemporaryDirectory() as folder:
        began, trained = time.perf_counter(), 0.0
        for run in capax.sweep(runs, Path(folder) / "s.db", workers=workers, device="cpu"):
            trained += run.seconds
        return time.perf_counter() - began, trained


def run(d_model: int, n_heads: int, epochs: int, library_size: int = 2000, seed: int = 0) -> capax.Run:
    return capax.Run(
        task=capax.Sequences(library_size=library_size),
        model=capax.Transformer(n_heads=n_heads, d_model=d_model),
        training=capax.Training(max_epochs=epochs),
        protocol=capax.Mac(restarts=2),
        seed=seed,
    )


def throughput() -> None:
    runs = [run(width, heads, 40) for width, heads in product((16, 32, 48, 64), (1, 2, 3))]
    two, _ = timed(runs, 2)
    one, alone = timed(runs, 1)
    print(
        f"sweep  two workers against one: {one / two:.2f} times as fast (goal 1.7); {len(runs)} runs of "
        f"{alone / len(runs):.1f} s: all but training {one - alone:.1f} s of {one:.0f} s (start of a worker included)",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        guess = preview(Study(Path("s.toml"), tuple(runs), 0, None), Path(folder) / "s.db", workers=1, device="cpu")
    assert guess.seconds is not None
    print(
        f"sweep  dry run: {guess.seconds:.0f} s expected, {alone:.0f} s taken, "
        f"ratio {alone / guess.seconds:.2f} (goal 0.5 to 2)",
        flush=True,
    )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(
        f"sweep  dry run: {guess.bytes / 1e9:.2f} GB expected of a worker, {peak / 1e9:.2f} GB at its peak, "
        f"ratio {peak / guess.bytes:.2f} (goal 0.5 to 2)",
        flush=True,
    )


def overhead() -> None:
    """Runs of 5 s and more in one worker: what is not training, beside the same with half the runs (its start)."""
    few, many = (
        [run(32, 2, 60, seed=0).replace(training=capax.Training(max_epochs=60 + n)) for n in range(k)] for k in (2, 8)
    )
    short, short_trained = timed(few, 1)
    long, long_trained = timed(many, 1)
    per_run = ((long - long_trained) - (short - short_trained)) / (len(many) - len(few))
    mean = long_trained / len(many)
    print(
        f"sweep  driver's overhead: {per_run * 1e3:.0f} ms a run of {mean:.1f} s, {per_run / mean:.1%} (goal 2 %)",
        flush=True,
    )


def tiny() -> None:
    """500 tiny runs, 50 shapes of 10 seeds, against single commands (5 of them, each a process)."""
    runs = [run(width, 1, 2, library_size=50, seed=seed) for width in range(4, 54) for seed in range(10)]
    took, _ = timed(runs, min(machine.cores(), 2))
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        for width in range(4, 9):
            flags = [
                "--d-model",
                str(width),
                "--library-size",
                "50",
                "--max-epochs",
                "2",
                "--restarts",
                "2",
                "--workers",
                "1",
            ]
            command = [Path(sys.executable).with_name("capax"), "measure", "sequences", *flags, "--quiet"]
            subprocess.run(command, cwd=folder, check=True)
        single = (time.perf_counter() - began) / 5
    print(
        f"sweep  500 tiny runs: {took:.0f} s, {500 * single / took:.0f} times as fast as single commands of "
        f"{single:.1f} s (goal 5)",
        flush=True,
    )


def resume() -> None:
    """A study of 10,000 runs of which all are stored but one."""
    done = capax.measure(
        capax.Sequences(library_size=20, seq_len=3), capax.Transformer(d_model=4), capax.Training(max_epochs=1)
    )
    runs = [done.spec.replace(seed=seed) for seed in range(10_000)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.db"
        with capax.Store(path) as store:
            for one in runs[:-1]:
                store.add(done.model_copy(update={"key": one.key(), "spec": one}))
            began = time.perf_counter()
            known = store.keys()
            missing = [one for one in runs if one.key() not in known]
            took = time.perf_counter() - began
        assert len(missing) == 1
        began = time.perf_counter()
        capax.Store(path).close()
        opened = time.perf_counter() - began
    print(
        f"sweep  resume of 10,000 runs: what is missing after {took:.2f} s (goal 2); "
        f"opening {opened * 1e3:.1f} ms (goal 50)"
    )


def main() -> None:
    throughput()
    overhead()
    tiny()
    resume()


if __name__ == "__main__":
    main()
