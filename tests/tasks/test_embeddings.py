"""The items' vectors: unit norm, the laws they are drawn from, and their coherence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.errors import LibraryError
from capax.specs.relations import Relations
from capax.tasks import embeddings


def coherence(vectors: np.ndarray) -> float:
    """Largest |⟨x_i, x_j⟩| of two different items."""
    return float(np.abs(vectors @ vectors.T - np.diag((vectors**2).sum(1))).max())


def draw(kind: str, n_items: int, d_model: int, seed: int = 0) -> np.ndarray:
    spec = Relations(n_items=n_items, embeddings=kind)
    vectors = embeddings.draw(spec, d_model, np.random.default_rng(seed))
    assert vectors.shape == (n_items, d_model)
    assert vectors.dtype == np.float64
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=0, atol=1e-12)
    return vectors


@settings(derandomize=True, deadline=None, max_examples=30)
@given(
    kind=st.sampled_from(["gaussian", "low_coherence"]),
    n_items=st.integers(2, 30),
    d_model=st.integers(1, 20),
    seed=st.integers(0, 2**32 - 1),
)
def test_vectors_are_of_unit_norm_and_no_better_than_the_welch_bound(
    kind: str, n_items: int, d_model: int, seed: int
) -> None:
    vectors = draw(kind, n_items, d_model, seed)
    assert coherence(vectors) >= embeddings.welch_bound(n_items, d_model) - 1e-12


@pytest.mark.parametrize("kind", ["gaussian", "low_coherence"])
def test_a_seed_gives_one_set_of_vectors_and_another_seed_another(kind: str) -> None:
    first, again, other = (draw(kind, 20, 8, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


def test_gaussian_vectors_are_directions_of_a_normal_law() -> None:
    vectors = draw("gaussian", 4096, 8)
    np.testing.assert_allclose(vectors.T @ vectors / 4096, np.eye(8) / 8, atol=0.01)
    np.testing.assert_allclose(vectors.mean(0), 0, atol=0.03)
    # of a uniform direction, E x^4 = 3 / (d (d + 2))
    assert (vectors**4).mean() == pytest.approx(3 / (8 * 10), rel=0.03)


def test_one_hot_items_are_the_unit_matrix() -> None:
    np.testing.assert_array_equal(draw("onehot", 5, 5), np.eye(5))
    with pytest.raises(LibraryError, match=r"^d_model: .* 5, got 4$"):
        draw("onehot", 5, 4)


@pytest.mark.parametrize(("n_items", "d_model"), [(32, 16), (128, 16), (128, 64)])
def test_low_coherence_is_below_the_gaussian_one_and_near_the_welch_bound(n_items: int, d_model: int) -> None:
    for seed in range(3):
        low = coherence(draw("low_coherence", n_items, d_model, seed))
        assert low < coherence(draw("gaussian", n_items, d_model, seed)) / 1.8
        assert low < 1.6 * embeddings.welch_bound(n_items, d_model)


@pytest.mark.parametrize(("n_items", "d_model"), [(8, 8), (5, 12)])
def test_no_more_items_than_channels_are_orthonormal(n_items: int, d_model: int) -> None:
    assert coherence(draw("low_coherence", n_items, d_model)) < 1e-14


def test_the_welch_bound_of_known_frames() -> None:
    # simplices meet it: three directions in the plane, four in space
    angles = 2 * np.pi * np.arange(3) / 3
    star = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert coherence(star) == pytest.approx(embeddings.welch_bound(3, 2))
    assert embeddings.welch_bound(4, 3) == pytest.approx(1 / 3)
    assert embeddings.welch_bound(4, 4) == 0


def test_vectors_of_any_size_are_normalised(tmp_path: Path) -> None:
    given = np.array([[3.0, 4.0], [0.0, 1e-200], [1e200, 1e200]])
    np.save(tmp_path / "own.npy", given)
    spec = Relations(embeddings=str(tmp_path / "own.npy"))
    assert spec.n_items == 3
    found = embeddings.draw(spec, 2, np.random.default_rng(0))
    np.testing.assert_allclose(found, [[0.6, 0.8], [0, 1], [0.5**0.5, 0.5**0.5]], rtol=1e-15)
    with pytest.raises(LibraryError, match=r"^d_model: .* 2 .*got 3$"):
        embeddings.draw(spec, 3, np.random.default_rng(0))
