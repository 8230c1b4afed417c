"""`capax fit`, `predict` and `plan`: from measurements to an answer, with good and bad input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from commands import narrow, refused, run, without_answer

import capax
from capax.store import Store, table_files

STUDY = Path(__file__).parents[1] / "laws" / "data" / "study.csv"
COUNTRIES = Path(__file__).parents[2] / "examples" / "facts" / "countries.tsv"


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_from_a_table_to_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "fit", "--data", STUDY, "--law", "power", "--out", "power.json")
    assert "power: 44 rows" in shown
    for part in ("seq_len 8 to 32", "n_heads 1 to 4", "d_model 16 to 64", "vocab_size 100", "loss all"):
        assert part in shown
    predicted = run(capsys, "predict", "--n-heads", "2", "--d-model", "40", "--seq-len", "16", "--law", "power.json")
    assert "inside its domain" in predicted
    planned = run(capsys, "plan", "--items", "300", "--seq-len", "8", "--law", "power.json")
    for part in ("300 sequences", "seq_len 8", "vocab_size 100", "90%"):
        assert part in planned
    assert "law: power (44 measurements)" in planned


@pytest.mark.very_slow
def test_from_a_store_to_a_law(capsys: pytest.CaptureFixture[str]) -> None:
    for heads in ("1", "2"):
        for width in ("8", "16", "24"):
            options = ("--n-heads", heads, "--d-model", width, "--library-size", "600", "--vocab-size", "20")
            run(
                capsys,
                "measure",
                "sequences",
                *options,
                "--loss",
                "last",
                "--restarts",
                "2",
                "--max-epochs",
                "20",
                "--lr",
                "0.01",
                "--quiet",
                "--workers",
                "1",
            )
    found = json.loads(run(capsys, "fit", "--law", "power", "--json"))
    assert found["n_rows"] == 6
    assert found["domain"]["protocol"]["loss"] == "last"
    parameters = {row["name"]: row for row in found["parameters"]}
    assert parameters["p"]["value"] is None
    assert "one value of seq_len only" in parameters["p"]["reason"]
    assert parameters["r"]["low"] < parameters["r"]["value"] < parameters["r"]["high"]
    one = json.loads(run(capsys, "fit", "--law", "bits", "--where", "n_heads=2", "--json"))
    assert (one["n_rows"], one["options"]["loss"]) == (3, "last")
    assert json.loads(run(capsys, "fit", "--json")) == found  # as without a law
    assert "6 parameters" not in refused(capsys, "fit", "--law", "ecm")  # one length only
    assert "two lengths" in refused(capsys, "fit", "--law", "ecm")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "law"),
    [
        (("--data", "reference:associations"), "association"),
        (("--data", "reference:relations"), "relation"),
        (("--data", "reference:capacity"), "capacity"),
        (("--data", "reference:grid"), "capacity"),
        (("--data", STUDY), "power"),
        (("--data", STUDY, "--degree", "2"), "polynomial"),
    ],
)
def test_the_usual_law_is_that_of_the_rows(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], law: str
) -> None:
    assert json.loads(run(capsys, "fit", *options, "--json"))["law"] == law


@pytest.mark.slow
def test_rows_at_convergence_are_counted_in_what_they_can_hold(capsys: pytest.CaptureFixture[str]) -> None:
    ask = ("fit", "--data", "reference:grid", "--law", "power", "--compare", "--degree", "1", "--json")
    found = json.loads(run(capsys, *ask))
    assert found["options"]["target"] == "capacity_items"
    bits = table_files.from_file("reference:grid")["capacity_bits"]
    assert found["comparison"]["counts"] == bits.to_list(), "whichever law is asked for"
    sizes = {"seq_len": 8, "n_heads": 1, "d_model": 16}
    (after_600_steps,) = pl.read_csv(STUDY).filter(**sizes)["memorized_above_chance"]
    assert capax.predict("reference:power", **sizes).value > 2 * after_600_steps


@pytest.mark.very_slow
def test_depth_from_two_tables(capsys: pytest.CaptureFixture[str]) -> None:
    tables = ("--data", STUDY, "--data", STUDY.with_name("depth.csv"))
    found = json.loads(run(capsys, "fit", *tables, "--law", "depth", "--out", "depth.json", "--json"))
    depth = next(row for row in found["parameters"] if row["name"] == "s")
    assert 1 < depth["low"] < depth["value"] < depth["high"] < 1.4
    planned = json.loads(run(capsys, "plan", "--items", "300", "--seq-len", "8", "--law", "depth.json", "--json"))
    assert {row["n_layers"] for row in planned["architectures"]} == {1, 2, 3}
    assert "n_layers: " in refused(capsys, "fit", *tables)


@pytest.mark.slow
def test_a_law_is_written_where_its_figure_cannot_be_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of one configuration have none to leave out."""
    Path("one.csv").write_text("seq_len,n_heads,d_model,memorized\n" + "".join(f"8,1,16,{n}\n" for n in range(90, 99)))
    drawn = ("--law", "power", "--compare", "--figure", "f.png")
    line = refused(capsys, "fit", "--data", "one.csv", *drawn, "--out", "law.json")
    assert "figure: no law could be fitted with configurations left out" in line
    assert not Path("f.png").exists()
    sizes = ("--seq-len", "8", "--n-heads", "1", "--d-model", "16")
    assert "law: power (9 measurements)" in run(capsys, "predict", *sizes, "--law", "law.json")


@pytest.mark.very_slow
def test_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("fit", "--data", STUDY, "--law", "power", "--compare", "--degree", "2")
    shown = run(capsys, *options, "--figure", "c.png")
    names = ("power", "bits", "ecm", "polynomial", "exponential", "logistic")
    rows = [line.split()[0] for line in shown.splitlines()[2:] if line.split(" ")[0] in names]
    assert rows[0] == "power"
    assert set(rows) == set(names)
    assert Path("c.png").stat().st_size > 20_000
    scores = json.loads(run(capsys, *options, "--json"))["comparison"]["scores"]
    assert [score["law"] for score in scores] == rows
    assert scores[0]["mape_left_out"] < 0.2 < scores[-1]["mape_left_out"]


@pytest.mark.very_slow
def test_the_ecm_both_ways_and_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    cells = np.array([(n, h, b) for n in (8, 16, 32, 64) for h in (1, 2, 3, 4) for b in (16, 32, 64)], dtype=float)
    table = dict(zip(("seq_len", "n_heads", "d_model"), cells.T, strict=True))
    counts = capax.ECM.published().predict(table) * np.exp(0.05 * np.random.default_rng(0).standard_normal(48))
    pl.DataFrame({**table, "memorized": counts}).write_csv("known.csv")
    for options in (("--method", "joint"), ("--method", "stages"), ("--as-printed",)):
        found = json.loads(run(capsys, "fit", "--data", "known.csv", *options, "--json"))
        assert found["options"]["target"] == "memorized"
        assert found["law"] == "ecm"
        printed = "--as-printed" in options
        assert any("cannot be meant" in note for note in found["notes"]) == printed
        assert found["form"].startswith("C = max(" if printed else "C = min(")


def test_prediction_json(capsys: pytest.CaptureFixture[str]) -> None:
    ask = ("--n-heads", "4", "--d-model", "128", "--seq-len", "32", "--law", "published:harma2024", "--json")
    found = json.loads(run(capsys, "predict", *ask))
    assert found == json.loads(run(capsys, "predict", "sequences", *ask))
    assert found["value"] == pytest.approx(128 * float(capax.ECM.published().slope(32, 4)))
    assert found["interval"]["low"] < found["value"] < found["interval"]["high"]
    assert found["inside_domain"] is True
    assert (found["law"], found["source"]) == ("ecm", "published:harma2024")
    assert found["domain"]["ranges"]["n_heads"] == [1, 4]


def test_outside_the_domain(capsys: pytest.CaptureFixture[str]) -> None:
    ask = ("predict", "--n-heads", "5", "--d-model", "2048", "--seq-len", "32", "--law", "published:harma2024")
    said = refused(capsys, *ask)
    shown = run(capsys, *ask, "--extrapolate")
    for part in ("n_heads 5", "1 to 4", "d_model 2048", "16 to 1024"):
        assert part in said
        assert part in shown
    assert "OUTSIDE" in shown
    assert json.loads(run(capsys, *ask, "--extrapolate", "--json"))["inside_domain"] is False


@pytest.mark.slow
def test_kinds_that_a_law_does_not_depend_on(capsys: pytest.CaptureFixture[str]) -> None:
    of_counts = ("--law", "reference:power", "--seq-len", "8")
    one = ("predict", *of_counts, "--n-heads", "2", "--d-model", "16")
    assert "loss last is not all" in refused(capsys, *one, "--loss", "last")
    same = json.loads(run(capsys, *one, "--json"))
    assert json.loads(run(capsys, *one, "--loss", "all", "--json")) == same | {"loss": "all"}
    several = ("plan", "--items", "300", *of_counts)
    assert "ffn none is not mlp" in refused(capsys, *several, "--ffn", "none")
    assert run(capsys, *several, "--ffn", "mlp") == run(capsys, *several)
    assert "outside the domain of the law: ffn none" in run(capsys, *several, "--ffn", "none", "--extrapolate")
    curve = ("predict", "--law", "reference:exposure", "--exposures", "300", "--json", "--seq-len", "8")
    sizes = ("--vocab-size", "100", "--n-layers", "1", "--n-heads", "2", "--d-head", "8", "--d-model", "16")
    plain, bare = (json.loads(run(capsys, *curve, *sizes, "--ffn", kind)) for kind in ("mlp", "none"))
    assert plain["inside_domain"]
    assert bare["inside_domain"]
    assert bare["bits"] < plain["bits"]


@pytest.mark.slow
def test_what_rows_do_not_say_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    rows = table_files.from_file("reference:grid").select("seq_len", "n_heads", "d_model", "memorized")
    rows.write_csv("rows.csv")
    run(capsys, "fit", "--data", "rows.csv", "--law", "power", "--out", "law.json")
    ask = ("predict", "--law", "law.json", "--seq-len", "8", "--n-heads", "2", "--d-model", "16", "--n-layers", "12")
    assert "note: the law's data do not say their vocab_size, d_head, n_layers" in run(capsys, *ask)
    assert "do not say" not in run(capsys, *ask[:1], "--law", "reference:power", *ask[3:-2])


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 70])
@pytest.mark.parametrize(
    "ask",
    [
        ("plan", "--items", "100", "--seq-len", "8", "--law", "reference:power"),
        ("plan", "associations", "--items", "300", "--context-size", "16"),
    ],
)
def test_a_narrow_terminal_shows_whole_numbers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, ask: tuple[str, ...], width: int
) -> None:
    """Of fewer columns; what they are is not cut either."""
    wide = run(capsys, *ask)
    narrow(monkeypatch, width)
    shown = run(capsys, *ask)
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    numbers = re.compile(r"^ +\d+( .*)?$", re.MULTILINE)
    whole, kept = ([line.group().split() for line in numbers.finditer(out)] for out in (wide, shown))
    assert len(kept) == len(whole)
    assert all(set(few) <= set(many) and len(few) >= 7 for few, many in zip(kept, whole, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    "ask",
    [
        ("plan", "--items", "200000", "--seq-len", "16", "--vocab-size", "32000"),
        ("plan", "--items", "200000", "--seq-len", "16", "--vocab-size", "32000", "--target", "bytes"),
        ("plan", "facts", COUNTRIES),
        ("plan", "facts", COUNTRIES, "--target", "bytes"),
    ],
)
def test_plans_in_bits_fit_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, ask: tuple[str, ...]
) -> None:
    """What was left out is named, and what a plan is about is not."""
    narrow(monkeypatch, 80)
    shown = run(capsys, *ask)
    assert max(map(len, shown.splitlines())) <= 80
    assert "effective_parameters 1.4" not in shown  # 14.2 M, not 1.42e+07
    left = (
        " ".join(shown.split())
        .partition("Left out, as the terminal is narrow (--json has them): ")[2]
        .partition(".")[0]
    )
    assert "heads" not in left  # a network cannot be built without
    assert ("size" if {"bytes", "facts"} & set(ask) else "trainable") not in left  # by which its rows are sorted


def test_predict_offers_choices_of_its_own_task(capsys: pytest.CaptureFixture[str]) -> None:
    """Of relations embeddings are vectors, and neither frozen nor trained."""
    assert "--embeddings" in run(capsys, "predict", "sequences", "--help")
    assert "--embeddings" not in run(capsys, "predict", "relations", "--help")


@pytest.mark.slow
def test_plan_json(capsys: pytest.CaptureFixture[str]) -> None:
    ask = ("--items", "1000", "--seq-len", "32", "--n-heads", "2,4", "--law", "published:harma2024", "--json")
    found = json.loads(run(capsys, "plan", *ask))
    assert found == json.loads(run(capsys, "plan", "sequences", *ask))
    rows = found["architectures"]
    assert [row["n_heads"] for row in rows] == [4, 2]
    assert rows[0]["trainable_parameters"] < rows[1]["trainable_parameters"]
    assert all(row["at_least"] >= 1000 for row in rows)


def test_a_prediction_of_more_than_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ("--n-heads", "2", "--d-head", "8", "--n-layers", "1", "--d-model", "32")
    said = run(capsys, "predict", "--seq-len", "8", "--vocab-size", "100", *sizes)
    assert re.search(
        r"^holds about [\d.]+ kbit, those of [\d.]+ sequences; a new measurement falls between", said, re.M
    )
    said = run(capsys, "predict", "--seq-len", "2", "--vocab-size", "2", *sizes)
    assert re.search(r"^could hold about [\d.]+ kbit, more than all 2 sequences have$", said, re.M)


@pytest.mark.parametrize(("tables", "tied"), [("frozen", False), ("trained", True)])
def test_words_are_explained_where_they_stand(capsys: pytest.CaptureFixture[str], tables: str, tied: bool) -> None:
    said = run(capsys, "plan", "--items", "100", "--seq-len", "8", "--vocab-size", "100", "--embeddings", tables)
    assert ("tied: the token table" in said) is tied


@pytest.mark.slow
def test_a_plan_without_an_answer_has_a_code_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    ask = ("plan", "--items", "20000", "--seq-len", "8", "--law", "reference:power")
    shown, told = without_answer(capsys, *ask)
    assert "None that was tried holds them (the law's domain: " in shown
    assert "The nearest:" in shown
    assert "--extrapolate" in told
    assert json.loads(without_answer(capsys, *ask, "--json")[0])["architectures"] == []
    larger = json.loads(run(capsys, *ask, "--extrapolate", "--json"))["architectures"]
    assert larger
    assert all(row["d_model"] > 64 and row["at_least"] >= 20_000 for row in larger)
    far = ("--items", str(10**7), "--seq-len", "32", "--n-heads", "1", *ask[-2:], "--extrapolate")
    told = without_answer(capsys, "plan", *far)[1]
    assert "--extrapolate" not in told


@pytest.mark.parametrize(
    "ask",
    [
        ("predict", "relations", "--n-items", "100000", "--n-edges", "100000", "--d-model", "32"),
        ("plan", "associations", "--items", "300", "--context-size", "1000"),
    ],
)
def test_every_law_of_counts_asks_before_it_leaves_its_domain(
    capsys: pytest.CaptureFixture[str], ask: tuple[str, ...]
) -> None:
    assert "--extrapolate" in refused(capsys, *ask)


@pytest.mark.very_slow
def test_verified_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """A law of few epochs, so that the training is short: what it promises is checked, and the run is kept."""
    rows = pl.read_csv(STUDY).with_columns(max_epochs=pl.lit(40), restarts=pl.lit(1))
    rows.write_csv("short.csv")
    run(capsys, "fit", "--data", "short.csv", "--law", "power", "--out", "law.json")
    ask = (
        "plan",
        "--items",
        "40",
        "--seq-len",
        "8",
        "--law",
        "law.json",
        "--verify",
        "--workers",
        "1",
        "--store",
        "v.db",
    )
    shown = run(capsys, *ask)
    assert "Verified: it" in shown
    found = json.loads(run(capsys, *ask, "--json"))["verification"]
    assert found["held"] == (found["miss_percent"] == 0)
    assert found["measurement"]["library_size"] == 40
    assert capax.read("v.db")["key"].to_list() == [found["measurement"]["key"]]
    said = "it holds" if found["held"] else "it does not hold"
    assert said in shown


@pytest.mark.slow
def test_an_interval_without_an_upper_end(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ("--seq-len", "8", "--n-heads", "9", "--d-model", "16")
    ask = ("predict", *sizes, "--law", "reference:ecm", "--extrapolate")
    found = json.loads(run(capsys, *ask, "--json"))["interval"]
    assert found["high"] is None
    assert f"a new measurement falls above {found['low']:.4g} (no upper end) with" in run(capsys, *ask)


def test_rows_without_the_target_are_told_apart_from_luck(capsys: pytest.CaptureFixture[str]) -> None:
    rows = pl.read_csv(STUDY)
    with Store("s.db") as store:
        store.import_rows(rows, "a paper")
        store.import_rows(rows.head(8).drop("memorized_above_chance", "key"), "another")  # of one key rows count once
    notes = json.loads(run(capsys, "fit", "--store", "s.db", "--law", "power", "--json"))["notes"]
    assert "8 rows without a memorized_above_chance were left out" in notes
    assert "--target memorized counts such rows, too" in notes
    assert not any("not above chance" in note for note in notes)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("fit",), ["store", "no such file", "capax.db"]),
        (("fit", "--data", "none.csv"), ["data", "none.csv"]),
        (("fit", "--data", STUDY, "--law", "magic"), ["magic", "ecm"]),
        (("fit", "--data", STUDY, "--where", "heads=2"), ["where", "heads"]),
        (("fit", "--data", STUDY, "--where", "n_heads=9"), ["where", "n_heads=9"]),
        (("fit", "--data", STUDY, "--target", "d_model"), ["target: 'd_model' is both what is counted and an axis"]),
        (("fit", "--data", STUDY, "--law", "power", "--axes", "memorized_above_chance"), ["axes: ", "is both what"]),
        (("fit", "--data", STUDY, "--data", "published:morris2025"), ["n_heads: row 45: should be", "got nothing"]),
        (("predict", "--seq-len", "8", "--n-heads", "2", "--d-head", "8", "--size", "=4"), ["size: name=value", "=4"]),
        (
            ("predict", "--seq-len", "8", "--vocab-size", "9", "--n-layers", "1"),
            ["d_head, n_heads, d_model: are required"],
        ),
        (("fit", "--data", STUDY, "--target", "remembered"), ["target: no column 'remembered'; the table has"]),
        (("fit", "--data", STUDY, "--law", "power", "--axes", "a,d_model"), ["axes: no run has a column 'a'"]),
        (
            ("predict", "--law", "published:morris2025"),
            ["law: of published laws published:harma2024, got"],
        ),
        *(
            (("fit", "--data", "reference:grid", "--law", law, "--target", name), ["target: one of", allowed, name])
            for law, name, allowed in (
                ("bits", "capacity_bits", "memorized, memorized_above_chance, capacity_items for the law bits"),
                ("capacity", "memorized_above_chance", "capacity_reached for the law capacity"),
                ("power", "bits_per_parameter", "memorized"),
            )
        ),
        (("fit", "--data", STUDY, "--law", "power", "--method", "stages"), ["method", "ecm"]),
        (("fit", "--data", STUDY, "--method", "guess"), ["method", "guess"]),
        (("fit", "--data", STUDY, "--law", "power", "--degree", "3"), ["degree", "polynomial"]),
        (("fit", "--data", STUDY, "--law", "polynomial"), ["56 parameters", "44"]),
        (("fit", "--data", STUDY, "--law", "polynomial", "--degree", "0"), ["degree", "at least 1", "0"]),
        (("fit", "--data", STUDY, "--law", "power", "--level", "1.5"), ["level", "1.5"]),
        (("fit", "--data", STUDY, "--law", "power", "--out", "none/law.json"), ["out", "none/law.json"]),
        (("fit", "--data", STUDY, "--law", "power", "--figure", "p.png"), ["figure", "--compare"]),
        (("predict", "--d-model", "16", "--seq-len", "8", "--law", "reference:power"), ["n_heads"]),
        (
            ("predict", "--n-heads", "0", "--d-model", "16", "--seq-len", "8", "--law", "reference:power"),
            ["n_heads", "0", "at least 1"],
        ),
        (
            ("predict", "--n-heads", "1", "--d-model", "16", "--seq-len", "1", "--law", "reference:power"),
            ["seq_len", "1"],
        ),
        (
            (
                "predict",
                "--n-heads",
                "10",
                "--d-model",
                "16",
                "--seq-len",
                "8",
                "--extrapolate",
                "--law",
                "published:harma2024",
            ),
            ["changes sign"],
        ),
        (("predict", "--n-heads", "1", "--d-model", "16", "--seq-len", "8", "--law", "no.json"), ["law", "no.json"]),
        (("predict", "--n-heads", "1", "--d-model", "16", "--seq-len", "8", "--law", STUDY), ["not a law"]),
        (
            ("predict", "--n-heads", "1", "--d-model", "64", "--seq-len", "64", "--law", "published:harma2024:2"),
            ["not usable as published"],
        ),
        (("plan", "--seq-len", "8", "--law", "reference:power"), ["items"]),
        (("plan", "--items", "0", "--seq-len", "8", "--law", "reference:power"), ["items", "0"]),
        (
            ("plan", "--items", "9", "--seq-len", "8", "--law", "reference:power", "--n-heads", "1,two"),
            ["n_heads", "1,two"],
        ),
        (
            ("plan", "--items", "9", "--seq-len", "8", "--law", "reference:power", "--n-heads", "5"),
            ["n_heads 5", "1 to 4", "all the same (--extrapolate)"],
        ),
        (
            ("plan", "--items", "9", "--seq-len", "8", "--law", "reference:power", "--budget-parameters", "5"),
            ["budget_parameters", "5"],
        ),
        (
            ("plan", "--items", "9", "--seq-len", "8", "--law", "reference:power", "--probability", "0"),
            ["probability", "0"],
        ),
        (
            ("predict", "--seq-len", "8", "--n-layers", "1", "--d-model", "16", "--size", "d_model=24"),
            ["size: d_model once, got 16", "24"],
        ),
        (("plan", "--seq-len", "8", "--size", "n_heads=1", "--size", "n_heads=2,4"), ["size: n_heads once", "2,4"]),
        (("plan", "--items", "9", "--seq-len", "8", "--d-model", "16", "--size", "d_model=24"), ["d_model once"]),
        (
            ("plan", "--items", "40", "--seq-len", "8", "--exposures", "100", "--verify", "--json"),
            ["exposures: none where the plan is to be verified"],
        ),
        (
            ("plan", "--items", "40", "--seq-len", "8", "--target", "bytes", "--verify"),
            ["target: parameters where the plan is to be verified, got bytes"],
        ),
        (("plan", "--items", "40", "--seq-len", "8", "--seed", "3"), ["seed: only with --verify, got 3"]),
        (("plan", "--items", "40", "--seq-len", "8", "--workers", "1"), ["workers: only with --verify"]),
        (("plan", "--items", "40", "--seq-len", "8", "--store", "a.db"), ["store: only with --verify, got a.db"]),
        (("fit", "--data", STUDY, "--store", "a.db"), ["store: not with data"]),
        (("plan", "text"), ["law: of windows a file of capax fit --out is required, for none ships"]),
        (
            ("predict", "biographies", "--law", "reference:power"),
            ["law: one of people, or one in bits, such as reference, got 'reference:power', which is of sequences"],
        ),
        (
            ("fit", "--data", "reference:associations", "--law", "association", "--compare", "--degree", "3"),
            ["degree: only for polynomial, not association"],
        ),
        (("fit", "--data", STUDY, "--level", "1"), ["level: above 0 and below 1, got 1.0"]),
        (
            ("predict", "--seq-len", "8", "--law", "reference:power", "--exposures", "100"),
            ["exposures: only for laws in bits, such as capacity; power is none"],
        ),
    ],
)
def test_bad_input(capsys: pytest.CaptureFixture[str], arguments: tuple[str | Path, ...], said: list[str]) -> None:
    message = refused(capsys, *arguments)
    for part in said:
        assert part in message
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.slow
def test_imported_counts_are_fitted_beside_runs_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs have counts above chance, which imported rows lack: of these alone the counts themselves are meant."""
    monkeypatch.chdir(tmp_path)
    task, model = capax.Sequences(seq_len=4, library_size=20), capax.Transformer(d_model=8, d_head=4)
    capax.measure(task, model, capax.Training(max_epochs=1), restarts=1, store="s.db")
    shapes = [(heads, width, length) for heads in (1, 2, 4) for width in (8, 16, 32) for length in (8, 16)]
    rows = [f"{h},{d},{n},{20 * h * d // n},100" for h, d, n in shapes]
    Path("t.csv").write_text("\n".join(["n_heads,d_model,seq_len,memorized,vocab_size", *rows]))
    run(capsys, "runs", "import", "t.csv", "--store", "s.db")
    assert run(capsys, "fit", "--store", "s.db", "--where", f"source={tmp_path / 't.csv'}").startswith("power: 18 rows")


def test_a_choice_that_a_laws_data_do_not_say_cannot_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("predict", "--law", "published:harma2024", "--seq-len", "8", "--n-heads", "2", "--d-model", "32")
    assert refused(capsys, *asked, "--loss", "last").startswith("capax: loss: the law's data do not say theirs")


def test_a_size_is_asked_for_by_the_law_or_because_its_data_had_several(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "fit", "--data", str(STUDY), "--law", "power", "--axes", "d_model", "--out", "width.json")
    for arguments, why in (
        (("--law", "width.json", "--d-model", "16"), "seq_len: is required, as the law's data had several"),
        (("--law", "reference:power", "--d-model", "16"), "seq_len: is required, for the law depends on it"),
        (
            ("--law", "reference"),
            "seq_len, vocab_size: are required, for the law depends on them",
        ),
        (("--law", "/tmp", "--d-model", "16"), "law: a folder, not a file: /tmp"),
    ):
        assert refused(capsys, "predict", *arguments) == f"capax: {why}\n"
