"""The command line: `capax`."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from cyclopts import (
    App,
    CoercionError,
    CycloptsError,
    Group,
    MissingArgumentError,
    UnknownCommandError,
    UnusedCliTokensError,
)

from capax.cli import streams
from capax.cli.tokens import refuse_empty, refuse_fractions, refuse_huge, take_none_as_a_word
from capax.errors import OF_A_PLUGIN, CapaxError, OutputError, OutsideDomain, SpecError, StoreWriteError, one_line
from capax.interrupts import INTERRUPTED, Ended, ending_as_ctrl_c

USAGE = 2

PLUGINS = "CAPAX_PLUGINS"
"""The environment variable that names plugins for every command, as PATH names folders."""

COMMANDS = {
    "Measure": {
        "measure": ("measure:app", "Train a model on a task and count what it remembers."),
        "sweep": ("sweep:sweep", "Measure every run of a study file that its store lacks."),
        "watch": ("watch:watch", "Show a sweep while it runs."),
        "quantize": ("quantize:quantize", "Round kept weights to few bits, and count again what a byte of them holds."),
        "runs": ("runs:app", "List, show, export, merge or delete stored runs, and query kept memories."),
    },
    "Predict": {
        "fit": ("laws:fit", "Fit a law of capacity to measurements."),
        "predict": ("plan:predict_app", "Predict with a law how much an architecture memorizes."),
        "plan": ("plan:plan_app", "Choose an architecture that holds a target."),
        "size": ("size:size", "Say what a Hugging Face config holds, and whether facts fit."),
    },
    "Show": {
        "figure": ("figure:figure", "Draw one figure of stored runs."),
        "report": ("report:report", "Write stored runs as one HTML file."),
    },
    "Theory": {
        "bounds": ("bounds:bounds", "List the known bounds on what a transformer remembers."),
        "construct": ("construct:app", "Build weights that memorize as much as theory says, without training."),
        "check": ("check:app", "Check a model, the assumptions of a bound, or a trained layer's heads."),
    },
    "Trust": {
        "reproduce": ("reproduce:reproduce", "Run a paper's figures and tables again, and compare its claims."),
        "verify": ("verify:verify", "Check what a file of weights claims to remember or recognize."),
        "calibrate": ("calibrate:calibrate", "Measure systems of known capacity by the same protocols."),
        "demo": ("demo:demo", "Measure what six small networks hold, and draw it (under 3 minutes on two cores)."),
        "info": ("info:info", "Show versions, device and threads."),
        "completion": ("completion:completion", "Print a script that completes commands and flags in a shell."),
    },
}
"""Where each command is, and what it does. Its module is imported when it runs."""

OF_TASKS = ("measure", "construct")
"""Commands that have a command for each task."""


def import_command() -> None:
    """Import the module of the command that was given, where it is one: what is wrong with it shows when it runs."""
    homes = {name: home for members in COMMANDS.values() for name, (home, _) in members.items()}
    if (home := homes.get(next(iter(sys.argv[1:]), ""))) is not None:
        with suppress(Exception):
            import_module(f"capax.cli.{home.partition(':')[0]}")


def command_line(listed: bool = False) -> App:
    """The command line with all its commands.

    Args:
        listed: whether they will only be listed, for which none is imported.
    """
    app = App(
        name="capax",
        help="How much can attention remember? Measure, predict and plan the memory capacity of transformers.",
        help_epilogue="Every command takes --plugin FILE, a .py file with tasks or models of yours (more than once, or "
        f"in {PLUGINS}), and --debug, which shows where an error comes from. Pages (docs/…) are in the "
        "folder that `capax info` prints.",
        version=lambda: version("capax"),
        help_on_error=False,
        suppress_keyboard_interrupt=False,
        config=(refuse_empty, take_none_as_a_word, refuse_fractions, refuse_huge),
    )
    for place, (title, members) in enumerate(COMMANDS.items()):
        group = Group(title, sort_key=place)
        for name, (home, text) in members.items():
            shown = {"help": text} if listed else {}
            app.command(f"capax.cli.{home}", name=name, group=group, **shown)
    return app


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run one command and exit: 0 done, 2 bad input, 3 no plan, 130 interrupted (by SIGTERM 143, by SIGHUP 129).

    1 for what could not be written, for a run that could not be saved or trained, and for a calibration or a claim
    that failed.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in arguments
    with streams.for_json(as_json and not {"--help", "-h", "--version"}.intersection(arguments)):
        _run(arguments, as_json)


def _run(arguments: list[str], as_json: bool) -> NoReturn:
    debug = "--debug" in arguments
    try:
        streams.prepare(as_json)
        given = _load_plugins([argument for argument in arguments if argument != "--debug"])
        with ending_as_ctrl_c(), streams.warnings_of_figures():
            app = command_line(listed=given[:1] in ([], ["--help"], ["-h"]))
            app(given, exit_on_error=False, print_error=False, result_action="return_value")
        streams.stdout().flush()
    except (UnknownCommandError, UnusedCliTokensError) as error:  # its own words would import every command
        names = ", ".join(name for name in error.app or () if not name.startswith("-"))
        plugin = f", {OF_A_PLUGIN}" if error.app is not None and error.app.name[0] in OF_TASKS else ""
        allowed = f"one of {names}{plugin}" if names else "nothing more"
        _fail(SpecError(f"command: {allowed}, got {(error.unused_tokens or [''])[0]!r:.80}"), USAGE, debug)
    except MissingArgumentError as error:
        _fail(_missing(error), USAGE, debug)
    except CoercionError as error:
        _fail(_no_number(error) or error, USAGE, debug)
    except CycloptsError as error:
        _fail(error, USAGE, debug)
    except CapaxError as error:
        if isinstance(error, StoreWriteError) and error.unsaved is not None:
            with suppress(OSError):
                print(error.unsaved.to_json(), file=streams.stdout())
        _fail(error, error.exit_code, debug)
    except KeyboardInterrupt as error:
        line = "; ".join(["interrupted", *getattr(error, "__notes__", ())])
        _end(line, error.exit_code if isinstance(error, Ended) else INTERRUPTED)
    except OSError as error:
        if isinstance(error, BrokenPipeError) and error.filename is None:
            _end(None, OutputError.exit_code)
        _fail(OutputError(streams.reason(error)), OutputError.exit_code, debug)
    except MemoryError as error:
        why = f" ({error})" if str(error) else ""
        _fail(CapaxError(f"memory: not enough for this{why}"), 1, debug)
    except SystemExit as error:
        if not _of_rich(error):
            _fail(CapaxError(f"interrupted: a module or a plugin called sys.exit({error.code!r:.80})"), 1, debug)
        _end(None, OutputError.exit_code)
    sys.exit(0)


def _missing(error: MissingArgumentError) -> SpecError:
    """What lacks: an argument, or the value of a flag."""
    assert error.argument is not None
    name = error.argument.name.lstrip("-").replace("-", "_").lower()
    given = error.keyword is not None or any(token.keyword is not None for token in error.argument.tokens)
    return SpecError(f"{name}: {'needs a value, got none' if given else 'is required'}")


def _no_number(error: CoercionError) -> SpecError | None:
    """What should be a number, in the words of all other fields; None where something else was asked for."""
    kind = {int: "an integer", float: "a number"}.get(error.target_type or object)
    if kind is None or error.token is None or error.argument is None:
        return None
    name = error.argument.name.lstrip("-").replace("-", "_")
    return SpecError(f"{name}: should be {kind}, got {error.token.value!r:.80}")


def _of_rich(error: SystemExit) -> bool:
    """Whether rich ends the process, where nobody reads what it prints."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and Path(frames[-1].filename).parent.name == "rich"


def _load_plugins(arguments: list[str]) -> list[str]:
    """Load the files of `--plugin FILE`, wherever it stands: flags are made of the tasks and models that they bring.

    Returns:
        The arguments without it.

    Raises:
        SpecError: for a file that cannot be loaded.
    """
    rest, files = [], [name for name in os.environ.get(PLUGINS, "").split(os.pathsep) if name]
    words = iter(arguments)
    for word in words:
        flag, equals, name = word.partition("=")
        if flag != "--plugin":
            rest.append(word)
        elif name or (not equals and (name := next(words, ""))):
            files.append(name)
        else:
            raise SpecError("plugin: a .py file, got nothing")
    if files:
        from capax.specs.plugins import load_file  # loads pydantic, which `capax --help` does not need

        for name in files:
            load_file(name)
    return rest


def _fail(error: Exception, code: int, debug: bool) -> NoReturn:
    if debug:
        streams.settle()
        raise error
    _end(f"{one_line(error)}{' (--extrapolate)' if isinstance(error, OutsideDomain) else ''}", code)


def _end(line: str | None, code: int) -> NoReturn:
    """Print what is left to be printed and a line on stderr, as far as they can be, and exit.

    Without a line where nobody reads stdout: `capax … | head` has read all it wants.
    """
    streams.settle()
    if line is not None:
        streams.tell(f"capax: {line}")
    sys.exit(code)
