"""The empirical capacity model: the paper's numbers, what data determine of it, and what they do not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from studies import REAL, TABLE_1, WITH_PLATEAU, capacity, grid, study

import capax
from capax.errors import LawError
from capax.laws.printed import spread_of
from capax.literature import stated_by


def row(seq_len: float, n_heads: float, d_model: float) -> dict[str, list[float]]:
    return {"seq_len": [seq_len], "n_heads": [n_heads], "d_model": [d_model]}


@pytest.mark.parametrize(("seq_len", "n_heads", "printed"), [(32, 2, "4.28"), (8, 4, "28.75"), (128, 1, "0.72")])
def test_slopes_to_the_printed_digits(seq_len: int, n_heads: int, printed: str) -> None:
    assert f"{float(capax.ECM.published().slope(seq_len, n_heads)):.2f}" == printed


def test_is_the_formula() -> None:
    law, columns = capax.ECM.published(), grid()
    np.testing.assert_allclose(law.predict(columns), capacity(TABLE_1, **columns), rtol=1e-12)
    printed = capax.ECM.published(as_printed=True)
    level = 3762.7 * columns["n_heads"] + 8741
    np.testing.assert_allclose(
        printed.predict(columns), np.maximum(capacity(TABLE_1 | {"beta": 1e9}, **columns), level)
    )
    assert any("cannot be meant" in note for note in printed.notes_)
    assert printed.predict(row(128, 1, 16))[0] > 12_000 > 1000 * law.predict(row(128, 1, 16))[0]


def test_derivatives() -> None:
    law, columns = capax.ECM.published(), grid(widths=(16, 900, 4000))
    theta = np.array(list(TABLE_1.values()))
    value, derivatives = law._capacity(theta, columns)
    for place, number in enumerate(theta):
        step = np.zeros(7)
        step[place] = 1e-6 * max(abs(number), 1e-2)
        numeric = (law._capacity(theta + step, columns)[0] - law._capacity(theta - step, columns)[0]) / (
            2 * step[place]
        )
        np.testing.assert_allclose(derivatives[:, place], numeric, rtol=1e-5, atol=1e-6 * value.max())


@pytest.mark.parametrize("seed", range(3))
def test_recovers_table_1_from_its_own_predictions(seed: int) -> None:
    """5 % noise: each parameter lies in its interval (of 15 intervals of 95 %, one may miss)."""
    law = capax.ECM().fit(study(sigma=0.05, seed=seed))
    intervals = law.parameter_intervals(0.997)
    for name in "abcde":
        low, high = intervals[name]
        assert low < TABLE_1[name] < high
        assert law.parameters_[name] is not None
    assert law.sigma_ == pytest.approx(0.05, rel=0.25)
    rows = grid()
    np.testing.assert_allclose(law.predict(rows), capacity(TABLE_1, **rows), rtol=0.08)


def test_without_a_plateau_alpha_and_beta_are_no_numbers() -> None:
    law = capax.ECM().fit(study())
    assert law.parameters_["alpha"] is None
    assert law.parameters_["beta"] is None
    assert law.parameter_intervals()["beta"] == (None, None)
    assert "plateau" in law.undetermined_["alpha"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["joint", "stages"])
def test_finds_a_plateau(method: str) -> None:
    law = capax.ECM(method=method, n_bootstrap=700).fit(study(WITH_PLATEAU, library_size=4000))
    assert law.parameters_["alpha"] == pytest.approx(400, rel=0.15)
    assert law.parameters_["beta"] == pytest.approx(900, rel=0.15)
    for low, high in law.parameter_intervals(0.997).values():
        assert low < high
    low, high = law.parameter_intervals(0.997)["alpha"]
    assert low < 400 < high


@pytest.mark.slow
def test_joint_beats_stages_where_the_truth_is_known() -> None:
    """The paper's slopes read one point per series, so its stages are further from the law that made the data."""
    rows, truth = grid(), capacity(WITH_PLATEAU, **grid())
    errors = {
        method: np.mean(
            [
                np.abs(
                    np.log(capax.ECM(method=method).fit(study(WITH_PLATEAU, seed=seed)).predict(rows) / truth)
                ).mean()
                for seed in range(5)
            ]
        )
        for method in ("joint", "stages")
    }
    assert errors["joint"] < 0.5 * errors["stages"]


def test_complete_libraries_are_lower_bounds() -> None:
    """Half the counts are cut off at 500; the slopes are still those of the law, and no plateau is seen at 500."""
    rows = study(library_size=500, sigma=0.03)
    complete = rows["memorized_above_chance"] == 500
    assert 0.3 < complete.mean() < 0.7
    law = capax.ECM().fit(rows)
    assert law.parameters_["beta"] is None
    below = {name: values[~complete.to_numpy()] for name, values in grid().items()}
    np.testing.assert_allclose(law.predict(below), capacity(TABLE_1, **below), rtol=0.06)
    assert any(f"{complete.sum()} of 80" in note for note in law.notes_)
    assert law.predict(row(8, 4, 512))[0] > 5000  # not capped


def test_one_plateau_only_is_said() -> None:
    """Only models of one head saturate: alpha cannot be told from beta."""
    rows = study(TABLE_1 | {"alpha": 1e5, "beta": 2000 - 1e5}, sigma=0.03, columns=grid(widths=(16, 64, 256, 512)))
    law = capax.ECM().fit(rows)
    assert law.parameters_["alpha"] is None
    assert "one head count only (1)" in law.undetermined_["alpha"]
    assert law.predict(row(8, 1, 512))[0] == pytest.approx(2000, rel=0.1)
    assert law.predict(row(8, 4, 512))[0] == pytest.approx(28.75 * 512, rel=0.1)


def test_one_head_count_only_is_said() -> None:
    law = capax.ECM().fit(study(columns=grid(heads=(2,), widths=(16, 32, 64, 128))))
    assert law.parameters_["b"] is None
    assert "one head count only (2)" in law.undetermined_["b"]
    assert law.predict(row(32, 2, 64))[0] == pytest.approx(4.276 * 64, rel=0.1)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (grid(lengths=(8,)), "two lengths"),
        (grid(lengths=(8, 16), heads=(1, 2)), "5 different"),
        (grid(lengths=(8, 16, 32), heads=(1, 2), widths=(16,)), "at least 7 rows"),
    ],
)
def test_too_few_rows(columns: dict[str, np.ndarray], said: str) -> None:
    with pytest.raises(LawError, match=said):
        capax.ECM().fit(study(columns=columns))


def test_only_complete_libraries_tell_nothing() -> None:
    with pytest.raises(LawError, match="seq_len: "):
        capax.ECM().fit(study(library_size=2))


def test_the_exponent_that_changes_sign_is_refused() -> None:
    law = capax.ECM.published()
    with pytest.warns(UserWarning, match="outside the domain"):
        law.predict(row(32, 5, 64))
    with pytest.raises(LawError, match=r"n_heads: 10: .*9\.92"):
        law.predict(row(32, 10, 64))


def test_two_layers_as_printed_are_flagged() -> None:
    law = capax.ECM.published(n_layers=2)
    assert not law.inside_domain(row(8, 1, 64))[0]
    assert "unusable as printed" in law.notes_[0]
    with pytest.raises(LawError, match="does not hold there"):
        law.predict(row(64, 1, 64))
    with pytest.raises(LawError, match=r"n_layers: .* 1, 2, got 3"):
        capax.ECM.published(n_layers=3)
    with pytest.raises(LawError, match=r"source: one of harma2024, got .nobody"):
        capax.ECM.published("nobody")


def test_the_published_interval_has_the_published_error() -> None:
    """The spread is derived from the paper's MAPE: a lognormal error of that spread has that mean."""
    sigma = spread_of(stated_by("harma2024")["mape"]["ecm"])
    drawn = np.exp(sigma * np.random.default_rng(0).standard_normal(1_000_000))
    assert np.mean(np.abs(drawn - 1)) == pytest.approx(0.497, abs=0.002)
    law = capax.ECM.published()
    low, high = law.predict_interval(row(32, 2, 64), 0.95)
    assert np.log(high / low) / (2 * 1.96) == pytest.approx(sigma, rel=0.01)


def test_figure_11_does_not_follow_from_table_1() -> None:
    """The paper: 1600 sequences with 2 heads and 3300 with 4, at 2 million coefficients and 64 tokens."""
    stated = stated_by("harma2024")["figure_11"]
    found = {}
    for heads in (2, 4):

        def parameters(width: float, heads: int = heads) -> float:
            spec = capax.Transformer(n_heads=heads, d_model=round(width))
            return spec.parameter_counts(vocab_size=100, context=63)["trainable"] - 2_000_000

        width = brentq(parameters, 16, 1000, xtol=1)
        found[heads] = capax.ECM.published().slope(64, heads) * width
    assert found[2] == pytest.approx(1031, rel=0.02)
    assert found[4] == pytest.approx(2672, rel=0.02)
    assert found[2] < 0.7 * stated["sequences"]["2"]
    assert found[4] < 0.85 * stated["sequences"]["4"]


def test_a_bad_method_is_refused() -> None:
    with pytest.raises(LawError, match=r"method: .*both"):
        capax.ECM(method="both").fit(study())


def test_fits_what_the_engine_measured() -> None:
    import polars as pl

    law = capax.ECM().fit(pl.read_csv(REAL))
    assert law.domain_.protocol["loss"] == "all"
    assert law.domain_.largest_library == 2000
    assert 0.2 < law.sigma_ < 0.7  # counts grow faster than linearly with the width here: the ecm cannot follow
