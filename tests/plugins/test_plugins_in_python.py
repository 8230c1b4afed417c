"""A task and a model from files of a user's, by everything that Python offers."""

from __future__ import annotations

import hashlib
import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import polars as pl
import pytest

import capax
from capax.errors import SpecError
from capax.results import Measurement
from capax.specs import Run, plugins
from capax.store import tables
from capax.sweeps.executors import Processes
from capax.testing.trained import recalled

FOLDER = Path(__file__).parents[2] / "examples" / "plugins"
SHORT = capax.Training(max_epochs=40, lr=0.02)
LETTERS = capax.Sequences(seq_len=4, vocab_size=6, library_size=40)
PROTOCOLS = {
    "mac": capax.Mac(restarts=2),
    "mls": capax.Mls(first_size=4, seeds=4, max_trainings=16),
    "shatter": capax.Shatter(trials=3),
}


@pytest.fixture(scope="module")
def made(ours: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A store with a kept memory of each kind, and with a study over the variant's own field."""
    store = tmp_path_factory.mktemp("plugins") / "s.db"
    pairs = ours.Pairs(n_keys=20, n_values=5, library_size=12)
    small = ours.GQA(n_heads=4, n_kv_heads=2, d_model=8, d_head=4)
    kept = {
        task.task: capax.measure(task, small, SHORT, restarts=2, store=store, keep_weights=True)
        for task in (pairs, LETTERS)
    }
    return SimpleNamespace(store=store, pairs=pairs, small=small, kept=kept)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("task", ["pairs", "sequences"])
def test_it_is_measured_by_every_protocol(task: str, protocol: str, made: SimpleNamespace) -> None:
    chosen = made.pairs if task == "pairs" else LETTERS
    found = capax.measure(chosen, made.small, SHORT, protocol=PROTOCOLS[protocol], device="cpu")
    assert found.spec.model == made.small
    assert found.parameters.trainable == made.small.parameter_counts(**chosen.sizes())["trainable"]
    assert Measurement.model_validate_json(found.model_dump_json()) == found


@pytest.mark.slow
def test_its_bits_are_those_of_its_items_and_its_library_grows_as_far_as_it_can(ours: SimpleNamespace) -> None:
    """Seven keys of one bit each: that a value is none of the keys is no bit."""
    task, trained = ours.Pairs(n_keys=7, n_values=2, library_size=4), capax.Training(max_steps=700)
    found = capax.measure(task, capax.Transformer(d_model=16, d_head=8), trained, protocol=capax.Capacity(restarts=2))
    assert found.capacity is not None
    assert found.capacity.library_sizes == (4, 7)
    assert 6.5 < found.capacity.bits <= found.capacity.library_bits == 7
    strict = type("StrictPairs", (ours.Pairs,), {"__annotations__": {"task": Literal["strict"]}, "task": "strict"})
    strict.largest_library = property(lambda self: 10**6)  # its validator alone refuses more pairs than keys
    try:
        other = capax.measure(
            strict(**task.model_dump(exclude={"task"})), found.spec.model, trained, protocol="capacity"
        )
        assert other.capacity is not None
        assert other.capacity.library_sizes == (4,)
        assert any("no larger one was trained" in note for note in other.notes)
    finally:
        del capax.Task.registry["strict"]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["pairs", "sequences"])
def test_a_kept_memory_is_loaded_and_asked(task: str, made: SimpleNamespace) -> None:
    assert recalled(made.kept[task], made.store) == made.kept[task].memorized


@pytest.mark.slow
@pytest.mark.parametrize("task", ["pairs", "sequences"])
def test_it_is_probed(task: str, made: SimpleNamespace) -> None:
    found = capax.probe(capax.load(made.kept[task].key, made.store), trials=20)
    assert found.recalled == made.kept[task].memorized
    assert len(found.ablation.heads) == 4


@pytest.mark.parametrize("task", ["pairs", "sequences"])
def test_every_measurement_is_below_the_bounds(task: str, made: SimpleNamespace) -> None:
    assert capax.exceeded(made.kept[task]) == ()


def test_tables_have_its_fields(made: SimpleNamespace) -> None:
    table = capax.read(made.store)
    assert set(table["model"]) == {"gqa"}
    assert set(table["n_kv_heads"]) == {2}
    of_pairs = table.filter(pl.col("task") == "pairs")
    assert of_pairs["n_keys"].to_list() == [20]
    assert tables.where(table, ["n_kv_heads=2", "task=pairs"]).height == 1


@pytest.mark.very_slow
def test_a_sweep_of_it_is_resumed(ours: SimpleNamespace, tmp_path: Path) -> None:
    """Its first run is found in the store; the rest is measured by a process that has to find the file."""
    study = tmp_path / "study.toml"
    study.write_text(
        'store = "s.db"\n[task]\ntask = "pairs"\nn_keys = 20\nn_values = 5\nlibrary_size = 12\n'
        '[model]\nmodel = "gqa"\nn_heads = 4\nd_head = 4\n[training]\nmax_epochs = 2\n[protocol]\nrestarts = 2\n'
        "[grid]\nn_kv_heads = [1, 2]\nd_model = [4, 8]\n"
    )
    first = capax.sweep(study, workers=1, device="cpu")
    next(first)
    first.close()
    with Processes(1) as executor:
        swept = list(capax.sweep(study, executor=executor, device="cpu"))
    with capax.Store(tmp_path / "s.db") as store:
        models: set[Any] = {run.spec.model for run in store.runs()}
    last = swept[-1].spec
    here = capax.measure(last.task, last.model, last.training, restarts=2, device="cpu")
    assert swept[-1].members == here.members
    assert {(model.n_kv_heads, model.d_model) for model in models} == {(1, 4), (1, 8), (2, 4), (2, 8)}


def test_a_check_takes_it(made: SimpleNamespace) -> None:
    found = capax.check_model(made.small, LETTERS)
    assert all(check.verdict != "failed" for check in found.checks)


@pytest.mark.slow
def test_a_sensitivity_study_takes_it(made: SimpleNamespace) -> None:
    found = capax.sensitivity(made.pairs, made.small, SHORT, choices={"lr": (0.01,)}, restarts=2, device="cpu")
    assert found.spec.model == made.small
    assert len(found.choices) == 1


@pytest.mark.very_slow
def test_a_power_law_over_its_own_field_plans(ours: SimpleNamespace, tmp_path: Path) -> None:
    letters = LETTERS.replace(library_size=150)
    models = [
        ours.GQA(n_heads=4, n_kv_heads=groups, d_model=width, d_head=4) for groups in (1, 2, 4) for width in (4, 6, 8)
    ]
    options = {"training": SHORT, "protocol": capax.Mac(restarts=2)}
    runs = [capax.Run(task=letters, model=model, **options) for model in models]
    found = list(capax.sweep(runs, tmp_path / "s.db", workers=1, device="cpu"))
    law = capax.PowerLaw(axes=["n_kv_heads", "d_model"], target="memorized", n_bootstrap=50).fit(
        capax.read(tmp_path / "s.db")
    )
    assert "n_kv_heads" in law.names
    assert capax.predict(law, n_kv_heads=2, d_model=4).value > 0
    plan = capax.plan(law, 30, probability=0.5, multiple=1)
    assert {row.n_kv_heads for row in plan.architectures} <= {1, 2, 4}
    assert capax.verify_plan(law, plan).measurement.spec.model.columns()["model"] == "gqa"
    for kind in "width", "curves":
        capax.figure(kind, found, out=tmp_path / f"{kind}.png")
        assert (tmp_path / f"{kind}.png").stat().st_size > 1000


def test_a_tag_of_ours_cannot_be_taken_by_a_class_of_the_same_name() -> None:
    with pytest.raises(SpecError, match=r"tag 'sequences' of .*Sequences is that of capax.specs.sequences.Sequences"):
        type(
            "Sequences",
            (capax.Task,),
            {"__module__": __name__, "__qualname__": "Sequences"}
            | {"__annotations__": {"task": Literal["sequences"]}, "task": "sequences"},
        )
    assert capax.Task.registry["sequences"] is capax.Sequences


def test_the_file_of_a_plugin_can_be_imported(ours: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one process with what `--plugin` loaded; its runs keep their keys."""
    monkeypatch.setitem(capax.Task.registry, "pairs", ours.Pairs)
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.delitem(sys.modules, "pairs", raising=False)

    def key(kind: Any) -> str:
        task = kind(n_keys=20, n_values=5, library_size=12)
        return Run(task=task, model=capax.Transformer(d_model=8)).key()

    before = key(ours.Pairs)
    imported = importlib.import_module("pairs").Pairs
    assert imported is not ours.Pairs
    after = key(imported)
    del sys.modules["pairs"]
    assert after == before


def test_the_file_that_defines_a_task_is_part_of_its_runs_keys(tmp_path: Path) -> None:
    """Another file with a task of equal fields may draw other items."""
    text = (FOLDER / "pairs.py").read_text()
    keys = []
    for number, name in enumerate(("one", "two")):
        path = tmp_path / f"pairs_{name}.py"
        path.write_text(
            text.replace("class Pairs(", f"class Pairs{number}(").replace('"pairs"', f'"pairs{number}"') + f"# {name}"
        )
        plugins.load_file(path)
        task = capax.Task.registry.find(f"pairs{number}")(n_keys=9, n_values=3, library_size=5)
        said = capax.Run(task=task, model=capax.Transformer()).canonical_json()
        assert hashlib.sha256(path.read_bytes()).hexdigest() in said
        keys.append(said.replace(f"pairs{number}", "pairs"))
    assert keys[0] != keys[1]
    assert "source_sha256" not in capax.Run(task=capax.Sequences(), model=capax.Transformer()).canonical_json()


@pytest.mark.parametrize(
    ("of", "instead", "said"),
    [
        ('"context": 1}', "}", r"sizes\(\) should give vocab_size and context"),
        ('"context": 1}', '"context": 1.5}', r"sizes\(\): context: should be a whole number, got 1\.5"),
        ("keys = generator.permutation(self.n_keys)[:size]", "keys = [][1]", r"tokens\(\) failed \(IndexError"),
        ("keys = generator.permutation", "keys = np.random.permutation", "draw from its generator alone"),
        ("return 1 / self.n_values", "return 2.0", r"guess_probability\(\): above 0 and at most 1, got 2\.0"),
        ("return 1 / self.n_values", "return float('nan')", r"guess_probability\(\): above 0 and at most 1, got nan"),
        ("return 1 / self.n_values", "return 1 / 0", r"guess_probability\(\) failed \(ZeroDivisionError"),
        (
            'unit: ClassVar[str] = "pairs"',
            'library_class: ClassVar[str] = "nowhere:Library"',
            r"library_class: package\.module:Class that can be imported .* got 'nowhere:Library'",
        ),
        (
            "return 1 / self.n_values",
            "return None",
            "a probability, or it needs its own lucky and bits_per",
        ),
    ],
)
def test_a_faulty_task_is_refused_before_anything_is_trained(of: str, instead: str, said: str, tmp_path: Path) -> None:
    text, tag = (FOLDER / "pairs.py").read_text(), f"faulty{hashlib.sha256(instead.encode()).hexdigest()[:8]}"
    assert of in text
    path = tmp_path / f"{tag}.py"
    path.write_text(text.replace(of, instead).replace("class Pairs(", f"class {tag}(").replace('"pairs"', f'"{tag}"'))
    plugins.load_file(path)
    task = capax.Task.registry.pop(tag)
    capax.Task.registry[tag] = task
    try:
        with pytest.raises(SpecError, match=said):
            capax.measure(task(n_keys=9, n_values=3, library_size=5), capax.Transformer(d_model=8), restarts=1)
    finally:
        del capax.Task.registry[tag]
