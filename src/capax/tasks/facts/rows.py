"""Strings of tokens of many lengths, and the rows that they are put into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int


@dataclass(frozen=True)
class Strings:
    """Strings of tokens by their numbers.

    Attributes:
        flat: the tokens of all of them, one after the other.
        starts, lengths: where each one's are.
    """

    flat: Int[np.ndarray, " tokens"]
    starts: Int[np.ndarray, " strings"]
    lengths: Int[np.ndarray, " strings"]

    @classmethod
    def of(cls, parts: Sequence[np.ndarray]) -> Strings:
        """Strings one by one."""
        lengths = np.array([len(part) for part in parts])
        return cls(np.concatenate(parts), np.cumsum(lengths) - lengths, lengths)

    def tokens(self, number: int) -> list[int]:
        """One string."""
        start = self.starts[number]
        return [int(token) for token in self.flat[start : start + self.lengths[number]]]

    def put(self, rows: Int[np.ndarray, "facts seq_len"], at: np.ndarray, which: np.ndarray) -> None:
        """Write a string into each row, from a place on in each.

        Args:
            at: that place, of each row.
            which: the number of the string.
        """
        lengths = self.lengths[which]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        row = np.repeat(np.arange(len(which)), lengths)
        rows[row, at[row] + within] = self.flat[np.repeat(self.starts[which], lengths) + within]


@dataclass(frozen=True)
class Rows:
    """Facts as tokens.

    Attributes:
        begin, stop: where each answer begins, and where it and what ends it are over.
    """

    tokens: Int[np.ndarray, "facts seq_len"]
    begin: Int[np.ndarray, " facts"]
    stop: Int[np.ndarray, " facts"]
