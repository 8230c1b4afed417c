"""Windows of documents: how they are cut and parted, what counts as recalled, and which files are refused."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_text import chapters, folder

import capax
from capax.errors import CapaxError, LibraryError
from capax.specs import Run
from capax.tasks import text_files, text_windows
from capax.tasks.text import TextLibrary, control
from capax.tasks.text_files import Corpus, read
from capax.tasks.text_windows import cut, first_half, halves, windows
from capax.tasks.tokenization import Bytes
from capax.testing import TaskSuite

GENERATOR = np.random.default_rng(0)


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder(tmp_path_factory.mktemp("genesis"))


def spec(library: Path | str, **fields: object) -> capax.Text:
    pairs = {} if fields.get("tokenization") == "bytes" else {"bpe_size": 300}
    return capax.Text(**{"library": str(library), "seq_len": 16, **pairs, **fields})


def drawn(task: capax.Text, size: int | None = None) -> np.ndarray:
    return TextLibrary.draw(task, size or task.library_size, GENERATOR)


class Suite(TaskSuite):
    model = capax.Transformer(n_heads=2, d_model=8, d_head=4, embeddings="trained", readout="tied")
    fields: ClassVar[dict[str, object]] = {}

    @pytest.fixture(autouse=True)
    def _task(self, books: Path) -> None:
        self.task = spec(books, library_size=12, seq_len=8, **self.fields)


class TestText(Suite):
    pass


class TestSecondHalf(Suite):
    fields: ClassVar = {"half": "second", "prefix": 2}


class TestBytes(Suite):
    fields: ClassVar = {"tokenization": "bytes"}


# how documents are cut and parted


@pytest.mark.parametrize("tokenization", ["bpe", "bytes"])
def test_windows_join_to_the_documents(books: Path, tokenization: str) -> None:
    """Side by side and in order, with what is left over at the end of each."""
    corpus = read(books, "text", tokenization, 300)
    tokens, document = cut(corpus, 16)
    for number, text in enumerate(chapters()):
        mine = tokens[document == number].ravel()
        rest = corpus.document(number)[len(mine) :]
        assert len(rest) < 16
        assert (corpus.tokenizer.encoded(mine) + corpus.tokenizer.encoded(rest)).decode() == text
    assert len(corpus.tokens) - tokens.size == windows(corpus, 16)["first"].left_over


def test_a_folder_and_json_are_the_same_documents(books: Path, tmp_path: Path) -> None:
    path = tmp_path / "genesis.jsonl"
    texts = [*chapters(), "a \r b\x0b c\u2028 d\n\n\r\ne"]
    path.write_text("\n".join(json.dumps({"verses": text, "n": 1}) + "\n" for text in texts), encoding="utf-8")
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt").write_bytes(text.encode())
    one, two = spec(tmp_path), spec(path, column="verses")
    assert one.library_sha256 == two.library_sha256 != spec(books).library_sha256
    assert (drawn(one) == drawn(two)).all()


def test_long_lines_and_many_pieces_are_the_same_documents(
    books: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps({"text": text}) for text in chapters()), encoding="utf-8")
    texts = []
    for piece, at_once in ((2**20, 2**20), (7, 30), (50, 1)):
        monkeypatch.setattr(text_files, "LONGEST_PIECE", piece)
        monkeypatch.setattr(text_files, "AT_ONCE", at_once)
        os.utime(path, (piece, piece))  # else it would not be read again
        texts.append(text_of(corpus_of(path)))
    assert texts[0] == texts[1] == texts[2] == chapters()


def test_no_document_is_in_both_halves(books: Path) -> None:
    task = spec(books)
    corpus, found = halves(task)
    tokens, document = cut(corpus, 16)
    of_document = {row.tobytes(): number for row, number in zip(tokens, document, strict=True)}
    sides = {half: {of_document[row.tobytes()] for row in found[half].tokens} for half in found}
    assert sides["first"] & sides["second"] == set()
    assert sides["first"] | sides["second"] == set(range(7))
    rows = {row.tobytes() for row in tokens}
    assert rows == {row.tobytes() for half in found.values() for row in half.tokens}


def test_halves_of_one_document_are_of_its_stretches(books: Path, tmp_path: Path) -> None:
    path = tmp_path / "genesis.txt"
    path.write_text("".join(chapters()), encoding="utf-8")
    corpus, found = halves(spec(path))
    tokens, document = cut(corpus, 16)
    assert (document == 0).all()
    chosen = {row.tobytes() for row in found["first"].tokens}
    sides = np.array([row.tobytes() in chosen for row in tokens])
    assert abs(sides.mean() - 0.5) < 0.02
    changes = int((sides[1:] != sides[:-1]).sum())
    assert changes <= 63  # as between stretches, not between windows
    assert len(tokens) > 400


@settings(deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=20), st.integers(0, 2**32))
def test_halves_are_as_even_as_documents_let_them(lengths: list[int], seed: int) -> None:
    document = np.repeat(np.arange(len(lengths)), lengths)
    if len(document) < 2:
        return
    chosen = first_half(document, np.random.default_rng(seed))
    assert 0 < chosen.sum() < len(document)
    largest = max(lengths) if len(lengths) > 1 else 1
    assert abs(chosen.sum() - len(document) / 2) <= largest / 2
    if len(lengths) > 1:
        assert all(len(set(chosen[document == number])) == 1 for number in range(len(lengths)))


def test_repeated_windows_are_kept_once_and_told(tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / f"{number}.txt").write_text("abcd" * 5 + f"own{number}" * 3 + "rest"[: number % 3])
    task = spec(tmp_path, tokenization="bytes", seq_len=4)
    corpus, found = halves(task)
    learned, other = found["first"], found["second"]
    assert len({row.tobytes() for row in learned.tokens}) == len(learned.tokens)
    assert learned.cut == 3 * (5 + 3)
    shared = {row.tobytes() for row in learned.tokens} & {row.tobytes() for row in other.tokens}
    assert {bytes(np.frombuffer(row, np.int32).astype(np.uint8)) for row in shared} == {b"abcd"}
    assert len(control(task)) == len(other.tokens) - 1
    _, notes = TextLibrary.remarks(task, task.library_size, GENERATOR)
    assert notes[0].startswith(f"{24 - len(learned.tokens)} of 24 windows (")
    assert notes[1].startswith(f"1 of {len(other.tokens)} windows of the other half")
    assert notes[2].startswith(f"{len(corpus.tokens) - 48 * 4} of {len(corpus.tokens)} tokens")


def test_a_smaller_library_is_part_of_a_larger_one(books: Path) -> None:
    whole = drawn(spec(books))
    assert (drawn(spec(books, library_size=20)) == whole[:20]).all()
    assert len(control(spec(books, library_size=20))) == 20


def test_halves_follow_from_the_content_not_from_a_seed(books: Path) -> None:
    one, two = (TextLibrary.draw(spec(books), 30, np.random.default_rng(seed)) for seed in range(2))
    assert (one == two).all()
    assert not spec(books).drawn


# the spec


def test_what_follows_from_the_documents_is_filled_in(books: Path) -> None:
    task = spec(books)
    assert task.vocab_size == 300
    assert task.prefix == 8
    assert task.library_size == len(halves(task)[1]["first"].tokens)
    assert task.replace(seq_len=8).library_size > task.library_size
    assert task.replace(seq_len=8).prefix == 4
    assert task.sizes() == {"vocab_size": 301, "context": 16}
    assert task.information_per_item() == pytest.approx(16 * np.log2(300))
    assert task.bits_per_item() == pytest.approx(8 * np.log2(300))
    assert task.columns()["vocab_size"] == 300
    assert task.columns()["seq_len"] == 16
    assert spec(books, bpe_size=100_000).vocab_size < 100_000


def test_a_stored_run_is_read_without_its_documents(tmp_path: Path) -> None:
    run = Run(task=spec(folder(tmp_path / "books")), model=capax.Transformer(d_model=8))
    text, key = run.model_dump_json(), run.key()
    for path in (tmp_path / "books").iterdir():
        path.unlink()
    (tmp_path / "books").rmdir()
    again = Run.model_validate_json(text)
    assert again == run
    assert again.key() == key
    with pytest.raises(LibraryError, match="no such file"):
        drawn(again.task)


def test_a_key_is_of_the_content_not_of_the_place(books: Path, tmp_path: Path) -> None:
    one, two = (Run(task=spec(path), model=capax.Transformer(d_model=8)) for path in (books, folder(tmp_path / "copy")))
    assert one.key() == two.key()
    assert one.key() != one.replace(task=one.task.replace(half="second")).key()


def test_documents_that_change_are_noticed(tmp_path: Path) -> None:
    task = spec(folder(tmp_path))
    (tmp_path / "genesis-8.txt").write_text("And God remembered Noah, and every living thing.\n")
    with pytest.raises(LibraryError, match="has changed since it was read"):
        drawn(task)


def test_a_spec_from_data_without_its_content_is_refused(books: Path) -> None:
    fields = spec(books).model_dump() | {"library_sha256": None}
    with pytest.raises(ValueError, match="library_sha256: is required"):
        capax.Text.read(fields)
    fields = spec(books).model_dump()
    del fields["vocab_size"]
    with pytest.raises(ValueError, match="vocab_size: is required"):
        capax.Text.read(fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prefix": 16}, r"^prefix: below seq_len \(16\), got 16"),
        ({"prefix": 0}, "^prefix: .*at least 1"),
        ({"bpe_size": 255}, "^bpe_size: .*at least 256"),
        ({"column": "body"}, "^column: only with a .jsonl file, got 'body'"),
        ({"bpe_size": 300, "tokenization": "bytes"}, "^bpe_size: only with tokenization bpe, got 300"),
        ({"library_size": 10_000}, r"^library_size: the first half of .* has \d+ different windows .*got 10000"),
        ({"vocab_size": 5}, "^vocab_size: .* gives 300 tokens, got 5"),
        ({"seq_len": 5000}, "^seq_len: the documents should have two windows at least.*got 5000"),
        ({"half": "third"}, "^half: "),
    ],
)
def test_fields_that_do_not_fit_are_refused(books: Path, fields: dict[str, object], message: str) -> None:
    with pytest.raises(CapaxError, match=message):
        spec(books, **fields)


def test_a_library_must_be_given() -> None:
    with pytest.raises(CapaxError, match=r"^library: is required"):
        capax.Text()


# what counts as recalled


def test_recall_is_greedy_decoding_step_by_step(books: Path) -> None:
    """An independent loop writes the suffix token by token, each from what it wrote before."""
    task = spec(books, library_size=40, seq_len=8, prefix=3)
    model = capax.Transformer(n_heads=2, d_model=16, d_head=8, embeddings="trained", readout="tied")
    learner = capax.training.prepare.initial(Run(task=task, model=model, seed=1))
    rows = torch.from_numpy(drawn(task))
    written = rows.clone()
    with torch.no_grad():
        for place in range(4, 9):
            blank = torch.cat([written[:, :place], torch.zeros(len(rows), 9 - place, dtype=torch.int64)], 1)
            written[:, place] = learner.logits(blank[None, :, :-1], "all")[0, :, place - 1].argmax(-1)
        for row in range(0, 40, 2):  # half of the library says what the model says
            rows[row] = written[row]
        library = TextLibrary(task, rows[None], (40,))
        batch = library.batch(torch.arange(40)[None])
        outputs = library.outputs(learner, batch, "recall", library.shared(learner, "recall", 40))
        found = library.recalled(outputs, batch)[0]
    assert found.tolist() == (written == rows).all(1).tolist()
    assert found.sum() >= 20
    assert not found.all()


def test_windows_that_begin_alike_are_not_all_recallable(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"{number}.txt").write_text("same" + f"end{number}")
    task = spec(tmp_path, tokenization="bytes", seq_len=8, prefix=4)
    recallable, notes = TextLibrary.remarks(task, 4, GENERATOR)
    assert recallable == 1
    assert notes[-1] == "at most 1 of 4 windows can be recalled: others begin alike (one prefix)"


def test_verses_are_learned_and_remembered(books: Path, tmp_path: Path) -> None:
    run = capax.measure(
        spec(books, library_size=24, seq_len=8),
        capax.Transformer(n_heads=2, d_model=32, d_head=16, embeddings="trained", readout="tied"),
        capax.Training(max_epochs=60),
        restarts=1,
        device="cpu",
    )
    assert run.memorized == 24
    assert {unit.name: unit.amount for unit in run.units}["morris_bits"] > 24 * 8 * 5
    assert any("fill no window" in note for note in run.notes)


@pytest.mark.slow
def test_before_any_window_is_recalled_the_best_weights_are_those_that_code_best(books: Path) -> None:
    run = capax.measure(
        spec(books, seq_len=32),
        capax.Transformer(n_heads=2, d_model=8, d_head=4, embeddings="trained", readout="tied"),
        capax.Training(max_epochs=8, lr=0.01),
        restarts=1,
        device="cpu",
    )
    assert run.memorized == 0
    assert run.epochs == 8
    assert run.metrics["nats_per_token"] < np.log(300)


# what is read


def corpus_of(path: Path) -> Corpus:
    return read(path, "text", "bytes", 256)


def text_of(corpus: Corpus) -> list[str]:
    return [corpus.tokenizer.decode(corpus.document(number)) for number in range(len(corpus.ends))]


def test_a_text_is_read_as_it_is(tmp_path: Path) -> None:
    said = "\r\nKöln \r and\u2028東京\x0b 🜚\n\n\x00 end without a newline"
    path = tmp_path / "a.txt"
    path.write_bytes(said.encode())
    assert text_of(corpus_of(path)) == [said]
    path.write_bytes(b"\xef\xbb\xbf" + said.encode())
    assert text_of(corpus_of(path)) == [said]


def test_a_line_longer_than_is_read_at_once_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "LONGEST_PIECE", 5)
    path = tmp_path / "a.txt"
    path.write_text("äöü🜚" * 50 + "\nß", encoding="utf-8")
    assert text_of(corpus_of(path)) == ["äöü🜚" * 50 + "\nß"]


def test_documents_without_text_are_none(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one\\ntwo"}\n\n{"text": ""}\n  \n{"text": "three"}')
    assert text_of(corpus_of(path)) == ["one\ntwo", "three"]


def test_the_same_corpus_is_not_read_twice_and_a_changed_one_is(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("some text")
    one = corpus_of(path)
    assert corpus_of(path) is one
    path.write_text("other text")
    assert text_of(corpus_of(path)) == ["other text"]


def test_a_hash_knows_what_byte_pairs_mean(tmp_path: Path) -> None:
    """Letters put in place of others may give the same tokens, which say something else."""
    words = ["abcdefgh"[place % 8] * 2 + "abcdefgh"[place // 8] for place in range(30)]
    said = " ".join(words[(7 * number * number + number) % 30] for number in range(3000))
    other = said.translate(str.maketrans("abcdefgh", "ijklmnop"))
    corpora = []
    for name, text in (("a.txt", said), ("b.txt", other)):
        (tmp_path / name).write_text(text)
        corpora.append(read(tmp_path / name, "text", "bpe", 300))
    one, two = corpora
    assert Corpus(one.tokens, one.ends, two.tokenizer).content_hash != one.content_hash
    assert one.content_hash != two.content_hash
    assert Corpus(one.tokens, one.ends, Bytes()).content_hash == Corpus(one.tokens, one.ends, Bytes()).token_hash
    now = capax.Text(library=str(tmp_path / "a.txt"), bpe_size=300, seq_len=8, library_size=9)
    older = now.model_copy(update={"library_sha256": one.token_hash})  # as runs had it before
    assert np.array_equal(text_windows.halves(older)[1]["first"].tokens, text_windows.halves(now)[1]["first"].tokens)
    with pytest.raises(LibraryError, match="has changed"):
        text_windows.halves(now.model_copy(update={"library_sha256": two.content_hash}))


def test_a_hash_knows_where_documents_end() -> None:
    tokens = np.arange(6, dtype=np.int32)
    found = {Corpus(tokens, np.array(ends), Bytes()).content_hash for ends in ([6], [2, 6], [3, 6])}
    assert len(found) == 3


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.txt", None, "no such file"),
        ("a.pdf", b"x", "a .txt file, a .jsonl file, or a folder of .txt files"),
        ("empty.txt", b"", "is empty"),
        ("empty.jsonl", b"\n\n", "is empty"),
        ("latin.txt", "eins\nzwei\nKöln".encode("latin-1"), "line 3: is not UTF-8 (byte 0xf6)"),
        ("cut.txt", "ok\nKö".encode()[:-1], "line 2: is not UTF-8 (byte 0xc3)"),
        ("latin.jsonl", b'{"text": "a"}\n{"text": "\xf6"}', "line 2: is not UTF-8 (byte 0xf6)"),
        ("marked.jsonl", b"\xef\xbb\xbf[1]", "line 1: should be a JSON object, got '[1]'"),
        ("broken.jsonl", b'{"text": "a"}\n{"text": ', "line 2: should be a JSON object, got '{\"text\": '"),
        ("list.jsonl", b"[1]", "line 1: should be a JSON object, got '[1]'"),
        ("deep.jsonl", b"[" * 100_000, "line 1: should be a JSON object, got '[[["),
        ("column.jsonl", b'{"text": "a"}\n{"body": "b", "n": 1}', "line 2 has no 'text', but 'body', 'n'"),
        ("nothing.jsonl", b"{}", "line 1 has no 'text', but nothing"),
        ("number.jsonl", b'{"text": 5}', "line 1: 'text' should be a string, got 5"),
        ("twice.jsonl", b'{"text": "a"}\n{"text": "b", "text": "c"}', "line 2: 'text' is there twice"),
        ("inside.jsonl", b'{"text": "a", "of": {"n": 1, "n": 2}}', "line 1: 'n' is there twice"),
        ("surrogate.jsonl", b'{"text": "\\ud800"}', "line 1: 'text' has half of a surrogate pair"),
        ("short.txt", b"a few words", "seq_len: the documents should have two windows at least"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_line(tmp_path: Path, name: str, content: bytes | None, words: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CapaxError) as refused:
        spec(path)
    message = str(refused.value)
    assert words in message
    assert "\n" not in message
    assert message.startswith(("library: ", "column: ", "seq_len: "))


def test_suffixes_in_upper_case_are_suffixes(tmp_path: Path) -> None:
    (tmp_path / "c.TXT").write_text("some text")
    (tmp_path / "d.Txt").write_text("more text")
    (tmp_path / "e.md").write_text("none")
    assert text_of(corpus_of(tmp_path)) == ["some text", "more text"]
    assert text_of(corpus_of(tmp_path / "c.TXT")) == ["some text"]
    (tmp_path / "a.JSONL").write_text('{"text": "one"}')
    assert text_of(corpus_of(tmp_path / "a.JSONL")) == ["one"]
    one = corpus_of(tmp_path)
    (tmp_path / "c.TXT").write_text("other text")
    assert corpus_of(tmp_path) is not one


def test_a_single_window_is_one(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("abcdefgh" * 2)
    with pytest.raises(CapaxError, match=r"^library_size: .* has 1 different window of 8 tokens, got 5$"):
        spec(path, tokenization="bytes", seq_len=8, library_size=5)


def test_byte_pairs_without_their_package_are_refused_and_bytes_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    books = folder(tmp_path)
    with pytest.raises(CapaxError, match=r"^tokenizers: is not installed; pip install 'capax\[facts\]'"):
        spec(books)
    assert spec(books, tokenization="bytes").vocab_size == 256


def test_what_a_folder_has_beside_texts_is_said(tmp_path: Path) -> None:
    books = folder(tmp_path)
    task = spec(books)
    assert not any("not read" in note for note in TextLibrary.remarks(task, 10, None)[1])
    (books / "more").mkdir()
    (books / "more" / "below.txt").write_text("below")
    (books / "notes.md").write_text("beside")
    (books / ".hidden").write_text("hidden")
    notes = TextLibrary.remarks(spec(books), 10, None)[1]
    assert f"2 more in {books.name} not read: texts are the .txt files in it" in notes


def test_a_folder_without_texts_and_a_pipe_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match=r"has no .txt files"):
        spec(tmp_path)
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(LibraryError, match="is not a regular file"):
        spec(tmp_path)


def test_a_line_of_json_that_has_no_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "LONGEST_LINE", 100)
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "a" * 80}) + "\n" + json.dumps({"text": "a" * 200}))
    with pytest.raises(LibraryError, match="line 2: longer than 100 bytes"):
        spec(path)
