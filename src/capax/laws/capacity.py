"""The law of capacity in bits: what predicts is averaged, and what the data leave open widens its intervals."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy
from sklearn.model_selection import GroupKFold

from capax.errors import LawError, shown
from capax.laws.censored import Solution, Vector
from capax.laws.domain import Domain, counted
from capax.laws.power import Factor, Product
from capax.laws.regression import FREEDOM, Regression
from capax.laws.rows import Columns, Rows

FOLDS = 10
MOST_TERMS = 5
"""That one regression has: of more there are many subsets, and few rows for each."""
FARTHER, SHARES = 3.0, (0.3, 0.4, 0.5, 0.6, 0.7)
"""From the smallest shares of the rows those are predicted that are this many times larger: how well a law travels."""
FEWEST = 12
"""Rows from which larger ones are predicted, at least."""
OF_SIZE = 2
"""Terms of the size alone, which are not judged, since what is asked is how the law goes on."""
ROUNDS, IMPUTED = 300, 20
SURE = 2.0
"""Standard errors by which a term has to improve predictions; with one, of eight useless terms one would often enter.
"""
LEAST_WEIGHT = 0.1
"""Of each form of the size: in proportion, a power, and a density that small networks do not reach."""
ENTERS = 0.5
"""Share of the weight of the regressions with a term from which it counts as a parameter."""

Size = Literal["effective_parameters", "trainable_parameters", "total_parameters"]


def _attention(n_heads: Vector, d_head: Vector, d_model: Vector) -> Vector:
    return np.asarray(np.log(n_heads * np.minimum(d_head, d_model) / d_model))


def _inverse_root(size: Vector) -> Vector:
    return np.asarray(size**-0.5)


def _second(code: Vector) -> Vector:
    """1 for the second of two kinds, 0 for the first."""
    return np.asarray(code - 1.0)


TERMS = {
    "n_layers": Factor("b", "n_layers", ("n_layers",)),
    "attention": Factor("c", "n_heads·d_head/d_model", ("n_heads", "d_head", "d_model"), _attention),
    "d_model": Factor("d_model", "exp(1/d_model)", ("d_model",), np.reciprocal),
    "vocab_size": Factor("vocab_size", "vocab_size", ("vocab_size",)),
    "seq_len": Factor("seq_len", "seq_len", ("seq_len",)),
    "loss": Factor("loss", "e, where the loss covers the last position", ("loss",), _second),
    "embeddings": Factor("embeddings", "e, where embeddings are trained", ("embeddings",), _second),
    "ffn": Factor("ffn", "e, where there is no FFN", ("ffn",), _second),
}
"""What capacity may depend on beside the size, each with an exponent."""


class CapacityLaw(Product):
    """C = k · P^a · e^(s/√P) · L^b · (H·d_head/d_model)^c · …: bits that networks hold at convergence, by their size P.

    P is `effective_parameters`, L `n_layers`, H `n_heads`; d_head counts up to d_model. With a = 1 and s = 0 each
    parameter holds k bits. With s < 0 large networks come near to that and small ones hold less: what is of no use
    (gains, means that norms subtract) grows with the width, and parameters with its square.

    Which terms there are, and whether a is 1 and s is 0, is not chosen once: each subset of terms is a regression of
    logarithms, and their predictions are averaged by stacking (Yao et al. 2018): with the weights that give what was
    left out of fits the highest density. Left out are whole architectures, a tenth at a time, and again those three
    times as large as all that a fit had. Terms enter one at a time, the best first, each only where the best regression
    with it gives the tenths a density that is higher than without, by more than two standard errors of that; the law
    says what it left out. How
    density goes on with the size is asked beyond the data, where they cannot tell: each of the three forms (C in
    proportion to P, a power, or with s) has a tenth of the weight at least.

    Ours; Härmä et al. 2024 have counts of sequences in place of bits.

    Measurements without a value of the target (trainings that did not converge) are lower bounds, `capacity_reached`.

    Args:
        axes: names of terms that it may have beside the size: `n_layers`, `attention`, `d_model`, `vocab_size`,
            `seq_len`, `loss`, `embeddings`, `ffn`; all when not given.
        size: the column P; `trainable_parameters` counts W_Q, W_K, W_V and W_O by their numbers.
        target: column of bits that is fitted when `fit` gets a table without y.
        n_bootstrap: draws behind `predict_interval`.
        random_state: seed of those.

    Attributes:
        weights_: share of the weight that regressions with a term have, by the parameter's name.
        repeats_: measurements that repeat an architecture; those of one count once.
    """

    name: ClassVar[str] = "capacity"
    coded: ClassVar[dict[str, tuple[str, ...]]] = {
        "loss": ("all", "last"),
        "embeddings": ("frozen", "trained"),
        "ffn": ("mlp", "none"),
    }
    bound: ClassVar[str | None] = "capacity_reached"
    counts: ClassVar[tuple[str, ...]] = ("bits",)
    travels: ClassVar[bool] = True

    def __init__(
        self,
        *,
        axes: Sequence[str] | None = None,
        size: Size = "effective_parameters",
        target: str = "capacity_bits",
        n_bootstrap: int = 1000,
        random_state: int = 0,
    ) -> None:
        super().__init__(target=target, n_bootstrap=n_bootstrap, random_state=random_state)
        self.axes = axes
        self.size = size

    @property
    def factors(self) -> tuple[Factor, ...]:  # type: ignore[override]
        """What is multiplied, the size first.

        Raises:
            LawError: for axes or a size that there are not, or that repeat.
        """
        sizes = Size.__args__  # type: ignore[attr-defined]
        if self.size not in sizes:
            raise LawError(f"size: {', '.join(sizes)}, got {shown(self.size)}")
        axes = list(TERMS) if self.axes is None else list(self.axes)
        if (
            isinstance(self.axes, str)
            or len(set(axes)) < len(axes)
            or not all(isinstance(name, str) and name in TERMS for name in axes)
        ):
            raise LawError(f"axes: of law capacity some of {', '.join(TERMS)}, each once; got {shown(self.axes)}")
        power = Factor("a", self.size, (self.size,), usual=1.0)
        small = Factor("s", f"exp(1/√{self.size})", (self.size,), _inverse_root)
        return (power, small, *(TERMS[name] for name in axes))

    # Fitting

    def fit_rows(self, rows: Rows, table: Any = None) -> Self:
        """Fit to measurements that were read; a table adds its protocol to the domain.

        Converged measurements of one architecture count once, by their geometric mean: what the law misses of it they
        miss together, so that apart they would narrow the intervals of all others.
        """
        every, rows = rows, _once_each(rows)
        self.repeats_ = len(every.counts) - len(rows.counts)
        told = {} if table is None else table
        self.domain_ = Domain.of(
            self.columns,
            rows.columns,
            told,
            np.array([np.inf]),
            skip=(*counted(told), "restarts"),  # capacity is the mean of all restarts, of which more tell it better
            coded=self.coded,
            mixed=[name for term in TERMS.values() for name in term.columns if name not in self.columns],
        )
        self.rows_, self.draws_ = rows, None
        design, y = self._design(rows.columns), np.log(np.where(rows.complete, rows.library, rows.counts))
        usual = self._usual
        y = y - design @ usual
        varies = np.ptp(design[:, 1:], axis=0) > 1e-12
        self.held_ = {
            name: (usual[place], f"one value of {factor.base} only; held at {usual[place]:g}")
            for place, (name, factor) in enumerate(zip(self.names[1:], self.factors, strict=True), 1)
            if not varies[place - 1]
        }
        self.left_out_: dict[str, str] = {}
        subsets = _subsets(np.flatnonzero(varies) + 1)
        weights = self._stacked(subsets, design, y, rows)
        self._average(subsets, weights, design, y, rows)
        self._describe()
        self._name_sources(told)
        return self

    def _stacked(self, subsets: list[tuple[int, ...]], design: np.ndarray, y: Vector, rows: Rows) -> Vector:
        """The weight of each subset of terms. Where the rows of a fit do not tell a term, it predicts without it."""
        values = ~rows.complete
        design, y = design[values], y[values]
        if len(y) < 1 + FREEDOM:
            raise LawError(
                f"{self.name}: at least {1 + FREEDOM} converged measurements are needed, got {len(y)} of {len(values)}"
            )
        densities, larger = [np.empty((len(subsets), 0))], [np.empty(0, dtype=bool)]
        for kept, left_out, travels in _folds(design):
            (simplest,) = Regression.of([(0,)], design[kept], y[kept])
            if simplest is None:
                continue
            varies = {0, *np.flatnonzero(np.ptp(design[kept], axis=0) > 0).tolist()}
            told = [tuple(place for place in places if place in varies) for places in subsets]
            fits = dict(zip(told, Regression.of(told, design[kept], y[kept]), strict=True))
            found = {
                places: (fit or simplest).log_density(design[left_out], y[left_out]) for places, fit in fits.items()
            }
            densities.append(np.stack([found[places] for places in told]))
            larger.append(np.full(int(left_out.sum()), travels))
        density = np.concatenate(densities, axis=1)
        if not density.size:  # of one architecture
            return np.eye(len(subsets))[0]
        self._choose(subsets, density[:, ~np.concatenate(larger)])
        out = {place for name, place in self._terms() if name in self.left_out_}
        eligible = np.array([out.isdisjoint(places) for places in subsets])
        weights = np.zeros(len(subsets))
        chosen = [places for places, kept in zip(subsets, eligible, strict=True) if kept]
        weights[eligible] = self._mixture(density[eligible], chosen)
        return weights

    def _mixture(self, density: np.ndarray, subsets: list[tuple[int, ...]]) -> Vector:
        """The weights of a mixture with the highest density, and the least that each form of the size has."""
        likely = np.exp(density - density.max(0))
        weights = np.full(len(subsets), 1 / len(subsets))
        for _ in range(ROUNDS):  # expectation and maximization
            weights = (weights[:, None] * likely / (weights @ likely)).mean(1)
        forms = [tuple(place for place in places if 0 < place <= OF_SIZE) for places in subsets]
        for form in set(forms):
            of_form = np.array([one == form for one in forms])
            if (lacks := LEAST_WEIGHT - weights[of_form].sum()) > 0:
                weights[np.argmax(np.where(of_form, density.sum(1), -np.inf))] += lacks
        return weights / weights.sum()

    def _terms(self) -> list[tuple[str, int]]:
        """The terms beside those of the size that differ between rows, and their columns of the design."""
        return [(name, place) for place, name in enumerate(self.names) if place > OF_SIZE and name not in self.held_]

    def _choose(self, subsets: list[tuple[int, ...]], density: np.ndarray) -> None:
        """Let the term in that improves predictions most, as long as one surely does; the others are left out.

        One at a time: terms that may stand for one another would each seem to add nothing beside the others.
        """
        total, waiting, chosen = density.sum(1), dict(self._terms()), set(range(OF_SIZE + 1))

        def best(allowed: set[int], having: int = 0) -> Vector:
            within = np.array([allowed.issuperset(places) and having in places for places in subsets])
            return np.asarray(density[np.argmax(np.where(within, total, -np.inf))])

        while waiting:
            now = best(chosen)
            gains = {name: best(chosen | {place}, place) - now for name, place in waiting.items()}
            errors = {name: float(gain.std(ddof=1) * np.sqrt(len(gain))) for name, gain in gains.items()}
            sure = [name for name, gain in gains.items() if gain.sum() > SURE * errors[name]]
            if not sure:
                break
            chosen.add(waiting.pop(max(sure, key=lambda name: float(gains[name].sum()))))
        for name in waiting:
            self.left_out_[name] = (
                f"left out: added, it changes the log density of what is left out of fits by {gains[name].sum():.2g} ± "
                f"{errors[name]:.2g}"
            )

    def _average(
        self, subsets: list[tuple[int, ...]], weights: Vector, design: np.ndarray, y: Vector, rows: Rows
    ) -> None:
        """The regressions to all rows, weighted; lower bounds at what is expected above them."""
        bounds, y, unseen = rows.complete, y.copy(), 0.0
        for _ in range(IMPUTED if bounds.any() else 1):
            fits = Regression.of(subsets, design, y)
            share = np.array([0.0 if fit is None else weight for fit, weight in zip(fits, weights, strict=True)])
            share = np.where(share < 1e-3 * share.max(), 0.0, share)
            share /= share.sum()
            found = [(fit, weight) for fit, weight in zip(fits, share.tolist(), strict=True) if fit and weight]
            beta = np.zeros(design.shape[1])
            for fit, weight in found:
                beta[list(fit.places)] += weight * fit.beta
            spread = float(np.sqrt(sum(weight * (fit.spread**2 + unseen / fit.dof) for fit, weight in found)))
            if bounds.any():
                mean, low = design[bounds] @ beta, self._bounds(rows, design)
                above = scipy.stats.truncnorm((low - mean) / spread, np.inf, mean, spread)
                y[bounds], unseen = above.mean(), float(above.var().sum())
        self.regressions_ = found
        usual = self._usual
        values = dict(zip(self.names, (usual + beta).tolist(), strict=True))
        values[self.names[0]] = float(np.exp(values[self.names[0]]))
        self.weights_ = {
            name: sum(weight for fit, weight in found if place in fit.places)
            for place, name in enumerate(self.names)
            if place and name not in self.held_ and name not in self.left_out_
        }
        free = (self.names[0], *(name for name, weight in self.weights_.items() if weight >= ENTERS))
        residuals = (y - design @ beta)[~bounds]
        dof = max(len(residuals) - len(free), 1)
        self.solution_ = Solution(values, free, spread, dof, float(residuals @ residuals / spread**2))

    def _bounds(self, rows: Rows, design: np.ndarray) -> Vector:
        """Logarithms of the lower bounds, less what terms at their usual exponents give."""
        return np.asarray(np.log(rows.library[rows.complete]) - design[rows.complete] @ self._usual)

    def _not_told(self, solution: Solution) -> dict[str, str]:
        return self.left_out_

    def reading_notes(self) -> list[str]:
        """What a reader must know of the average."""
        partly = [f"{name} {weight:.0%}" for name, weight in self.weights_.items() if 0 < weight < 0.995]
        notes = []
        if partly:
            notes.append(f"an average over regressions; share of the weight that has a term: {', '.join(partly)}")
        if self.repeats_:
            which = "1 measurement repeats" if self.repeats_ == 1 else f"{self.repeats_} measurements repeat"
            notes.append(f"{which} an architecture; those of one count once, by their geometric mean")
        return notes

    # Intervals

    def parameter_intervals(self, level: float = 0.95) -> dict[str, tuple[float | None, float | None]]:
        """Quantiles of the average's draws; a parameter in `undetermined_` has neither end."""
        ends = np.quantile(self.bootstrap()[:, :-1], [(1 - level) / 2, (1 + level) / 2], axis=0)
        return {
            name: (None, None) if name in self.undetermined_ else (low, high)
            for name, low, high in zip(self.names, *ends.tolist(), strict=True)
        }

    def _drawn(self, generator: np.random.Generator) -> np.ndarray:
        """Draws of a regression by its weight, of its parameters by their posterior, and of what bounds leave open."""
        rows, usual = self.rows_, self._usual
        design = self._design(rows.columns)
        y = np.log(rows.counts) - design @ usual
        shares = [weight for _, weight in self.regressions_]
        chosen = generator.choice(len(shares), self.n_bootstrap, p=shares)
        draws, bounds = np.empty((self.n_bootstrap, len(usual) + 1)), rows.complete
        fitted = self._design_coefficients()
        for number, place in enumerate(chosen):
            fit = self.regressions_[place][0]
            if bounds.any():
                mean, spread = design[bounds] @ fitted[0], fitted[1]
                low = (self._bounds(rows, design) - mean) / spread
                y[bounds] = scipy.stats.truncnorm.rvs(low, np.inf, mean, spread, random_state=generator)
                fit = Regression.of([fit.places], design, y)[0] or fit
            beta, spread = fitted = fit.drawn(len(usual), generator)
            draws[number] = [*(usual + beta), spread]
        draws[:, 0] = np.exp(draws[:, 0])
        return draws

    def _design_coefficients(self) -> tuple[Vector, float]:
        values = np.array(list(self.solution_.values.values()))
        values[0] = np.log(values[0])
        return values - self._usual, self.sigma_

    def _said(self, draws: np.ndarray, columns: Columns) -> np.ndarray:
        logs, _ = self._logs(columns)
        return np.asarray(np.log(draws[:, :1]) + draws[:, 1:] @ logs.T)

    def drivers(self, X: Any) -> dict[str, float]:
        """What makes the interval of one row wide: shares of its variance, the largest first.

        Each exponent counts by how far its term is from where the data are; `spread` is that of measurements. Shares of
        exponents that err together may not add up to one.
        """
        if self.measured is None:  # of a file that leaves them out
            return {}
        logs, _ = self._logs(self._columns_of(X))
        center = self._logs(self.rows_.columns)[0].mean(0)
        draws = self.bootstrap()
        parts = draws[:, 1:-1].var(0) * (logs[0] - center) ** 2
        parts = dict(zip(self.names[1:], parts.tolist(), strict=True)) | {"spread": float((draws[:, -1] ** 2).mean())}
        whole = sum(parts.values())
        return {name: part / whole for name, part in sorted(parts.items(), key=lambda part: -part[1])}

    def _errors(self, center: Vector, drawn: np.ndarray, spread: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Of new measurements, of each draw one about what it says."""
        return np.asarray((drawn + spread * noise - center) / self.sigma_)

    @property
    def _usual(self) -> Vector:
        return np.array([0.0, *(factor.usual for factor in self.factors)])

    def _design(self, columns: Columns) -> np.ndarray:
        logs, _ = self._logs(columns)
        return np.column_stack([np.ones(len(logs)), logs])


def _subsets(places: np.ndarray) -> list[tuple[int, ...]]:
    """The factor in front with at most so many of the others, the fewest first; of those of the size one at most.

    Together they can bend as they like: over a narrow range of sizes they fit any noise, and say anything beyond it.
    """
    few = range(min(len(places), MOST_TERMS) + 1)
    found = ((0, *some) for count in few for some in itertools.combinations(places.tolist(), count))
    return [some for some in found if sum(0 < place <= OF_SIZE for place in some) < 2]


def _once_each(rows: Rows) -> Rows:
    """The geometric mean of the converged measurements of each architecture, and all lower bounds.

    Of too few architectures for a regression all measurements.
    """
    values, bounds = rows.take(~rows.complete), rows.take(rows.complete)
    if not len(values.counts):
        return rows
    table = np.column_stack(list(values.columns.values()))
    _, first, group = np.unique(table, axis=0, return_index=True, return_inverse=True)
    if len(first) == len(table) or len(first) < 1 + FREEDOM:
        return rows
    means = np.exp(np.bincount(group.ravel(), np.log(values.counts)) / np.bincount(group.ravel()))
    once = values.take(first)
    return Rows(
        {name: np.concatenate([column, bounds.columns[name]]) for name, column in once.columns.items()},
        np.concatenate([means, bounds.counts]),
        np.concatenate([np.full(len(first), np.inf), bounds.library]),
    )


def _folds(design: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, bool]]:
    """Rows that are kept, and left out: whole architectures, and again (True) much larger ones than are kept."""
    groups = np.unique(design, axis=0, return_inverse=True)[1].ravel()
    folds = min(FOLDS, len(np.unique(groups)))
    if folds > 1:
        for kept, left_out in GroupKFold(folds, shuffle=True, random_state=0).split(design, groups=groups):
            yield np.isin(np.arange(len(design)), kept), np.isin(np.arange(len(design)), left_out), False
    size = design[:, 1]
    for share in SHARES:
        most = np.quantile(size, share)
        left_out = size > most + np.log(FARTHER)
        kept = size <= most
        if left_out.any() and kept.sum() >= FEWEST:
            yield kept, left_out, True
