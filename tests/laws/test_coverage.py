"""Intervals of 95 % hold the truth in 95 % of repeated studies: parameters by profile, predictions by bootstrap."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom
from studies import TABLE_1, WITH_PLATEAU, capacity, noise, study

import capax

STUDIES = 500
ALLOWED = binom.interval(0.99, STUDIES, 0.95)
"""462 to 487."""
ASKED = {
    "seq_len": np.array([8.0, 32.0, 64.0, 128.0]),
    "n_heads": np.array([3.0, 2.0, 4.0, 1.0]),
    "d_model": np.array([64.0, 200.0, 400.0, 48.0]),
}
"""Architectures that were not measured, one of them on the plateau where there is one."""


@pytest.mark.very_slow
@pytest.mark.parametrize(
    ("truth", "library_size", "undetermined"),
    [(TABLE_1, 8000.0, {"alpha", "beta"}), (WITH_PLATEAU, 2600.0, set())],
    ids=["table 1", "with a plateau"],
)
def test_coverage_over_500_studies(truth: dict[str, float], library_size: float, undetermined: set[str]) -> None:
    held = dict.fromkeys(set(truth) - undetermined, 0)
    predicted = np.zeros(4)
    for number in range(STUDIES):
        rows = study(truth, sigma=0.06, library_size=library_size, restarts=5, seed=[11, number])
        law = capax.ECM(n_bootstrap=199, random_state=number).fit(rows)
        assert {name for name, value in law.parameters_.items() if value is None} == undetermined
        for name, (low, high) in law.parameter_intervals().items():
            if name in held:
                held[name] += (low is None or low <= truth[name]) and (high is None or truth[name] <= high)
        low, high = law.predict_interval(ASKED)
        new = capacity(truth, **ASKED) * noise(4, 0.06, 5, [12, number])
        predicted += (low <= new) & (new <= high)
    print({name: int(count) for name, count in held.items()}, predicted)
    for name, count in held.items():
        assert ALLOWED[0] <= count <= ALLOWED[1], (name, count)
    for place, count in enumerate(predicted):
        assert ALLOWED[0] <= count <= ALLOWED[1], (place, count)
