"""`capax measure`: a command for every task that is registered, with its fields as flags."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

import capax
from capax import machine
from capax.cli import measurement, output, progress, sensitivity
from capax.cli.flags import GROUPS, Flag, Json, Part, Tags, command, first_line, made, tasks
from capax.errors import SpecError
from capax.protocols.measure import run_of
from capax.specs import Model, Task, Training
from capax.specs.papers import PAPERS, as_in
from capax.specs.protocols import Protocol

HELP = "Train a model on a task and count what it remembers."


def _measure(
    task: Task,
    model: Model,
    training: Training,
    protocol: Protocol,
    *,
    paper: str | None = None,
    seed: int = 0,
    name: str | None = None,
    tags: Tags = (),
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
    workers: int | None = None,
    threads: int = 1,
    store: Path = Path("capax.db"),
    fresh: Annotated[bool, Flag] = False,
    keep_weights: Annotated[bool, Flag] = False,
    vary: Annotated[str | None, Parameter(name="--sensitivity")] = None,
    figure: Path | None = None,
    quiet: Annotated[bool, Flag] = False,
    as_json: Json = False,
) -> None:
    """Train a model on a task and count what it remembers.

    Parameters
    ----------
    paper
        harma2024 (sequences) or mahdavi2024 (associations): what is not given is as that paper states it. [default: the
        defaults on this page]
    seed
        Names all random draws; the same seed gives the same result.
    name
        What you call the run; it is no part of its key.
    device
        Where to train; auto takes a GPU of CUDA where there is one, mps is Apple's (float32 alone).
    workers
        Worker processes on a CPU. [default: one per core, at most 8]
    threads
        Torch threads per process.
    store
        SQLite file of finished runs; a run that is there is shown, not repeated.
    fresh
        Measure again, and replace a stored run.
    keep_weights
        Keep the weights of all restarts beside the store, for `capax runs recall`, `runs probe`, `check saturation` and
        `quantize`; all but the last take those of the best.
    vary
        Measure again with one choice at a time made as other papers make it, or as given:
        "lr,loss,batch_size=64:full,patience=none" (docs/sensitivity.md).
    figure
        With --sensitivity: where to draw it (.png or .pdf).
    quiet
        No progress and no table.
    """
    if paper is not None:
        task, model, training, protocol = as_in(paper, task, model, training, protocol)
    options: dict[str, Any] = {
        "protocol": protocol,
        "seed": seed,
        "device": device,
        "workers": min(machine.cores(), 8) if workers is None else workers,
        "threads": threads,
        "store": store,
        "fresh": fresh,
    }
    if vary is not None:
        if keep_weights:
            raise SpecError("keep_weights: not with --sensitivity; measure the base alone to keep its weights")
        if name is not None or tags:
            raise SpecError(f"{'tag' if name is None else 'name'}: not with --sensitivity, whose runs are many")
        sensitivity.run((task, model, training), vary, options, figure=figure, quiet=quiet, as_json=as_json)
        return
    if figure is not None:
        raise SpecError("figure: only with --sensitivity")
    output.warn(device, training.precision)
    run = run_of(task, model, training, protocol, None, seed)
    options |= {"name": name, "tags": tags, "keep_weights": keep_weights}
    with progress.training(hidden=quiet, about=partial(measurement.about, run)) as show:
        found = capax.measure(task, model, training, progress=show, **options)
    output.emit(found, measurement.show, as_json=as_json, quiet=quiet)


def _app() -> App:
    made = App(name="measure", help=HELP)
    for tag, kind in tasks().items():
        # By its name here: the flags of the others are not made.
        made.command(f"{__name__}:{tag}", name=tag, help=first_line(kind), group_parameters=GROUPS["Run"])
    return made


def _of(kind: type[Task]) -> Callable[..., None]:
    parts = Part.task(kind), Part.model(kind), Part.training(kind), Part.protocol(kind)
    stated = any(task == kind.tag() for paper in PAPERS.values() for task, _ in paper)
    return command(_measure, *parts, without=() if stated else ("paper",))


def __getattr__(name: str) -> Any:
    return made(app=_app, **{tag: partial(_of, kind) for tag, kind in tasks().items()})(name)
