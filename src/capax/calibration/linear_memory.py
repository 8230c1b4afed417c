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
from scipy.optimize import brentq, nnls
from scipy.special import betainc, roots_gegenbauer
from scipy.stats import chi2

from capax.calibration.pairs import recalls_all
from capax.calibration.system import KnownCapacity, Slack, System, one_by_one, sampling, search
from capax.specs import Training

# narrowest margin that a training need resolve, where W e_x has entries of variance 1
MARGIN = 0.03
# Cross-entropy is below ln 2 / p, so that no pair can be wrong, once W is ln(p² / ln 2) / margin times that scale: 290,
# for p = 65. Adam moves a weight by lr a step: lr · steps / 2 = 1000.
TRAINING = Training(lr=1.0, schedule="cosine", warmup=0.01, max_steps=2000, eval_steps=100)
TRAINED_WIDTH, EXACT_WIDTH = 0.1, 0.02
DRAWS = 4000


def limit(d_model: int) -> float:
    """The p of p ln p = d²/2."""
    return float(brentq(lambda p: p * math.log(p) - d_model**2 / 2, 1.0, d_model**2 + 2.0))


def _known(value: float, d_model: int, formula: str, source: str) -> KnownCapacity:
    """A value derived here, with the field's limit."""
    return KnownCapacity(
        value=value,
        formula=formula,
        source=source,
        standing="derived",
        limit=limit(d_model),
        limit_formula="p ln p = d²/2",
        limit_source="arXiv 2605.10795",
        limit_standing="secondary",
    )


def unit(generator: np.random.Generator, *shape: int) -> np.ndarray:
    """Random vectors of norm 1, along the last axis."""
    vectors = generator.standard_normal(shape)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def share_recalled(p: float, d_model: int) -> float:
    """Probability that a pair is recalled by W of least squares, p > d.

    W e_x = v = h u_x + r, where h = d/p is the share h_xx of the projection on the inputs' span and r = Σ_z≠x h_xz u_z
    is Gaussian with the variance σ² = (h − h²)/d a channel. The pair's output scores s = h + u_x · r, another
    u_y · v + h_xy, of which s has the share h_xy u_x · u_y: it is beaten where |v| c + (1 − s²/|v|²) h_xy > s. Here
    h_xy = √(d/p) √(h − h²) c', and c, c' are cosines of random directions in d dimensions: their tails are lighter than
    Gaussian ones, which at such p counts for several percent of the capacity.
    """
    h = d_model / p
    spread = math.sqrt((h - h**2) / d_model)
    normals, normal_weights = np.polynomial.hermite_e.hermegauss(40)
    squares = chi2.ppf((np.arange(16) + 0.5) / 16, d_model - 1)
    cosines, cosine_weights = roots_gegenbauer(60, (d_model - 2) / 2)
    score = (h + spread * normals)[:, None, None]
    size = np.sqrt(score**2 + spread**2 * squares[:, None])
    direct = (1 - (score / size) ** 2) * spread * d_model / math.sqrt(p) * cosines
    below = _cosine_below((score - direct) / size, d_model) @ (cosine_weights / cosine_weights.sum())
    return float(normal_weights @ (below ** (p - 1)).mean(1) / normal_weights.sum())


def _cosine_below(value: np.ndarray, d_model: int) -> np.ndarray:
    """P(cosine of a random direction < value)."""
    return np.asarray(0.5 + 0.5 * np.sign(value) * betainc(0.5, (d_model - 1) / 2, np.minimum(value**2, 1)))


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
        known=_known(
            float(brentq(lambda p: share_recalled(p, d_model) - 0.5, d_model + 1.0, 2.0 * d_model**2)),
            d_model,
            "E_v[P(|v| c + (1 − s²/|v|²) √((h − h²) d/p) c' < s)^(p − 1)] = 1/2, h = d/p, v = h u + r, s = u · v",
            "capax: leverages h, and cosines c of random directions",
        ),
        slack=(
            sampling(EXACT_WIDTH),
            Slack(2 / d_model, "theory: leverages and the length of W e_x vary; terms of order 1/d, one of each"),
        ),
        measure=search(name, one_by_one(name, half), first_size=d_model, largest_size=d_model**2, width=EXACT_WIDTH),
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
    found = brentq(lambda u: math.exp(u) * float(np.polyval(curve, u)) - d_model**2, lowest, highest)
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
        known=_known(
            value,
            d_model,
            "p δ(p) = d², δ: statistical dimension of the polar of {v: (u_x − u_y)·v ≥ 0 for all y}",
            "capax: a random subspace against p cones (Amelunxen et al. 2014)",
        ),
        slack=(
            sampling(TRAINED_WIDTH),
            Slack(1 / d_model, "theory: the cones share their outputs; terms of order 1/d"),
            Slack(
                1 - capacity(d_model, MARGIN) / value,
                f"training: margins under {MARGIN} need not be found (the same formula with them)",
            ),
        ),
        measure=search(
            name,
            lambda pairs, seed: recalls_all(pairs, d_model, training, name, seed),
            first_size=d_model,
            largest_size=d_model**2,
            width=TRAINED_WIDTH,
            max_trials=400,
        ),
    )
