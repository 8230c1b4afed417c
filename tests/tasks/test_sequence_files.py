"""The user's sequences: what is read, and one line that names line and value for all that cannot be."""

from __future__ import annotations

import contextlib
import io
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from capax.errors import CapaxError, LibraryError
from capax.specs import Sequences
from capax.tasks import sequence_files
from capax.tasks.sequences import draw

ROWS = [[3, 1, 4], [1, 5, 9], [2, 6, 5], [3, 5, 8]]


def text(folder: Path, content: str | bytes, name: str = "own.txt") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def npy(folder: Path, array: object, name: str = "own.npy") -> Path:
    path = folder / name
    np.save(path, np.asarray(array), allow_pickle=True)
    return path


def names(path: Path, *words: object, field: str = "library", **fields: object) -> bool:
    """Whether a file is refused with one line that names the field, the file and the given words, in this order."""
    message, start = refusal(path, **fields), 0
    assert message.startswith(f"{field}: ")
    for word in (path, *words):
        assert str(word) in message[start:], message
        start = message.index(str(word), start) + len(str(word))
    return True


def refusal(path: Path, **fields: object) -> str:
    """The message, one line long, with which a file is refused."""
    with pytest.raises(CapaxError) as refused:
        Sequences(library=str(path), **fields)
    message = str(refused.value)
    assert "\n" not in message
    assert len(message) < 300 + len(str(path))
    return message


# what is read


def test_a_file_fills_size_length_vocabulary_and_hash(tmp_path: Path) -> None:
    path = text(tmp_path, "3 1 4\n1 5 9\n2 6 5\n3 5 8\n")
    spec = Sequences(library=str(path), loss="last")
    assert (spec.library_size, spec.seq_len, spec.vocab_size) == (4, 3, 10)
    assert spec.library_sha256 == sequence_files.content_hash(np.array(ROWS))
    assert spec.loss == "last"
    assert draw(spec, 4, np.random.default_rng(0)).tolist() == ROWS


def test_fields_that_agree_with_the_file_are_accepted(tmp_path: Path) -> None:
    path = text(tmp_path, "3 1 4\n1 5 9\n")
    alone = Sequences(library=str(path))
    spec = Sequences(library=str(path), library_size=2, seq_len=3, vocab_size=12, library_sha256=alone.library_sha256)
    assert (spec.library_size, spec.seq_len, spec.vocab_size) == (2, 3, 12)
    assert spec.library_sha256 == alone.library_sha256


@pytest.mark.parametrize("dtype", ["<i8", ">i8", "<i4", "<u2", "u1", "i1"])
def test_npy_and_text_of_the_same_sequences_hash_alike(tmp_path: Path, dtype: str) -> None:
    array = np.array(ROWS, dtype=dtype)
    files = [
        text(tmp_path, "3 1 4\n1 5 9\n2 6 5\n3 5 8\n"),
        text(tmp_path, "\n3 1\t4\r\n  1  5 9\n\n2 6 5\n3 5 8", "spaced.txt"),
        npy(tmp_path, array),
        npy(tmp_path, np.asfortranarray(array), "fortran.npy"),
    ]
    specs = [Sequences(library=str(file)) for file in files]
    assert len({spec.library_sha256 for spec in specs}) == 1
    assert all(draw(spec, 4, np.random.default_rng(0)).tolist() == ROWS for spec in specs)


def test_the_hash_tells_shapes_orders_and_tokens_apart() -> None:
    arrays = [np.array(a) for a in ([[1, 2, 3, 4]], [[1, 2], [3, 4]], [[3, 4], [1, 2]], [[1, 2], [3, 5]])]
    assert len({sequence_files.content_hash(array) for array in arrays}) == len(arrays)


@settings(derandomize=True, max_examples=40, deadline=None)
@given(npst.arrays(np.int64, npst.array_shapes(min_dims=2, max_dims=2, min_side=2), elements=st.integers(0, 10**12)))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, array: np.ndarray) -> None:
    folder = tmp_path_factory.mktemp("files")
    lines = "\n".join(" ".join(map(str, row)) for row in array.tolist())
    for path in text(folder, lines), npy(folder, array):
        assert np.array_equal(sequence_files.read(path), array)


def test_a_vocabulary_has_at_least_two_tokens(tmp_path: Path) -> None:
    assert Sequences(library=str(text(tmp_path, "0 0 0\n"))).vocab_size == 2


# what is not


def test_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "absent.txt"
    assert names(path)


def test_folder(tmp_path: Path) -> None:
    path = tmp_path / "folder.npy"
    path.mkdir()
    assert names(path, "folder")


@pytest.mark.parametrize("name", ["own.csv", "own", "own.TXT", "own.npz", "randm"])
def test_wrong_suffix_names_what_is_allowed(tmp_path: Path, name: str) -> None:
    message = refusal(text(tmp_path, "1 2\n", name))
    assert "'random', 'all', or a .npy or .txt file" in message
    assert name in message


@pytest.mark.parametrize("content", ["", "\n", " \n\t\n\n"])
def test_empty_text(tmp_path: Path, content: str) -> None:
    path = text(tmp_path, content)
    assert names(path, "empty")


def test_empty_npy(tmp_path: Path) -> None:
    path = npy(tmp_path, np.zeros((0, 3), dtype=int))
    assert names(path, "empty")


def test_sequences_of_one_token(tmp_path: Path) -> None:
    for path in text(tmp_path, "1\n2\n"), npy(tmp_path, [[1], [2]]):
        assert names(path, "1 token", "at least 2")


def test_ragged_names_both_lines_blank_ones_counted(tmp_path: Path) -> None:
    path = text(tmp_path, "\n1 2 3\n\n4 5 6\n7 8\n")
    assert names(path, "line 5", "2 tokens", "line 2", "3")


@pytest.mark.parametrize("word", ["x", "1.5", "2.0", "1e3", "0x10", "--1", "4,", "nan", "½"])
def test_a_word_that_is_no_integer_is_named_with_its_line(tmp_path: Path, word: str) -> None:
    path = text(tmp_path, f"1 2 3\n\n4 {word} 6\n")
    assert names(path, "line 3", repr(word))


def test_a_word_of_any_length_stays_on_one_line(tmp_path: Path) -> None:
    for word in "9" * 100, "9" * 10_000, "z" * 10_000:
        message = refusal(text(tmp_path, f"1 2\n3 {word}\n"))
        assert "line 2" in message
        assert word[:60] in message


@pytest.mark.parametrize("token", [2**63, -(2**63) - 1])
def test_a_token_beyond_64_bits_is_named_with_its_line(tmp_path: Path, token: int) -> None:
    path = text(tmp_path, f"1 2\n3 {token}\n")
    assert names(path, "line 2", token, "64 bits")


def test_an_unsigned_token_beyond_64_bits_is_named(tmp_path: Path) -> None:
    path = npy(tmp_path, np.array([[1, 2], [3, 2**63 + 7]], dtype=np.uint64))
    assert names(path, 2**63 + 7, "64 bits")


def test_text_that_is_no_text(tmp_path: Path) -> None:
    path = text(tmp_path, b"\xff\xfe1 2 3")
    assert refusal(path).startswith(f"library: {path} is not a text file: ")


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (np.zeros(3, dtype=int), "1-D of int64"),
        (np.zeros((2, 2, 2), dtype=int), "3-D of int64"),
        (np.array(5), "0-D of int64"),
        (np.zeros((2, 3)), "2-D of float64"),
        (np.zeros((2, 3), dtype=bool), "2-D of bool"),
        (np.array([["1", "2"]]), "2-D of <U1"),
    ],
)
def test_npy_of_something_else_says_what_it_holds(tmp_path: Path, array: np.ndarray, found: str) -> None:
    path = npy(tmp_path, array)
    assert names(path, "2-D", "integers", found)


class Bomb:
    """What a pickle could do: make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.path), "w")


def test_a_pickle_is_refused_without_being_opened(tmp_path: Path) -> None:
    bomb = Bomb(tmp_path / "made")
    for path in (
        npy(tmp_path, np.array([[1, bomb]], dtype=object)),
        text(tmp_path, pickle.dumps(bomb), "bare.npy"),
    ):
        assert refusal(path).startswith(f"library: {path} is not a .npy array: ")
    assert not bomb.path.exists()


def npy_bytes() -> bytes:
    file = io.BytesIO()
    np.save(file, np.array(ROWS))
    return file.getvalue()


def archive_bytes() -> bytes:
    file = io.BytesIO()
    np.savez(file, np.array(ROWS))
    return file.getvalue()


def header(described: str) -> bytes:
    return b"\x93NUMPY\x01\x00v\x00" + described.encode().ljust(117) + b"\n" + bytes(96)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1 2 3\n",
        npy_bytes()[:5],
        npy_bytes()[:60],
        npy_bytes()[:-1],
        archive_bytes(),
        b"PK\x03\x04 and no archive",
        header("{'descr': '<i8', 'fortran_order': False, 'shape': (3, "),
        header("{'descr': '<i8', 'fortran_order': False, 'shape': (3, 4)"),
        header("{'descr': '<i8', 'fortran_order': False, 'shape': (3000000000000, 3), }"),
        header("{'descr': 'what', 'fortran_order': False, 'shape': (3, 4), }"),
        header("{'shape': (3, 4), }"),
        b"\x93NUMPY\x02\x00" + (20_000).to_bytes(4, "little") + b" " * 20_000,
    ],
    ids=range(13),
)
def test_corrupt_npy(tmp_path: Path, content: bytes) -> None:
    path = text(tmp_path, content, "own.npy")
    assert refusal(path).startswith(f"library: {path} is not a .npy array: ")


@settings(derandomize=True, max_examples=80, deadline=None)
@given(st.integers(0, len(npy_bytes()) - 1), st.integers(0, 255))
def test_a_changed_byte_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, at: int, byte: int) -> None:
    content = bytearray(npy_bytes())
    content[at] = byte
    path = text(tmp_path_factory.mktemp("files"), bytes(content), "own.npy")
    with contextlib.suppress(LibraryError):
        sequences = sequence_files.read(path)
        assert sequences.ndim == 2
        assert sequences.dtype == np.int64


# what does not fit the spec


def test_a_token_outside_a_given_vocabulary_is_named_with_its_sequence(tmp_path: Path) -> None:
    for path in text(tmp_path, "\n0 1 2\n3 4 5\n"), npy(tmp_path, [[0, 1, 2], [3, 4, 5]]):
        assert names(path, "sequence 2", 4, "0..3", "vocab_size 4", vocab_size=4)


def test_a_negative_token_is_named_with_its_sequence(tmp_path: Path) -> None:
    for path in text(tmp_path, "0 1 2\n3 -4 5\n"), npy(tmp_path, [[0, 1, 2], [3, -4, 5]]):
        assert names(path, "sequence 2", -4, "0..5", "vocab_size 6")


@pytest.mark.parametrize(("field", "found", "given_value"), [("library_size", 4, 5), ("seq_len", 3, 8)])
def test_a_field_that_contradicts_the_file(tmp_path: Path, field: str, found: int, given_value: int) -> None:
    path = npy(tmp_path, ROWS)
    assert names(path, found, given_value, field=field, **{field: given_value})


def test_a_hash_of_other_sequences(tmp_path: Path) -> None:
    path = npy(tmp_path, ROWS)
    spec = Sequences(library=str(path), library_sha256="0" * 64, library_size=len(ROWS), seq_len=len(ROWS[0]))
    with pytest.raises(LibraryError, match=r"^library: .*changed"):
        draw(spec, len(ROWS), np.random.default_rng(0))


def test_a_row_without_tokens_has_zero_tokens(tmp_path: Path) -> None:
    assert names(npy(tmp_path, np.zeros((3, 0), int)), "sequences of 0 tokens; at least 2 are needed")


# repeated prefixes


def test_the_same_sequence_twice(tmp_path: Path) -> None:
    path = text(tmp_path, "1 2 3\n4 5 6\n1 2 3\n")
    assert names(path, 1, 3, "duplicates 'keep' accepts")


def test_one_prefix_with_two_targets(tmp_path: Path) -> None:
    path = text(tmp_path, "0 0 0\n1 2 3\n4 5 6\n1 2 7\n")
    assert names(path, 2, 4, "3 and 7", "duplicates 'keep' accepts")


def test_duplicates_are_kept_where_the_user_says_so(tmp_path: Path) -> None:
    rows = [[1, 2, 3], [4, 5, 6], [1, 2, 3], [1, 2, 7]]
    spec = Sequences(library=str(npy(tmp_path, rows)), duplicates="keep")
    assert spec.library_size == 4
    assert draw(spec, 4, np.random.default_rng(0)).tolist() == rows


@settings(derandomize=True, max_examples=80, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=1, max_size=8))
def test_repeated_prefixes_are_the_first_pair_of_plain_loops(rows: list[tuple[int, int, int]]) -> None:
    pairs = ((i, j) for j in range(len(rows)) for i in range(j) if rows[i][:2] == rows[j][:2])
    assert sequence_files.repeated_prefixes(np.array(rows)) == next(pairs, None)


# files that change


def test_a_file_that_changed_after_it_was_read(tmp_path: Path) -> None:
    path = text(tmp_path, "1 2 3\n4 5 6\n")
    spec = Sequences(library=str(path))
    text(tmp_path, "1 2 3\n\n4 5 6")  # the same sequences
    assert draw(spec, 2, np.random.default_rng(0)).tolist() == [[1, 2, 3], [4, 5, 6]]
    text(tmp_path, "1 2 3\n4 5 5\n")
    with pytest.raises(LibraryError, match=r"^library: .*own\.txt .*changed"):
        draw(spec, 2, np.random.default_rng(0))
    assert Sequences.model_validate_json(spec.model_dump_json()) == spec  # a stored spec does not need its file


def test_a_file_that_vanished_after_it_was_read(tmp_path: Path) -> None:
    path = text(tmp_path, "1 2 3\n4 5 6\n")
    spec = Sequences(library=str(path))
    path.unlink()
    with pytest.raises(LibraryError, match="no such file"):
        draw(spec, 2, np.random.default_rng(0))
