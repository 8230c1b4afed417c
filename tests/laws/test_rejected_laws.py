"""Forms that Härmä et al. name and reject: they are what their formulas say, and find their own parameters again."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from studies import grid, noise, study

import capax
from capax.cli import main
from capax.errors import LawError
from capax.laws.files import from_json, load_law, to_json

DECAY = {"a": 30.0, "b": -0.004, "c": 0.06, "e": 2.0, "alpha": 300.0, "beta": 900.0}
CURVE = {"a": 145.27, "b": -0.13, "c": 1.29, "d": 0.13, "e": 0.2, "alpha": 300.0, "beta": 900.0, "m": 3.0}
Columns = dict[str, np.ndarray]


def exponential(true: dict[str, float], columns: Columns) -> np.ndarray:
    """The ECM with exponential decay in N, written down a second time."""
    n, h, width = columns["seq_len"], columns["n_heads"], columns["d_model"]
    slope = true["a"] * np.exp(-(true["b"] * h + true["c"]) * n) + true["e"]
    return np.minimum(slope * width, true["alpha"] * h + true["beta"])


def logistic(true: dict[str, float], columns: Columns) -> np.ndarray:
    """The ECM with a logistic curve in B, written down a second time."""
    n, h, width = columns["seq_len"], columns["n_heads"], columns["d_model"]
    slope, level = (
        true["a"] / (n ** (true["b"] * h + true["c"]) + true["d"]) + true["e"],
        true["alpha"] * h + true["beta"],
    )
    return level / (1 + np.exp(true["m"] - 4 * slope * width / level))


FORMS = {
    "exponential": (capax.ExponentialLaw, exponential, DECAY),
    "logistic": (capax.LogisticLaw, logistic, CURVE),
}


def drawn(name: str, sigma: float, seed: int = 0, columns: Columns | None = None) -> pl.DataFrame:
    """Counts of a known law."""
    _, form, true = FORMS[name]
    columns = grid(widths=(16, 32, 64, 128, 256, 512)) if columns is None else columns
    counts = form(true, columns) * noise(len(columns["seq_len"]), sigma, 1, seed)
    return pl.DataFrame({**columns, "library_size": 16_000.0, "memorized_above_chance": counts})


@pytest.mark.parametrize("name", FORMS)
def test_its_own_parameters_are_found_again(name: str) -> None:
    kind, form, true = FORMS[name]
    law = kind().fit(drawn(name, 0.03))
    for parameter, (low, high) in law.parameter_intervals(0.997).items():
        assert (low or -np.inf) < true[parameter] < (high or np.inf), parameter
    assert law.sigma_ == pytest.approx(0.03, rel=0.25)
    columns = grid(widths=(24, 100, 400))
    np.testing.assert_allclose(law.predict(columns), form(true, columns), rtol=0.06)


@pytest.mark.very_slow
@pytest.mark.parametrize("name", FORMS)
def test_intervals_hold_the_truth_as_often_as_they_say(name: str) -> None:
    kind, _, true = FORMS[name]
    names = ("alpha", "beta")
    hits = dict.fromkeys(names, 0)
    for seed in range(20):
        intervals = kind().fit(drawn(name, 0.05, seed)).parameter_intervals()
        for parameter in names:
            low, high = intervals[parameter]
            hits[parameter] += (low or -np.inf) < true[parameter] < (high or np.inf)
    assert min(hits.values()) >= 15  # of 20: fewer with a probability of 0.003 where they hold in 95 %


@pytest.mark.parametrize("name", FORMS)
def test_it_comes_back_from_its_file_bit_for_bit(name: str) -> None:
    law = FORMS[name][0](n_bootstrap=15).fit(drawn(name, 0.03))
    again, rows = from_json(to_json(law)), drawn(name, 0.03)[:20]
    assert (again.predict(rows) == law.predict(rows)).all()
    assert (np.array(again.predict_interval(rows, 0.5)) == np.array(law.predict_interval(rows, 0.5))).all()
    assert again.notes_ == law.notes_
    assert "the reading is ours" in again.notes_[0]


@pytest.mark.parametrize("name", FORMS)
def test_of_one_head_count_no_dependence_is_told(name: str) -> None:
    law = FORMS[name][0]().fit(drawn(name, 0.03, columns=grid(heads=(2,), widths=(16, 32, 64, 128, 256, 512))))
    assert law.parameters_["b"] is None
    assert "one head count only" in law.undetermined_["b"]


def test_without_a_plateau_an_exponential_decay_has_no_level() -> None:
    law = capax.ExponentialLaw().fit(drawn("exponential", 0.02, columns=grid(widths=(4, 8, 16))))
    assert law.parameters_["alpha"] is None
    assert "no count shows a plateau" in law.undetermined_["beta"]


@pytest.mark.parametrize("name", FORMS)
def test_too_few_series_and_unknown_options_are_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LawError, match=f"seq_len: the {name} needs two lengths"):
        FORMS[name][0]().fit(drawn(name, 0.03, columns=grid(lengths=(8,))))
    with pytest.raises(SystemExit) as exit_:
        main(["fit", "--data", "reference:grid", "--law", name, "--method", "stages"])
    assert exit_.value.code == 2
    assert "method: only for ecm" in capsys.readouterr().err
    with pytest.raises(LawError, match="reference:NAME"):
        load_law(f"reference:{name}")


@pytest.mark.very_slow
def test_each_form_fits_counts_of_its_own_better_than_the_others() -> None:
    for name in FORMS:
        rows = drawn(name, 0.05, columns=grid(heads=(1, 3), widths=(16, 64, 256, 512)))
        found = capax.compare(rows, [capax.ECM(), capax.ExponentialLaw(), capax.LogisticLaw()])
        assert found.scores[0].law == name


@pytest.mark.slow
def test_counts_of_table_1_are_fitted_in_the_order_of_the_paper() -> None:
    """Härmä et al. 2024: .497 of the ECM against 1.0785 of a fifth-order polynomial."""
    widths = tuple(2**power for power in range(4, 12))
    for seed in range(3):
        rows = study(sigma=0.3, seed=seed, columns=grid(widths=widths))
        ecm, polynomial = (
            float(np.abs(np.minimum(law.fit(rows).predict(rows), 16_000) / rows["memorized_above_chance"] - 1).mean())
            for law in (capax.ECM(n_bootstrap=1), capax.Polynomial(degree=5, n_bootstrap=1))
        )
        assert 0.15 < ecm < 0.25
        assert polynomial > 2 * ecm


@pytest.mark.slow
def test_the_choice_of_the_paper_can_be_judged(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["fit", "--data", "reference:grid", "--law", "logistic", "--compare", "--degree", "2", "--json"])
    out, err = capsys.readouterr()
    assert exit_.value.code == 0, err
    errors = {score["law"]: score["mape_left_out"] for score in json.loads(out)["comparison"]["scores"]}
    assert errors["logistic"] < 0.5 * errors["ecm"]  # items held at convergence grow faster than the width
    assert errors["exponential"] == pytest.approx(errors["ecm"], rel=0.1)
