"""Time of a step where attention is as sharp as after long training: subnormal numbers taken for 0, or computed with.

The layer of Mahdavi et al. 2024 at the published size (60 heads of 64, batch 256, 32 tokens shared), its queries and
keys scaled so that scores spread as they do late in training; one thread, in turn, medians over rounds.
"""

from __future__ import annotations

import statistics

import torch

from benchmarks.associations import BATCH, CLASSES, CONTEXT, HEAD, WIDTH, seconds
from capax.specs import Associations, AssociativeAttention, Training
from capax.training.ensemble import Learner
from capax.training.pack import Pack
from capax.training.prepare import prepare

HEADS, SHARPER, GOAL = 60, 10.0, 3.0


def main(rounds: int = 25) -> None:
    torch.set_num_threads(1)
    task = Associations(context_size=CONTEXT, library_size=4 * BATCH, contexts="shared", n_classes=CLASSES)
    model = AssociativeAttention(n_heads=HEADS, d_model=WIDTH, d_head=HEAD, profile="mahdavi2024")
    size = task.library_size
    pack = Pack(task, model, Training(batch_size=BATCH), (0,), (0,), (size,), size, mixed=False, one_library=True)
    learner = prepare(pack)
    with torch.no_grad():
        for name in ("query", "key"):
            learner.ensemble.parameters[name].mul_(SHARPER)
    plain = Learner.step.__wrapped__  # type: ignore[attr-defined]
    times = [
        (seconds(lambda: learner.step() and None), seconds(lambda: plain(learner) and None)) for _ in range(rounds)
    ]
    ours, theirs = (statistics.median(each) * 1e3 for each in zip(*times, strict=True))
    ratio = statistics.median(slow / fast for fast, slow in times)
    print(
        f"subnormal     taken for 0 {ours:6.2f} ms  computed with {theirs:6.2f} ms  ratio {ratio:5.1f} (goal {GOAL:g})",
        flush=True,
    )


if __name__ == "__main__":
    main()
