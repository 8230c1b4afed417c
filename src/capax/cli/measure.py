"""`capax measure`: a task, a model, a training and a protocol as flags."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Group, Parameter
from pydantic import Field, create_model
from pydantic.fields import FieldInfo

from capax.cli.numbers import integers
from capax.cli.path import search_here
from capax.errors import SpecError
from capax.inputs import json_object
from capax.specs import (
    PROTOCOLS,
    Associations,
    AssociativeAttention,
    Budget,
    KeyQueryChannel,
    Mac,
    Mls,
    Model,
    Module,
    Relations,
    Sequences,
    Shatter,
    Spec,
    Task,
    Training,
    Transformer,
)

Protocol = Mac | Mls | Shatter | Budget

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


InModel = Parameter(name="*", group=GROUPS["Model"])


@dataclass(frozen=True)
class ModuleFlags:
    """A user's module in place of the transformer."""

    module: Annotated[
        str | None,
        Parameter(
            help="A torch.nn.Module of yours instead: package.module:factory, found from the working directory, too "
            "(docs/modules.md).",
            group=GROUPS["Model"],
        ),
    ] = None
    arguments: Annotated[
        str | None,
        Parameter(help="With --module: what the factory is called with, a JSON object.", group=GROUPS["Model"]),
    ] = None

    def spec(self, transformer: Spec | None) -> Module | None:
        """The module; None where none is named.

        Raises:
            SpecError: for arguments that are no JSON object, or beside flags of the transformer.
        """
        if self.module is None:
            if self.arguments is not None:
                raise SpecError("arguments: only with --module")
            return None
        if transformer is not None and transformer.model_fields_set:
            raise SpecError(f"{sorted(transformer.model_fields_set)[0]}: not with --module, whose arguments say it")
        given = json_object(self.arguments or "{}", "arguments", SpecError)
        search_here()
        return Module(factory=self.module, arguments=given)


class AssociationsFlags(Associations):
    """The task's fields as flags, without those that a command line has no use for."""

    task: Annotated[Literal["associations"], Fixed] = "associations"
    library_sha256: Annotated[str | None, Fixed] = None


class AssociativeAttentionFlags(AssociativeAttention):
    """The model's fields as flags."""

    model: Annotated[Literal["associative_attention"], Fixed] = "associative_attention"


class RelationsFlags(Relations):
    """The task's fields as flags, without those that a command line has no use for."""

    task: Annotated[Literal["relations"], Fixed] = "relations"
    library_sha256: Annotated[str | None, Fixed] = None


class KeyQueryChannelFlags(KeyQueryChannel):
    """The model's fields as flags, but for the heads, of which a search takes several numbers."""

    model: Annotated[Literal["key_query_channel"], Fixed] = "key_query_channel"
    n_heads: Annotated[int, Fixed] = 1


def _training_of(task: type[Task]) -> type[Training]:
    """The training's fields as flags that show a task's defaults."""
    usual: dict[str, Any] = {
        name: (field.annotation, Field(default=task.usual_training[name], description=field.description))
        for name, field in Training.model_fields.items()
        if name in task.usual_training
    }
    return create_model(f"{task.__name__}Training", __base__=Training, **usual)


AssociationsTraining: Any = _training_of(Associations)
RelationsTraining: Any = _training_of(Relations)


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

    def spec(self) -> Protocol:
        """The protocol.

        Raises:
            SpecError: for a field of another protocol.
        """
        return _protocol(self.protocol, asdict(self))


@dataclass(frozen=True)
class ChannelProtocolFlags:
    """The protocols of relations, and the fields of each."""

    protocol: Annotated[
        Literal["mac", "budget", "shatter"],
        Parameter(
            help="mac: best of several restarts; budget: smallest total key dimension that suffices; shatter: steps "
            "until the graph is recognized.",
            group=GROUPS["Protocol"],
        ),
    ] = "mac"
    restarts: Annotated[
        int | None,
        Parameter(
            help="mac: restarts on one graph [default: 5]; budget: trainings of a head size, each of a graph of its "
            "own [default: 3].",
            group=GROUPS["Protocol"],
        ),
    ] = None
    target_f1: Annotated[float | None, _of("budget", Budget.model_fields["target_f1"])] = None
    criterion: Annotated[Literal["half", "mean"] | None, _of("budget", Budget.model_fields["criterion"])] = None
    max_trainings: Annotated[int | None, _of("budget", Budget.model_fields["max_trainings"])] = None
    trials: Annotated[int | None, _of("shatter", Shatter.model_fields["trials"])] = None

    def spec(self, **fields: Any) -> Protocol:
        """The protocol, with further fields.

        Raises:
            SpecError: for a field of another protocol.
        """
        return _protocol(self.protocol, asdict(self) | fields)


def _protocol(name: str, fields: dict[str, Any]) -> Protocol:
    given = {field: value for field, value in fields.items() if field != "protocol" and value is not None}
    foreign = [field for field in given if field not in PROTOCOLS[name].model_fields]
    if foreign:
        raise SpecError(f"{foreign[0]}: not a field of protocol {name!r}")
    return PROTOCOLS[name](**given)


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
        _run(
            "Keep the best restart's weights beside the store, for `capax recall`, `probe` and `saturation`.",
            negative="",
        ),
    ] = False
    sensitivity: Annotated[
        str | None,
        _run(
            "Measure again with one choice at a time made as other papers make it, or as given: "
            '"lr,loss,batch_size=64:full,patience=none" (docs/sensitivity.md).'
        ),
    ] = None
    figure: Annotated[Path | None, _run("With --sensitivity: where to draw it (.png or .pdf).")] = None
    quiet: Annotated[bool, _run("No progress and no table.", negative="")] = False
    as_json: Annotated[
        bool,
        _run(
            "Print exactly one JSON object (docs/schemas/measurement.json; with --sensitivity sensitivity.json).",
            name="--json",
            negative="",
        ),
    ] = False


InTask, InTraining = (Parameter(name="*", group=GROUPS[name]) for name in ("Task", "Training"))
Flat = Parameter(name="*")


@app.command
def sequences(
    *,
    task: Annotated[SequencesFlags | None, InTask] = None,
    model: Annotated[TransformerFlags | None, InModel] = None,
    module: Annotated[ModuleFlags | None, Flat] = None,
    training: Annotated[Training | None, InTraining] = None,
    protocol: Annotated[ProtocolFlags | None, Flat] = None,
    run: Annotated[RunFlags | None, Flat] = None,
) -> None:
    """Train transformers, or a module of yours, on sequences and count how many they memorize.

    Defaults are those of Härmä et al. 2024 where the paper states them; "ours" marks the others.
    """
    learner = (module or ModuleFlags()).spec(model) or Transformer(**given(model))
    _measure(Sequences(**given(task)), learner, Training(**given(training)), _chosen(protocol), run)


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
    learner = AssociativeAttention(**given(model))
    _measure(Associations(**given(task)), learner, Training(**given(training)), _chosen(protocol), run)


@app.command
def relations(
    *,
    n_heads: Annotated[
        str, Parameter(group=GROUPS["Model"], help='Heads; for budget, the head counts to choose from: "1,2,4,8".')
    ] = "1",
    task: Annotated[RelationsFlags | None, InTask] = None,
    model: Annotated[KeyQueryChannelFlags | None, InModel] = None,
    training: Annotated[RelationsTraining | None, InTraining] = None,
    protocol: Annotated[ChannelProtocolFlags | None, Flat] = None,
    run: Annotated[RunFlags | None, Flat] = None,
) -> None:
    """Train key-query channels to recognize the edges of a graph, or search for the key dimension that they need.

    The paper's graph recognition (Adler 2025); its training is not known to us, so its defaults are ours.
    """
    counts = integers("n_heads", n_heads)
    flags = protocol or ChannelProtocolFlags()
    searched = flags.protocol == "budget"
    if not searched and len(counts) > 1:
        raise SpecError(f"n_heads: several only for protocol 'budget', got {n_heads!r}")
    heads: dict[str, Any] = {} if searched else {"n_heads": counts[0]}
    chosen = flags.spec(**({"head_counts": counts} if searched else {}))
    learner = KeyQueryChannel(**given(model), **heads)
    _measure(Relations(**given(task)), learner, Training(**given(training)), chosen, run)


def _measure(task: Task, model: Model, training: Training, protocol: Protocol, run: RunFlags | None) -> None:
    flags = run or RunFlags()
    from capax import devices, machine
    from capax.cli import output, sensitivity
    from capax.protocols.measure import measure

    if flags.sensitivity is not None:
        sensitivity.run(task, model, training, protocol, flags)
        return
    if flags.figure is not None:
        raise SpecError("figure: only with --sensitivity")
    output.warn(devices.caveat(training.precision, devices.choose_device(flags.device)))
    with output.progress_bar(hidden=flags.quiet) as progress:
        found = measure(
            task,
            model,
            training,
            protocol=protocol,
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


def _chosen(protocol: ProtocolFlags | None) -> Protocol:
    return (protocol or ProtocolFlags()).spec()


def given(flags: Spec | None) -> dict[str, Any]:
    """The fields that were set, for the spec itself."""
    return {} if flags is None else {name: getattr(flags, name) for name in flags.model_fields_set}
