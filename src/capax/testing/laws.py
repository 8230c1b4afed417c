"""What every law does."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone

from capax.errors import LawError
from capax.laws.domain import OutsideDomainWarning
from capax.laws.law import Law


class LawSuite:
    """Tests that every law passes.

    Attributes:
        law: not fitted, with few draws (`n_bootstrap=20`).
        table: measurements that suit it, with the law's columns and counts (`capax.read`, or a table of your own).
    """

    law: Law
    table: pl.DataFrame

    @pytest.fixture(scope="class")
    @classmethod
    def fitted(cls) -> Law:
        """The law, fitted to the table."""
        return clone(cls.law).fit(cls.table)

    @property
    def rows(self) -> pl.DataFrame:
        """Some rows that it is fitted to."""
        return self.table.head(5)

    def test_every_kind_of_table_is_the_same(self, fitted: Law) -> None:
        expected = fitted.predict(self.rows)
        with warnings.catch_warnings():  # an array says nothing of how its rows were measured
            warnings.simplefilter("ignore", OutsideDomainWarning)
            for same in self.rows.to_dict(as_series=False), self.rows.select(fitted.columns).to_numpy():
                assert (fitted.predict(same) == expected).all()

    def test_rows_that_it_was_fitted_to_are_inside_its_domain(self, fitted: Law) -> None:
        assert np.isfinite(fitted.predict(self.rows)).all()
        assert fitted.inside_domain(self.rows).all()

    def test_parameters_are_named(self, fitted: Law) -> None:
        assert set(fitted.parameters_) == set(fitted.names)
        assert {name for name, value in fitted.parameters_.items() if value is None} == set(fitted.undetermined_)

    def test_derivatives_are_those_of_the_capacity(self, fitted: Law) -> None:
        columns = {name: self.rows[name].to_numpy().astype(float) for name in fitted.columns}
        theta = np.array(list(fitted.solution_.values.values()))
        _, derivatives = fitted._capacity(theta, columns)
        for place in np.flatnonzero(np.isfinite(theta)):
            step = np.zeros_like(theta)
            step[place] = 1e-6 * max(abs(theta[place]), 1e-3)
            above, below = (fitted._capacity(theta + side, columns)[0] for side in (step, -step))
            slope = (above - below) / (2 * step[place])
            np.testing.assert_allclose(derivatives[:, place], slope, rtol=1e-3, atol=1e-6 * abs(slope).max() + 1e-9)

    def test_wider_levels_hold_narrower_ones(self, fitted: Law) -> None:
        ends = [fitted.predict_interval(self.rows, level) for level in (0.5, 0.9)]
        assert (ends[1][0] <= ends[0][0]).all()
        assert (ends[0][0] < ends[0][1]).all()
        assert (ends[0][1] <= ends[1][1]).all()

    def test_a_quantile_is_the_inverse_of_a_probability(self, fitted: Law) -> None:
        low, middle, high = (fitted.quantile(self.rows, probability) for probability in (0.1, 0.5, 0.9))
        assert (low < middle).all()
        assert (middle < high).all()
        with pytest.raises(LawError, match="probability"):
            fitted.quantile(self.rows, 1.0)

    def test_the_bootstrap_is_seeded(self, fitted: Law) -> None:
        assert (clone(self.law).fit(self.table).bootstrap() == fitted.bootstrap()).all()

    def test_a_row_outside_the_domain_is_told(self, fitted: Law) -> None:
        name = fitted.columns[-1]
        far = self.rows.with_columns(pl.col(name) * 1000)
        with pytest.warns(OutsideDomainWarning):
            fitted.predict(far)
        assert not fitted.inside_domain(far).any()

    def test_it_is_pickled_and_cloned(self, fitted: Law) -> None:
        again: Any = pickle.loads(pickle.dumps(fitted))
        assert (again.predict(self.rows) == fitted.predict(self.rows)).all()
        assert clone(fitted).get_params() == fitted.get_params()

    def test_too_few_rows_are_refused(self) -> None:
        with pytest.raises(LawError):
            clone(self.law).fit(self.table.head(1))
