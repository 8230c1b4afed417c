"""The command line: `capax`."""

from __future__ import annotations

import errno
import sys
from contextlib import suppress
from typing import NoReturn

from cyclopts import App, CycloptsError

from capax.cli import streams
from capax.errors import CapaxError, OutputError, OutsideDomain, StoreWriteError, one_line
from capax.interrupts import INTERRUPTED, Ended, ending_as_ctrl_c

USAGE = 2


def _app() -> App:
    from importlib.metadata import version

    from capax.cli import (
        demo,
        info,
        measure,
        probe,
        report,
        runs,
        sweep,
        watch,
    )
    from capax.cli.numbers import refuse_fractions, refuse_huge

    app = App(
        name="capax",
        help="How much can attention remember? Measure, predict and plan the memory capacity of transformers. "
        "Add --debug to any command to see where an error comes from.",
        version=lambda: version("capax"),
        help_on_error=False,
        suppress_keyboard_interrupt=False,
        config=(refuse_fractions, refuse_huge),
    )
    app.command(measure.app)
    app.command(sweep.sweep)
    app.command(watch.watch)
    app.command("capax.cli.laws:fit", name="fit", help="Fit a law of capacity to measurements.")
    app.command("capax.cli.plan:predict_app", name="predict", help="Ask a law how much an architecture memorizes.")
    app.command("capax.cli.plan:plan_app", name="plan", help="Choose an architecture that holds a target.")
    app.command(
        "capax.cli.bounds:bounds",
        name="bounds",
        help="Every bound on what a transformer remembers: proved, measured elsewhere, or of other memories of its "
        "size.\n\nSizes that are not given leave some without a value; the reasons are printed. What counts different "
        "things is not made one number: values are in their own units, and in bits where they have any.",
    )
    app.command("capax.cli.check:app", name="check", help="Check a model, vectors, or the heads of a trained layer.")
    app.command(
        "capax.cli.calibrate:calibrate",
        name="calibrate",
        help="Measure systems of known capacity by the protocols and searches that measure a transformer.\n\n"
        "Exits with 1 if one is off by more than its tolerance, which follows from theory and finite size. About a "
        "minute and a half on one core.",
    )
    app.command(runs.runs)
    app.command(runs.merge)
    app.command(runs.recall)
    app.command(probe.probe)
    app.command("capax.cli.construct:app", name="construct", help="Build weights, without training, as theory says.")
    app.command(report.report)
    app.command(report.figure)
    app.command(
        "capax.cli.reproduce:reproduce",
        name="reproduce",
        help="Run a paper's figures and tables, and say of every claim whether our measurements agree, differ or "
        "cannot tell.\n\nIf it is interrupted, start it again: only the missing runs are done.",
    )
    app.command(demo.demo)
    app.command(info.info)
    return app


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run one command and exit: 0 done, 2 bad input, 130 interrupted (by SIGTERM 143, by SIGHUP 129).

    1 for what could not be written, for a run that could not be saved or trained, and for a calibration that failed.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    try:
        streams.prepare(as_json="--json" in arguments)
        given = [argument for argument in arguments if argument != "--debug"]
        with ending_as_ctrl_c():
            _app()(given, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError as error:
        _fail(error, USAGE, debug)
    except CapaxError as error:
        if isinstance(error, StoreWriteError) and error.unsaved is not None:
            with suppress(OSError):
                print(error.unsaved.to_json())
        _fail(error, error.exit_code, debug)
    except KeyboardInterrupt as error:
        line = "; ".join(["interrupted", *getattr(error, "__notes__", ())])
        _end(line, error.exit_code if isinstance(error, Ended) else INTERRUPTED)
    except OSError as error:
        _fail(OutputError(streams.reason(error)), OutputError.exit_code, debug)
    except MemoryError as error:
        _fail(
            CapaxError(f"memory: not enough for this ({error})" if str(error) else "memory: not enough for this"),
            1,
            debug,
        )
    except SystemExit:  # rich's, where nobody reads what it prints
        _fail(OutputError(streams.reason(BrokenPipeError(errno.EPIPE, ""))), OutputError.exit_code, debug)
    sys.exit(0)


def _fail(error: Exception, code: int, debug: bool) -> NoReturn:
    if debug:
        streams.settle()
        raise error
    _end(f"{one_line(error)}{' (--extrapolate)' if isinstance(error, OutsideDomain) else ''}", code)


def _end(line: str, code: int) -> NoReturn:
    """Print what is left to be printed and a line on stderr, as far as they can be, and exit."""
    streams.settle()
    streams.tell(f"capax: {line}")
    sys.exit(code)
