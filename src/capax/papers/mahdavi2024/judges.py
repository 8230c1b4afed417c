"""Mahdavi, Liao, Thrampoulidis 2024 (arXiv 2306.02010): every theorem, figure and table as a recipe.

The paper's text was not available to us: its statements are known from those who restate it, its experiments from the
authors' code. Figures plot accuracies of which only trends are known to us.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from capax.papers import evidence as ev
from capax.papers.mahdavi2024 import DEMO, PUBLISHED, SEED, SMALL
from capax.papers.recipe import Claim, Evidence, Recipe, Scale, Standing, Study, Verdict, unknown
from capax.results import Measurement
from capax.seeds import numpy_generator
from capax.specs import Associations

PAPER = "mahdavi2024"
LEAST_R2 = 0.98
HOUR = 3600.0


def size(run: Measurement, name: str) -> int:
    """A size of a run: of its model, or its task's context."""
    assert isinstance(run.spec.task, Associations)
    return run.spec.task.context_size if name == "context_size" else getattr(run.spec.model, name)


def quality(run: Measurement) -> float:
    """Accuracy above chance for classes; what of the labels' variance is explained for real ones, by the mean error."""
    assert isinstance(run.spec.task, Associations)
    if run.spec.task.labels == "classes":
        return run.memorized_above_chance / run.library_size
    return 1 - 12 * run.metrics["mean_squared_error"]


def curves(of: Evidence, swept: str) -> dict[int, tuple[list[int], list[float]]]:
    """Sizes and qualities of the runs of each library size."""
    found: dict[int, tuple[list[int], list[float]]] = {}
    for run in sorted(of.runs, key=lambda run: size(run, swept)):
        sizes, values = found.setdefault(run.library_size, ([], []))
        sizes.append(size(run, swept))
        values.append(quality(run))
    return found


def worst(found: dict[int, Verdict]) -> Verdict:
    """Of a verdict per library size: one that differs, else one that cannot be judged, else the first."""
    order = ("differs", "cannot be judged", "agrees")
    library, verdict = min(found.items(), key=lambda pair: order.index(pair[1].answer))
    if len(found) == 1:
        return verdict
    same = sum(other.answer == verdict.answer for other in found.values())
    return verdict.model_copy(
        update={"reason": f"library {library}: {verdict.reason} ({same} of {len(found)} libraries are so)"}
    )


def linear(of: Evidence) -> Verdict:
    """R² of accuracy against heads; a library that is complete is bent and left out."""
    found = {}
    for library, (sizes, values) in curves(of, "n_heads").items():
        below = [place for place, value in enumerate(values) if value < 0.95]
        found[library] = ev.on_a_line(
            [sizes[i] for i in below], [values[i] for i in below], LEAST_R2, "accuracy against heads"
        )
    return worst(found)


def rising(swept: str, words: str) -> Callable[[Evidence], Verdict]:
    """The judge of a quality that rises with a size."""

    def judge(of: Evidence) -> Verdict:
        found = {
            library: ev.rises(sizes, values, "what is remembered", words)
            for library, (sizes, values) in curves(of, swept).items()
        }
        return worst(found)

    return judge


def up_to_context(of: Evidence) -> Verdict:
    """Whether accuracy rises with the head size up to the context's size and no further."""
    context = size(of.runs[0], "context_size")
    return worst(
        {
            library: ev.bends(sizes, [100 * value for value in values], context, "accuracy (in points)", "d_head")
            for library, (sizes, values) in curves(of, "d_head").items()
        }
    )


def bound_621(of: Evidence) -> Verdict:
    """H(min(n, d_h) − 1) + 1 at 20 heads and 32 tokens."""
    from capax.theory.associations import largest_library

    found = largest_library(20, 32, 64, 64)
    return ev.exactly(found == 621, str(found), "H(min(n, d_head) − 1) + 1 at H 20, n 32, d_head 64")


CONSTRUCTED: dict[Scale, tuple[tuple[int, int, int, int], ...]] = {
    "demo": ((1, 4, 6, 4), (4, 8, 16, 8), (8, 16, 32, 16)),
    "small": ((1, 4, 6, 4), (4, 8, 16, 8), (8, 16, 32, 16), (8, 32, 64, 32)),
    "paper": ((4, 8, 16, 8), (8, 32, 64, 32), (20, 32, 64, 32), (20, 32, 64, 10)),
}
"""Heads, tokens, channels and head size of the layers that are built."""


def weights(of: Evidence) -> Verdict:
    """Weights built for as many examples as the theorem says, with random real labels: the largest error."""
    from capax.tasks.association_files import Examples
    from capax.theory.associations import construct, largest_library

    errors = []
    for place, (heads, n, d, d_head) in enumerate(CONSTRUCTED[of.scale]):
        generator = numpy_generator(0, "reproduce theorem 1", place)
        items = largest_library(heads, n, d, d_head)
        shape = (items, n, d)
        examples = Examples(generator.random((items, d)), generator.random(shape), generator.standard_normal(items))
        errors.append(construct(examples, n_heads=heads, d_head=d_head, generator=generator).max_error)
    return ev.exactly(
        max(errors) < 1e-6,
        f"largest error {max(errors):.1g}",
        f"{len(errors)} layers built in float64, each on as many examples as the theorem says",
    )


def tight(of: Evidence) -> Verdict:
    """Numerical rank of the features of random attention on one shared context, twice as many examples as the bound."""
    found = []
    for place, (heads, n, d) in enumerate(((3, 4, 8), (4, 8, 16), (8, 8, 16))):
        generator = numpy_generator(0, "reproduce proposition 2", place)
        items = 2 * heads * n
        context, queries = generator.random((n, d)), generator.random((items, d))
        scores = np.einsum("id,hde,ne->hin", queries, generator.standard_normal((heads, d, d)) / d, context)
        attended = np.exp(scores - scores.max(2, keepdims=True))
        attended /= attended.sum(2, keepdims=True)
        features = np.concatenate(list(attended @ context), axis=1)
        found.append((int(np.linalg.matrix_rank(features, tol=1e-9 * items)), heads * (n - 1) + 1))
    return ev.exactly(
        all(rank == limit for rank, limit in found),
        ", ".join(f"{rank} for {limit}" for rank, limit in found),
        "rank of the features of random heads, against H(n − 1) + 1",
    )


def _study(name: str, demo: float, small: float, paper: float, again: int = 0) -> Study:
    """A sweep at every scale; `again` more seeds below the paper's, where one count a size is not enough."""
    experiments = {"demo": DEMO, "small": SMALL, "paper": PUBLISHED}
    scales: tuple[Scale, ...] = ("demo", "small", "paper")
    return Study(
        name,
        {
            scale: tuple(
                run
                for seed in range(SEED, SEED + 1 + again * (scale != "paper"))
                for run in experiments[scale][name].runs(seed)
            )
            for scale in scales
        },
        {"demo": demo, "small": small, "paper": paper},
    )


CHARTS = {"n_heads": "accuracy-heads", "context_size": "accuracy-context"}


def _trend(
    figure: str, name: str, title: str, swept: str, words: str, demo: float, small: float, paper: float
) -> Recipe:
    standing: Standing = "secondary" if figure.startswith("figure-2") else "reconstructed"
    claim = Claim(f"what is remembered rises with the {words}", None, standing, rising(swept, words))
    study = _study(name, demo, small, paper)
    return Recipe(PAPER, figure, title, (claim,), study, chart=CHARTS[swept])


_HEADS = _study("heads-shared", 15, 60, 1.5 * HOUR)
RECIPES = (
    Recipe(
        PAPER,
        "theorem-1",
        "H(min(n, d_h) − 1) + 1 examples",
        (
            Claim("20 heads and 32 tokens memorize", "621", "derived", bound_621),
            Claim("weights exist that memorize as many, whatever the labels", None, "secondary", weights),
        ),
    ),
    Recipe(
        PAPER,
        "proposition-2",
        "tightness with one context for all",
        (Claim("features have rank H(n − 1) + 1 at most, and reach it", None, "secondary", tight),),
    ),
    Recipe(
        PAPER,
        "proposition-3",
        "two-layer ReLU networks",
        (
            Claim(
                "attention memorizes no fewer examples a parameter",
                None,
                "secondary",
                unknown("the proposition's formula is not known to us"),
            ),
        ),
    ),
    Recipe(
        PAPER,
        "table-1",
        "assumptions on embeddings of images (and Fig. 1)",
        (
            Claim(
                "queries of a trained ViT block are of Kruskal rank 197 in",
                "99.82 % of samples",
                "read",
                unknown("the images and the ViT are not here; the command judges arrays of your own"),
            ),
            Claim(
                "general position fails on all of them",
                "0 %",
                "read",
                unknown("the images and the ViT are not here; the command judges arrays of your own"),
            ),
        ),
        command="capax check QUERIES.npy CONTEXTS.npy",
    ),
    Recipe(
        PAPER,
        "figure-2-heads",
        "accuracy against heads, one context for all",
        (
            Claim("accuracy is linear in the heads", "R² ≥ 0.98", "secondary", linear),
            Claim("accuracy rises with the heads", None, "secondary", rising("n_heads", "number of heads")),
        ),
        _HEADS,
        chart=CHARTS["n_heads"],
    ),
    _trend(
        "figure-2-context",
        "context-shared",
        "accuracy against context, one for all",
        "context_size",
        "context's size",
        15,
        60,
        1 * HOUR,
    ),
    Recipe(
        PAPER,
        "figure-2-head-size",
        "accuracy against head size, one context for all",
        (Claim("accuracy rises with d_h up to the context's size alone", "n", "secondary", up_to_context),),
        _study("head-size-shared", 30, 200, 6 * HOUR, again=2),
        chart="accuracy-head-size",
    ),
    _trend(
        "heads-fresh",
        "heads-fresh",
        "accuracy against heads, a context for each",
        "n_heads",
        "number of heads",
        15,
        90,
        10 * HOUR,
    ),
    _trend(
        "context-fresh",
        "context-fresh",
        "accuracy against context, one for each",
        "context_size",
        "context's size",
        15,
        120,
        5 * HOUR,
    ),
    _trend(
        "heads-shared-regression",
        "heads-shared-regression",
        "real labels: heads, one context",
        "n_heads",
        "number of heads",
        15,
        60,
        1.5 * HOUR,
    ),
    _trend(
        "heads-fresh-regression",
        "heads-fresh-regression",
        "real labels: heads, fresh contexts",
        "n_heads",
        "number of heads",
        15,
        90,
        10 * HOUR,
    ),
    _trend(
        "context-shared-regression",
        "context-shared-regression",
        "real labels: context, one",
        "context_size",
        "context's size",
        15,
        60,
        1 * HOUR,
    ),
    _trend(
        "context-fresh-regression",
        "context-fresh-regression",
        "real labels: context, fresh",
        "context_size",
        "context's size",
        15,
        120,
        10 * HOUR,
    ),
    Recipe(
        PAPER,
        "saturation",
        "heads that attend to one token alone",
        (
            Claim(
                "examples divide among heads by which of them saturate (largest weight above 0.99)",
                None,
                "reconstructed",
                unknown("what the paper reports of it is not known to us; the command shows it for a kept layer"),
            ),
        ),
        command="capax saturation KEY",
    ),
)
