"""Time of a training step on associations against the published layer as published: attention of all positions.

Batch 256, d_model 64, 20 heads of 64, 32 tokens, 100 classes, Adam; all in this process, in turn, one thread. The
figures are milliseconds per step; ratios are medians over rounds. The goal is against the plain layer, one matrix a
head; beside it stands the same layer with all heads projected in one product, which a careful user would write.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from capax.models.associative import sinusoids
from capax.specs import Associations, AssociativeAttention, Training
from capax.training.pack import Pack
from capax.training.prepare import prepare

BATCH, WIDTH, HEADS, HEAD, CONTEXT, CLASSES = 256, 64, 20, 64, 32, 100
GOALS = {"shared": 150, "fresh": 60}


class PublishedLayer(nn.Module):
    """The layer of Mahdavi et al. 2024 as their code computes it: every position asks, position 0 is read.

    Args:
        joined: project all heads in one product.
    """

    def __init__(self, joined: bool) -> None:
        super().__init__()
        self.joined = joined
        self.embedding, self.readout = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.query, self.key = (nn.Parameter(torch.empty(HEADS, WIDTH, HEAD)) for _ in range(2))
        self.value, self.out = nn.Parameter(torch.empty(HEADS, WIDTH, 1)), nn.Parameter(torch.empty(HEADS, WIDTH))
        for matrix in (self.query, self.key, self.value, self.out):
            nn.init.xavier_uniform_(matrix)
        self.register_buffer("positions", sinusoids(CONTEXT + 1, WIDTH, torch.float32, torch.device("cpu")))
        self.register_buffer("is_query", torch.arange(CONTEXT + 1) == 0)

    def projected(self, x: Tensor, matrix: Tensor) -> Tensor:
        return torch.einsum("bnc,hcd->bhnd", x, matrix) if self.joined else x[:, None] @ matrix

    def forward(self, queries: Tensor, contexts: Tensor) -> Tensor:
        x = self.embedding(torch.cat([queries[:, None], contexts], 1)) + self.positions
        query, key, value = (self.projected(x, matrix) for matrix in (self.query, self.key, self.value))
        scores = (query @ key.mT / math.sqrt(WIDTH)).masked_fill(self.is_query, -math.inf)
        mixed = (scores.softmax(-1) @ value)[..., 0]
        return self.readout(torch.einsum("bhn,hc->bnc", mixed, self.out))[:, 0]


def plain_step(contexts: str, joined: bool) -> Callable[[], None]:
    """One step of the plain loop."""
    model = PublishedLayer(joined)
    optimizer = torch.optim.Adam(model.parameters())
    queries, labels = torch.rand(BATCH, WIDTH), torch.randint(CLASSES, (BATCH,))
    tokens = torch.rand(1 if contexts == "shared" else BATCH, CONTEXT, WIDTH)

    def step() -> None:
        loss = F.cross_entropy(model(queries, tokens.expand(BATCH, -1, -1)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def capax_step(contexts: str) -> Callable[[], None]:
    """One step of capax's own learner, the whole of it: batch order, losses, gradients, Adam."""
    task = Associations(context_size=CONTEXT, library_size=4 * BATCH, contexts=contexts, n_classes=CLASSES)
    model = AssociativeAttention(n_heads=HEADS, d_model=WIDTH, d_head=HEAD, profile="mahdavi2024")
    training = Training(batch_size=BATCH)
    size = task.library_size
    pack = Pack(task, model, training, (0,), (0,), (size,), size, mixed=False, one_library=True)
    learner = prepare(pack)
    return lambda: learner.step() and None


def seconds(step: Callable[[], None]) -> float:
    started = time.perf_counter()
    step()
    return time.perf_counter() - started


def main(rounds: int = 15, ours_per_round: int = 9) -> list[dict[str, object]]:
    torch.set_num_threads(1)
    rows = []
    for contexts, goal in GOALS.items():
        plain, joined, ours = plain_step(contexts, False), plain_step(contexts, True), capax_step(contexts)
        for step in (plain, joined, ours, ours):
            step()
        times = [
            (seconds(plain), seconds(joined), statistics.median(seconds(ours) for _ in range(ours_per_round)))
            for _ in range(rounds)
        ]
        ratios = [statistics.median(row[place] / row[2] for row in times) for place in range(2)]
        medians = [statistics.median(column) * 1e3 for column in zip(*times, strict=True)]
        print(
            f"associations  {contexts:6} contexts  plain {medians[0]:6.1f} ms  heads joined {medians[1]:6.1f} ms  "
            f"capax {medians[2]:5.2f} ms  ratio {ratios[0]:5.1f} (goal {goal})  heads joined {ratios[1]:5.1f}",
            flush=True,
        )
        names = ("plain_ms", "heads_joined_ms", "capax_ms", "ratio", "ratio_heads_joined", "goal")
        rows.append({"contexts": contexts, **dict(zip(names, (*medians, *ratios, goal), strict=True))})
    return rows


if __name__ == "__main__":
    main()
