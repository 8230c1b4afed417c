"""Ctrl-C and the signals with which schedulers and containers end a process, handled so that nothing is lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
"""Exit code of a process that ends by Ctrl-C."""

ENDINGS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Ended(KeyboardInterrupt):
    """A signal asked for the end, as Ctrl-C does.

    Attributes:
        number: the signal's.
        exit_code: of a process that ends by it.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number, self.exit_code = number, 128 + number


class EndedAtOnce(Ended):
    """A second signal: the end is not delayed any more."""


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


_HANDLERS = {signal.SIGINT: signal.default_int_handler} | dict.fromkeys(ENDINGS, end)


def _ours() -> list[signal.Signals]:
    """The signals that may be handled otherwise for a while: where another handler is set, it is the host program's."""
    if threading.current_thread() is not threading.main_thread():
        return []
    return [number for number, handler in _HANDLERS.items() if signal.getsignal(number) is handler]


_waiting: list[int] = []


def waiting() -> bool:
    """Whether a signal waits for the end of a `deferred` block."""
    return bool(_waiting)


@contextmanager
def deferred() -> Iterator[Callable[[], None]]:
    """Ctrl-C, and what ends like it, waits until the block has ended; a second one ends the block at once.

    Handlers that are neither Python's own for Ctrl-C nor `end` are the host program's, and left alone.

    Yields:
        What raises a signal that waits, at a moment that the block chooses.

    Raises:
        KeyboardInterrupt: after the block; `EndedAtOnce` within it.
    """
    numbers = _ours()
    if not numbers:
        yield lambda: None
        return

    def wait(number: int, _: FrameType | None) -> None:
        if _waiting:
            raise EndedAtOnce(number)
        _waiting.append(number)

    for number in numbers:
        signal.signal(number, wait)
    try:
        yield lambda: _raise_first(_waiting)
    finally:
        for number in numbers:
            signal.signal(number, _HANDLERS[number])
        asked = list(_waiting)
        _waiting.clear()
    _raise_first(asked)


@contextmanager
def never_lost() -> Iterator[Callable[[], None]]:
    """Ctrl-C, and what ends like it, ends the block at once, and a little later where it was lost at first.

    Python raises it wherever it happens to be. In the callback of a weak reference, of which every import has some, it
    is dropped with a line on stderr, and some libraries take it for an error of theirs. Handlers of the host program
    are left alone, as in `deferred`.

    Yields:
        What raises again a signal that was lost, to be called now and then.

    Raises:
        KeyboardInterrupt: within the block, or after it.
    """
    numbers = _ours()
    heard: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        heard.append(number)
        _HANDLERS[signal.Signals(number)](number, frame)

    for number in numbers:
        signal.signal(number, hear)
    try:
        yield lambda: _raise_first(heard)
    except Exception:
        _raise_first(heard)
        raise
    finally:
        for number in numbers:
            signal.signal(number, _HANDLERS[number])
    _raise_first(heard)


def _raise_first(numbers: list[int]) -> None:
    if numbers:
        _HANDLERS[signal.Signals(numbers[0])](numbers[0], None)
