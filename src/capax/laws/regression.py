"""A regression whose coefficients are shrunk towards no effect, as far as the rows leave them open.

Libraries' do not serve: BayesianRidge of scikit-learn has one prior for all coefficients, and none that we know counts
families of rows alike or lets their errors have a share in common.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from capax.laws.censored import Vector

ROUNDS, SETTLED = 50, 1e-9
"""Steps to the spread, and the change relative to it that is none."""
KNOWN = 0.05
"""Of a measurement that counts beside the rows: the spread before they are seen, so that few rows do not say none."""

MOST, ALIKE = 0.95, 1e-6
"""The most that rows of a group have in common, and the determinant of the equations of two variances, relative to that
without a fit, below which rows tell their sum alone."""


@dataclass(frozen=True)
class Common:
    """Rows in groups whose errors are alike.

    Attributes:
        groups: the number of each row's group, from 0, `(rows,)`.
        share: of the variance, what the rows of a group have in common.
    """

    groups: np.ndarray
    share: float

    def sums(self, design: np.ndarray) -> np.ndarray:
        """`(groups, columns)` sums over the rows of each group."""
        found = np.zeros((int(self.groups.max()) + 1, *design.shape[1:]))
        np.add.at(found, self.groups, design)
        return found

    @classmethod
    def of(cls, design: np.ndarray, y: Vector, fit: Regression, groups: np.ndarray) -> Common:
        """The share by the residuals of a regression, what it fitted away of them allowed for (Henderson 1953, III).

        None where the rows cannot tell: where all are of one group, or each of its own.
        """
        found, residuals = cls(groups, 0.0), y - design @ fit.beta
        sums, errors, sizes = found.sums(design), found.sums(residuals), found.sums(np.ones(len(y)))
        inverse, squares = fit.root @ fit.root.T, design.T @ design
        once, seen = inverse @ squares, sums.T @ sums
        # expected squares of the residuals and of their sums, by variance of rows and of groups
        of_rows = len(y) - 2 * np.trace(once) + np.trace(once @ once)
        both = len(y) - 2 * np.trace(inverse @ seen) + np.trace(inverse @ squares @ inverse @ seen)
        of_groups = float(((np.diag(sizes) - sums @ inverse @ sums.T) ** 2).sum())
        if of_rows * of_groups - both**2 < ALIKE * of_rows * float((sizes**2).sum()):
            return found
        rows, shared = np.linalg.solve([[of_rows, both], [both, of_groups]], [residuals @ residuals, errors @ errors])
        return cls(groups, 0.0 if shared <= 0 else min(float(shared / (max(rows, 0.0) + shared)), MOST))


@dataclass(frozen=True)
class Regression:
    """A Bayesian regression of logarithms on the columns of a design, with normal priors about zero.

    Attributes:
        beta: coefficients, `(columns,)`.
        root: `root @ root.T` is their covariance where residuals spread by 1.
        spread: of the residuals.
        dof: degrees of freedom: the rows, less the coefficients that these tell, each by the share that is not the
            prior's.
        counts: how much each row counts for the spread, 1 on the mean, `(rows,)`, or 1 for all.
        shared: what the rows of groups have in common adds `shared @ shared.T` to the covariance, `(columns, groups)`;
            None where they have nothing.
    """

    beta: Vector
    root: np.ndarray
    spread: float
    dof: float
    counts: Vector | float = 1.0
    shared: np.ndarray | None = None

    @property
    def spread_dof(self) -> float:
        """Degrees of freedom of the spread: fewer where some rows count for more than others (Satterthwaite 1946)."""
        return self.dof / float(np.mean(np.square(self.counts)))

    @classmethod
    def of(
        cls, design: np.ndarray, y: Vector, prior: Vector, counts: Vector | float = 1.0, common: Common | None = None
    ) -> Regression:
        """The regression.

        The spread is that at which the evidence is highest (MacKay 1992), found by iteration, with one measurement that
        spreads by `KNOWN` beside the rows. Without priors the coefficients are those of least squares.

        Args:
            prior: standard deviation of each coefficient before the rows are seen, infinite where nothing is known of
                it, `(columns,)`.
            counts: how much each row counts for the spread, 1 on the mean, `(rows,)`.
            common: what rows have in common, which widens the covariance and moves no coefficient.
        """
        width, pull = design.shape[1], 1 / prior
        whole = np.linalg.qr(np.column_stack([design, y])).R
        triangle, projected = whole[:width, :width], whole[:width, -1]
        zeros, spread = np.zeros(width), float(np.hypot(y.std(), KNOWN))
        for _ in range(ROUNDS):
            both, small = np.linalg.qr(np.vstack([triangle, np.diag(pull * spread)]))
            root = np.linalg.inv(small)
            beta = root @ (both.T @ np.concatenate([projected, zeros]))
            left = 1 - ((design @ root) ** 2).sum(1)  # what the fit leaves of the variance of each row
            squares = float((counts * (y - design @ beta) ** 2).sum()) + KNOWN**2
            last, spread = spread, float(np.sqrt(squares / (float((counts * left).sum()) + 1)))
            if abs(spread - last) <= SETTLED * last:
                break
        shared = None
        if common is not None and common.share > 0:
            inverse = root @ root.T
            shared = np.sqrt(common.share) * inverse @ common.sums(design).T
            alone = (1 - common.share) * triangle.T @ triangle + np.diag((pull * spread) ** 2)
            root = inverse @ np.linalg.cholesky(alone)
        return cls(beta, root, spread, float(left.sum()) + 1, counts, shared)

    def log_density(self, design: np.ndarray, y: Vector) -> Vector:
        """Of new measurements: Student's t about the line; `scipy.stats` says the same ten times slower."""
        dof, scale = self.spread_dof, self.spread * np.sqrt(1 + ((design @ self.root) ** 2).sum(1))
        x = (y - design @ self.beta) / scale
        top = np.log(scipy.special.poch(0.5 * dof, 0.5)) - 0.5 * (np.log(dof) + np.log(np.pi))
        return np.asarray(top - (dof + 1) / 2 * np.log1p(x * x / dof) - np.log(scale))

    def drawn(self, generator: np.random.Generator) -> tuple[Vector, float]:
        """Coefficients and a spread that the rows do not contradict.

        What rows of groups have in common is known by the groups: one degree of freedom each, but for one.
        """
        spread = self.spread * float(np.sqrt(self.spread_dof / generator.chisquare(self.spread_dof)))
        beta = self.beta + spread * self.root @ generator.standard_normal(len(self.beta))
        if self.shared is not None:
            dof = max(self.shared.shape[1] - 1, 1)
            common = self.spread * float(np.sqrt(dof / generator.chisquare(dof)))
            beta = beta + common * self.shared @ generator.standard_normal(self.shared.shape[1])
        return beta, spread
