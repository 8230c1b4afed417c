"""Capacity as a constant number of bits per parameter."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from capax.errors import LawError
from capax.laws.censored import Vector
from capax.laws.law import Law, Structure
from capax.laws.rows import Columns, Rows


class BitsLaw(Law):
    """C · bits = k · P: each of P trainable parameters holds k bits, however they are arranged.

    A sequence costs (seq_len − 1) · log2(vocab_size) bits when the loss covers all positions and log2(vocab_size) when
    it covers the last. The literature has constants for k (about 2 for knowledge in language models, 3.6 for random
    strings); here k is fitted, and its failure to be one number is what the other laws explain.

    Args:
        loss: positions that the training asked for, `all` or `last`.
        target: column of counts that is fitted when `fit` gets a table without y.
        n_bootstrap: refits behind `predict_interval`.
        random_state: seed of those.
    """

    name: ClassVar[str] = "bits"
    columns: ClassVar[tuple[str, ...]] = ("seq_len", "vocab_size", "trainable_parameters")
    names = ("k",)

    def __init__(
        self,
        *,
        loss: Literal["all", "last"] = "all",
        target: str = "memorized_above_chance",
        n_bootstrap: int = 1000,
        random_state: int = 0,
    ) -> None:
        self.loss = loss
        self.target = target
        self.n_bootstrap = n_bootstrap
        self.random_state = random_state

    def _capacity(self, theta: Vector, columns: Columns) -> tuple[Vector, np.ndarray]:
        tokens = columns["seq_len"] - 1 if self.loss == "all" else 1.0
        per_bit = columns["trainable_parameters"] / (tokens * np.log2(columns["vocab_size"]))
        return theta[0] * per_bit, per_bit[:, None]

    def _structures(self, rows: Rows) -> list[Structure]:
        stated = self.domain_.protocol.get("loss", self.loss)
        if self.loss not in ("all", "last") or stated != self.loss:
            raise LawError(f"loss: the rows were trained on {stated!r} positions, the law is for {self.loss!r}")
        per_unit, _ = self._capacity(np.ones(1), rows.columns)
        return [Structure({}, [{"k": float(np.exp(np.mean(np.log(rows.counts / per_unit))))}])]
