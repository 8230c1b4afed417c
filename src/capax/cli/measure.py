"""`capax measure`: a task, a model, a training and a protocol as flags."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Group, Parameter
from pydantic import Field, create_model
from pydantic.fields import FieldInfo

from capax.errors import SpecError
from capax.specs import (
    PROTOCOLS,
    Associations,
    AssociativeAttention,
    Budget,
    Mac,
    Mls,
    Model,
    Sequences,
    Shatter,
    Spec,
    Task,
    Training,
    Transformer,
)
from capax.specs.run import TRAININGS

app = App(name="measure", help="Train a model on a task and count what it remembers.")

GROUPS = {
    name: Group(name, sort_key=place) for place, name in enumerate(["Task", "Model", "Training", "Protocol", "Run"])
}
Fixed = Parameter(parse=False)


class SequencesFlags(Sequences):
    """The task's fields as flags, without those that a command line has no use for."""

    task: Annotated[Literal["sequences"], Fixed] = "sequences"
    library_sha256: Annotated[str | None, Fixed] = None


class TransformerFlags(Transformer):
    """The model's fields as flags."""

    model: Annotated[Literal["transformer"], Fixed] = "transformer"


class AssociationsFlags(Associations):
    """The task's fields as flags, without those that a command line has no use for."""

    task: Annotated[Literal["associations"], Fixed] = "associations"
    library_sha256: Annotated[str | None, Fixed] = None


class AssociativeAttentionFlags(AssociativeAttention):
    """The model's fields as flags."""

    model: Annotated[Literal["associative_attention"], Fixed] = "associative_attention"


def _training_of(task: type[Spec]) -> type[Training]:
    """The training's fields as flags that show a task's defaults."""
    usual: dict[str, Any] = {
        name: (field.annotation, Field(default=TRAININGS[task][name], description=field.description))
        for name, field in Training.model_fields.items()
        if name in TRAININGS[task]
    }
    return create_model(f"{task.__name__}Training", __base__=Training, **usual)


AssociationsTraining: Any = _training_of(Associations)


def _of(protocol: str, field: FieldInfo) -> Parameter:
    text = f"{field.description} Only for {protocol}. [default: {field.default}]"
    return Parameter(help=text, group=GROUPS["Protocol"])


def _run(text: str, **options: Any) -> Parameter:
    return Parameter(help=text, group=GROUPS["Run"], **options)


@dataclass(frozen=True)
class ProtocolFlags:
    """The protocol, and the fields of every protocol."""

    protocol: Annotated[
        Literal["mac", "mls", "shatter"],
        Parameter(
            help="mac: best count of several restarts; mls: largest library memorized whole; shatter: epochs until it "
            "is.",
            group=GROUPS["Protocol"],
        ),
    ] = "mac"
    restarts: Annotated[int | None, _of("mac", Mac.model_fields["restarts"])] = None
    trials: Annotated[int | None, _of("shatter", Shatter.model_fields["trials"])] = None
    first_size: Annotated[int | None, _of("mls", Mls.model_fields["first_size"])] = None
    seeds: Annotated[int | None, _of("mls", Mls.model_fields["seeds"])] = None
    max_trainings: Annotated[int | None, _of("mls", Mls.model_fields["max_trainings"])] = None
    interval_width: Annotated[float | None, _of("mls", Mls.model_fields["interval_width"])] = None

    def spec(self) -> Mac | Mls | Shatter | Budget:
        """The protocol.

        Raises:
            SpecError: for a field of another protocol.
        """
        given = {name: value for name, value in asdict(self).items() if name != "protocol" and value is not None}
        kind = PROTOCOLS[self.protocol]
        foreign = [name for name in given if name not in kind.model_fields]
        if foreign:
            raise SpecError(f"{foreign[0]}: not a field of protocol {self.protocol!r}")
        return kind(**given)


@dataclass(frozen=True)
class RunFlags:
    """What does not change a result but its seed, and where it is kept and shown."""

    seed: Annotated[int, _run("Names all random draws; the same seed gives the same result.")] = 0
    device: Annotated[Literal["auto", "cpu", "cuda"], _run("Where to train; auto takes a GPU where there is one.")] = (
        "auto"
    )
    workers: Annotated[int | None, _run("Worker processes on a CPU. [default: one per core, at most 8]")] = None
    threads: Annotated[int, _run("Torch threads per process.")] = 1
    store: Annotated[Path, _run("SQLite file of finished runs; a run that is there is shown, not repeated.")] = Path(
        "capax.db"
    )
    fresh: Annotated[bool, _run("Measure again, and replace a stored run.", negative="")] = False
    keep_weights: Annotated[
        bool,
        _run("Keep the best restart's weights beside the store, for `capax recall` and `saturation`.", negative=""),
    ] = False
    quiet: Annotated[bool, _run("No progress and no table.", negative="")] = False
    as_json: Annotated[
        bool, _run("Print exactly one JSON object (docs/schemas/measurement.json).", name="--json", negative="")
    ] = False


InTask, InModel, InTraining = (Parameter(name="*", group=GROUPS[name]) for name in ("Task", "Model", "Training"))
Flat = Parameter(name="*")


@app.command
def sequences(
    *,
    task: Annotated[SequencesFlags | None, InTask] = None,
    model: Annotated[TransformerFlags | None, InModel] = None,
    training: Annotated[Training | None, InTraining] = None,
    protocol: Annotated[ProtocolFlags | None, Flat] = None,
    run: Annotated[RunFlags | None, Flat] = None,
) -> None:
    """Train transformers on sequences and count how many they memorize.

    Defaults are those of Härmä et al. 2024 where the paper states them; "ours" marks the others.
    """
    _measure(Sequences(**_given(task)), Transformer(**_given(model)), Training(**_given(training)), protocol, run)


@app.command
def associations(
    *,
    task: Annotated[AssociationsFlags | None, InTask] = None,
    model: Annotated[AssociativeAttentionFlags | None, InModel] = None,
    training: Annotated[AssociationsTraining | None, InTraining] = None,
    protocol: Annotated[ProtocolFlags | None, Flat] = None,
    run: Annotated[RunFlags | None, Flat] = None,
) -> None:
    """Train attention layers on (context, query) -> label examples and count how many they memorize.

    Defaults are those of the published code of Mahdavi et al. 2024, where it has one value; "ours" marks the others. A
    budget that is given (--max-epochs, --max-steps) takes the place of the published one.
    """
    learner = AssociativeAttention(**_given(model))
    _measure(Associations(**_given(task)), learner, Training(**_given(training)), protocol, run)


def _measure(
    task: Task, model: Model, training: Training, protocol: ProtocolFlags | None, run: RunFlags | None
) -> None:
    chosen, flags = (protocol or ProtocolFlags()).spec(), run or RunFlags()
    from capax import machine
    from capax.cli import output
    from capax.measures.measure import measure

    with output.progress_bar(hidden=flags.quiet) as progress:
        found = measure(
            task,
            model,
            training,
            protocol=chosen,
            seed=flags.seed,
            device=flags.device,
            workers=min(machine.cores(), 8) if flags.workers is None else flags.workers,
            threads=flags.threads,
            store=flags.store,
            fresh=flags.fresh,
            keep_weights=flags.keep_weights,
            progress=progress,
        )
    if flags.as_json:
        print(found.to_json())
    elif not flags.quiet:
        output.show(found)


def _given(flags: Spec | None) -> dict[str, Any]:
    """The fields that were set, for the spec itself."""
    return {} if flags is None else {name: getattr(flags, name) for name in flags.model_fields_set}
