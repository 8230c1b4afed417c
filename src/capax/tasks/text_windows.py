"""The windows of documents: cut, parted into two halves, each repeated one kept once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from capax.errors import LibraryError
from capax.inputs import whole_path
from capax.tasks.text_files import Corpus, read
from capax.tasks.tokenization import ByteTokenizer
from capax.text import counted

HALVES = ("first", "second")

BLOCKS = 64
"""Stretches into which the windows of a single document are parted, where halves cannot be of documents."""


@dataclass(frozen=True, eq=False)
class Windows:
    """The windows of a half, in an order that has nothing to do with that of the documents.

    Attributes:
        tokens: none is there twice. Of a smaller library it is the first ones.
        cut: windows that the half's documents were cut into, repeated ones included.
        left_over: tokens at the ends of all documents, which fill no window.
    """

    tokens: Int[np.ndarray, "windows seq_len"]
    cut: int
    left_over: int


def cut(corpus: Corpus, seq_len: int) -> tuple[Int[np.ndarray, "windows seq_len"], Int[np.ndarray, " windows"]]:
    """All windows in the order of the documents, side by side, and the number of each one's document.

    Tokens at the end of a document that fill no window are left out.
    """
    counts = np.diff(corpus.ends, prepend=0) // seq_len
    parts = [corpus.document(number)[: count * seq_len] for number, count in enumerate(counts) if count]
    tokens = np.concatenate([*parts, corpus.tokens[:0]]).reshape(-1, seq_len)
    return tokens, np.repeat(np.arange(len(counts)), counts)


def first_half(document: Int[np.ndarray, " windows"], generator: np.random.Generator) -> Bool[np.ndarray, " windows"]:
    """Which windows are of the first half: those of documents in random order, until half of the windows are reached.

    Where all are of one document, the same of its stretches.
    """
    if document[0] == document[-1]:
        document = np.arange(len(document)) * min(BLOCKS, len(document)) // len(document)
    names, place, counts = np.unique(document, return_inverse=True, return_counts=True)
    order = generator.permutation(len(names))
    before = np.cumsum(counts[order]) - counts[order]
    chosen = np.zeros(len(names), dtype=bool)
    chosen[order] = before + counts[order] / 2 < len(document) / 2  # whichever side its middle lies on
    return chosen[place]


@lru_cache(maxsize=2)
def windows(corpus: Corpus, seq_len: int) -> dict[str, Windows]:
    """The windows of both halves. What is random in them follows from the documents' content alone.

    Raises:
        LibraryError: when the documents are too short for a window in each half.
    """
    tokens, document = cut(corpus, seq_len)
    if len(tokens) < 2:
        longest = int(np.diff(corpus.ends, prepend=0).max())
        raise LibraryError(
            f"seq_len: the documents should have two windows at least, one for each half; the longest has {longest} "
            f"tokens, got {seq_len}"
        )
    generator = np.random.default_rng(int(corpus.token_hash[:16], 16))
    first = first_half(document, generator)
    found = {}
    for half, chosen in zip(HALVES, (first, ~first), strict=True):
        kept = unique(tokens[chosen])
        order = generator.permutation(len(kept))
        found[half] = Windows(kept[order], int(chosen.sum()), len(corpus.tokens) - tokens.size)
    return found


def unique(tokens: Int[np.ndarray, "windows seq_len"]) -> Int[np.ndarray, "kept seq_len"]:
    """Each window once, in the order of first appearance."""
    first = np.unique(tokens, axis=0, return_index=True)[1]
    return tokens[np.sort(first)]


def among(
    tokens: Int[np.ndarray, "windows seq_len"], others: Int[np.ndarray, "n seq_len"]
) -> Bool[np.ndarray, " windows"]:
    """Which windows are some of the others."""
    known = {row.tobytes() for row in np.ascontiguousarray(others)}
    return np.array([row.tobytes() in known for row in np.ascontiguousarray(tokens)], dtype=bool)


def halves(spec: Any) -> tuple[Corpus, dict[str, Windows]]:
    """The documents of a spec (`capax.Text`) and the windows of both halves, checked.

    Raises:
        LibraryError: when they cannot be read, or are no longer those that the spec was made from.
    """
    path = Path(spec.library)
    corpus = read(path, spec.column, spec.tokenization, spec.bpe_size)
    if spec.library_sha256 not in (corpus.content_hash, corpus.token_hash):
        raise LibraryError(f"library: {spec.library} has changed since it was read, or is cut into other tokens")
    found = windows(corpus, spec.seq_len)
    if len(found[spec.half].tokens) < spec.library_size:
        raise LibraryError(f"library: {spec.library} has changed since it was read")
    return corpus, found


def describe(spec: Any) -> dict[str, Any]:
    """The fields of a spec that follow from its documents.

    Raises:
        LibraryError: when they cannot be read, or have fewer windows than were asked for.
    """
    path = Path(spec.library)
    corpus = read(path, spec.column, spec.tokenization, spec.bpe_size)
    there = len(windows(corpus, spec.seq_len)[spec.half].tokens)
    if spec.library_size is not None and spec.library_size > there:
        raise LibraryError(
            f"library_size: the {spec.half} half of {path} has {counted(there, 'different window')} of "
            f"{counted(spec.seq_len, 'token')}, got {spec.library_size}"
        )
    return {
        "library": whole_path(path, "library", LibraryError),
        "library_size": spec.library_size or there,
        "vocab_size": corpus.tokenizer.vocab_size,
        "library_sha256": corpus.content_hash,
    }


def tokenizer(spec: Any) -> ByteTokenizer:
    """What makes tokens of the documents of a spec."""
    return halves(spec)[0].tokenizer
