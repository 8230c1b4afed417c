"""What holds for every test: one torch thread, and torch's global state left as it was found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def torch_on_one_thread() -> Iterator[Any]:
    """Torch, on one thread: the worker processes share the cores."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch
    torch.set_num_threads(threads)


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
