"""The perceptron: 2 random patterns per weight (Cover 1965, Gardner 1988), by training and by linear programming.

Attention over a context of one token gives it the weight 1, whatever query and key are: the layer is then
f = W_Oᵀ W_Vᵀ E, linear in the token, and the arg-max of its two outputs the sign of w · x with any w in d channels.
Of the 2^p ways to label p points in general position 2 Σ_{k<d} C(p − 1, k) can be had so: half of them at p = 2d, for
every d. So the 50 % point of success is 2d exactly, of the trained layer as of a learner that never misses a solution.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from scipy.stats import norm

from capax.calibration.system import KnownCapacity, Measured, Slack, System, one_by_one, sampling, search
from capax.protocols.measure import measure
from capax.results import Search
from capax.specs import Associations, AssociativeAttention, Mls, Training
from capax.specs.spec import whole
from capax.tasks.associations import draw

# narrowest margin that a training need resolve, in standard deviations of w · x at |w| = 1
MARGIN = 0.03
# Cross-entropy is below ln 2 / p, so that no pattern can be wrong, once |w| is ln(p / ln 2) / margin: 8 per weight and
# standard deviation for p = 2d = 32 and a margin of 0.03, 32 for each of the 16 weights. Adam moves a weight by lr a
# step: lr · steps / 2 = 300.
TRAINING = Training(lr=0.3, schedule="cosine", warmup=0.01, max_steps=2000, batch_size=4096, eval_steps=100)
TRAINED_WIDTH, EXACT_WIDTH = 0.1, 0.05


def task(library_size: int) -> Associations:
    """Random points of normal entries, each with one of two classes."""
    return Associations(
        context_size=1, contexts="fresh", entries="normal", labels="classes", n_classes=2, library_size=library_size
    )


def known(d_model: int) -> KnownCapacity:
    """2d, exactly.

    Raises:
        SpecError: for a width that is none.
    """
    whole("d_model", d_model)
    return KnownCapacity(
        value=2.0 * d_model,
        formula="2 d_model",
        source="Cover 1965, Gardner 1988: exact at every size",
        standing="textbook",
    )


def narrow_margins(margin: float) -> float:
    """By which share the capacity is smaller when every pattern is to have a margin.

    Gardner 1988: p / d = 1 / ∫ Dt (t + margin)² over t > −margin, 2 at a margin of 0.
    """
    needed = (1 + margin**2) * norm.cdf(margin) + margin * norm.pdf(margin)
    return float(1 - 1 / (2 * needed))


def trained(d_model: int = 16, training: Training = TRAINING) -> System:
    """Attention over one token, trained and measured as any task by `capax.measure`.

    Raises:
        SpecError: for a width that is none.
    """
    whole("d_model", d_model)

    def measured(seed: int) -> Measured:
        run = measure(
            task(8 * d_model),
            AssociativeAttention(n_heads=1, d_model=d_model, d_head=1),
            training,
            protocol=Mls(first_size=d_model, seeds=32, max_trainings=400, interval_width=TRAINED_WIDTH),
            seed=seed,
        )
        assert isinstance(run.search, Search)
        assert run.interval is not None
        high = np.inf if run.interval.high is None else run.interval.high
        return Measured(run.search.threshold, run.interval.low, high, len(run.members), run.search.stop_reason)

    return System(
        name="perceptron",
        about=f"attention over one token, d_model {d_model}, two classes, trained: the library is recalled whole",
        protocol="measure, protocol mls",
        unit="patterns",
        known=known(d_model),
        slack=(
            sampling(TRAINED_WIDTH),
            Slack(
                narrow_margins(MARGIN), f"training: margins under {MARGIN} need not be found (Gardner's p/d at them)"
            ),
        ),
        measure=measured,
    )


def exact(d_model: int = 16) -> System:
    """Whether the same points can be separated at all, by linear programming: the search without a training.

    Raises:
        SpecError: for a width that is none.
    """
    whole("d_model", d_model)
    name = "perceptron-exact"

    def separable(size: int, generator: np.random.Generator) -> bool:
        examples = draw(task(size), size, d_model, generator)
        signed = examples.contexts[:, 0] * (2 * examples.labels[:, None] - 1)
        solution = linprog(np.zeros(d_model), A_ub=-signed, b_ub=-np.ones(size), bounds=(None, None), method="highs")
        return bool(solution.status == 0)

    return System(
        name=name,
        about=f"separability of points in {d_model} dimensions, by linear programming",
        protocol="threshold search",
        unit="patterns",
        known=known(d_model),
        slack=(sampling(EXACT_WIDTH),),
        measure=search(
            name, one_by_one(name, separable), first_size=d_model, largest_size=8 * d_model, width=EXACT_WIDTH
        ),
    )
