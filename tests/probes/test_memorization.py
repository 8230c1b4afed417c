"""What a kept model remembers of a text, against plain computations."""

from __future__ import annotations

import lzma
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import scipy
import torch
from made_text import folder

import capax
from capax.errors import CapaxError, StoreError
from capax.probes.memorization import Memorization, coded, membership
from capax.tasks.text import control
from capax.tasks.text_windows import halves

pytestmark = pytest.mark.slow

MODEL = capax.Transformer(n_heads=2, d_model=32, d_head=16, embeddings="trained", readout="tied")
LONG, SHORT = capax.Training(max_epochs=60), capax.Training(max_epochs=2)


@dataclass(frozen=True)
class Kept:
    store: Path
    books: Path
    keys: dict[str, str]

    def of(self, name: str, reference: str | None = None) -> Memorization:
        """The memorization of a run by its name, against another's."""
        other = None if reference is None else self.keys[reference]
        return capax.memorization(self.keys[name], other, store=self.store)


@pytest.fixture(scope="module")
def kept(torch_on_one_thread: object, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A run on each half, and others that cannot be references."""
    home = tmp_path_factory.mktemp("memorization")
    store, books = home / "s.db", folder(home / "books")
    text = capax.Text(library=str(books), bpe_size=300, seq_len=8, library_size=40)
    other = folder(home / "others")
    (other / "genesis-8.txt").write_text("And God remembered Noah, and every living thing. " * 3)
    runs = {
        "first": (text, LONG),
        "second": (text.replace(half="second"), LONG),
        "untrained": (text, SHORT),
        "all": (capax.Text(library=str(books), bpe_size=300, seq_len=8, half="second"), capax.Training(max_epochs=10)),
        "wider": (text.replace(half="second"), SHORT),
        "longer": (text.replace(half="second", seq_len=16), SHORT),
        "bytes": (text.replace(half="second", tokenization="bytes", bpe_size=1000), SHORT),
        "pairs": (text.replace(half="second", bpe_size=280), SHORT),
        "others": (text.replace(half="second", library=str(other)), SHORT),
        "sequences": (capax.Sequences(seq_len=4, vocab_size=5, library_size=9), SHORT),
        "weightless": (text.replace(half="second", library_size=10), SHORT),
    }
    keys = {
        name: capax.measure(
            task,
            MODEL.replace(d_model=40) if name == "wider" else MODEL,
            training,
            restarts=1,
            device="cpu",
            store=store,
            keep_weights=name != "weightless",
        ).key
        for name, (task, training) in runs.items()
    }
    return Kept(store, books, keys)


def plain(logits: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Code lengths in bits, one number at a time."""
    found = np.zeros(len(tokens))
    for row in range(len(tokens)):
        for place in range(tokens.shape[1]):
            scores = [float(score) for score in logits[row, place]]
            largest = max(scores)
            total = math.fsum(math.exp(score - largest) for score in scores)
            found[row] -= (scores[tokens[row, place]] - largest - math.log(total)) / math.log(2)
    return found


def test_bits_are_those_of_a_plain_computation(kept: Kept) -> None:
    found = kept.of("first", "second")
    mine, other = (capax.load(kept.keys[name], kept.store) for name in ("first", "second"))
    rows = mine.library
    assert not {row.tobytes() for row in rows} & {row.tobytes() for row in other.library}
    with torch.no_grad():
        inputs = torch.from_numpy(rows[None, :, :-1])
        ours, theirs = (plain(memory.model.logits(inputs, "all")[0].numpy(), rows[:, 1:]) for memory in (mine, other))
    against = found.against
    assert against is not None
    expected = {
        "unintended_bits": sum(max(0.0, there - here) for here, there in zip(ours, theirs, strict=True)),
        "signed_bits": math.fsum(theirs) - math.fsum(ours),
        "model_bits": math.fsum(ours),
        "reference_bits": math.fsum(theirs),
    }
    for name, value in expected.items():
        assert getattr(against, name) == pytest.approx(value, rel=1e-10), name
    assert against.windows == 40
    assert against.seen_by_both == 0
    assert against.bits_per_parameter == against.unintended_bits / found.trainable_parameters
    uniform = 8 * math.log2(300)
    assert found.information_bits == pytest.approx(sum(max(0.0, uniform - here) for here in ours), rel=1e-10)
    assert found.learned.bits_per_token == pytest.approx(ours.mean() / 8, rel=1e-10)


def test_windows_learned_are_remembered_and_those_held_out_are_not(kept: Kept) -> None:
    found = kept.of("first", "second")
    assert found.held_out is not None
    assert found.learned.recalled == found.learned.windows == 40
    assert found.held_out.recalled < 5
    assert found.significant
    assert found.against is not None
    assert found.against.unintended_bits > 40 * 8 * 3
    assert found.membership == 1
    assert found.held_out.bits_per_token > found.learned.bits_per_token + 3


def test_an_untrained_model_remembers_nothing(kept: Kept) -> None:
    found = kept.of("untrained", "second")
    assert found.learned.recalled == 0
    assert not found.significant
    assert found.against is not None
    assert found.against.unintended_bits < kept.of("first", "second").against.unintended_bits / 2  # type: ignore


def test_rates_and_intervals_are_those_of_exact_sums(kept: Kept) -> None:
    found = kept.of("first")
    assert found.held_out is not None
    for half in (found.learned, found.held_out):
        assert half.rate == half.recalled / half.windows
        n, k = half.windows, half.recalled  # Clopper and Pearson: where a tail of the binomial is 2.5 %
        if k:
            assert scipy.stats.binom.sf(k - 1, n, half.low) == pytest.approx(0.025, rel=1e-6)
        if k < n:
            assert scipy.stats.binom.cdf(k, n, half.high) == pytest.approx(0.025, rel=1e-6)
    mine, theirs = found.learned, found.held_out
    total, right = mine.windows + theirs.windows, mine.recalled + theirs.recalled
    each = scipy.stats.hypergeom(total, right, mine.windows).pmf(np.arange(mine.windows + 1))
    assert found.p_value == pytest.approx(each[each <= each[mine.recalled] * (1 + 1e-9)].sum(), rel=1e-9)


def test_a_control_has_no_window_that_is_learned(kept: Kept) -> None:
    task = capax.load(kept.keys["first"], kept.store).run.spec.task
    _, found = halves(task)
    learned = {row.tobytes() for row in found["first"].tokens}
    assert not any(row.tobytes() in learned for row in control(task))


def test_a_reference_codes_no_window_that_it_learned(tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / f"{number}.txt").write_text("in both " + f"only {number}  " * 2)
    task = capax.Text(library=str(tmp_path), tokenization="bytes", seq_len=8)
    keys = [
        capax.measure(
            task.replace(half=half),
            MODEL,
            SHORT,
            restarts=1,
            device="cpu",
            store=tmp_path / "s.db",
            keep_weights=True,
        ).key
        for half in ("first", "second")
    ]
    found = capax.memorization(*keys, store=tmp_path / "s.db")
    assert found.against is not None
    assert found.against.seen_by_both == 1
    assert found.against.windows == found.learned.windows - 1


def test_the_floor_is_what_a_compressor_adds(kept: Kept) -> None:
    found = kept.of("first").floor
    memory = capax.load(kept.keys["first"], kept.store)
    corpus, windows = halves(memory.run.spec.task)
    known = b"".join(corpus.tokenizer.encoded(row) for row in windows["second"].tokens)
    text = b"".join(corpus.tokenizer.encoded(row[1:]) for row in memory.library)
    assert (found.held_out_bytes, found.text_bytes) == (len(known), len(text))
    alone = 8 * len(lzma.compress(text, lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2, "preset": 9}]))
    assert 0 < found.compressed_bits < alone  # the text read before helps
    assert found.shorter_by_bits == pytest.approx(found.compressed_bits - found.model_bits)
    assert found.model_bits == pytest.approx(coded(memory.model, memory.library, memory.run.spec.task)[0].sum())


def test_membership_is_a_guess_for_equal_lengths_and_sure_for_separate_ones() -> None:
    one, two = np.arange(10.0), np.arange(20.0) + 100
    assert membership(one, two) == 1
    assert membership(two, one) == 0
    assert membership(np.arange(0, 40, 2.0), np.arange(1, 41, 2.0)) == 0.5
    assert membership(one, np.zeros(0)) is None


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("first", "^reference: should have learned the other half of the documents, got the run itself$"),
        ("bytes", "^reference: should have tokenization bpe as the run has, got bytes"),
        ("pairs", "^reference: should have bpe_size 300 as the run has, got 280"),
        ("longer", "^reference: should have seq_len 8 as the run has, got 16"),
        ("others", r"^reference: should be of the same documents as the run \(.*books\), got those of .*others$"),
        ("sequences", r"^reference: should be of a run on text, run [0-9a-f]{12} learned sequences"),
        ("weightless", r"^reference: run [0-9a-f]{12} kept no weights; measure it again with keep_weights"),
    ],
)
def test_what_cannot_be_a_reference_is_refused(kept: Kept, reference: str, message: str) -> None:
    with pytest.raises(CapaxError, match=message):
        kept.of("first", reference)


def test_what_is_no_text_or_kept_nothing_is_refused(kept: Kept) -> None:
    with pytest.raises(CapaxError, match=r"^key: should be of a run on text"):
        kept.of("sequences")
    with pytest.raises(StoreError, match=r"^key: run [0-9a-f]{12} kept no weights"):
        kept.of("weightless")
    with pytest.raises(StoreError, match=r"^reference: "):
        capax.memorization(kept.keys["first"], "ffff0000", store=kept.store)
    with pytest.raises(CapaxError, match=r"^key: probes are of sequences .* learned text with one"):
        capax.probe(capax.load(kept.keys["first"], kept.store))


def test_documents_that_moved_are_found_where_they_are_said_to_be(kept: Kept, tmp_path: Path) -> None:
    whole = kept.of("first", "second")
    moved = kept.books.rename(tmp_path / "moved")
    try:
        with pytest.raises(CapaxError, match="library: no such file"):
            kept.of("first")
        keys = kept.keys["first"], kept.keys["second"]
        found = capax.memorization(*keys, store=kept.store, library=moved)
    finally:
        moved.rename(kept.books)
    assert (found.learned, found.held_out, found.against) == (whole.learned, whole.held_out, whole.against)


def test_a_reference_that_differs_is_said(kept: Kept) -> None:
    """One that knows a few windows by heart codes others worse than a guess does; one of all windows does not."""
    found = kept.of("first", "second")
    assert found.against is not None
    assert found.against.reference_bits / found.against.windows / 8 > math.log2(300)
    assert len(found.notes) == 1
    assert "worse than a uniform guess (8.23) and the compressor (" in found.notes[0]
    assert not any("uniform" in note for note in kept.of("first", "all").notes)
    assert kept.of("first", "wider").notes[0].startswith("the reference is another model")


def test_where_all_windows_are_alike_there_is_no_control(tmp_path: Path) -> None:
    """The other half then has no window that is not learned, and none is coded."""
    (tmp_path / "a.txt").write_text("a" * 100)
    text = capax.Text(library=str(tmp_path / "a.txt"), tokenization="bytes", seq_len=8)
    run = capax.measure(text, MODEL, SHORT, restarts=1, store=tmp_path / "s.db", keep_weights=True)
    found = capax.memorization(run.key, store=tmp_path / "s.db")
    assert (found.held_out, found.p_value, found.membership) == (None, None, None)
    assert any("there is no control" in note for note in found.notes)
