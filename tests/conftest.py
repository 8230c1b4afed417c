"""What holds for every test.

One torch thread, torch's global state left as it was found, shapes checked, and no measurement above what is proved
to be impossible.
"""

from __future__ import annotations

import gc
import os
import re
import signal
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import jaxtyping
import pytest
from jaxtyping import config

check_shapes = jaxtyping.jaxtyped


def has_shapes(made: Any) -> bool:
    """Whether an annotation has a shape, or a name that stands for one."""
    said = " ".join(map(str, getattr(made, "__annotations__", {}).values()))
    scope = getattr(made, "__globals__", {})
    return '"' in said or any("jaxtyping." in repr(scope.get(name)) for name in re.findall(r"\w+", said))


def sparing(*, typechecker: Any) -> Callable[[Any], Any]:
    """The decorator that jaxtyping gives all functions, for those with shapes alone; mypy proves the other types."""
    decorate = check_shapes(typechecker=typechecker)
    return lambda made: decorate(made) if isinstance(made, type) or has_shapes(made) else made


jaxtyping.jaxtyped = sparing


def pytest_collection_finish() -> None:
    """Spare the collections of garbage to come all that is imported by now, and have fewer of them."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session")
def torch_on_one_thread() -> Iterator[Any]:
    """Torch, on one thread: the worker processes share the cores."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch
    torch.set_num_threads(threads)


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heard() -> None:
    """Hear Ctrl-C, as from a terminal: what a shell starts in the background ignores it, as would what tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def nothing_is_said_of_progress() -> None:
    """However slow the machine is: tests expect nothing on stderr of commands that end well."""
    from capax.cli import progress

    progress.FIRST_SECONDS = 3600.0


@pytest.fixture(autouse=True)
def torch_state_is_left_alone(torch_on_one_thread: Any) -> Iterator[None]:
    """Fail a test that leaves torch's global state changed: the next test's result would depend on it."""
    torch = torch_on_one_thread
    rng_state, dtype, threads = torch.get_rng_state(), torch.get_default_dtype(), torch.get_num_threads()
    yield
    changed = []
    if not torch.equal(rng_state, torch.get_rng_state()):
        torch.set_rng_state(rng_state)
        changed.append("random state (draw from a torch.Generator, or inside torch.random.fork_rng())")
    if torch.get_default_dtype() != dtype:
        changed.append(f"default dtype ({dtype} to {torch.get_default_dtype()})")
        torch.set_default_dtype(dtype)
    if torch.get_num_threads() != threads:
        changed.append(f"number of threads ({threads} to {torch.get_num_threads()})")
        torch.set_num_threads(threads)
    if changed:
        pytest.fail(f"the test changed torch's global {', '.join(changed)}", pytrace=False)


@pytest.fixture
def only_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the tasks and models that other tests have registered."""
    from capax.specs import Model, Task

    for kind in (Task, Model):
        foreign = [tag for tag, found in kind.registry.items() if not found.__module__.startswith("capax.")]
        for tag in foreign:
            monkeypatch.delitem(kind.registry, tag)


@pytest.fixture(autouse=True)
def plugins_are_forgotten() -> Iterator[None]:
    """Forget the tasks and models that a test brings: help, schemas and errors of other tests would name them."""
    import sys

    from capax.specs import Model, Task, plugins

    registries = Task.registry, Model.registry
    before, files = [dict(registry) for registry in registries], dict(plugins._FILES)
    yield
    for registry, kept in zip(registries, before, strict=True):
        if registry != kept:
            registry.clear()
            registry.update(kept)
            plugins.resolve.cache_clear()
    for name in plugins._FILES.keys() - files.keys():
        del plugins._FILES[name], sys.modules[name]


@pytest.fixture(scope="session", autouse=True)
def no_measurement_is_above_a_bound() -> Iterator[None]:
    """Check every measurement of the suite against the bounds that are proved for what it counts.

    What its probabilities know of a random library is no more than its weights' bits, but for a chance of 2^-64.
    """
    from capax.protocols import perform
    from capax.specs import Associations, Sequences
    from capax.theory.bounds.catalogue import WEIGHT_BITS
    from capax.theory.bounds.exceeded import exceeded
    from capax.theory.bounds.stored_bits import SLACK

    assemble = perform.assemble

    def checked(*arguments: Any, **options: Any) -> Any:
        found = assemble(*arguments, **options)
        assert exceeded(found) == (), f"run {found.key} is above a bound"
        if isinstance(found.spec.task, Sequences | Associations) and found.spec.task.library == "random":
            known = {unit.name: unit.amount for unit in found.units}
            stored = WEIGHT_BITS[found.spec.training.precision] * found.parameters.trainable
            assert known.get("allen_zhu_bits", 0.0) <= stored + SLACK
            assert found.bits <= stored
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(perform, "assemble", checked)
        yield


@pytest.fixture(scope="session", autouse=True)
def shapes_are_checked_once_each() -> Iterator[None]:
    """Check shapes in the first step and the first evaluation of what has the same specs and sizes.

    The hundreds that follow are like them, in the same training and in others.
    """
    from capax.training.ensemble import Learner

    specs = WeakKeyDictionary[Learner, str]()

    def first(name: str, kind: Callable[..., Any]) -> Any:
        method, seen = getattr(Learner, name), set[Any]()

        def checked(self: Learner, *arguments: Any) -> Any:
            if self not in specs:
                specs[self] = repr((self.ensemble.spec, getattr(self.library, "spec", id(self)), self.training))
            this = specs[self], self.ensemble.n_members, kind(self, *arguments)
            if this not in seen:
                seen.add(this)
                return method(self, *arguments)
            before, config.jaxtyping_disable = config.jaxtyping_disable, True
            try:
                return method(self, *arguments)
            finally:
                config.jaxtyping_disable = before

        return checked

    def rows_of_next_step(learner: Learner, *_: Any) -> int:
        order = learner.order
        return max(
            min(order.batch_size, size - done * order.batch_size)
            for size, done in zip(order.sizes, order._steps, strict=True)
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Learner, "step", first("step", rows_of_next_step))
        for name in ("evaluate", "information"):
            patch.setattr(Learner, name, first(name, lambda _, members, *weights: len(members)))
        yield


@pytest.fixture
def one_core(worker_id: str) -> Iterator[None]:
    """One core to run on, another one for each process of tests: commands train in this process and start no others."""
    before = os.sched_getaffinity(0)
    place = int(worker_id.removeprefix("gw")) if worker_id != "master" else 0
    os.sched_setaffinity(0, {sorted(before)[place % len(before)]})
    yield
    os.sched_setaffinity(0, before)
