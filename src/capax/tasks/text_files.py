"""Documents that the user brings, read in a stream: a `.txt` file, a `.jsonl` file, or a folder of `.txt` files."""

from __future__ import annotations

import codecs
import hashlib
import io
import json
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from jaxtyping import Int

from capax.errors import LibraryError
from capax.inputs import RepeatedName, is_folder, once, regular, stamps
from capax.tasks.tokenization import BYTES, KINDS, ByteTokenizer

LONGEST_PIECE = 2**20
"""Bytes of a line that are put into tokens at once; of a longer one the parts."""

LONGEST_LINE = 2**26
"""Bytes of a line of JSON, which is read whole."""

AT_ONCE = 2**20
"""Characters that are put into tokens together, and what the last piece has beyond them."""

Piece = tuple[int, str]
"""The number of a document, and a part of it: a line, or what of a long line is read at once."""


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents as tokens, one after the other.

    Attributes:
        ends: where each document ends; none is empty.
    """

    tokens: Int[np.ndarray, " tokens"]
    ends: Int[np.ndarray, " documents"]
    tokenizer: ByteTokenizer

    def document(self, number: int) -> Int[np.ndarray, " length"]:
        """The tokens of one document."""
        return self.tokens[self.ends[number - 1] if number else 0 : self.ends[number]]

    @cached_property
    def content_hash(self) -> str:
        """Sha256 of documents, tokens and what tokens mean: documents from a folder and from JSON are the same."""
        if self.tokenizer.vocab_size == BYTES:
            return self.token_hash
        means = b"".join(self.tokenizer.encoded([token]) for token in range(BYTES, self.tokenizer.vocab_size))
        return hashlib.sha256(bytes.fromhex(self.token_hash) + means).hexdigest()

    @cached_property
    def token_hash(self) -> str:
        """Of documents and tokens alone: halves are drawn by it, and older runs know their text by it."""
        shape = np.array([self.tokenizer.vocab_size, *self.ends], dtype="<i8").tobytes()
        return hashlib.sha256(shape + self.tokens.astype("<i4").tobytes()).hexdigest()


def pieces(path: Path, column: str) -> Iterator[Piece]:
    """The documents in their order, piece by piece: files of a folder by their names, objects line by line.

    Args:
        column: of `.jsonl`, where each object has its text.

    Raises:
        LibraryError: for what is missing, no text in UTF-8, or an object without the column; it names the line.
    """
    if is_folder(path, "library", LibraryError):
        files = _texts(path)
        if not files:
            raise LibraryError(f"library: {path} has no .txt files")
        for number, file in enumerate(files):
            yield from ((number, piece) for piece in _of_txt(file))
    elif path.suffix.lower() == ".jsonl":
        yield from _of_jsonl(path, column)
    elif path.suffix.lower() == ".txt":
        yield from ((0, piece) for piece in _of_txt(path))
    else:
        raise LibraryError(f"library: a .txt file, a .jsonl file, or a folder of .txt files, got {str(path)!r:.200}")


def _texts(folder: Path) -> list[Path]:
    """The texts of a folder, by their names; some systems write .TXT."""
    try:
        return sorted(file for file in folder.iterdir() if file.name.lower().endswith(".txt"))
    except OSError as problem:
        raise LibraryError(f"library: cannot read {folder}: {problem.strerror}") from None


def left_aside(path: Path) -> int:
    """Files, and folders, of a folder of texts that are not read, but for hidden ones."""
    if not is_folder(path, "library", LibraryError):
        return 0
    return sum(not file.name.startswith(".") for file in {*path.iterdir()} - {*_texts(path)})


def _of_txt(path: Path) -> Iterator[str]:
    """The text as it is, but for a byte order mark."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    number = 1
    for line in _lines(path, LONGEST_PIECE):
        yield _decoded(line, path, number, decoder)
        number += line.endswith(b"\n")
    _decoded(b"", path, number, decoder, final=True)


def _of_jsonl(path: Path, column: str) -> Iterator[Piece]:
    for number, line in enumerate(_lines(path, LONGEST_LINE), start=1):
        if len(line) >= LONGEST_LINE and not line.endswith(b"\n"):
            raise LibraryError(f"library: {path}, line {number}: longer than {LONGEST_LINE} bytes")
        words = _decoded(line.removeprefix(codecs.BOM_UTF8) if number == 1 else line, path, number)
        if not words.strip():
            continue
        try:
            found = json.loads(words, object_pairs_hook=once)
        except RepeatedName as problem:
            raise LibraryError(f"library: {path}, line {number}: {problem}") from None
        except (ValueError, RecursionError):
            raise LibraryError(f"library: {path}, line {number}: should be a JSON object, got {words!r:.80}") from None
        if not isinstance(found, dict):
            raise LibraryError(f"library: {path}, line {number}: should be a JSON object, got {words!r:.80}")
        if column not in found:
            raise LibraryError(
                f"column: {path}, line {number} has no {column!r}, but {', '.join(map(repr, found)) or 'nothing'}"
            )
        text = found[column]
        if not isinstance(text, str):
            raise LibraryError(f"library: {path}, line {number}: {column!r} should be a string, got {text!r:.80}")
        if text != text.encode(errors="replace").decode():
            raise LibraryError(f"library: {path}, line {number}: {column!r} has half of a surrogate pair")
        for part in io.StringIO(text, newline="\n"):  # which ends lines where a .txt file does
            yield from ((number, part[at : at + LONGEST_PIECE]) for at in range(0, len(part), LONGEST_PIECE))


def _lines(path: Path, longest: int) -> Iterator[bytes]:
    """The lines of a file, each with its end; of a longer one the parts."""
    try:
        with regular(path, "library", LibraryError).open("rb") as file:
            while line := file.readline(longest):
                yield line
    except OSError as problem:
        raise LibraryError(f"library: cannot read {path}: {problem.strerror}") from None


def _decoded(
    line: bytes, path: Path, number: int, decoder: codecs.IncrementalDecoder | None = None, *, final: bool = False
) -> str:
    try:
        return line.decode() if decoder is None else decoder.decode(line, final)
    except UnicodeDecodeError as problem:
        byte = problem.object[problem.start]
        raise LibraryError(f"library: {path}, line {number}: is not UTF-8 (byte 0x{byte:02x})") from None


def read(path: Path, column: str, tokenization: str, bpe_size: int) -> Corpus:
    """All documents as tokens; of an unchanged file what was read before.

    Byte pairs are learned from all documents, whichever a model will learn: two models that learn a half each have
    one vocabulary, and of the half that a model does not see it holds how often pairs of bytes occur.

    Raises:
        LibraryError: as `pieces`, and for documents without text.
    """
    files = _texts(path) if is_folder(path, "library", LibraryError) else [path]
    written = stamps(regular(file, "library", LibraryError) for file in files)
    return _read(path, written, column, tokenization, bpe_size)


@lru_cache(maxsize=2)
def _read(path: Path, _: object, column: str, tokenization: str, bpe_size: int) -> Corpus:
    tokenizer = KINDS[tokenization].trained((piece for _, piece in pieces(path, column)), bpe_size)
    tokens, ends = array("i"), {}
    for number, found in _encoded(pieces(path, column), tokenizer):
        tokens.frombytes(found.astype(np.int32).tobytes())
        ends[number] = len(tokens)
    if not tokens:
        raise LibraryError(f"library: {path} is empty")
    return Corpus(np.frombuffer(tokens, dtype=np.int32), np.array(list(ends.values())), tokenizer)


def _encoded(found: Iterable[Piece], tokenizer: ByteTokenizer) -> Iterator[tuple[int, Int[np.ndarray, " length"]]]:
    """The tokens of each piece that has some."""
    for some in _batches(found):
        tokens = tokenizer.encode([piece for _, piece in some])
        yield from ((number, row) for (number, _), row in zip(some, tokens, strict=True) if len(row))


def _batches(found: Iterable[Piece]) -> Iterator[list[Piece]]:
    some: list[Piece] = []
    letters = 0
    for piece in found:
        some.append(piece)
        letters += len(piece[1])
        if letters >= AT_ONCE:
            yield some
            some, letters = [], 0
    yield some
