"""What takes long says how far it is, to whoever listens; nobody need listen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Listener = Callable[[str, int, int | None], None]
"""Called with what is being done, how many are done, and of how many, where that is known."""

_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)

Item = TypeVar("Item")


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Have a listener hear what is done meanwhile."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def say(what: str, done: int, of: int | None = None) -> None:
    """Say how far it is."""
    if (listener := _LISTENER.get()) is not None:
        listener(what, done, of)


def through(items: Collection[Item], what: str) -> Iterator[Item]:
    """Items, and before each how many were before it."""
    for done, item in enumerate(items):
        say(what, done, len(items))
        yield item
