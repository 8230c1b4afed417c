"""The user's factories of modules: how they are found, how their source is known, and how they are called."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import torch
from torch import nn

from capax.errors import CapaxError, SpecError, said
from capax.specs.modules import Module

CHANGED = "factory: the source of {!r} has changed since it was read"
_LOADED: dict[Path, str] = {}
"""Sha256 of each source file when this process first looked: what Python loaded of it does not change afterwards."""


class ModuleError(CapaxError):
    """A user's module cannot be made, or fails when it is asked."""


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
    return _joined(_content(path) for path in sorted(files))


def _joined(contents: Iterable[str]) -> str:
    return hashlib.sha256("".join(contents).encode()).hexdigest()


def refuse_changed(spec: Module) -> None:
    """Refuse a source that is not the spec's before any of it is run, where the file that is named defines the factory.

    Where the factory comes from elsewhere, only importing the module tells from where: `build` compares afterwards.

    Raises:
        SpecError: for another source.
    """
    home, _, name = spec.factory.partition(":")
    path = None if home in sys.modules else _located(home)
    if path is None:
        return
    try:
        source = path.read_bytes()
        tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return  # importing it says what is wrong
    if _defines(tree, name) and _joined([hashlib.sha256(source).hexdigest()]) != spec.source_sha256:
        raise SpecError(CHANGED.format(spec.factory))


def _defines(tree: ast.Module, name: str) -> bool:
    """Whether a name stands for a function or class of this very file, and for nothing else."""
    makers = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name]
    other = any(
        (isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store))
        or (isinstance(node, ast.alias) and name in (node.asname, node.name, "*"))
        for node in ast.walk(tree)
    )
    return bool(makers) and not other and not any(maker.decorator_list for maker in makers)


def _located(home: str) -> Path | None:
    """The file of a module, without importing its packages; None where there is none."""
    importlib.invalidate_caches()  # the file may have been written a moment ago
    parts = home.split(".")
    places: list[str] | None = None
    for end in range(1, len(parts) + 1):
        found = PathFinder.find_spec(".".join(parts[:end]), places)
        if found is None:
            return None
        places = list(found.submodule_search_locations or ())
    return Path(found.origin) if found is not None and found.has_location and found.origin is not None else None


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


def build(spec: Module, sizes: Mapping[str, int], seed: int) -> nn.Module:
    """One module, its random numbers from a seed; torch's own go on as if nothing had been drawn.

    Args:
        sizes: what the factory is told where its signature names it.

    Raises:
        SpecError: as `source_hash`, and when the source is another than the spec's.
        ModuleError: when the factory fails, or gives something else than a module.
    """
    refuse_changed(spec)
    if source_hash(spec.factory) != spec.source_sha256:
        raise SpecError(CHANGED.format(spec.factory))
    factory = find(spec.factory)
    named = {name: sizes[name] for name in _parameters(factory) if name in sizes}
    try:
        with seeded(seed):
            module = factory(**(named | spec.arguments))
    except (Exception, SystemExit) as error:  # whatever the user's code raises
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
