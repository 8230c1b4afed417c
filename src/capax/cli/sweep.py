"""`capax sweep`: a study file, run to its end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.progress import BarColumn, Progress, TextColumn

import capax
from capax.cli import output, streams
from capax.cli.flags import Flag, Json
from capax.cli.path import search_here
from capax.errors import SpecError, SweepFailed, printable, shown
from capax.results import LawAtTarget, SweepSummary
from capax.specs import Task
from capax.specs.plugins import resolve
from capax.specs.spec import positive, whole
from capax.sweeps.grid import read_study
from capax.text import amount, counted, duration, percent

if TYPE_CHECKING:
    from capax.sweeps.shards import Shard
    from capax.sweeps.under_way import SweepProgress, Watch

LOG_SECONDS = 10


def sweep(
    study: Path,
    /,
    *,
    store: Path | None = None,
    dry_run: Annotated[bool, Flag] = False,
    shard: str | None = None,
    workers: int | None = None,
    ray: str | None = None,
    submitit: str | None = None,
    submitit_parameters: str | None = None,
    device: str = "auto",
    gpus_per_run: float | None = None,
    adapt: Literal["capacity", "ecm", "power", "depth", "bits", "polynomial", "association"] | None = None,
    budget: float | None = None,
    target: str | None = None,
    retries: int = 1,
    fail_fast: Annotated[bool, Parameter(negative="--keep-going")] = False,
    yes: Annotated[bool, Flag] = False,
    quiet: Annotated[bool, Flag] = False,
    as_json: Json = False,
) -> None:
    """Measure every run of a study file that its store lacks.

    Start it again after any fault, and only the rest is done. Ctrl-C lets the runs in flight write their checkpoints
    and ends with code 130; a second one ends at once. SIGTERM and SIGHUP do the same, with code 143 and 129.

    Parameters
    ----------
    study
        A TOML file: tables task, model, training and protocol with fields of a base run, and grid with lists of values,
        such as n_heads = [1, 2], every combination of which is a run (docs/sweeps.md; examples/*.toml).
    store
        SQLite file of finished runs. [default: the study's own, or its name with .db]
    dry_run
        Count the runs that are missing, estimate their time and memory, and stop.
    shard
        Do one of so many equal shares of the runs, such as 3/16, in a store of its own; all together do every run once,
        on any machines, and `capax runs merge` joins their stores. [default store: study-03-of-16.db]
    workers
        Local processes, one torch thread each; with 1, this process alone. [default: one per core, at most 8]
    ray
        Do the runs as tasks of a Ray cluster: HOST:PORT, auto for the one that runs on this machine or that RAY_ADDRESS
        names, or local for one of its own (extra ray).
    submitit
        Do the runs as jobs of Slurm (slurm), or local to try it without a scheduler (extra submitit); --workers is then
        the most jobs in the queue, 64 when not given.
    submitit_parameters
        With --submitit: parameters of submitit, "timeout_min=240,mem_gb=4,slurm_partition=cpu".
    device
        Where to train: cpu, cuda (all GPUs of this machine, one process each), cuda:1 (its second), mps (Apple's, in
        float32 alone); auto takes cuda where there is one.
    gpus_per_run
        With --ray: the share of a GPU that a run takes; with 0.25, four share one. [default: 1]
    adapt
        Do only the runs that tell most of this law at the target, per second, until the budget is spent.
    budget
        With --adapt: seconds of training, summed over workers.
    target
        With --adapt: the architecture whose prediction is wanted, "n_layers=8,d_model=128"; what is not named is as in
        the study's largest run. [default: that run]
    retries
        How often a run is tried again whose process died or ran out of memory.
    fail_fast
        Stop when a run fails, instead of going on with the others (--keep-going).
    yes
        Allow more than a million runs.
    quiet
        No progress and no table.
    """
    search_here()
    found = read_study(study, allow_many=yes)
    mine = None if shard is None else resolve("capax.sweeps.shards:parse")(shard)
    place = store or _own_store(found.store, mine)
    _refuse_together(shard=shard, adapt=adapt, ray=ray, submitit=submitit)
    if submitit_parameters is not None and submitit is None:
        raise SpecError(f"submitit_parameters: needs --submitit, got {shown(submitit_parameters)}")
    if adapt is not None and budget is None:
        raise SpecError("adapt: needs --budget")
    for name, value in {"budget": budget, "target": target}.items():
        if adapt is None and value is not None:
            raise SpecError(f"{name}: needs --adapt, got {value}")
    if dry_run and adapt is not None:
        raise SpecError(f"dry_run: not with --adapt {adapt}, which chooses its runs on the way")
    for name, value in {"ray": ray, "submitit": submitit}.items():
        if dry_run and value is not None:
            raise SpecError(f"dry_run: not with --{name} {value}: it times the runs on the processes of this machine")
    if gpus_per_run is not None and ray is None:
        raise SpecError(f"gpus_per_run: needs --ray, got {gpus_per_run:g}")
    whole("retries", retries, least=0)
    if dry_run:
        seen = resolve("capax.sweeps.preview:preview")(found, place, workers=workers, device=device, shard=mine)
        output.emit(seen, lambda seen: print(seen.in_words()), as_json=as_json)
        return
    if ray is None and submitit is None:
        output.warn(device, *sorted({run.training.precision for run in found.runs}))
    began = time.monotonic()
    with ExitStack() as stack:
        show, state = stack.enter_context(progress_bar(hidden=quiet or as_json))
        options: dict[str, Any] = {"workers": workers, "device": device, "retries": retries, "progress": show}
        options["keep_going"] = not fail_fast
        options |= {"name": found.labels.name, "tags": found.labels.tags}
        if ray is not None:
            tasks = resolve("capax.sweeps.cluster:RayTasks")
            options["executor"] = stack.enter_context(tasks(ray, device, workers, gpus_per_run))
        if submitit is not None:
            jobs = resolve("capax.sweeps.batch:SubmititJobs")
            folder = place.with_name(f"{place.name}-submitit")
            given = _parameters(submitit_parameters)
            options["executor"] = stack.enter_context(jobs(folder, submitit, device, workers, given))
        wanted: dict[str, Any] = {}
        if adapt is None:
            results = capax.sweep(found.runs, place, shard=mine, **options)
        else:
            wanted = {"law": _law(adapt, found.runs[0].task), "target": _target(target)}
            start = resolve("capax.sweeps.adaptive:sweep_adaptively")
            results = start(found.runs, place, budget=budget, **wanted, **options)
        for _ in results:
            pass
    if adapt is not None and not state.done and not state.failed and state.stored < len(found.runs):
        left = counted(len(found.runs) - state.stored, "run")
        streams.tell(f"no run was begun: {left} left, none of which fits --budget {budget:g} and tells more of the law")
    known = resolve("capax.sweeps.target:known_at_target")(found.runs, place, **wanted) if adapt is not None else None
    summary = SweepSummary(
        study=str(study),
        store=str(place),
        runs=state.total or len(found.runs),
        stored=state.stored,
        done=state.done,
        failed=state.failed,
        seconds=time.monotonic() - began,
        law=known,
    )
    output.emit(summary, _show, as_json=as_json, quiet=quiet)
    if summary.failed:
        raise SweepFailed(f"{counted(summary.failed, 'run')} failed: capax runs --failed --store {place} says why")


def _refuse_together(**given: str | None) -> None:
    """Shards know of no driver; a sweep has one executor."""
    names = [name for name, value in given.items() if value is not None and (name != "adapt" or given["shard"])]
    if len(names) > 1:
        raise SpecError(f"{names[0]}: not with --{names[1]}, got {shown(given[names[0]])}")


def _parameters(text: str | None) -> dict[str, int | float | str]:
    """The values of "timeout_min=240,slurm_partition=cpu": numbers where they are numbers."""
    found: dict[str, int | float | str] = {}
    for name, value in _pairs("submitit_parameters", text) if text else ():
        found[name] = value
        for kind in (float, int):
            with suppress(ValueError):
                found[name] = kind(value)
    return found


def _pairs(field: str, text: str) -> Iterator[tuple[str, str]]:
    """The parts of "name=value,name=value"."""
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise SpecError(f"{field}: name=value separated by commas, got {shown(text)}")
        yield name, value


def _own_store(store: Path, shard: Shard | None) -> Path:
    return store if shard is None else resolve("capax.sweeps.shards:beside")(store, shard)


def _show(summary: SweepSummary) -> None:
    print(
        f"{counted(summary.done, 'run')} done, {summary.stored} were there, {summary.failed} failed; "
        f"{printable(summary.store)} ({summary.seconds:.0f} s)"
    )
    if summary.law is not None:
        print(_at_target(summary.law))


def _at_target(law: LawAtTarget) -> str:
    """What a law says of the target, in words."""
    where = ", ".join(f"{name} {value}" for name, value in law.target.items())
    of = f"law {law.law}, {counted(law.measurements, 'measurement')}"
    if law.value is None:
        return f"{of}: too few for a fit\nat the target: {where}"
    unit = "bit" if law.counts == "bits" else ""
    says = f"{amount(law.value, unit)}{'' if unit else f' {law.counts}'}"
    ends = law.interval
    known = (
        "no interval, as they leave it open"
        if ends is None
        else f"{ends.ends(amount)} ({percent(ends.level)}, of {ends.of})"
    )
    return f"{of}: {says}, {known}\nat the target{'' if law.inside_domain else ', outside its domain'}: {where}"


def _law(name: str, task: Task) -> Any:
    """A law by its name; options that are fields of the task, such as `loss`, are the task's."""
    kind = resolve("capax.laws.files:LAWS")[name]
    own = type(task).model_fields
    return kind(**{option: getattr(task, option) for option in kind().get_params() if option in own})


def _target(text: str | None) -> dict[str, list[float | str]] | None:
    """The columns of "seq_len=32,ffn=none"."""
    if text is None:
        return None
    found: dict[str, list[float | str]] = {}
    for name, value in _pairs("target", text):
        if name in found:
            raise SpecError(f"target: {name} once, got {text!r}")
        try:
            found[name] = [positive("target", float(value))]
        except ValueError:
            found[name] = [value]
    return found


class _State:
    """The last state of a sweep."""

    total = stored = done = failed = 0


@contextmanager
def progress_bar(hidden: bool) -> Iterator[tuple[Watch, _State]]:
    """A callback that keeps the last state, and shows it: a bar on a terminal, a line now and then in a log file."""
    state, screen, told = _State(), output.console(stderr=True), 0.0

    def keep(seen: SweepProgress) -> None:
        state.total, state.stored, state.done, state.failed = seen.total or 0, seen.stored, seen.done, seen.failed

    def log(seen: SweepProgress) -> None:
        nonlocal told
        keep(seen)
        over = seen.stored + seen.done + seen.failed == seen.total
        if over or (seen.running and time.monotonic() - told > LOG_SECONDS):
            told = time.monotonic()
            streams.tell(_in_words(seen))

    if hidden or not screen.is_terminal:
        yield keep if hidden else log, state
        return
    column = TextColumn("{task.fields[state]}", markup=False)
    with Progress(BarColumn(24), column, console=screen, transient=True) as bar:
        task = bar.add_task("", state="")

        def draw(seen: SweepProgress) -> None:
            keep(seen)
            finished = seen.stored + seen.done + seen.failed
            bar.update(task, total=seen.total, completed=finished, state=_in_words(seen))

        yield draw, state


def _in_words(seen: SweepProgress) -> str:
    left = "" if seen.seconds_left is None else f" · {duration(seen.seconds_left)} left"
    finished = seen.stored + seen.done
    done = counted(finished, "run") if seen.total is None else f"{finished} of {seen.total} runs"
    return f"{done} done · {seen.running} running · {seen.failed} failed · {seen.memorized} items recalled{left}"
