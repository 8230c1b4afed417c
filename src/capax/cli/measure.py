"""`capax measure`: a task, a model, a training and a protocol as flags."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Group, Parameter
from pydantic.fields import FieldInfo

from capax.errors import SpecError
from capax.specs import PROTOCOLS, Mac, Mls, Sequences, Shatter, Training, Transformer

app = App(name="measure", help="Train a model on a task and count what it remembers.")

GROUPS = {
    name: Group(name, sort_key=place) for place, name in enumerate(["Task", "Model", "Training", "Protocol", "Run"])
}
Fixed = Parameter(parse=False)
Flag = Parameter(negative="", group=GROUPS["Run"])


class SequencesFlags(Sequences):
    """The task's fields as flags, without those that a command line has no use for."""

    task: Annotated[Literal["sequences"], Fixed] = "sequences"
    library_sha256: Annotated[str | None, Fixed] = None


class TransformerFlags(Transformer):
    """The model's fields as flags."""

    model: Annotated[Literal["transformer"], Fixed] = "transformer"


def _of(protocol: str, field: FieldInfo) -> Parameter:
    text = f"{field.description} Only for {protocol}. [default: {field.default}]"
    return Parameter(help=text, group=GROUPS["Protocol"])


def _protocol(name: str, given: dict[str, Any]) -> Mac | Mls | Shatter:
    fields = {field: value for field, value in given.items() if value is not None}
    foreign = [field for field in fields if field not in PROTOCOLS[name].model_fields]
    if foreign:
        raise SpecError(f"{foreign[0]}: not a field of protocol {name!r}")
    return PROTOCOLS[name](**fields)


@app.command
def sequences(
    *,
    task: Annotated[SequencesFlags | None, Parameter(name="*", group=GROUPS["Task"])] = None,
    model: Annotated[TransformerFlags | None, Parameter(name="*", group=GROUPS["Model"])] = None,
    training: Annotated[Training | None, Parameter(name="*", group=GROUPS["Training"])] = None,
    protocol: Annotated[Literal["mac", "mls", "shatter"], Parameter(group=GROUPS["Protocol"])] = "mac",
    restarts: Annotated[int | None, _of("mac", Mac.model_fields["restarts"])] = None,
    trials: Annotated[int | None, _of("shatter", Shatter.model_fields["trials"])] = None,
    first_size: Annotated[int | None, _of("mls", Mls.model_fields["first_size"])] = None,
    seeds: Annotated[int | None, _of("mls", Mls.model_fields["seeds"])] = None,
    max_trainings: Annotated[int | None, _of("mls", Mls.model_fields["max_trainings"])] = None,
    tolerance: Annotated[float | None, _of("mls", Mls.model_fields["tolerance"])] = None,
    seed: Annotated[int, Parameter(group=GROUPS["Run"])] = 0,
    device: Annotated[Literal["auto", "cpu", "cuda"], Parameter(group=GROUPS["Run"])] = "auto",
    workers: Annotated[int | None, Parameter(group=GROUPS["Run"])] = None,
    threads: Annotated[int, Parameter(group=GROUPS["Run"])] = 1,
    store: Annotated[Path, Parameter(group=GROUPS["Run"])] = Path("capax.db"),
    fresh: Annotated[bool, Flag] = False,
    keep_weights: Annotated[bool, Flag] = False,
    quiet: Annotated[bool, Flag] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative="", group=GROUPS["Run"])] = False,
) -> None:
    """Train transformers on sequences and count how many they memorize.

    Defaults are those of Härmä et al. 2024 where the paper states them; "ours" marks the others.

    Parameters
    ----------
    protocol
        mac: best count of several restarts; mls: largest library memorized whole; shatter: epochs until it is.
    seed
        Names all random draws; the same seed gives the same result.
    device
        Where to train; auto takes a GPU where there is one.
    workers
        Worker processes on a CPU. [default: one per core, at most 8]
    threads
        Torch threads per process.
    store
        SQLite file of finished runs; a run that is there is shown, not repeated.
    fresh
        Measure again, and replace a stored run.
    keep_weights
        Keep the best restart's weights beside the store, for `capax recall`.
    quiet
        No progress and no table.
    as_json
        Print exactly one JSON object (docs/schemas/measurement.json).
    """
    chosen = _protocol(
        protocol,
        {
            "restarts": restarts,
            "trials": trials,
            "first_size": first_size,
            "seeds": seeds,
            "max_trainings": max_trainings,
            "tolerance": tolerance,
        },
    )
    from capax import machine
    from capax.cli import output
    from capax.measures.measure import measure

    with output.progress_bar(hidden=quiet) as progress:
        run = measure(
            Sequences(**_given(task)),
            Transformer(**_given(model)),
            training,
            protocol=chosen,
            seed=seed,
            device=device,
            workers=min(machine.cores(), 8) if workers is None else workers,
            threads=threads,
            store=store,
            fresh=fresh,
            keep_weights=keep_weights,
            progress=progress,
        )
    if as_json:
        print(run.to_json())
    elif not quiet:
        output.show(run)


def _given(flags: SequencesFlags | TransformerFlags | None) -> dict[str, Any]:
    """The fields that were set, for the spec itself."""
    return {} if flags is None else {name: getattr(flags, name) for name in flags.model_fields_set}
