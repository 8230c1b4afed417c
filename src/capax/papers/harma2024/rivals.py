"""The ECM of Härmä et al. 2024 against its rivals, in sample and on networks that were held out, and how it errs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Literal

import numpy as np
import polars as pl
from jaxtyping import Float
from scipy.stats import binomtest, iqr
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.preprocessing import PolynomialFeatures

from capax.errors import CapaxError
from capax.laws.ecm import ECM
from capax.laws.law import Law
from capax.laws.polynomial import Polynomial
from capax.laws.power import PowerLaw
from capax.laws.rejected import ExponentialLaw, LogisticLaw
from capax.laws.rows import left_out
from capax.literature import stated_by
from capax.papers import evidence as ev
from capax.papers.evidence import field
from capax.papers.harma2024.readings import in_every_reading
from capax.papers.harma2024.runs import SATURATED, above_chance, spans_saturation
from capax.papers.recipe import Evidence, Unjudged, Verdict, agrees, cannot, differs
from capax.protocols import units
from capax.results import LEVEL, Measurement
from capax.seeds import numpy_generator
from capax.store import tables

LAW = ECM(n_bootstrap=200)
# parts of a grid that are held out in turn
FOLDS = 5
# studies that are drawn anew, each of whose verdicts takes fits of its own
STUDIES = 20
PAIRED = "paired, with laws refitted to 20 simulated studies"
# relative error within which a law is right of a count that it has not seen: repeats of a training differ by a tenth
# to a fifth, of which less than a quarter are further off (ours)
RIGHT = 0.25


def _error(law: Law, table: pl.DataFrame, held: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Relative errors, with their signs, of a law fitted to some rows, on those that are held out."""
    rows = law.read(table)
    fitted = law.fit_rows(rows.take(known), table.filter(known))
    measured, library = (table[name].to_numpy()[held] for name in (LAW.target, "library_size"))
    return np.asarray((np.minimum(fitted._predict(rows.take(held).columns), library) - measured) / measured)


def _in_sample(law: Law, table: pl.DataFrame) -> np.ndarray:
    """Relative errors of a law on all networks, which it was fitted to."""
    every = np.ones(len(table), bool)
    return np.abs(_error(law, table, every, every))


def _held_out(law: Law, table: pl.DataFrame) -> np.ndarray:
    """Relative errors of a law on a fifth of the networks at a time, which the fit did not see.

    Raises:
        Unjudged: where they are too few.
    """
    if len(table) < 5 * FOLDS:
        raise Unjudged(f"{len(table)} networks are too few to hold a fifth out")
    networks = table.select(Polynomial.columns).to_numpy()
    return np.concatenate([np.abs(_error(law, table, held, ~held)) for held in left_out(networks, FOLDS)])


def _at_most_heads(law: Law, table: pl.DataFrame) -> np.ndarray:
    """Relative errors, with their signs, of a law on the largest head count, which the fit did not see.

    Raises:
        Unjudged: where there is one head count only.
    """
    heads = table["n_heads"].to_numpy()
    if len(set(heads)) < 2:
        raise Unjudged("there is one head count only")
    return _error(law, table, heads == heads.max(), heads != heads.max())


def _drawn_anew(runs: Sequence[Measurement]) -> list[pl.DataFrame]:
    """The measurements of a grid; then other studies of it, as they might have come out.

    Each has counts of the law that describes the grid best, times the errors of that law, drawn with replacement, and
    none above its library. All errors of a law come from one fit, so pairs of errors alone do not tell how far apart
    two laws are: another study would have given other fits.
    """
    table, rivals = tables.table(runs), [LAW, PowerLaw(), LogisticLaw()]
    with suppress(Unjudged):  # too few networks for one
        rivals.append(_polynomial(table))
    laws = [clone(law).set_params(n_bootstrap=1).fit(table) for law in rivals]
    law = min(laws, key=lambda one: one.sigma_)
    library, said = table["library_size"].to_numpy(), law.predict(table)
    below = ~law.rows_.complete
    errors = np.log(table[law.target].to_numpy()[below] / said[below])
    errors = errors / np.sqrt(1 - len(law.solution_.free) / len(errors))  # a fit takes its share of them
    generator = numpy_generator(0, "grids drawn anew")
    drawn = [np.minimum(said * np.exp(generator.choice(errors, len(said))), library) for _ in range(STUDIES)]
    return [table, *(table.with_columns(pl.Series(law.target, counts)) for counts in drawn)]


def _in_each(
    errors: Callable[[Law, pl.DataFrame], np.ndarray], law: Law, studies: Sequence[pl.DataFrame]
) -> Float[np.ndarray, "studies networks"]:
    """The errors of a law in each study."""
    return np.stack([errors(law, study) for study in studies])


def _mean_in(found: Float[np.ndarray, "studies networks"]) -> ev.Estimate:
    """The mean of the first study, of networks and of fits that might have been others.

    How far networks differ tells the former (Student's t), the other studies the latter, by their quartiles: a fit that
    strayed far in one of them must not decide. The noise of the networks is in both: the interval is rather wide.
    """
    of_networks, means = ev.mean(found[0]), found[1:].mean(1)
    of_fits = float(student.ppf((1 + LEVEL) / 2, len(means) - 1)) * iqr(means, scale="normal")
    half = float(np.hypot(of_networks.high - of_networks.value, of_fits))
    return ev.Estimate(of_networks.value, of_networks.value - half, of_networks.value + half)


def _smaller(
    first: Float[np.ndarray, "studies networks"], second: Float[np.ndarray, "studies networks"], what: str, than: str
) -> Verdict:
    """Whether a law's mean error is smaller than another's."""
    gap = _mean_in(first - second)
    return ev.above(
        -gap,
        f"{first[0].mean():.3g} against {second[0].mean():.3g}; difference {gap}",
        f"{what} is smaller than {than} ({PAIRED})",
        f"{what} is larger than {than} ({PAIRED})",
        f"the 95 % interval of {what} minus {than} ({PAIRED}) holds 0",
    )


FITS: Mapping[str, Literal["joint", "stages"]] = {"fitted jointly": "joint", "in stages": "stages"}
"""How the ECM is fitted: our way, and the paper's so far as it is known (slopes first, then f)."""


def _ecms(judged: Callable[[ECM], Verdict]) -> Verdict:
    """The verdict on the ECM however it is fitted."""
    fits = {name: judged(ECM(method=method, n_bootstrap=1)) for name, method in FITS.items()}
    return ev.whatever("how the ECM is fitted", fits)


def _polynomial(table: pl.DataFrame) -> Polynomial:
    """That of the highest degree, up to the paper's 5, with two networks a coefficient, all of which they determine.

    Three lengths leave the cube of N open, however many networks there are.

    Raises:
        Unjudged: where they are too few for any.
    """
    columns = table.select(Polynomial.columns).to_numpy().astype(float)
    scaled = (columns - columns.mean(0)) / (np.ptp(columns, axis=0) + (np.ptp(columns, axis=0) == 0))

    def determined(degree: int) -> bool:
        features = PolynomialFeatures(degree).fit_transform(scaled)
        return 2 * features.shape[1] <= len(table) and np.linalg.matrix_rank(features) == features.shape[1]

    degree = max(filter(determined, range(1, 6)), default=None)
    if degree is None:
        raise Unjudged(f"{len(table)} networks determine no polynomial")
    return Polynomial(degree=degree, n_bootstrap=1)


def polynomial(runs: Sequence[Measurement]) -> Law:
    """The polynomial of figure 7's lower row, of the highest degree that runs above chance determine, fitted to them.

    Raises:
        Unjudged: where they determine none.
    """
    table = tables.table([run for run in runs if run.above_chance])
    return _polynomial(table).set_params(n_bootstrap=LAW.n_bootstrap).fit(table)


def _ecm_against(rival: Law, of: Evidence, named: str) -> Verdict:
    """The ECM against another law in sample, on a grid that reaches saturation."""
    runs = above_chance(of)
    studies = _drawn_anew(runs)
    other = _in_each(_in_sample, rival, studies)
    found = _ecms(
        lambda ecm: _smaller(_in_each(_in_sample, ecm, studies), other, "the ECM's error", f"that of {named}")
    )
    try:
        spans_saturation(runs)
    except Unjudged as error:
        return cannot(f"{error}; there {found.reason}", found.measured)
    return found


@in_every_reading
def beats_polynomial(of: Evidence) -> Verdict:
    """ECM against the polynomial, in sample."""
    rival = _polynomial(tables.table(above_chance(of)))
    return _ecm_against(rival, of, f"a polynomial of degree {rival.degree}")


@in_every_reading
def beats_exponential(of: Evidence) -> Verdict:
    """ECM against an exponential decay in length."""
    return _ecm_against(ExponentialLaw(n_bootstrap=1), of, "an exponential decay in N")


@in_every_reading
def beats_logistic(of: Evidence) -> Verdict:
    """ECM against a logistic rise in width."""
    return _ecm_against(LogisticLaw(n_bootstrap=1), of, "a logistic rise in B")


@in_every_reading
def beats_polynomial_held_out(of: Evidence) -> Verdict:
    """ECM against the polynomial on the largest head count, which neither saw."""

    def off(law: Law, table: pl.DataFrame) -> np.ndarray:
        return np.abs(_at_most_heads(law, table))

    studies = _drawn_anew(above_chance(of))
    rival = _polynomial(studies[0].filter(pl.col("n_heads") < pl.col("n_heads").max()))
    other, named = _in_each(off, rival, studies), f"that of a polynomial of degree {rival.degree}"
    return _ecms(lambda ecm: _smaller(_in_each(off, ecm, studies), other, "the ECM's error", named))


@in_every_reading
def unseen_inside_range(of: Evidence) -> Verdict:
    """The ECM's error on networks inside the grid that it did not see, a fifth at a time, against that on all."""
    studies, published = _drawn_anew(above_chance(of)), stated_by("harma2024")["mape"]["ecm"]

    def judged(ecm: ECM) -> Verdict:
        error = _mean_in(_in_each(_held_out, ecm, studies))
        named = f"{published}, the published error (whether in sample is not known)"
        if error.high <= published:
            return agrees(f"the interval is below {named}", str(error))
        if error.low > published:
            return differs(f"the interval is above {named}", str(error))
        return cannot(f"the interval holds {named}", str(error))

    return _ecms(judged)


@in_every_reading
def off_at_more_heads(of: Evidence) -> Verdict:
    """Whether predictions of the largest head count, which the fit did not see, are mostly over or under the count.

    Networks that know their library, and are said to, tell nothing: any law that is steep enough is right of them.
    """
    table = tables.table(above_chance(of))

    def judged(ecm: ECM) -> Verdict:
        errors, counts = _at_most_heads(ecm, table), table.filter(pl.col("n_heads") == pl.col("n_heads").max())
        library, chance = counts["library_size"].to_numpy(), counts["chance"].to_numpy()
        whole = np.vectorize(units.above_chance)(SATURATED * library, chance, library)
        measured = counts[LAW.target].to_numpy()
        errors = errors[(measured < whole) | ((1 + errors) * measured < whole)]
        over, under = int((errors > RIGHT).sum()), int((errors < -RIGHT).sum())
        if not len(errors):
            raise Unjudged("every network of the largest head count knows its library")
        share = binomtest(over + under, len(errors)).proportion_ci(LEVEL, method="wilson")
        found = f"{over} over, {under} under by more than {RIGHT:.0%}, of {len(errors)} networks"
        return ev.above(
            ev.Estimate((over + under) / len(errors), float(share.low), float(share.high)),
            found,
            f"most predictions are off by more than {RIGHT:.0%} (ours), over or under (Wilson's interval)",
            f"most predictions are within {RIGHT:.0%} (ours; Wilson's interval)",
            "Wilson's 95 % interval of the share of predictions that are off holds a half",
            at=0.5,
        )

    return _ecms(judged)


def within_half(of: Evidence) -> Verdict:
    """The ECM's relative error in sample against the published one, read as a fraction, whichever widths are kept."""
    runs, published = above_chance(of), stated_by("harma2024")["mape"]["ecm"]
    return _ecms(lambda ecm: _within(ecm, runs, published))


def _within(ecm: ECM, runs: Sequence[Measurement], published: float) -> Verdict:
    widths = np.array([field(run, "d_model") for run in runs])
    found = {}
    for count in range(2, len(set(widths)) + 1):
        for kept in itertools.combinations(sorted(set(widths)), count):
            some = [run for run, width in zip(runs, widths, strict=True) if width in kept]
            try:
                found[kept] = float(np.mean(_in_sample(ecm, tables.table(some))))
            except CapaxError:
                continue  # too few networks of these widths
    if len(found) < 2:
        raise Unjudged("the error is known of one choice of widths only")
    low, high = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
    measured = f"{found[low]:.3g} of widths {_listed(low)} to {found[high]:.3g} of widths {_listed(high)}"
    if found[low] <= published < found[high]:
        return cannot(f"it depends on the widths that are kept, {len(found)} choices", measured)
    return ev.exactly(found[high] <= published, measured, f"against {published}, for every choice of widths")


def _listed(widths: Iterable[int]) -> str:
    return ", ".join(map(str, widths))
