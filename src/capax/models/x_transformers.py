"""Modules of the library x-transformers."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

from torch import nn

from capax.errors import SpecError, said, shown
from capax.models.factory import seeded
from capax.models.libraries import refuse_unknown
from capax.specs.x_transformers import OURS, XTransformers

PREFIXES = {"attn_": "Attention", "cross_attn_": "Attention", "ff_": "FeedForward"}
"""How its Decoder is told what goes to the parts of a block."""
OF_BLOCKS = ("dim", "heads", "causal", "dim_context")
"""Arguments of a part that the Decoder gives it itself."""


def check(spec: XTransformers) -> None:
    """Refuse options that the library does not have, or that capax says by other names.

    Raises:
        SpecError: that names the nearest that it has.
    """
    for name, value in spec.set.items():
        if name in OURS:
            raise SpecError(f"set: {name} is {OURS[name]} here, got {shown(value)}")
    refuse_unknown(spec.set, {*wrapper_options(), *decoder_options()} - OURS.keys(), spec.library)


def make(spec: XTransformers, vocab_size: int, context: int) -> nn.Module:
    """A module that maps tokens `(batch, n)` to scores `(batch, n, vocab_size)`."""
    library = _library()
    of_wrapper = {name: value for name, value in spec.set.items() if name in wrapper_options()}
    of_decoder = {name: value for name, value in spec.set.items() if name not in of_wrapper}
    decoder = library.Decoder(
        dim=spec.d_model,
        depth=spec.n_layers,
        heads=spec.n_heads,
        attn_dim_head=spec.d_head,
        **{"attn_project_out": True, "verbose": False} | of_decoder,
    )
    made: nn.Module = library.TransformerWrapper(
        num_tokens=vocab_size, max_seq_len=context, attn_layers=decoder, **of_wrapper
    )
    return made


outline = make
"""It reads no weights."""


@cache
def wrapper_options() -> frozenset[str]:
    """The arguments of `TransformerWrapper`."""
    return _arguments(_library().TransformerWrapper)


@cache
def decoder_options() -> frozenset[str]:
    """The arguments of `Decoder`, those of its attention and its FFN with their prefixes."""
    modules = inspect.getmodule(_library().Decoder)
    of_parts = {
        prefix + name
        for prefix, part in PREFIXES.items()
        for name in _arguments(getattr(modules, part)) - set(OF_BLOCKS)
    }
    return _arguments(_library().AttentionLayers) | of_parts


def _arguments(kind: type) -> frozenset[str]:
    every = inspect.signature(kind.__init__).parameters.values()  # type: ignore[misc]
    return frozenset(one.name for one in every if one.name != "self" and one.kind is not one.VAR_KEYWORD)


@cache
def _library() -> Any:
    try:
        with seeded():
            import x_transformers.x_transformers as found
    except ImportError as error:
        raise SpecError(f"model: cannot import x-transformers ({said(error)})") from None
    return found
