"""`capax construct`: weights that are built, not trained."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Signature, signature
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from capax.cli import output, progress
from capax.cli.flags import GROUPS, Json, Part, command, first_line, made, tasks
from capax.specs import Model, Task
from capax.specs.plugins import resolve
from capax.theory.claims.file import check_path
from capax.theory.construct.construct import Constructor, Report, construct

HELP = "Build weights that memorize as much as theory says, without training."


Save = Annotated[
    Path | None,
    Parameter(
        help="Where to write the weights with their data and what they reach (.safetensors), for capax verify.",
        validator=lambda _, path: path and check_path(path),  # before the specs look into the user's files
    ),
]


def _construct(
    task: Task,
    model: Model,
    *,
    seed: Annotated[int, Parameter(help="Names all random draws; the same seed gives the same weights.")] = 0,
    save: Save = None,
    as_json: Json = False,
    **options: Any,
) -> None:
    with progress.under_way():
        built = construct(task, model, seed=seed, **options)
    if save is not None:
        built.save(save)
    output.emit(built.report, _show, as_json=as_json, weights=save)


def _command(kind: type[Task], constructor: Constructor) -> Callable[..., None]:
    """The command of a task, whose options are those of its construction and those of every one."""

    def run(task: Task, model: Model, **options: Any) -> None:
        _construct(task, model, **options)

    *common, _ = signature(_construct, eval_str=True).parameters.values()
    every = [*common[:2], *constructor.options.values(), *common[2:]]
    run.__signature__ = Signature(every)  # type: ignore[attr-defined]
    run.__doc__ = constructor.build.__doc__
    return command(
        run,
        Part("Task", {"": kind}, usual=constructor.follows, only=constructor.fields),
        Part("Model", {"": kind.learner}, usual=constructor.follows, only=constructor.sizes),
    )


def _app() -> App:
    app = App(name="construct", help=HELP)
    for tag, kind in tasks().items():
        if kind.constructor is not None:
            constructor = resolve(kind.constructor)
            app.command(
                _command(kind, constructor),
                name=tag,
                help=first_line(constructor.build),
                group_parameters=GROUPS["Run"],
            )
    return app


__getattr__ = made(app=_app)


def _show(found: Report) -> None:
    screen = output.console()
    for line in found.lines():
        screen.print(line, soft_wrap=True)
