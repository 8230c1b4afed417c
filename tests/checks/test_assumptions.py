"""Verdicts on sets whose answer is known, and what is refused."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import hypergeom

from capax.checks.assumptions import Check, check_assumptions, represent
from capax.cli import main
from capax.errors import LibraryError

KINDS = ["A1", "A2", "A1 of query + context mean", "general position"]


def gaussian(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def checks(queries: np.ndarray, contexts: np.ndarray, **options: object) -> dict[str, Check]:
    found = represent("x", queries, contexts, **{"samples": 200, **options})
    assert [check.assumption for check in found.checks] == KINDS
    return {check.assumption: check for check in found.checks}


@pytest.mark.slow
def test_gaussian_examples_suit_the_bound() -> None:
    queries, contexts = gaussian(50, 16), gaussian(50, 6, 16, seed=1)
    found = checks(queries, contexts)
    assert [found[name].verdict for name in KINDS] == ["not refuted", "holds", "not refuted", "not refuted"]
    assert found["A1"].share_below == pytest.approx(1 - 0.05 ** (1 / 200))
    assert "none of 200" in found["A1"].evidence
    assert "1.49%" in found["A1"].evidence
    assert (found["general position"].tested, found["general position"].size) == (20, 16)
    check_assumptions(queries, contexts).require()


def test_a_small_set_is_settled() -> None:
    found = checks(gaussian(10, 16), gaussian(4, 16, seed=1))
    assert [found[name].verdict for name in KINDS] == ["holds"] * 4
    assert (found["A1"].tested, found["A1"].share_below, found["A1"].level) == (210, 0, None)
    assert (found["general position"].size, found["general position"].tested) == (10, 1)


@pytest.mark.parametrize("length", [1e-9, 1e9])
def test_no_verdict_depends_on_the_lengths_of_vectors(length: float) -> None:
    """In float32, too, where a short one is far below what rounding does to the longest."""
    queries, contexts = gaussian(10, 16).astype(np.float32), gaussian(4, 16, seed=1).astype(np.float32)
    expected = [check.verdict for check in checks(queries, contexts).values()]
    queries[3] *= length
    contexts[2] *= min(length, 1)  # else its mean is all that is left of query + context mean
    assert [check.verdict for check in checks(queries, contexts).values()] == expected == ["holds"] * 4


def test_fewer_queries_than_tokens() -> None:
    found = checks(gaussian(3, 16), gaussian(3, 8, 16, seed=1))
    assert (found["A1"].size, found["A1"].tested, found["A1"].verdict) == (3, 1, "holds")


def test_offending_queries_are_named() -> None:
    queries, contexts = gaussian(40, 16), gaussian(40, 5, 16, seed=1)
    queries[7], queries[20], queries[31] = queries[2], 0, -3 * queries[2]
    found = checks(queries, contexts)["A1"]
    assert found.verdict == "fails"
    assert (21,) in found.dependent_sets
    pairs = {one for one in found.dependent_sets if len(one) == 2}
    assert len(pairs) == 2
    assert set().union(*pairs) == {3, 8, 32}
    for word in ("zero: 21", "parallel: "):
        assert word in found.evidence
    with pytest.raises(LibraryError, match=r"A1.*21.*parallel"):
        check_assumptions(queries, contexts).require()


@pytest.mark.slow
def test_general_position_alone_may_fail() -> None:
    """Queries in a subspace that holds n dimensions: A1 is the weaker assumption."""
    queries = gaussian(40, 8) @ gaussian(8, 16, seed=2)
    found = checks(queries, gaussian(40, 5, 16, seed=1))
    assert (found["A1"].verdict, found["general position"].verdict) == ("not refuted", "fails")
    assert "span 8 dimensions" in found["general position"].evidence
    assert found["general position"].share_below == 1
    check_assumptions(queries, gaussian(40, 5, 16, seed=1)).require()


def test_the_mean_of_the_context_mends_equal_queries() -> None:
    queries = np.repeat(gaussian(1, 16), 40, axis=0)
    found = checks(queries, gaussian(40, 5, 16, seed=1))
    assert (found["A1"].verdict, found["A1 of query + context mean"].verdict) == ("fails", "not refuted")
    assert len(found["A1"].dependent_sets) == 39
    shared = checks(queries, gaussian(5, 16, seed=1))
    assert shared["A1 of query + context mean"].verdict == "fails"


def test_deficient_contexts_are_named() -> None:
    contexts = gaussian(40, 5, 16, seed=1)
    contexts[11, 4] = contexts[11, 0]
    contexts[30, :] = contexts[30, 0]
    found = checks(gaussian(40, 16), contexts)["A2"]
    assert (found.verdict, found.dependent_sets, found.smallest_rank) == ("fails", ((12,), (31,)), 1)
    for part in ("2 of 40", "12, 31", "rank 1 of 5"):
        assert part in found.evidence
    assert "rank 1 of 5" in checks(gaussian(40, 16), contexts[30])["A2"].evidence


def test_decisions_near_the_tolerance_are_said() -> None:
    """Float32 cannot tell these from dependent ones; float64 can."""
    queries, contexts = gaussian(4, 16), gaussian(3, 16, seed=1)
    queries[3] = queries[:2].sum(0) + 2e-6 * gaussian(16, seed=3)
    contexts[2] = contexts[:2].sum(0) + 2e-6 * gaussian(16, seed=4)
    single, double = (checks(queries, contexts, precision=kind) for kind in ("float32", "float64"))
    assert {single[name].verdict for name in ("A1", "A2")} == {"undecided"}
    assert "close to the tolerance" in single["A1"].evidence
    assert {double[name].verdict for name in ("A1", "A2")} == {"holds"}


def test_arrays_of_float32_are_judged_as_such() -> None:
    rows = gaussian(30, 4) @ gaussian(4, 12, seed=1)
    queries = rows.astype(np.float32)  # rounding hides the dependence from float64's tolerance
    contexts = gaussian(3, 12).astype(np.float32)
    assert checks(queries, contexts)["general position"].verdict == "fails"
    assert checks(queries, contexts, precision="float64")["general position"].verdict != "fails"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"contexts": np.ones((5, 4, 4))}, ["contexts", "n < d", "4 channels", "got 4"]),
        ({"contexts": np.ones((5, 3, 5))}, ["contexts", "4 channels", "got 5"]),
        ({"contexts": np.ones((2, 3, 4))}, ["contexts", "each of 5 queries", "got 2"]),
        ({"contexts": np.ones(4)}, ["contexts", "2-D or 3-D", "1-D"]),
        ({"contexts": np.where(np.arange(60).reshape(5, 3, 4) == 40, np.inf, 1.0)}, ["contexts", "number 4"]),
        ({"queries": np.ones((0, 4))}, ["queries", "empty"]),
        ({"queries": np.ones((5, 2, 4))}, ["queries", "2-D", "3-D"]),
        ({"queries": np.ones((5, 4), int)}, ["queries", "int64"]),
        ({"queries": np.ones((5, 4), np.float16)}, ["queries", "float32 or float64", "float16"]),
        ({"queries": np.where(np.arange(20).reshape(5, 4) == 9, np.nan, 1.0)}, ["queries", "number 3"]),
        ({"samples": 0}, ["samples", "at least 1", "0"]),
        ({"seed": -1}, ["seed", "at least 0", "-1"]),
    ],
)
def test_bad_input_is_refused(change: dict[str, object], said: list[str]) -> None:
    given = {"queries": gaussian(5, 4), "contexts": gaussian(5, 3, 4), **change}
    with pytest.raises(LibraryError) as error:
        represent("x", **given)  # type: ignore[arg-type]
    for word in said:
        assert word in str(error.value)


def test_all_zero_queries() -> None:
    found = checks(np.zeros((30, 6)), gaussian(30, 3, 6))["A1"]
    assert (found.verdict, len(found.dependent_sets)) == ("fails", 30)
    assert checks(np.zeros((30, 6)), np.zeros((3, 6)))["A2"].verdict == "fails"


def test_the_curve_is_the_share_of_independent_subsets() -> None:
    """Of 6 vectors in 4 channels, two of them equal: every subset is counted, as brute force does."""
    queries = np.random.default_rng(0).standard_normal((6, 4))
    queries[3] = queries[1]
    contexts = np.random.default_rng(1).standard_normal((6, 3, 4))
    (one,) = check_assumptions(queries, contexts, curve=True).representations
    assert [point.size for point in one.curve] == [1, 2, 3, 4]
    for point in one.curve:
        subsets = list(combinations(range(6), point.size))
        independent = sum(np.linalg.matrix_rank(queries[list(some)]) == point.size for some in subsets)
        assert (point.tested, point.tested - point.dependent) == (len(subsets), independent)
        assert point.interval == (point.independent_share, point.independent_share)
    assert check_assumptions(queries, contexts).representations[0].curve == ()


def test_a_curve_of_samples_has_intervals_that_hold_the_share() -> None:
    """A third of 60 vectors in a plane of their own: the share of independent subsets is hypergeometric."""
    generator = np.random.default_rng(0)
    queries = generator.standard_normal((60, 16))
    queries[:20, 2:] = 0
    contexts = generator.standard_normal((60, 8, 16))
    (one,) = check_assumptions(queries, contexts, samples=4000, curve=True).representations
    for point in one.curve:
        chance = hypergeom(60, 20, point.size).cdf(2)
        assert point.interval[0] - 1e-9 <= chance <= point.interval[1] + 1e-9, point


def test_the_curve_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generator = np.random.default_rng(0)
    np.save(tmp_path / "q.npy", generator.standard_normal((12, 8)))
    np.save(tmp_path / "c.npy", generator.standard_normal((4, 8)))
    out = tmp_path / "curve.svg"
    with pytest.raises(SystemExit) as exit_:
        main(["check", "assumptions", str(tmp_path / "q.npy"), str(tmp_path / "c.npy"), "--figure", str(out)])
    assert exit_.value.code == 0
    assert "queries in a subset, k" in out.read_text()
    assert "share of independent subsets" in capsys.readouterr().out
