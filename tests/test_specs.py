"""Specs and their keys: stable, complete, independent of paths, and refusing what cannot be in one line."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from capax.errors import CapaxError, SpecError
from capax.specs import LARGEST_LIBRARY, Mac, Mls, Run, Sequences, Shatter, Spec, Training, Transformer

BASE = Run(
    task=Sequences(seq_len=4, vocab_size=10, library_size=50),
    model=Transformer(n_heads=2, d_model=16, d_head=8),
    training=Training(lr=0.002, max_epochs=100),
    protocol=Mac(restarts=3),
    seed=7,
)
GOLDEN_JSON = (
    '{"model":{"activation":"gelu","d_head":8,"d_model":16,"d_value":null,"embeddings":"frozen","ffn":"mlp",'
    '"model":"transformer","n_heads":2,"n_layers":1,"norms":true,"positions":"trained","readout":"frozen",'
    '"skips":true},"protocol":{"protocol":"mac","restarts":3},"seed":7,"task":{"duplicates":"refuse",'
    '"library":"random","library_sha256":null,"library_size":50,"loss":"all","recall":"last","seq_len":4,'
    '"task":"sequences","vocab_size":10},"training":{"batch_size":512,"compile":false,"eval_every":1,"lr":0.002,'
    '"max_epochs":100,"min_loss_drop":0.01,"patience":30,"precision":"float32","time_limit":null}}'
)
GOLDEN_KEY = "ef36e993ec0479fb002586914f3f11cefac4626ee23805606788749dfa736eee"

OTHER: dict[type[Spec], dict[str, Any]] = {
    Sequences: {
        "seq_len": 5,
        "vocab_size": 11,
        "library": "all",
        "library_size": 51,
        "loss": "last",
        "recall": "all",
        "duplicates": "keep",
    },
    Transformer: {
        "n_layers": 2,
        "n_heads": 1,
        "n_kv_heads": 1,
        "window": 3,
        "stride": 4,
        "norm": "rms",
        "d_model": 17,
        "d_head": 9,
        "d_value": 8,
        "ffn": "none",
        "activation": "relu",
        "embeddings": "trained",
        "positions": "frozen",
        "readout": "trained",
        "norms": False,
        "skips": False,
    },
    Training: {
        "optimizer": "soap",
        "lr": 0.001,
        "gain_lr": 6.0,
        "beta1": 0.8,
        "beta2": 0.99,
        "schedule": "cosine",
        "warmup": 0.1,
        "batch_size": 511,
        "eval_every": 2,
        "eval_steps": 7,
        "patience": 31,
        "min_loss_drop": 0.02,
        "stop_when_complete": False,
        "max_epochs": 99,
        "min_steps": 1000,
        "max_steps": 500,
        "time_limit": 60.0,
        "precision": "float64",
        "compile": True,
    },
    Mac: {"restarts": 4},
    Mls: {"first_size": 17, "seeds": 9, "max_trainings": 97, "interval_width": 0.2},
    Shatter: {"trials": 7},
}
"""Another value for every field of every part of a run."""
CHOICES: dict[str, tuple[dict[str, Any], Any]] = {
    "attention": ({}, "linear"),
    "values": ({}, False),
    "gated": ({}, True),
    "n_experts": ({}, 2),
    "top_k": ({"n_experts": 3}, 2),
    "norm_place": ({}, "post"),
    "parallel": ({}, True),
    "dropout": ({}, 0.1),
}
"""Fields of a transformer that do not go with every other: another value, and what it goes with."""
PARTS = {Sequences: "task", Transformer: "model", Training: "training", Mac: "protocol", Mls: "protocol"}
PARTS |= {Shatter: "protocol"}
CHANGES = [pytest.param(part, field, id=f"{part.__name__}.{field}") for part in OTHER for field in OTHER[part]]


def with_part(part: type[Spec], value: Spec) -> Run:
    return BASE.replace(**{PARTS[part]: value})


def base_part(part: type[Spec]) -> Spec:
    present: Spec = getattr(BASE, PARTS[part])
    return present if isinstance(present, part) else part()


def refusal(spec: type[Spec], **fields: Any) -> str:
    """The one line with which a spec is refused."""
    with pytest.raises(CapaxError) as refused:
        spec(**fields)
    message = str(refused.value)
    assert "\n" not in message
    assert len(message) < 400
    return message


# the key


def test_the_key_of_a_spec_stays_what_it_was() -> None:
    """A change here makes every stored run unreadable by its key: it needs a new schema version, never a new number."""
    assert BASE.canonical_json() == GOLDEN_JSON
    assert BASE.key() == GOLDEN_KEY


def test_the_key_is_the_hash_of_the_canonical_json() -> None:
    fields = json.loads(BASE.canonical_json())
    again = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    assert again == BASE.canonical_json()
    assert BASE.key() == hashlib.sha256(again.encode()).hexdigest()


CYCLES = {"schedule": "cycles", "cycle_steps": 20}
ONLY_WITH: dict[str, tuple[dict[str, Any], Any]] = {
    "cycle_steps": (CYCLES, 10),
    "cycle_decay": (CYCLES, 0.9),
    "cycle_tolerance": (CYCLES, 0.1),
    "basis_beta": ({"optimizer": "soap"}, 0.9),
    "basis_every": ({"optimizer": "soap"}, 5),
    "best_by": ({"stop_when_complete": False}, "loss"),
}
"""Fields of a training that only some kind of training has, and another value of each."""


@pytest.mark.parametrize("field", ONLY_WITH)
def test_a_field_of_some_trainings_changes_their_key_and_is_refused_of_others(field: str) -> None:
    needed, value = ONLY_WITH[field]
    having = Training(**needed)
    changed = having.replace(**{field: value})
    assert BASE.replace(training=changed).key() != BASE.replace(training=having).key()
    with pytest.raises(SpecError, match=rf"^{field}: only with (\w+ '\w+'|\w+ false), got {value}$"):
        BASE.replace(training=Training(**{field: value}))


def test_the_best_of_cycles_is_by_bits_alone() -> None:
    with pytest.raises(SpecError, match=r"^best_by: not with schedule 'cycles', of which bits decide, got loss$"):
        BASE.replace(training=Training(**CYCLES, stop_when_complete=False, best_by="loss"))


@pytest.mark.parametrize("field", CHOICES)
def test_every_choice_of_a_transformer_changes_the_key(field: str) -> None:
    others, value = CHOICES[field]
    before = BASE.model.replace(**others)
    assert BASE.replace(model=before.replace(**{field: value})).key() != BASE.replace(model=before).key()


@pytest.mark.parametrize(("part", "field"), CHANGES)
def test_every_field_changes_the_key(part: type[Spec], field: str) -> None:
    one = base_part(part)
    if OTHER[part][field] == "all" and field == "library":
        one = Sequences(seq_len=4, vocab_size=10, library_size=1000)  # so that nothing but the field differs
    other = one.replace(**{field: OTHER[part][field]})
    assert getattr(one, field) != getattr(other, field)
    assert with_part(part, one).key() != with_part(part, other).key()


def test_the_fields_above_are_all_fields() -> None:
    kinds = {"task", "model", "protocol"}
    for part, fields in OTHER.items():
        elsewhere = {
            Sequences: {"library_sha256", "bos"},
            Training: set(ONLY_WITH),
            Transformer: set(CHOICES),
        }.get(part, set())
        assert fields.keys() == part.model_fields.keys() - kinds - elsewhere
    assert set(PARTS.values()) | {"seed"} == Run.model_fields.keys()


def test_seed_and_protocol_change_the_key() -> None:
    runs = [BASE, BASE.replace(seed=8), BASE.replace(protocol=Mls()), BASE.replace(protocol=Shatter())]
    assert len({run.key() for run in runs}) == len(runs)


def test_defaults_count_as_if_they_were_given() -> None:
    plain = Run(task=Sequences(), model=Transformer())
    spelled = Run(
        task=Sequences(seq_len=8, vocab_size=100, library="random", library_size=1000),
        model=Transformer(n_heads=1, d_value=None),
        training=Training(lr=1e-3),
        protocol=Mac(restarts=5),
        seed=0,
    )
    assert plain.key() == spelled.key()
    assert plain == spelled


def test_numbers_count_by_value() -> None:
    one = BASE.replace(training=Training(lr=1, time_limit=60))
    other = BASE.replace(training=Training(lr=1.0, time_limit=60.0))
    assert one.key() == other.key()


def file_run(path: Path, rows: list[list[int]]) -> Run:
    if path.suffix == ".npy":
        np.save(path, np.array(rows))
    else:
        path.write_text("\n".join(" ".join(map(str, row)) for row in rows))
    return Run(task=Sequences(library=str(path)), model=Transformer())


def test_a_file_counts_by_content_not_by_path(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    rows = [[1, 2, 3], [3, 2, 1]]
    same = [file_run(tmp_path / name, rows) for name in ("a.txt", "b.npy", "elsewhere/a.txt")]
    assert len({run.key() for run in same}) == 1
    assert str(tmp_path) not in same[0].canonical_json()
    changed = file_run(tmp_path / "a.txt", [[1, 2, 3], [3, 2, 0]])
    assert changed.key() != same[0].key()
    assert same[0].task.library == str(tmp_path / "a.txt")


def test_a_file_is_not_a_random_library_of_its_shape(tmp_path: Path) -> None:
    from_file = file_run(tmp_path / "a.txt", [[1, 2, 3], [3, 2, 1]])
    random = Run(task=Sequences(seq_len=3, vocab_size=4, library_size=2), model=Transformer())
    assert (from_file.task.seq_len, from_file.task.vocab_size, from_file.task.library_size) == (3, 4, 2)
    assert from_file.key() != random.key()


# the same thing in every form


def runs() -> st.SearchStrategy[Run]:
    def one_or_other(part: type[Spec]) -> st.SearchStrategy[dict[str, Any]]:
        fields = {name: value for name, value in OTHER[part].items() if name != "library"}
        return st.fixed_dictionaries({}, optional={name: st.just(value) for name, value in fields.items()})

    def build(task: Any, model: Any, training: Any, protocol: Any, seed: int) -> Run:
        sizes = {"seq_len": 4, "vocab_size": 10, "library_size": 50}
        if not model.get("norms", True):
            training.pop("gain_lr", None)  # which is refused, as are kinds of norms
            model.pop("norm", None)
        return Run(
            task=Sequences(**{**sizes, **task}),
            model=Transformer(**model),
            training=Training(**{"max_epochs": 98, **training}),
            protocol=protocol,
            seed=seed,
        )

    protocols = st.one_of(*(one_or_other(kind).map(lambda f, kind=kind: kind(**f)) for kind in (Mac, Mls, Shatter)))
    return st.builds(
        build,
        one_or_other(Sequences),
        one_or_other(Transformer),
        one_or_other(Training),
        protocols,
        st.integers(0, 2**63 - 1),
    )


@settings(derandomize=True, max_examples=60, deadline=None)
@given(runs())
def test_json_and_dictionaries_round_trip(run: Run) -> None:
    for again in (
        Run.model_validate_json(run.model_dump_json()),
        Run.model_validate(run.model_dump()),
        Run(**json.loads(run.canonical_json())),
        run.replace(),
    ):
        assert again == run
        assert type(again.protocol) is type(run.protocol)
        assert again.key() == run.key()


def test_round_trip_of_all_prefixes_and_of_a_file(tmp_path: Path) -> None:
    every = Run(task=Sequences(library="all", vocab_size=3, seq_len=4), model=Transformer())
    from_file = file_run(tmp_path / "a.txt", [[1, 2, 3], [3, 2, 1]])
    for run in every, from_file:
        again = Run.model_validate_json(run.model_dump_json())
        assert again == run
        assert again.key() == run.key()


# frozen, replaced


@pytest.mark.parametrize("spec", [BASE, BASE.task, BASE.model, BASE.training, BASE.protocol])
def test_frozen(spec: Spec) -> None:
    key = BASE.key()
    for name in type(spec).model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(spec, name, getattr(spec, name))
    assert BASE.key() == key


def test_equal_specs_are_one_in_a_set() -> None:
    assert len({BASE, BASE.replace(), Run.model_validate_json(BASE.model_dump_json())}) == 1


def test_replace_changes_only_what_it_names() -> None:
    changed = BASE.model.replace(n_layers=3)
    assert changed.n_layers == 3
    assert changed.replace(n_layers=1) == BASE.model
    assert BASE.model.n_layers == 1


def test_replace_validates() -> None:
    with pytest.raises(SpecError, match="n_layers"):
        BASE.model.replace(n_layers=0)
    with pytest.raises(SpecError, match="n_layer: unknown field"):
        BASE.model.replace(n_layer=2)


def test_replace_of_all_prefixes_counts_them_anew() -> None:
    every = Sequences(library="all", vocab_size=3, seq_len=4)
    assert every.library_size == 27
    assert every.replace(vocab_size=4).library_size == 64
    assert every.replace(seq_len=3).library_size == 9


def test_replace_reads_a_file_again(tmp_path: Path) -> None:
    task = file_run(tmp_path / "a.txt", [[1, 2, 3], [3, 2, 1]]).task
    assert task.replace(loss="last").library_sha256 == task.library_sha256
    with pytest.raises(CapaxError, match=r"^seq_len: .* has 3, got 4"):
        task.replace(seq_len=4)


def test_total_key_dimension() -> None:
    assert Transformer(n_heads=3, d_head=5).total_key_dim == 15


# what cannot be


@pytest.mark.parametrize(
    ("spec", "field", "value", "allowed"),
    [
        (Sequences, "seq_len", 1, "at least 2"),
        (Sequences, "vocab_size", 1, "at least 2"),
        (Sequences, "library_size", 0, "at least 1"),
        (Sequences, "library_size", 1.5, "integer"),
        (Sequences, "library_size", "many", "integer"),
        (Sequences, "loss", "first", "'all' or 'last'"),
        (Sequences, "recall", "some", "'last' or 'all'"),
        (Sequences, "duplicates", "drop", "'refuse' or 'keep'"),
        (Transformer, "n_layers", 0, "at least 1"),
        (Transformer, "n_heads", -1, "at least 1"),
        (Transformer, "d_model", 0, "at least 1"),
        (Transformer, "d_head", None, "integer"),
        (Transformer, "d_value", 0, "at least 1"),
        (Transformer, "ffn", "swiglu", "'mlp', 'identity' or 'none'"),
        (Transformer, "activation", "tanh", "'gelu', 'relu', 'silu', 'softmax' or 'rrelu'"),
        (Transformer, "embeddings", True, "no truth value"),
        (Transformer, "norms", "maybe", "boolean"),
        (Training, "lr", 0.0, "greater than 0"),
        (Training, "lr", -1e-3, "greater than 0"),
        (Training, "lr", math.nan, "finite number"),
        (Training, "lr", math.inf, "finite number"),
        (Training, "lr", "fast", "number"),
        (Training, "batch_size", 0, "at least 1"),
        (Training, "eval_every", 0, "at least 1"),
        (Training, "patience", 0, "at least 1"),
        (Training, "min_loss_drop", 1.0, "less than 1"),
        (Training, "min_loss_drop", -0.1, "at least 0"),
        (Training, "min_loss_drop", math.nan, "finite number"),
        (Training, "max_epochs", 0, "at least 1"),
        (Training, "time_limit", 0.0, "greater than 0"),
        (Training, "time_limit", math.inf, "finite number"),
        (Training, "precision", "float16", "'float32', 'float64', 'bfloat16' or 'tf32'"),
        (Mac, "restarts", 0, "at least 1"),
        (Mls, "first_size", 0, "at least 1"),
        (Mls, "seeds", 1, "at least 2"),
        (Mls, "max_trainings", 7, "at least 8"),
        (Mls, "interval_width", 1.0, "less than 1"),
        (Shatter, "trials", 1, "at least 2"),
    ],
)
def test_a_value_out_of_range_is_named_with_what_is_allowed(
    spec: type[Spec], field: str, value: object, allowed: str
) -> None:
    message = refusal(spec, **{field: value})
    assert message.startswith(f"{field}: ")
    assert allowed in message
    assert message.endswith(f"got {value!r}")


def test_a_truth_value_may_be_one_of_several_kinds() -> None:
    class Optional(Spec):
        strict: bool | None = None
        size: int | None = None

        @classmethod
        def refuse_unregistered(cls) -> None:
            """As those of plugins are, which are registered."""

    assert Optional(strict=True).strict is True
    assert refusal(Optional, size=True) == "size: should be no truth value, got True"


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_out_of_range(seed: int) -> None:
    assert refusal(Run, task=BASE.task, model=BASE.model, seed=seed).startswith("seed: ")


@pytest.mark.parametrize("spec", list(OTHER), ids=lambda spec: spec.__name__)
def test_an_unknown_field_is_named_with_those_that_exist(spec: type[Spec]) -> None:
    message = refusal(spec, n_head=2)
    assert message.startswith("n_head: unknown field")
    assert all(field in message for field in spec.model_fields)


def test_a_mistake_inside_a_part_names_its_field() -> None:
    task, model = {"task": "sequences"}, {"model": "transformer"}
    parts = {"task": task, "model": model}
    for wrong, field in (
        ({"model": {**model, "n_heads": 0}}, "model.n_heads"),
        ({"task": {**task, "seq_len": 1}}, "task.seq_len"),
        ({"model": {**model, "n_head": 2}}, "model.n_head"),
        ({"training": {"lr": 0}}, "training.lr"),
        ({"protocol": {"protocol": "mac", "restarts": 0}}, "protocol.restarts"),
    ):
        assert refusal(Run, **parts | wrong).startswith(f"{field}: ")
    assert "'mac', 'mls', 'shatter'" in refusal(Run, **parts, protocol={"protocol": "best"})
    unknown = refusal(Run, **{**parts, "task": {"task": "sequence"}})
    assert unknown.startswith("task: ")
    assert all(word in unknown for word in ("sequences", "associations", "relations", "'sequence'"))
    with pytest.raises(SpecError, match=r"^model\.n_heads: .* 0$"):
        Run.model_validate_json(json.dumps({**parts, "model": {**model, "n_heads": 0}}))


def test_parts_that_are_missing() -> None:
    assert refusal(Run, model=BASE.model) == "task: is required"
    assert refusal(Run, task=BASE.task) == "model: is required"


@pytest.mark.parametrize(("vocab_size", "seq_len"), [(2, 2), (10, 4), (100, 2)])
def test_more_items_than_prefixes_names_the_maximum(vocab_size: int, seq_len: int) -> None:
    most = vocab_size ** (seq_len - 1)
    assert Sequences(vocab_size=vocab_size, seq_len=seq_len, library_size=most).library_size == most
    message = refusal(Sequences, vocab_size=vocab_size, seq_len=seq_len, library_size=most + 1)
    assert message.startswith(f"library_size: at most {most} ")
    assert message.endswith(f" {most + 1}")


def test_another_size_than_that_of_all_prefixes() -> None:
    message = refusal(Sequences, library="all", vocab_size=3, seq_len=3, library_size=8)
    assert message.startswith("library_size: ")
    assert "9" in message
    assert message.endswith(" 8")
    assert Sequences(library="all", vocab_size=3, seq_len=3, library_size=9).library_size == 9


def test_a_library_that_no_memory_holds() -> None:
    message = refusal(Sequences, library_size=LARGEST_LIBRARY + 1)
    assert message.startswith(f"library_size: at most {LARGEST_LIBRARY} ")
    assert message.endswith(f" {LARGEST_LIBRARY + 1}")
    assert str(LARGEST_LIBRARY) in refusal(Sequences, library="all", vocab_size=100, seq_len=8)


def test_a_hash_without_a_file() -> None:
    message = refusal(Sequences, library_sha256="0" * 64)
    assert message.startswith("library_sha256: ")
    assert "'random'" in message


@pytest.mark.parametrize("protocol", [Mls(), Shatter()])
def test_a_search_redraws_its_library(protocol: Mls | Shatter, tmp_path: Path) -> None:
    from_file = file_run(tmp_path / "a.txt", [[1, 2, 3], [3, 2, 1]]).task
    for task in from_file, Sequences(library="all", vocab_size=3, seq_len=3):
        message = refusal(Run, task=task, model=Transformer(), protocol=protocol)
        assert message.startswith(f"protocol: {protocol.protocol!r} ")
        assert message.endswith(f"got {task.library!r}")
