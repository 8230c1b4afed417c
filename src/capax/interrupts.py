"""Ctrl-C, and the signals that a scheduler or a container ends a process with, at moments that lose nothing."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDINGS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Ended(KeyboardInterrupt):
    """A signal asked for the end, as Ctrl-C does.

    Attributes:
        number: the signal's.
        exit_code: what a process says that ends by it.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number, self.exit_code = number, 128 + number


class EndedAtOnce(Ended):
    """It was asked for a second time: nothing is waited for."""


def end(number: int, _: FrameType | None = None) -> None:
    """Handle a signal as Ctrl-C is handled."""
    raise Ended(number)


@contextmanager
def ending_as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as Ctrl-C does; those that are ignored (`nohup`) stay ignored."""
    if threading.current_thread() is not threading.main_thread():  # others cannot set handlers
        yield
        return
    numbers = [number for number in ENDINGS if signal.getsignal(number) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


_waiting: list[int] = []


def waiting() -> bool:
    """Whether a signal waits for the end of a `deferred` block."""
    return bool(_waiting)


@contextmanager
def deferred() -> Iterator[None]:
    """Ctrl-C, and what ends like it, waits until the block has ended; a second one ends the block at once.

    Handlers that are neither Python's own for Ctrl-C nor `end` are the host program's, and left alone.

    Raises:
        KeyboardInterrupt: after the block; `EndedAtOnce` within it.
    """
    handlers = {signal.SIGINT: signal.default_int_handler} | dict.fromkeys(ENDINGS, end)
    numbers = [number for number, handler in handlers.items() if signal.getsignal(number) is handler]
    if not numbers or threading.current_thread() is not threading.main_thread():
        yield
        return

    def wait(number: int, _: FrameType | None) -> None:
        if _waiting:
            raise EndedAtOnce(number)
        _waiting.append(number)

    for number in numbers:
        signal.signal(number, wait)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, handlers[number])
        asked = list(_waiting)
        _waiting.clear()
    if asked:
        handlers[signal.Signals(asked[0])](asked[0], None)
