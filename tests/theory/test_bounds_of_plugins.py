"""Bounds, checks and constructions of models and tasks that capax does not know beforehand."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import capax
from capax.cli import main
from capax.errors import SpecError
from capax.specs import Model, Task
from capax.theory.bounds.bound import TABLE, bound
from capax.theory.construct.construct import Constructed, Constructor, Report


@pytest.fixture(scope="module")
def plugins() -> Iterator[tuple[type[Any], type[Any]]]:
    """A subclass of ours, and a task of tokens; registered for as long as these tests run."""

    class Grouped(capax.Transformer):
        model: Literal["grouped"] = "grouped"  # type: ignore[assignment]
        n_kv_heads: int = 1

    class Table(Task):
        task: Literal["table"] = "table"  # type: ignore[assignment]
        n_keys: int = 12
        n_values: int = 5
        library_size: int = 12  # type: ignore[assignment]
        learner = capax.Transformer

        def guess_probability(self) -> float:
            return 1 / self.n_values

        def sizes(self) -> dict[str, int]:
            return {"vocab_size": self.n_keys + self.n_values, "context": 1}

        def tokens(self, size: int, generator: np.random.Generator) -> np.ndarray:
            values = self.n_keys + generator.integers(self.n_values, size=size)
            return np.stack([generator.permutation(self.n_keys)[:size], values], 1)

    yield Grouped, Table
    del Model.registry["grouped"], Task.registry["table"]


def test_bounds_do_not_assume_that_another_attention_is_ours(plugins: tuple[type[Any], type[Any]]) -> None:
    grouped, _ = plugins
    ours = capax.bounds(capax.Transformer(n_heads=4, n_kv_heads=2), seq_len=8, vocab_size=50)
    found = capax.bounds(grouped(n_heads=4, n_kv_heads=2), seq_len=8, vocab_size=50)
    assert [one.name for one in found.bounds] == [one.name for one in ours.bounds]
    for name in ("mahdavi2024", "dana2025", "parameter_limit", "real", "baum1988"):
        assert found[name].value is None
        assert "does not apply" in str(found[name].reason)
        assert "architecture" in str(found[name].reason)
    for name in ("stored_bits", "allenzhu2024", "perceptron", "madden2025_upper"):
        assert found[name].value == ours[name].value
    assert type(found).model_validate_json(found.model_dump_json()) == found


def test_bounds_of_a_task_of_tokens_follow_from_its_sizes(plugins: tuple[type[Any], type[Any]]) -> None:
    _, table = plugins
    found = capax.bounds(capax.Run(task=table(), model=capax.Transformer()))
    assert (found.sizes.seq_len, found.sizes.vocab_size, found.sizes.library_size) == (2, 17, 12)
    assert found.sizes.bits_per_item == pytest.approx(np.log2(5))
    assert found["mahdavi2024"].value is not None


def test_a_bound_that_somebody_declares_is_listed() -> None:
    said: dict[str, Any] = {"kind": "upper", "unit": "items", "criterion": "any", "scope": "model"}

    @bound(formula="P", source="a test", standing="derived", **said)
    def one_a_parameter(trainable: int) -> int:
        return trainable

    try:
        found = capax.bounds(capax.Transformer(), seq_len=8)
        assert found.bounds[-1].name == "one_a_parameter"
        assert found.bounds[-1].value == found.parameters.trainable
    finally:
        del TABLE["one_a_parameter"]


def test_a_model_and_a_task_of_somebody_are_checked(plugins: tuple[type[Any], type[Any]]) -> None:
    grouped, table = plugins
    model = grouped(d_model=8, d_head=4)
    assert capax.check_model(model, capax.Sequences(seq_len=4, vocab_size=9, library_size=20)).failed == ()
    found = capax.check_model(model, table())
    assert (found.model, found.seq_len, found.vocab_size) == ("Grouped", 2, 17)
    assert [one.split(":")[0] for one in found.failed] == ["parameters are trained"]  # one token: nothing to attend to
    with pytest.raises(SpecError, match="task"):
        capax.check_model(capax.Transformer(), capax.Relations(n_items=4))


def test_constructions_take_task_and_model() -> None:
    task = capax.Associations(context_size=4)
    built = capax.construct(task, capax.AssociativeAttention(n_heads=2, d_model=8, d_head=4), seed=3)
    assert built.report.library_size == built.report.bound == built.report.recalled == 7
    assert built.report.model.d_value == built.weights.value.shape[2]
    again = capax.construct(task, capax.AssociativeAttention(n_heads=2, d_model=8, d_head=4), seed=3)
    assert again.report == built.report
    channel = capax.construct(capax.Relations(n_items=20), capax.KeyQueryChannel(d_model=16), seed=1, bits=8)
    assert channel.report.f1 >= 0.99
    assert channel.report.bits == 8
    onehot = capax.construct(capax.Relations(n_items=20, embeddings="onehot"), method="onehot")
    assert (onehot.report.model.d_model, onehot.report.n_heads) == (20, 1)


class Rows(Report):
    """What a table built by hand reaches."""

    n_rows: int
    seed: int

    def lines(self) -> list[str]:
        return [f"{self.n_rows} rows, seed {self.seed}"]


class Matrix:
    """Weights that are one matrix."""

    def save(self, path: Path) -> None:
        path.write_bytes(b"")


def _build_rows(task: Any, model: Any, seed: int, *, extra: int = 0) -> Constructed:
    """Build a table.

    Args:
        extra: Rows that nothing is in.
    """
    return Constructed(Matrix(), Rows(n_rows=task.library_size + extra, seed=seed), Matrix())


ROWS = Constructor(_build_rows, fields=("library_size",), sizes=("d_model",))


def test_a_task_of_somebody_brings_its_construction(
    plugins: tuple[type[Any], type[Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, table = plugins
    monkeypatch.setattr(table, "constructor", f"{__name__}:ROWS")
    assert capax.construct(table(library_size=7), seed=2, extra=3).report == Rows(n_rows=10, seed=2)
    with pytest.raises(SpecError, match=r"bits.*extra"):
        capax.construct(table(), bits=3)
    with pytest.raises(SpecError, match="n_heads"):
        capax.construct(table(), capax.Transformer(n_heads=2))
    with pytest.raises(SystemExit) as ended:
        main(["construct", "table", "--library-size", "4", "--extra", "1", "--seed", "9", "--json"])
    assert ended.value.code == 0
    assert Rows.model_validate_json(capsys.readouterr().out) == Rows(n_rows=5, seed=9)


@pytest.mark.parametrize(
    ("task", "model", "options", "field"),
    [
        (capax.Sequences(), None, {}, "task"),
        (capax.Associations(), capax.KeyQueryChannel(), {}, "model"),
        (capax.Associations(), capax.AssociativeAttention(profile="mahdavi2024"), {}, "profile"),
        (capax.Relations(n_items=4), capax.KeyQueryChannel(channel="softmax"), {}, "channel"),
        (capax.Relations(n_items=4), None, {"dtype": "float32"}, "dtype"),
        (capax.Relations(n_items=4), None, {"seed": -1}, "seed"),
    ],
)
def test_constructions_refuse(task: Task, model: Model | None, options: dict[str, Any], field: str) -> None:
    with pytest.raises(SpecError, match=field):
        capax.construct(task, model, **options)
