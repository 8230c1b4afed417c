"""Sequences that the user brings: `.npy` (a 2-D array of integers) or `.txt` (one sequence of integers a line)."""

from __future__ import annotations

import hashlib
import re
from array import array
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from capax.errors import LibraryError
from capax.inputs import lines_of, read_npy, regular, whole_path
from capax.text import counted

LONGEST_LINE = 2**22
"""Characters of a line: more than the longest sequence has."""
INTEGER = re.compile(r"[+-]?[0-9]+")


def read(path: Path) -> Int[np.ndarray, "items seq_len"]:
    """The sequences of a file, in its order.

    Raises `LibraryError` when the file is missing, empty, ragged or holds something other than integers; the message
    names the line (from 1; the row for `.npy`) and the value.
    """
    if path.suffix not in (".npy", ".txt"):
        raise LibraryError(f"library: 'random', 'all', or a .npy or .txt file, got {str(path)!r}")
    regular(path, "library", LibraryError)
    sequences = _read_npy(path) if path.suffix == ".npy" else _read_txt(path)
    if len(sequences) == 0:
        raise LibraryError(f"library: {path} is empty")
    if sequences.shape[1] < 2:
        raise LibraryError(
            f"library: {path} has sequences of {counted(sequences.shape[1], 'token')}; at least 2 are needed"
        )
    return sequences


def _read_npy(path: Path) -> Int[np.ndarray, "items seq_len"]:
    found = read_npy(path, "library", LibraryError)
    if found.ndim != 2 or not np.issubdtype(found.dtype, np.integer):
        raise LibraryError(f"library: {path} must be a 2-D array of integers, got {found.ndim}-D of {found.dtype}")
    if found.size and found.max() > np.iinfo(np.int64).max:
        raise LibraryError(f"library: {path}: token {found.max()} does not fit in 64 bits")
    return found.astype(np.int64)


def _read_txt(path: Path) -> Int[np.ndarray, "items seq_len"]:
    tokens = array("q")  # eight bytes a token: a list of lists of integers takes five times as much
    length = first_line = 0
    for number, line in enumerate(lines_of(path, "library", LibraryError, LONGEST_LINE), start=1):
        words = line.split()
        if not words:
            continue
        if first_line and len(words) != length:
            raise LibraryError(
                f"library: {path}, line {number}: {len(words)} tokens, but line {first_line} has {length}"
            )
        for word in words:
            if not INTEGER.fullmatch(word):
                raise LibraryError(f"library: {path}, line {number}: {word!r:.80} is not an integer")
            if len(word) >= 30 or not -(2**63) <= int(word) < 2**63:
                raise LibraryError(f"library: {path}, line {number}: {word:.80} does not fit in 64 bits")
            tokens.append(int(word))
        first_line, length = first_line or number, len(words)
    return np.array(tokens, dtype=np.int64).reshape(-1, max(length, 1))


def content_hash(sequences: Int[np.ndarray, "items seq_len"]) -> str:
    """Sha256 of shape and tokens: the same sequences from `.npy` and `.txt` are the same library."""
    shape = np.array(sequences.shape, dtype="<i8").tobytes()
    return hashlib.sha256(shape + sequences.astype("<i8").tobytes()).hexdigest()


def repeated_prefixes(sequences: Int[np.ndarray, "items seq_len"]) -> tuple[int, int] | None:
    """The first two rows (from 0) that share a prefix, or None."""
    _, first_row, group = np.unique(sequences[:, :-1], axis=0, return_index=True, return_inverse=True)
    repeats = np.flatnonzero(first_row[group.ravel()] != np.arange(len(sequences)))
    return (int(first_row[group.ravel()[repeats[0]]]), int(repeats[0])) if len(repeats) else None


def describe(path: Path, given: dict[str, Any], duplicates: str) -> dict[str, Any]:
    """A spec's fields that follow from the file, after those that were given have been checked against it.

    Raises `LibraryError` for a field that contradicts the file, for tokens outside the vocabulary, and for repeated
    prefixes unless `duplicates` is "keep".
    """
    sequences = read(path)
    found = {"library_size": len(sequences), "seq_len": sequences.shape[1]}
    for name, value in found.items():
        if given.get(name, value) != value:
            raise LibraryError(f"{name}: {path} has {value}, got {given[name]}")
    vocab_size = given.get("vocab_size", max(2, int(sequences.max()) + 1))
    outside = np.argwhere((sequences < 0) | (sequences >= vocab_size))
    if len(outside):
        row, column = outside[0]
        raise LibraryError(
            f"library: {path}, sequence {row + 1}: token {sequences[row, column]} is outside 0..{vocab_size - 1} "
            f"(vocab_size {vocab_size})"
        )
    pair = repeated_prefixes(sequences)
    if pair is not None and duplicates == "refuse":
        one, two = pair
        first, second = sequences[one, -1], sequences[two, -1]
        contradict = f"contradict each other (one prefix, targets {first} and {second})"
        kind = "are the same" if first == second else contradict
        raise LibraryError(
            f"library: {path}: sequences {one + 1} and {two + 1} {kind}; duplicates 'keep' accepts and reports them"
        )
    return {
        **found,
        "library": whole_path(path, "library", LibraryError),
        "vocab_size": vocab_size,
        "library_sha256": content_hash(sequences),
    }
