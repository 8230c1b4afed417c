"""Bits known after so many exposures: curves as a table, the law of them, and what it cannot know."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import capax
from capax.cli import main
from capax.errors import LawError, TableError
from capax.laws.exposure import _variances
from capax.laws.files import from_json, to_json
from capax.store import Store, table_files, tables
from capax.store.curves import begun, below_their_library, curves, points

DOCS = Path(__file__).parents[2] / "docs"
CYCLES, CONSTANT = DOCS / "capacity" / "capacity.db", DOCS / "capacity" / "exposures.db"
TRUE = {"k": 1.2, "a": 1.1, "tau": 50.0, "s": 0.0, "beta": 0.9, "delta": 0.0, "p": 0.0}
ENDS = (100, 300, 700, 1500)


def study(
    seed: object = 0, architectures: int = 10, ends: tuple[int, ...] = ENDS, level: float = 0.07, **parameters: float
) -> pl.DataFrame:
    """Curves of a known law, of one, two, four and eight layers in turn; those of one architecture err together."""
    generator, true = np.random.default_rng(seed), TRUE | parameters
    rows = []
    sizes = np.round(np.geomspace(700, 6500, architectures) * np.exp(0.1 * generator.random(architectures)))
    for number, size in enumerate(sizes):
        apart, layers, bigger = level * generator.standard_normal(), 2 ** (number % 4), size / 1000
        slow, late = true["tau"] * bigger ** true["s"], true["delta"] * layers * bigger ** true["p"]
        for seen in ends:
            share = 1 / (1 + (slow / seen) ** true["beta"] + (late / seen) ** 2)
            noise = np.exp(apart + 0.01 * generator.standard_normal())
            rows.append((size, float(seen), layers, true["k"] * size ** true["a"] * share * noise))
    return pl.DataFrame(rows, schema=["effective_parameters", "exposures", "n_layers", "known_bits"], orient="row")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int | str | None, str, str]:
    with pytest.raises(SystemExit) as exit_:
        main(list(arguments))
    out, err = capsys.readouterr()
    return exit_.value.code, out, err


# The law


def test_parameters_are_recovered_and_a_rate_that_does_not_depend_on_size_is_said_to_be_held() -> None:
    law = capax.ExposureLaw().fit(study(level=0.01))
    assert law.parameters_["tau"] == pytest.approx(50, rel=0.1)
    assert law.parameters_["beta"] == pytest.approx(0.9, rel=0.05)
    assert law.parameters_["a"] == pytest.approx(1.1, abs=0.03)
    for name in ("s", "delta", "p"):
        assert law.parameters_[name] is None
        assert law.undetermined_[name].startswith("held at 0: ")


def test_a_delay_of_deep_and_large_networks_is_fitted_and_small_ones_have_hardly_any() -> None:
    law = capax.ExposureLaw().fit(study(level=0.05, architectures=16, delta=8.0, p=0.4))
    ends = law.parameter_intervals()
    for name, true in (("delta", 8.0), ("p", 0.4), ("tau", 50.0), ("beta", 0.9)):
        low, high = ends[name]
        assert low is not None
        assert high is not None
        assert low < true < high, name
    assert law.parameters_["s"] is None
    one, eight = law.known_share(
        {"effective_parameters": [5000, 5000], "exposures": [100, 100], "n_layers": [1, 8]}
    ).tolist()
    assert one == pytest.approx(1 / (1 + 0.5**0.9 + (8 * 5**0.4 / 100) ** 2), rel=0.03)
    assert eight == pytest.approx(1 / (1 + 0.5**0.9 + (64 * 5**0.4 / 100) ** 2), rel=0.05)


@pytest.mark.parametrize("level", [0.05, 0.3, 0.6])
def test_a_level_that_differs_among_architectures_does_not_blur_their_curves(level: float) -> None:
    """Levels that differ by half tell of k and a; of the curve all points do."""
    for delta in (4.0, 8.0):
        law = capax.ExposureLaw().fit(study([9, 1], level=level, architectures=16, delta=delta, p=0.4))
        assert law.parameters_["tau"] == pytest.approx(50, rel=0.15)
        assert law.parameters_["beta"] == pytest.approx(0.9, rel=0.1)
        assert law.parameters_["delta"] == pytest.approx(delta, rel=0.3)


@pytest.mark.slow
def test_draws_spread_as_widely_as_the_intervals_of_parameters() -> None:
    """Of a few deep architectures, towards which a fit bends, and in a law that ships."""
    for law in (
        capax.ExposureLaw(n_bootstrap=400).fit(study([9, 2], level=0.05, architectures=16, delta=8.0, p=0.4)),
        capax.load_law("reference:exposure"),
    ):
        assert isinstance(law, capax.ExposureLaw)
        draws = dict(zip(law.names, law.bootstrap().T, strict=False))
        for name, (low, high) in law.parameter_intervals().items():
            if low is not None and high is not None and name in ("tau", "beta", "delta"):
                drawn = np.diff(np.log(np.quantile(draws[name], [0.025, 0.975])))[0]
                assert 0.6 < drawn / np.log(high / low) < 1.3, name


def test_a_rate_that_depends_on_size_is_fitted() -> None:
    law = capax.ExposureLaw().fit(study(level=0.01, s=-0.3))
    low, high = law.parameter_intervals()["s"]
    assert low is not None
    assert high is not None
    assert low < -0.3 < high < 0


@pytest.mark.very_slow
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    hits = dict.fromkeys(TRUE, 0)
    for seed in range(40):
        law = capax.ExposureLaw().fit(study([1, seed]))
        for name, (low, high) in law.parameter_intervals().items():
            if low is not None and high is not None:
                hits[name] += low <= TRUE[name] <= high
    for name in ("k", "a", "tau", "beta"):
        assert hits[name] >= 33, name  # of 40: fewer with a probability of 0.001 where they hold in 95 %


@pytest.mark.very_slow
def test_new_measurements_fall_into_their_intervals() -> None:
    hits = {100: 0, 1500: 0}
    for seed in range(100):
        law = capax.ExposureLaw(n_bootstrap=200).fit(study([2, seed]))
        for seen in hits:
            new = study([3, seed], architectures=3, ends=(seen,))[1:2]
            low, high = law.predict_interval(new)
            hits[seen] += int(low[0] <= new["known_bits"][0] <= high[0])
    assert min(hits.values()) >= 88


@pytest.mark.slow
def test_more_points_of_the_same_trainings_narrow_no_interval() -> None:
    rows = study()
    one, two = (capax.ExposureLaw(n_bootstrap=300).fit(table) for table in (rows, pl.concat([rows, rows])))
    for name, (low, high) in one.parameter_intervals().items():
        if low is not None and high is not None:
            assert two.parameter_intervals()[name] == (pytest.approx(low, rel=0.02), pytest.approx(high, rel=0.02))
    new = {"effective_parameters": [2000.0], "exposures": [500.0], "n_layers": [2]}
    assert np.ravel(two.predict_interval(new)) == pytest.approx(np.ravel(one.predict_interval(new)), rel=0.03)


def test_shares_and_exposures_are_inverses() -> None:
    law = capax.ExposureLaw().fit(study(level=0.01, s=-0.3))
    late = capax.ExposureLaw().fit(study(level=0.01, architectures=16, delta=8.0, p=0.4))
    for one, share, layers in ((law, 0.9, 1), (late, 0.01, 1), (late, 0.5, 8), (late, 0.999, 4)):
        new = {"effective_parameters": [3000], "n_layers": [layers]}
        seen = one.exposures_for(share, 3000, layers)
        assert one.known_share(new | {"exposures": [seen]}) == pytest.approx([share])
    assert law.exposures_for(0.5, 1000) == pytest.approx(law.parameters_["tau"])
    for share, size, layers in ((1.0, 100, 1), (0.5, 0, 1), (0.5, "many", 1), (0.5, 100, 0)):
        with pytest.raises(LawError, match=r"share|effective_parameters|n_layers"):
            law.exposures_for(share, size, layers)


def test_a_law_of_a_file_without_rows_says_so_where_it_needs_them() -> None:
    """`reference:exposure` as somebody may send it, without its measurements."""
    known = json.loads(to_json(capax.load_law("reference:exposure")))
    law = from_json(json.dumps({**known, "columns": {}, "counts": [], "library": []}))
    new = {"effective_parameters": [3000], "exposures": [500], "n_layers": [1]}
    assert law.predict(new) == capax.load_law("reference:exposure").predict(new)
    for asked in (law.parameter_intervals, lambda: law.share_draws(new)):
        with pytest.raises(LawError, match="exposure: was not fitted to measurements"):
            asked()


@pytest.mark.very_slow
def test_a_new_training_strays_from_the_share_as_its_draws_do() -> None:
    new, errors = {"effective_parameters": [2000.0] * 2, "exposures": [50.0, 400.0], "n_layers": [1, 1]}, []
    true = np.log(1 / (1 + (TRUE["tau"] / np.array(new["exposures"])) ** TRUE["beta"]))
    noise = np.random.default_rng(7)
    for seed in range(12):
        law = capax.ExposureLaw(n_bootstrap=40).fit(study([4, seed]))
        strayed = np.log(law.known_share(new)) - true - 0.01 * noise.standard_normal(2)
        spread = np.log(law.share_draws(new)).std(axis=0)
        errors.append(strayed / spread)
    assert 0.6 < np.sqrt(np.mean(np.square(errors))) < 1.5
    assert spread.max() < 0.05  # that of what is held is more


def test_no_training_knows_more_than_it_holds() -> None:
    """Of large and deep networks, of which next to nothing is told early, and of those that know all."""
    law = capax.load_law("reference:exposure")
    assert isinstance(law, capax.ExposureLaw)
    for seen in (10, 100, 1000, 10_000_000):
        new = {"effective_parameters": [1e4, 1e9], "exposures": [seen] * 2, "n_layers": [1, 12]}
        draws = law.share_draws(new, 24_800)
        assert draws.shape == (len(law.bootstrap()), 2)
        assert (draws > 0).all()
        assert (draws <= 1).all()
        low, high = np.quantile(draws, (0.3, 0.7), axis=0)
        assert (low <= law.known_share(new, 24_800) + 1e-12).all()
        assert (law.known_share(new, 24_800) <= high + 1e-12).all()


@pytest.mark.slow
def test_what_no_training_came_near_has_no_value() -> None:
    law = capax.ExposureLaw().fit(study(ends=(10, 20, 40, 80), tau=3000.0, level=0.01))
    assert law.parameters_["tau"] is None
    assert law.parameters_["k"] is None
    assert "no row knows half" in law.undetermined_["tau"]
    assert law.parameter_intervals()["k"] == (None, None)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (study(architectures=3), "at least 4 architectures of different size are needed, got 3"),
        (
            study(architectures=4)[[0, 4, 8, 12, 13, 14]],
            "at least 5 rows beside those of any one size",
        ),
        (study(ends=(100, 300)), "at least 3 different ones are needed, got 100, 300"),
        (
            study(architectures=12).with_row_index().filter(pl.col("index") % 5 == 0),
            "at least 3 rows beside the first of each size are needed, to tell of curves, got 0",
        ),
        (study().drop("exposures"), "exposures: no such column"),
        (study().with_columns(exposures=-1.0), "exposures: row 1: should be a positive number"),
    ],
)
def test_rows_that_do_not_suffice_are_refused(rows: pl.DataFrame, message: str) -> None:
    with pytest.raises((LawError, TableError), match=message):
        capax.ExposureLaw().fit(rows)


@pytest.mark.slow
def test_a_law_comes_back_from_its_file_bit_for_bit() -> None:
    law = capax.ExposureLaw(n_bootstrap=40).fit(
        tables.where(table_files.from_file("reference:exposures"), ["optimizer=soap"])
    )
    again = from_json(to_json(law))
    new = {"effective_parameters": [900.0, 5000.0], "exposures": [150.0, 1200.0], "n_layers": [1, 4]}
    assert (again.predict(new) == law.predict(new)).all()
    assert (np.array(again.predict_interval(new)) == np.array(law.predict_interval(new))).all()
    assert again.parameter_intervals() == law.parameter_intervals()
    assert again.domain_ == law.domain_
    assert again.domain_.kinds["loss"] == ("all", "last")
    assert again.domain_.ranges["vocab_size"] == (16, 2048)


# Curves as rows


def test_of_a_rate_in_cycles_the_ends_are_points_as_long_as_all_restarts_are_trained() -> None:
    with Store(CYCLES, create=False) as store:
        runs = list(store.each())
    for run in runs[:3]:
        rows = list(points([run]))
        assert len(rows) == min(len(member.cycles) for member in run.members)
        for place, row in enumerate(rows):
            ends = [member.cycles[place] for member in run.members]
            assert row["exposures"] == ends[0].epochs
            assert row["known_bits"] == pytest.approx(np.mean([end.bits for end in ends]))
            assert row["effective_parameters"] == run.parameters.effective


def test_at_one_rate_points_are_of_the_loss() -> None:
    rows = curves(CONSTANT)
    with Store(CONSTANT, create=False) as store:
        runs = {run.key: run for run in store.each()}
    for (key,), curve in rows.group_by("key"):
        run, most = runs[str(key)], float(curve["library_bits"][0])
        assert (curve["exposures"] / curve["exposures"].shift(1)).drop_nulls().min() >= 2**0.5 - 1e-9
        last = np.mean([member.curve.loss[-1] for member in run.members])
        assert curve["known_bits"][-1] == pytest.approx(most * (1 - last / np.log(100)))
        assert curve["exposures"][-1] == 3995  # the middle of the last ten

        def known(member: Any, most: float = most) -> float:
            return most * (1 - member.curve.loss[member.curve.epoch.index(member.epoch_of_best)] / np.log(100))

        (signed,) = (unit.amount for unit in run.units if unit.name == "allen_zhu_bits")
        assert max(map(known, run.members)) == pytest.approx(signed, rel=0.03)


def test_a_schedule_over_the_budget_has_one_point() -> None:
    with Store(DOCS / "reproduced" / "allenzhu2024-demo.db", create=False) as store:
        runs = [run for run in store.each() if run.spec.training.schedule == "cosine"]
    assert runs
    for run in runs:
        (row,) = points([run])
        assert row["exposures"] == run.spec.training.max_epochs


def test_small_libraries_and_starts_are_left_out_and_counted() -> None:
    rows = pl.DataFrame(
        {
            "key": ["a"] * 3 + ["b"] * 2,
            "library_bits": [1000.0] * 5,
            "known_bits": [10.0, 300.0, 600.0, 300.0, 800.0],
        }
    )
    kept, notes = below_their_library(rows)
    assert kept["key"].unique().to_list() == ["a"]
    assert notes == ("1 run was left out: more than 70% of the library is known",)
    kept, notes = begun(kept)
    assert kept["known_bits"].to_list() == [300, 600]
    assert notes[0].startswith("1 point of a start was left out")
    with pytest.raises(TableError, match="they are too small"):
        below_their_library(rows.filter(pl.col("key") == "b"))


def test_a_store_without_curves_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    store = str(DOCS / "reproduced" / "mahdavi2024-small.db")
    code, _, err = run(capsys, "fit", "--law", "exposure", "--store", store)
    assert (code, len(err.splitlines())) == (2, 1)
    assert "no run of" in err


# The commands, and what ships


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("law") / "curves.json"
    with pytest.raises(SystemExit), warnings.catch_warnings():
        main(["fit", "--law", "exposure", "--store", str(CONSTANT), "--out", str(path)])
    return path


@pytest.mark.slow
def test_from_a_store_to_a_prediction(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ("--d-model", "16", "--n-heads", "2", "--d-head", "8")
    code, out, err = run(capsys, "predict", "--law", str(file), *sizes, "--exposures", "100", "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    assert found["exposures"] == 100
    assert found["interval"]["low"] < found["value"] < found["interval"]["high"]  # of sequences, which take 46.5 bits
    assert found["value"] == pytest.approx(found["bits"] / (7 * np.log2(100)))
    assert any("after 100 exposures 2" in note for note in found["notes"])
    law = capax.load_law(file)
    effective = capax.Transformer(d_model=16, n_heads=2, d_head=8).effective_parameters(vocab_size=100, context=7)
    assert found["bits"] == pytest.approx(
        law.predict({"effective_parameters": [effective], "exposures": [100], "n_layers": [1]})[0]
    )
    assert found["value"] == capax.predict(law, d_model=16, n_heads=2, d_head=8, exposures=100).value
    code, out, _ = run(capsys, "predict", "--law", str(file), *sizes, "--exposures", "100")
    assert "knows about" in out
    assert "kbit" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("predict", "--d-model", "16"), "exposures: is required"),
        (("predict", "--d-model", "16", "--n-heads", "2", "--d-head", "8", "--exposures", "0"), "exposures: "),
        (
            ("predict", "--d-model", "16", "--n-heads", "2", "--d-head", "8", "--exposures", "9"),
            "exposures 9 is outside",
        ),
        (("plan", "--items", "100"), "a plan needs one of what is held"),
    ],
)
def test_questions_that_it_does_not_answer(
    file: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    code, _, err = run(capsys, *arguments, "--law", str(file))
    assert (code, len(err.splitlines())) == (2, 1)
    assert message in err


def test_recipes_are_not_mixed_and_no_other_law_is_of_curves(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("fit", "--data", "reference:exposures")  # whose law is that of curves, whether it is named or not
    code, _, err = run(capsys, *options)
    assert code == 2
    assert "optimizer: the rows mix" in err
    code, _, err = run(capsys, *options, "--compare")
    assert code == 2
    assert "compare: no other law is of curves" in err
    code, _, err = run(capsys, "predict", "--law", "reference:power", "--exposures", "100", "--seq-len", "8")
    assert code == 2
    assert "exposures: only for laws in bits" in err


def test_the_spread_is_that_of_architectures_and_of_points_within_them() -> None:

    residuals, group = np.array([1.1, 0.9, -1.1, -0.9, 2.0, 2.0]), np.array([0, 0, 1, 1, 2, 2])
    between, within = _variances(residuals, group)
    assert (between, within) == (6.0, pytest.approx(0.04))  # of 3 means 2 tell k and a; of 6 points, 5 are told


def test_points_that_stray_within_their_curves_widen_the_interval_of_a_new_one() -> None:

    law = capax.ExposureLaw().fit(study(level=0.0))
    assert law.sigma_ == pytest.approx(0.01, rel=0.15)


def test_the_nearer_to_all_that_is_held_the_less_a_share_strays() -> None:

    law = capax.ExposureLaw(n_bootstrap=200).fit(study())
    early, late = np.log(
        law.share_draws({"effective_parameters": [2000.0] * 2, "exposures": [50.0, 1e6], "n_layers": [1, 1]})
    ).std(axis=0)
    assert late < early / 5


def test_the_jackknife_over_architectures_has_two_degrees_of_freedom_fewer_than_there_are() -> None:

    law = capax.ExposureLaw().fit(study(architectures=6))
    wide, narrow = (np.log(np.divide(*law.parameter_intervals(level)["k"][::-1])) for level in (0.95, 0.5))
    assert wide / narrow == pytest.approx(stats.t.ppf(0.975, 4) / stats.t.ppf(0.75, 4), rel=1e-6)
