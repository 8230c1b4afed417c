"""How libraries are drawn, and what counts as recalled: against plain loops and exact distributions."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from capax.specs import Sequences
from capax.tasks.sequences import SequenceLibrary, draw, reachable_items


def rows_of(array: np.ndarray) -> list[tuple[int, ...]]:
    return [tuple(row) for row in array.tolist()]


def drawn(spec: Sequences, seed: int = 0) -> np.ndarray:
    return draw(spec, spec.library_size, np.random.default_rng(seed))


# drawing


@settings(derandomize=True, max_examples=60, deadline=None)
@given(vocab_size=st.integers(2, 5), seq_len=st.integers(2, 5), share=st.floats(0, 1), seed=st.integers(0, 10**6))
def test_prefixes_are_distinct_and_tokens_of_the_vocabulary(
    vocab_size: int, seq_len: int, share: float, seed: int
) -> None:
    size = max(1, round(share * vocab_size ** (seq_len - 1)))
    sequences = drawn(Sequences(vocab_size=vocab_size, seq_len=seq_len, library_size=size), seed)
    assert sequences.shape == (size, seq_len)
    assert sequences.dtype == np.int64
    assert sequences.min() >= 0
    assert sequences.max() < vocab_size
    assert len(set(rows_of(sequences[:, :-1]))) == size


def test_distinct_where_prefixes_far_outnumber_items_and_still_repeat_at_first() -> None:
    spec = Sequences(vocab_size=60, seq_len=4, library_size=40_000)  # thousands of repeats among the first draws
    assert len(set(rows_of(drawn(spec)[:, :-1]))) == 40_000


def test_every_prefix_is_used_where_all_are_asked_for() -> None:
    sequences = drawn(Sequences(vocab_size=3, seq_len=5, library_size=81))
    assert sorted(rows_of(sequences[:, :-1])) == list(itertools.product(range(3), repeat=4))
    assert rows_of(sequences[:, :-1]) != list(itertools.product(range(3), repeat=4))


@pytest.mark.parametrize(("vocab_size", "seq_len"), [(2, 2), (3, 4), (10, 3)])
def test_library_all_holds_each_prefix_once(vocab_size: int, seq_len: int) -> None:
    spec = Sequences(vocab_size=vocab_size, seq_len=seq_len, library="all")
    assert spec.library_size == vocab_size ** (seq_len - 1)
    one, other = drawn(spec, 0), drawn(spec, 1)
    assert rows_of(one[:, :-1]) == list(itertools.product(range(vocab_size), repeat=seq_len - 1))
    assert np.array_equal(one[:, :-1], other[:, :-1])
    assert one.max() < vocab_size
    assert spec.library_size < 10 or not np.array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4, 8, 9], ids="{} of 9 prefixes".format)
def test_ordered_pairs_of_prefixes_are_uniform(size: int) -> None:
    """The first and the last prefix of a library: 72 ordered pairs, each as likely (a few prefixes are redrawn)."""
    spec = Sequences(vocab_size=3, seq_len=3, library_size=size)
    generator = np.random.default_rng(size)
    pairs: Counter[tuple[int, int]] = Counter()
    for _ in range(3_600):
        first, last = draw(spec, size, generator)[[0, -1], :-1] @ [3, 1]
        pairs[int(first), int(last)] += 1
    assert len(pairs) == 72
    assert all(first != last for first, last in pairs)
    assert stats.chisquare(list(pairs.values())).pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 12])
def test_sets_of_prefixes_are_uniform(size: int) -> None:
    """Few of the 16 prefixes (drawn again where they repeat) and most of them: every single one and pair as often."""
    spec = Sequences(vocab_size=4, seq_len=3, library_size=size)
    generator = np.random.default_rng(size)
    together = np.zeros((16, 16))
    libraries = 2_000
    for _ in range(libraries):
        used = draw(spec, size, generator)[:, :-1] @ [4, 1]
        together[np.ix_(used, used)] += 1
    expected = size * (size - 1) / (16 * 15)
    pairs = together[np.triu_indices(16, 1)]
    deviation = math.sqrt(expected * (1 - expected) / libraries)
    assert np.abs(pairs / libraries - expected).max() < 4.5 * deviation
    assert np.abs(np.diag(together) / libraries - size / 16).max() < 4.5 * math.sqrt(0.25 / libraries)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["random", "all"])
def test_targets_are_uniform_whatever_the_prefix(library: str) -> None:
    spec = Sequences(vocab_size=4, seq_len=2, library=library, library_size=4)
    generator = np.random.default_rng(0)
    table = np.zeros((4, 4))
    for _ in range(2_000):
        for prefix, target in draw(spec, 4, generator):
            table[prefix, target] += 1
    assert stats.chisquare(table.ravel()).pvalue > 1e-3


def test_tokens_are_uniform_at_every_position() -> None:
    sequences = drawn(Sequences(vocab_size=7, seq_len=5, library_size=7 * 300))
    for position in range(5):
        assert stats.chisquare(np.bincount(sequences[:, position], minlength=7)).pvalue > 1e-3


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(0, 1)] * 2, st.integers(0, 2)), min_size=1, max_size=10),
)
def test_reachable_items_is_what_the_best_predictor_recalls(items: list[tuple[int, int, int]]) -> None:
    prefixes = sorted({item[:2] for item in items})
    best = max(
        sum(dict(zip(prefixes, answers, strict=True))[item[:2]] == item[2] for item in items)
        for answers in itertools.product(range(3), repeat=len(prefixes))
    )
    assert reachable_items(np.array(items)) == best


# libraries of an ensemble


def built(spec: Sequences, sizes: tuple[int, ...], seeds: list[int], padded_to: int) -> SequenceLibrary:
    return SequenceLibrary.build(
        spec, None, sizes, [np.random.default_rng(seed) for seed in seeds], padded_to=padded_to
    )


SPEC = Sequences(vocab_size=6, seq_len=4, library_size=20)


def test_each_member_has_its_own_library_padded_to_one_size() -> None:
    library = built(SPEC, (5, 8, 3), seeds=[0, 1, 2], padded_to=9)
    assert library.tokens.shape == (3, 9, 4)
    for member, size in enumerate(library.sizes):
        expected = draw(SPEC, size, np.random.default_rng(member))
        assert np.array_equal(library.tokens[member, :size].numpy(), expected)
        assert (library.tokens[member, size:] == 0).all()


def test_one_generator_means_one_library_for_all_members() -> None:
    library = built(SPEC, (7, 7, 7), seeds=[4], padded_to=7)
    assert library.tokens.shape == (1, 7, 4)
    rows = torch.tensor([[0, 3], [6, 6], [2, 1]])
    assert torch.equal(library.batch(rows), library.tokens[0][rows])


def test_a_batch_takes_each_members_own_items() -> None:
    library = built(SPEC, (5, 8, 3), seeds=[0, 1, 2], padded_to=8)
    rows = torch.tensor([[0, 4, 4], [7, 1, 0], [2, 0, 1]])
    expected = torch.stack([library.tokens[member][rows[member]] for member in range(3)])
    assert torch.equal(library.batch(rows), expected)


def test_selected_members_keep_their_libraries() -> None:
    own, common = built(SPEC, (5, 8, 3), [0, 1, 2], 8), built(SPEC, (7, 7, 7), [0], 7)
    rows = torch.tensor([[0, 2], [1, 0]])
    chosen = own.select([2, 0])
    assert chosen.sizes == (3, 5)
    assert torch.equal(chosen.batch(rows), torch.stack([own.tokens[2][rows[0]], own.tokens[0][rows[1]]]))
    chosen = common.select([2, 0])
    assert chosen.sizes == (7, 7)
    assert torch.equal(chosen.batch(rows), common.tokens[0][rows])


@pytest.mark.parametrize("recall", ["last", "all"])
@pytest.mark.parametrize("seeds", [[0, 1], [0]])
def test_targets_are_the_tokens_to_predict_without_padding(recall: str, seeds: list[int]) -> None:
    library = built(SPEC.replace(recall=recall), (4, 4), seeds, padded_to=9)
    for member in range(2):
        items = library.tokens[member % len(seeds), :4].tolist()
        expected = {token for item in items for token in (item[1:] if recall == "all" else item[-1:])}
        assert sorted(library.targets(member)) == sorted(expected)


@pytest.mark.parametrize("positions", [1, 3], ids=["last", "all"])
def test_losses_and_recall_are_those_of_plain_loops(positions: int) -> None:
    members, items, vocab_size = 3, 5, 6
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(members, items, positions, vocab_size, generator=generator, dtype=torch.float64)
    batch = torch.randint(vocab_size, (members, items, 4), generator=generator)
    right = torch.rand(members, items, generator=generator) < 0.5  # make some items recalled whole
    logits[right] += 9 * torch.nn.functional.one_hot(batch[:, :, -positions:], vocab_size)[right]
    logits[0, 0, 0, batch[0, 0, -positions]] = -9  # and one wrong at its first scored position
    sizes = (5, 3, 1)
    weight = torch.tensor([[1 / size] * size + [0.0] * (items - size) for size in sizes], dtype=torch.float64)
    library = SequenceLibrary(SPEC, batch, sizes)
    losses, recalled = library.losses(logits, batch, weight), library.recalled(logits, batch)
    assert losses.shape == (members,)
    assert recalled.dtype == torch.bool
    for member, size in enumerate(sizes):
        mean = 0.0
        for item in range(items):
            nats, whole = 0.0, True
            for position in range(positions):
                scores = logits[member, item, position].tolist()
                target = int(batch[member, item, 4 - positions + position])
                nats += math.log(sum(math.exp(score) for score in scores)) - scores[target]
                whole = whole and max(range(vocab_size), key=scores.__getitem__) == target
            assert bool(recalled[member, item]) == whole
            mean += nats / positions / size if item < size else 0.0
        assert losses[member].item() == pytest.approx(mean, rel=1e-12)
    assert recalled.any()
    assert not recalled.all()


def test_padding_has_no_gradient() -> None:
    logits = torch.randn(1, 3, 1, 6, generator=torch.Generator().manual_seed(0)).requires_grad_()
    library = built(SPEC, (3,), [0], 3)
    library.losses(logits, library.tokens, torch.tensor([[0.5, 0.5, 0.0]])).sum().backward()
    assert logits.grad is not None
    assert (logits.grad[0, :2] != 0).all()
    assert (logits.grad[0, 2] == 0).all()


def test_uniform_loss_is_what_equal_logits_cost() -> None:
    library = built(SPEC, (5,), [0], 5)
    loss = library.losses(torch.zeros(1, 5, 3, 6), library.tokens, torch.full((1, 5), 0.2))
    assert loss.item() == pytest.approx(library.uniform_loss)
    assert library.uniform_loss == pytest.approx(math.log(6))
