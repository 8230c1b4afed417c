"""Flags that hold several numbers."""

from __future__ import annotations

from capax.errors import SpecError


def integers(name: str, text: str) -> list[int]:
    """The numbers of "1,2,4".

    Raises:
        SpecError: that names the flag.
    """
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise SpecError(f"{name}: integers separated by commas, got {text!r}") from None
