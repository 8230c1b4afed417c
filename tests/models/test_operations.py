"""What is faster equals torch's own, gradients too, and does not depend on what is computed beside it."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from capax.models import operations
from capax.models.operations import (
    LANES,
    ByMatrix,
    cross_entropy,
    gelu,
    looked_up,
    positive,
    sigmoid,
    silu,
    softmax,
    softplus,
)


def random(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=dtype)


def alike(ours: Callable[[Tensor], Tensor], torchs: Callable[[Tensor], Tensor], x: Tensor) -> None:
    x.requires_grad_()
    found, expected = ours(x), torchs(x)
    weight = random(*expected.shape)
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)
    gradients = [torch.autograd.grad((result * weight).sum(), x)[0] for result in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("n", [1, 2, 7, LANES - 1, LANES, 40])
def test_softmax(n: int) -> None:
    future = torch.full((n, n), -torch.inf, dtype=torch.float64).triu(1)
    alike(softmax, lambda x: x.softmax(-1), 30 * random(2, 3, n))
    alike(lambda x: softmax(x + future), lambda x: (x + future).softmax(-1), random(2, n, n))


ELEMENTWISE: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "sigmoid": (sigmoid, torch.sigmoid),
    "silu": (silu, F.silu),
    "gelu": (gelu, F.gelu),
    "softplus": (softplus, F.softplus),
    "positive": (positive, lambda x: 1 + F.elu(x)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_functions_round_alike_in_any_pack(name: str, dtype: torch.dtype) -> None:
    ours, torchs = ELEMENTWISE[name]
    for n in (1, 3, 2 * LANES):
        alike(ours, torchs, 3 * random(2, 3, n))
        x = 3 * random(5, 7, n, dtype=dtype)
        five, two = x.clone().requires_grad_(), x[3:].clone().requires_grad_()
        found = [ours(one) for one in (five, two)]
        assert torch.equal(found[0][3:], found[1])
        first, second = (torch.autograd.grad(one.sum(), to)[0] for one, to in zip(found, (five, two), strict=True))
        assert torch.equal(first[3:], second)
    extreme = torch.tensor([[-1e4, -200.0, 0.0, 200.0, 1e4]], requires_grad=True)
    assert torch.autograd.grad(ours(extreme).sum(), extreme)[0].isfinite().all()


@pytest.mark.parametrize(("n", "parts"), [(0, 1), (1, 1), (7, 1), (10, 2), (24, 4), (35, 7), (37, 1)])
def test_a_gradient_of_parts_is_that_of_the_product(n: int, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a GPU forms it, in parts of at least as many rows as the matrix's longer side. It may be changed in place."""
    monkeypatch.setattr(operations, "PART_ROWS", 4)
    rows, matrix = random(3, n, 5), random(3, 5, 4)
    assert operations.parts_of(rows, matrix) == parts
    alike(lambda x: ByMatrix.apply(x, matrix), lambda x: x @ matrix, rows.clone())
    alike(lambda w: ByMatrix.apply(rows, w).add_(1), lambda w: rows @ w + 1, matrix.clone())


def test_looked_up() -> None:
    rows = torch.randint(5, (2, 3, 4), generator=torch.Generator().manual_seed(0))
    alike(lambda table: looked_up(table, rows), lambda table: F.embedding(rows, table), random(5, 3))


@pytest.mark.parametrize("scale", [1, 1000])
def test_cross_entropy(scale: float) -> None:
    targets = torch.randint(7, (2, 3, 4), generator=torch.Generator().manual_seed(0))

    def torchs(x: Tensor) -> Tensor:
        return F.cross_entropy(x.reshape(-1, 7), targets.flatten(), reduction="none").view(targets.shape)

    alike(lambda x: cross_entropy(x, targets), torchs, scale * random(2, 3, 4, 7))
    alike(lambda x: cross_entropy(x[:, :, ::2], targets[:, :, ::2]), lambda x: torchs(x)[:, :, ::2], random(2, 3, 4, 7))


def test_the_gradient_of_cross_entropy_is_there_once() -> None:
    """It is written over what the forward pass kept; a second backward pass says so."""
    scores = random(3, 5).requires_grad_()
    loss = cross_entropy(scores, torch.arange(3)).sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_rows_numbers_do_not_depend_on_its_place(dtype: torch.dtype) -> None:
    """To the last bit, as packs of members promise."""
    for n in (1, 3, 7, 15, 16, 33):
        x = random(37, n, dtype=dtype)
        targets = torch.arange(37) % n
        for rows in (slice(1, 2), slice(5, 36)):
            assert torch.equal(softmax(x)[rows], softmax(x[rows]))
            assert torch.equal(cross_entropy(x, targets)[rows], cross_entropy(x[rows], targets[rows]))
