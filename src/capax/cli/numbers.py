"""Flags that hold several numbers."""

from __future__ import annotations

from capax.errors import SpecError
from capax.specs.spec import LARGEST_SIZE

MOST = 1000
"""Numbers of one flag."""


def integers(name: str, text: str) -> list[int]:
    """The numbers of "1,2,4".

    Raises:
        SpecError: that names the flag.
    """
    words = text.split(",")
    if len(words) > MOST:
        raise SpecError(f"{name}: at most {MOST} integers, got {len(words)}")
    try:
        found = [int(word) for word in words]
    except ValueError:
        raise SpecError(f"{name}: integers separated by commas, got {text!r:.80}") from None
    if max(found) > LARGEST_SIZE:
        raise SpecError(f"{name}: at most {LARGEST_SIZE}, got {max(found)!s:.80}")
    return found
