"""The channels that route values against plain computations, and what an ensemble of them promises."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import activated, assert_same
from torch import Tensor

from capax.errors import SpecError
from capax.models.routing import RoutingEnsemble
from capax.specs import KeyQueryChannel, Relations, Training
from capax.training.optimizers import Adam

CHANNELS = pytest.mark.parametrize("channel", ["softmax", "block"])
Member = dict[str, Tensor]


def ensemble_of(
    spec: KeyQueryChannel, n_items: int, d_heads: Sequence[int], seed: int = 0, padded_to: int | None = None
) -> RoutingEnsemble:
    generators = [torch.Generator().manual_seed(seed + member) for member in range(len(d_heads))]
    spec = spec.replace(d_head=padded_to or max(d_heads))
    ensemble = RoutingEnsemble.initialize(
        spec, {"n_items": n_items}, d_heads=d_heads, generators=generators, dtype=torch.float64
    )
    assert isinstance(ensemble, RoutingEnsemble)
    return ensemble


def randomized(spec: KeyQueryChannel, n_items: int, d_heads: Sequence[int], seed: int = 0) -> RoutingEnsemble:
    """With nothing but queries and keys, whose padding is to stay, at its first value."""
    ensemble = ensemble_of(spec, n_items, d_heads, seed)
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in ensemble.trainable.items():
        if name not in ("query", "key"):
            parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return ensemble


def plain_outputs(spec: KeyQueryChannel, member: Member, items: Tensor, d_head: int) -> Tensor:
    """a·⟨y_i, x_j⟩ − b of every pair `(m, m)`, one source at a time, its context without itself."""

    def norm(x: Tensor, gain: str) -> Tensor:
        centred = x - x.mean()
        return centred / torch.sqrt((centred**2).mean() + 1e-5) * member[gain]

    rows = []
    for i, source in enumerate(items):
        others = torch.cat([items[:i], items[i + 1 :]])
        y = torch.zeros_like(source)
        for head in range(spec.n_heads):
            scores = (others @ member["key"][head]) @ (source @ member["query"][head]) / math.sqrt(d_head)
            weights = torch.exp(scores - scores.max())
            routed = (weights / weights.sum()) @ others
            if spec.values:
                routed = routed @ member["value"][head]
            y = y + (routed @ member["output"][head] if spec.d_value else routed)
        if spec.channel == "block":
            u = norm(source + y, "norm")
            hidden = activated(u @ member["up"] + member["up_bias"], "gelu")
            y = norm(u + hidden @ member["down"] + member["down_bias"], "ffn_norm")
        scale = member["first_scale"] * (1 + 0.3 * member["scale"])
        rows.append(scale * (items @ y) - member["threshold"])
    return torch.stack(rows)


def assert_gradients(ensemble: RoutingEnsemble, e: int, member: Member) -> None:
    """A member's gradients in the ensemble are its own."""
    for name in ensemble.trainable:
        gradient, known = ensemble.parameters[name].grad, member[name].grad
        assert gradient is not None
        assert known is not None
        assert_same(gradient[e], known, 1e-10, name)


def unit_items(graphs: int, m: int, c: int, seed: int) -> Tensor:
    items = torch.randn(graphs, m, c, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return items / items.norm(dim=-1, keepdim=True)


def outputs(ensemble: RoutingEnsemble, items: Tensor, rows: Tensor | None = None) -> Tensor:
    """Of some sources (all, when not given) and every item; items are each member's own, or shared (one graph)."""
    rows = torch.arange(items.shape[1]) if rows is None else rows
    sources = items[:, rows].expand(ensemble.n_members, -1, -1)
    return ensemble.outputs(sources, rows.expand(ensemble.n_members, -1), ensemble.shared(items))


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    channel=st.sampled_from(["softmax", "block"]),
    n_heads=st.integers(1, 4),
    c=st.integers(2, 7),
    d_heads=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    m=st.integers(2, 6),
    one_graph=st.booleans(),
    values=st.sampled_from([{}, {"values": False}, {"d_value": 3}]),
    seed=st.integers(0, 1000),
)
def test_equals_a_loop_over_sources_and_heads(
    channel: Any, n_heads: int, c: int, d_heads: list[int], m: int, one_graph: bool, values: dict[str, Any], seed: int
) -> None:
    """Outputs, and gradients of a loss; members of smaller heads are divided by the root of their own size."""
    spec = KeyQueryChannel(n_heads=n_heads, d_model=c, channel=channel, **values)
    ensemble = randomized(spec, m, d_heads, seed)
    items = unit_items(1 if one_graph else len(d_heads), m, c, seed)
    found = outputs(ensemble, items)
    weight = torch.randn(found.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    (found * weight).sum().backward()
    for e, d_head in enumerate(d_heads):
        member = {
            name: p[e].detach().clone().requires_grad_(p.requires_grad) for name, p in ensemble.parameters.items()
        }
        expected = plain_outputs(spec, member, items[0 if one_graph else e], d_head)
        assert_same(found[e], expected, 1e-10, "outputs")
        (expected * weight[e]).sum().backward()
        assert_gradients(ensemble, e, member)


@CHANNELS
def test_sources_can_be_asked_in_any_order(channel: Any) -> None:
    ensemble, items = randomized(KeyQueryChannel(n_heads=2, d_model=5, channel=channel), 6, [4]), unit_items(1, 6, 5, 0)
    rows = torch.tensor([4, 0, 5])
    assert_same(outputs(ensemble, items, rows), outputs(ensemble, items)[:, rows], 1e-12, "outputs")


def test_attention_is_a_distribution_over_the_others() -> None:
    ensemble, items = (
        randomized(KeyQueryChannel(n_heads=3, d_model=5, channel="softmax"), 6, [4, 2]),
        unit_items(2, 6, 5, 0),
    )
    weights = ensemble.attention(items, torch.arange(6).expand(2, -1), ensemble.shared(items))
    assert weights.shape == (2, 3, 6, 6)
    off = ~torch.eye(6, dtype=torch.bool)
    assert (weights[..., off] > 0).all()
    assert (weights[..., ~off] == 0).all()
    assert torch.allclose(weights.sum(-1), torch.ones(2, 3, 6, dtype=torch.float64))


@CHANNELS
def test_a_padded_member_is_what_it_is_unpadded(channel: Any) -> None:
    """Columns of zeros add nothing and have no gradient: they stay zero, and the rest trains as if they were not."""
    spec = KeyQueryChannel(n_heads=3, d_model=7, channel=channel)
    items = unit_items(1, 9, 7, 1)
    signs = torch.where(torch.eye(9).roll(1, 0) > 0, 1.0, -1.0).double()
    padded, plain = ensemble_of(spec, 9, [2], padded_to=6), ensemble_of(spec, 9, [2])
    for ensemble in (padded, plain):
        adam = Adam(ensemble.trainable, Training(beta2=0.99))
        for _ in range(20):
            loss = -torch.nn.functional.logsigmoid(signs * outputs(ensemble, items)).sum()
            torch.autograd.backward(loss)
            adam.step(0.05)
    for name, parameter in padded.parameters.items():
        kept = parameter[..., :2] if name in ("query", "key") else parameter
        assert_same(kept, plain.parameters[name], 1e-9, name)
        if name in ("query", "key"):
            assert (parameter[..., 2:] == 0).all()
    assert_same(outputs(padded, items), outputs(plain, items), 1e-9, "outputs")


def test_the_widest_activation() -> None:
    sizes = Relations(n_items=20).sizes()
    assert KeyQueryChannel(n_heads=4, channel="softmax").floats_per_row(sizes, "all") == 80
    assert KeyQueryChannel(n_heads=4, d_model=32, channel="block").floats_per_row(sizes, "all") == 128


@CHANNELS
def test_what_is_routed_is_added_up(channel: Any) -> None:
    spec = KeyQueryChannel(channel=channel)
    assert spec.aggregate == "sum"
    assert KeyQueryChannel.model_validate_json(spec.model_dump_json()) == spec
    assert spec.replace(channel="threshold").aggregate == "max"
    with pytest.raises(SpecError, match=f"aggregate: channel '{channel}' adds its heads up"):
        KeyQueryChannel(channel=channel, aggregate="max")


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    channel=st.sampled_from(["softmax", "block"]),
    n_heads=st.integers(1, 3),
    values=st.sampled_from([{}, {"values": False}, {"d_value": 1}, {"d_value": 4}]),
    d_heads=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    n=st.integers(2, 5),
    m=st.integers(5, 12),
    contexts=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_in_a_context_attention_is_over_its_items(
    channel: Any, n_heads: int, values: dict[str, Any], d_heads: list[int], n: int, m: int, contexts: int, seed: int
) -> None:
    """Outputs and gradients are those of a loop over each context alone, with whatever values."""
    spec = KeyQueryChannel(n_heads=n_heads, d_model=5, channel=channel, **values)
    ensemble = randomized(spec, 9, d_heads, seed)
    items, draws = unit_items(len(d_heads), m, 5, seed), torch.Generator().manual_seed(seed)
    chosen = torch.stack(
        [torch.stack([torch.randperm(m, generator=draws)[:n] for _ in range(contexts)]) for _ in d_heads]
    )
    shared = ensemble.shared_by_contexts(items, contexts * n)
    assert ("made" in shared) == (m <= contexts * n)  # both ways are tried
    found = ensemble.outputs_in_contexts(items, chosen, shared)
    weight = torch.randn(found.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    (found * weight).sum().backward()
    for e, d_head in enumerate(d_heads):
        member = {
            name: p[e].detach().clone().requires_grad_(p.requires_grad) for name, p in ensemble.parameters.items()
        }
        expected = torch.stack([plain_outputs(spec, member, one, d_head) for one in items[e][chosen[e]]])
        assert_same(found[e], expected, 1e-10, "outputs")
        (expected * weight[e]).sum().backward()
        assert_gradients(ensemble, e, member)


@CHANNELS
@pytest.mark.parametrize("values", [{}, {"values": False}, {"d_value": 2}], ids=str)
def test_a_context_of_all_items_is_the_whole_graph(channel: Any, values: dict[str, Any]) -> None:
    ensemble = randomized(KeyQueryChannel(n_heads=2, d_model=5, channel=channel, **values), 6, [4, 2])
    items = unit_items(2, 6, 5, 0)
    every = torch.arange(6).expand(2, 1, 6)
    alone = ensemble.outputs_in_contexts(items, every, ensemble.shared_by_contexts(items, 6))[:, 0]
    assert_same(alone, outputs(ensemble, items), 1e-12, "outputs")


def test_what_values_are_counted_as() -> None:
    """A value and its output matrix have d_model · d_value numbers each, of which (d_value)² say nothing."""

    def counts(**fields: Any) -> tuple[int, int]:
        spec = KeyQueryChannel(n_heads=2, d_model=6, d_head=6, channel="softmax", **fields)
        sizes = {"n_items": 9, "context_size": 4}
        return spec.parameter_counts(**sizes)["trainable"], spec.effective_parameters(**sizes)

    keys = 2 * 2 * 6 * 6
    assert counts(values=False) == (keys + 2, 2 * 36 + 2)
    assert counts() == (keys + 72 + 2, 2 * 36 + 72 + 2)
    assert counts(d_value=2) == (keys + 2 * 2 * 12 + 2, 2 * 36 + 2 * (24 - 4) + 2)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"values": False}, "values: only with channel 'softmax' or 'block', got False"),
        ({"d_value": 3}, "d_value: only with channel 'softmax' or 'block', got 3"),
        ({"channel": "softmax", "values": False, "d_value": 3}, "d_value: not without values, got 3"),
        ({"channel": "block", "d_value": 0}, "d_value: "),
    ],
)
def test_values_that_cannot_be(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        KeyQueryChannel(**fields)
