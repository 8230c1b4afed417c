"""The command line: `capax`."""

from __future__ import annotations

import sys
from typing import NoReturn

from cyclopts import App, CycloptsError

from capax.errors import CapaxError, OutsideDomain, StoreWriteError

INTERRUPTED = 130
USAGE = 2


def _app() -> App:
    from importlib.metadata import version

    from capax.cli import (
        bounds,
        calibrate,
        check,
        check_model,
        construct,
        demo,
        info,
        laws,
        measure,
        plan,
        probe,
        report,
        reproduce,
        runs,
        saturation,
        sweep,
        watch,
    )
    from capax.cli.numbers import refuse_fractions

    app = App(
        name="capax",
        help="How much can attention remember? Measure, predict and plan the memory capacity of transformers. "
        "Add --debug to any command to see where an error comes from.",
        version=lambda: version("capax"),
        help_on_error=False,
        suppress_keyboard_interrupt=False,
        config=refuse_fractions,
    )
    app.command(measure.app)
    app.command(sweep.sweep)
    app.command(watch.watch)
    app.command(laws.fit)
    app.command(laws.predict)
    app.command(plan.app)
    app.command(bounds.bounds)
    app.command(check.check)
    app.command(calibrate.calibrate)
    app.command(check_model.check_model)
    app.command(runs.runs)
    app.command(runs.merge)
    app.command(runs.recall)
    app.command(probe.probe)
    app.command(construct.app)
    app.command(saturation.saturation)
    app.command(report.report)
    app.command(report.figure)
    app.command(reproduce.reproduce)
    app.command(demo.demo)
    app.command(info.info)
    return app


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run one command and exit: 0 done, 2 bad input, 130 interrupted.

    1 for a run that could not be saved or trained, and for a ruler that is off.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    app = _app()
    try:
        app([argument for argument in arguments if argument != "--debug"], exit_on_error=False, print_error=False)
    except CycloptsError as error:
        _fail(error, USAGE, debug)
    except CapaxError as error:
        if isinstance(error, StoreWriteError) and error.unsaved is not None:
            print(error.unsaved.to_json())
        _fail(error, error.exit_code, debug)
    except KeyboardInterrupt:
        print("capax: interrupted; finished runs are saved", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    sys.exit(0)


def _fail(error: Exception, code: int, debug: bool) -> NoReturn:
    if debug:
        raise error
    flag = " (--extrapolate)" if isinstance(error, OutsideDomain) else ""
    print(f"capax: {' '.join(str(error).split())}{flag}", file=sys.stderr)
    sys.exit(code)
