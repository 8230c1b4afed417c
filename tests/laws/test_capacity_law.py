"""The law of capacity: terms that predict, what the data leave open, and intervals far away."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from scipy import stats

import capax
from capax.errors import LawError, TableError
from capax.laws.capacity import PRIOR, TERMS, _mean_of_families
from capax.laws.compare import compare
from capax.laws.domain import OutsideDomainWarning
from capax.laws.files import from_json, to_json
from capax.laws.regression import KNOWN, Regression
from capax.store import table_files

ALL = ["n_layers", "attention", "d_model", "vocab_size", "seq_len"]
COLUMNS = ["n_layers", "n_heads", "d_head", "d_model", "vocab_size", "seq_len"]


def drawn(
    seed: int,
    rows: int = 60,
    sizes: tuple[float, float] = (600, 10_000),
    of: Sequence[str] = (),
    **exponents: float,
) -> pl.DataFrame:
    """Measurements of a law of bits: 2 bits a parameter, times terms of columns; further columns are noise."""
    rng = np.random.default_rng(seed)
    table = {
        "effective_parameters": np.exp(rng.uniform(*np.log(sizes), rows)).round(),
        "n_layers": rng.integers(1, 5, rows).astype(float),
        "n_heads": rng.integers(1, 5, rows).astype(float),
        "d_head": rng.choice([4.0, 8.0, 16.0], rows),
        "d_model": rng.choice([16.0, 24.0, 32.0, 64.0], rows),
        "vocab_size": rng.choice([16.0, 100.0, 1000.0], rows),
        "seq_len": rng.choice([4.0, 8.0, 32.0], rows),
    }
    logs = np.log(2 * table["effective_parameters"]) + 0.05 * rng.standard_normal(rows)
    for name, exponent in exponents.items():
        logs += exponent * (TERMS[name][0].log if name in TERMS else np.log)(table[name])
    kept = {name: values for name, values in table.items() if name in ("effective_parameters", *of, *exponents)}
    return pl.DataFrame(kept | {"capacity_bits": np.exp(logs)})


def test_heads_against_width_are_told_by_what_the_data_say_of_their_channels() -> None:
    shipped = capax.load_law("reference")
    place = shipped.names.index("c")
    more, (low, high) = shipped.solution_.values["c"], np.quantile(shipped.bootstrap()[:, place], (0.025, 0.975))
    said = shipped.heads_or_width()
    assert f"four times the heads holds {4**more:.2f} times as many bits ({4**low:.2f} to {4**high:.2f}" in said
    assert ("beyond doubt" in said) == (shipped.parameters_["c"] is None)
    assert "beyond doubt): most of what heads add is their parameters. Härmä et al. 2024 conclude" in said
    assert capax.CapacityLaw(axes=["n_layers"]).fit(drawn(0, n_layers=-0.4)).heads_or_width() is None
    assert capax.load_law("reference:power").heads_or_width() is None
    of = ("n_heads", "d_head", "d_model")
    for exponent, meaning in (
        (1.0, "heads add more than their parameters."),
        (0.0, "most of what heads add is their parameters."),
        (-0.5, "heads add less than their parameters."),
    ):
        channels = pl.col("n_heads") * pl.col("d_head") / pl.col("d_model")
        table = drawn(0, of=of).with_columns(pl.col("capacity_bits") * channels**exponent)
        told = capax.CapacityLaw(axes=["attention"]).fit(table).heads_or_width()
        assert told is not None
        assert meaning in told, told


def test_terms_that_matter_enter_and_others_are_left_out() -> None:
    law = capax.CapacityLaw(axes=ALL).fit(drawn(0, of=COLUMNS, n_layers=-0.3))
    assert set(law.undetermined_) >= {"c", "d_model", "seq_len"}
    assert law.parameters_["seq_len"] is None
    assert law.undetermined_["seq_len"].startswith("shrunk towards no effect: with it the log density")
    row = {"n_layers": 4, "n_heads": 4, "d_head": 8, "d_model": 32, "vocab_size": 100, "seq_len": 8}
    said = law.predict({"effective_parameters": [3e3], **{name: [value] for name, value in row.items()}})
    assert said[0] == pytest.approx(6e3 * np.exp(-0.3 / 4), rel=0.05)
    for name, true in (("b", -0.3), ("q", 0.0)):
        low, high = law.parameter_intervals()[name]
        assert low is not None
        assert high is not None
        assert low < true < high


def test_beyond_the_depths_that_were_measured_the_law_leaves_open_whether_depth_comes_to_an_end() -> None:
    """Fitted to one to four layers: an interval of 64 that holds either form, and inside them one as narrow as ever."""
    for form in ({"n_layers": -0.3}, {}):
        rows = drawn(5, of=["n_layers"], rows=120, **form)
        if not form:
            rows = rows.with_columns(pl.col("capacity_bits") * pl.col("n_layers") ** 0.15)
        law = capax.CapacityLaw(axes=["n_layers"]).fit(rows)
        new = {"effective_parameters": [3e3] * 3, "n_layers": [2.0, 4.0, 64.0]}
        low, high = law.predict_interval(new)
        layers = np.array(new["n_layers"])
        true = 6e3 * (np.exp(-0.3 / layers) if form else layers**0.15)
        assert (low < true).all()
        assert (true < high).all()
        near, far = np.log(high / low)[[1, 2]]
        assert near < 0.25
        assert far > 1.5 * near


def test_of_terms_that_may_stand_for_one_another_neither_has_a_number_but_both_predict() -> None:
    """Beside the other, each of two such terms adds nothing: left out for that, both would be missing."""
    table = drawn(0, of=["seq_len"], n_layers=-0.3)
    rng = np.random.default_rng(1)
    table = table.with_columns(seq_len=pl.col("n_layers") * np.exp(0.02 * rng.standard_normal(len(table))))
    law = capax.CapacityLaw(axes=["n_layers", "seq_len"]).fit(table)
    assert set(law.undetermined_) == {"b", "q", "seq_len"}
    said = law.predict({"effective_parameters": [3e3] * 2, "n_layers": [1.0, 4.0], "seq_len": [1.0, 4.0]})
    assert np.log(said[1] / said[0]) == pytest.approx(0.3 * 3 / 4, abs=0.05)
    assert law.sigma_ < 0.07


@pytest.mark.parametrize("exponent", [1.0, 1.15])
def test_the_exponent_of_the_size_is_one_unless_the_data_say_otherwise(exponent: float) -> None:
    rows = drawn(1, effective_parameters=exponent - 1)
    law = capax.CapacityLaw(axes=[]).fit(rows)
    assert law.predict({"effective_parameters": [9e3]})[0] == pytest.approx(2 * 9e3**exponent, rel=0.05)
    low, high = law.parameter_intervals()["a"]
    assert low is not None
    assert high is not None
    assert low < exponent < high


def test_of_a_column_of_one_value_other_values_are_open() -> None:
    """At that value intervals are as without the term; at others they are as wide as what nobody knows of it."""
    rows = drawn(2, of=["n_layers"]).with_columns(seq_len=pl.lit(8.0))
    law, without = (capax.CapacityLaw(axes=axes).fit(rows) for axes in (["n_layers", "seq_len"], ["n_layers"]))
    assert law.undetermined_["seq_len"] == "one value of seq_len only"
    assert law.domain_.ranges["seq_len"] == (8, 8)

    def spread(law: capax.CapacityLaw, seq_len: float) -> float:
        row = {"effective_parameters": [2e3], "n_layers": [2.0], "seq_len": [seq_len]}
        low, high = np.log(law.predict_interval(row))
        return float(high[0] - low[0])

    assert spread(law, 8) == pytest.approx(spread(without, 8), rel=0.05)
    open_ = 3.92 * PRIOR["seq_len"] * (1 / 2 - 1 / 8)
    assert spread(law, 2) == pytest.approx(np.hypot(spread(law, 8), open_), rel=0.1)


def test_ways_to_know_positions_are_not_mixed_but_tables_are() -> None:
    rows = drawn(2, of=["n_layers"])
    kinds = pl.Series("positions", ["trained", "frozen"] * len(rows))[: len(rows)]
    capax.CapacityLaw(axes=["n_layers"]).fit(rows.with_columns(kinds))
    with pytest.raises(LawError, match="positions: the rows mix rotary, frozen"):
        capax.CapacityLaw(axes=["n_layers"]).fit(rows.with_columns(kinds.replace("trained", "rotary")))


def test_the_form_has_the_terms_that_were_chosen() -> None:
    assert "e^(b/L) · L^q · (H·d_head/d_model)^c · …" in (capax.CapacityLaw().form or "")
    form = capax.CapacityLaw(axes=["attention", "d_model"], size="total_parameters").form
    assert form == (
        "C = k · total_parameters^a · exp(1/√total_parameters)^s · (n_heads·d_head/d_model)^c · "
        "exp(1/d_model)^(its exponent)"
    )


@pytest.mark.slow
def test_of_one_size_the_interval_is_the_textbooks() -> None:
    """Student's of a new measurement, with one of the usual spread beside the rows."""
    rows = drawn(3, rows=12)
    law = capax.CapacityLaw(axes=[], n_bootstrap=40_000).fit(
        rows.with_columns(effective_parameters=pl.lit(1000.0), total_parameters=pl.int_range(1000, 1012))  # else one
    )
    logs = np.log(rows["capacity_bits"].to_numpy())
    half = stats.t.ppf(0.975, 12) * np.sqrt((11 * logs.var(ddof=1) + KNOWN**2) / 12) * np.sqrt(1 + 1 / 12)
    assert law.predict({"effective_parameters": [1000.0]})[0] == pytest.approx(np.exp(logs.mean()), rel=1e-10)
    ends = law.predict_interval({"effective_parameters": [1000.0]})
    assert np.log(np.ravel(ends)) == pytest.approx([logs.mean() - half, logs.mean() + half], abs=0.02 * half)


def test_without_priors_a_regression_is_that_of_least_squares() -> None:
    generator = np.random.default_rng(0)
    design = np.column_stack([np.ones(9), generator.normal(size=(9, 3))])
    y = generator.normal(size=9)
    fit = Regression.of(design, y, np.full(4, np.inf))
    beta, rest, *_ = np.linalg.lstsq(design, y)
    assert fit.beta == pytest.approx(beta, rel=1e-10)
    assert fit.dof == pytest.approx(9 - 4 + 1)
    assert fit.spread**2 * fit.dof == pytest.approx(rest[0] + KNOWN**2, rel=1e-10)
    assert fit.root @ fit.root.T == pytest.approx(np.linalg.inv(design.T @ design), rel=1e-9, abs=1e-12)


def test_with_priors_a_regression_is_bayes_and_its_spread_has_the_highest_evidence() -> None:
    generator = np.random.default_rng(1)
    design = np.column_stack([np.ones(40), generator.normal(size=(40, 2))])
    prior = np.array([1e3, 0.1, 0.3])
    y = design @ [1.0, 0.2, -0.1] + 0.2 * generator.normal(size=40)
    fit = Regression.of(design, y, prior)
    precision = design.T @ design / fit.spread**2 + np.diag(prior**-2.0)
    assert fit.beta == pytest.approx(np.linalg.solve(precision, design.T @ y / fit.spread**2), rel=1e-6)
    assert fit.spread**2 * fit.root @ fit.root.T == pytest.approx(np.linalg.inv(precision), rel=1e-6)

    def evidence(spread: float) -> float:
        covariance = spread**2 * np.eye(41) + np.pad((design * prior**2) @ design.T, (0, 1))
        return float(stats.multivariate_normal.logpdf([*y, KNOWN], cov=covariance))

    assert evidence(fit.spread) > max(evidence(fit.spread * times) for times in (0.99, 1.01))


def test_the_density_of_what_is_left_out_is_that_of_a_line() -> None:
    rng = np.random.default_rng(4)
    design = np.column_stack([np.ones(20), rng.standard_normal(20)])
    y = design @ [1.0, 2.0] + 0.1 * rng.standard_normal(20)
    fit = Regression.of(design[:15], y[:15], np.full(2, np.inf))
    line = stats.linregress(design[:15, 1], y[:15])
    x, mean = design[15:, 1], design[:15, 1].mean()
    rest = ((y[:15] - line.intercept - line.slope * design[:15, 1]) ** 2).sum()
    scale = np.sqrt((rest + KNOWN**2) / 14) * np.sqrt(
        1 + 1 / 15 + (x - mean) ** 2 / ((design[:15, 1] - mean) ** 2).sum()
    )
    expected = stats.t.logpdf(y[15:], 14, line.intercept + line.slope * x, scale)
    assert fit.log_density(design[15:], y[15:]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_intervals_hold_where_some_rows_count_for_many() -> None:
    """With 20 rows that count for as much as one other; by all degrees of freedom .91 lie within."""
    rng = np.random.default_rng(0)
    counts, held = np.repeat([22 / 60, 22 / 3, 22 / 3], [20, 1, 1]), []
    for _ in range(2000):
        design = np.column_stack([np.ones(23), rng.standard_normal((23, 2))])
        y = design @ [1.0, 0.5, -0.5] + 0.1 * rng.standard_normal(23)
        fit = Regression.of(design[:22], y[:22], np.array([np.inf, 1.0, 1.0]), counts)
        half = (
            stats.t.ppf(0.975, fit.spread_dof)
            * fit.spread
            * np.sqrt(1 + (design[22:] @ fit.root) @ fit.root.T @ design[22])
        )
        held.append(abs(y[22] - design[22] @ fit.beta) < half[0])
    assert 0.94 <= np.mean(held) <= 0.98


@pytest.mark.very_slow
def test_intervals_hold_ten_times_beyond_the_data() -> None:
    """For laws with one of the exponents that there may be."""
    held, columns = 0, ["n_layers", "d_model"]
    for seed in range(40):
        exponents = {"effective_parameters": 0.1} if seed % 2 else {"n_layers": -0.3}
        rows = drawn(100 + seed, rows=40, sizes=(600, 6000), of=columns, **exponents)
        new = drawn(200 + seed, rows=3, sizes=(18_000, 60_000), of=columns, **exponents)
        law = capax.CapacityLaw(axes=["n_layers", "d_model"], n_bootstrap=300).fit(rows)
        with pytest.warns(OutsideDomainWarning):
            law.predict(new)
        low, high = law.predict_interval(new)
        held += int(((low < new["capacity_bits"].to_numpy()) & (new["capacity_bits"].to_numpy() < high)).sum())
    assert held >= 108  # of 120; 114 are expected


def test_what_did_not_converge_is_a_lower_bound() -> None:
    rows = drawn(5, rows=40)
    known = rows.with_columns(capacity_reached=pl.col("capacity_bits"))
    bits = np.where(np.arange(40) % 5 == 0, np.nan, rows["capacity_bits"].to_numpy())
    low = known.with_columns(
        capacity_bits=pl.Series(bits).fill_nan(None),
        capacity_reached=pl.when(pl.Series(np.isnan(bits))).then(0.5 * pl.col("capacity_bits")).otherwise(pl.lit(1.0)),
    )
    whole, cut = capax.CapacityLaw(axes=[]).fit(rows), capax.CapacityLaw(axes=[]).fit(low)
    assert cut.rows_.complete.sum() == 8
    assert cut.predict(rows) == pytest.approx(whole.predict(rows), rel=0.05)
    high = low.with_columns(capacity_reached=3 * pl.col("capacity_reached"))  # bounds that lie above the others
    higher = capax.CapacityLaw(axes=[]).fit(high).predict(rows) / whole.predict(rows)
    assert higher.min() > 1
    assert higher.mean() > 1.05


@pytest.mark.slow
def test_lower_bounds_do_not_make_the_spread_smaller() -> None:
    """Values are cut where that says nothing of them: the spread stays that of all values, 0.3 here."""

    def spread(seed: int) -> float:
        rng = np.random.default_rng(seed)
        size = np.exp(rng.uniform(np.log(600), np.log(10_000), 80)).round()
        logs, cut = np.log(2 * size) + rng.normal(0, [[0.3], [0.2]], (2, 80))
        bits = pl.Series(np.where(logs > cut, np.nan, np.exp(logs))).fill_nan(None)
        table = {"effective_parameters": size, "capacity_bits": bits, "capacity_reached": np.exp(np.minimum(logs, cut))}
        return float(capax.CapacityLaw(axes=[]).fit(pl.DataFrame(table)).sigma_)

    assert np.mean([spread(seed) for seed in range(8)]) == pytest.approx(0.3, rel=0.08)


def test_the_domain_has_the_ranges_of_each_kind() -> None:
    """In words, as a table and as an array of codes."""
    law = capax.load_law("reference")
    row = {"effective_parameters": 5000, "n_layers": 2, "n_heads": 2, "d_head": 8, "d_model": 16}
    row |= {"vocab_size": 256, "seq_len": 16, "loss": "all", "embeddings": "trained", "ffn": "mlp"}
    assert law.domain_.within["embeddings=trained"]["n_layers"] == (1, 3)
    for change, reasons in (
        ({}, []),
        ({"n_layers": 3}, ["n_layers 3 is outside 1 to 2 with loss all, embeddings trained and ffn mlp"]),
        ({"n_layers": 3, "ffn": "none"}, []),
        ({"n_layers": 8, "embeddings": "frozen"}, []),
        ({"n_layers": 9, "embeddings": "frozen"}, ["n_layers 9 is outside 1 to 8"]),
        (
            {"n_layers": 9},
            ["n_layers 9 is outside 1 to 8 (1 to 2 with loss all, embeddings trained and ffn mlp)"],
        ),
        ({"vocab_size": 512, "n_layers": 1, "embeddings": "frozen"}, []),
        ({"vocab_size": 1024, "embeddings": "frozen"}, ["vocab_size 1024 is outside 16 to 512 with ffn mlp"]),
        (
            {"loss": "last", "effective_parameters": 4000},
            ["none with loss last, embeddings trained and ffn mlp was measured"],
        ),
    ):
        asked = row | change
        assert law.domain_.outside_in_words(asked) == reasons
        assert law.inside_domain({name: [value] for name, value in asked.items()}).tolist() == [not reasons]
        codes = [
            law.coded[name].index(str(asked[name])) + 1 if name in law.coded else asked[name] for name in law.columns
        ]
        assert law.inside_domain(np.array([codes], dtype=float)).tolist() == [not reasons]


def test_kinds_are_read_by_name() -> None:
    rows = drawn(6).with_columns(loss=pl.Series(["all", "last"] * 30))
    rows = rows.with_columns(
        capacity_bits=pl.col("capacity_bits") * pl.when(pl.col("loss") == "last").then(0.8).otherwise(1.0)
    )
    law = capax.CapacityLaw(axes=["loss"]).fit(rows)
    assert law.parameters_["loss"] == pytest.approx(np.log(0.8), abs=0.04)
    assert law.domain_.kinds == {"loss": ("all", "last")}
    with pytest.raises(TableError, match="loss: row 2: all or last, got 'first'"):
        law.predict({"effective_parameters": [1e3, 1e3], "loss": ["all", "first"]})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"axes": ["n_layers", "n_layers"]}, "axes: .* each once; got"),
        ({"axes": ["width"]}, r"axes: .*got \['width'\]"),
        ({"axes": "n_layers"}, "axes"),
        (
            {"size": "parameters"},
            "size: effective_parameters, trainable_parameters, total_parameters, got 'parameters'",
        ),
    ],
)
def test_options_that_there_are_not_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(LawError, match=said):
        capax.CapacityLaw(**options).fit(drawn(7))


def test_too_few_measurements_are_refused() -> None:
    with pytest.raises(LawError, match="at least 4 converged measurements are needed, got 3 of 3"):
        capax.CapacityLaw(axes=[]).fit(drawn(8, rows=3))


def test_parts_of_the_variance_say_what_makes_an_interval_wide() -> None:
    law = capax.CapacityLaw(axes=[]).fit(drawn(9, rows=30, effective_parameters=0.1))
    near, far = ({"effective_parameters": [size]} for size in (2e3, 2e8))
    assert next(iter(law.drivers(near))) == "spread"
    assert next(iter(law.drivers(far))) == "size"
    for row in (near, far):  # the spread by what draws say of the row, and of a new measurement
        said = law._said(law.bootstrap()[:, :-1], law._columns_of(row))[:, 0]
        spread = (law.bootstrap()[:, -1] ** 2).mean()
        assert law.drivers(row)["spread"] == pytest.approx(spread / (spread + said.var()), rel=1e-9)
        assert sum(law.drivers(row).values()) == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("largest", "kind", "error", "width"),
    [
        (900, "mlp or none", 0.2, 1.1),
        *((size, "mlp or none", 0.45, 0.9) for size in (1100, 1200)),  # of one and two layers: deeper ones hold more
        (2100, "mlp or none", 0.1, 0.5),
        *((size, "mlp or none", 0.08, 0.35) for size in (3200, 6000)),
        (2100, "mlp", 0.2, 0.95),
        (3200, "mlp", 0.08, 0.45),
        (6000, "mlp", 0.1, 0.35),
        (12_000, "mlp", 0.08, 0.2),
    ],
)
@pytest.mark.filterwarnings("ignore:.*outside the domain")
def test_the_small_networks_that_ship_predict_the_larger(largest: int, kind: str, error: float, width: float) -> None:
    """Of networks 3 to 10, 10 to 30 and more times as large as all of a fit nine in ten lie in its intervals.

    So do those with an FFN alone, whose spread is a third of the others'.

    Args:
        error: mean relative error of all of them, at most.
        width: half of the mean interval's logarithmic width, at most: one that holds anything says nothing.
    """
    rows = table_files.from_file("reference:capacity").filter(pl.col("ffn").is_in(kind.split(" or ")))
    size = pl.col("effective_parameters")
    larger = rows.filter((size > 3 * largest) & pl.col("capacity_bits").is_not_null())
    law, bits = capax.CapacityLaw().fit(rows.filter(size <= largest)), larger["capacity_bits"].to_numpy()
    low, high = law.predict_interval(larger)
    inside, times = (low < bits) & (bits < high), larger["effective_parameters"].to_numpy() / largest
    assert (times <= 10).sum() >= 9
    for least, most in ((3, 10), (10, 30), (30, np.inf)):
        assert inside[(times > least) & (times <= most)].mean() >= 0.9
    assert np.abs(law.predict(larger) / bits - 1).mean() < error
    assert np.log(high / low).mean() / 2 < width


@pytest.mark.filterwarnings("ignore:.*outside the domain")
def test_measurements_of_one_architecture_count_once() -> None:
    """Each on four libraries, which differ little: the interval of another one is what it was, not half as wide."""
    once = drawn(3, rows=40)
    noise = np.random.default_rng(0).normal(0, 0.01, 160)
    again = pl.concat([once] * 4).with_columns(pl.col("capacity_bits") * np.exp(noise))
    laws = [capax.CapacityLaw(axes=[]).fit(rows) for rows in (once, again)]
    far = {"effective_parameters": [2e8]}
    widths = [np.log(high / low)[0] for low, high in (law.predict_interval(far) for law in laws)]
    assert widths[1] == pytest.approx(widths[0], rel=0.05)
    assert laws[1].predict(far) == pytest.approx(laws[0].predict(far), rel=0.05)
    assert laws[1].sigma_ == pytest.approx(laws[0].sigma_, rel=0.1)
    assert "120 measurements repeat an architecture; those of one count once, by their geometric mean" in laws[1].notes_
    assert not any("repeat" in note for note in laws[0].notes_)
    (score,) = compare(again.with_columns(n_heads=1.0, d_model=8.0 + pl.int_range(pl.len()) % 40), [laws[1]]).scores
    assert (score.aic, score.bic) == (None, None)
    assert any(reason.startswith("AIC, BIC: ") for reason in score.reasons)


def test_a_term_that_is_drawn_towards_none_counts_in_part() -> None:
    """AIC charges for what the rows tell: the trace of the hat matrix, and the spread."""
    law = capax.CapacityLaw().fit(table_files.from_file("reference:capacity"))
    columns, prior = law.rows_.columns, law._prior
    design = law._design(columns) / law._unevenness(columns)[:, None]
    pull = np.diag((law.regression_.spread / prior) ** 2)
    told = np.trace(design @ np.linalg.solve(design.T @ design + pull, design.T))
    aic, bic = law.information()
    values = int((~law.rows_.complete).sum())
    assert (bic - aic) / (np.log(values) - 2) == pytest.approx(told + 1, abs=0.51)  # degrees of freedom are whole


def test_its_source_says_whose_the_measurements_are() -> None:
    table = drawn(0).with_columns(source=pl.lit("Somebody 2020"))
    assert capax.CapacityLaw(axes=[]).fit(table).source_.endswith(" (Somebody 2020)")


def test_a_kind_that_no_code_stands_for_is_refused() -> None:
    law = capax.load_law("reference")
    rows = np.array([[2.0 if name in law.coded else 16.0 for name in law.columns]] * 2)
    with pytest.warns(OutsideDomainWarning):
        assert (law.predict(rows) > 0).all()
    for code in (0.5, 3.0):
        rows[0, law.columns.index("ffn")] = code
        with pytest.raises(TableError, match=rf"^ffn: one of 1 \(.*\), 2 \(.*\), got {code:g}$"):
            law.predict(rows)


@pytest.mark.filterwarnings("ignore:.*outside the domain")
def test_kinds_that_spread_differently_have_intervals_of_their_own() -> None:
    rows = drawn(10, rows=80).with_columns(ffn=pl.Series(["mlp", "none"] * 40))
    noise = np.random.default_rng(11).normal(0, 0.15, 80)
    uneven = rows.with_columns(
        capacity_bits=pl.when(pl.col("ffn") == "none")
        .then(pl.col("capacity_bits") * np.exp(noise))
        .otherwise("capacity_bits")
    )
    law = capax.CapacityLaw(axes=["ffn"]).fit(uneven)
    assert law.spreads_["ffn=none"] == pytest.approx(np.hypot(0.15, 0.05) / 0.05, rel=0.35)
    low, high = law.predict_interval({"effective_parameters": [3e3, 3e3], "ffn": ["mlp", "none"]})
    assert np.divide(*np.log(high / low)[::-1]) == pytest.approx(law.spreads_["ffn=none"], rel=0.15)
    again = from_json(to_json(law))
    assert again.predict_interval(rows)[0].tolist() == law.predict_interval(rows)[0].tolist()
    assert capax.CapacityLaw(axes=["ffn"]).fit(rows[:14]).spreads_ == {}  # seven of each are too few


def test_each_family_counts_alike_for_the_spread() -> None:
    """Many networks that differ in little, which the law fits well, do not make it sure of networks of another kind."""
    rng = np.random.default_rng(12)
    families = np.concatenate([np.zeros(100), np.arange(1, 21)])
    missed = np.where(families == 0, rng.normal(0, 0.01, 120), rng.normal(0, 0.1, 120))
    size = np.exp(rng.uniform(np.log(600), np.log(10_000), 120))
    table = pl.DataFrame(
        {"effective_parameters": size, "vocab_size": 10 + families, "capacity_bits": 2 * size * np.exp(missed)}
    )
    law = capax.CapacityLaw(axes=["vocab_size"]).fit(table)
    assert law.sigma_ == pytest.approx(0.1, rel=0.3)
    alone = capax.CapacityLaw(axes=[]).fit(table.drop("vocab_size"))
    assert alone.sigma_ < 0.06


@pytest.mark.slow
def test_of_the_lower_bounds_of_an_architecture_the_highest_counts_once() -> None:
    rows = table_files.from_file("reference:capacity")
    bounds = rows.filter(pl.col("capacity_bits").is_null())
    lower = bounds.with_columns(pl.col("capacity_reached") / 2)
    assert len(bounds) > 1
    one, more = (capax.CapacityLaw().fit(table) for table in (rows, pl.concat([rows, lower, bounds])))
    assert more.solution_.values == pytest.approx(one.solution_.values, rel=1e-9)
    assert more.repeats_ - one.repeats_ == 2 * len(bounds)
    assert sorted(more.rows_.library[more.rows_.complete]) == sorted(one.rows_.library[one.rows_.complete])


def test_architectures_that_the_laws_columns_do_not_tell_apart_are_no_repeats() -> None:
    rows = drawn(13, rows=40)
    two = pl.concat([rows.with_columns(n_heads=pl.lit(heads)) for heads in (1.0, 4.0)])
    assert capax.CapacityLaw(axes=[]).fit(two).repeats_ == 0
    assert capax.CapacityLaw(axes=[]).fit(two.drop("n_heads")).repeats_ == 40


def test_of_bounds_of_an_architecture_the_highest_counts_in_any_order() -> None:
    rows = drawn(0, rows=40)
    bounds = pl.DataFrame(
        {"effective_parameters": [5e4] * 3, "capacity_reached": [2e5, 3e5, 1e5], "capacity_bits": [None] * 3}
    )
    for order in ([0, 1, 2], [1, 0, 2], [0, 2, 1]):
        table = pl.concat([rows.with_columns(capacity_reached="capacity_bits"), bounds[order]], how="diagonal_relaxed")
        law = capax.CapacityLaw(axes=[]).fit(table)
        assert law.rows_.library[law.rows_.complete].tolist() == [3e5]


def test_a_family_that_sets_the_mean_is_apart_from_it_as_from_that_of_others() -> None:
    """Of two families each is as far from the other as both means are apart: the error is that of their difference."""
    mean, error = _mean_of_families(np.array([0.0, 2.0]), np.array([0, 1]), 0.0)
    assert (mean, error) == (1.0, pytest.approx(2**0.5))


def test_a_term_counts_where_it_gains_more_than_two_standard_errors() -> None:
    rows = drawn(3, rows=40, of=["n_layers", "vocab_size"], n_layers=-0.1)
    law = capax.CapacityLaw(axes=["n_layers", "vocab_size"]).fit(rows)
    assert "changes by 0.11 ± 0.062 on average" in law.undetermined_["b"]  # by 1.8 standard errors
    assert law.parameters_["b"] is None


def test_what_families_have_in_common_stays_in_the_intervals() -> None:
    """Ten families that err by 20 % tell a level as ten measurements do, however many networks each has."""
    rng, families = np.random.default_rng(0), np.repeat(np.arange(10), 20)
    missed = rng.normal(0, 0.2, 10)[families] + rng.normal(0, 0.02, 200)
    size = np.exp(rng.uniform(np.log(600), np.log(10_000), 200))
    table = {"effective_parameters": size, "vocab_size": 10.0 + families, "capacity_bits": 2 * size * np.exp(missed)}
    law = capax.CapacityLaw(axes=["vocab_size"]).fit(pl.DataFrame(table))
    said = law._said(
        law.bootstrap()[:, :-1], {"effective_parameters": np.array([2500.0]), "vocab_size": np.array([15.0])}
    )
    assert said.std() > 0.8 * law.sigma_ / 10**0.5


def test_measurements_of_a_kind_that_spreads_more_have_that_share_of_the_variance() -> None:
    rows = drawn(10, rows=80).with_columns(ffn=pl.Series(["mlp", "none"] * 40))
    noise = np.exp(np.random.default_rng(11).normal(0, 0.15, 80))
    uneven = rows.with_columns(
        capacity_bits=pl.when(pl.col("ffn") == "none").then(pl.col("capacity_bits") * noise).otherwise("capacity_bits")
    )
    law = capax.CapacityLaw(axes=["ffn"]).fit(uneven)
    for kind, times in (("mlp", 1.0), ("none", law.spreads_["ffn=none"])):
        row = {"effective_parameters": [3e3], "ffn": [kind]}
        open_ = law._said(law.bootstrap()[:, :-1], law._columns_of(row))[:, 0].var()
        spread = law.drivers(row)["spread"]
        assert spread / (1 - spread) == pytest.approx((law.sigma_ * times) ** 2 / open_, rel=0.1)
