"""Modules that a library builds: of the version that was asked for, seeded, and without memory where sizes suffice."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import nn

from capax.errors import CapaxError, SpecError, said
from capax.models.factory import ModuleError, seeded
from capax.models.module import MEMORY, tensors_of
from capax.specs.libraries import LibraryModel
from capax.specs.model import Drawn, Parameter
from capax.specs.plugins import resolve

NAMED = 5
"""So many names are offered in place of an unknown one."""


class Skeleton(NamedTuple):
    """What is known of a model by building it without memory.

    Attributes:
        table: its tensors, parameters and then buffers.
        counts: numbers that it has, buffers not counted: `trainable` and `total`.
    """

    table: tuple[Parameter, ...]
    counts: Mapping[str, int]


def build(spec: LibraryModel, vocab_size: int, context: int, seed: int) -> nn.Module:
    """One module, its random numbers from a seed; torch's own go on as if nothing had been drawn.

    Raises:
        SpecError: when another version of the library is installed than the spec's.
        ModuleError: when the library refuses.
    """
    if (there := spec.installed()) != spec.package_version:
        raise SpecError(
            f"package_version: the run is of {spec.library}, and {there} is installed, which may build another "
            f"network: pip install {spec.package}=={spec.package_version}"
        )
    with seeded(seed):
        return _made(spec, "make", vocab_size, context)


@lru_cache(maxsize=256)
def skeleton(spec: LibraryModel, vocab_size: int, context: int) -> Skeleton:
    """What is known of a model by building it without memory; where that cannot be, it is built as it is.

    Raises:
        ModuleError: when the library refuses.
    """
    try:
        with torch.device("meta"), seeded(0):
            module = _made(spec, "outline", vocab_size, context)
    except ModuleError:  # some options compute with numbers, which nothing has there
        module = build(spec, vocab_size, context, 0)
    trained = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
    parameters = {name for name, _ in module.named_parameters()}
    table = tuple(Parameter(n, tuple(t.shape), Drawn(), n in trained) for n, t in tensors_of(module).items())
    sizes = {name: tensor.numel() for name, tensor in tensors_of(module).items() if name in parameters}
    counts = {"trainable": sum(sizes[name] for name in trained), "total": sum(sizes.values())}
    return Skeleton(table, counts)


def _made(spec: LibraryModel, how: str, vocab_size: int, context: int) -> nn.Module:
    try:
        module: nn.Module = resolve(f"{spec.home}:{how}")(spec, vocab_size, context)
    except Exception as error:  # a library says in many ways what it cannot do
        if isinstance(error, torch.OutOfMemoryError | CapaxError) or MEMORY in str(error):
            raise
        raise ModuleError(f"model: {spec.package} refuses {spec.name} ({said(error)})") from None
    return module


def refuse_unknown(names: Collection[str], known: Collection[str], library: str, field: str = "set") -> None:
    """Refuse options that a library does not have.

    Args:
        library: what has them, in words.
        field: that they are given by.

    Raises:
        SpecError: that names the nearest that it has.
    """
    for name in names:
        if name not in known:
            near = nearest(name, known)
            told = f"; the nearest {'are' if ',' in near else 'is'} {near}" if near else ""
            raise SpecError(f"{field}: {library} has no option {name!r:.80}{told}")


def nearest(name: str, known: Collection[str], alike: float = 0.5) -> str:
    """Names that are like another, in words; empty where there are none.

    Args:
        alike: from 0 to 1 of equal names, by `difflib`; those below are left out.
    """
    return ", ".join(get_close_matches(name, list(known), NAMED, alike))
