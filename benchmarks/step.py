"""Time of a training step against a plain loop over the same model built by x-transformers.

Batch 512, d_model 64, 2 heads of 64, one layer, Adam; both in this process, in turn, one thread. The figure is
milliseconds per model and step; the ratio is the median over pairs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from x_transformers import Decoder, TransformerWrapper

from capax.specs import Model, Sequences, Training, Transformer
from capax.testing.trained import pack
from capax.training.prepare import prepare

BATCH, WIDTH, HEADS = 512, 64, 2
MEMBERS = {"last": 4, "all": 1}
MODEL = Transformer(n_heads=HEADS, d_model=WIDTH)


@dataclass(frozen=True)
class Step:
    loss: str
    vocab_size: int
    seq_len: int


@dataclass(frozen=True)
class Case(Step):
    goal: float
    precision: str = "float32"
    compile: bool = False


CASES = [
    Case("last", 16, 32, 15),
    Case("last", 16, 128, 35),
    Case("last", 100, 32, 14),
    Case("last", 100, 128, 20),
    Case("all", 16, 32, 1.5),
    Case("all", 100, 32, 1.5),
    Case("all", 16, 32, 2, precision="bfloat16"),
    Case("all", 16, 32, 2, precision="bfloat16", compile=True),
]


def theirs(case: Step) -> nn.Module:
    """The model by x-transformers, with frozen tables."""
    model = TransformerWrapper(
        num_tokens=case.vocab_size, max_seq_len=case.seq_len - 1, attn_layers=Decoder(dim=WIDTH, depth=1, heads=HEADS)
    )
    model.token_emb.emb.weight.requires_grad_(False)
    model.to_logits.weight.requires_grad_(False)
    return model


def plain_step(model: nn.Module, case: Step) -> Callable[[], None]:
    """One step of the plain loop, as a user would write it."""
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad])
    tokens = torch.randint(case.vocab_size, (BATCH, case.seq_len))

    def step() -> None:
        logits = model(tokens[:, :-1])
        if case.loss == "last":
            loss = F.cross_entropy(logits[:, -1], tokens[:, -1])
        else:
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def capax_step(model: Model, case: Step, **training: Any) -> Callable[[], None]:
    """One step of capax's own learner, the whole of it: batch order, losses, gradients, Adam."""
    task = Sequences(seq_len=case.seq_len, vocab_size=case.vocab_size, library_size=BATCH, loss=case.loss)
    learner = prepare(pack(task, model, Training(batch_size=BATCH, **training), range(MEMBERS[case.loss])))

    def step() -> None:
        learner.step()
        if any(note.startswith("compile") for note in learner.notes):
            raise SystemExit("; ".join(learner.notes))

    return step


def seconds(step: Callable[[], None], clock: Callable[[], float] = time.perf_counter) -> float:
    started = clock()
    step()
    return clock() - started


def main(pairs: int = 9) -> list[dict[str, object]]:
    torch.set_num_threads(1)
    rows = []
    for case in CASES:
        plain = plain_step(theirs(case), case)
        ours = capax_step(MODEL, case, precision=case.precision, compile=case.compile)
        for step in (plain, ours, plain, ours):
            step()
        times = [(seconds(plain), seconds(ours) / MEMBERS[case.loss]) for _ in range(pairs)]
        ratio = statistics.median(one / other for one, other in times)
        other, mine = (statistics.median(column) * 1e3 for column in zip(*times, strict=True))
        how = case.precision + (", compiled" if case.compile else "")
        print(
            f"step  loss {case.loss:4}  vocab {case.vocab_size:3}  seq_len {case.seq_len:3}  {how:18}  "
            f"x-transformers {other:7.1f} ms  capax {mine:6.2f} ms  ratio {ratio:6.1f}  (goal {case.goal:g})",
            flush=True,
        )
        rows.append({**vars(case), "x_transformers_ms": other, "capax_ms": mine, "ratio": ratio})
    return rows


if __name__ == "__main__":
    main()
