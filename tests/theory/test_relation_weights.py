"""Weights that recognize a graph: by brute force on small ones, and as small as our own analysis says."""

import math
from collections import Counter

import networkx as nx
import numpy as np
import pytest
import scipy.stats
from channels import built, by_loops, counts, f1_of, library, onehot

from capax.errors import CapaxError
from capax.theory.construct.channel import recognize
from capax.theory.construct.incoherence import incoherence, incoherent_split
from capax.theory.construct.quantize import quantized
from capax.theory.construct.relations import build
from capax.theory.construct.split import split_edges

KINDS = [
    {"graph": "permutation"},
    {"graph": "random", "n_edges": 60},
    {"graph": "regular", "degree": 3},
    {"graph": "power_law", "n_edges": 60},
    {"graph": "tree"},
]


@pytest.mark.parametrize("method", ["whitened", "hebbian", "onehot"])
@pytest.mark.parametrize("fields", KINDS, ids=lambda fields: fields["graph"])
def test_every_construction_by_brute_force(fields: dict[str, object], method: str) -> None:
    """Weights from their definition, scores pair by pair; enough channels that all is recognized."""
    more = {"embeddings": "onehot" if method == "onehot" else "low_coherence"}
    heads = {"n_heads": 1 if method == "onehot" else 15}
    d_head = 150 if method == "onehot" else 60
    edges, items, made = built(32, 32, 5, fields=fields | more, method=method, d_head=d_head, **heads)
    scores = by_loops(made.weights.query, made.weights.key, items)
    found = made.recognition
    hits, false, missed = counts(scores, edges, found.threshold)
    assert (found.f1, found.true_positives, found.false_positives) == (f1_of(hits, false, missed), hits, false)
    assert found.f1 > 0.97
    assert np.sort(np.concatenate(made.split)).tolist() == list(range(len(edges)))


@pytest.mark.parametrize("fields", KINDS, ids=lambda fields: fields["graph"])
def test_whitened_heads_score_their_own_edges_one(fields: dict[str, object]) -> None:
    """On Gaussian items; and a pair in one head that is no edge scores what the signatures do."""
    edges, items, made = built(40, 48, 1, fields=fields, d_head=24)
    for part, query, key in zip(made.split, made.weights.query, made.weights.key, strict=True):
        assert len(part) <= 12
        sources, targets = edges[part].T
        scores = (items[sources] @ query) @ (items[targets] @ key).T
        assert np.diag(scores) == pytest.approx(1)
        steps = scores * 24 / 2  # inner products of signs: 24, 22, ... -24
        assert steps == pytest.approx(np.round(steps), abs=1e-8)


@pytest.mark.parametrize(("m", "d_head"), [(64, 91), (128, 102), (256, 113)])
def test_one_head_is_exact_as_proved(m: int, d_head: int) -> None:
    """Hoeffding: (2/τ²)(2 ln m + ln 1/δ) channels at τ = 1/2, δ = .05."""
    assert d_head == math.ceil(8 * (2 * math.log(m) + math.log(20)))
    for seed in range(5):
        edges, items, made = onehot(m, d_head, seed)
        assert recognize(made.weights.query, made.weights.key, items, edges, threshold=0.5).f1 == 1
        assert made.recognition.margin > 0.4


MEASURED = [
    (64, 39, 11),
    (128, 54, 14),
    (256, 55, 16),
    (512, 74, 18),
    pytest.param(1024, 84, 20, marks=pytest.mark.very_slow),
]
"""Items, and channels of one head where some draws are exact and some are not: at τ = 1/2, and with any τ < 1."""


@pytest.mark.parametrize(("m", "half", "any_"), MEASURED)
def test_one_head_at_measured_sizes(m: int, half: int, any_: int) -> None:
    """Somewhat more channels are exact in most draws, somewhat fewer in few."""
    exact = {"half": 0, "half less": 0, "any": 0, "any less": 0}
    for seed in range(6):
        for name, d_head in (("half", half + 16), ("half less", half - half // 3)):
            edges, items, made = onehot(m, d_head, seed)
            weights = made.weights
            exact[name] += recognize(weights.query, weights.key, items, edges, threshold=0.5).f1 == 1
        for name, d_head in (("any", any_ + 3), ("any less", any_ - 3)):
            exact[name] += onehot(m, d_head, seed)[2].recognition.f1 == 1
    assert exact["half"] >= 3, exact
    assert exact["any"] >= 4, exact
    assert exact["half less"] <= 2, exact
    assert exact["any less"] <= 1, exact


def constant_of(m: int, d: int, seed: int = 0, **fields: object) -> float:
    made = built(m, d, seed, fields=fields)[2]
    assert made.recognition.f1 >= 0.99
    assert made.constant == pytest.approx(
        made.weights.total_key_dim * d / (sum(map(len, made.split)) * math.log2(sum(map(len, made.split))))
    )
    return made.constant


@pytest.mark.parametrize(
    ("m", "d"), [(256, 64), *(pytest.param(4 * d, d, marks=pytest.mark.very_slow) for d in (128, 256))]
)
def test_whitened_weights_are_as_small_as_measured(m: int, d: int) -> None:
    assert all(4.16 < constant_of(m, d, seed) < 6.93 for seed in range(3))


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [{"graph": "random", "n_edges": 512}, {"graph": "random", "n_edges": 1024}, {"graph": "regular", "degree": 4}],
)
def test_so_they_are_for_graphs(fields: dict[str, object]) -> None:
    assert 3.47 < constant_of(256, 128, **fields) < 6.23


@pytest.mark.parametrize(("m", "d"), [(32, 8), (64, 8), (64, 16), (128, 16), (128, 32)])
def test_few_channels_need_no_more_than_a_dimension_an_edge(m: int, d: int) -> None:
    """Heads of several edges would need more; one edge a head recognizes any graph exactly."""
    made = built(m, d)[2]
    assert (made.weights.total_key_dim, made.recognition.f1) == (m, 1)
    *others, last = made.tried
    assert (last.n_heads, last.d_head) == (m, 1)
    assert all(one.d_head is None and one.n_heads * one.limit < m for one in others)


@pytest.mark.slow
@pytest.mark.parametrize("target_f1", [0.9, pytest.param(0.99, marks=pytest.mark.very_slow), 1.0])
@pytest.mark.parametrize(
    "fields", [*KINDS, {"graph": "power_law", "n_edges": 200}, {"graph": "random", "n_edges": 869}], ids=str
)
def test_the_search_never_needs_more_than_a_dimension_an_edge(fields: dict[str, object], target_f1: float) -> None:
    for d in (3, 16):
        edges, _, made = built(30, d, fields=fields, target_f1=target_f1)
        assert made.weights.total_key_dim <= len(edges)
        assert made.recognition.f1 >= target_f1
        found = [one.n_heads * one.d_head for one in made.tried if one.d_head is not None]
        assert made.weights.total_key_dim == (found or [1])[-1] == min(found, default=1)  # none where all pairs will do


def test_stars() -> None:
    """All edges to one item share its signature; those from one share the source's, in the reversed graph."""
    _, items, generator = library(64, 32)
    into = np.stack([np.arange(1, 64), np.zeros(63, int)], axis=1)
    for edges, reverse in ((into, False), (into[:, ::-1], True)):
        made = build(edges, items, generator=generator)
        assert (made.reverse, made.recognition.f1) == (reverse, 1)
        assert made.weights.total_key_dim < 20
    assert build(into[:, ::-1], items, generator=generator, n_heads=63, d_head=1).reverse is False


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"n_heads": 20}, {"n_heads": 20, "method": "hebbian"}, {"bits": 4}, {"target_f1": 1.0}],
    ids=str,
)
def test_sources_of_many_edges_by_brute_force(options: dict[str, object]) -> None:
    """Queries and keys of the reversed graph, exchanged, recognize the graph itself."""
    items, generator = library(40, 32, 3, embeddings="low_coherence")[1:]
    others = np.arange(1, 21)
    edges = np.concatenate([np.stack([np.zeros(39, int), np.arange(1, 40)], 1), np.stack([others, others + 1], 1)])
    made = build(edges, items, generator=generator, **options)
    assert made.reverse
    scores = by_loops(made.weights.query, made.weights.key, items)
    found = made.recognition
    hits, false, missed = counts(scores, edges, found.threshold)
    assert (found.f1, found.true_positives, found.false_positives) == (f1_of(hits, false, missed), hits, false)
    assert found.f1 >= options.get("target_f1", 0.99)
    assert np.sort(np.concatenate(made.split)).tolist() == list(range(len(edges)))


@pytest.mark.slow
def test_a_graph_and_its_reverse_need_about_as_much() -> None:
    edges, items, generator = library(256, 128, graph="power_law", n_edges=512)
    usual, reverse = (build(some, items, generator=generator) for some in (edges, edges[:, ::-1]))
    assert (usual.reverse, reverse.reverse) == (False, True)
    assert 0.8 < usual.weights.total_key_dim / reverse.weights.total_key_dim < 1.25


@pytest.mark.parametrize("options", [{}, {"bits": 1}, {"method": "hebbian"}, {"n_heads": 3}], ids=str)
def test_the_complete_graph_needs_no_scores(options: dict[str, object]) -> None:
    items, generator = library(10, 4)[1:]
    every = np.argwhere(~np.eye(10, dtype=bool))
    made = build(every, items, generator=generator, **options)
    assert made.weights.total_key_dim == options.get("n_heads", 1)
    assert counts(by_loops(made.weights.query, made.weights.key, items), every, made.recognition.threshold)[0] == 90
    assert (made.recognition.f1, made.recognition.margin) == (1, None)
    assert build(every[:-3], items, generator=generator).weights.total_key_dim > 1


def test_a_graph_of_nearly_all_pairs_needs_no_scores_as_far_as_the_target_allows() -> None:
    items, generator = library(10, 4)[1:]
    edges = np.argwhere(~np.eye(10, dtype=bool))[:-1]
    made = build(edges, items, generator=generator)
    found = made.recognition
    assert counts(by_loops(made.weights.query, made.weights.key, items), edges, found.threshold) == (89, 1, 0)
    assert (made.weights.total_key_dim, found.f1) == (1, pytest.approx(178 / 179))
    assert build(edges, items, generator=generator, target_f1=1.0).weights.total_key_dim > 1


def test_one_head_is_tried_for_onehot_items() -> None:
    assert len(built(64, 64, fields={"embeddings": "onehot"})[2].split) <= 2


def test_equal_items_are_named() -> None:
    edges, items, generator = library(8, 8)
    items[1] = items[0]
    with pytest.raises(CapaxError, match=r"not reached with .* heads .* equal or opposite"):
        build(edges, items, generator=generator)


@pytest.mark.very_slow
def test_hubs_cost_heads_unless_a_target_may_recur() -> None:
    edges, items, generator = library(256, 128, 1, graph="power_law", n_edges=2048)
    in_degree = np.bincount(edges[:, 1]).max()
    single = build(edges, items, generator=generator, split=split_edges(edges, 32, generator, 1))
    shared = build(edges, items, generator=generator)
    assert len(single.split) >= in_degree
    assert single.constant > 9.71
    assert len(shared.split) < in_degree / 2
    assert 3.47 < shared.constant < 6.93


def test_hebbian_weights_are_larger() -> None:
    made = built(256, 64, method="hebbian", n_heads=16)[2]
    assert made.recognition.f1 >= 0.99
    assert 20.8 < made.constant < 41.5


@pytest.mark.slow
def test_few_bits_are_enough() -> None:
    """F1 falls below 4 bits where weights are whitened; hebbian ones can do with one."""
    whitened = {bits: built(512, 128, 0, d_head=17, bits=bits)[2].recognition.f1 for bits in (1, 2, 3, 4)}
    assert 0.7 < whitened[1] < 0.9
    assert 0.95 < whitened[2] < 0.99
    assert whitened[3] > 0.99
    assert whitened[4] > 0.997
    for bits in (1, 2, 4):
        assert built(256, 64, 0, method="hebbian", d_head=128, bits=bits)[2].recognition.f1 > 0.995
    searched = built(256, 64, bits=2)[2]
    assert searched.recognition.f1 >= 0.99
    assert len(np.unique(searched.weights.query[0])) <= 4


def test_with_few_bits_every_number_of_heads_is_told_that_was_tried() -> None:
    """One edge a head with d_head 1 is not exact then, and further sizes are tried."""
    edges, _, made = built(40, 16, bits=3)
    found = [one.n_heads * one.d_head for one in made.tried if one.d_head is not None]
    assert len(edges) < made.weights.total_key_dim == min(found)
    heads = [one.n_heads for one in made.tried]
    assert sorted(heads) == sorted(set(heads))
    assert 40 in heads


@pytest.mark.parametrize("bits", range(1, 9))
def test_quantised_by_hand(bits: int) -> None:
    matrices = np.random.default_rng(0).standard_normal((2, 30, 20)) * np.array([1, 50])[:, None, None]
    found = quantized(matrices, bits)
    for matrix, rounded in zip(matrices, found, strict=True):
        sigma = math.sqrt((matrix**2).mean())
        centres = -3 * sigma + (np.arange(2**bits) + 0.5) * 6 * sigma / 2**bits
        nearest = centres[np.abs(matrix[..., None] - centres).argmin(-1)]
        assert rounded == pytest.approx(nearest)
    assert (quantized(np.zeros((1, 2, 2)), bits) == 0).all()


@pytest.mark.parametrize("fields", KINDS, ids=lambda fields: fields["graph"])
@pytest.mark.parametrize("block", [1, 5, 12])
@pytest.mark.parametrize("repeats", [1, 3])
def test_splits(fields: dict[str, object], block: int, repeats: int) -> None:
    edges, _, generator = library(40, 8, 2, **fields)
    parts = split_edges(edges, block, generator, repeats)
    assert np.sort(np.concatenate(parts)).tolist() == list(range(len(edges)))
    for part in parts:
        assert len(part) <= block
        assert np.bincount(edges[part, 0]).max() == 1
        assert np.bincount(edges[part, 1]).max() <= repeats
    largest = max(np.bincount(edges[:, side]).max() for side in (0, 1))
    assert len(parts) <= -(-len(edges) // block) + 2 * (largest - 1)


def coloured(edges: np.ndarray, block: int) -> tuple[np.ndarray, ...]:
    """A proper colouring of the edges (König): each colour a matching that holds all ends with most edges left."""
    rest, parts = dict(enumerate(map(tuple, edges.tolist()))), []
    while rest:
        ends = Counter((side, edge[side]) for edge in rest.values() for side in (0, 1))
        graph, most = nx.Graph(), max(ends.values())
        for number, (source, target) in rest.items():
            full = sum(ends[end] == most for end in ((0, source), (1, target)))
            graph.add_edge((0, source), (1, target), number=number, weight=1 + 1000 * full)
        matching = [graph.edges[pair]["number"] for pair in nx.max_weight_matching(graph)]
        parts += np.array_split(np.array(matching), -(-len(matching) // block))
        for number in matching:
            del rest[number]
    return tuple(parts)


@pytest.mark.slow
def test_a_proper_colouring_of_the_edges_needs_no_smaller_key_dimension() -> None:
    logs = []
    for fields, m, d_model in (
        ({"graph": "regular", "degree": 4}, 64, 32),
        ({"graph": "regular", "degree": 8}, 64, 64),
        ({"graph": "random", "n_edges": 256}, 64, 32),
        ({"graph": "random", "n_edges": 512}, 128, 64),
    ):
        for seed in range(3):
            edges, items, generator = library(m, d_model, seed, **fields)
            block, sizes = d_model // 4, []
            proper = coloured(edges, block)
            assert max(np.bincount(edges[part, side]).max() for part in proper for side in (0, 1)) == 1
            for split in (proper, split_edges(edges, block, generator)):
                assert np.sort(np.concatenate(split)).tolist() == list(range(len(edges)))
                made = build(edges, items, generator=np.random.default_rng(seed), split=split)
                sizes.append(made.weights.query.shape[0] * made.weights.query.shape[2])
            logs.append(math.log(sizes[0] / sizes[1]))
    low, high = scipy.stats.ttest_1samp(logs, 0).confidence_interval()
    print(f"{math.exp(np.mean(logs)):.2f} ({math.exp(low):.2f} to {math.exp(high):.2f})")
    assert low < 0 < high
    assert high - low < 0.4


def test_incoherence_by_loops() -> None:
    edges, items, generator = library(20, 9, 0, graph="random", n_edges=50)
    split = split_edges(edges, 6, generator)
    rho = nu = 0.0
    products = items @ items.T
    for part in split:
        head = [tuple(edge) for edge in edges[part].tolist()]
        for i in range(20):
            for side in (0, 1):
                ends = {edge[side] for edge in head} - {i}
                rho = max(rho, sum(products[i, a] ** 2 for a in ends))
            for j in range(20):
                nu = max(nu, abs(sum(products[i, a] * products[b, j] for a, b in head if (a, b) != (i, j))))
    found = incoherence(edges, items, split)
    assert (found.rho, found.nu) == pytest.approx((rho, nu))


def test_incoherent_items_and_others() -> None:
    edges, items, generator = library(64, 64, 0, embeddings="onehot")
    split = incoherent_split(edges, items, 16, generator)
    assert build(edges, items, generator=generator, split=split, method="hebbian").recognition.f1 >= 0.99
    edges, items, generator = library(64, 32, 0)
    with pytest.raises(CapaxError, match=r"items.*3.*ρ ≤ 1.*ν ≤ 0.125.*ρ = 0.\d+.*ν = 0.\d+"):
        incoherent_split(edges, items, 8, generator, draws=3)
    edges, items, generator = library(80, 64, 0, embeddings="low_coherence")
    split = incoherent_split(edges, items, 1, generator, nu=0.2)
    found = incoherence(edges, items, split)
    assert found.rho <= 1
    assert found.nu <= 0.2


def test_the_same_generator_gives_the_same_weights() -> None:
    first, again = (built(64, 32, 3)[2].weights for _ in range(2))
    assert (first.query == again.query).all()
    assert (first.key == again.key).all()
    other = built(64, 32, 4)[2].weights
    assert first.query.shape != other.query.shape or (first.query != other.query).any()


def test_two_items() -> None:
    edges, _, made = built(2, 2)
    assert len(edges) == 2
    assert (made.recognition.f1, made.recognition.margin, made.constant) == (1, None, 1)
    edges, items, generator = library(3, 4)
    assert build(edges[:1], items, generator=generator).constant is None


def test_n_heads_is_kept_to() -> None:
    for n_heads in (3, 8, 20):
        made = built(96, 48, n_heads=n_heads, d_head=20)[2]
        assert made.weights.query.shape == (n_heads, 48, 20)
    made = built(96, 48, fields={"graph": "regular", "degree": 4}, n_heads=11, d_head=20)[2]
    assert len(made.split) == len(made.weights.query) == 11


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"method": "onehot"}, r"method.*d_model.*24.*12"),
        ({"bits": 0}, r"bits.*1 to 8.*0"),
        ({"bits": 9}, r"bits.*1 to 8.*9"),
        ({"d_head": 0}, r"d_head.*1.*0"),
        ({"n_heads": 0}, r"n_heads.*1.*0"),
        ({"n_heads": 25}, r"n_heads.*24.*25"),
        ({"n_heads": 1}, r"n_heads.*12 edges.*1.*24"),
        ({"target_f1": 0.0}, r"target_f1.*0"),
        ({"n_heads": 2, "bits": 1}, r"d_head.*0.99.*48"),
        ({"split": (np.arange(12), np.arange(11, 24))}, r"split.*2 parts"),
        ({"split": (np.arange(24), np.arange(0))}, r"split.*empty.*2 parts"),
        ({"split": ()}, r"split.*0 parts"),
        ({"split": (np.arange(24),), "n_heads": 2}, r"split.*n_heads"),
    ],
)
def test_refuses(options: dict[str, object], said: str) -> None:
    with pytest.raises(CapaxError, match=said):
        built(24, 12, **options)


def test_refuses_items() -> None:
    edges, items, generator = library(24, 24)
    with pytest.raises(CapaxError, match=r"method.*one-hot"):
        build(edges, items, generator=generator, method="onehot")
    with pytest.raises(CapaxError, match=r"n_heads.*2"):
        build(edges, np.eye(24), generator=generator, method="onehot", n_heads=2)
    for value in (0.0, 2.0, np.nan):
        wrong = items.copy()
        wrong[7] *= value
        with pytest.raises(CapaxError, match=rf"items.*1.*{value:g}.*item 8"):
            build(edges, wrong, generator=generator)
    equal = np.tile(items[:1], (24, 1))
    with pytest.raises(CapaxError, match=r"items.*independent"):
        build(edges, equal, generator=generator, n_heads=4)


def test_a_whitened_head_of_more_edges_than_channels_is_refused() -> None:
    items = np.random.default_rng(0).standard_normal((9, 3))
    items /= np.linalg.norm(items, axis=1, keepdims=True)
    edges = np.column_stack([np.arange(8), np.arange(1, 9)])
    with pytest.raises(CapaxError, match="linearly independent; more heads make them fewer"):
        build(edges, items, generator=np.random.default_rng(0), method="whitened", split=(np.arange(8),), d_head=4)
