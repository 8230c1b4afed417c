"""What cyclopts would take for a number or a path, and is none: settings of the whole command line."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, get_args

from cyclopts import Argument

from capax.errors import SpecError

NAME_FILES = ("library", "graph", "embeddings", "config", "weights", "base", "held_out", "tokenizer", "law")
"""Texts that may name a file or a folder."""
FRACTION = re.compile(r"[+-]?[0-9]+\.0+")
"""A fraction that is a whole number, such as 2.0."""


def refuse_fractions(app: Any, commands: tuple[str, ...], arguments: Iterable[Argument]) -> None:
    """A configuration of cyclopts, which rounds fractions that are given for integers: 2.0 is 2, but 1.6 is nothing.

    Raises:
        SpecError: that names the flag.
    """
    for argument in arguments:
        if argument.hint is not int and int not in get_args(argument.hint):
            continue
        for place, token in enumerate(argument.tokens):
            if FRACTION.fullmatch(token.value):
                argument.tokens[place] = token.evolve(value=token.value.partition(".")[0])
            elif "." in token.value:
                raise SpecError(f"{_name(argument)}: should be an integer, got {token.value!r:.80}")


def refuse_empty(app: Any, commands: tuple[str, ...], arguments: Iterable[Argument]) -> None:
    """A configuration of cyclopts: an empty path would be this folder, where files would be read and written.

    It comes from a variable of a shell that is not set.

    Raises:
        SpecError: that names the argument.
    """
    for argument in arguments:
        is_path = Path in (argument.hint, *get_args(argument.hint)) or _name(argument) in NAME_FILES
        if is_path and any(token.value == "" for token in argument.tokens):
            raise SpecError(f"{_name(argument)}: should not be empty")


def take_none_as_a_word(app: Any, commands: tuple[str, ...], arguments: Iterable[Argument]) -> None:
    """A configuration of cyclopts: what is given is never nothing, as cyclopts reads the words none and null.

    A number or a choice that is none is refused, and a name may be that word.
    """
    for argument in arguments:
        kinds = get_args(argument.hint)
        if argument.tokens and type(None) in kinds:
            argument.hint = reduce(or_, (kind for kind in kinds if kind is not type(None)))


def refuse_huge(app: Any, commands: tuple[str, ...], arguments: Iterable[Argument]) -> None:
    """A configuration of cyclopts: integers that have no 64 bits, and floats that are not finite, stop here.

    Raises:
        SpecError: that names the flag.
    """
    for argument in arguments:
        kinds = {argument.hint, *get_args(argument.hint)} & {int, float}
        for token in argument.tokens if kinds else ():
            try:
                value = float(token.value)
            except ValueError:  # no number, or one in another notation: cyclopts says so
                continue
            if float in kinds and not math.isfinite(value):
                raise SpecError(f"{_name(argument)}: should be a finite number, got {token.value!r:.80}")
            if int in kinds and not (math.isfinite(value) and abs(_exact(token.value)) < 2**63):
                raise SpecError(f"{_name(argument)}: should be an integer below 2^63, got {token.value!r:.80}")


def _name(argument: Argument) -> str:
    return argument.name.removeprefix("--").replace("-", "_").lower()


def _exact(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)
