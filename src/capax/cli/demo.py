"""`capax demo`: a small real study, trained on the spot."""

from __future__ import annotations


def demo() -> None:
    """X."""
