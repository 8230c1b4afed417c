"""Claims of Adler 2025 that are judged by weights that are built, or by the optimum of one head, without training."""

from __future__ import annotations

import math

import numpy as np

from capax.papers import evidence as ev
from capax.papers.evidence import field
from capax.papers.recipe import Evidence, Scale, Unjudged, Verdict, agrees, cannot, differs
from capax.seeds import numpy_generator
from capax.specs import Relations
from capax.tasks import contexts
from capax.tasks.embeddings import gaussian
from capax.tasks.graphs import derangement
from capax.theory.construct.relations import RelationConstruction, build
from capax.theory.one_head import best_head

# items and channels of the channels that are built, each for so many permutations
BUILT: dict[Scale, tuple[tuple[int, int], ...]] = {
    "demo": ((64, 32), (128, 64), (256, 64), (256, 128), (512, 128)),
    "small": ((128, 32), (128, 64), (256, 64), (256, 128), (512, 64), (512, 128), (512, 256)),
    "paper": ((256, 64), (256, 128), (512, 64), (512, 128), (512, 256), (1024, 128), (1024, 256)),
}
DRAWS = 3
# margin, by the norm of the weights, that is rounding: what is proved not to be more is none
NO_MARGIN = 1e-8
# items of a context, and contexts of each kind for each channel that is built
CONTEXT, CONTEXTS = 16, 200


def no_one_head(of: Evidence) -> Verdict:
    """Whether no weights of one head have every pair right, by the optimum of its loss, which is convex."""
    ((m, d),) = {(run.library_size, int(field(run, "d_model"))) for run in of.runs}
    found = []
    for draw in range(DRAWS):
        generator = numpy_generator(draw, "reproduce one head")
        edges = np.stack([np.arange(m), derangement(m, generator)], axis=1)
        found.append(best_head(gaussian(m, d, generator), edges))
    f1s = ", ".join(f"{one.recognition.f1:.2f}" for one in found)
    measured = f"F1 at the optimum of one head's loss, {DRAWS} permutations of {m} items in {d} channels: {f1s}"
    apart = sum(one.separates for one in found)
    if apart == DRAWS:
        return differs("a plane separates edges from other pairs, whose products of vectors are points", measured)
    if apart:
        return cannot(f"in {apart} of {DRAWS} a plane separates edges from other pairs", measured)
    margin = max(one.largest_margin for one in found)
    if margin > NO_MARGIN:
        return cannot(f"the optimum was not reached: a margin of {margin:.0e} of the weights' norm may be", measured)
    return agrees(
        f"no plane separates edges from other pairs: the gradient there is 0 (no margin above {margin:.0e} of the "
        "weights' norm is possible)",
        measured,
    )


def _built(draw: int, m: int, d: int, onehot: bool) -> tuple[np.ndarray, np.ndarray, RelationConstruction]:
    """A random permutation, vectors, and weights built to have every pair right (the hypothesis of Lemma 4.1)."""
    generator = numpy_generator(draw, "reproduce relations")
    edges = np.stack([np.arange(m), derangement(m, generator)], axis=1)
    vectors = np.eye(m) if onehot else gaussian(m, d, generator)
    built = build(edges, vectors, generator=generator, method="onehot" if onehot else "whitened", target_f1=1.0)
    return edges, vectors, built


def _costs(draw: int, m: int, d: int, onehot: bool) -> tuple[float, int, int]:
    """F1, heads and D_K of such weights."""
    built = _built(draw, m, d, onehot)[2]
    heads, _, d_head = built.weights.query.shape
    return built.recognition.f1, heads, heads * d_head


def in_contexts(of: Evidence) -> Verdict:
    """Lemma 4.1: whether weights that have all pairs right have those of each context right, by plain scores there."""
    m, d = BUILT[of.scale][0]
    right = number = there = absent = 0
    for draw in range(DRAWS):
        edges, vectors, built = _built(draw, m, d, False)
        if (f1 := built.recognition.f1) < 1:
            return cannot("our weights do not have every pair right, as the lemma asks", f"F1 {f1:.3f}")
        related = np.zeros((m, m), dtype=bool)
        related[tuple(edges.T)] = True
        generator = numpy_generator(draw, "reproduce contexts")
        for sampler in ("uniform", "targets"):
            spec = Relations(n_items=m, contexts=sampler, context_size=CONTEXT)
            for context in contexts.draw(spec, edges, generator, CONTEXTS):
                asked, answered = (vectors[context] @ one for one in (built.weights.query, built.weights.key))
                scores = (asked @ answered.swapaxes(1, 2)).max(axis=0)
                np.fill_diagonal(scores, -np.inf)
                expected = related[np.ix_(context, context)]
                right += np.array_equal(scores > built.recognition.threshold, expected)
                there += expected.sum()
                absent += CONTEXT - expected.sum()
                number += 1
    where = f"{there} sources with their target and {absent} without"
    measured = f"{right} of {number} contexts of {CONTEXT} of {m} items: {where}"
    return ev.exactly(right == number, measured, "a score depends on its two items alone")


def one_hot(of: Evidence) -> Verdict:
    """One head built for one-hot items: where ours is not enough, others may be."""
    sizes = sorted({m for m, _ in BUILT[of.scale]})
    built = [_costs(draw, m, m, True) for m in sizes for draw in range(DRAWS)]
    measured = f"least F1 {min(f1 for f1, _, _ in built):.3f}"
    if all(f1 == 1 and heads == 1 for f1, heads, _ in built):
        return agrees(f"one head built for {len(built)} permutations, every pair right", measured)
    return cannot(
        "our weights need more than one head, or do not have every pair right; others may do better", measured
    )


def gaussian_items(of: Evidence) -> Verdict:
    """Several heads built for Gaussian items: the power of log m / d that their D_K / m goes by; the claim has 1.

    That such weights exist is what is claimed: ours may show it, but where they do not, others may. A power above 1 is
    less than the claim allows; 0 would be D_K in proportion to m, as of one edge a head. Where that is best, heads of
    several edges need more than m: a lower limit, as which it counts (Tobit). A size counts once, by the mean of its
    permutations, which err alike.
    """
    shares, loads, limits, said = [], [], [], []
    for m, d in BUILT[of.scale]:
        built = [_costs(draw, m, d, False) for draw in range(DRAWS)]
        if (least := min(f1 for f1, _, _ in built)) < 1:
            return cannot("our weights do not have every pair right; others may do better", f"F1 {least:.3f}")
        load = math.log2(m) / d
        constants = [f"{total / m / load:.2g}" for _, heads, total in built if heads < m]
        lost = DRAWS - len(constants)
        constants += [f"{1 / load:.2g} by one edge a head{f' ({lost} times)' if lost > 1 else ''}"] if lost else []
        said.append(f"{', '.join(constants)} at m {m}, d {d}")
        shares.append(math.exp(np.mean([math.log(total / m) for _, _, total in built])))
        limits.append(any(heads == m for _, heads, _ in built))
        loads.append(load)
    measured = f"constants of {DRAWS} permutations a size, every pair right: {'; '.join(said)}"
    if all(limits):
        raise Unjudged(f"with one edge a head D_K is m, whatever the law: {measured}")
    power = ev.exponent(loads, shares, bounds=limits)
    reason = f"D_K / m of our weights goes by the power {power} of log2 m / d"
    if power.low > 0.5 and 1 <= power.high <= power.low + 1:  # wider, it would hold almost any
        return agrees(f"{reason}: all of it is nearer to 1 than to 0", measured)
    return cannot(f"{reason}: by m as well, or less than the law; others may do better", measured)
