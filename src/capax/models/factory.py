"""The user's factories of modules: how they are found, how their source is known, and how they are called."""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn

from capax.errors import CapaxError, SpecError
from capax.specs.modules import Module

_LOADED: dict[Path, str] = {}
"""Sha256 of each source file when this process first looked: what Python loaded of it does not change afterwards."""


class ModuleError(CapaxError):
    """A user's module cannot be made, or fails when it is asked."""


def said(error: BaseException) -> str:
    """An error of the user's code in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")[:200]


@contextmanager
def seeded(seed: int | None = None) -> Iterator[None]:
    """Torch's global random numbers from a seed (as they are when None); afterwards they go on where they were."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        if seed is not None:
            torch.manual_seed(seed)
        yield


def find(factory: str) -> Callable[..., Any]:
    """The callable that `package.module:name` names; the module is imported.

    Raises:
        SpecError: when it cannot be imported, lacks the name, or that is nothing to be called.
    """
    home, _, name = factory.partition(":")
    if home == "__main__":
        raise SpecError(f"factory: should be in a file that other processes can import, got {factory!r}")
    try:
        importlib.invalidate_caches()  # the file may have been written a moment ago
        with seeded():
            module = importlib.import_module(home)
    except (Exception, SystemExit) as error:  # whatever the user's file does when it is run
        raise SpecError(f"factory: cannot import {home!r} ({said(error)}); is its folder on Python's path?") from None
    if not hasattr(module, name):
        raise SpecError(f"factory: module {home!r} has no {name!r}")
    found = getattr(module, name)
    if not callable(found):
        raise SpecError(f"factory: should be callable, {factory!r} is of type {type(found).__name__}")
    if isinstance(found, nn.Module):
        raise SpecError(
            f"factory: {factory!r} is a module already; each member needs one of its own: name what makes it"
        )
    return found


def source_hash(factory: str) -> str:
    """Sha256 of the files that are named by, and that define, a factory; not of what these import.

    Raises:
        SpecError: as `find`, and when there is no source, or it is another than the one that Python loaded.
    """
    found: Any = find(factory)
    while isinstance(found, functools.partial):
        found = found.func
    files = {Path(inspect.getfile(sys.modules[factory.partition(":")[0]]))} if _has_file(factory) else set()
    with suppress(TypeError):  # an object with __call__, or something built in
        files.add(Path(inspect.getfile(inspect.unwrap(found))))
    if not files:
        raise SpecError(f"factory: {factory!r} has no source file")
    return hashlib.sha256("".join(_content(path) for path in sorted(files)).encode()).hexdigest()


def _has_file(factory: str) -> bool:
    return getattr(sys.modules[factory.partition(":")[0]], "__file__", None) is not None


def _content(path: Path) -> str:
    try:
        content = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise SpecError(f"factory: cannot read {path}: {error.strerror}") from None
    if _LOADED.setdefault(path, content) != content:
        raise SpecError(f"factory: {path} has changed since it was imported; start Python anew")
    return content


def build(spec: Module, *, vocab_size: int, seq_len: int, seed: int) -> nn.Module:
    """One module, its random numbers from a seed; torch's own go on as if nothing had been drawn.

    Raises:
        SpecError: as `source_hash`, and when the source is another than the spec's.
        ModuleError: when the factory fails, or gives something else than a module.
    """
    if source_hash(spec.factory) != spec.source_sha256:
        raise SpecError(f"factory: the source of {spec.factory!r} has changed since it was read")
    factory = find(spec.factory)
    sizes = {"vocab_size": vocab_size, "seq_len": seq_len, "context_size": seq_len - 1}
    named = {name: sizes[name] for name in _parameters(factory) if name in sizes}
    try:
        with seeded(seed):
            module = factory(**(named | spec.arguments))
    except Exception as error:  # whatever the user's code raises
        raise ModuleError(f"module: {spec.name} failed ({said(error)})") from None
    if not isinstance(module, nn.Module):
        raise ModuleError(f"module: {spec.name} should give a torch.nn.Module, got {type(module).__name__}")
    return module


def _parameters(factory: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a callable's parameters; none where Python does not know them."""
    try:
        return tuple(inspect.signature(factory).parameters)
    except (TypeError, ValueError):
        return ()
