"""What all laws share: tables in, domains, intervals, files."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import t as t_distribution
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from studies import REAL, TABLE_1, capacity, grid, study

import capax
from capax.errors import CapaxError, LawError, ReportError, TableError
from capax.laws.domain import Domain, OutsideDomainWarning
from capax.laws.files import LAWS, from_json, load_law, save_law, to_json
from capax.laws.law import Law
from capax.laws.report import report
from capax.store import table_files, tables


def real() -> pl.DataFrame:
    return pl.read_csv(REAL).filter("above_chance")


def measured(name: str) -> pl.DataFrame:
    """The real study that a law is for."""
    if name == "exposure":
        return tables.where(table_files.from_file("reference:exposures"), ["optimizer=soap"])
    kinds = {"association": "associations", "capacity": "capacity", "relation": "relations"}
    kind = kinds.get(name.removesuffix("-linear"))
    return table_files.from_file(f"reference:{kind}" if kind else "reference:grid")


@cache
def fitted(name: str) -> Law:
    options = {"degree": 2} if name == "polynomial" else {}
    return LAWS[name](n_bootstrap=50, **options).fit(measured(name))


# Tables


def test_every_kind_of_table_gives_the_same_law() -> None:
    rows = study()
    plain = rows.to_dict(as_series=False)
    array = rows.select("seq_len", "n_heads", "d_model", "library_size").to_numpy()
    counts = rows["memorized_above_chance"].to_numpy()
    laws = [
        capax.PowerLaw().fit(rows),
        capax.PowerLaw().fit(pd.DataFrame(plain)),
        capax.PowerLaw().fit(plain),
        capax.PowerLaw().fit({name: np.array(values) for name, values in plain.items()}),
        capax.PowerLaw().fit(rows.drop("memorized_above_chance"), counts),
        capax.PowerLaw().fit(array, counts),
        capax.PowerLaw().fit(rows.select(reversed(rows.columns))),
    ]
    assert len({tuple(law.solution_.values.items()) for law in laws}) == 1
    assert (laws[0].predict(rows) == laws[0].predict(array)).all()
    assert (laws[0].predict(array) == laws[0].predict(array[:, :3])).all()


@pytest.mark.parametrize("seed", range(3))
def test_limits_of_small_noisy_studies_are_those_of_a_line_in_logarithms(seed: int) -> None:
    """The deviance of k runs off at and below zero, a step of its standard error away."""
    rng = np.random.default_rng(seed)
    places = np.array([(n, h, d) for n in (4, 8) for h in (1, 2) for d in (8, 16, 32)], float)
    logs = np.log(places)
    design = np.column_stack([np.ones(len(places)), -np.log(places[:, 0] - 1), logs[:, 1], logs[:, 2]])
    counts = np.log(0.6) + design[:, 1:] @ (0.9, 0.5, 1.8) + 0.25 * rng.standard_normal(len(places))
    law = capax.PowerLaw().fit(np.column_stack([places, np.full(len(places), 1e6)]), np.exp(counts))
    theta, squares, *_ = np.linalg.lstsq(design, counts)
    dof = len(places) - 4
    half = t_distribution.ppf(0.975, dof) * np.sqrt(squares[0] / dof * np.diag(np.linalg.inv(design.T @ design)))
    expected = np.column_stack([theta - half, theta + half])
    expected[0] = np.exp(expected[0])
    found = law.parameter_intervals()
    np.testing.assert_allclose([found[name] for name in ("k", "p", "q", "r")], expected, rtol=1e-3)


def without(name: str) -> pl.DataFrame:
    return study().drop(name)


def changed(name: str, value: Any) -> pl.DataFrame:
    rows = study()
    values = rows[name].to_list()
    values[7] = value
    return rows.with_columns(pl.Series(name, values, strict=False))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (without("n_heads"), "n_heads: no such column; the table has seq_len, d_model"),
        (without("memorized_above_chance"), "target: no column 'memorized_above_chance'"),
        (changed("seq_len", float("nan")), "seq_len: row 8: should be a positive number, got nan"),
        (changed("seq_len", None), "seq_len: row 8: should be a positive number, got nothing"),
        (changed("d_model", float("inf")), "d_model: row 8: should be a positive number, got inf"),
        (changed("d_model", -3.0), "d_model: row 8: should be a positive number, got -3"),
        (changed("n_heads", 0.0), "n_heads: row 8: should be a positive number, got 0"),
        (changed("memorized_above_chance", 0.0), "memorized_above_chance: row 8: should be a positive number, got 0"),
        (changed("memorized_above_chance", 17e3), r"row 8: 17000 memorized of 16000 \(library_size\)"),
        (changed("library_size", float("nan")), "library_size: row 8: should be a positive number"),
        (study().with_columns(n_heads=pl.lit("two")), "n_heads: row 1: should be a number, got two"),
        (study().clear(), "the table holds no rows"),
        ({"seq_len": [8], "n_heads": [1], "d_model": [16, 32], "memorized_above_chance": [3]}, "different lengths"),
        (study().with_columns(vocab_size=pl.Series([16, 100] * 40)), "vocab_size: the rows mix 16, 100"),
        (study().with_columns(loss=pl.Series(["all"] * 79 + ["last"])), "loss: the rows mix all, last"),
        (study().with_columns(max_steps=pl.Series([100, 200] * 40)), "max_steps: the rows mix 100, 200"),
    ],
)
@pytest.mark.parametrize("law", [capax.ECM(), capax.PowerLaw()], ids=["ecm", "power"])
def test_bad_tables_are_refused(law: Law, rows: Any, said: str) -> None:
    with pytest.raises(CapaxError, match=said) as caught:
        law.fit(rows)
    assert "\n" not in str(caught.value)


def test_rows_that_do_not_say_their_library_are_no_bounds() -> None:
    """Such as those of a table without the column, below one that has it."""
    rows = study().with_columns(memorized_above_chance=pl.col("library_size").cast(pl.Float64))
    rows = pl.concat([study(), rows.head(1).with_columns(library_size=pl.lit(None, pl.Int64))], how="vertical_relaxed")
    law = capax.PowerLaw(n_bootstrap=20).fit(rows)
    assert not law.rows_.complete[-1]
    assert "1 measurement does not say its library_size: none of them counts as a lower bound" in law.notes_
    assert not any("library_size" in note for note in capax.PowerLaw().fit(rows.drop("library_size")).notes_)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"random_state": None}, "random_state: should be a whole number, got None"),
        ({"random_state": np.random.default_rng(1)}, "random_state: should be a whole number, got Generator"),
        ({"random_state": -1}, "random_state: at least 0, got -1"),
        ({"target": None}, "target: the name of a column, got None"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(LawError, match=said):
        capax.PowerLaw(**options).fit(study())


def test_rows_to_predict_have_all_columns() -> None:
    law = capax.PowerLaw(n_bootstrap=20).fit(study())
    with pytest.raises(TableError, match=r"columns of different lengths: .*'n_heads': 1"):
        law.predict({"seq_len": [8, 8], "n_heads": [1], "d_model": [16, 16]})


def test_bad_arrays_are_refused() -> None:
    with pytest.raises(TableError, match=r"3 columns .*, or 4 .* 2$"):
        capax.ECM().fit(np.ones((9, 2)), np.ones(9))
    with pytest.raises(ValueError, match="NaN"):
        capax.ECM().fit(np.full((9, 3), np.nan), np.ones(9))
    with pytest.raises(TableError, match=r"^y: "):
        capax.ECM().fit(study(), np.ones((80, 2)))
    for many in ("many", 12.5):
        with pytest.raises(LawError, match="n_bootstrap: should be a whole number, got"):
            capax.PowerLaw(n_bootstrap=many).fit(study())
    with pytest.raises(TableError, match="at least one row is needed"):
        capax.compare(
            {name: [] for name in ("seq_len", "n_heads", "d_model", "memorized")}, [capax.PowerLaw(target="memorized")]
        )
    with pytest.raises(LawError, match=r"n_bootstrap: .*10, got 3"):
        capax.PowerLaw(n_bootstrap=3).fit(study()).predict_interval(study())
    with pytest.raises(ValueError, match="requires y"):
        capax.ECM().fit(np.ones((9, 3)))


def test_repeated_configurations_count_each_and_are_noted() -> None:
    rows = study(sigma=0.1)
    twice = pl.concat([rows, study(sigma=0.1, seed=1)])
    law = capax.PowerLaw().fit(twice)
    assert any("80 rows repeat" in note for note in law.notes_)
    once = capax.PowerLaw().fit(rows).parameter_intervals()["r"]
    low, high = law.parameter_intervals()["r"]
    assert high - low < once[1] - once[0]


@pytest.mark.parametrize("name", LAWS)
def test_too_few_rows_are_refused(name: str) -> None:
    with pytest.raises(LawError, match="need"):
        LAWS[name]().fit(measured(name).head(2))


# Domain


def test_rows_outside_the_domain_are_flagged() -> None:
    law = capax.PowerLaw().fit(study(columns=grid(heads=(1, 2, 4))))
    rows = {"seq_len": [8, 200, 32], "n_heads": [1, 1, 5], "d_model": [16, 16, 16]}
    assert law.inside_domain(rows).tolist() == [True, False, False]
    with pytest.warns(OutsideDomainWarning, match=r"2 of 3 .*n_heads 1 to 4"):
        law.predict(rows)
    law.predict({name: values[:1] for name, values in rows.items()})


def test_runs_of_today_join_those_that_lack_later_fields() -> None:
    """An early study knows no options of later versions: it was measured at their defaults."""
    before = pl.read_csv(REAL)
    assert "attention" not in before.columns
    row = before.filter(before["d_model"] == 32).head(1)
    now = row.with_columns(seed=pl.lit(99), attention=pl.lit("softmax"), n_experts=pl.lit(1), bos=pl.lit(False))
    joined = pl.concat([before, now], how="diagonal_relaxed")
    assert len(capax.PowerLaw(n_bootstrap=2).fit(joined).rows_.counts) == 45  # four are not above chance
    other = pl.concat([before, now.with_columns(attention=pl.lit("linear"))], how="diagonal_relaxed")
    with pytest.raises(LawError, match="attention: the rows mix"):
        capax.PowerLaw(n_bootstrap=2).fit(other)


def test_another_protocol_is_outside_the_domain() -> None:
    law = capax.PowerLaw().fit(real())
    rows = real().head(2).with_columns(vocab_size=pl.Series([100, 50]))
    assert law.inside_domain(rows).tolist() == [True, False]
    assert law.domain_.outside_in_words({"vocab_size": 50, "d_model": 16}) == ["vocab_size 50 is not 100"]
    assert law.domain_.ranges["d_model"] == (16, 64)


# Rivals against independent computations


def test_the_polynomial_is_scikit_learns() -> None:
    rows = study(columns=grid(widths=(16, 64, 256, 400, 512)), library_size=1e9, sigma=0.1)
    X, y = rows.select("seq_len", "n_heads", "d_model").to_numpy(), rows["memorized_above_chance"].to_numpy()
    law = capax.Polynomial().fit(X, y)
    assert len(law.names) == 56
    low, high = X.min(0), X.max(0)
    scaled = (2 * X - low - high) / (high - low)
    theirs = make_pipeline(PolynomialFeatures(5), LinearRegression(fit_intercept=False)).fit(scaled, y)
    np.testing.assert_allclose(law.predict(X), theirs.predict(scaled), rtol=1e-6, atol=1e-6 * y.max())


def test_the_power_law_is_a_regression_of_logarithms() -> None:
    rows = study(library_size=1e9, sigma=0.2)
    X, y = rows.select("seq_len", "n_heads", "d_model").to_numpy(), rows["memorized_above_chance"].to_numpy()
    law = capax.PowerLaw().fit(X, y)
    logs = np.log(X - [1, 0, 0])
    theirs = LinearRegression().fit(logs, np.log(y))
    np.testing.assert_allclose(law.predict(X), np.exp(theirs.predict(logs)), rtol=1e-8)
    assert law.parameters_["p"] == pytest.approx(-theirs.coef_[0], rel=1e-7)
    assert law.parameters_["k"] == pytest.approx(np.exp(theirs.intercept_), rel=1e-7)


def test_the_bits_law_is_one_number() -> None:
    rows = real()
    law = capax.BitsLaw().fit(rows)
    bits = rows["memorized_above_chance"] * (rows["seq_len"] - 1) * np.log2(100) / rows["trainable_parameters"]
    assert law.parameters_["k"] == pytest.approx(float(np.exp(np.log(bits.to_numpy()).mean())), rel=1e-8)
    with pytest.raises(LawError, match=r"loss: .*'all'.*'last'"):
        capax.BitsLaw(loss="last").fit(rows)
    asked = {"seq_len": [8], "vocab_size": [100], "trainable_parameters": [10_000]}
    for name in ("seq_len", "vocab_size"):
        with pytest.raises(LawError, match=f"^{name}: above 1 for this law"):
            law.predict(asked | {name: [1]})


def test_depth_is_an_exponent() -> None:
    flat = grid(widths=(16, 64))
    columns = {name: np.tile(values, 3) for name, values in flat.items()} | {"n_layers": np.repeat([1.0, 2, 4], 40)}
    counts = 3 * (columns["seq_len"] - 1) ** -0.9 * columns["n_heads"] ** 0.5 * columns["d_model"] ** 1.5
    counts *= columns["n_layers"] ** 0.7
    law = capax.DepthLaw().fit(columns, counts * np.exp(0.01 * np.random.default_rng(0).standard_normal(120)))
    assert law.parameters_ == pytest.approx({"k": 3, "p": 0.9, "q": 0.5, "r": 1.5, "s": 0.7}, rel=0.02)


def test_a_constant_column_determines_no_exponent() -> None:
    law = capax.PowerLaw().fit(study(columns=grid(lengths=(16,), heads=(2,))))
    assert law.parameters_["p"] is None
    assert law.parameters_["q"] is None
    assert law.parameters_["r"] == pytest.approx(1, abs=0.1)
    assert "seq_len only (16)" in law.undetermined_["p"]
    assert law.predict(study(columns=grid(lengths=(16,), heads=(2,))))[0] == pytest.approx(
        capacity(TABLE_1, np.array([16.0]), np.array([2.0]), np.array([16.0]))[0], rel=0.1
    )


# Intervals


def test_wider_levels_hold_narrower_ones() -> None:
    law, rows = fitted("power"), measured("power").head(5)
    lows, highs = zip(*(law.predict_interval(rows, level) for level in (0.5, 0.8, 0.95)), strict=True)
    assert (np.diff(np.stack(lows), axis=0) < 0).all()
    assert (np.diff(np.stack(highs), axis=0) > 0).all()
    assert (lows[0] < law.predict(rows)).all()
    with pytest.raises(LawError, match=r"^probability: "):
        law.quantile(rows, 1.0)
    for ask in (law.parameter_intervals, lambda level: law.predict_interval(rows, level)):
        with pytest.raises(LawError, match=r"^level: above 0 and below 1, got 1.5"):
            ask(1.5)


@pytest.mark.parametrize("axes", [5, [["a"]], "seq_len", [""], [], [1]])
@pytest.mark.parametrize("law", [capax.PowerLaw, capax.CapacityLaw])
def test_axes_that_are_no_names_are_refused(law: Any, axes: Any) -> None:
    if law is capax.CapacityLaw and axes == []:
        assert law(axes=axes).names == ("k", "a", "s")
        return
    with pytest.raises(LawError, match=r"^axes: .*got"):
        _ = law(axes=axes).names


@pytest.mark.parametrize("axes", [["d_model", "r"], ["d_model", "k"], ["n_heads", "q"]])
def test_a_column_that_is_called_as_a_parameter_is_refused(axes: list[str]) -> None:
    with pytest.raises(LawError, match=rf"^axes: the law has another parameter '{axes[1]}'"):
        _ = capax.PowerLaw(axes=axes).names


def test_a_law_that_was_read_says_what_is_undetermined() -> None:
    assert "vocab_size" in capax.load_law("reference").undetermined_


@pytest.mark.slow
def test_the_interval_of_a_linear_law_is_the_exact_one() -> None:
    """Without bounds the logarithms are a linear regression, whose prediction interval is known."""
    rows = study(library_size=1e9, sigma=0.1, columns=grid(widths=(16, 64)))
    law = capax.PowerLaw(n_bootstrap=1000).fit(rows)
    from scipy.stats import t as t_distribution

    def design(table: pl.DataFrame) -> np.ndarray:
        X = table.select("seq_len", "n_heads", "d_model").to_numpy()
        return np.column_stack([np.ones(len(X)), np.log(X - [1, 0, 0])])

    asked = rows.head(3)
    at, whole = design(asked), design(rows)
    spread = law.sigma_ * np.sqrt(1 + np.einsum("ij,jk,ik->i", at, np.linalg.inv(whole.T @ whole), at))
    half = t_distribution.ppf(0.975, len(rows) - 4) * spread
    low, high = law.predict_interval(asked)
    np.testing.assert_allclose(np.log(high / low) / 2, half, rtol=0.05)


def test_the_bootstrap_is_seeded() -> None:
    rows = real().head(3)
    one, two = (capax.PowerLaw(n_bootstrap=50).fit(real()) for _ in range(2))
    assert (one.predict_interval(rows)[0] == two.predict_interval(rows)[0]).all()
    other = capax.PowerLaw(n_bootstrap=50, random_state=1).fit(real())
    assert (one.predict_interval(rows)[0] != other.predict_interval(rows)[0]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("ecm", [0, 4, 10, 16, 19, 20, 24, 25, 32, 35, 40]),
        ("logistic", [2, 8, 10, 12, 13, 15, 17, 22, 24, 28, 29, 30, 37, 39, 41, 43]),
    ],
)
def test_few_rows_have_intervals(name: str, rows: list[int]) -> None:
    """Fits of a profile that found another minimum when repeated, and that overflowed, once ended in a traceback."""
    law = LAWS[name](n_bootstrap=2).fit(real()[rows])
    for parameter, (low, high) in law.parameter_intervals().items():
        best = law.parameters_[parameter]
        assert best is None or ((low is None or low <= best) and (high is None or best <= high))


# Files


@pytest.mark.parametrize(
    ("law", "study"),
    [
        *((LAWS[name](target="capacity_items", n_bootstrap=20), "reference:grid") for name in ("power", "ecm", "bits")),
        (LAWS["capacity"](), "reference"),
        (LAWS["exposure"](n_bootstrap=20), "reference:exposures"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_laws_that_ship_are_those_of_the_studies_that_ship(law: Law, study: str) -> None:
    shipped, rows = load_law(f"reference:{law.name}"), table_files.from_file(study)
    if law.name == "exposure":
        rows = rows.filter(pl.col("optimizer") == "soap")  # the recipe of protocol capacity
    law.fit(rows)
    np.testing.assert_allclose(shipped.predict(rows), law.predict(rows), rtol=1e-4)
    assert shipped.sigma_ == pytest.approx(law.sigma_, rel=1e-4)
    assert shipped.domain_ == law.domain_
    assert shipped.source_ == study
    assert load_law().name == "capacity"


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_a_law_comes_back_bit_for_bit(name: str, tmp_path: Path) -> None:
    rows = real().gather_every(2) if name == "ecm" else measured(name)  # its intervals are fits by the hundred
    law = LAWS["ecm"](n_bootstrap=10).fit(rows) if name == "ecm" else fitted(name)
    save_law(law, tmp_path / "law.json")
    back = load_law(tmp_path / "law.json")
    assert (back.predict(rows) == law.predict(rows)).all()
    assert np.array_equal(back.predict_interval(rows, 0.5), law.predict_interval(rows, 0.5))
    assert back.get_params() == law.get_params()
    assert back.parameters_ == law.parameters_
    assert back.domain_ == law.domain_
    assert back.information() == law.information()
    if name in ("ecm", "power"):  # hundreds of fits each: a sum's last bit may depend on where its numbers lie
        again = back.parameter_intervals()
        for parameter, ends in law.parameter_intervals().items():
            assert again[parameter] == tuple(None if end is None else pytest.approx(end, rel=1e-6) for end in ends)
    assert json.loads(to_json(back)) == json.loads(to_json(law))


def test_a_published_law_comes_back_too() -> None:
    law = load_law("published:harma2024")
    back = from_json(to_json(law))
    assert (back.predict(grid()) == law.predict(grid())).all()
    assert back.source_ == "published:harma2024"


def broken(change: dict[str, Any]) -> str:
    return json.dumps(json.loads(to_json(fitted("power"))) | change)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a law"),
        ("{}", "not a law: law: Field required"),
        (broken({"law": "magic"}), "not a law: law"),
        (broken({"schema_version": 2}), "not a law: schema_version"),
        (broken({"options": {"degree": 3}}), "not a law: options"),
        (broken({"values": {"k": 1.0}}), "not a law: values: k, p, q, r are needed, got k"),
        (broken({"extra": 1}), "not a law: extra"),
    ],
)
def test_files_that_are_no_laws_are_refused(text: str, said: str) -> None:
    with pytest.raises(LawError, match=said):
        from_json(text)


def test_saving_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="out: cannot write"):
        save_law(fitted("power"), tmp_path / "none" / "law.json")
    (tmp_path / "law.json").mkdir()
    with pytest.raises(ReportError, match="is a folder"):
        save_law(fitted("power"), tmp_path / "law.json")
    assert list(tmp_path.iterdir()) == [tmp_path / "law.json"]


@pytest.mark.parametrize(
    "name", ["nowhere.json", "published:", "published:harma2024:three", "published:harma2024:1:2", "reference:magic"]
)
def test_laws_that_do_not_exist(name: str) -> None:
    with pytest.raises(LawError, match=r"law|published|reference"):
        load_law(name)


@pytest.mark.slow
@settings(derandomize=True, max_examples=5, deadline=None)
@given(factor=st.floats(0.01, 100))
def test_a_unit_of_counting_changes_only_the_scale(factor: float) -> None:
    """Counting in other units multiplies a, e, alpha, beta and every prediction, and changes no exponent."""
    rows = study(sigma=0.1, library_size=1e9)
    counts = rows["memorized_above_chance"].to_numpy()
    columns = rows.drop("library_size")
    one, other = capax.ECM().fit(columns, counts), capax.ECM().fit(columns, counts * factor)
    np.testing.assert_allclose(other.predict(columns), factor * one.predict(columns), rtol=1e-4)
    assert other.sigma_ == pytest.approx(one.sigma_, rel=1e-5)


def test_budgets_are_compared_in_steps() -> None:
    """150 epochs of 2000 sequences and 600 of 300 are 600 steps of 512 both: one protocol; 150 of 300 are another."""
    rows = real()
    small = rows.head(1).with_columns(
        library_size=pl.lit(300), max_epochs=pl.lit(600), memorized_above_chance=pl.lit(70.0)
    )
    law = capax.PowerLaw().fit(pl.concat([rows, small], how="vertical_relaxed"))
    assert law.domain_.protocol["max_steps"] == 600
    with pytest.raises(LawError, match=r"max_steps: .* 600, 150; .* max_epochs=150"):
        capax.PowerLaw().fit(pl.concat([rows, small.with_columns(max_epochs=pl.lit(150))], how="vertical_relaxed"))


def test_a_published_law_says_that_it_has_no_measurements() -> None:
    law = capax.load_law("published:harma2024")
    assert law.measured is None
    for asked in (law.information, law.parameter_intervals, lambda: report(law)):
        with pytest.raises(LawError, match="ecm: was not fitted to measurements"):
            asked()


@pytest.mark.parametrize("reasons", [["budget", "plateau"] * 9, [1, 2] * 9, [True, False] * 9, [None] * 18])
def test_counts_that_a_budget_cut_short_are_noted(reasons: list[Any]) -> None:
    """A column of somebody's own may be called so and hold anything."""
    rows = pl.DataFrame(
        {"d_model": [8, 16, 32] * 6, "memorized": [80, 160, 320] * 6, "stop_reason": reasons}, strict=False
    )
    notes = capax.PowerLaw(axes=["d_model"], target="memorized").fit(rows).notes_
    cut = [note for note in notes if "ended at a budget" in note]
    assert cut == ["9 of 18 trainings ended at a budget: counts are what these reached, and no capacities"] * (
        "budget" in reasons
    )


def test_draws_of_bounds_tell_as_little_as_the_bounds_themselves() -> None:
    """Where most libraries were memorized whole, draws spread as the profile does, not as if all counts were known."""

    rows = study(sigma=0.1, library_size=150.0, seed=1)
    law = capax.PowerLaw(n_bootstrap=300).fit(rows)
    assert law.rows_.complete.sum() > len(rows) / 2
    ends = law.parameter_intervals()
    for place, name in enumerate(law.names):
        low, high = ends[name]
        got = law.bootstrap()[:, place].std()
        half = (high - low) / 2 / stats.t.ppf(0.975, law.solution_.dof)
        print(name, got, half)
        assert got == pytest.approx(half, rel=0.35)


def test_whether_there_is_a_level_is_decided_by_bic() -> None:
    """By AIC a level of two parameters would be fitted to these 80 counts, none of which reaches the law's."""

    law = capax.ECM().fit(study(sigma=0.12, seed=2))
    assert law.undetermined_ == dict.fromkeys(("alpha", "beta"), "no count shows a plateau")


def test_the_largest_of_some_kinds_is_that_of_their_own_rows() -> None:

    domain = Domain(
        ranges={"d_head": (4.0, 64.0)}, kinds={"ffn": ("mlp", "none")}, within={"ffn=none": {"d_head": (4.0, 16.0)}}
    )
    assert [domain.largest("d_head", {"ffn": kind}) for kind in ("mlp", "none")] == [64.0, 16.0]
