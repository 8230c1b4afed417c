"""A user's modules as an ensemble: the same numbers as one by one, members that never mix, and clear refusals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from reference import assert_same, random_tokens, randomized

import capax
from capax import devices
from capax.errors import CapaxError, SpecError
from capax.models import factory
from capax.models.factory import ModuleError
from capax.models.module import ModuleEnsemble, reported
from capax.models.module_traits import traits
from capax.specs import Module, Run, Sequences, Training, Transformer
from capax.store import table_files, tables
from capax.store.schema import Summary
from capax.sweeps.grid import read_study
from capax.testing import trained
from capax.training.loop import Course, train
from capax.training.pack import Pack
from capax.training.prepare import prepare

TASK = Sequences(seq_len=5, vocab_size=12, library_size=20)
SPEC = {"n_heads": 2, "d_model": 8, "d_head": 4, "n_layers": 2}


def module(name: str, **arguments: Any) -> Module:
    return Module(factory=f"usermodels:{name}", arguments=arguments)


def pack(members: Sequence[int], model: Module, task: Sequences = TASK, **training: Any) -> Pack:
    return trained.pack(task, model, Training(**({"max_epochs": 2, "batch_size": 8} | training)), members)


@pytest.mark.parametrize("together", [True, False])
def test_our_transformer_as_a_module_gives_its_scores_and_gradients(together: bool) -> None:
    ours = randomized(Transformer(**SPEC), vocab_size=12, context=4, members=3, seed=1)
    named = {name.replace(".", "/"): p for name, p in ours.parameters.items()}
    leaves = {name: p.detach().clone().requires_grad_(p.requires_grad) for name, p in named.items()}
    spec = module("Plain", **SPEC)
    template = spec.torch_module(TASK.sizes(), 0).double()
    theirs = ModuleEnsemble(spec, leaves, template, together)
    assert theirs.parameter_counts() == ours.parameter_counts()
    tokens = random_tokens(3, 6, 4, 12, seed=2)
    expected, received = ours.logits(tokens), theirs.logits(tokens, training=True)
    assert_same(received, expected, 1e-10, "scores")
    assert_same(theirs.logits(tokens, "last"), ours.logits(tokens, "last"), 1e-10, "scores of the last")
    for which, scores in ((ours, expected), (theirs, received)):
        scores.square().sum().backward()
        assert which.n_members == 3
    for name, p in ours.trainable.items():
        assert_same(leaves[name.replace(".", "/")].grad, p.grad, 1e-10, name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "together"),
    [
        (module("Torch", n_layers=2), True),
        (module("Torch", dropout=0.2), False),
        (module("x_transformers"), True),
        (module("Recurrent"), False),
        (module("Bag", fault="data dependent"), False),
    ],
    ids=lambda value: value.name if isinstance(value, Module) else "",
)
def test_a_member_is_the_same_bit_for_bit_in_any_pack(model: Module, together: bool) -> None:
    found = traits(model, TASK.sizes())
    assert found.together is together, found.computed
    joined = train(pack(range(3), model))
    for member, outcome in enumerate(joined):
        apart = train(pack([member, 5], model))[0]
        assert apart.curve == outcome.curve
        assert apart.weights is not None
        assert outcome.weights is not None
        assert all(torch.equal(apart.weights[name], outcome.weights[name]) for name in apart.weights)
    first, second = joined[0].weights, joined[1].weights
    assert first is not None
    assert second is not None
    assert any(not torch.equal(first[name], second[name]) for name in first)
    assert joined[0].notes == (f"module: {found.computed}",)


def test_the_reason_for_one_by_one_is_told() -> None:
    found = traits(module("Recurrent"), TASK.sizes())
    assert found.computed.startswith("members one by one (torch.vmap: RuntimeError: Batching rule not implemented")
    assert "(it draws random numbers" in traits(module("Torch", dropout=0.2), TASK.sizes()).computed
    assert "torch.vmap" in traits(module("Bag", fault="data dependent"), TASK.sizes()).computed
    counts = traits(module("Bag", fault="counts"), TASK.sizes()).computed
    assert counts == "members one by one (torch.vmap has no rule for aten::histc)"


@pytest.mark.parametrize("training", [True, False])
def test_together_is_one_by_one(training: bool) -> None:
    spec = module("Torch", n_layers=2)
    generators = [torch.Generator().manual_seed(seed) for seed in range(3)]
    sizes = {"vocab_size": 12, "context": 4}
    tokens = random_tokens(3, 6, 4, 12, seed=2)
    found = []
    for together in (True, False):
        ensemble = ModuleEnsemble.initialize(spec, sizes, generators=generators, together=together, dtype=torch.float64)
        scores = ensemble.logits(tokens, training=training)
        scores.square().sum().backward()
        found.append([scores.detach(), *(p.grad for p in ensemble.trainable.values())])
    largest = max(float(part.abs().max()) for part in found[1])
    for one, other in zip(*found, strict=True):
        assert float((one - other).abs().max()) <= 1e-10 * largest


def test_frozen_parameters_and_buffers_stay() -> None:
    learner = prepare(pack([0, 1], module("Bag", fault="frozen")))
    before = {name: p.detach().clone() for name, p in learner.ensemble.parameters.items()}
    for _ in range(3):
        learner.step()
    changed = {n for n, p in learner.ensemble.parameters.items() if not torch.equal(p, before[n])}
    assert changed == {"positions", "readout.weight", "readout.bias"}
    assert learner.ensemble.parameter_counts() == {"trainable": 4 * 8 + 12 * 9, "total": 4 * 8 + 12 * 9 + 12 * 8}
    counts = prepare(pack([0], module("Torch"))).ensemble.parameter_counts()
    assert counts["trainable"] == counts["total"]  # a mask is no parameter


def test_a_training_with_dropout_goes_on_where_it_was() -> None:
    assert trained.same_when_taken_up(pack([0, 1], module("Torch", dropout=0.3), max_epochs=6), 3)


@pytest.mark.slow
@pytest.mark.parametrize("model", [module("Torch"), module("x_transformers"), module("Torch", last=True)])
def test_a_module_is_measured_and_recalled(model: Module, tmp_path: Path) -> None:
    task = TASK.replace(loss="last" if model.arguments.get("last") else "all")
    training = Training(lr=0.02, max_epochs=40)
    store = tmp_path / "s.db"
    run = capax.measure(task, model, training, restarts=2, store=store, keep_weights=True)
    assert 5 < run.memorized <= 20
    built = model.torch_module(TASK.sizes(), 0)
    assert run.parameters.total == sum(parameter.numel() for parameter in built.parameters())
    assert any("torch.vmap" in note for note in run.notes)
    assert trained.recalled(run, store, trust=True) == run.memorized
    with capax.Store(store) as opened:
        (summary,) = opened.summaries()
    assert (summary.n_layers, summary.n_heads, summary.d_model) == (0, 0, 0)
    named = model.model_copy(update={"arguments": {"n_heads": 2, "d_model": 8}})
    summary = Summary.of(run.model_copy(update={"spec": run.spec.model_copy(update={"model": named})}))
    assert (summary.n_layers, summary.n_heads, summary.d_model) == (0, 2, 8)


def test_micro_batches_are_sized_by_what_the_module_makes() -> None:
    """Of one sequence: 4 positions of 64 hidden channels; scores of 4 x 100 tokens; 2 heads of 30 x 30 scores."""
    for arguments, vocab_size, seq_len, expected in (
        ({}, 12, 5, 256),
        ({}, 100, 5, 400),
        ({"d_model": 4}, 5, 31, 1800),
    ):
        found = traits(module("Torch", **arguments), {"vocab_size": vocab_size, "context": seq_len - 1})
        assert found.floats_per_row == expected


def test_laws_leave_modules_out() -> None:
    known = table_files.from_file("reference:grid").head(60).with_columns(model=pl.lit("transformer"))
    run = capax.measure(TASK, module("Bag", fault="frozen"), Training(max_epochs=1), restarts=1)
    (row,) = tables.table([run]).iter_rows(named=True)
    assert (row["model"], row["arguments"]) == ("module", '{"fault": "frozen"}')
    assert "n_heads" not in row
    mixed = pl.concat([tables.table([run]), known], how="diagonal_relaxed")
    law, alone = capax.PowerLaw().fit(mixed), capax.PowerLaw().fit(known)
    assert law.parameters_ == alone.parameters_
    assert law.notes_[-1] == "1 run was left out: n_heads is not known"
    with pytest.raises(CapaxError, match=r"^n_heads: no run .*module"):
        capax.PowerLaw().fit(tables.table([run]))


def test_studies_take_modules(tmp_path: Path) -> None:
    study = tmp_path / "s.toml"
    study.write_text(
        '[task]\nvocab_size = 12\nseq_len = 5\nlibrary_size = 8\n[model]\nmodel = "module"\n'
        'factory = "usermodels:Torch"\n[training]\nmax_epochs = 1\n[protocol]\nrestarts = 1\n'
        "[grid]\narguments = [{d_model = 4}, {d_model = 8}]\n"
    )
    found = read_study(study)
    assert [run.model for run in found.runs] == [module("Torch", d_model=4), module("Torch", d_model=8)]
    study.write_text(study.read_text() + "n_heads = [1]\n")
    with pytest.raises(SpecError, match=r"grid\.n_heads: no such axis; allowed are .*arguments"):
        read_study(study)
    with pytest.raises(SpecError, match=r"^model: the size of a user's module is not known beforehand"):
        module("Torch").parameter_counts(**TASK.sizes())


def test_searches_take_modules() -> None:
    training = Training(max_epochs=60, lr=0.05)
    task = TASK.replace(loss="last", library_size=8)
    run = capax.measure(task, module("Torch"), training, protocol=capax.Shatter(trials=2))
    assert run.shatter is not None
    assert len(run.shatter.epochs) + len(run.shatter.censored) == 2
    found = capax.measure(task, module("Bag"), training, protocol=capax.Mls(first_size=4, seeds=4, max_trainings=8))
    assert found.search is not None


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("Bag", {"fault": "shape"}, ["(2, 4, 12)", "got (2, 4, 11)"]),
        ("Bag", {"fault": "tuple"}, ["a tensor", "got tuple"]),
        ("Bag", {"fault": "tuple in eval"}, ["a tensor", "got tuple"]),
        ("Bag", {"fault": "last in eval"}, ["got (2, 4, 12) in train mode, (2, 12) in eval mode"]),
        ("Bag", {"fault": "integers"}, ["floating-point", "int64"]),
        ("Bag", {"fault": "nan"}, ["not finite"]),
        ("Bag", {"fault": "weight nan"}, ["readout.weight", "not finite"]),
        ("Bag", {"fault": "detached"}, ["no gradient"]),
        ("Bag", {"fault": "in place"}, ["writes into what it is asked"]),
        ("Bag", {"fault": "few rows"}, ["gives scores of 16 examples, of"]),
        ("Bag", {"fault": "raises"}, ["RuntimeError: no way"]),
        ("Bag", {"fault": "all frozen"}, ["no parameter to train"]),
        ("Bag", {"fault": "batch norm"}, ["norm.running_mean", "batch statistics"]),
        ("Bag", {"fault": "numpy"}, ["readout.weight", "something else than torch's random numbers"]),
        ("Bag", {"fault": "keeps"}, ["keeps something of one call"]),
        ("Bag", {"fault": "remembers"}, ["keeps something of one call", "asked again"]),
        ("Bag", {"fault": "no buffer"}, ["tensors that are no buffers"]),
        ("Bag", {"fault": "always dropout"}, ["random numbers in eval mode"]),
        ("Bag", {"fault": "deaf", "context_size": 2}, ["failed", "RuntimeError"]),
        ("Bag", {"unknown": 1}, ["TypeError", "unknown"]),
        ("Torch", {"batch_first": False}, ["others of its batch", "batch_first"]),
        ("Torch", {"causal": False}, ["loss: 'last'", "position 1", "later tokens", "got 'all'"]),
        ("Torch", {"last": True}, ["loss: 'last'", "last position alone"]),
        ("leaves", {}, ["SystemExit: 3"]),
        ("broken", {}, ["ValueError: no module of 12"]),
        ("nothing", {}, ["torch.nn.Module, got int"]),
    ],
)
def test_modules_that_cannot_be_measured(name: str, arguments: dict[str, Any], said: list[str], tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    with pytest.raises(CapaxError) as refused:
        capax.measure(TASK, module(name, **arguments), restarts=1, store=store)
    message = str(refused.value)
    assert "\n" not in message
    assert refused.value.exit_code == 2
    for word in said:
        assert word in message, message
    with capax.Store(store) as opened:
        assert opened.runs() == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("usermodels", "package.module:name"),
        ("no_such_module:x", "cannot import"),
        ("usermodels:absent", "has no 'absent'"),
        ("usermodels:NOT_CALLABLE", "callable.*int"),
        ("__main__:make", "in a file"),
        ("itertools:chain", "no source file"),
    ],
)
def test_factories_that_are_none(name: str, said: str) -> None:
    with pytest.raises(SpecError, match=f"^factory: .*{said}"):
        Module(factory=name)


def test_specs_that_do_not_fit() -> None:
    with pytest.raises(SpecError, match=r"^model: task 'relations' is learned by KeyQueryChannel, got Module"):
        Run(task=capax.Relations(n_items=4), model=module("Bag"))
    with pytest.raises(SpecError, match=r"^compile: not for"):
        Run(task=TASK, model=module("Bag"), training=Training(compile=True))
    with pytest.raises(SpecError, match=r"^arguments\..* finite number, got nan"):
        module("Bag", fault=float("nan"))


def test_the_key_covers_source_and_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "from torch import nn\n\n\ndef make(vocab_size):\n    return nn.Embedding(vocab_size, vocab_size)\n"
    path = tmp_path / "keyed_module.py"
    path.write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    spec = Module(factory="keyed_module:make")
    before = Run(task=TASK, model=spec)
    assert Run.model_validate_json(before.model_dump_json()) == before
    assert hash(before) == hash(Run(task=TASK, model=Module(factory="keyed_module:make")))
    assert before.key() != Run(task=TASK, model=spec.replace(arguments={"vocab_size": 12})).key()
    path.write_text(source + "# another line\n")
    with pytest.raises(SpecError, match="changed since it was imported"):
        Module(factory="keyed_module:make")
    with pytest.raises(SpecError, match="changed since it was imported"):
        capax.measure(TASK, spec, restarts=1)
    monkeypatch.setattr(factory, "_LOADED", {})  # as another process finds it
    assert before.key() != Run(task=TASK, model=Module(factory="keyed_module:make")).key()
    with pytest.raises(SpecError, match="changed since it was read"):
        capax.measure(TASK, spec, restarts=1)


def test_information_is_measured_without_dropout() -> None:
    """It is that of the kept weights in eval mode, and measuring it draws nothing."""
    drops = pack([0, 1], module("Torch", dropout=0.3))
    course = Course(drops)
    while not course.finished:
        course.step(lambda: False)
    states = [generator.get_state() for generator in course.learner.ensemble.generators]
    for place, outcome in enumerate(course.outcomes()):
        template = drops.model.torch_module(TASK.sizes(), 0).eval()
        template.load_state_dict({name: tensor.clone() for name, tensor in outcome.weights.items()})
        tokens = course.learner.library.tokens[place]
        with torch.no_grad():
            chosen = template(tokens[:, :-1]).log_softmax(-1).gather(2, tokens[:, 1:, None]).double().sum((1, 2))
        known = (chosen + 4 * torch.tensor(12.0).log()) / torch.tensor(2.0).log()
        assert outcome.information.signed == pytest.approx(float(known.sum()), abs=1e-3)
        assert outcome.information.clipped == pytest.approx(float(known.clamp_min(0).sum()), abs=1e-3)
    assert all(torch.equal(a, g.get_state()) for a, g in zip(states, course.learner.ensemble.generators, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["soap", "muon"])
@pytest.mark.parametrize("name", ["Convolved", "Biased"])
def test_optimizers_of_matrices_train_any_parameters(name: str, optimizer: str) -> None:
    """Of four axes, of sides of 1, of vectors alone; each member by itself, and taken up where it was."""
    one = pack([0, 1, 2], module(name), optimizer=optimizer, lr=0.02, max_epochs=5, basis_every=3)
    outcomes = train(one)
    for outcome in outcomes:
        (_, _, first), *_, (_, _, last) = outcome.curve[1:]
        assert first is not None
        assert last is not None
        assert last < first
    assert trained.same_when_taken_up(one, 5)
    if devices.rounds_batches_alike():
        assert [o.curve for o in train(one.part([2, 0]))] == [outcomes[member].curve for member in (2, 0)]


def test_a_lack_of_memory_in_a_users_module_stays_what_it_is() -> None:
    """So a sweep tries it again with fewer members at once."""
    for error in (MemoryError("numpy"), torch.OutOfMemoryError("cuda")):
        with pytest.raises(type(error)), reported("mine"):
            raise error
    with pytest.raises(ModuleError, match="module: mine failed when it was asked"), reported("mine"):
        raise ValueError("no")
