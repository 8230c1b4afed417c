"""What all laws share: tables in, a censored fit by likelihood, and what a reader must know of it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
from sklearn.utils.validation import check_is_fitted

from capax.errors import LawError, shown
from capax.laws.censored import SMALLEST_SPREAD, Observed, Solution, profile, solve, standardized
from capax.laws.domain import Domain
from capax.laws.predictor import LEAST, Predictor, tails
from capax.laws.rows import Columns, Rows, Vector, saying
from capax.overview import Overview
from capax.results import LEVEL
from capax.specs.plugins import resolve
from capax.specs.spec import whole
from capax.store import frames, tables

REDRAWS = 1000


@dataclass(frozen=True)
class Structure:
    """A form of a law that may suit the data.

    Attributes:
        held: parameters that are not fitted: their value, and why.
        starts: where the fit begins, every parameter by name; several where it may end in different places.
    """

    held: dict[str, tuple[float, str]]
    starts: list[dict[str, float]]


class Law(Predictor):
    """A scikit-learn regressor of capacity on architecture columns.

    `fit` and `predict` take a table with named columns (a data frame of any library, a mapping of arrays; more
    columns than the law's do no harm) or an array with the columns in the order of `columns`. A further column
    `library_size` (last, in an array) says how many items there were: a count as large is a lower bound, not a value.
    Residuals are relative: log count = log law + sigma·ε.

    Attributes:
        columns: names of the columns of X, in the order of a plain array.
        names: names of the parameters.
        parameters_: the law's parameters by name; None for those that the data do not determine.
        undetermined_: why not, by name.
        sigma_: spread of log counts about the law.
        domain_: where and how the data were measured; outside, `predict` warns and `inside_domain` is False.
        source_: what it was fitted to, or who published it.
        notes_: what a reader must know of this fit.
    """

    name: ClassVar[str]
    items: ClassVar[str] = "sequences"
    """What it counts, as `Task.unit` names them, where the rows do not name their task."""
    along: ClassVar[str | None] = None
    """Of a law of curves: the column along which a training gives several rows (`capax.curves`)."""
    found: ClassVar[tuple[str, ...]] = ()
    """Columns that say what a measurement found, where of others they say how it was done."""
    travels: ClassVar[bool] = False
    """Whether its intervals say what distance from the data costs, so that it may be asked outside its domain."""
    repeats_tell: ClassVar[bool] = True
    """Whether a second measurement of an architecture says more of the law: if most of its spread is luck."""
    beyond: ClassVar[str | None] = None
    """The size that a plan raises beyond the domain, where the last of the model's would add nothing."""
    mixed: ClassVar[tuple[str, ...]] = ()
    """Columns that say how a row was measured, and may differ all the same: what is counted hardly depends on them."""
    usual_target: ClassVar[str] = "memorized_above_chance"
    counts: ClassVar[tuple[str, ...]] = ("items", "bits")
    """What its target may count, as `tables.unit` says; somebody's own column may count anything."""

    def __init__(
        self, *, target: str = "memorized_above_chance", n_bootstrap: int = 1000, random_state: int = 0
    ) -> None:
        self.target = target
        self.n_bootstrap = n_bootstrap
        self.random_state = random_state

    # What a law defines

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Its parameters."""

    @abstractmethod
    def _structures(self, rows: Rows) -> list[Structure]:
        """The forms to fit; the best by BIC is kept. Raises `LawError` when the rows suit none."""

    def reading_notes(self) -> list[str]:
        """What a reader must know of the options that were chosen."""
        return []

    @property
    def form(self) -> str | None:
        """What it says in symbols, as the first line of its docstring has them; None where that has none."""
        parts = (type(self).__doc__ or "").strip().partition("\n")[0].rstrip(".").split(": ")
        return next((part for part in parts if " = " in part), None)

    def remarks(self, columns: Columns) -> list[str]:
        """What a reader must know of a prediction for these rows."""
        return []

    def heads_or_width(self) -> str | None:
        """What it says of heads against width, in sentences for a planner; None where it says nothing."""
        return None

    def options(self) -> dict[str, Any]:
        """Its arguments, without those that were left open."""
        return {name: value for name, value in self.get_params().items() if value is not None}

    def overview(self) -> Overview:
        """What a prompt or a notebook shows of a fitted law."""
        check_is_fitted(self, "notes_")
        found: Overview = resolve("capax.laws.overview:of_law")(self)
        return found

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Of a fitted law what it found; before, its options, as any estimator of scikit-learn shows them."""
        return self.overview().text() if hasattr(self, "notes_") else super().__repr__(N_CHAR_MAX)

    def _html_repr(self) -> str:
        """What a notebook shows; scikit-learn asks for it."""
        return self.overview().html() if hasattr(self, "notes_") else super()._html_repr()

    # Fitting

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the law to measurements; what it cannot use of a table of `capax.read` is left out, and noted (`usable`).

        Args:
            X: a table with the law's columns, or an array in the order of `columns`; `library_size` may be among them.
            y: counts, `(rows,)`; for a table, its column `target` when not given.

        Raises:
            TableError: when a column is missing or a value is not a positive number.
            LawError: when rows are too few, all complete, or measured in different ways, and for a target that counts
                something else than the law does.
        """
        X = frames.taken(X)
        self.check_options(y)
        notes: tuple[str, ...] = ()
        if isinstance(X, pl.DataFrame) and y is None:
            X, notes = self.usable(X)
        with saying(notes):
            self.fit_rows(self.read(X, y), X if tables.is_table(X) else {})
        self.notes_.extend(notes)
        return self

    def check_options(self, y: Any = None) -> None:
        """Raise LawError for draws that cannot be, and for a target that counts something else than the law."""
        whole("random_state", self.random_state, least=0, error=LawError)
        whole("n_bootstrap", self.n_bootstrap, error=LawError)
        if y is not None:
            return
        if not isinstance(self.target, str):
            raise LawError(f"target: the name of a column, got {shown(self.target)}")
        if self.target in self.columns:
            option = self._chosen_by() or "target"
            raise LawError(f"{option}: {self.target!r} is both what is counted and an axis of the law")
        unit = tables.unit(self.target)
        if unit is not None and unit not in self.counts:
            allowed = [name for name, one in tables.UNITS.items() if one in self.counts]
            raise LawError(f"target: one of {', '.join(allowed)} for the law {self.name}, got {self.target!r} ({unit})")

    def fit_rows(self, rows: Rows, table: Any = None) -> Self:
        """Fit to measurements that were read; a table adds its protocol to the domain."""
        told = {} if table is None else table
        self.domain_ = self.domain_of(rows.columns, told, rows.library)
        self.rows_ = rows
        self.draws_ = None
        values = int((~rows.complete).sum())
        best = np.inf
        structures = self._structures(rows)
        for structure in structures:
            free = tuple(name for name in self.names if name not in structure.held)
            if values < len(free) + 2:
                continue
            held = {name: value for name, (value, _) in structure.held.items()}
            for start in structure.starts:
                ordered = {name: (start | held)[name] for name in self.names}
                solution = self._solve(ordered, free, rows, self._observed(rows))
                information = solution.criterion + len(free) * np.log(values)
                if information < best:
                    best, self.solution_, self.held_ = information, solution, structure.held
        if best == np.inf:
            fewest = min(len(self.names) - len(structure.held) for structure in structures)
            raise LawError(
                f"{self.name}: {'1 parameter needs' if fewest == 1 else f'{fewest} parameters need'} at least "
                f"{fewest + 2} rows below their library size, "
                f"got {values} of {len(rows.counts)}"
            )
        self._describe()
        self._note_repeats(told)
        self._name_sources(told)
        return self

    def _name_sources(self, table: Any) -> None:
        """Say whose the measurements are, where the table does."""
        if "source" in tables.names(table):
            whose = sorted({str(one) for one in tables.values(table, "source") if one is not None})
            self.source_ += f" ({'; '.join(whose[:3])})" if whose else ""

    def domain_of(self, columns: Columns, table: Any, library: Vector) -> Domain:
        """The domain of rows; a table adds their protocol.

        Raises:
            LawError: when rows were measured in different ways.
        """
        return Domain.of(self.columns, self.bounded(columns), table, library, self.found, mixed=self.mixed)

    @property
    def _prior(self) -> Vector:
        """Standard deviation of each parameter before rows are seen; infinite where nothing is known of it."""
        return np.full(len(self.names), np.inf)

    def _describe(self) -> None:
        """The fitted attributes that follow from the solution."""
        rows, solution = self.rows_, self.solution_
        self.sigma_ = solution.sigma
        self.undetermined_ = {name: reason for name, (_, reason) in self.held_.items()} | self._not_told(solution)
        self.parameters_ = {
            name: None if name in self.undetermined_ else value for name, value in solution.values.items()
        }
        self.source_ = f"{len(rows.counts)} measurements"
        self.notes_: list[str] = self.reading_notes()
        unknown = int(np.isinf(rows.library).sum()) if self.bound is None and np.isfinite(rows.library).any() else 0
        if unknown:
            which = "measurement does not say its" if unknown == 1 else "measurements do not say their"
            self.notes_.append(f"{unknown} {which} library_size: none of them counts as a lower bound")
        if self.sigma_ <= 2 * SMALLEST_SPREAD:
            self.notes_.append("every row lies on the law: how far a new one would spread is not known from these")
        if complete := int(rows.complete.sum()):
            which = "libraries were memorized whole" if self.bound is None else "measurements did not converge"
            self.notes_.append(f"{complete} of {len(rows.counts)} {which}: lower bounds")

    def _note_repeats(self, table: Any) -> None:
        """Say how many rows repeat a configuration and are taken for measurements of their own."""
        kinds = (tables.values(table, name) for name in self.mixed if name in tables.names(table))
        codes = (np.unique([str(one) for one in values], return_inverse=True)[1].ravel() for values in kinds)
        configurations = np.unique(np.stack([*self.bounded(self.rows_.columns).values(), *codes]), axis=1)
        if repeated := len(self.rows_.counts) - configurations.shape[1]:
            which = "1 row repeats" if repeated == 1 else f"{repeated} rows repeat"
            self.notes_.append(
                f"{which} a configuration; each counts as a measurement of its own, though all of one may err alike"
            )

    def _observed(self, rows: Rows) -> Observed:
        return Observed(self._scale(np.where(rows.complete, rows.library, rows.counts)), rows.complete)

    def _solve(self, start: dict[str, float], free: tuple[str, ...], rows: Rows, observed: Observed) -> Solution:
        return solve(self._model(rows.columns), start, free, observed)

    def _model(self, columns: Columns) -> Any:
        capacities = self._capacities(columns)

        def model(theta: Vector) -> tuple[Vector, np.ndarray]:
            capacity, derivatives = capacities(theta)
            return self._scale(capacity), derivatives / np.maximum(capacity, LEAST)[:, None]

        return model

    def _not_told(self, solution: Solution) -> dict[str, str]:
        """Free parameters on which no row, or only a combination with others, depends."""
        rows = self.rows_
        mu, derivatives = self._model(rows.columns)(solution.theta)
        _, slope = standardized(mu, self._observed(rows), solution.sigma)
        places = [self.names.index(name) for name in solution.free]
        weighted = (slope[:, None] * derivatives)[~rows.complete][:, places]
        size = np.linalg.norm(weighted, axis=0)
        few = len(weighted) < len(places)  # of many rows all directions are there without a matrix of rows by rows
        _, singular, directions = np.linalg.svd(weighted / np.where(size > 0, size, 1.0), full_matrices=few)
        singular = np.pad(singular, (0, len(places) - len(singular)))
        loose = directions[singular < 1e-7 * max(singular[0], 1e-300)]
        share = (loose**2).sum(0)
        return {
            name: "the rows do not depend on it" if size[place] == 0 else "only a combination with others shows"
            for place, name in enumerate(solution.free)
            if size[place] == 0 or share[place] > 1e-4
        }

    def information(self) -> tuple[float, float]:
        """AIC and BIC, of the density of the counts themselves, so that laws on different scales compare.

        Raises:
            LawError: for a law without measurements, such as a published one.
        """
        rows, solution = self.measurements(), self.solution_
        values = ~rows.complete
        n, free = int(values.sum()), self._n_fitted + 1
        sigma = solution.sigma * np.sqrt(max(solution.dof, 1) / n)
        center, observed = self._scale(self._predict(rows.columns)), self._observed(rows)
        sigma = sigma * self._unevenness(rows.columns)
        residuals, _ = standardized(center, observed, sigma)
        log_likelihood = -residuals @ residuals / 2 - np.log(sigma[values] * np.sqrt(2 * np.pi)).sum()
        log_likelihood += self._log_slope(rows.counts[values]).sum()
        return float(2 * free - 2 * log_likelihood), float(np.log(n) * free - 2 * log_likelihood)

    @property
    def _n_fitted(self) -> int:
        """Parameters that the measurements determine, the spread apart."""
        return len(self.solution_.free)

    def _log_slope(self, counts: Vector) -> Vector:
        """Logarithm of the derivative of `_scale`."""
        return -np.log(counts)

    def _drawn(self, rng: np.random.Generator) -> np.ndarray:
        return np.stack([self._refit(rng) for _ in range(self.n_bootstrap)])

    def _refit(self, rng: np.random.Generator) -> Vector:
        """The law fitted to counts drawn from it; of draws that would not suffice for a fit there is another."""
        rows, solution = self.rows_, self.solution_
        center, bounds = self._scale(self._predict(rows.columns)), self._scale(rows.library)
        for _ in range(REDRAWS):
            values = center + self.sigma_ * rng.standard_normal(len(center))
            observed = Observed(np.minimum(values, bounds), values >= bounds)
            if (~observed.censored).sum() > len(solution.free):
                break
        else:
            raise LawError(f"{self.name}: too few rows are below their library size to draw such data again")
        drawn = Rows(rows.columns, self._unscale(observed.values), rows.library)
        found = self._solve(solution.values, solution.free, drawn, observed)
        return np.append(found.theta, found.sigma)

    def parameter_intervals(self, level: float = LEVEL) -> dict[str, tuple[float | None, float | None]]:
        """The range of each parameter by profile likelihood, with the F quantile for the spread that is estimated.

        None stands for an end that the data do not set; a parameter in `undetermined_` has neither end.

        Raises:
            LawError: for a level that is none, and for a law without measurements, such as a published one.
        """
        tails(level)
        check_is_fitted(self, "solution_")
        rows = self.measurements()
        model, observed = self._model(rows.columns), self._observed(rows)
        return {
            name: (None, None) if name in self.undetermined_ else profile(model, self.solution_, observed, name, level)
            for name in self.names
        }
