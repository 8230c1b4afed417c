"""Flags that hold numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, get_args

from cyclopts import Argument

from capax.errors import SpecError

FRACTION = re.compile(r"[+-]?[0-9]+\.0+")
"""A fraction that is a whole number, such as 2.0."""


def integers(name: str, text: str) -> list[int]:
    """The numbers of "1,2,4".

    Raises:
        SpecError: that names the flag.
    """
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise SpecError(f"{name}: integers separated by commas, got {text!r}") from None


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
                name = argument.name.removeprefix("--").replace("-", "_")
                raise SpecError(f"{name}: should be an integer, got {token.value!r:.80}")
