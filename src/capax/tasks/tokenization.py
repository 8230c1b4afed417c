"""Strings as tokens: the bytes of UTF-8, or byte pairs that are learned from the strings themselves.

No token is special: a task that needs one (before the first, padding) takes numbers from `vocab_size` on.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Int

from capax.errors import CapaxError

if TYPE_CHECKING:
    import tokenizers

BYTES = 256
"""Tokens that write every string: those of `bytes`, and what byte pairs are made from."""

LARGEST_VOCABULARY = 1_000_000
"""Tokens that byte pairs may be made to: each is trained in turn."""


Tokens = Sequence[int] | Int[np.ndarray, " length"]


class TokenizationError(CapaxError):
    """A tokenizer cannot be trained, read or used."""


class Tokenizer(ABC):
    """What turns strings into tokens 0 to vocab_size − 1 and back; every string can be written.

    Attributes:
        kind: its name in JSON and in specs.
    """

    kind: ClassVar[str]

    @classmethod
    @abstractmethod
    def trained(cls, texts: Iterable[str], vocab_size: int = BYTES) -> Tokenizer:
        """One that is made for these texts, which are read once.

        Args:
            texts: the same texts in the same order give the same tokenizer.
            vocab_size: the tokens that it should have; it may reach fewer.

        Raises:
            TokenizationError: for a vocab_size that cannot be, or a text that UTF-8 cannot hold.
        """

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """The tokens that it has."""

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[Int[np.ndarray, " length"]]:
        """The tokens of each text; of an empty one none.

        Raises:
            TokenizationError: for a text that UTF-8 cannot hold (half of a surrogate pair).
        """

    @abstractmethod
    def encoded(self, tokens: Tokens) -> bytes:
        """The bytes that tokens stand for: those of a text's tokens are the text in UTF-8, and joined, joined."""

    def decode(self, tokens: Tokens) -> str:
        """The text of tokens; where they begin or end within a character, U+FFFD."""
        return self.encoded(tokens).decode("utf-8", "replace")

    @abstractmethod
    def to_json(self) -> str:
        """All of it; `from_json` reads it."""


class Bytes(Tokenizer):
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


class BytePairs(Tokenizer):
    """Byte-level byte pairs (Hugging Face's `tokenizers`): the 256 bytes, and what is made by joining the commonest.

    Words, numbers, punctuation and spaces are parted first, as in GPT-2 (Radford et al. 2019); no token joins two.
    """

    kind: ClassVar[str] = "bpe"

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        self._tokenizer = tokenizer

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

    @property
    def vocab_size(self) -> int:
        """The tokens that it has: what was asked for, or what its texts have pairs for."""
        return self._tokenizer.get_vocab_size()

    def encode(self, texts: Sequence[str]) -> list[Int[np.ndarray, " length"]]:
        """The tokens of each text, of many texts at once."""
        found = self._tokenizer.encode_batch_fast(list(map(_checked, texts)), add_special_tokens=False)
        return [np.array(one.ids, dtype=np.int64) for one in found]

    def encoded(self, tokens: Tokens) -> bytes:
        """The bytes of each token, joined."""
        table = self._table
        return b"".join(table[token] for token in _known(tokens, len(table)))

    @cached_property
    def _table(self) -> list[bytes]:
        """The bytes that each token stands for."""
        letters = _letters()
        by_number = sorted((number, word) for word, number in self._tokenizer.get_vocab().items())
        return [bytes(letters[letter] for letter in word) for _, word in by_number]

    def to_json(self) -> str:
        """Its kind, and all that `tokenizers` says of it."""
        return json.dumps({"kind": self.kind, "tokenizer": json.loads(self._tokenizer.to_str())})

    @classmethod
    def _read(cls, fields: dict[str, Any]) -> BytePairs:
        try:
            found = cls(_tokenizers().Tokenizer.from_str(json.dumps(fields["tokenizer"])))
            found._table  # noqa: B018  # whether its tokens are bytes, and numbered from 0 on
        except CapaxError:
            raise
        except Exception as error:  # `tokenizers` raises nothing more special
            raise TokenizationError(f"tokenizer: cannot be read: {type(error).__name__}: {error}") from None
        return found

    def __getstate__(self) -> str:
        return self.to_json()

    def __setstate__(self, state: str) -> None:
        self._tokenizer = self._read(json.loads(state))._tokenizer


KINDS: dict[str, type[Tokenizer]] = {kind.kind: kind for kind in (BytePairs, Bytes)}
"""The tokenizers by their names."""


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
    if kind != BytePairs.kind:
        raise TokenizationError(f"tokenizer: one of {', '.join(KINDS)}, got {kind!r:.80}")
    return BytePairs._read(fields)


def _tokenizers() -> Any:
    """The package, which only byte pairs need."""
    try:
        import tokenizers.decoders
        import tokenizers.models
        import tokenizers.pre_tokenizers
        import tokenizers.trainers
    except ModuleNotFoundError:
        raise TokenizationError("tokenizers: is not installed; pip install 'capax[facts]'") from None
    return tokenizers


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
