"""How the claims of Mahdavi et al. 2024 are judged: by measurements, and by weights that are built."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.special import softmax

from capax.figures.accuracy import BELOW
from capax.papers import evidence as ev
from capax.papers.evidence import field
from capax.papers.recipe import Evidence, Scale, Unjudged, Verdict, cannot
from capax.results import Measurement
from capax.seeds import numpy_generator
from capax.tasks.association_files import Examples
from capax.theory.construct.associations import build, largest_library

LEAST_R2 = 0.98
# heads, tokens, channels and head size of the layers that are built
CONSTRUCTED: dict[Scale, tuple[tuple[int, int, int, int], ...]] = {
    "demo": ((1, 4, 6, 4), (4, 8, 16, 8), (8, 16, 32, 16)),
    "small": ((1, 4, 6, 4), (4, 8, 16, 8), (8, 16, 32, 16), (8, 32, 64, 32)),
    "paper": ((4, 8, 16, 8), (8, 32, 64, 32), (20, 32, 64, 32), (20, 32, 64, 10)),
}


def _quality(run: Measurement) -> float:
    """Accuracy above chance for classes; what of the labels' variance is explained for real ones, by the mean error."""
    if field(run, "labels") == "classes":
        return run.memorized_above_chance / run.library_size
    return 1 - 12 * run.metrics["mean_squared_error"]


def _of_each_library(of: Evidence, swept: str, judge: Callable[[list[int], list[float]], Verdict]) -> Verdict:
    """The verdict on sizes and qualities of the runs of each library size that tells something: the worst of them.

    Raises:
        Unjudged: where none does.
    """
    curves: dict[int, tuple[list[int], list[float]]] = {}
    for run in sorted(of.runs, key=lambda run: field(run, swept)):
        sizes, values = curves.setdefault(run.library_size, ([], []))
        sizes.append(field(run, swept))
        values.append(_quality(run))
    verdicts: dict[int, Verdict] = {}
    reasons: dict[int, str] = {}
    for library, (sizes, values) in curves.items():
        try:
            verdicts[library] = judge(sizes, values)
        except Unjudged as error:
            reasons[library] = str(error)
    if not verdicts:
        raise Unjudged("; ".join(f"library {library}: {reason}" for library, reason in reasons.items()))
    return worst(verdicts)


def worst(verdicts: dict[int, Verdict]) -> Verdict:
    """Of a verdict per library size: the worst; but one alone of several that differs is not counted.

    Each is tested by itself at 5 %, so that of several one differs by chance more often than that.
    """
    order = ("differs", "cannot be judged", "agrees")
    library, verdict = min(verdicts.items(), key=lambda pair: order.index(pair[1].answer))
    if len(verdicts) == 1:
        return verdict
    same = sum(other.answer == verdict.answer for other in verdicts.values())
    reason = f"library {library}: {verdict.reason} ({same} of {len(verdicts)} libraries are so)"
    measured = "; ".join(f"library {size}: {other.measured}" for size, other in verdicts.items() if other.measured)
    if verdict.answer == "differs" and same == 1:
        return cannot(f"{reason}; one alone is not counted, as each is tested at 5 %", measured or None)
    return verdict.model_copy(update={"reason": reason, "measured": measured or None})


def linear(of: Evidence) -> Verdict:
    """R² of mean accuracy against heads, with its interval over seeds, of each library size."""
    libraries: dict[int, dict[int, dict[int, float]]] = {}
    for run in of.runs:
        curves = libraries.setdefault(run.library_size, {})
        curves.setdefault(run.spec.seed, {})[field(run, "n_heads")] = _quality(run)
    return worst({library: _straight(list(curves.values())) for library, curves in libraries.items()})


def _straight(curves: list[dict[int, float]]) -> Verdict:
    """The verdict on one library size, from each seed's accuracy by heads."""
    heads = sorted(set.intersection(*map(set, curves)))
    below = [size for size in heads if np.mean([curve[size] for curve in curves]) < BELOW]
    accuracy = [[curve[size] for size in below] for curve in curves]
    return ev.on_a_line(below, accuracy, LEAST_R2, "accuracy against heads")


def rises_with_heads(of: Evidence) -> Verdict:
    """The trend of accuracy, or of the explained variance, with the heads."""
    return _of_each_library(of, "n_heads", partial(ev.rises, what="what is remembered", of="number of heads"))


def rises_with_context(of: Evidence) -> Verdict:
    """The trend of accuracy, or of the explained variance, with the context's size."""
    return _of_each_library(of, "context_size", partial(ev.rises, what="what is remembered", of="context's size"))


def up_to_context(of: Evidence) -> Verdict:
    """Whether accuracy rises with the head size up to the context's size and no further.

    Head sizes that recall nearly all of a library are left out of it: nothing can rise beyond.
    """
    context = field(of.runs[0], "context_size")

    def bent(sizes: list[int], values: list[float]) -> Verdict:
        x, points = np.array(sizes), 100 * np.array(values)
        told = np.array([points[x == size].mean() < 100 * BELOW for size in x])
        try:
            return ev.bends(x[told], points[told], context, "accuracy (in points)", "d_head")
        except Unjudged as error:
            if told.all():
                raise
            raise Unjudged(f"{error}, and {(~told).sum()} that recall {BELOW:.0%} or more tell nothing") from None

    return _of_each_library(of, "d_head", bent)


def bound_621(of: Evidence) -> Verdict:
    """H(min(n, d_h) − 1) + 1 at 20 heads and 32 tokens."""
    found = largest_library(20, 32, 64, 64)
    return ev.exactly(found == 621, str(found), "H(min(n, d_head) − 1) + 1 at H 20, n 32, d_head 64")


def weights(of: Evidence) -> Verdict:
    """Weights built for as many examples as the theorem says, with random real labels: the largest error."""
    errors = []
    for place, (heads, n, d, d_head) in enumerate(CONSTRUCTED[of.scale]):
        generator = numpy_generator(0, "reproduce theorem 1", place)
        items = largest_library(heads, n, d, d_head)
        shape = (items, n, d)
        examples = Examples(generator.random((items, d)), generator.random(shape), generator.standard_normal(items))
        errors.append(build(examples, n_heads=heads, d_head=d_head, generator=generator).max_error)
    return ev.exactly(
        max(errors) < 1e-6,
        f"largest error {max(errors):.1g}",
        f"{len(errors)} layers built in float64, each on as many examples as the theorem says",
    )


def tight(of: Evidence) -> Verdict:
    """Numerical rank of the features of random attention on one shared context, twice as many examples as the bound."""
    ranks = []
    for place, (heads, n, d) in enumerate(((3, 4, 8), (4, 8, 16), (8, 8, 16))):
        generator = numpy_generator(0, "reproduce proposition 2", place)
        items = 2 * heads * n
        context, queries = generator.random((n, d)), generator.random((items, d))
        scores = np.einsum("id,hde,ne->hin", queries, generator.standard_normal((heads, d, d)) / d, context)
        features = np.concatenate(list(softmax(scores, axis=2) @ context), axis=1)
        ranks.append((int(np.linalg.matrix_rank(features, tol=1e-9 * items)), heads * (n - 1) + 1))
    return ev.exactly(
        all(rank == limit for rank, limit in ranks),
        ", ".join(f"{rank} for {limit}" for rank, limit in ranks),
        "rank of the features of random heads, against H(n − 1) + 1",
    )
