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
    def fitted(self) -> Law:
        """The law, fitted to the table."""
        return clone(self.law).fit(self.table)  # type: ignore[no-any-return]

    @pytest.fixture(scope="class")
    def rows(self, fitted: Law) -> pl.DataFrame:
        """Some rows that it was fitted to."""
        return fitted.usable(self.table)[0].head(5)

    def test_every_kind_of_table_is_the_same(self, fitted: Law, rows: pl.DataFrame) -> None:
        expected = fitted.predict(rows)
        with warnings.catch_warnings():  # an array says nothing of how its rows were measured
            warnings.simplefilter("ignore", OutsideDomainWarning)
            for same in rows.to_dict(as_series=False), rows.select(fitted.columns).to_numpy():
                assert (fitted.predict(same) == expected).all()

    def test_predictions_are_positive(self, fitted: Law, rows: pl.DataFrame) -> None:
        found = fitted.predict(rows)
        assert np.isfinite(found).all()
        assert (found > 0).all()
        assert fitted.inside_domain(rows).all()

    def test_parameters_are_named(self, fitted: Law) -> None:
        assert set(fitted.parameters_) == set(fitted.names)
        assert {name for name, value in fitted.parameters_.items() if value is None} == set(fitted.undetermined_)

    def test_derivatives_are_those_of_the_capacity(self, fitted: Law, rows: pl.DataFrame) -> None:
        columns = {name: rows[name].to_numpy().astype(float) for name in fitted.columns}
        theta = np.array(list(fitted.solution_.values.values()))
        _, derivatives = fitted._capacity(theta, columns)
        for place in range(len(theta)):
            step = 1e-6 * max(abs(theta[place]), 1e-3)
            ends = [fitted._capacity(theta + sign * step * np.eye(len(theta))[place], columns)[0] for sign in (1, -1)]
            slope = (ends[0] - ends[1]) / (2 * step)
            np.testing.assert_allclose(derivatives[:, place], slope, rtol=1e-3, atol=1e-6 * abs(slope).max() + 1e-9)

    def test_wider_levels_hold_narrower_ones(self, fitted: Law, rows: pl.DataFrame) -> None:
        ends = [fitted.predict_interval(rows, level) for level in (0.5, 0.9)]
        assert (ends[1][0] <= ends[0][0]).all()
        assert (ends[0][0] < ends[0][1]).all()
        assert (ends[0][1] <= ends[1][1]).all()

    def test_a_quantile_is_the_inverse_of_a_probability(self, fitted: Law, rows: pl.DataFrame) -> None:
        low, middle, high = fitted.quantiles(rows, (0.1, 0.5, 0.9))
        assert (low < middle).all()
        assert (middle < high).all()
        assert (fitted.quantile(rows, 0.5) == middle).all()
        with pytest.raises(LawError, match="probability"):
            fitted.quantile(rows, 1.0)

    def test_the_bootstrap_is_seeded(self, fitted: Law) -> None:
        assert (clone(self.law).fit(self.table).bootstrap() == fitted.bootstrap()).all()

    def test_a_row_outside_the_domain_is_told(self, fitted: Law, rows: pl.DataFrame) -> None:
        name = fitted.columns[-1]
        far = rows.with_columns(pl.col(name) * 1000)
        with pytest.warns(OutsideDomainWarning):
            fitted.predict(far)
        assert not fitted.inside_domain(far).any()

    def test_it_is_pickled_and_cloned(self, fitted: Law, rows: pl.DataFrame) -> None:
        again: Any = pickle.loads(pickle.dumps(fitted))
        assert (again.predict(rows) == fitted.predict(rows)).all()
        assert clone(fitted).get_params() == fitted.get_params()

    def test_too_few_rows_are_refused(self) -> None:
        with pytest.raises(LawError):
            clone(self.law).fit(self.table.head(1))
