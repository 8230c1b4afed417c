"""The figures that capax draws, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from capax.errors import ReportError
from capax.figures import adler, curves, declared, mahdavi, predicted, saturation, shatter, theory, trainings, units
from capax.figures.chart import Chart
from capax.laws.law import Law
from capax.results import Measurement

Shown = Callable[[Sequence[Measurement], Law | None], list[Chart]]
"""From runs to charts, one for each kind of runs, the largest first; raises `ReportError` that says what it lacks."""


@dataclass(frozen=True)
class Figure:
    """A figure that runs may be shown in.

    Attributes:
        of: whose figure it is, in words; "capax" for ours.
        needs: the runs that fill it, in words.
    """

    title: str
    of: str
    shown: Shown
    needs: str = ""


FIGURES: dict[str, Figure] = {
    "width": Figure(
        "memorized against width, per heads and length, with a law's band",
        "Härmä et al. 2024, Fig. 7",
        declared.memorized_against_width,
        "mac, of several widths",
    ),
    "measured-predicted": Figure(
        "measured against predicted",
        "Härmä et al. 2024, Fig. 8",
        predicted.measured_against_predicted,
        "mac, in the domain of --law; without it at least 6 runs of several widths, to fit one",
    ),
    "slopes": Figure(
        "sequences per channel of width, against length",
        "Härmä et al. 2024, Fig. 9",
        predicted.slopes,
        "mac, of several lengths",
    ),
    "held-out-heads": Figure(
        "the largest number of heads, predicted from fewer",
        "Härmä et al. 2024, Fig. 10",
        predicted.held_out_heads,
        "mac, of several numbers of heads",
    ),
    "parameters": Figure(
        "memorized against trainable parameters",
        "Härmä et al. 2024, Fig. 11",
        predicted.memorized_against_parameters,
        "mac, of several widths",
    ),
    "curves": Figure(
        "training curves: memorized and loss against epoch",
        "capax",
        curves.training_curves,
        "mac",
    ),
    "shatter": Figure(
        "epochs until the library is whole, with the fitted negative binomial",
        "Härmä et al. 2024, Fig. 5",
        shatter.epochs_to_shatter,
        "shatter",
    ),
    "batch-size": Figure(
        "memorized against batch size",
        "Härmä et al. 2024, Fig. 6",
        declared.memorized_against_batch_size,
        "mac, of several batch_size",
    ),
    "mac-mls": Figure(
        "most recalled of one library (MAC) against largest recalled whole (MLS)",
        "Härmä et al. 2024, Fig. 4",
        declared.mac_against_mls,
        "mac and mls, of one architecture",
    ),
    "trainable": Figure(
        "embeddings, positions and read-out trained or frozen",
        "Härmä et al. 2024, Fig. 3",
        declared.trainable_parts,
        "mac, of several embeddings, positions or readout",
    ),
    "ffn": Figure(
        "FFN trained, frozen to the identity, left out",
        "Härmä et al. 2024, Fig. 2",
        declared.ffn_trained_or_identity,
        "mac, of several ffn",
    ),
    "units": Figure(
        "bits per trainable parameter, by every definition",
        "capax",
        units.bits_per_parameter,
        "mac, of several widths",
    ),
    "f1": Figure(
        "F1 against total key dimension",
        "Adler 2025, Fig. 1",
        trainings.f1,
        "relations, by budget or mac at several head sizes",
    ),
    "best-heads": Figure("best number of heads", "Adler 2025, Fig. 2", adler.best_heads, "relations, by budget"),
    "key-dimension": Figure(
        "D_K* against the law", "Adler 2025, Fig. 3", adler.key_dimension, "relations, by budget, of several sizes"
    ),
    "fixed-compression": Figure(
        "D_K* at fixed compression",
        "Adler 2025, Fig. 4",
        adler.fixed_compression,
        "relations, by budget, of several sizes at one m/d",
    ),
    "key-dimension-map": Figure(
        "map of D_K*",
        "Adler 2025, Fig. 5",
        adler.key_dimension_map,
        "relations, by budget, of several n_items and d_model",
    ),
    "accuracy-heads": Figure(
        "share recalled against heads",
        "Mahdavi et al. 2024, Fig. 2",
        mahdavi.accuracy_heads,
        "associations, mac, of several n_heads",
    ),
    "accuracy-context": Figure(
        "share recalled against context size",
        "Mahdavi et al. 2024, Fig. 2",
        mahdavi.accuracy_context,
        "associations, mac, of several context_size",
    ),
    "accuracy-head-size": Figure(
        "share recalled against head size",
        "Mahdavi et al. 2024, Fig. 2",
        mahdavi.accuracy_head_size,
        "associations, mac, of several d_head",
    ),
    "saturation": Figure(
        "heads that attend to one token alone, each and together",
        "Mahdavi et al. 2024",
        partial(saturation.of_kept, {}),
        "associations, with --keep-weights",
    ),
    "bounds": Figure("every bound in bits, beside what was measured", "capax", theory.bounds, "any"),
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
    return FIGURES | {name: replace(FIGURES[name], shown=shown) for name, shown in own.items()}


def named(name: str) -> Figure:
    """A figure.

    Raises:
        ReportError: when there is none of this name; it lists them.
    """
    if name not in FIGURES:
        raise ReportError(f"figure: one of {', '.join(FIGURES)}, got {name!r}")
    return FIGURES[name]


def charts(
    name: str,
    runs: Sequence[Measurement],
    law: Law | None,
    figures: Mapping[str, Figure] = MappingProxyType(FIGURES),
) -> list[Chart]:
    """The charts of a figure.

    Args:
        figures: the figures of runs that were read from stores (`figures`).

    Raises:
        ReportError: for an unknown figure, without runs, or when they cannot be shown in it.
    """
    named(name)
    if not runs:
        raise ReportError("store: no finished runs (capax runs --failed lists those that failed)")
    return figures[name].shown(runs, law)
