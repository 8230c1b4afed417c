"""The figures that capax draws, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from capax.errors import ReportError, shown
from capax.figures import (
    accuracy,
    capacity,
    curves,
    declared,
    key_dims,
    predicted,
    saturation,
    shatter,
    theory,
    trainings,
    variants,
)
from capax.figures.chart import Chart
from capax.figures.lines import Lines
from capax.laws.law import Law
from capax.results import Measurement


@dataclass(frozen=True)
class Drawn:
    """A figure that is none of lines; its attributes are those of `Lines`.

    Attributes:
        of: whose figure it is, in words; "capax" for ours.
        shown: from runs to charts, one for each kind of runs, the largest first; raises `ReportError` that says what it
            lacks.
        needs: the runs that fill it, in words.
    """

    title: str
    of: str
    shown: Callable[[Sequence[Measurement], Law | None], list[Chart]]
    needs: str = ""


Figure = Lines | Drawn

SCATTER = "scatter"
"""The figure whose columns are chosen (`capax.figures.scatter`); the others are of chosen columns."""

OF_A_LAW = ("width", "measured-predicted", "slopes", "held-out-heads", "parameters", "key-dimension")
"""The figures that draw a law."""


FIGURES: dict[str, Figure] = {
    "capacity": Drawn(
        "bits against effective parameters, with published densities", "capax", capacity.bits_by_parameters, "capacity"
    ),
    "convergence": Drawn(
        "bits at the ends of cycles, and what longer training would bring", "capax", capacity.convergence, "capacity"
    ),
    "variants": Drawn(
        "bits per parameter of variants of a network",
        "capax",
        variants.by_variant,
        "capacity, of models that differ in more than sizes",
    ),
    "width": declared.WIDTH_FIGURE,
    "measured-predicted": Drawn(
        "measured against predicted",
        "Härmä et al. 2024, Fig. 8",
        predicted.measured_against_predicted,
        "mac, in the domain of --law; without it at least 6 runs to fit one to",
    ),
    "slopes": Drawn(predicted.SLOPES.title, "Härmä et al. 2024, Fig. 9", predicted.slopes, "mac, several seq_len"),
    "held-out-heads": Drawn(
        "the largest number of heads, predicted from fewer",
        "Härmä et al. 2024, Fig. 10",
        predicted.held_out_heads,
        "mac, at least three n_heads",
    ),
    "parameters": declared.PARAMETERS,
    "curves": Drawn(
        "training curves: memorized and loss against epoch", "capax", curves.training_curves, "mac or capacity"
    ),
    "shatter": Drawn(
        "epochs until the library is whole, with the fitted negative binomial",
        "Härmä et al. 2024, Fig. 5",
        shatter.epochs_to_shatter,
        "shatter",
    ),
    **{
        figure.name: figure
        for figure in (
            *(
                declared.BATCH_SIZE,
                declared.MAC_MLS,
                declared.TRAINABLE_FIGURE,
                declared.NETWORK_SIZE,
                declared.FFN_FIGURE,
                declared.UNITS,
            ),
            *(trainings.F1, key_dims.BEST_HEADS, key_dims.KEY_DIMENSION, key_dims.FIXED_COMPRESSION),
        )
    },
    "key-dimension-map": Drawn(
        "map of D_K*",
        "Adler 2025, Fig. 5",
        key_dims.key_dimension_map,
        "relations, budget, several n_items or d_model",
    ),
    **{figure.name: figure for figure in accuracy.ACCURACY},
    "saturation": Drawn(
        "heads that attend to one token alone, each and together",
        "Mahdavi et al. 2024",
        partial(saturation.of_kept, {}),
        "associations, with --keep-weights",
    ),
    "bounds": Drawn("every bound in bits, beside what was measured", "capax", theory.bounds, "any"),
}


def figures(kept: Mapping[str, Path], whole: Callable[[Measurement], Measurement]) -> dict[str, Figure]:
    """All figures, of runs that were read from stores.

    Args:
        kept: the store beside which the weights of a run lie, by its key.
        whole: gives a run with its curves.
    """
    own = {
        "saturation": partial(saturation.of_kept, kept),
        "curves": partial(curves.training_curves, whole=whole),
    }
    return FIGURES | {
        name: Drawn(FIGURES[name].title, FIGURES[name].of, shown, FIGURES[name].needs) for name, shown in own.items()
    }


def named(name: str) -> Figure:
    """A figure.

    Raises:
        ReportError: when there is none of this name; it lists them.
    """
    if not isinstance(name, str) or name not in FIGURES:
        raise ReportError(f"figure: one of {', '.join((*FIGURES, SCATTER))}, got {shown(name)}")
    return FIGURES[name]
