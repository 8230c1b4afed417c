"""The linear associative memory: p pairs of random unit vectors in d dimensions, x → y, by one matrix W of d × d.

A pair is recalled when, of all p outputs u_y, that of the pair scores highest against W e_x. The field quotes
p ln p = d²/2 for the best W and d → ∞. At sizes that can be measured the logarithm is far from its limit (p is 65, not
36, at d = 16), so both values used here are derived for finite d.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from jaxtyping import Float
from scipy.integrate import quad
from scipy.optimize import brentq, nnls
from scipy.stats import norm

from capax.calibration.linear_memory import recalls_all
from capax.calibration.ruler import Known, Part, System, one_by_one, sampling, search
from capax.specs import Training

MARGIN = 0.03
"""Narrowest margin that a training need resolve, where W e_x has entries of variance 1."""

TRAINING = Training(lr=0.5, schedule="cosine", warmup=0.01, max_steps=4000, eval_steps=100)
"""Cross-entropy is below ln 2 / p, so that no pair can be wrong, once W is ln(p² / ln 2) / margin times that scale: 290,
for p = 65. Adam moves a weight by lr a step: lr · steps / 2 = 1000."""

TRAINED_WIDTH, EXACT_WIDTH = 0.1, 0.02
DRAWS = 4000


def limit(d_model: int) -> float:
    """The p of p ln p = d²/2."""
    return float(brentq(lambda p: p * math.log(p) - d_model**2 / 2, 1.0, d_model**2 + 2.0))


def unit(generator: np.random.Generator, *shape: int) -> np.ndarray:
    """Random vectors of norm 1, along the last axis."""
    vectors = generator.standard_normal(shape)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def share_recalled(p: float, d_model: int) -> float:
    """Probability that a pair is recalled by W of least squares, p ≥ d.

    W e_x = Σ_z h_xz u_z with h the projection on the span of the inputs: h = h_xx = d/p and Σ_z≠x h_xz² = h − h². The
    pair's output scores h plus noise of variance (h − h²)/d, each other noise of variance
    (h − h²)/(p − 1) + (h² + (h − h²)(p − 2)/(p − 1))/d, taken as Gaussian and independent.
    """
    h = d_model / p
    rest = h - h**2
    own = math.sqrt(rest / d_model)
    other = math.sqrt(rest / (p - 1) + (h**2 + rest * (p - 2) / (p - 1)) / d_model)

    def given(z: float) -> float:
        return math.exp((p - 1) * norm.logcdf((h + own * z) / other)) * float(norm.pdf(z))

    return quad(given, -8, 8, limit=200)[0]


def least_squares(d_model: int = 64) -> System:
    """W of least squares recalls half of the pairs."""
    name = "memory-least-squares"

    def half(size: int, generator: np.random.Generator) -> bool:
        inputs, outputs = unit(generator, size, d_model), unit(generator, size, d_model)
        memory = np.linalg.lstsq(inputs, outputs, rcond=None)[0]
        scores = inputs @ memory @ outputs.T
        return bool(2 * (scores.argmax(1) == np.arange(size)).sum() >= size)

    return System(
        name=name,
        about=f"linear memory, d_model {d_model}, least squares: half of the pairs are recalled",
        protocol="threshold search",
        unit="pairs",
        known=Known(
            float(brentq(lambda p: share_recalled(p, d_model) - 0.5, d_model + 1.0, 2.0 * d_model**2)),
            "∫ φ(z) Φ((h + σ z)/σ')^(p − 1) dz = 1/2, h = d/p, σ² = (h − h²)/d, σ'² as in docs/calibration.md",
            "capax: leverages and their noise",
            "derived",
            limit(d_model),
            "p ln p = d²/2",
            "arXiv 2605.10795",
            "secondary",
        ),
        parts=(
            sampling(EXACT_WIDTH),
            Part(2 / d_model, "theory: leverages and the length of W e_x vary; terms of order 1/d, one of each"),
        ),
        measure=lambda seed: search(
            name,
            one_by_one(name, half),
            seed,
            first_size=d_model,
            largest_size=d_model**2,
            width=EXACT_WIDTH,
        ),
    )


def cost(p: int, d_model: int, margin: float = 0.0, draws: int = DRAWS) -> float:
    """Mean squared distance of a Gaussian vector g in d dimensions to the vectors v that recall one pair.

    These are (u_x − u_y) · v ≥ margin for the p − 1 others y: for a margin of 0 a cone, and the distance that from g to
    it: the statistical dimension of its polar cone. Each distance is a least-distance problem, solved by non-negative
    least squares (Lawson and Hanson 1974, chapter 23); draws are from a fixed seed.
    """
    generator = np.random.default_rng([p, d_model])
    total = 0.0
    for _ in range(draws):
        outputs, g = unit(generator, p, d_model), generator.standard_normal(d_model)
        total += _squared_distance(outputs[0] - outputs[1:], margin, g)
    return total / draws


def _squared_distance(
    rows: Float[np.ndarray, "others channels"], margin: float, g: Float[np.ndarray, " channels"]
) -> float:
    """Of g to the points v with rows · v ≥ margin."""
    system = np.vstack([rows.T, margin - rows @ g])
    last = np.zeros(len(system))
    last[-1] = 1
    left = system @ nnls(system, last)[0] - last
    step = left[:-1] / left[-1]
    return float(step @ step)


@cache
def capacity(d_model: int, margin: float = 0.0, draws: int = DRAWS) -> float:
    """The p with p · cost(p) = d²: the 50 % point of whether any W recalls all pairs.

    The W that recall pair x are those with W e_x in its cone. Random inputs turn the p cones against the d²-dimensional
    space of W as at random, and a random subspace of dimension D meets a cone when D is more than the statistical
    dimension of its polar one (Amelunxen et al. 2014), p · cost(p) for p cones. For a perceptron, one inequality a
    pattern, it is Cover's: cost 1/2, p = 2d.
    """
    sizes = np.unique(np.geomspace(d_model, d_model**2, 6).astype(int))
    costs = [cost(int(p), d_model, margin, draws) for p in sizes]
    curve = np.polyfit(np.log(sizes), costs, 2)
    lowest, highest = math.log(sizes[0]), math.log(sizes[-1])
    found = brentq(lambda u: math.exp(u) * np.polyval(curve, u) - d_model**2, lowest, highest)
    return math.exp(float(found))


def trained(d_model: int = 16, training: Training = TRAINING) -> System:
    """W trained by Adam on cross-entropy recalls all pairs."""
    name = "memory-trained"
    value = capacity(d_model)
    return System(
        name=name,
        about=f"linear memory, d_model {d_model}, trained on cross-entropy: all pairs are recalled",
        protocol="threshold search, a training each",
        unit="pairs",
        known=Known(
            value,
            "p δ(p) = d², δ: statistical dimension of the polar of {v: (u_x − u_y)·v ≥ 0 for all y}",
            "capax: a random subspace against p cones (Amelunxen et al. 2014)",
            "derived",
            limit(d_model),
            "p ln p = d²/2",
            "arXiv 2605.10795",
            "secondary",
        ),
        parts=(
            sampling(TRAINED_WIDTH),
            Part(1 / d_model, "theory: the cones share their outputs; terms of order 1/d"),
            Part(
                1 - capacity(d_model, MARGIN) / value,
                f"training: margins under {MARGIN} need not be found (the same formula with them)",
            ),
        ),
        measure=lambda seed: search(
            name,
            lambda pairs, of: recalls_all(pairs, d_model, training, name, of),
            seed,
            first_size=d_model,
            largest_size=d_model**2,
            width=TRAINED_WIDTH,
            max_trials=400,
        ),
    )
