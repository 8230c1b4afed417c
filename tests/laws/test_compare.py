"""Laws side by side: errors that are what they say, and reasons where there is none."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from studies import REAL, WITH_PLATEAU, grid, study

import capax
from capax.errors import LawError, ReportError
from capax.figures.predicted import compared
from capax.laws.compare import compare, mape
from capax.laws.rows import Rows
from capax.store import table_files


@pytest.mark.slow
def test_the_law_that_made_the_data_wins() -> None:
    rows = study(WITH_PLATEAU, columns=grid(widths=(16, 64, 128, 256, 512)), library_size=8000, sigma=0.08)
    found = compare(rows, [capax.PowerLaw(), capax.Polynomial(degree=3), capax.ECM()])
    assert found.scores[0].law == "ecm"
    ecm = found.scores[0]
    assert ecm.n_parameters == 7
    assert ecm.mape < ecm.mape_left_out < 0.1
    assert ecm.mape_heads is not None
    assert ecm.bic == min(score.bic for score in found.scores)
    assert found.largest_heads == 4
    assert found.largest_width == 512


def test_errors_are_those_of_laws_fitted_without_the_rows() -> None:
    rows = pl.read_csv(REAL).filter("above_chance")
    score = compare(rows, [capax.PowerLaw()]).scores[0]
    widest = rows["d_model"].to_numpy() == 64
    law = capax.PowerLaw().fit(rows.filter(~pl.Series(widest)))
    counts = rows["memorized_above_chance"].to_numpy()[widest]
    with pytest.warns(UserWarning, match="outside"):
        predicted = law.predict(rows.filter(pl.Series(widest)))
    assert score.mape_largest == pytest.approx(np.mean(np.abs(np.minimum(predicted, 2000) - counts) / counts), rel=1e-9)
    assert score.mape == pytest.approx(
        np.mean(np.abs(capax.PowerLaw().fit(rows).predict(rows) / rows["memorized_above_chance"].to_numpy() - 1))
    )
    assert score.predicted_left_out is not None
    assert len(score.predicted_left_out) == len(rows)


def test_repeats_of_a_configuration_are_left_out_together() -> None:
    """Counts that only their own repeat foretells: with it left out, too, no law can do better than the spread."""
    rng = np.random.default_rng(0)
    columns = grid(widths=(16, 64))
    counts = 50 * np.exp(rng.standard_normal(40))
    doubled = {name: np.tile(values, 2) for name, values in columns.items()}
    found = compare(doubled, [capax.Polynomial(degree=4)], np.tile(counts, 2))
    assert found.scores[0].mape_left_out > 1.5 * found.scores[0].mape


def test_information_criteria_compare_scales() -> None:
    """A lognormal law's AIC is that of the density of the counts, not of their logarithms."""
    from scipy.stats import lognorm, norm

    rows = study(sigma=0.2, library_size=1e9)
    law = capax.PowerLaw().fit(rows)
    y, mu = rows["memorized_above_chance"].to_numpy(), law.predict(rows)
    sigma = np.sqrt(np.mean(np.log(y / mu) ** 2))
    assert law.information()[0] == pytest.approx(2 * 5 - 2 * lognorm.logpdf(y, sigma, scale=mu).sum(), rel=1e-9)
    line = capax.Polynomial(degree=1).fit(rows)
    mu = line.predict(rows)
    sigma = np.sqrt(np.mean((y - mu) ** 2))
    assert line.information()[0] == pytest.approx(2 * 5 - 2 * norm.logpdf(y, mu, sigma).sum(), rel=1e-9)


@pytest.mark.very_slow
def test_beside_a_law_of_what_is_held_others_count_the_same_in_items() -> None:
    """The form of 2024, on the measurements that ship, has more than five times the error of the law of capacity."""
    rows = table_files.from_file("reference:capacity")
    found = compare(rows, [capax.ECM(), capax.PowerLaw(), capax.CapacityLaw(axes=["vocab_size", "loss", "embeddings"])])
    scores = {score.law: score for score in found.scores}
    converged = rows.drop_nulls("capacity_bits")
    assert found.counts == tuple(converged["capacity_bits"])
    assert scores["capacity"].mape_left_out < 0.2 * scores["ecm"].mape_left_out
    known = {name: converged[name].to_numpy() for name in ("seq_len", "n_heads", "d_model")}
    items = converged["capacity_items"].to_numpy()
    power = capax.PowerLaw().fit(known, items)  # unlike the ECM's, its fit to such rows ends in one place
    assert scores["power"].mape == pytest.approx(np.mean(np.abs(power.predict(known) / items - 1)), rel=1e-9)
    assert "vocab_size" in scores["ecm"].reasons[0]
    assert "seq_len" not in scores["ecm"].reasons[0]


@pytest.mark.slow
def test_which_rows_are_compared_does_not_depend_on_the_order_of_the_laws() -> None:
    """A count of items that may be luck is left out of fits to such counts, but says nothing of bits."""
    rows = table_files.from_file("reference:capacity").filter(pl.col("d_model") == 16)
    lucky = rows.with_columns(memorized_above_chance=0.0, above_chance=False).head(1)
    laws = [capax.ECM(), capax.CapacityLaw(axes=["loss"])]
    table = pl.concat([lucky, rows.slice(1)])
    assert len({compare(table, order).counts for order in (laws, laws[::-1])}) == 1
    assert len(compare(table, laws).counts) == len(rows.drop_nulls("capacity_bits"))


@pytest.mark.slow
def test_the_law_of_capacity_has_a_tenth_of_the_error_of_the_form_of_2024() -> None:
    """On networks that differ in what that form knows alone."""
    found = compare(table_files.from_file("reference:grid"), [capax.ECM(), capax.CapacityLaw()])
    left_out = {score.law: score.mape_left_out for score in found.scores}
    assert left_out["capacity"] < 0.1 * left_out["ecm"]


def test_criteria_of_items_and_bits_are_of_one_density() -> None:
    rows = table_files.from_file("reference:capacity").drop_nulls("capacity_bits")
    alike = rows.filter((pl.col("seq_len") == 8) & (pl.col("vocab_size") == 100) & (pl.col("loss") == "all"))
    in_bits = capax.PowerLaw(axes=["effective_parameters"], target="capacity_bits").fit(alike)
    found = compare(alike, [capax.CapacityLaw(axes=["n_layers"]), capax.PowerLaw(axes=["effective_parameters"])])
    of_items = next(score for score in found.scores if score.law == "power")
    assert (of_items.aic, of_items.bic) == pytest.approx(in_bits.information(), rel=1e-6)
    for score in found.scores:
        errors = np.abs(np.array(score.predicted_left_out) / found.counts - 1)
        assert np.mean(errors) == pytest.approx(score.mape_left_out, rel=1e-9), "predictions are in bits, as the counts"


@pytest.mark.slow
def test_of_bounds_no_error_is_known() -> None:
    """Neither in sample nor left out does a training that did not converge count as a prediction that hits."""
    rows = table_files.from_file("reference:capacity").filter(pl.col("vocab_size") == 256)
    halved = pl.when(pl.int_range(pl.len()) % 3 == 0)
    rows = rows.with_columns(
        capacity_reached=halved.then(pl.col("capacity_bits") / 2).otherwise("capacity_reached"),
        capacity_bits=halved.then(None).otherwise("capacity_bits"),
        converged=halved.then(False).otherwise("converged"),
    ).drop("capacity_items")
    (score,) = compare(rows, [capax.CapacityLaw(axes=["n_layers"])]).scores
    assert score.predicted_left_out is not None
    held = rows["capacity_bits"].to_numpy()
    known = np.isfinite(held)
    assert 0 < known.sum() < len(rows)
    errors = np.abs(np.array(score.predicted_left_out)[known] / held[known] - 1)
    assert score.mape_left_out == pytest.approx(errors.mean(), rel=1e-9)


def test_what_cannot_be_fitted_says_why() -> None:
    rows = study(columns=grid(heads=(2,), widths=(16, 64)))
    found = {score.law: score for score in compare(rows, [capax.Polynomial(), capax.PowerLaw()]).scores}
    assert found["polynomial"].mape is None
    assert "need at least 58 rows" in found["polynomial"].reasons[0]
    assert found["power"].mape_heads is None
    assert [reason.partition(":")[0] for reason in found["power"].reasons] == ["largest width", "most heads"]
    with pytest.raises(LawError, match="named columns"):
        compare(np.ones((9, 3)), [capax.PowerLaw()], np.ones(9))


def test_an_exponent_that_the_other_rows_do_not_tell_gives_no_error_of_rows_that_need_it() -> None:
    """Held at its usual value, it would say something of the other width all the same."""
    two, three = (grid(heads=(1, 2, 4), widths=widths) for widths in ((16, 64), (8, 16, 64)))
    power = compare(study(columns=two), [capax.PowerLaw()]).scores[0]
    assert power.mape_largest is None
    assert power.reasons == ("largest width: the other rows do not determine r, on which the prediction depends",)
    assert None not in (power.mape_left_out, power.mape_heads)
    assert compare(study(columns=three), [capax.PowerLaw()]).scores[0].mape_largest is not None


def test_laws_are_compared_on_one_column_of_the_unit_that_they_count() -> None:
    rows = table_files.from_file("reference:grid").with_columns(bits=pl.col("capacity_bits"))
    laws = [capax.PowerLaw(target="capacity_items"), capax.CapacityLaw(target="seconds")]
    with pytest.raises(LawError, match=r"target: one for all .*'capacity_items' \(power\), 'seconds' \(capacity\)"):
        compare(rows, laws)
    score = compare(rows, [capax.BitsLaw(target="bits")]).scores[0]
    assert score.mape is None
    assert score.reasons[0].startswith("target: one of memorized")
    assert compare(rows, [capax.BitsLaw(target="bits")], rows["memorized"] + 1).scores[0].mape is not None


def test_the_figure_shows_what_each_law_says_of_the_rows_left_out() -> None:
    rows = pl.read_csv(REAL).filter("above_chance")
    found = compare(rows, [capax.PowerLaw()])
    chart = compared(found)
    assert [panel.title.split(":")[0] for panel in chart.panels] == [score.law for score in found.scores]
    assert {panel.x.label for panel in chart.panels} == {"measured, items"}
    own = compared(compare(rows, [capax.PowerLaw()], rows["memorized"] + 1))
    assert {panel.x.label for panel in own.panels} == {"measured"}
    power = next(score for score in found.scores if score.law == "power")
    panel = next(panel for panel in chart.panels if panel.title.startswith("power"))
    drawn = {
        pair for series in panel.series if series.kind == "points" for pair in zip(series.x, series.y, strict=True)
    }
    assert drawn == set(zip(found.counts, power.predicted_left_out, strict=True))
    with pytest.raises(ReportError, match="no law could be fitted"):
        compared(compare(rows, [capax.Polynomial()]))


@pytest.mark.slow
def test_every_law_of_bits_is_fitted_to_bits() -> None:
    rows = table_files.from_file("reference:grid")
    found = compare(rows, [capax.CapacityLaw(), capax.CapacityLaw(axes=[])])
    alone = compare(rows, [capax.CapacityLaw(axes=[])])
    assert found.scores[1].mape_left_out == alone.scores[0].mape_left_out


def test_what_is_no_law_is_named() -> None:
    for bad in ("power", capax.PowerLaw):
        with pytest.raises(LawError, match=r"^laws: unfitted laws, such as capax.PowerLaw\(\), got "):
            compare(study(), [bad])  # type: ignore[list-item]
    with pytest.raises(LawError, match=r"^law: a fitted law, got 'power'$"):
        capax.save_law("power", "law.json")  # type: ignore[arg-type]


def test_errors_are_of_the_same_folds_whichever_laws_are_compared() -> None:
    rows = table_files.from_file("reference:grid")
    items = {"target": "capacity_items"}
    alone = capax.compare(rows, [capax.PowerLaw(**items)]).scores[0]
    beside = capax.compare(rows, [capax.BitsLaw(**items), capax.ECM(**items), capax.PowerLaw(**items)])
    (again,) = (score for score in beside.scores if score.law == "power")
    assert again.predicted_left_out == alone.predicted_left_out
    shuffled = capax.compare(rows.sample(fraction=1, shuffle=True, seed=0), [capax.PowerLaw(**items)]).scores[0]
    assert shuffled.mape_left_out == pytest.approx(alone.mape_left_out, rel=1e-6)


def test_a_prediction_above_the_library_counts_as_the_whole_library() -> None:

    columns = {
        "seq_len": np.array([8.0, 16.0] * 6),
        "n_heads": np.repeat([1.0, 2.0, 4.0], 4),
        "d_model": np.tile([16.0, 16.0, 32.0, 32.0], 3),
    }
    counts = 10 * columns["n_heads"] * columns["d_model"] / (columns["seq_len"] - 1)
    law = capax.PowerLaw().fit(pl.DataFrame({**columns, "memorized_above_chance": counts}))
    half = Rows(columns, counts / 2, counts / 2)
    assert mape(law, half) == pytest.approx(0.0, abs=1e-9)
