"""Numbers that were wrong without a word: what is no spec, no integer, no law is refused, and chance is what it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import capax
from capax.cli import main
from capax.errors import CapaxError, SpecError
from capax.laws.files import from_json, load_law, to_json
from capax.planning.associations import plan_associations
from capax.planning.relations import predict_relations
from capax.specs import Spec
from capax.sweeps.executors import Processes

SMALL = capax.Sequences(seq_len=4, vocab_size=8, library_size=20)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that ends with code 2."""
    with pytest.raises(SystemExit) as exit_:
        main(list(arguments))
    out, err = capsys.readouterr()
    assert (exit_.value.code, out) == (2, ""), err
    assert err.startswith("capax: ")
    assert err.count("\n") == 1
    return err


# A subclass of a spec was trained, and stored, as the spec that it is made from


@pytest.mark.parametrize(
    "base",
    [
        *(capax.Sequences, capax.Associations, capax.Relations, capax.Transformer, capax.AssociativeAttention),
        *(capax.KeyQueryChannel, capax.Module, capax.Training, capax.Mac, capax.Mls, capax.Shatter, capax.Budget),
        capax.Run,
    ],
)
def test_a_subclass_of_a_spec_is_refused(base: type[Spec]) -> None:
    class Other(base):  # type: ignore[misc, valid-type]
        n_kv_heads: int = 1

    with pytest.raises(SpecError, match=f"^Other: a subclass of {base.__name__} that is not registered"):
        Other(n_kv_heads=2)


def test_a_subclass_that_names_itself_is_refused_too() -> None:
    class GQA(capax.Transformer):
        model: Any = "gqa"

    for made in (GQA, lambda: GQA.model_validate({}), lambda: GQA.model_validate_json("{}")):
        with pytest.raises(SpecError, match=r"^GQA: a subclass of Transformer"):
            made()


# Fractions were rounded


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("measure sequences --restarts 1.5", "restarts: should be an integer, got '1.5'"),
        ("measure sequences --seed 1.5", "seed: should be an integer, got '1.5'"),
        ("measure sequences --batch-size 1.5e1", "batch_size: should be an integer, got '1.5e1'"),
        ("measure sequences --workers 1.5", "workers: should be an integer, got '1.5'"),
        ("measure associations --n-classes 2.5", "n_classes: should be an integer, got '2.5'"),
        ("measure relations --n-items 12.5", "n_items: should be an integer, got '12.5'"),
        ("measure relations --n-items 12 --n-heads 1.5", "n_heads: integers separated by commas, got '1.5'"),
        ("predict --n-heads 1.6 --d-model 32 --seq-len 8", "n_heads: should be an integer, got '1.6'"),
        ("plan --sequences 100.7 --seq-len 8", "sequences: should be an integer, got '100.7'"),
        ("plan --sequences 100 --seq-len 8 --n-heads 1.5,2", "n_heads: integers separated by commas, got '1.5,2'"),
        ("fit --data reference --law polynomial --degree 2.5", "degree: should be an integer, got '2.5'"),
        ("sweep none.toml --workers 1.5", "workers: should be an integer, got '1.5'"),
        ("bounds --n-heads 1.5", "n_heads: should be an integer, got '1.5'"),
        ("probe abc --trials 9.9", "trials: should be an integer, got '9.9'"),
    ],
)
def test_a_flag_takes_no_fraction_for_an_integer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refused(capsys, *arguments.split())
    assert not list(tmp_path.iterdir())


def test_a_flag_takes_a_fraction_that_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    answers = []
    for heads in ("2", "2.0", "+2.00"):
        with pytest.raises(SystemExit):
            main(["predict", "--n-heads", heads, "--d-model", "32", "--seq-len", "8", "--json"])
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0] == answers[1] == answers[2]
    large = "9007199254740993.0"  # no float
    assert "got 9007199254740993" in refused(
        capsys, "predict", "--n-heads", "2", "--d-model", "32", "--seq-len", "8", "--vocab-size", large
    )


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: capax.plan(100.7, 8), "sequences: should be a whole number, got 100.7"),  # type: ignore[arg-type]
        (lambda: capax.plan(100, 8.5), "seq_len: should be a whole number, got 8.5"),  # type: ignore[arg-type]
        (lambda: capax.plan(100, 8, n_heads=[1.5]), "n_heads: should be a whole number, got 1.5"),  # type: ignore[list-item]
        (lambda: capax.plan(float("inf"), 8), "sequences: should be a whole number, got inf"),  # type: ignore[arg-type]
        (lambda: capax.plan(True, 8), "sequences: should be a whole number, got True"),
        (
            lambda: capax.predict(load_law(), capax.Transformer(), 8.5),  # type: ignore[arg-type]
            "seq_len: should be a whole number, got 8.5",
        ),
        (lambda: plan_associations(9.5, 8), "associations: should be a whole number, got 9.5"),  # type: ignore[arg-type]
        (
            lambda: predict_relations(load_law("reference:relation"), 99.5, 32),  # type: ignore[arg-type]
            "n_edges: should be a whole number, got 99.5",
        ),
        (lambda: capax.Transformer(n_heads=1.6), "n_heads: "),  # type: ignore[arg-type]
        (lambda: capax.Transformer(n_heads=True), "n_heads: should be no truth value, got True"),
        (lambda: capax.Run.model_validate_json(_run(seed=1.5)), "seed: "),
        (lambda: capax.Run.model_validate_json(_run(seed=True)), "seed: should be no truth value, got True"),
        (lambda: Processes(1.5), "workers: should be a whole number, got 1.5"),  # type: ignore[arg-type]
        (lambda: capax.measure(SMALL, capax.Transformer(), restarts=1.5), "restarts: "),  # type: ignore[arg-type]
    ],
)
def test_a_fraction_is_no_integer_in_python(call: Any, said: str) -> None:
    with pytest.raises(CapaxError) as error:
        call()
    assert str(error.value).startswith(said)


def _run(**fields: Any) -> str:
    return json.dumps(capax.Run(task=SMALL, model=capax.Transformer()).model_dump(mode="json") | fields)


@pytest.mark.parametrize("field", ["restarts = 1.5", "restarts = true"])
def test_a_fraction_is_no_integer_in_a_study(tmp_path: Path, field: str) -> None:
    (tmp_path / "s.toml").write_text(f"[task]\nlibrary_size = 20\n[protocol]\n{field}\n")
    with pytest.raises(SpecError, match=r"s\.toml: restarts: "):
        next(iter(capax.sweep(tmp_path / "s.toml", tmp_path / "s.db")))


# A law that is none said "between nan and nan", or a range upside down

NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("sigma", value) for value in (NAN, -0.1, 0.0, INFINITE)),
        *(("deviance", value) for value in (NAN, -1.0)),
        ("dof", -1),
        ("dof", 1.5),
        *(("values.k", value) for value in (NAN, INFINITE)),
        ("held", {"z": [1.0, "?"]}),
        ("undetermined", {"z": "?"}),
        ("draws.3.4", NAN),
        ("draws.3.4", -0.2),
        ("draws.3.0", NAN),
        ("draws", []),
        ("domain.ranges.d_model", [64, 16]),
        ("domain.ranges.d_model", [NAN, 64]),
        ("domain.ranges.d_model", [16, INFINITE]),
        ("domain.ranges", {"seq_len": [8, 32], "n_heads": [1, 4]}),
        ("domain.largest_library", NAN),
        ("columns", {"seq_len": [8.0]}),
        ("counts.0", NAN),
        ("counts.0", INFINITE),
        ("library", [2000.0]),
        ("options.n_bootstrap", 1.5),
        ("options.target", None),
    ],
)
def test_a_law_of_impossible_numbers_is_refused(tmp_path: Path, field: str, value: Any) -> None:
    file = json.loads(to_json(load_law()))
    *parents, last = (int(name) if name.isdecimal() else name for name in field.split("."))
    place: Any = file
    for name in parents:
        place = place[name]
    place[last] = value
    (tmp_path / "law.json").write_text(json.dumps(file))
    with pytest.raises(CapaxError) as error:
        load_law(tmp_path / "law.json")
    line = str(error.value)
    assert line.startswith(f"law: {tmp_path / 'law.json'} is not a law: {field.split('.')[0]}")
    assert len(line) < 300 + len(str(tmp_path))


def test_laws_with_infinite_parameters_that_say_something_are_kept() -> None:
    """The capacity model of the reference study has an exponent that is infinite, and finite counts."""
    law = load_law("reference:ecm")
    assert to_json(from_json(to_json(law))) == to_json(law)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"law":' * 100_000, "null", "\x00"])
def test_a_law_that_is_nested_without_end_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "law.json").write_text(text)
    with pytest.raises(CapaxError, match="not a law"):
        load_law(tmp_path / "law.json")


def test_a_link_to_itself_is_no_law(tmp_path: Path) -> None:
    (tmp_path / "law.json").symlink_to(tmp_path / "law.json")
    with pytest.raises(CapaxError, match=r"^law: a JSON file"):
        load_law(tmp_path / "law.json")


@pytest.mark.parametrize("value", ["many", NAN, 1.5, 10**30])
def test_a_law_whose_protocol_cannot_be_is_refused_when_it_is_asked(tmp_path: Path, value: Any) -> None:
    file = json.loads(to_json(load_law()))
    file["domain"]["protocol"]["vocab_size"] = value
    (tmp_path / "law.json").write_text(json.dumps(file))
    with pytest.raises(CapaxError, match="vocab_size"):
        capax.plan(100, 8, law=str(tmp_path / "law.json"))


def test_a_domain_without_end_is_not_written_out(tmp_path: Path) -> None:
    file = json.loads(to_json(load_law()))
    file["domain"]["ranges"]["n_heads"] = [1, 1e12]
    (tmp_path / "law.json").write_text(json.dumps(file))
    with pytest.raises(CapaxError, match=r"n_heads: 1 to 1e\+12 are too many"):
        capax.plan(100, 8, law=str(tmp_path / "law.json"))
