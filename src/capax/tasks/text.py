"""Libraries of windows of text: the half of the documents that a model learns, and what it recalls of a window."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from capax import devices
from capax.specs.lora import HELD_OUT
from capax.tasks.library import Evaluation
from capax.tasks.sequences import recallable_from
from capax.tasks.text_files import left_aside
from capax.tasks.text_windows import HALVES, among, halves, tokenizer
from capax.tasks.tokens import TokenLibrary

MOST_WINDOWS = 256
"""Of held-out text beside a checkpoint."""


def before(spec: Any, windows: Int[np.ndarray, "items seq_len"]) -> Int[np.ndarray, "items tokens"]:
    """Windows as a model of the task reads them: after the token that is no other."""
    first = np.full((len(windows), 1), spec.vocab_size, dtype=np.int64)
    return np.hstack([first, windows.astype(np.int64)])


def control(spec: Any) -> Int[np.ndarray, "items seq_len"]:
    """Windows of the half that is held out, as many as the model learns at most; none that it learns is one of them."""
    found = halves(spec)[1]
    other = found[HALVES[1 - HALVES.index(spec.half)]].tokens[: spec.library_size]
    return other[~among(other, found[spec.half].tokens)]


def beside_checkpoint(spec: Any) -> dict[str, bytes]:
    """The tokenizer, where it is one of byte pairs, and windows of the half that is held out."""
    made = tokenizer(spec)
    told = json.loads(made.to_json()).get("tokenizer")
    text = "\n".join(made.decode(window) for window in control(spec)[:MOST_WINDOWS])
    return {HELD_OUT: text.encode(), **({} if told is None else {"tokenizer.json": json.dumps(told).encode()})}


class TextLibrary(TokenLibrary):
    """Libraries of windows: rows are the token before a window, and its own."""

    @classmethod
    def draw(cls, spec: Any, size: int, generator: np.random.Generator) -> Int[np.ndarray, "size tokens"]:
        """The first windows of the spec's half; nothing is drawn."""
        return before(spec, halves(spec)[1][spec.half].tokens[:size])

    @property
    def answered(self) -> int:
        """The tokens after the prefix."""
        spec: Any = self.spec
        return spec.suffix

    @property
    def uniform_loss(self) -> float:
        """Cross-entropy of a uniform guess of a window's token, in nats."""
        spec: Any = self.spec
        return math.log(spec.vocab_size)

    def row_metrics(
        self, logits: Float[Tensor, "e b p vocab"], batch: Int[Tensor, "e b seq_len"]
    ) -> dict[str, Float[Tensor, "e b"]]:
        """Cross-entropy of each window's tokens, on the mean."""
        return {"nats_per_token": self._each(logits, batch).mean(2)}

    def evaluation(self, member: int, memorized: int, rows: dict[str, Float[Tensor, " rows"]]) -> Evaluation:
        """Of two that recall as many windows the one of the lower cross-entropy is better: before any is recalled."""
        nats = float(devices.wide(rows["nats_per_token"]).mean())
        score = (float(memorized), -nats if math.isfinite(nats) else -math.inf)
        return Evaluation(memorized, {"nats_per_token": nats}, score, memorized == self.sizes[member])

    @classmethod
    def remarks(cls, spec: Any, size: int, generator: np.random.Generator | None) -> tuple[int, tuple[str, ...]]:
        """Windows that begin alike, of which one can be recalled; what was left out of the documents."""
        corpus, found = halves(spec)
        learned = found[spec.half]
        other = found[HALVES[1 - HALVES.index(spec.half)]].tokens
        recallable = recallable_from(learned.tokens[:size], [spec.prefix])[0]
        repeated = learned.cut - len(learned.tokens)
        shared = int(among(other, learned.tokens).sum())
        notes = [
            f"{repeated} of {learned.cut} windows ({repeated / learned.cut:.2%}) repeat others of the half; each is "
            "kept once",
            f"{shared} of {len(other)} windows of the other half ({shared / len(other):.2%}) are windows of this one, "
            "token for token; its control leaves them out, but not windows that share a part with one of this half",
            f"{learned.left_over} of {len(corpus.tokens)} tokens ({learned.left_over / len(corpus.tokens):.2%}), at "
            "the ends of documents, fill no window",
        ]
        if aside := left_aside(Path(spec.library)):
            notes.append(f"{aside} more in {Path(spec.library).name} not read: texts are the .txt files in it")
        if recallable < size:
            notes.append(f"at most {recallable} of {size} windows can be recalled: others begin alike (one prefix)")
        return recallable, tuple(notes)
