"""Lower bounds by hand, and below all that was built."""

from math import log, log2

import numpy as np
import pytest
from channels import built, library
from hypothesis import given, settings
from hypothesis import strategies as st

from capax import Relations, channel_design
from capax.errors import CapaxError, SpecError
from capax.tasks import graph_classes
from capax.theory.bounds.relations import (
    OF_WEIGHTS,
    adler2025,
    margin,
    one_edge_a_head,
    one_head,
    quantised,
    real,
    sign_patterns,
)
from capax.theory.construct.channel import square_norm


def test_quantised_by_hand() -> None:
    bound = quantised(1684.0, 64, 1)
    assert bound.value == pytest.approx(1683 / 128)
    assert (bound.kind, bound.unit, bound.standing, bound.reason) == ("lower", "total_key_dim", "derived", None)
    assert quantised(3.0, 64, 8).value == 0


def test_margin_by_hand() -> None:
    bound = margin(1684.0, 64, 1.5, 0.2)
    assert bound.value == pytest.approx(1684 * log(2) / (128 * log(1 + 9 / 0.1)))
    for none_left in (None, 0.0, -0.3):
        none = margin(1684.0, 64, 1.5, none_left)
        assert none.value is None
        assert "γ > 0" in (none.reason or "")
    assert "γ ≤ R²" in (margin(1684.0, 64, 0.1, 0.3).reason or "")


@settings(derandomize=True, deadline=None, max_examples=50)
@given(bits=st.floats(0, 1e5), m=st.integers(2, 500), heads=st.integers(1, 50), d=st.integers(1, 600))
def test_real_weights_by_inserting(bits: float, m: int, heads: int, d: int) -> None:
    bound = real(bits, m, heads, d)
    scores = heads * m * (m - 1)

    def reached(variables: float) -> float:
        return variables * log2(8 * np.e * scores / variables)

    if bound.value is None:
        assert reached(scores) < bits
        assert "as many scores" in (bound.reason or "")
        return
    variables = 2 * d * bound.value + 1
    assert bound.value >= 0
    if bound.value > 0:
        assert reached(variables) == pytest.approx(bits, rel=1e-6, abs=1e-6)
    else:
        assert reached(1) >= bits or variables == 1


def test_one_head_fails_for_many_items() -> None:
    """All graphs fit while items are few, no size of one head is enough when they are many."""
    few, many = (one_head(m, 16) for m in (40, 2000))
    assert few.value > graph_classes.derangements(40).bits
    assert many.value < graph_classes.derangements(2000).bits
    assert many.value == pytest.approx(257 * log2(4 * np.e * 2000 * 1999 / 257))
    assert one_head(10, 16).value == 90  # all graphs: fewer scores than the 257 numbers


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "m", "d"),
    [
        ({}, 256, 64),
        pytest.param({}, 512, 128, marks=pytest.mark.very_slow),
        pytest.param({"graph": "random", "n_edges": 512}, 128, 64, marks=pytest.mark.very_slow),
        ({"graph": "regular", "degree": 4}, 128, 64),
        ({"graph": "power_law", "n_edges": 256}, 128, 64),
        ({"graph": "tree"}, 128, 64),
    ],
)
def test_lower_bounds_are_below_what_was_built(fields: dict[str, object], m: int, d: int) -> None:
    for options in ({"target_f1": 1.0}, {"target_f1": 1.0, "bits": 4}):
        edges, items, made = built(m, d, fields=fields, **options)
        weights = made.weights
        graphs = graph_classes.drawn_from(Relations(n_items=m, **fields))
        norm = square_norm(weights.query, weights.key, items)
        known = {
            "graph_bits": graphs.bits,
            "n_items": m,
            "n_edges": len(edges),
            "n_heads": len(weights.query),
            "d_model": d,
            "bits": int(options.get("bits", 64)),
            "square_norm": norm,
            "margin": made.recognition.margin,
        }
        bounds = [bound(**known) for bound in OF_WEIGHTS]
        assert [bound.name for bound in bounds] == ["quantised", "margin", "real", "one_head", "one_edge_a_head"]
        for bound in bounds[:3]:
            assert bound.value is not None
            assert 0 < bound.value < weights.total_key_dim
        assert quantised(graphs.bits, d, 1).value < weights.total_key_dim


@pytest.mark.parametrize("fields", [{}, {"graph": "random", "n_edges": 90}])
@pytest.mark.parametrize("d", [2, 8])
def test_one_edge_a_head_recognizes_any_graph(fields: dict[str, object], d: int) -> None:
    edges, _, _ = library(40, d, **fields)
    made = built(40, d, fields=fields, n_heads=len(edges), d_head=1)[2]
    assert made.recognition.f1 == 1
    assert made.recognition.margin > 0
    assert made.weights.total_key_dim == one_edge_a_head(len(edges)).value


def test_the_rule_holds_where_it_was_measured() -> None:
    for m, d in ((256, 64), (512, 128)):
        whitened, trained = channel_design(m, m, d)
        weights = built(m, d)[2].weights
        assert whitened.n_heads[0] <= len(weights.query) <= whitened.n_heads[1]
        assert whitened.d_head[0] <= weights.query.shape[2] <= whitened.d_head[1]
        assert whitened.total_key_dim[0] <= weights.total_key_dim <= whitened.total_key_dim[1]
        assert trained.total_key_dim[0] <= 11 <= trained.total_key_dim[1]  # as both searches found (docs/relations.md)
        assert trained.total_key_dim[1] < whitened.total_key_dim[0]
    assert [one.standing for one in channel_design(256, 256, 64)] == ["measured", "measured"]
    assert [one.standing for one in channel_design(256, 256, 32)] == ["extrapolated", "measured"]
    assert [one.standing for one in channel_design(64, 64, 8)] == ["extrapolated", "extrapolated"]
    assert channel_design(1024, 1024, 64)[1].standing == "extrapolated"
    with pytest.raises(SpecError, match=r"^n_edges: at most 20 \(n_items 5\), got 256"):
        channel_design(5, 256, 64)
    with pytest.raises(SpecError, match=r"^n_items: should be a whole number, got 25\.5"):
        channel_design(25.5, 25, 64)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=r"^real: at most 4 values \(graph_bits, n_items, n_heads, d_model\), got 5"):
        real(4, 4, 1, 4, 4)
    assert channel_design(64, 64, 64)[1].n_heads == (1, 1)
    assert channel_design(64, 64, 8)[1].n_heads == (6, 12)  # the search found 8 and 16
    assert channel_design(512, 512, 128)[1].n_heads == (1, 1)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: quantised(10.0, 0, 1), "d_model.*1.*0"),
        (lambda: quantised(10.0, 4, 0), "bits.*1.*0"),
        (lambda: real(10.0, 4, 0, 4), "n_heads.*1.*0"),
        (lambda: real(10.0, 1, 1, 4), "n_items.*2.*1"),
        (lambda: channel_design(4, 1, 4), "n_edges.*2.*1"),
    ],
)
def test_refuses(call, said: str) -> None:
    with pytest.raises(CapaxError, match=said):
        call()


def test_a_learned_scale_is_one_number_more() -> None:
    assert quantised(1684.0, 64, 32, constants=2).value == pytest.approx((1684 - 64) / (2 * 32 * 64))


@settings(derandomize=True, deadline=None, max_examples=40)
@given(m=st.integers(4, 300), heads=st.integers(1, 8), d=st.integers(1, 64), d_head=st.integers(1, 16))
def test_sign_patterns_are_the_real_bound_the_other_way_round(m: int, heads: int, d: int, d_head: int) -> None:
    """Graphs of just so many bits need just this key dimension."""
    most = sign_patterns(m, heads, d, d_head)
    variables, scores = 2 * d * heads * d_head + 1, heads * m * (m - 1)
    if scores < variables:
        assert most.value is None
        return
    assert most.value == most.bits <= m * (m - 1)
    if most.value < m * (m - 1):
        assert real(most.value, m, heads, d).value == pytest.approx(heads * d_head, rel=1e-6)
    assert sign_patterns(m, heads, d, d_head).value >= graph_classes.digraphs(m, 1).bits


def test_what_is_missing_is_said() -> None:
    assert "n_edges" in quantised(None, 64, 1).reason
    assert "none are given" in (margin(10.0, 64, None, None).reason or "")
    assert "n_items" in real(None, None, 2, 64).reason
    assert "n_items" in one_head(None, 64).reason
    assert "one head" in one_head(2000, 16, n_heads=2).reason
    assert "n_edges" in one_edge_a_head(None).reason
    law = adler2025()
    assert (law.kind, law.value, law.standing) == ("order", None, "read")
