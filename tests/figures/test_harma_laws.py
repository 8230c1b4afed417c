"""Laws in figures say what the laws say, where they may."""

import numpy as np
import pytest
from made import changed, made
from test_harma import points, shown

import capax
from capax.errors import ReportError
from capax.figures.declared import PARAMETERS, WIDTH_FIGURE
from capax.figures.expectations import expected
from capax.figures.predicted import (
    held_out_heads,
    measured_against_predicted,
    slopes,
)
from capax.laws.files import load_law
from capax.laws.law import Law
from capax.results import Interval, Parameters
from capax.store import tables

LIBRARY, VOCABULARY = 4000, 100


def capacity(seq_len: int, n_heads: int, d_model: int) -> float:
    return 60 * d_model**1.2 * n_heads**0.5 / (seq_len - 1)


def study(noise: float = 0.05, **fields: object) -> list[capax.Measurement]:
    """Counts about a power law, above chance."""
    rng = np.random.default_rng(0)
    runs = []
    for seq_len in (4, 8, 16):
        for n_heads in (1, 2, 3):
            for d_model in (8, 16, 32):
                count = capacity(seq_len, n_heads, d_model) * np.exp(noise * rng.standard_normal())
                raw = round(count * (1 - 1 / VOCABULARY) + LIBRARY / VOCABULARY)
                sizes = {"seq_len": seq_len, "n_heads": n_heads, "d_model": d_model}
                kind = {"library_size": LIBRARY, "vocab_size": VOCABULARY, **fields}
                runs.append(made(raw, raw - 1, raw - 2, **sizes, **kind))
    return runs


@pytest.fixture(scope="module")
def runs() -> list[capax.Measurement]:
    return study()


@pytest.fixture(scope="module")
def law(runs: list[capax.Measurement]) -> Law:
    return capax.PowerLaw(n_bootstrap=50).fit(tables.table(runs))


def test_expected_counts_are_raw_and_no_more_than_the_library(runs: list[capax.Measurement], law: Law) -> None:
    table = tables.table(runs)
    above, (low, high) = law.predict(table), law.predict_interval(table)
    found = expected(law, runs)
    for drawn, value in ((found.values, above), (found.low, low), (found.high, high)):
        np.testing.assert_allclose(drawn, np.minimum(value * 0.99 + 40, LIBRARY))
    small = [made(50, seq_len=4, d_model=32, library_size=60, vocab_size=VOCABULARY)]
    assert expected(law, small).values == (60,)


def test_a_law_is_silent_outside_its_domain(runs: list[capax.Measurement], law: Law) -> None:
    beyond = made(50, 49, 48, d_model=64, library_size=LIBRARY, vocab_size=VOCABULARY)
    other = made(50, 49, 48, d_model=8, library_size=LIBRARY, vocab_size=90)
    assert expected(law, [beyond, runs[0], other]).known == 1
    (chart,) = WIDTH_FIGURE.shown([*runs, beyond], law)
    assert shown(chart, 0, "band", faint=True)["law, 1 head"].y[-1] is None
    alien = [made(9, d_model=w, vocab_size=90) for w in (8, 16)]
    (chart,) = WIDTH_FIGURE.shown(alien, law)
    assert not any(series.kind == "band" for series in chart.panels[0].series)
    assert "outside its domain" in chart.caption


def test_a_law_of_another_training_is_drawn_and_it_is_said(law: Law) -> None:
    (chart,) = WIDTH_FIGURE.shown(study(lr=0.01), law)
    assert "law, 1 head" in shown(chart, 0, "band", faint=True)
    assert "lr 0.001, these 0.01" in chart.caption
    (chart,) = WIDTH_FIGURE.shown(study(), law)
    assert "these" not in chart.caption


def test_budgets_that_differ_are_told_as_they_were_given(law: Law) -> None:
    (chart,) = WIDTH_FIGURE.shown(study(max_epochs=10), law)  # 4000 sequences in batches of 512: 8 an epoch
    assert "3 epochs (24 steps), these 10 epochs (80 steps)" in chart.caption
    (chart,) = WIDTH_FIGURE.shown(study(max_epochs=None, max_steps=90), law)
    assert "24 steps, these 90 steps" in chart.caption
    (chart,) = WIDTH_FIGURE.shown(study(max_epochs=None), law)
    assert "(24 steps), these none" in chart.caption


def test_a_law_of_something_else_is_not_drawn(runs: list[capax.Measurement]) -> None:
    (chart,) = WIDTH_FIGURE.shown(runs, load_law("reference:relation"))
    assert "total_key_dim, edges" in chart.caption
    assert measured_against_predicted(runs, load_law("reference:relation"))


def test_measured_against_predicted_by_a_law(runs: list[capax.Measurement], law: Law) -> None:
    beyond = made(50, 49, 48, d_model=64, library_size=LIBRARY, vocab_size=VOCABULARY)
    (chart,) = measured_against_predicted([*runs, beyond], law)
    drawn = {pair for series in shown(chart, 0, "points").values() for pair in points(series)}
    values = expected(law, runs, band=False).values
    assert drawn == {(run.memorized, value) for run, value in zip(runs, values, strict=True)}
    assert "1 run outside" in chart.caption
    with pytest.raises(ReportError, match="domain"):
        measured_against_predicted([beyond], law)


def test_without_a_law_one_is_fitted_and_tested_on_what_it_has_not_seen(runs: list[capax.Measurement]) -> None:
    (chart,) = measured_against_predicted(runs, None)
    score = capax.compare(tables.table(runs), [capax.PowerLaw()]).scores[0]
    counts = [run.memorized_above_chance for run in runs]
    drawn = {pair for series in shown(chart, 1, "points").values() for pair in points(series)}
    assert drawn == set(zip(counts, score.predicted_left_out, strict=True))
    assert chart.panels[0].title == f"fitted to all: mean error {score.mape:.0%}"
    with pytest.raises(ReportError, match=r"at least 6 runs above chance are needed to fit a law, got 5"):
        measured_against_predicted(runs[:5:2] + runs[9:11], None)


def test_whole_libraries_stand_apart(runs: list[capax.Measurement], law: Law) -> None:
    whole = made(60, seq_len=4, d_model=32, library_size=60, vocab_size=VOCABULARY)
    (chart,) = measured_against_predicted([whole], law)
    assert points(shown(chart, 0, "points")["whole library (lower bound)"]) == [(60, 60)]


def test_slopes_are_counts_per_channel_at_the_last_width(runs: list[capax.Measurement]) -> None:
    (chart,) = slopes(runs, None)
    of = {
        (run.spec.task.seq_len, run.spec.model.n_heads): run.memorized_above_chance / 32
        for run in runs
        if run.spec.model.d_model == 32
    }
    lines = shown(chart, 0, "line")
    for heads, name in ((1, "1 head"), (2, "2 heads"), (3, "3 heads")):
        np.testing.assert_allclose(lines[name].y, [of[length, heads] for length in (4, 8, 16)])
    for (length, heads), value in of.items():
        law = shown(chart, 0, "band", faint=True)[f"law, {heads} head{'s' * (heads > 1)}"]
        assert np.interp(length, law.x, law.y) == pytest.approx(value, rel=0.3)


def test_slopes_have_the_intervals_of_their_counts(runs: list[capax.Measurement]) -> None:
    told = Interval(low=10, high=20, level=0.95, of="test")
    of_three = [run.model_copy(update={"interval": told, "memorized_per_restart": (1, 1, 1)}) for run in runs]
    (chart,) = slopes(of_three, None)
    line = shown(chart, 0, "line")["1 head"]
    chance, library = runs[0].chance, runs[0].library_size
    np.testing.assert_allclose(line.low, [(10 - chance) / (1 - chance / library) / 32] * 3)
    np.testing.assert_allclose(line.high, [(20 - chance) / (1 - chance / library) / 32] * 3)
    assert "Bars" in chart.caption


def test_slopes_are_of_counts_after_a_training_not_of_capacities(runs: list[capax.Measurement]) -> None:
    held = [run.model_copy(update={"spec": run.spec.replace(protocol=capax.Capacity())}) for run in runs]
    (alone,), (among,) = slopes(runs, None), slopes([*runs, *held], None)
    assert among == alone
    with pytest.raises(ReportError, match="no run by protocol mac"):
        slopes(held, None)


def test_slopes_beside_the_published_law_are_eq_10_with_table_1() -> None:
    published = capax.ECM.published()
    (chart,) = slopes(study(), published)
    line = shown(chart, 0, "band", faint=True)["law, 2 heads"]
    np.testing.assert_allclose(line.y, 145.27 / (np.array(line.x) ** (-0.13 * 2 + 1.29) + 0.13) + 0.20)
    assert line.x[0] == pytest.approx(8)  # its domain begins there
    assert "published:harma2024" in chart.caption
    with pytest.raises(ReportError, match="lengths"):
        slopes([made(90, d_model=w, library_size=LIBRARY, vocab_size=VOCABULARY) for w in (4, 8)], None)


def test_held_out_heads_are_predicted_by_a_law_that_has_not_seen_them(runs: list[capax.Measurement]) -> None:
    (chart,) = held_out_heads(runs, None)
    assert [panel.title for panel in chart.panels] == ["4 tokens", "8 tokens", "16 tokens"]
    assert "1 and 2 heads" in chart.caption
    fitted = capax.PowerLaw().fit(tables.table([run for run in runs if run.spec.model.n_heads < 3]))
    changed = [run.model_copy(update={"memorized": run.spec.model.n_heads // 3 + run.memorized}) for run in runs]
    (other,) = held_out_heads(changed, None)
    for place, length in enumerate((4, 8, 16)):
        line = shown(chart, place, "band", faint=True)["law, 3 heads"]
        with pytest.warns(UserWarning, match="outside"):
            above = fitted.predict({"seq_len": [length] * 3, "n_heads": [3] * 3, "d_model": [8, 16, 32]})
        assert line.x == tuple(range(8, 33))
        np.testing.assert_allclose([line.y[line.x.index(width)] for width in (8, 16, 32)], above * 0.99 + 40)
        assert shown(other, place, "band", faint=True)["law, 3 heads"] == line
        assert all(low < y < high for low, y, high in zip(line.low, line.y, line.high, strict=True))
    with pytest.raises(ReportError, match="three n_heads or more"):
        held_out_heads(runs[:3], None)


def test_a_law_is_drawn_between_the_sizes_that_were_measured(runs: list[capax.Measurement], law: Law) -> None:
    counted = [
        run.model_copy(update={"parameters": Parameters(**run.spec.model.parameter_counts(**run.spec.task.sizes()))})
        for run in runs
    ]
    (chart,) = PARAMETERS.shown(counted, law)
    line = shown(chart, 0, "band", faint=True)["law, 2 heads"]
    model, sizes = counted[3].spec.model, counted[3].spec.task.sizes()
    widths = range(8, 33)
    assert line.x == tuple(model.replace(d_model=width).parameter_counts(**sizes)["trainable"] for width in widths)
    asked = [counted[3].model_copy(update={"spec": changed(counted[3].spec, d_model=width)}) for width in widths]
    assert line.y == expected(law, asked).values


def test_parameters_are_those_of_the_runs(runs: list[capax.Measurement], law: Law) -> None:
    sized = [
        run.model_copy(update={"parameters": run.parameters.model_copy(update={"trainable": 100 * place})})
        for place, run in enumerate(runs, 1)
    ]
    (chart,) = PARAMETERS.shown(sized, law)
    assert points(shown(chart, 0, "line")["2 heads"]) == [(400 + 100 * k, sized[3 + k].memorized) for k in range(3)]
    assert shown(chart, 0, "band", faint=True)["law, 2 heads"].y == expected(law, sized[3:6]).values
    with pytest.raises(ReportError, match="differ in d_model"):
        PARAMETERS.shown([run for run in runs if run.spec.model.d_model == 32], None)


def test_two_numbers_of_heads_say_nothing_of_the_larger(runs: list[capax.Measurement]) -> None:
    with pytest.raises(ReportError, match="three n_heads or more"):
        held_out_heads([run for run in runs if run.spec.model.n_heads < 3], None)


def test_a_law_that_is_of_something_else_is_said_not_to_be_drawn(runs: list[capax.Measurement]) -> None:
    bits = load_law("reference")
    for charts in (measured_against_predicted(runs, bits), held_out_heads(runs, bits)):
        assert "The law capacity (reference) is not drawn: it is of capacity_bits" in charts[0].caption
