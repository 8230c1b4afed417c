import json
import pickle
import random
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.errors import CapaxError
from capax.tasks import tokenization
from capax.tasks.tokenization import BytePairs, Bytes, TokenizationError, Tokenizer, from_json

TEXTS = ["In the beginning God created the heaven and the earth.", "And the earth was without form,", "Köln 東京 🜚"] * 4


PAIRS = BytePairs.trained(TEXTS, 300)
BOTH = pytest.mark.parametrize("tokenizer", [Bytes(), PAIRS], ids=["bytes", "bpe"])


@pytest.fixture
def pairs() -> BytePairs:
    return PAIRS


def random_texts(seed: int, count: int = 2000) -> list[str]:
    """Words of many equal counts, where the order of ties would show."""
    draw = random.Random(seed)
    return [" ".join("".join(draw.choices("abcdefgh", k=3)) for _ in range(6)) for _ in range(count)]


@pytest.mark.parametrize("seed", range(3))
def test_the_same_texts_give_the_same_tokenizer(seed: int) -> None:
    texts = random_texts(seed)
    one, two = (BytePairs.trained(iter(texts), 700) for _ in range(2))
    assert one.to_json() == two.to_json()
    assert one.vocab_size == 700


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_every_string_is_written_and_read_again(texts: list[str]) -> None:
    for tokenizer in Bytes(), PAIRS:
        tokens = tokenizer.encode(texts)
        assert [tokenizer.decode(row) for row in tokens] == texts
        assert all(row.dtype == np.int64 and (row < tokenizer.vocab_size).all() and (row >= 0).all() for row in tokens)


def test_bytes_are_those_of_utf_8() -> None:
    assert Bytes().vocab_size == 256
    assert Bytes().encode(["Köln"])[0].tolist() == list("Köln".encode())
    assert Bytes().encode([""])[0].tolist() == []


def test_pairs_are_fewer_tokens_than_bytes(pairs: BytePairs) -> None:
    assert len(pairs.encode(TEXTS[:1])[0]) < len(TEXTS[0].encode())


def test_a_vocabulary_that_the_texts_have_no_pairs_for_is_shorter() -> None:
    found = BytePairs.trained(["aaaa"], 5000)
    assert found.vocab_size == 258  # the bytes, aa, aaaa
    assert BytePairs.trained([], 5000).vocab_size == 256
    assert BytePairs.trained(TEXTS, 256).vocab_size == 256


@BOTH
def test_it_is_kept_and_read(tokenizer: Tokenizer) -> None:
    for again in from_json(tokenizer.to_json()), pickle.loads(pickle.dumps(tokenizer)):
        assert type(again) is type(tokenizer)
        assert again.to_json() == tokenizer.to_json()
        assert again.vocab_size == tokenizer.vocab_size
        for mine, theirs in zip(again.encode(TEXTS), tokenizer.encode(TEXTS), strict=True):
            assert mine.tolist() == theirs.tolist()


def test_pieces_of_a_character_join(pairs: BytePairs) -> None:
    for tokenizer in pairs, Bytes():
        tokens = tokenizer.encode(["a 🜚 b"])[0]
        cut = next(n for n in range(len(tokens)) if "�" in tokenizer.decode(tokens[:n]))
        assert (tokenizer.encoded(tokens[:cut]) + tokenizer.encoded(tokens[cut:])).decode() == "a 🜚 b"


def test_texts_are_encoded_many_at_once_as_one_by_one(pairs: BytePairs) -> None:
    texts = random_texts(3, 200)
    each = [pairs.encode([text])[0].tolist() for text in texts]
    assert [row.tolist() for row in pairs.encode(texts)] == each


@pytest.mark.parametrize("text", ["", "{}", "[1]", "not json", '{"kind": "words"}', '{"kind": "bpe"}', "[" * 100_000])
def test_what_is_no_tokenizer_is_refused_in_a_line(text: str) -> None:
    with pytest.raises(TokenizationError, match=r"^tokenizer: "):
        from_json(text)


def test_a_tokenizer_of_something_else_than_bytes_is_refused(pairs: BytePairs) -> None:
    fields = json.loads(pairs.to_json())
    fields["tokenizer"]["model"]["vocab"] = {"東": 0}
    fields["tokenizer"]["model"]["merges"] = []
    with pytest.raises(TokenizationError, match=r"^tokenizer: cannot be read"):
        from_json(json.dumps(fields))


@pytest.mark.parametrize("size", [255, 0, -1, 1_000_001])
def test_a_vocabulary_that_cannot_be_is_refused(size: int) -> None:
    with pytest.raises(TokenizationError, match=f"^vocab_size: .*256.*got {size}"):
        BytePairs.trained(TEXTS, size)


@BOTH
def test_what_utf_8_cannot_hold_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(TokenizationError, match=r"^text: .*surrogate"):
        tokenizer.encode(["fine", "\ud800"])
    with pytest.raises(TokenizationError, match=r"^text: .*surrogate"):
        BytePairs.trained(["\ud800"], 300)


@pytest.mark.parametrize("tokens", [[-1], [300], [10**30]])
def test_tokens_outside_the_vocabulary_are_refused(tokens: list[int]) -> None:
    for tokenizer in Bytes(), PAIRS:
        with pytest.raises(TokenizationError, match=r"^tokens: "):
            tokenizer.decode(tokens)


def test_byte_pairs_without_their_package_say_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    for name in "decoders", "models", "pre_tokenizers", "trainers":
        monkeypatch.setitem(sys.modules, f"tokenizers.{name}", None)
    with pytest.raises(CapaxError, match=r"pip install 'capax\[facts\]'"):
        BytePairs.trained(TEXTS, 300)
    assert Bytes.trained().vocab_size == 256


def test_the_kinds_are_those_of_the_classes() -> None:
    assert {"bytes": Bytes, "bpe": BytePairs} == tokenization.KINDS
