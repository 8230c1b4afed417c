"""The command `capax`, also `python -m capax`: Ctrl-C ends it with one line from its first moment on."""

from __future__ import annotations

import os

INTERRUPTED = 130

TYPE_CHECKING = False  # as from typing, whose import takes a while in which Ctrl-C is not answered yet
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn


def main() -> NoReturn:
    """Run the command line (`capax.cli.main`)."""
    try:
        import signal

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else this was started to ignore Ctrl-C
            signal.signal(signal.SIGINT, _interrupt)
        from capax.cli import main as run

        try:
            run()
        finally:
            if signal.getsignal(signal.SIGINT) is _interrupt:
                signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's own end would print where it was
    except KeyboardInterrupt:
        _end()


def _interrupt(_: int, frame: FrameType | None) -> None:
    """Raise `KeyboardInterrupt`; end at once where a module is imported, which would make something else of it."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_find_and_load" and code.co_filename == "<frozen importlib._bootstrap>":
            _end()
        frame = frame.f_back
    raise KeyboardInterrupt


def _end() -> NoReturn:
    try:
        os.write(2, b"capax: interrupted\n")
    finally:
        os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
