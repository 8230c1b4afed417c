"""How much the gradients of single items differ: the simple noise scale, an estimate of the batch size that pays.

McCandlish et al. 2018 (arXiv 1812.06162): B_simple = tr(Σ) / |G|², with G the gradient of the loss over the library and
Σ the covariance of single items' gradients. Steps with far smaller batches are mostly noise; far larger ones bring
hardly more than a batch of B_simple.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field
from scipy import stats
from torch import Tensor

from capax.models.transformer import TransformerEnsemble
from capax.results import LEVEL, Result
from capax.seeds import numpy_generator
from capax.tasks.tokens import TokenLibrary

ITEMS = 1000
"""Items of a larger library that are drawn."""
GROUPS = 20
"""Groups of drawn items that are left out in turn, for the interval."""
NUMBERS_AT_ONCE = 2**22
"""Numbers that the gradients of single items may hold at once: 32 MB in float64."""


class NoiseScale(Result):
    """B_simple of one state of the weights, with what it is the ratio of."""

    scale: Annotated[float | None, Field(description="tr(Σ)/|G|², in items; None where |G|² is not found above 0.")]
    low: Annotated[float, Field(description="Of the 95 % interval; the scale itself where all items are taken.")]
    high: Annotated[float | None, Field(description="None where the interval has no end.")]
    noise: Annotated[float, Field(description="tr(Σ): the squared deviations of single items' gradients, on the mean.")]
    signal: Annotated[float, Field(description="|G|²: the squared gradient over the library; unbiased.")]


class GradientNoiseProbe(Result):
    """The gradient noise of a run's weights, before and after training."""

    items: Annotated[int, Field(description="Of the library, whose gradients were taken.")]
    batch_size: Annotated[int, Field(description="Of the run; at most its library.")]
    initial: Annotated[NoiseScale | None, Field(description="Before training; None where it cannot be drawn again.")]
    trained: NoiseScale


def noise_and_signal(small: float, b: int, large: float, n: int, population: float) -> tuple[float, float]:
    """Unbiased tr(Σ) and |G|² from the squared gradients of batches of two sizes, b < n.

    Batches are drawn without replacement, as in an epoch: E|G_b|² = |G|² + (1/b − 1/M) tr(Σ), where Σ has the divisor
    M − 1. For an endless population it is that of McCandlish et al. 2018, appendix A.1.

    Args:
        small, large: mean |G_b|² and |G_n|².
        population: M, items that batches are drawn from; infinite where there is no end of them.
    """
    noise = (small - large) / (1 / b - 1 / n)
    return noise, large - (1 / n - 1 / population) * noise


def noise_scale(
    sums: Float[np.ndarray, "groups parameters"],
    squares: Float[np.ndarray, " groups"],
    counts: Int[np.ndarray, " groups"],
    population: float,
) -> NoiseScale:
    """The noise scale from groups of drawn items, by batches of one item and of all.

    The interval is Fieller's for a ratio, from the covariance of numerator and denominator by a jackknife over groups;
    a draw of the whole population leaves nothing to chance.

    Args:
        sums: of the gradients of each group's items.
        squares: of their squared lengths.
        counts: items of each group, at least 2 in all.
        population: items that they were drawn from; infinite where there is no end of them.
    """
    total, square, n = sums.sum(0), float(squares.sum()), int(counts.sum())

    def of(total: np.ndarray, square: float, n: int) -> tuple[float, float]:
        return noise_and_signal(square / n, 1, float(total @ total) / n**2, n, population)

    noise, signal = of(total, square, n)
    scale = noise / signal if signal > 0 else None
    low, high = 0.0 if scale is None else scale, scale
    if n < population:
        left = np.array([of(total - s, square - q, n - int(k)) for s, q, k in zip(sums, squares, counts, strict=True)])
        groups = len(left)
        covariance = (groups - 1) ** 2 / groups * np.cov(left.T) * (1 - n / population)
        low, high = _fieller(noise, signal, covariance, float(stats.t.ppf((1 + LEVEL) / 2, groups - 1)))
    return NoiseScale(scale=scale, low=low, high=high, noise=noise, signal=signal)


def _fieller(
    above: float, below: float, covariance: Float[np.ndarray, "2 2"], quantile: float
) -> tuple[float, float | None]:
    """The ratios, from 0 on, that two numbers with errors do not exclude; without an end where `below` may be 0."""
    (v, w), (_, u) = quantile**2 * covariance
    a, b, c = below**2 - u, above * below - w, above**2 - v
    if a > 0 and below < 0:
        return 0.0, None  # far below what it can be: they exclude nothing
    root = math.sqrt(max(b**2 - a * c, 0.0))
    return 0.0 if c <= 0 else (b - root) / a, (b + root) / a if a > 0 else None


def item_gradients(
    model: TransformerEnsemble, library: TokenLibrary, rows: Int[Tensor, " items"]
) -> Iterator[Float[Tensor, "some parameters"]]:
    """The gradient of each item's loss, in float64, in parts of several items: each is a member with the same weights.

    The loss is that of training, without dropout.
    """
    tensors = {name: p.detach()[:1].double() for name, p in model.parameters.items()}
    trained = [one.name for one in model.spec.parameters(**library.spec.sizes()) if one.trained]
    size = sum(tensors[name].numel() for name in trained)
    for some in rows.split(max(1, NUMBERS_AT_ONCE // size)):
        copies = {
            name: p.repeat_interleave(len(some), 0).requires_grad_(name in trained) for name, p in tensors.items()
        }
        members = TransformerEnsemble(model.spec, copies)
        batch = library.batch(some[:, None])
        outputs = library.outputs(members, batch, "loss", library.shared(members, "loss", 1))
        losses = library.losses(outputs, batch, torch.ones(len(some), 1, dtype=torch.float64))
        gradients = torch.autograd.grad(losses.sum(), [copies[name] for name in trained])
        yield torch.cat([gradient.flatten(1) for gradient in gradients], 1)


def gradient_noise_probe(
    model: TransformerEnsemble,
    initial: TransformerEnsemble | None,
    task: Any,
    items: Int[np.ndarray, "items seq_len"],
    batch_size: int,
    seed: int,
) -> GradientNoiseProbe | None:
    """The noise scale over the library, before training and after; None for a library of one item.

    Args:
        initial: the model before training, where it can be drawn again.
        batch_size: of the run's training.
        seed: of the items that are drawn from a library of more than `ITEMS`.
    """
    size = len(items)
    if size < 2:
        return None
    drawn = numpy_generator(seed, "probe gradient noise").permutation(size)[:ITEMS]
    library = task.library_type()(task, torch.from_numpy(items)[None], (size,))

    def measured(model: TransformerEnsemble) -> NoiseScale:
        sums, squares, counts = [], [], []
        for group in np.array_split(drawn, min(GROUPS, len(drawn))):
            total, square = torch.zeros(1, dtype=torch.float64), 0.0
            for gradients in item_gradients(model, library, torch.from_numpy(group)):
                total, square = total + gradients.sum(0), square + float(gradients.square().sum())
            sums.append(total.numpy())
            squares.append(square)
            counts.append(len(group))
        return noise_scale(np.array(sums), np.array(squares), np.array(counts), size)

    return GradientNoiseProbe(
        items=len(drawn),
        batch_size=min(batch_size, size),
        initial=None if initial is None else measured(initial),
        trained=measured(model),
    )
