"""The ensemble of attention layers against plain computations, and what an ensemble promises."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import assert_same
from torch import Tensor

from capax.models.associative import AssociativeEnsemble
from capax.models.operations import sinusoids
from capax.specs import Associations, AssociativeAttention

PROFILES = pytest.mark.parametrize("profile", ["plain", "mahdavi2024"])
Member = dict[str, Tensor]


def randomized(spec: AssociativeAttention, n_outputs: int, members: int, seed: int = 0) -> AssociativeEnsemble:
    generators = [torch.Generator().manual_seed(seed + member) for member in range(members)]
    return AssociativeEnsemble.initialize(spec, {"n_outputs": n_outputs}, generators=generators, dtype=torch.float64)


def plain_outputs(spec: AssociativeAttention, member: Member, queries: Tensor, contexts: Tensor) -> Tensor:
    """Outputs `(b, o)` of one member as published: every position asks, nobody attends to the query, the first is read.

    Layers before the last add what they give to what they were given.

    Args:
        queries: `(b, c)`.
        contexts: `(b, n, c)`.
    """
    x = torch.cat([queries[:, None], contexts], 1)
    scale = 1.0
    if spec.profile == "mahdavi2024":
        x = x @ member["embedding"] + member["embedding_bias"]
        for position in range(x.shape[1]):
            for channel in range(spec.d_model):
                angle = position / 10_000 ** (channel // 2 * 2 / spec.d_model)
                x[:, position, channel] += math.cos(angle) if channel % 2 else math.sin(angle)
        scale = 1 / math.sqrt(spec.d_model)

    def layer(prefix: str, x: Tensor) -> Tensor:
        total: Any = 0.0
        query, key, value, out = (member[prefix + name] for name in ("query", "key", "value", "out"))
        for head in range(spec.n_heads):
            scores = (x @ query[head]) @ (x @ key[head]).mT * scale
            scores[:, :, 0] = -math.inf
            weights = torch.exp(scores - scores.amax(-1, keepdim=True))
            weights = weights / weights.sum(-1, keepdim=True)
            total = total + weights @ (x @ value[head]) @ out[head]
        return total  # type: ignore[no-any-return]

    for place in range(spec.n_layers - 1):
        x = x + layer(f"layers.{place}.", x)
    total = layer("", x)
    if spec.profile == "mahdavi2024":
        total = total @ member["readout"] + member["readout_bias"]
    return total[:, 0]


def members_of(ensemble: AssociativeEnsemble) -> list[Member]:
    return [
        {name: p[e].detach().clone().requires_grad_() for name, p in ensemble.parameters.items()}
        for e in range(ensemble.n_members)
    ]


def examples(members: int, b: int, n: int, c: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    one_context = torch.rand(members, n, c, generator=generator, dtype=torch.float64)
    queries = torch.rand(members, b, c, generator=generator, dtype=torch.float64)
    own = torch.rand(members, b, n, c, generator=generator, dtype=torch.float64)
    return queries, own, one_context


def outputs(ensemble: AssociativeEnsemble, queries: Tensor, contexts: Tensor, shared: bool) -> Tensor:
    """Of examples that share a context `(e, n, c)`, or have one each `(e, b, n, c)`."""
    parts = ensemble.shared(queries.shape[1], contexts.shape[-2], contexts if shared else None)
    return ensemble.outputs(queries, None if shared else contexts, parts)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    profile=st.sampled_from(["plain", "mahdavi2024"]),
    shared=st.booleans(),
    n_heads=st.integers(1, 4),
    c=st.integers(1, 9),
    d=st.integers(1, 12),
    v=st.sampled_from([None, 1, 2, 5]),
    n=st.integers(1, 12),
    b=st.sampled_from([1, 3, 40]),
    n_outputs=st.integers(1, 6),
    n_layers=st.integers(1, 3),
    members=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_every_path_equals_the_published_computation(
    profile: Any, shared: bool, n_heads: int, c: int, d: int, v: int | None, n: int, b: int, n_outputs: int,
    n_layers: int, members: int, seed: int,
) -> None:  # fmt: skip
    """Outputs, and gradients of a loss, in whatever order it is contracted."""
    spec = AssociativeAttention(n_layers=n_layers, n_heads=n_heads, d_model=c, d_head=d, d_value=v, profile=profile)
    ensemble = randomized(spec, n_outputs, members, seed)
    queries, own, one_context = examples(members, b, n, c, seed)
    found = outputs(ensemble, queries, one_context if shared else own, shared)
    weight = torch.randn(found.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    (found * weight).sum().backward()
    for e, member in enumerate(members_of(ensemble)):
        contexts = one_context[e].expand(b, -1, -1) if shared else own[e]
        expected = plain_outputs(spec, member, queries[e], contexts)
        assert_same(found[e], expected, 1e-10, "outputs")
        (expected * weight[e]).sum().backward()
        for name, parameter in member.items():
            gradient = ensemble.parameters[name].grad
            assert gradient is not None
            assert_same(gradient[e], parameter.grad if parameter.grad is not None else 0 * parameter, 1e-10, name)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_the_published_size(shared: bool) -> None:
    """Loss and gradients at the size of the benchmark, in float64."""
    spec = AssociativeAttention(n_heads=20, d_model=64, d_head=64, profile="mahdavi2024")
    ensemble = randomized(spec, 100, 1)
    queries, own, one_context = examples(1, 48, 32, 64, 5)
    labels = torch.randint(100, (48,), generator=torch.Generator().manual_seed(1))
    loss = F.cross_entropy(outputs(ensemble, queries, one_context if shared else own, shared)[0], labels)
    loss.backward()
    (member,) = members_of(ensemble)
    expected = F.cross_entropy(
        plain_outputs(spec, member, queries[0], one_context.expand(48, -1, -1) if shared else own[0]), labels
    )
    expected.backward()
    assert_same(loss, expected, 1e-10, "loss")
    for name, parameter in member.items():
        gradient = ensemble.parameters[name].grad
        assert gradient is not None
        assert parameter.grad is not None
        assert_same(gradient[0], parameter.grad, 1e-10, name)


@pytest.mark.parametrize(("n_heads", "d_head", "d_value", "n"), [(1, 7, 4, 5), (3, 6, 2, 7), (4, 2, 5, 3)])
def test_equals_torchs_multi_head_attention(n_heads: int, d_head: int, d_value: int, n: int) -> None:
    """The plain layer in torch's own: heads padded with zeros to one size, its scale √size taken into the queries."""
    spec = AssociativeAttention(n_heads=n_heads, d_model=6, d_head=d_head, d_value=d_value)
    ensemble = randomized(spec, 3, 1)
    queries, own, _ = examples(1, 10, n, 6, 2)
    size = max(d_head, d_value, math.ceil(6 / n_heads))
    width = n_heads * size
    with torch.random.fork_rng():
        layer = torch.nn.MultiheadAttention(width, n_heads, bias=False, kdim=6, vdim=6, batch_first=True).double()

    def heads_padded(matrix: Tensor) -> Tensor:
        return F.pad(matrix, (0, size - matrix.shape[-1])).transpose(0, 1).reshape(6, width)

    query, key, value, out = (ensemble.parameters[name][0].detach() for name in ("query", "key", "value", "out"))
    with torch.no_grad():
        assert layer.q_proj_weight is not None
        assert layer.k_proj_weight is not None
        assert layer.v_proj_weight is not None
        layer.q_proj_weight.zero_()
        layer.q_proj_weight[:, :6] = heads_padded(query * math.sqrt(size)).T
        layer.k_proj_weight.copy_(heads_padded(key).T)
        layer.v_proj_weight.copy_(heads_padded(value).T)
        layer.out_proj.weight.zero_()
        layer.out_proj.weight[:3] = F.pad(out, (0, 0, 0, size - d_value)).reshape(width, 3).T
        asked = F.pad(queries[0][:, None], (0, width - 6))
        found = layer(asked, own[0], own[0], need_weights=False)[0][:, 0, :3]
        assert_same(outputs(ensemble, queries, own, False)[0], found, 1e-12, "outputs")


@PROFILES
def test_attention_is_a_distribution_over_the_context(profile: Any) -> None:
    ensemble = randomized(AssociativeAttention(n_heads=3, d_model=5, d_head=4, profile=profile), 3, 2)
    queries, own, _ = examples(2, 7, 4, 5, 0)
    weights = ensemble.attention(queries, own, ensemble.shared(7, 4))
    assert weights.shape == (2, 7, 3, 4)
    assert (weights > 0).all()
    assert torch.allclose(weights.sum(-1), torch.ones(2, 7, 3, dtype=torch.float64))


def test_the_plain_layer_does_not_see_the_order_of_its_context_and_the_published_one_does() -> None:
    queries, own, _ = examples(1, 7, 4, 5, 0)
    turned = own[:, :, [2, 0, 3, 1]]
    for profile, same in (("plain", True), ("mahdavi2024", False)):
        ensemble = randomized(AssociativeAttention(n_heads=2, d_model=5, profile=profile), 3, 1)  # type: ignore[arg-type]
        one, other = (outputs(ensemble, queries, contexts, False) for contexts in (own, turned))
        assert torch.allclose(one, other, atol=1e-12) is same


def test_parameters_of_the_theory_and_of_the_experiments() -> None:
    theory = AssociativeAttention(n_heads=8, d_model=64, d_head=32)
    assert (
        theory.parameter_counts(n_outputs=64)["trainable"] == 98_304
    )  # [D] in the notes' table: H(2·d·d_h + d·d_v + d_v·d)
    published = AssociativeAttention(n_heads=20, d_model=64, d_head=64, profile="mahdavi2024")
    assert published.parameter_counts(n_outputs=100)["trainable"] == 20 * (2 * 64 * 64 + 2 * 64) + 65 * 64 + 65 * 100


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "n_outputs"),
    [
        ({"n_heads": 1, "d_head": 3}, 2),
        ({"n_heads": 2, "d_head": 2, "d_value": 1}, 5),
        ({"n_heads": 1, "d_head": 2, "n_layers": 2}, 3),
        pytest.param({"n_heads": 2, "d_head": 6, "d_value": 3, "n_layers": 2}, 1, marks=pytest.mark.very_slow),
        ({"n_heads": 2, "d_head": 1, "d_value": 5, "n_layers": 3}, 2),
    ],
    ids=str,
)
def test_effective_parameters_of_the_plain_model_are_what_its_outputs_can_tell_of(
    options: dict[str, Any], n_outputs: int
) -> None:
    """The rank of the derivative of its outputs, by everything trained."""
    spec = AssociativeAttention(d_model=4, **options)
    ensemble = randomized(spec, n_outputs, 1)
    names = list(ensemble.parameters)
    b = 2 * spec.parameter_counts(n_outputs=n_outputs)["trainable"] // n_outputs + 1
    queries, own, _ = examples(1, b, 3, 4, 3)

    def said(*values: Tensor) -> Tensor:
        changed = AssociativeEnsemble(spec, dict(zip(names, values, strict=True)))
        return outputs(changed, 4 * queries - 2, 4 * own - 2, False).flatten()

    given = tuple(parameter.detach() for parameter in ensemble.parameters.values())
    derivatives = torch.func.jacrev(said, argnums=tuple(range(len(names))))(*given)
    whole = torch.cat([one.flatten(1) for one in derivatives], 1)
    values = torch.linalg.svdvals(whole / whole.norm(dim=0))
    assert spec.effective_parameters(n_outputs=n_outputs) == int((values > 1e-9 * values[0]).sum())


def test_layers_that_add_nothing_change_nothing() -> None:
    """Two layers whose first writes zeros are one layer; a first that writes changes what the last one answers."""
    one = randomized(AssociativeAttention(n_heads=2, d_model=5, d_head=4), 3, 1)
    deep = randomized(AssociativeAttention(n_heads=2, d_model=5, d_head=4, n_layers=2), 3, 1)
    first = {name: tensor for name, tensor in deep.parameters.items() if "layers." in name}
    queries, own, one_context = examples(1, 7, 4, 5, 0)
    for shared, contexts in ((True, one_context), (False, own)):
        expected = outputs(one, queries, contexts, shared)
        silent = AssociativeEnsemble(deep.spec, one.parameters | first | {"layers.0.out": 0 * first["layers.0.out"]})
        assert_same(outputs(silent, queries, contexts, shared), expected, 1e-12, "outputs")
        speaking = AssociativeEnsemble(deep.spec, one.parameters | first)
        assert not torch.allclose(outputs(speaking, queries, contexts, shared), expected, atol=1e-3)


def test_operations_count_the_layers_that_update_each_examples_tokens() -> None:
    one, two = AssociativeAttention(n_heads=2, d_model=6), AssociativeAttention(n_heads=2, d_model=6, n_layers=2)
    shared, fresh = Associations().sizes(), Associations(contexts="fresh").sizes()
    first = two.parameter_counts(n_outputs=100)["trainable"] - one.parameter_counts(n_outputs=100)["trainable"]
    assert one.operations(fresh, "all") == one.operations(shared, "all")
    assert two.operations(shared, "all") - one.operations(shared, "all") == 6 * first
    assert two.operations(fresh, "all") - one.operations(fresh, "all") == 6 * first * 33


def test_sinusoids_turn_with_the_position() -> None:
    """A shift by one position is one rotation of every pair of channels, whatever the position."""
    table = sinusoids(9, 6, torch.float64, torch.device("cpu"))
    pairs = torch.complex(table[:, 1::2], table[:, ::2])
    assert torch.allclose(pairs.abs(), torch.ones(9, 3, dtype=torch.float64))
    turns = pairs[1:] / pairs[:-1]
    assert torch.allclose(turns, turns[:1].expand(8, 3))


def test_the_widest_activation() -> None:
    spec = AssociativeAttention(n_heads=20, d_model=64, profile="mahdavi2024")
    assert spec.floats_per_row(Associations().sizes(), "all") == 20 * 32
    assert spec.floats_per_row(Associations(contexts="fresh").sizes(), "all") == 32 * 64
