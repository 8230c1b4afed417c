"""Laws are scikit-learn estimators."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted, validate_data
from studies import study

from capax.laws.ecm import ECM
from capax.laws.files import LAWS
from capax.laws.law import Law
from capax.laws.polynomial import Polynomial
from capax.laws.power import BitsLaw, DepthLaw, PowerLaw
from capax.laws.rows import Columns, Rows

COLUMNS = "draws X with another number of columns than the law's, which have names"
POSITIVE = "draws X with zeros: no architecture has a size of zero"
EXPECTED = {
    "check_dict_unchanged": POSITIVE,
    "check_dont_overwrite_parameters": POSITIVE,
    "check_dtype_object": COLUMNS,
    "check_estimators_dtypes": COLUMNS,
    "check_estimators_fit_returns_self": COLUMNS,
    "check_estimators_nan_inf": POSITIVE,
    "check_estimators_overwrite_params": COLUMNS,
    "check_estimators_pickle": POSITIVE,
    "check_f_contiguous_array_estimator": POSITIVE,
    "check_fit2d_1sample": "one row of ten columns: the columns are refused first",
    "check_fit2d_predict1d": POSITIVE,
    "check_fit_check_is_fitted": COLUMNS,
    "check_fit_idempotent": COLUMNS,
    "check_fit_score_takes_y": POSITIVE,
    "check_methods_sample_order_invariance": POSITIVE,
    "check_methods_subset_invariance": POSITIVE,
    "check_n_features_in": COLUMNS,
    "check_n_features_in_after_fitting": POSITIVE,
    "check_pipeline_consistency": POSITIVE,
    "check_positive_only_tag_during_fit": POSITIVE,
    "check_readonly_memmap_input": COLUMNS,
    "check_regressor_data_not_an_array": COLUMNS,
    "check_regressors_int": COLUMNS,
    "check_regressors_no_decision_function": "draws four columns: too small library sizes, or lengths of 1",
    "check_regressors_train": COLUMNS,
    "check_supervised_y_2d": POSITIVE,
}
"""What a law of fixed, named, positive columns cannot meet; `OnAnything` meets nearly all of it."""


def checked(estimator: Any, expected: dict[str, str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, expected_failed_checks=expected, on_fail=None)
    failed = {result["check_name"]: repr(result["exception"]) for result in results if result["status"] == "failed"}
    assert failed == {}
    met = {result["check_name"] for result in results if result["status"] == "passed"}
    assert sorted(met & set(expected)) == [], "these checks need not be expected to fail"
    assert met


@pytest.mark.parametrize("name", LAWS)
def test_passes_scikit_learns_checks(name: str) -> None:
    checked(LAWS[name](n_bootstrap=10), EXPECTED)


class OnAnything:
    """A law behind a map of any numbers to its columns: what it meets of the checks that draw other columns."""

    columns: tuple[str, ...]
    n_features_in_: int

    def _legal(self, X: np.ndarray) -> Columns:
        tiled = np.tile(X, (1, len(self.columns)))[:, : len(self.columns)]
        return {name: 3 + np.sin(tiled[:, place]) for place, name in enumerate(self.columns)}

    def read(self, X: Any, y: Any = None, reset: bool = True) -> Rows:
        if y is None:
            return super().read(X, y)  # type: ignore[misc]
        array, targets = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=reset)
        known = self.n_features_in_
        # bounded: checks of other laws may have shifted the targets, which all share
        rows = super().read(self._legal(array), np.exp(np.sin(targets)), reset=reset)  # type: ignore[misc]
        self.n_features_in_ = known
        return rows

    def _columns_of(self, X: Any) -> Columns:
        check_is_fitted(self, "solution_")
        return super()._columns_of(self._legal(validate_data(self, X, dtype=np.float64, reset=False)))  # type: ignore[misc]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.positive_only = tags.target_tags.positive_only = False
        return tags


class AnyECM(OnAnything, ECM):
    pass


class AnyPolynomial(OnAnything, Polynomial):
    pass


class AnyBitsLaw(OnAnything, BitsLaw):
    pass


class AnyPowerLaw(OnAnything, PowerLaw):
    pass


class AnyDepthLaw(OnAnything, DepthLaw):
    pass


@pytest.mark.parametrize(
    "kind", [pytest.param(AnyECM, marks=pytest.mark.very_slow), AnyPolynomial, AnyBitsLaw, AnyPowerLaw, AnyDepthLaw]
)
def test_passes_the_checks_that_draw_other_columns(kind: type[Law]) -> None:
    expected = {
        "check_fit2d_1sample": "asks for the words '1 sample'; the message says how many rows are needed",
        "check_regressors_train": "asks for a good fit to data that no law follows",
    }
    options = {"degree": 1} if kind is AnyPolynomial else {}
    checked(kind(n_bootstrap=10, **options), expected)


@pytest.mark.slow
def test_work_in_pipelines_searches_and_cross_validation() -> None:
    rows = study()
    frame, counts = pd.DataFrame(rows.to_dict(as_series=False)), rows["memorized_above_chance"].to_numpy()
    array = rows.select("seq_len", "n_heads", "d_model", "library_size").to_numpy()
    for X in (frame, array):
        assert cross_val_score(ECM(), X, counts, cv=KFold(4, shuffle=True, random_state=0)).min() > 0.9
        piped = make_pipeline(FunctionTransformer(), ECM()).fit(X, counts)
        assert piped.score(X, counts) > 0.98
    search = GridSearchCV(Polynomial(), {"degree": [1, 3]}, cv=KFold(4, shuffle=True, random_state=0)).fit(
        frame, counts
    )
    assert search.best_params_ == {"degree": 3}
    copy = clone(ECM(method="stages", random_state=3))
    assert copy.get_params()["method"] == "stages"
    assert not hasattr(copy, "solution_")
