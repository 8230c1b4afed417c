"""Values in words."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Seconds in the largest unit of which they are one or more: 9.5 s, 1 min, 600 h."""
    unit, size = next(
        ((unit, size) for unit, size in (("h", 3600), ("min", 60)) if seconds >= size - size / 120), ("s", 1)
    )
    amount = round(seconds / size, 1)
    return f"{amount:.0f} {unit}" if amount >= 10 or amount.is_integer() else f"{amount} {unit}"
