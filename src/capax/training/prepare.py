"""From a pack's specs to what trains: the one place that knows which library and which ensemble a task has."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from capax import machine
from capax.models import associative, keyquery, transformer
from capax.models.associative import AssociativeEnsemble
from capax.models.ensemble import Ensemble
from capax.models.keyquery import KeyQueryEnsemble
from capax.models.module import ModuleEnsemble
from capax.models.module_traits import check, traits
from capax.models.reachability import unreachable_tokens
from capax.models.routing import RoutingEnsemble
from capax.models.transformer import TransformerEnsemble
from capax.seeds import numpy_generator, torch_generator
from capax.specs import (
    Associations,
    AssociativeAttention,
    KeyQueryChannel,
    Model,
    Module,
    Relations,
    Run,
    Sequences,
    Task,
    Transformer,
)
from capax.tasks.associations import AssociationLibrary
from capax.tasks.library import Constant, Library, Purpose
from capax.tasks.relations import RelationLibrary
from capax.tasks.sequences import SequenceLibrary
from capax.training.ensemble import BatchOrder, Learner
from capax.training.pack import Pack

DTYPES = {"float32": torch.float32, "bfloat16": torch.float32, "float64": torch.float64}


def prepare(pack: Pack) -> Learner:
    """A pack before its first step: libraries, weights and batch orders drawn from their streams."""
    named = list(zip(pack.seeds, pack.members, strict=True))
    owners = [(seed, 0) for seed in pack.seeds] if pack.one_library else named
    if pack.one_library and len(set(pack.seeds)) == 1:
        owners = owners[:1]
    library = build_library(pack, [numpy_generator(seed, "library", member) for seed, member in owners])
    ensemble = initial_ensemble(pack, [torch_generator(seed, "weights", member) for seed, member in named])
    dtype = DTYPES[pack.training.precision]
    order = BatchOrder(
        library.row_counts,
        pack.training.batch_size,
        [torch_generator(seed, "order", member) for seed, member in named],
        pack.device,
        dtype,
        padded_to=min(pack.training.batch_size, pack.largest) if pack.mixed else None,
    )
    purposes: tuple[Purpose, ...] = ("loss", "recall", "information")
    floats = {purpose: floats_per_row(pack.task, pack.model, purpose) for purpose in purposes}
    learner = Learner(ensemble, library, pack.training, order, floats)
    if (caveat := machine.caveat(pack.training.precision, "cpu" if pack.device == "cpu" else "cuda")) is not None:
        learner.notes.append(caveat)
    if isinstance(pack.model, Module) and isinstance(pack.task, Sequences):
        found = traits(pack.model, pack.task.vocab_size, pack.task.seq_len, dtype)
        learner.notes.append(f"module: {found.computed}")
        if found.in_common is not None:
            alone = "; restarts differ in their batches alone, so there is no interval" if found.one_start else ""
            learner.notes.append(f"seeds: {found.in_common}{alone}")
    return learner


def build_library(pack: Pack, generators: list[np.random.Generator]) -> Library[Any]:
    """The libraries of a pack's members; one generator stands for one that all share."""
    match pack.task, pack.model:
        case Sequences() as task, _:
            return SequenceLibrary.build(task, pack.sizes, generators, pack.device, pack.largest)
        case Associations() as task, AssociativeAttention() as model:
            return AssociationLibrary.build(
                task,
                pack.sizes,
                model.d_model,
                generators,
                device=pack.device,
                dtype=DTYPES[pack.training.precision],
                padded_to=pack.largest,
            )
        case Relations() as task, KeyQueryChannel() as model:
            dtype = DTYPES[pack.training.precision]
            return RelationLibrary.build(task, pack.sizes, model.d_model, generators, device=pack.device, dtype=dtype)
    raise TypeError(f"no library of {type(pack.task).__name__} for {type(pack.model).__name__}")


def initial_ensemble(pack: Pack, generators: list[torch.Generator]) -> Ensemble[Any]:
    """One untrained member per generator."""
    dtype = DTYPES[pack.training.precision]
    match pack.task, pack.model:
        case Sequences() as task, Transformer() as model:
            return TransformerEnsemble.initialize(
                model,
                vocab_size=task.vocab_size,
                context=task.seq_len - 1,
                generators=generators,
                dtype=dtype,
                device=pack.device,
            )
        case Sequences() as task, Module() as model:
            found = traits(model, task.vocab_size, task.seq_len, dtype)
            check(found, model, task)
            named = zip(pack.seeds, pack.members, strict=True)
            return ModuleEnsemble.initialize(
                model,
                vocab_size=task.vocab_size,
                seq_len=task.seq_len,
                generators=generators,
                together=found.together,
                dropout=[torch_generator(seed, "dropout", member) for seed, member in named] if found.random else [],
                dtype=dtype,
                device=pack.device,
            )
        case Associations() as task, AssociativeAttention() as model:
            return AssociativeEnsemble.initialize(
                model, n_outputs=task.n_outputs, generators=generators, dtype=dtype, device=pack.device
            )
        case Relations() as task, KeyQueryChannel() as model:
            assert task.n_items is not None
            d_heads = pack.d_heads or (model.d_head,) * len(generators)
            channel = KeyQueryEnsemble if model.channel == "threshold" else RoutingEnsemble
            return channel.initialize(
                model,
                n_items=task.n_items,
                d_heads=[d_head for d_head in d_heads if d_head is not None],
                generators=generators,
                dtype=dtype,
                device=pack.device,
            )
    raise TypeError(f"no ensemble of {type(pack.model).__name__} for {type(pack.task).__name__}")


def initial(run: Run) -> Ensemble[Any]:
    """The first restart of a run before its training."""
    size = run.task.library_size
    pack = Pack(run.task, run.model, run.training, (run.seed,), (0,), (size,), size, mixed=False, one_library=True)
    return initial_ensemble(pack, [torch_generator(run.seed, "weights", 0)])


def floats_per_row(task: Task, model: Model, purpose: Purpose) -> int:
    """Numbers in the widest activation of one row of one member; micro-batches and packs are sized by it."""
    match task, model:
        case Sequences(), Transformer():
            scored = task.recall if purpose == "recall" else task.loss
            return transformer.floats_per_sequence(model, task.vocab_size, task.seq_len - 1, scored)
        case Sequences(), Module():
            found = traits(model, task.vocab_size, task.seq_len)
            check(found, model, task)
            return found.floats_per_row
        case Associations(), AssociativeAttention():
            shared = task.contexts == "shared"
            return associative.floats_per_example(model, task.context_size, task.n_outputs, shared)
        case Relations(), KeyQueryChannel():
            assert task.n_items is not None
            return keyquery.floats_per_source(model, task.n_items)
    raise TypeError(f"no sizes of {type(model).__name__} for {type(task).__name__}")


def rows(pack: Pack) -> int:
    """Rows of the largest library, which batches are made of."""
    if isinstance(pack.task, Relations):
        assert pack.task.n_items is not None
        return pack.task.n_items
    return pack.largest


def unreachable(pack: Pack, learner: Learner) -> list[tuple[int, ...]]:
    """Per member, the targets that its frozen read-out cannot give."""
    library = learner.library
    if not isinstance(pack.model, Transformer) or pack.model.readout == "trained":
        return [()] * len(pack.members)
    assert isinstance(library, SequenceLibrary)
    readouts = learner.ensemble.parameters["readout"].detach().double().cpu().numpy()
    return [tuple(unreachable_tokens(readout, library.targets(member))) for member, readout in enumerate(readouts)]


def constants(pack: Pack, learner: Learner) -> list[Constant | None]:
    """Per member, the best constant answer to its library."""
    if pack.one_library and len(set(pack.seeds)) == 1:
        return [learner.library.constant(0)] * len(pack.members)
    return [learner.library.constant(member) for member in range(len(pack.members))]


def one_start(pack: Pack) -> bool:
    """Whether all members begin with the same weights."""
    if not isinstance(pack.model, Module) or not isinstance(pack.task, Sequences):
        return False
    dtype = DTYPES[pack.training.precision]
    return traits(pack.model, pack.task.vocab_size, pack.task.seq_len, dtype).one_start
