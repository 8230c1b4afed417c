"""The ensemble of key-query channels against plain computations, and what an ensemble promises."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import assert_same
from torch import Tensor

from capax.models.keyquery import KeyQueryEnsemble
from capax.specs import KeyQueryChannel, Relations, Training
from capax.training.optimizers import Adam

Member = dict[str, Tensor]


def ensemble_of(
    spec: KeyQueryChannel, n_items: int, d_heads: Sequence[int], seed: int = 0, padded_to: int | None = None
) -> KeyQueryEnsemble:
    generators = [torch.Generator().manual_seed(seed + member) for member in range(len(d_heads))]
    spec = spec.replace(d_head=padded_to or max(d_heads))
    return KeyQueryEnsemble.initialize(
        spec, {"n_items": n_items}, d_heads=d_heads, generators=generators, dtype=torch.float64
    )


def randomized(spec: KeyQueryChannel, n_items: int, d_heads: Sequence[int], seed: int = 0) -> KeyQueryEnsemble:
    """With a scale and a threshold that are not at their first values."""
    ensemble = ensemble_of(spec, n_items, d_heads, seed)
    generator = torch.Generator().manual_seed(seed)
    for name in ("scale", "threshold"):
        noise = torch.randn(ensemble.parameters[name].shape, generator=generator, dtype=torch.float64)
        ensemble.parameters[name].data += 0.5 * noise
    return ensemble


def plain_outputs(spec: KeyQueryChannel, member: Member, items: Tensor) -> Tensor:
    """a·S − b of every pair `(m, m)`, one head and one pair at a time."""
    scale = member["first_scale"] * (1 + 0.3 * member["scale"])
    rows = []
    for source in items:
        row = []
        for target in items:
            heads = [
                ((source @ member["query"][head]) * (target @ member["key"][head])).sum()
                for head in range(spec.n_heads)
            ]
            joined = torch.stack(heads).sum() if spec.aggregate == "sum" else torch.stack(heads).max()
            row.append(scale * joined - member["threshold"])
        rows.append(torch.cat(row))
    return torch.stack(rows)


def members_of(ensemble: KeyQueryEnsemble) -> list[Member]:
    return [
        {name: p[e].detach().clone().requires_grad_(p.requires_grad) for name, p in ensemble.parameters.items()}
        for e in range(ensemble.n_members)
    ]


def unit_items(graphs: int, m: int, c: int, seed: int) -> Tensor:
    items = torch.randn(graphs, m, c, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return items / items.norm(dim=-1, keepdim=True)


def outputs(ensemble: KeyQueryEnsemble, items: Tensor) -> Tensor:
    """Of all pairs; items are each member's own, or shared (one graph)."""
    rows = torch.arange(items.shape[1]).expand(ensemble.n_members, -1)
    return ensemble.outputs(items.expand(ensemble.n_members, -1, -1), rows, ensemble.shared(items))


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    aggregate=st.sampled_from(["max", "sum"]),
    n_heads=st.integers(1, 4),
    c=st.integers(1, 7),
    d_heads=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    m=st.integers(2, 6),
    one_graph=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_equals_a_loop_over_heads_and_pairs(
    aggregate: Any, n_heads: int, c: int, d_heads: list[int], m: int, one_graph: bool, seed: int
) -> None:
    """Outputs, and gradients of a loss."""
    spec = KeyQueryChannel(n_heads=n_heads, d_model=c, aggregate=aggregate)
    ensemble = randomized(spec, m, d_heads, seed)
    items = unit_items(1 if one_graph else len(d_heads), m, c, seed)
    found = outputs(ensemble, items)
    weight = torch.randn(found.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    (found * weight).sum().backward()
    for e, member in enumerate(members_of(ensemble)):
        expected = plain_outputs(spec, member, items[0 if one_graph else e])
        assert_same(found[e], expected, 1e-10, "outputs")
        (expected * weight[e]).sum().backward()
        for name in ensemble.trainable:
            gradient, known = ensemble.parameters[name].grad, member[name].grad
            assert gradient is not None
            assert known is not None
            assert_same(gradient[e], known, 1e-10, name)


@pytest.mark.parametrize("aggregate", ["max", "sum"])
def test_a_padded_member_is_what_it_is_unpadded(aggregate: Any) -> None:
    """Columns of zeros add nothing and have no gradient: they stay zero, and the rest trains as if they were not."""
    spec = KeyQueryChannel(n_heads=3, d_model=7, aggregate=aggregate)
    items = unit_items(1, 9, 7, 1)
    signs = torch.where(torch.eye(9).roll(1, 0) > 0, 1.0, -1.0).double()
    padded, plain = ensemble_of(spec, 9, [2], padded_to=6), ensemble_of(spec, 9, [2])
    for ensemble in (padded, plain):
        adam = Adam(ensemble.trainable, Training(beta2=0.99))
        for _ in range(20):
            loss = -torch.nn.functional.logsigmoid(signs * outputs(ensemble, items)).sum()
            torch.autograd.backward(loss)
            adam.step(0.05)
    for name in ("query", "key"):
        assert padded.parameters[name].shape[-1] == 6
        assert (padded.parameters[name][..., 2:] == 0).all()
        assert (padded.parameters[name][..., :2] != 0).all()
        assert_same(padded.parameters[name][..., :2], plain.parameters[name], 1e-10, name)
    assert_same(outputs(padded, items), outputs(plain, items), 1e-10, "outputs")


def test_first_scale_and_threshold() -> None:
    spec = KeyQueryChannel(n_heads=4, d_model=5)
    ensemble = ensemble_of(spec, 32, [3, 9])
    assert ensemble.parameters["threshold"][:, 0].tolist() == pytest.approx(
        [math.log(32) + math.sqrt(2 * math.log(4))] * 2
    )
    assert ensemble.shared(unit_items(1, 4, 5, 0))["scale"][:, 0].tolist() == pytest.approx([1 / math.sqrt(3), 1 / 3])


def test_first_weights_are_standard_normal() -> None:
    ensemble = ensemble_of(KeyQueryChannel(n_heads=8, d_model=64), 32, [32])
    for name in ("query", "key"):
        entries = ensemble.parameters[name].detach().flatten()
        assert abs(entries.mean()) < 4 / math.sqrt(len(entries))
        assert entries.std() == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("aggregate", ["max", "sum"])
@pytest.mark.parametrize("n_heads", [1, 3])
def test_parameters_are_counted_without_building(aggregate: Any, n_heads: int) -> None:
    spec = KeyQueryChannel(n_heads=n_heads, d_model=7, d_head=5, aggregate=aggregate)
    assert spec.parameter_counts(n_items=6) == ensemble_of(spec, 6, [5, 5]).parameter_counts()
    assert spec.parameter_counts(n_items=6)["trainable"] == 2 * 7 * n_heads * 5 + 2


def test_the_widest_activation() -> None:
    assert KeyQueryChannel(n_heads=4, aggregate="max").floats_per_row(Relations(n_items=20).sizes(), "all") == 80
    assert KeyQueryChannel(n_heads=4, aggregate="sum").floats_per_row(Relations(n_items=20).sizes(), "all") == 20
