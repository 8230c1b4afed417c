"""The command `capax`, also `python -m capax`: Ctrl-C ends it with one line from its first moment on."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # as from typing, whose import takes a while in which Ctrl-C is not answered yet
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Run the command line (`capax.cli.main`)."""
    try:
        import signal

        heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else this was started to ignore Ctrl-C
        if heard:
            signal.signal(signal.SIGINT, _end)
        from capax.cli import import_command
        from capax.cli import main as run

        import_command()
        if heard:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            run()
        finally:
            if heard:
                signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's own end would print where it was
    except KeyboardInterrupt:
        _end()


def _end(*_: object) -> NoReturn:
    """End at once: what an interrupt raises in an import, libraries take for something else, or print."""
    try:
        os.write(2, b"capax: interrupted\n")
    finally:
        os._exit(130)  # capax.interrupts.INTERRUPTED, which would have to be imported first


if __name__ == "__main__":
    main()
