"""The probes of a trained memory against plain loops, enumeration and known truths."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binomtest

import capax
from capax.errors import SpecError
from capax.figures.drawing import draw
from capax.figures.probes import probes
from capax.memory import Memory
from capax.models.transformer import TransformerEnsemble
from capax.probes.ablation import without_head
from capax.probes.basin import BasinPoint, corrupt, radius
from capax.probes.probe import Probes
from capax.probes.shares import Share, share, spread
from capax.probes.symmetry import degree_of_symmetry, drawn_again, scoring, symmetry_probe
from capax.seeds import torch_generator
from capax.tasks.sequences import reachable_items, recallable_from

TRIALS = 2000
MODEL = capax.Transformer(n_layers=2, n_heads=2, d_model=12, d_head=4)
SMALL = MODEL.replace(n_layers=1)


def kept(folder: Path, task: capax.Sequences, model: capax.Transformer = MODEL, **training: float) -> Memory:
    store = folder / "s.db"
    run = capax.measure(task, model, capax.Training(**training), restarts=2, store=store, keep_weights=True)
    memory = capax.load(run.key, store)
    assert isinstance(memory, Memory)
    return memory


@pytest.fixture(scope="module")
def memory(torch_on_one_thread: object, tmp_path_factory: pytest.TempPathFactory) -> Memory:
    """A memory that recalls the last token of some items, and the whole rest of others."""
    task = capax.Sequences(seq_len=5, vocab_size=6, library_size=40)
    return kept(tmp_path_factory.mktemp("probes"), task, max_epochs=30, lr=0.01)


@pytest.fixture(scope="module")
def whole(torch_on_one_thread: object, tmp_path_factory: pytest.TempPathFactory) -> Memory:
    """A memory that recalls every token of every item."""
    task = capax.Sequences(seq_len=4, vocab_size=40, library_size=12, recall="all")
    memory = kept(tmp_path_factory.mktemp("probes"), task, SMALL, max_epochs=400, lr=0.02)
    assert memory.run.recallable == memory.run.memorized
    return memory


@pytest.fixture(scope="module")
def found(memory: Memory) -> Probes:
    return capax.probe(memory, trials=TRIALS, seed=1)


@pytest.mark.slow
def test_cues_say_what_the_measurement_counted(memory: Memory, found: Probes) -> None:
    cue = found.cue
    rates = [point.recalled.recalled for point in cue.points]
    assert rates == sorted(rates)
    assert rates[-1] == cue.recalled == found.recalled == memory.run.memorized
    assert 0 < rates[0] < rates[-1] < 40
    assert [point.length for point in cue.points] == [1, 2, 3, 4]
    assert [point.share for point in cue.points] == [0.2, 0.4, 0.6, 0.8]
    assert all(point.recalled.recalled <= point.possible for point in cue.points)
    assert [point.chance for point in cue.points] == [pytest.approx(6**-length) for length in (4, 3, 2, 1)]
    for point in cue.points:
        assert sum(m is not None and m <= point.length for m in cue.minimum) == point.recalled.recalled
        assert (point.error == 0) == (point.recalled.rate == 1)
        assert point.error < 1 - point.recalled.rate + 1e-9  # of a recalled item no token is wrong
    assert cue.median == np.median([m for m in cue.minimum if m is not None])
    assert cue.median_share == cue.median / 5
    assert cue.points[-1].error == pytest.approx(1 - cue.points[-1].recalled.rate)


@pytest.mark.slow
def test_the_shortest_cue_counts_as_recall_of_all_tokens_does(whole: Memory) -> None:
    cue = capax.probe(whole, trials=1).cue
    assert cue.points[0].recalled.recalled == whole.run.memorized == cue.points[0].possible
    assert len(cue.minimum) == 12


@pytest.mark.slow
def test_no_corruption_changes_nothing(found: Probes, whole: Memory) -> None:
    assert found.basin.points[0].last.rate == 1
    assert found.basin.points[0].whole is None
    first = capax.probe(whole, trials=50).basin.points[0]
    assert first.last.rate == 1
    assert first.whole is not None
    assert first.whole.rate == 1


def recalls(memory: Memory, prefixes: list[np.ndarray], items: list[np.ndarray]) -> list[bool]:
    """Whether each prefix is followed by its item's last token: from the scores of every position, not of the last."""
    with torch.no_grad():
        scores = memory.model.logits(torch.tensor(np.array(prefixes))[None], "all")
    return (scores[0, :, -1].argmax(-1).numpy() == np.array(items)[:, -1]).tolist()


def known_items(memory: Memory) -> list[np.ndarray]:
    items = list(memory.library)
    return [item for item, right in zip(items, recalls(memory, [i[:-1] for i in items], items), strict=True) if right]


@pytest.mark.slow
def test_one_corrupted_token_against_all_that_there_are(memory: Memory, found: Probes) -> None:
    known = known_items(memory)
    assert len(known) == found.basin.items == found.ablation.items
    shares = []
    for position in range(4):
        prefixes, items = [], []
        for item, token in itertools.product(known, range(6)):
            if token != item[position]:
                prefix = item[:-1].copy()
                prefix[position] = token
                prefixes.append(prefix)
                items.append(item)
        shares.append(np.mean(recalls(memory, prefixes, items)))
        kept = found.ablation.positions[position].kept
        deviation = math.sqrt(shares[-1] * (1 - shares[-1]) / TRIALS)
        assert abs(kept.rate - shares[-1]) < 4 * deviation
        assert kept.low < shares[-1] < kept.high
        assert (kept.trials, kept.items) == (TRIALS, len(known))
    assert max(shares) - min(shares) > 0.05  # else positions could be mixed up unseen
    one = found.basin.points[1].last
    assert one.low < np.mean(shares) < one.high


@pytest.mark.slow
def test_every_token_counts_where_recall_says_so(whole: Memory) -> None:
    points = capax.probe(whole, trials=300).basin.points
    assert capax.probe(whole, trials=1).basin.items == whole.run.memorized <= len(known_items(whole))
    for point in points:
        assert point.whole is not None
        assert point.whole.recalled <= point.last.recalled
    assert points[-1].whole is not None
    assert points[-1].whole.recalled < points[0].last.recalled


def test_heads_removed(memory: Memory, found: Probes) -> None:
    known = known_items(memory)
    assert [(one.layer, one.head) for one in found.ablation.heads] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    for one in found.ablation.heads:
        less = Memory(memory.run, without_head(memory.model, one.layer - 1, one.head - 1), memory.library)
        assert one.kept.recalled == sum(recalls(less, [item[:-1] for item in known], known))
        assert one.kept.trials == one.kept.items == len(known)


@pytest.mark.slow
def test_same_seed_same_probes(memory: Memory, found: Probes) -> None:
    assert capax.probe(memory, trials=TRIALS, seed=1) == found
    assert capax.probe(memory, trials=TRIALS, seed=2).basin != found.basin
    assert Probes.model_validate_json(found.model_dump_json()) == found


def test_what_cannot_be_probed(memory: Memory) -> None:
    for trials in (0, -5, 10**7):
        with pytest.raises(SpecError, match=rf"trials: .*1000000, got {trials}"):
            capax.probe(memory, trials=trials)
    with pytest.raises(SpecError, match=r"seed: .*-1"):
        capax.probe(memory, seed=-1)


@pytest.mark.slow
def test_nothing_recalled_and_a_loss_on_the_last_token(tmp_path: Path) -> None:
    task = capax.Sequences(seq_len=3, vocab_size=500, library_size=4, loss="last")
    memory = kept(tmp_path, task, MODEL.replace(norms=False), max_epochs=1)
    nothing = capax.probe(memory, trials=5)
    assert nothing.recalled == nothing.cue.recalled == 0
    assert nothing.cue.minimum == (None,) * 4
    assert nothing.cue.median is nothing.cue.median_share is nothing.basin.radius is None
    assert nothing.basin.points == nothing.ablation.heads == nothing.ablation.positions == ()
    assert {head.with_gains for head in nothing.symmetry.heads} == {None}
    assert any("last token alone" in note for note in nothing.notes)
    assert any("nothing to corrupt" in note for note in nothing.notes)
    picture = tmp_path / "f.png"
    draw(probes(nothing), picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.parametrize("seq_len", [2, 4])
def test_contradictory_items_of_a_file(tmp_path: Path, seq_len: int) -> None:
    np.save(tmp_path / "l.npy", np.array([[0, 1, 1, 0], [0, 1, 1, 1], [1, 0, 0, 1], [1, 0, 0, 1]])[:, -seq_len:])
    task = capax.Sequences(library=str(tmp_path / "l.npy"), seq_len=seq_len, vocab_size=2, duplicates="keep")
    found = capax.probe(kept(tmp_path, task, SMALL, max_epochs=30, lr=0.05), trials=20)
    assert found.cue.points[-1].possible == found.cue.items - 1 or seq_len == 2
    assert found.cue.points[-1].recalled.recalled == found.recalled <= found.cue.points[-1].possible
    assert any("a guess is right half of the time" in note for note in found.notes)
    assert any("other items' own" in note for note in found.notes)


# symmetry


def square(bound: float = 10) -> st.SearchStrategy[np.ndarray]:
    entries = st.floats(-bound, bound, allow_subnormal=False).map(lambda x: round(x, 3))
    return st.integers(1, 5).flatmap(lambda c: arrays(float, (c, c), elements=entries)).filter(np.any)


def eta(matrix: np.ndarray) -> float:
    return float(degree_of_symmetry(torch.from_numpy(matrix.copy())))


@settings(derandomize=True, deadline=None, max_examples=30)
@given(square(), st.integers(0, 10**6))
def test_degree_of_symmetry(matrix: np.ndarray, seed: int) -> None:
    value, c = eta(matrix), len(matrix)
    above = sum(matrix[i, j] * matrix[j, i] for i in range(c) for j in range(c))
    assert value == pytest.approx(above / sum(matrix[i, j] ** 2 for i in range(c) for j in range(c)))
    assert -1 - 1e-12 <= value <= 1 + 1e-12
    turn, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((c, c)))
    for same in (matrix.T, -3 * matrix, turn @ matrix @ turn.T):
        assert eta(same) == pytest.approx(value, abs=1e-9)
    for part, known in ((matrix + matrix.T, 1), (matrix - matrix.T, -1)):
        if part.any():
            assert eta(part) == pytest.approx(known)


def test_random_matrices_are_as_symmetric_as_is_said() -> None:
    generator = np.random.default_rng(0)
    for c, d, draws in ((8, 2, 2000), (8, 64, 2000), (32, 4, 1000)):
        query, key = generator.uniform(-1, 1, (2, draws, c, d))
        values = degree_of_symmetry(torch.from_numpy(query @ key.transpose(0, 2, 1))).numpy()
        assert abs(values.mean() - 1 / c) < 4 * values.std() / math.sqrt(draws)
        assert values.std() == pytest.approx(math.sqrt(2) / c, rel=0.2)


def test_symmetry_of_each_head(memory: Memory, found: Probes) -> None:
    assert (found.symmetry.random, found.symmetry.random_deviation) == (1 / 12, pytest.approx(math.sqrt(2) / 12))
    for head in found.symmetry.heads:
        at = f"layers.{head.layer - 1}."
        query, key = (memory.model.parameters[at + name][0, head.head - 1].double() for name in ("query", "key"))
        gain = torch.diag(memory.model.parameters[at + "norm"][0].double())
        plain = query @ key.T
        assert head.eta == pytest.approx(eta(plain.numpy()))
        assert head.with_gains == pytest.approx(eta((gain @ plain @ gain).numpy()))
        assert head.with_gains != pytest.approx(head.eta, rel=1e-6)


@pytest.mark.parametrize(("ffn", "last"), [("mlp", "ffn_norm"), ("none", "norm")])
def test_the_gain_is_that_of_the_norm_before(ffn: Any, last: str) -> None:
    """Where norms come after, the first layer has none before it, and the second that of the first."""
    spec = capax.Transformer(n_layers=2, n_heads=2, d_model=6, d_head=3, ffn=ffn, norm_place="post")
    model = TransformerEnsemble.initialize(
        spec, {"vocab_size": 3, "context": 2}, generators=[torch_generator(1, "weights", 0)]
    )
    with torch.no_grad():
        for name, tensor in model.parameters.items():
            if name.endswith("norm"):
                tensor.copy_(torch.arange(1.0, 1.0 + tensor.numel()).view_as(tensor) + len(name))
    heads = symmetry_probe(model, None).heads
    assert [head.with_gains for head in heads[:2]] == [None, None]
    gain = torch.diag(model.parameters[f"layers.0.{last}"][0].detach().double())
    for head in heads[2:]:
        query, key = (
            model.parameters[f"layers.1.{one}"][0, head.head - 1].detach().double() for one in ("query", "key")
        )
        assert head.with_gains == pytest.approx(eta((gain @ query @ key.T @ gain).numpy()))


@pytest.mark.slow
def test_the_start_is_that_of_the_restart_that_was_kept(tmp_path: Path) -> None:
    """Weights that hardly moved are those that the run began with."""
    task = capax.Sequences(seq_len=3, vocab_size=3, library_size=9)
    memory = None
    for seed in range(20):  # until luck lets another restart than the first recall most
        run = capax.measure(
            task, MODEL, capax.Training(max_epochs=1, lr=1e-9), seed=seed, store=tmp_path / "s.db", keep_weights=True
        )
        if run.memorized_per_restart.index(run.memorized) > 0:
            memory = capax.load(run.key, tmp_path / "s.db")
            break
    assert isinstance(memory, Memory)
    initial = drawn_again(memory.run, memory.model)
    assert initial is not None
    for name, tensor in memory.model.parameters.items():
        torch.testing.assert_close(initial.parameters[name].detach(), tensor, rtol=0, atol=1e-6)
    for head in capax.probe(memory, trials=1).symmetry.heads:
        assert head.eta == pytest.approx(head.initial, abs=1e-5)


@pytest.mark.slow
def test_a_start_that_cannot_be_drawn_again_is_not_made_up(memory: Memory) -> None:
    other = TransformerEnsemble(
        memory.model.spec, memory.model.parameters | {"token": memory.model.parameters["token"] + 1}
    )
    found = capax.probe(Memory(memory.run, other, memory.library), trials=1)
    assert {head.initial for head in found.symmetry.heads} == {None}
    assert any("cannot be drawn again" in note for note in found.notes)


@pytest.mark.slow
def test_a_head_of_zeros_has_no_degree(memory: Memory) -> None:
    name = "layers.0.key"
    other = TransformerEnsemble(
        memory.model.spec, memory.model.parameters | {name: torch.zeros_like(memory.model.parameters[name])}
    )
    assert not scoring(other, 0).any()
    heads = capax.probe(Memory(memory.run, other, memory.library), trials=1).symmetry.heads
    assert [head.eta is None for head in heads] == [True, True, False, False]


# intervals, trials, cues


@settings(derandomize=True, deadline=None, max_examples=25)
@given(arrays(bool, st.integers(1, 40)))
def test_one_trial_an_item_is_wilsons(hits: np.ndarray) -> None:
    known = binomtest(int(hits.sum()), len(hits)).proportion_ci(0.95, method="wilson")
    found = share(hits)
    assert (found.low, found.high) == (pytest.approx(known.low, abs=1e-12), pytest.approx(known.high, abs=1e-12))
    assert (found.recalled, found.trials, found.items) == (hits.sum(), len(hits), len(hits))


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=1, max_size=60))
def test_intervals_hold_the_share(trials: list[tuple[bool, int]]) -> None:
    hits, item = (np.array(column) for column in zip(*trials, strict=True))
    found = share(hits, item)
    assert 0 <= found.low <= found.rate <= found.high <= 1
    assert found.items == len(set(item.tolist()))
    assert found.high - found.low >= share(hits).high - share(hits).low - 1e-12  # never surer than independent trials


def test_items_repeated_tell_no_more_than_once() -> None:
    hits = np.arange(30) % 3 == 0
    once, often = share(hits), share(np.tile(hits, 50), np.tile(np.arange(30), 50))
    assert often.trials == 1500
    assert once.low - 0.02 < often.low < once.low
    assert once.high < often.high < once.high + 0.02
    none = share(np.zeros(1500, dtype=bool), np.tile(np.arange(30), 50))
    assert share(hits & False).high < none.high < share(hits & False).high + 0.02
    few = share(np.arange(1500) < 3, np.tile(np.arange(30), 50))
    assert abs(few.high - none.high) < 0.02  # no cliff where the spread vanishes
    alone = share(np.zeros(1500, dtype=bool), np.zeros(1500))
    assert alone.high > 0.8


@pytest.mark.parametrize(
    ("items", "trials", "level"), [(200, 100, 0.5), (30, 200, 0.2), (12, 100, 0.5), (60, 500, 0.8), (25, 500, 0.04)]
)
def test_intervals_cover_the_share_of_all_items(items: int, trials: int, level: float) -> None:
    """Items differ in how often they are recalled; the interval is of the mean over all such items."""
    generator, covered, repeats = np.random.default_rng(items), 0, 300
    for _ in range(repeats):
        item = spread(items, trials, generator)
        easy = generator.beta(2 * level, 2 * (1 - level), items)
        found = share(generator.random(trials) < easy[item], item)
        covered += found.low <= level <= found.high
    assert covered / repeats > 0.95 - 3 * math.sqrt(0.95 * 0.05 / repeats)


def test_trials_are_spread_evenly() -> None:
    counts = np.bincount(spread(7, 24, np.random.default_rng(0)))
    assert sorted(counts) == [3, 3, 3, 3, 4, 4, 4]
    assert len(set(spread(7, 5, np.random.default_rng(0)))) == 5


def test_corrupted_tokens_are_others_and_uniform() -> None:
    generator = np.random.default_rng(0)
    prefixes = generator.integers(4, size=(6000, 3))
    places = generator.permuted(np.tile(np.arange(3) < 2, (6000, 1)), axis=1)
    changed = corrupt(prefixes, places, 4, generator)
    assert ((changed != prefixes) == places).all()
    counts = np.bincount((changed - prefixes)[places] % 4, minlength=4)
    assert counts[0] == 0
    assert np.abs(counts[1:] - 4000).max() < 4 * math.sqrt(12000 * 2 / 9)
    assert set(np.unique(changed)) == {0, 1, 2, 3}


def test_radius() -> None:
    def points(*rates: float) -> list[BasinPoint]:
        return [
            BasinPoint(
                corrupted=count,
                last=Share(recalled=0, trials=1, items=1, rate=rate, low=0, high=1),
                whole=None,
                other_item=0,
            )
            for count, rate in enumerate(rates)
        ]

    assert radius(points(1, 0.9, 0.5, 0.4)) == 2
    assert radius(points(1, 0.4, 0.6)) == 0
    assert radius(points(1, 0.8)) == 1
    assert radius([]) is None


@settings(derandomize=True, deadline=None, max_examples=30)
@given(arrays(np.int64, st.tuples(st.integers(1, 12), st.integers(2, 4)), elements=st.integers(0, 2)))
def test_what_any_predictor_could_recall_from_a_cue(items: np.ndarray) -> None:
    rows, seq_len = [tuple(row) for row in items.tolist()], items.shape[1]
    expected = []
    for length in range(1, seq_len):
        groups: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for row in rows:
            groups.setdefault(row[:length], []).append(row)
        expected.append(sum(max(map(group.count, group)) for group in groups.values()))
    assert recallable_from(items, range(1, seq_len)) == expected
    assert (reachable_items(items, "all"), reachable_items(items)) == (expected[0], expected[-1])


@pytest.mark.slow
def test_the_figure(found: Probes, tmp_path: Path) -> None:
    chart = probes(found)
    draw(chart, tmp_path / "f.svg")
    assert (tmp_path / "f.svg").read_text().startswith("<?xml")
    shown = {panel.title: {series.name: series for series in panel.series} for panel in chart.panels}
    assert shown["cue"]["whole rest right"].y == tuple(point.recalled.rate for point in found.cue.points)
    assert shown["corruption"]["last token right"].x == tuple(point.corrupted for point in found.basin.points)
    assert shown["one token replaced"]["still recalled"].low == tuple(one.kept.low for one in found.ablation.positions)
    assert shown["symmetry of W_Q W_Kᵀ"]["trained"].y == tuple(head.eta for head in found.symmetry.heads)
    assert found.gradient_noise is not None
    assert found.gradient_noise.initial is not None
    states = (found.gradient_noise.initial.scale, found.gradient_noise.trained.scale)
    assert shown["gradient noise"]["noise scale"].y == states


def test_the_start_drawn_again_is_that_of_the_restart_whose_weights_are_kept(tmp_path: Path) -> None:
    """By protocol `capacity` that is the one with the most bits, which may recall fewer items than another."""
    task = capax.Sequences(seq_len=4, vocab_size=8, library_size=60)
    training = capax.Training(cycle_steps=8, max_steps=24)
    run = capax.measure(task, SMALL, training, protocol="capacity", store=tmp_path / "s.db", keep_weights=True)
    memory = capax.load(run.key, tmp_path / "s.db")
    order = np.argsort([max(end.bits for end in member.cycles) for member in run.members])
    members = list(run.members)
    for memorized, place in enumerate(order[::-1]):
        members[place] = members[place].model_copy(update={"memorized": memorized})
    assert drawn_again(run.model_copy(update={"members": tuple(members)}), memory.model) is not None
    counted = run.model_copy(update={"members": tuple(members), "capacity": None})
    assert drawn_again(counted, memory.model) is None
