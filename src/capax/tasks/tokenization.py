"""Strings as tokens: the bytes of UTF-8, byte pairs that are learned from the strings themselves, or those of a model.

No token is special: a task that needs one (before the first, padding) takes numbers from `vocab_size` on.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Int

from capax.errors import CapaxError
from capax.inputs import is_folder, regular

if TYPE_CHECKING:
    import tokenizers

BYTES = 256
"""Tokens that write every string: those of `bytes`, and what byte pairs are made from."""

LARGEST_VOCABULARY = 1_000_000
"""Tokens that byte pairs may be made to: each is trained in turn. Nor has a tokenizer that is read more."""

LARGEST_TOKENIZER = 2**26
"""Bytes of a tokenizer.json; one of 256,000 tokens has half as many."""
_WORD = "a"
"""Before texts that go on from a word."""

Tokens = Sequence[int] | Int[np.ndarray, " length"]


class TokenizationError(CapaxError):
    """A tokenizer cannot be trained, read or used."""


class Tokenizer(ABC):
    """What turns strings into tokens 0 to vocab_size − 1 and back.

    Attributes:
        kind: its name in JSON and in specs.
    """

    kind: ClassVar[str]

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """The tokens that it has."""

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[Int[np.ndarray, " length"]]:
        """The tokens of each text; of an empty one none.

        Raises:
            TokenizationError: for a text that UTF-8 cannot hold (half of a surrogate pair), or that has no tokens.
        """

    @abstractmethod
    def decode(self, tokens: Tokens) -> str:
        """The text of tokens; where they begin or end within a character, U+FFFD."""

    @abstractmethod
    def to_json(self) -> str:
        """All of it; `from_json` reads it."""


class ByteTokenizer(Tokenizer):
    """One that is made for texts, whose tokens are bytes: every string can be written, and is read as it was."""

    @classmethod
    @abstractmethod
    def trained(cls, texts: Iterable[str], vocab_size: int = BYTES) -> ByteTokenizer:
        """One that is made for these texts, which are read once.

        Args:
            texts: the same texts in the same order give the same tokenizer.
            vocab_size: the tokens that it should have; it may reach fewer.

        Raises:
            TokenizationError: for a vocab_size that cannot be, or a text that UTF-8 cannot hold.
        """

    @abstractmethod
    def encoded(self, tokens: Tokens) -> bytes:
        """The bytes that tokens stand for: those of a text's tokens are the text in UTF-8, and joined, joined."""

    def decode(self, tokens: Tokens) -> str:
        """The text of the bytes."""
        return self.encoded(tokens).decode("utf-8", "replace")


class Bytes(ByteTokenizer):
    """The bytes of UTF-8: 256 tokens, nothing to train."""

    kind: ClassVar[str] = "bytes"

    @classmethod
    def trained(cls, texts: Iterable[str] = (), vocab_size: int = BYTES) -> Bytes:
        """The bytes, whatever the texts are, which are not read."""
        return cls()

    @property
    def vocab_size(self) -> int:
        """256."""
        return BYTES

    def encode(self, texts: Sequence[str]) -> list[Int[np.ndarray, " length"]]:
        """The bytes of each text."""
        return [np.frombuffer(_utf8(text), dtype=np.uint8).astype(np.int64) for text in texts]

    def encoded(self, tokens: Tokens) -> bytes:
        """The tokens themselves."""
        return bytes(_known(tokens, BYTES))

    def to_json(self) -> str:
        """Its kind."""
        return json.dumps({"kind": self.kind})


class Pretrained(Tokenizer):
    """Any tokenizer of Hugging Face's `tokenizers`: byte pairs, word pieces, unigrams, such as that of a model.

    All of its tokens count, added ones too. None is added to a text (begin, end, padding), and no text is cut.
    """

    kind: ClassVar[str] = "pretrained"

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        self._vocab_size = max(tokenizer.get_vocab().values(), default=-1) + 1  # numbers may have gaps
        if not 1 <= self._vocab_size <= LARGEST_VOCABULARY:
            raise TokenizationError(f"tokenizer: has 1 to {LARGEST_VOCABULARY} tokens, got {self._vocab_size}")

    @property
    def vocab_size(self) -> int:
        """The tokens that it has, by the largest number of one."""
        return self._vocab_size

    def encode(self, texts: Sequence[str]) -> list[Int[np.ndarray, " length"]]:
        """The tokens of each text, of many texts at once."""
        with _one_line("tokenizer: cannot encode"):
            found = self._tokenizer.encode_batch_fast(list(map(_checked, texts)), add_special_tokens=False)
        return [np.array(one.ids, dtype=np.int64) for one in found]

    def encode_on(self, texts: Sequence[str]) -> list[Int[np.ndarray, " length"]]:
        """The tokens of each text where it goes on from a word: some tokenizers put a space before every text."""
        word = self.encode([_WORD])[0]
        found = self.encode([_WORD + text for text in texts])
        if all(np.array_equal(one[: len(word)], word) for one in found):
            return [one[len(word) :] for one in found]
        return self.encode(texts)

    def decode(self, tokens: Tokens) -> str:
        """The text of tokens, special ones too."""
        with _one_line("tokenizer: cannot decode"):
            return str(self._tokenizer.decode(_known(tokens, self._vocab_size), skip_special_tokens=False))

    def to_json(self) -> str:
        """Its kind, and all that `tokenizers` says of it."""
        return json.dumps({"kind": self.kind, "tokenizer": json.loads(self._tokenizer.to_str())})

    @classmethod
    def read(cls, text: str, of: str = "tokenizer") -> Pretrained:
        """What a tokenizer.json holds.

        Args:
            of: how a message begins.

        Raises:
            TokenizationError: for anything else.
        """
        with _one_line(f"{of}: cannot be read as a tokenizer"):
            found = cls(_tokenizers().Tokenizer.from_str(text))
            found._verify()
        return found

    def _verify(self) -> None:
        """Raise something where it is none of its kind."""

    def __getstate__(self) -> str:
        return self.to_json()

    def __setstate__(self, state: str) -> None:
        vars(self).update(vars(self.read(json.dumps(json.loads(state)["tokenizer"]))))


class BytePairs(ByteTokenizer, Pretrained):
    """Byte-level byte pairs (Hugging Face's `tokenizers`): the 256 bytes, and what is made by joining the commonest.

    Words, numbers, punctuation and spaces are parted first, as in GPT-2 (Radford et al. 2019); no token joins two.
    """

    kind: ClassVar[str] = "bpe"

    @classmethod
    def trained(cls, texts: Iterable[str], vocab_size: int = BYTES) -> BytePairs:
        """One of vocab_size tokens, or of as many as the texts have pairs for (`vocab_size` says how many).

        Raises:
            TokenizationError: for a vocab_size outside 256 to 1,000,000, or a text that UTF-8 cannot hold.
        """
        if not BYTES <= vocab_size <= LARGEST_VOCABULARY:
            raise TokenizationError(
                f"vocab_size: byte pairs have {BYTES} (the bytes) to {LARGEST_VOCABULARY} tokens, got {vocab_size}"
            )
        made = _tokenizers()
        tokenizer = made.Tokenizer(made.models.BPE())
        tokenizer.pre_tokenizer = made.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = made.decoders.ByteLevel()
        trainer = made.trainers.BpeTrainer(
            vocab_size=vocab_size,
            show_progress=False,
            initial_alphabet=made.pre_tokenizers.ByteLevel.alphabet(),
            special_tokens=[],
        )
        tokenizer.train_from_iterator(map(_checked, texts), trainer)
        return cls(tokenizer)

    def encoded(self, tokens: Tokens) -> bytes:
        """The bytes of each token, joined."""
        table = self._table
        return b"".join(table[token] for token in _known(tokens, len(table)))

    def _verify(self) -> None:
        self._table  # noqa: B018  # its tokens are bytes

    @cached_property
    def _table(self) -> list[bytes]:
        """The bytes that each token stands for."""
        letters = _letters()
        by_number = sorted((number, word) for word, number in self._tokenizer.get_vocab().items())
        return [bytes(letters[letter] for letter in word) for _, word in by_number]


KINDS: dict[str, type[ByteTokenizer]] = {kind.kind: kind for kind in (BytePairs, Bytes)}
"""The tokenizers that are made for texts, by their names."""


def file_of(path: Path) -> Path:
    """The tokenizer.json that a path names: a file, or that of a folder.

    Raises:
        TokenizationError: for what is missing, no regular file, or larger than 64 MiB.
    """
    place = path / "tokenizer.json" if is_folder(path, "tokenizer", TokenizationError) else path
    return regular(place, "tokenizer", TokenizationError, largest=LARGEST_TOKENIZER)


def read_tokenizer(path: Path) -> tuple[Pretrained, str]:
    """The tokenizer of a tokenizer.json, or of that in a folder, and the sha256 of the file.

    Raises:
        TokenizationError: as `file_of`, and for a file that holds none.
    """
    place = file_of(path)
    try:
        content = place.read_bytes()
        text = content.decode()
    except (OSError, UnicodeDecodeError) as problem:
        raise TokenizationError(f"tokenizer: cannot read {place}: {problem}") from None
    return Pretrained.read(text, f"tokenizer: {place}"), hashlib.sha256(content).hexdigest()


def from_json(text: str) -> Tokenizer:
    """What `Tokenizer.to_json` said.

    Raises:
        TokenizationError: for anything else.
    """
    try:
        fields = json.loads(text)
        kind = fields["kind"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise TokenizationError(f"tokenizer: should be the JSON of a tokenizer, got {text!r:.80}") from None
    if kind == Bytes.kind:
        return Bytes()
    known = {one.kind: one for one in (BytePairs, Pretrained)}
    if not isinstance(kind, str) or kind not in known:
        raise TokenizationError(f"tokenizer: one of {', '.join([*known, Bytes.kind])}, got {kind!r:.80}")
    return known[kind].read(json.dumps(fields.get("tokenizer")))


def _tokenizers() -> Any:
    """The package, which bytes do not need."""
    try:
        import tokenizers
    except ModuleNotFoundError:
        raise TokenizationError("tokenizers: is not installed; pip install 'capax[facts]'") from None
    return tokenizers


@contextmanager
def _one_line(of: str) -> Iterator[None]:
    """What `tokenizers` raises, which has no class of its own, in a line; a panic of its Rust is no Exception."""
    try:
        yield
    except CapaxError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise TokenizationError(f"{of}: {type(error).__name__}: {str(error).partition(chr(10))[0]:.200}") from None


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise TokenizationError(f"text: UTF-8 cannot hold {text!r:.80} (half of a surrogate pair)") from None


def _checked(text: str) -> str:
    if not text.isascii():
        _utf8(text)
    return text


def _known(tokens: Tokens, vocab_size: int) -> list[int]:
    numbers = [int(token) for token in tokens]
    for number in numbers:
        if not 0 <= number < vocab_size:
            raise TokenizationError(f"tokens: are 0 to {vocab_size - 1}, got {number}")
    return numbers


def _letters() -> dict[str, int]:
    """The byte that each letter of a byte-level token stands for: printable ones themselves, the rest from U+0100 on.

    As GPT-2 has it (Radford et al. 2019, `bytes_to_unicode`).
    """
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(BYTES) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(BYTES + place): byte for place, byte in enumerate(others)}
