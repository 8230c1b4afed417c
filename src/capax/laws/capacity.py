"""The law of capacity in bits: exponents that data leave open are shrunk towards no effect, and widen its intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import scipy

from capax.errors import LawError, shown
from capax.laws.censored import Solution, Vector
from capax.laws.domain import Domain, counted
from capax.laws.power import Factor, Product, names_in
from capax.laws.predictor import tails
from capax.laws.regression import Common, Regression
from capax.laws.rows import Columns, Rows, left_out
from capax.results import LEVEL
from capax.store import tables

FOLDS = 10
FEWEST_ROWS = 4
OF_SIZE = 2
"""Terms of the size alone, which always count: what is asked is how the law goes on."""
IMPUTED = 20
SURE = 2.0
# times as many bits by four times the heads, from which heads are said to add more than their parameters (ours)
MANY_MORE = 1.25
"""Standard errors by which a term has to improve predictions; with one, of eight useless terms one would often do."""
UNEVEN, ANEW, FEWEST_OF_A_KIND = "ffn", 2, 8
"""The column whose kinds spread differently, how often that is asked again with rows weighted by it, and rows of a kind
from which it is asked."""

Size = Literal["effective_parameters", "trainable_parameters", "total_parameters"]
_SIZES = get_args(Size)


def _attention(n_heads: Vector, d_head: Vector, d_model: Vector) -> Vector:
    return np.asarray(np.log(n_heads * np.minimum(d_head, d_model) / d_model))


def _inverse_root(size: Vector) -> Vector:
    return np.asarray(size**-0.5)


def _second(code: Vector) -> Vector:
    """1 for the second of two kinds, 0 for the first."""
    return np.asarray(code - 1.0)


TERMS = {
    "n_layers": (
        Factor("b", "exp(1/n_layers)", ("n_layers",), np.reciprocal),
        Factor("q", "n_layers", ("n_layers",)),
    ),
    "attention": (Factor("c", "(n_heads·d_head/d_model)", ("n_heads", "d_head", "d_model"), _attention),),
    "d_model": (Factor("d_model", "exp(1/d_model)", ("d_model",), np.reciprocal),),
    "vocab_size": (Factor("vocab_size", "vocab_size", ("vocab_size",)),),
    "seq_len": (Factor("seq_len", "exp(1/seq_len)", ("seq_len",), np.reciprocal),),
    "loss": (Factor("loss", "(e where the loss covers the last position)", ("loss",), _second),),
    "embeddings": (Factor("embeddings", "(e where embeddings are trained)", ("embeddings",), _second),),
    "ffn": (Factor("ffn", "(e where there is no FFN)", ("ffn",), _second),),
}
"""What capacity may depend on beside the size, each with exponents. Of the depth there are two factors, one that comes
to an end and a power: the depths that were measured hardly tell them apart, and further ones lie between the two."""

PRIOR = {
    "k": np.inf,
    "a": 0.1,
    "s": 10.0,
    "b": 0.4,
    "q": 0.1,
    "c": 0.2,
    "d_model": 4.0,
    "vocab_size": 0.05,
    "seq_len": 1.0,
    "loss": 0.2,
    "embeddings": 0.2,
    "ffn": 0.3,
}
"""Standard deviations of exponents about their usual values before there are data: over the networks that ship each may
change capacity by a fifth (`loss`, `embeddings`) to a factor of 2.6 (`c`)."""

ARCHITECTURE = tuple(dict.fromkeys(name for term in TERMS.values() for one in term for name in one.columns))
"""Columns that tell architectures apart, beside their sizes."""

OF_A_FAMILY = ("n_layers", "vocab_size", "loss", "embeddings", "ffn")
"""Columns in which families of networks differ. What a law misses of a family its networks have in common, and a study
has many of some and few of others: each family counts alike for the spread, since a new network may be of another."""


class CapacityLaw(Product):
    """C = k · P^a · e^(s/√P) · e^(b/L) · L^q · (H·d_head/d_model)^c · …: bits held at convergence, by the size P.

    P is `effective_parameters`, L `n_layers`, H `n_heads`; d_head counts up to d_model. With a = 1 and s = 0 each
    parameter holds k bits. With s < 0 large networks come near to that and small ones hold less: what is of no use
    (gains, means that norms subtract) grows with the width, and parameters with its square.

    A Bayesian regression of logarithms. Exponents have normal priors about their usual values (`PRIOR`): a about 1, so
    that each parameter holds as much, all others about 0. As far as the data leave an exponent open it stays near
    there, and what is open stays in the intervals: which terms there are is not chosen, since a term that is left out
    would be none for sure, and networks that differ in it would lie outside of intervals. Beside the size, a term
    counts as a parameter where with it families that were left out of the fit, a tenth at a time, have a higher log
    density on average, by more than two standard errors (of families, since
    networks of one err alike). Of the others the law gives no number, and says why.

    Measurements of networks without FFN spread by another number of times sigma (`spreads_`). Networks of a family, of
    one depth, vocabulary, loss and kind of tables, err alike, so that many of a family tell less than as many families
    would: intervals allow for what they have in common (Moulton 1986), the exponents themselves do not change.

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
        spreads_: how many times sigma measurements spread, of a kind where that is another number, by `column=kind`.
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
    repeats_tell: ClassVar[bool] = False

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
        if self.size not in _SIZES:
            raise LawError(f"size: {', '.join(_SIZES)}, got {shown(self.size)}")
        axes = list(TERMS) if self.axes is None else names_in(self.axes)
        if axes is None or len(set(axes)) < len(axes) or not set(axes) <= set(TERMS):
            raise LawError(f"axes: of law capacity some of {', '.join(TERMS)}, each once; got {shown(self.axes)}")
        power = Factor("a", self.size, (self.size,), usual=1.0)
        small = Factor("s", f"exp(1/√{self.size})", (self.size,), _inverse_root)
        return (power, small, *(factor for name in axes for factor in TERMS[name]))

    @property
    def form(self) -> str | None:
        """What it says in symbols, with the names of its columns where its terms were chosen."""
        return super().form if self.axes is None else self.in_symbols()

    # Fitting

    def fit_rows(self, rows: Rows, table: Any = None) -> Self:
        """Fit to measurements that were read; a table adds its protocol to the domain.

        Converged measurements of one architecture count once, by their geometric mean: what the law misses of it they
        miss together, so that apart they would narrow the intervals of all others.
        """
        told = {} if table is None else table
        every, rows = rows, _once_each(rows, told)
        self.repeats_ = len(every.counts) - len(rows.counts)
        self.domain_ = self.domain_of(rows.columns, told, np.array([np.inf]))
        self.rows_, self.draws_ = rows, None
        design, y = self._design(rows.columns), np.log(np.where(rows.complete, rows.library, rows.counts))
        if (values := int((~rows.complete).sum())) < FEWEST_ROWS:
            raise LawError(
                f"{self.name}: at least {FEWEST_ROWS} converged measurements are needed, got {values} of {len(y)}"
            )
        y, self.held_ = y - design @ self._usual, {}
        alike = np.ptp(design, axis=0) < 1e-12
        self._open = {
            name: f"one value of {', '.join(factor.columns)} only"
            for name, factor, one in zip(self.names[1:], self.factors, alike[1:], strict=True)
            if one
        }
        self.spreads_: dict[str, float] = {}
        kinds, families = self._kinds(rows), self._families(rows.columns)
        for _ in range(1 + ANEW * bool(kinds)):
            residuals = self._regress(design, y, rows)
            if kinds:
                first, second = (
                    np.sqrt(np.mean(_each_family(families[of_kind]) * residuals[of_kind] ** 2)) for of_kind in kinds
                )
                self.spreads_ = {f"{UNEVEN}={self.coded[UNEVEN][1]}": float(second / first)}
        converged, scale = ~rows.complete, self._unevenness(rows.columns)
        even, own = (design / scale[:, None])[converged], (y / scale)[converged]
        self.common_ = Common(families, Common.of(even, own, self.regression_, families[converged]).share)
        self._judge(design, y, rows)
        self._describe()
        self._name_sources(told)
        return self

    def domain_of(self, columns: Columns, table: Any, library: Vector) -> Domain:
        """Also what its terms are made of, where it has them not; no library is a bound."""
        return Domain.of(
            self.columns,
            columns,
            table,
            np.array([np.inf]),
            skip=(*counted(table), "restarts"),  # capacity is the mean of all restarts, of which more tell it better
            coded=self.coded,
            mixed=[name for term in TERMS.values() for one in term for name in one.columns if name not in self.columns],
        )

    def _families(self, columns: Columns) -> np.ndarray:
        """The number of each row's family: networks that differ in width, heads and length alone."""
        kinds = [columns[name] for name in OF_A_FAMILY if name in columns] or [np.ones(len(self.rows_.counts))]
        return np.unique(np.column_stack(kinds), axis=0, return_inverse=True)[1].ravel()

    @property
    def _prior(self) -> Vector:
        return np.array([PRIOR[name] for name in self.names])

    def _regress(self, design: np.ndarray, y: Vector, rows: Rows) -> Vector:
        """Fit the regression to all rows, lower bounds at what is expected above them; the residuals."""
        bounds, y, unseen = rows.complete, y.copy(), 0.0
        scale, counts = self._unevenness(rows.columns), _each_family(self._families(rows.columns))
        for _ in range(IMPUTED if bounds.any() else 1):
            fit = Regression.of(design / scale[:, None], y / scale, self._prior, counts)
            spread = float(np.sqrt(fit.spread**2 + unseen / fit.dof))
            if bounds.any():
                mean, low, own = design[bounds] @ fit.beta, self._bounds(rows, design), spread * scale[bounds]
                above = scipy.stats.truncnorm((low - mean) / own, np.inf, mean, own)
                y[bounds], unseen = above.mean(), float((above.var() / scale[bounds] ** 2).sum())
        self.regression_ = fit
        values = dict(zip(self.names, (self._usual + fit.beta).tolist(), strict=True))
        values[self.names[0]] = float(np.exp(values[self.names[0]]))
        residuals = y - design @ fit.beta
        even = (residuals / scale)[~bounds] / spread
        self.solution_ = Solution(values, self.names, spread, max(round(fit.dof), 1), float(even @ even))
        return residuals

    def _judge(self, design: np.ndarray, y: Vector, rows: Rows) -> None:
        """Which terms count as parameters: those that improve predictions of families that were left out."""
        values = ~rows.complete
        scale, families = self._unevenness(rows.columns)[values], self._families(rows.columns)[values]
        design, even, y = design[values], design[values] / scale[:, None], y[values] / scale

        def density(held: np.ndarray, places: list[int]) -> Vector:
            fit = Regression.of(even[~held][:, places], y[~held], self._prior[places], _each_family(families[~held]))
            return fit.log_density(even[held][:, places], y[held])

        every, folds = list(range(len(self.names))), list(left_out(families[:, None], FOLDS))
        whole = [density(held, every) for held in folds]
        for term in TERMS.values():
            names = [str(one.exponent) for one in term if one in self.factors and one.exponent not in self._open]
            if not names:
                continue
            others = [place for place, name in enumerate(self.names) if name not in names]
            gain = np.zeros(len(y))
            for held, density_with in zip(folds, whole, strict=True):
                gain[held] = density_with - density(held, others)
            mean, error = _mean_of_families(gain, families, self.common_.share) if folds else (0.0, np.inf)
            if mean <= SURE * error:
                found = f"changes by {mean:.2g} ± {error:.2g} on average"
                unknown = "is not known to change, as there are too few families to leave one out"
                reason = (
                    "shrunk towards no effect: with it the log density of a network left out of the fit "
                    f"{found if np.isfinite(error) else unknown}"
                )
                self._open |= dict.fromkeys(names, reason)
        free = tuple(name for name in self.names if name not in self._open)
        self.solution_ = replace(self.solution_, free=free)

    def _kinds(self, rows: Rows) -> list[np.ndarray]:
        """The converged rows of each kind of `UNEVEN`; none where there are too few of one to tell its spread."""
        if UNEVEN not in rows.columns:
            return []
        kinds = [np.flatnonzero((rows.columns[UNEVEN] == code) & ~rows.complete) for code in (1, 2)]
        return kinds if min(map(len, kinds)) >= FEWEST_OF_A_KIND else []

    def _unevenness(self, columns: Columns) -> Vector:
        """How many times sigma measurements of rows spread."""
        found = np.ones(len(next(iter(columns.values()))))
        for kind, times in self.spreads_.items():
            name, _, value = kind.partition("=")
            found[columns[name] == 1 + self.coded[name].index(value)] = times
        return found

    def _bounds(self, rows: Rows, design: np.ndarray) -> Vector:
        """Logarithms of the lower bounds, less what terms at their usual exponents give."""
        return np.asarray(np.log(rows.library[rows.complete]) - design[rows.complete] @ self._usual)

    @property
    def _n_fitted(self) -> int:
        """As many as the rows tell: a term that is shrunk counts in part."""
        return len(self.rows_.counts) + 1 - self.solution_.dof

    def _not_told(self, solution: Solution) -> dict[str, str]:
        return self._open

    def reading_notes(self) -> list[str]:
        """What a reader must know of spreads and repeats."""
        notes = [
            f"measurements with {kind} spread {times:.2g} times as widely as others"
            for kind, times in self.spreads_.items()
        ]
        if self.repeats_:
            which = "1 measurement repeats" if self.repeats_ == 1 else f"{self.repeats_} measurements repeat"
            notes.append(f"{which} an architecture; those of one count once, by their geometric mean")
        return notes

    def heads_or_width(self) -> str | None:
        """By the exponent c of the heads' channels, and what Härmä et al. 2024 conclude."""
        if self.measured is None or np.ptp(self._heads_channels(self.rows_.columns)) == 0:
            return None
        place = self.names.index("c")
        ends = [self.solution_.values["c"], *np.quantile(self.bootstrap()[:, place], tails(LEVEL))]
        more, low, high = (4**end for end in ends)
        if low > MANY_MORE:
            meaning = "heads add more than their parameters"
        elif high < 1 / MANY_MORE:
            meaning = "heads add less than their parameters"
        elif low > 1 / MANY_MORE and high < MANY_MORE:
            meaning = "most of what heads add is their parameters"
        else:
            meaning = "whether they add more than their parameters is open"
        doubtful = "c" in self.undetermined_
        doubt = "; families that were left out of fits do not bear it out beyond doubt" if doubtful else ""
        return (
            f"Of two networks with as many effective parameters, one with four times the heads holds {more:.2f} times "
            f"as many bits ({low:.2f} to {high:.2f}{doubt}): {meaning}. Härmä et al. 2024 conclude, of counts of "
            "sequences, that a head costs less than width (known from summaries); docs/how-to/choose-heads.md compares."
        )

    def _heads_channels(self, columns: Columns) -> Vector:
        """The term of c; nothing but zeros in a law that has it not."""
        (term,) = TERMS["attention"]
        return term.log(*(columns[name] for name in term.columns)) if term in self.factors else np.zeros(1)

    # Intervals

    def parameter_intervals(self, level: float = LEVEL) -> dict[str, tuple[float | None, float | None]]:
        """Quantiles of the posterior's draws; a parameter in `undetermined_` has neither end.

        Raises:
            LawError: for a level that the draws do not tell: 39 are needed for 95 %.
        """
        return self._ends_of_draws(level)

    def _drawn(self, generator: np.random.Generator) -> np.ndarray:
        """Draws of the parameters and the spread by their posterior, and of what bounds leave open."""
        rows, usual = self.rows_, self._usual
        design, scale = self._design(rows.columns), self._unevenness(rows.columns)
        even, counts = design / scale[:, None], _each_family(self._families(rows.columns))
        y, bounds = np.log(rows.counts) - design @ usual, rows.complete
        draws, (beta, spread) = np.empty((self.n_bootstrap, len(usual) + 1)), (self.regression_.beta, self.sigma_)
        for number in range(self.n_bootstrap):
            if bounds.any():
                mean, own = design[bounds] @ beta, spread * scale[bounds]
                low = (self._bounds(rows, design) - mean) / own
                y[bounds] = scipy.stats.truncnorm.rvs(low, np.inf, mean, own, random_state=generator)
            if bounds.any() or not number:
                fit = Regression.of(even, y / scale, self._prior, counts, self.common_)
            beta, spread = fit.drawn(generator)
            draws[number] = [*(usual + beta), spread]
        draws[:, 0] = np.exp(draws[:, 0])
        return draws

    def _said(self, draws: np.ndarray, columns: Columns) -> np.ndarray:
        logs, _ = self._logs(columns)
        return np.asarray(np.log(draws[:, :1]) + draws[:, 1:] @ logs.T)

    def drivers(self, X: Any) -> dict[str, float]:
        """What makes the interval of one row wide: shares of its variance, the largest first; they add up to one.

        The share of an exponent is the covariance of its term with all that the law says of the row: below zero, where
        other terms make up for what it leaves open. `size` is of k, a and s together, which do so for one another, and
        `spread` is that of measurements. The others are named as the terms are, such as `n_layers` and `attention`.
        """
        if self.measured is None:  # of a file that leaves them out
            return {}
        columns = self._columns_of(X)
        logs, _ = self._logs(columns)
        center = self._logs(self.rows_.columns)[0].mean(0)
        draws = self.bootstrap()
        level = np.log(draws[:, 0]) + draws[:, 1:-1] @ center
        parts = draws[:, 1:-1] * (logs[0] - center)
        parts = np.column_stack([level + parts[:, :OF_SIZE].sum(1), parts[:, OF_SIZE:]])
        said = parts.sum(1)
        shares = (parts - parts.mean(0)).T @ (said - said.mean()) / len(said)
        found = dict.fromkeys(("size", *(name for name, term in TERMS.items() if term[0] in self.factors)), 0.0)
        owners = {str(one.exponent): name for name, term in TERMS.items() for one in term}
        for name, share in zip(("size", *(owners[one] for one in self.names[1 + OF_SIZE :])), shares, strict=True):
            found[name] += float(share)
        found["spread"] = float((draws[:, -1] ** 2).mean() * self._unevenness(columns)[0] ** 2)
        whole = sum(found.values())
        return {name: part / whole for name, part in sorted(found.items(), key=lambda part: -part[1])}

    def _errors(self, center: Vector, drawn: np.ndarray, spread: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Of new measurements, of each draw one about what it says."""
        return np.asarray((drawn + spread * noise - center) / self.sigma_)

    @property
    def _usual(self) -> Vector:
        return np.array([0.0, *(factor.usual for factor in self.factors)])

    def _design(self, columns: Columns) -> np.ndarray:
        logs, _ = self._logs(columns)
        return np.column_stack([np.ones(len(logs)), logs])


def _each_family(families: np.ndarray) -> Vector:
    """How much each row counts where every family does alike."""
    _, place, sizes = np.unique(families, return_inverse=True, return_counts=True)
    return np.asarray(len(families) / (len(sizes) * sizes[place]))


def _mean_of_families(values: Vector, families: np.ndarray, share: float) -> tuple[float, float]:
    """The mean of values over families, and its standard error: families err independently, rows of one do not.

    A family counts for as many rows as its own tell, where they have a share of their variance in common.
    """
    _, place, sizes = np.unique(families, return_inverse=True, return_counts=True)
    each, told = np.bincount(place, values) / sizes, sizes / (1 + (sizes - 1) * share)
    weights = told / told.sum()
    mean = float(weights @ each)
    # a family that counts for much is near to a mean that it sets itself
    return mean, float(np.sqrt(weights**2 @ ((each - mean) / (1 - weights)) ** 2))


def _once_each(rows: Rows, table: Any) -> Rows:
    """The geometric mean of the converged measurements of each architecture, and the highest of its lower bounds.

    Args:
        table: what the rows were read from: where it has them, all sizes tell architectures apart, not the law's alone.
    """
    values, bounds = rows.take(~rows.complete), rows.take(rows.complete)
    if not len(values.counts):
        return rows
    known = tables.names(table)
    further = [name for name in dict.fromkeys((*ARCHITECTURE, *_SIZES)) if name in known and name not in rows.columns]
    cells = [np.array([str(one) for one in tables.values(table, name)]) for name in further]
    codes = [np.unique(column, return_inverse=True)[1].ravel() for column in (*rows.columns.values(), *cells)]

    def architectures(of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first of some rows of each architecture, and the architecture of each."""
        found = np.unique(np.column_stack(codes)[of], axis=0, return_index=True, return_inverse=True)
        return found[1], found[2].ravel()

    (first, group), (first_bound, of_bound) = architectures(~rows.complete), architectures(rows.complete)
    repeats = len(rows.counts) - len(first) - len(first_bound)
    if not repeats:
        return rows
    means = np.exp(np.bincount(group, np.log(values.counts)) / np.bincount(group))
    highest = np.zeros(len(first_bound))
    np.maximum.at(highest, of_bound, bounds.library)
    once, least = values.take(first), bounds.take(first_bound)
    return Rows(
        {name: np.concatenate([column, least.columns[name]]) for name, column in once.columns.items()},
        np.concatenate([means, highest]),
        np.concatenate([np.full(len(first), np.inf), highest]),
    )
