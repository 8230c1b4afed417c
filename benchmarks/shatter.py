"""The paper's shatter run: 1000 trials of 16 sequences of 8 tokens at d_model 16. Goal: under 120 s on two cores."""

from __future__ import annotations

import capax
from capax import machine


def main() -> None:
    workers = min(machine.cores(), 2)
    run = capax.measure(
        capax.Sequences(library_size=16),
        capax.Transformer(d_model=16),
        protocol=capax.Shatter(trials=1000),
        workers=workers,
        device="cpu",
    )
    assert run.shatter is not None
    epochs = sum(member.epochs for member in run.members)
    pace = run.seconds * workers / epochs * 1e3
    print(
        f"shatter  1000 trials on {workers} workers: {run.seconds:.0f} s (goal 120), "
        f"{len(run.shatter.epochs)} complete, median {run.shatter.median:g} epochs, {pace:.2f} ms per trial and epoch",
        flush=True,
    )


if __name__ == "__main__":
    main()
