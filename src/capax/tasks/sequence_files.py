"""Sequences that the user brings: `.npy` (a 2-D array of integers) or `.txt` (one sequence of integers a line)."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from jaxtyping import Int

from capax.errors import LibraryError

INTEGER = re.compile(r"[+-]?[0-9]+")


def read(path: Path) -> Int[np.ndarray, "items seq_len"]:
    """The sequences of a file, in its order.

    Raises `LibraryError` when the file is missing, empty, ragged or holds something other than integers; the message
    names the line (from 1; the row for `.npy`) and the value.
    """
    if path.suffix not in (".npy", ".txt"):
        raise LibraryError(f"library: 'random', 'all', or a .npy or .txt file, got {str(path)!r}")
    if not path.is_file():
        raise LibraryError(f"library: no such file: {path}")
    sequences = _read_npy(path) if path.suffix == ".npy" else _read_txt(path)
    if len(sequences) == 0:
        raise LibraryError(f"library: {path} is empty")
    if sequences.shape[1] < 2:
        raise LibraryError(f"library: {path} has sequences of {sequences.shape[1]} token; at least 2 are needed")
    return sequences


def _read_npy(path: Path) -> Int[np.ndarray, "items seq_len"]:
    try:
        with path.open("rb") as file:  # np.load would also open archives
            array = np.lib.format.read_array(file, allow_pickle=False)
    except (ValueError, OSError, EOFError, MemoryError, TokenError) as error:
        reason = str(error).partition("\n")[0]
        raise LibraryError(f"library: {path} is not a .npy array of integers: {reason}") from None
    if array.ndim != 2 or not np.issubdtype(array.dtype, np.integer):
        raise LibraryError(f"library: {path} must be a 2-D array of integers, got {array.ndim}-D of {array.dtype}")
    if array.size and array.max() > np.iinfo(np.int64).max:
        raise LibraryError(f"library: {path}: token {array.max()} does not fit in 64 bits")
    return array.astype(np.int64)


def _read_txt(path: Path) -> Int[np.ndarray, "items seq_len"]:
    rows: list[list[int]] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (UnicodeDecodeError, OSError) as error:
        raise LibraryError(f"library: {path} is not a text file: {error}") from None
    first_line = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        row = []
        for word in line.split():
            if not INTEGER.fullmatch(word):
                raise LibraryError(f"library: {path}, line {number}: {word!r:.80} is not an integer")
            row.append(int(word) if len(word) < 30 else 2**63)
            if not -(2**63) <= row[-1] < 2**63:
                raise LibraryError(f"library: {path}, line {number}: {word:.80} does not fit in 64 bits")
        if rows and len(row) != len(rows[0]):
            raise LibraryError(
                f"library: {path}, line {number}: {len(row)} tokens, but line {first_line} has {len(rows[0])}"
            )
        first_line = first_line or number
        rows.append(row)
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(rows[0]) if rows else 0)


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
            f"library: {path}: sequences {one + 1} and {two + 1} {kind}; duplicates='keep' accepts and reports them"
        )
    return {
        **found,
        "library": str(path.resolve()),
        "vocab_size": vocab_size,
        "library_sha256": content_hash(sequences),
    }
