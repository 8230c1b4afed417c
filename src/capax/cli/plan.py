"""`capax predict` and `capax plan`: a law asked, and inverted. The flags are the sizes of a task and of its models."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal, get_args

from cyclopts import App, Parameter

from capax.cli import output
from capax.cli.flags import GROUPS, Flag, Json, made, tasks
from capax.cli.numbers import integers
from capax.cli.plan_shown import show_bits, show_plan, show_prediction, show_verification
from capax.cli.planned import Kept, Seed, Workers, emit, verification
from capax.errors import LawError, NoPlan, shown
from capax.laws.files import DEFAULT, LAWS, load_law, reference_of
from capax.laws.law import Law
from capax.planning.cost import Accelerator
from capax.planning.plan import plan
from capax.planning.predict import predict as ask
from capax.planning.question import follows
from capax.planning.results import BitsFrontier, Frontier, Precision, Target
from capax.planning.verify import refuse_unverified, verify_plan
from capax.results import LEVEL
from capax.specs import Model, Task
from capax.specs.plugins import resolve

Flags = Mapping[str, tuple[Any, str]]
"""Hints and help of flags, by their names."""


def _predict(
    kind: type[Any],
    sizes: Mapping[str, Any],
    *,
    size: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    law: str | None = None,
    level: float = LEVEL,
    extrapolate: bool | None = None,
    as_json: Json = False,
) -> None:
    """How many items an architecture holds, or what it needs for them, with the interval of a new measurement.

    Sizes that all the law's data had in common may be left out.

    Parameters
    ----------
    size
        A size that has no flag, such as an argument of your module: name=value; may be given more than once.
    law
        A file of `capax fit --out`; reference (reference:NAME), fitted to the study that ships with capax; or
        published:harma2024. [default: the one that ships for the task; required where none does]
    level
        Level of the interval.
    extrapolate
        Answer outside the domain of the law, too. [default: only with the law of capacity]
    """
    asked = _law(kind, law)
    given = _with_further(sizes, size, single=True)
    found = ask(asked, level=level, extrapolate=extrapolate, **given, **_another(asked, kind))
    output.emit(found, lambda found: show_prediction(found, asked, kind.unit), as_json=as_json)


def _plan(
    kind: type[Any],
    sizes: Mapping[str, Any],
    *,
    size: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    probability: float = 0.9,
    multiple: int | None = None,
    budget_parameters: int | None = None,
    budget_bytes: int | None = None,
    budget_hours: float | None = None,
    precision: Precision = "float32",
    exposures: int | None = None,
    accelerator: Accelerator | None = None,
    target: Target = "parameters",
    law: str | None = None,
    extrapolate: bool | None = None,
    verify: Annotated[bool, Flag] = False,
    seed: Seed = None,
    workers: Workers = None,
    store: Kept = None,
    as_json: Json = False,
) -> None:
    """The architectures that hold so many items, smallest first: the smallest of each depth (and so on).

    Of the model's sizes several values may be given, "1,2,4"; without them those of the law's domain are tried or, with
    a law in bits, usual depths and widths of any size. Without --items such a law says what a budget holds.

    Parameters
    ----------
    size
        A size that has no flag, such as an argument of your module: name=1,2,4; may be given more than once.
    probability
        Probability with which a new measurement is to reach the target.
    multiple
        What the tried widths of a transformer, or head sizes of an attention layer, are multiples of. [default: 8, 4]
    budget_parameters
        Most trainable parameters.
    budget_bytes
        Most bytes of all parameters; only with a law in bits, as is the next.
    budget_hours
        Most hours of one training on this machine.
    precision
        Number format in which bytes are counted; --target bytes chooses its own.
    exposures
        Times that a training shows each item, which has to be known by then. [default: as many as convergence takes]
    accelerator
        Also estimate the training's hours on this accelerator; only with a law in bits. [default: h100]
    target
        What to make smallest: parameters, or bytes of the file, whose precision is then chosen, too (see
        docs/how-to/quantize.md).
    law
        A file of `capax fit --out`; reference (reference:NAME), fitted to the study that ships with capax; or
        published:harma2024. [default: the one that ships for the task; required where none does]
    extrapolate
        Go outside the domain of the law. [default: only with the law of capacity]
    verify
        Say whether the first architecture holds what was promised, by training: by a law in bits its capacity is
        measured, or that of a smaller one that takes no longer than twelve minutes; by a law of counts it learns a
        library of that size.
    """
    asked, given = _law(kind, law), _with_further(sizes, size)
    if verify:
        refuse_unverified(early=exposures is not None, by_bytes=target == "bytes")
    how = verification(verify, seed=seed, workers=workers, store=store)
    frontier = plan(
        asked,
        given.pop("items"),
        probability=probability,
        multiple=multiple,
        budget_parameters=budget_parameters,
        budget_bytes=budget_bytes,
        budget_hours=budget_hours,
        precision=precision,
        exposures=exposures,
        accelerator=accelerator,
        target=target,
        extrapolate=extrapolate,
        **{
            name: integers(name, value) if isinstance(value, str) and name not in _kinds(kind) else value
            for name, value in given.items()
        },
        **_another(asked, kind),
    )

    def show(found: Frontier) -> None:
        if isinstance(found, BitsFrontier):
            show_bits(found, kind.unit)
        else:
            show_plan(found, kind.unit)

    check = partial(verify_plan, asked, frontier, **how) if how else None
    emit(frontier, show, check, show_verification, as_json=as_json)
    if not frontier.architectures:
        wider = "" if extrapolate or asked.travels else "; --extrapolate tries larger ones than were measured"
        raise NoPlan(f"plan: no architecture that was tried holds them{wider}")


def _law(kind: type[Any], name: str | None) -> Law:
    """The law that is named, or the one that ships for a task.

    Raises:
        LawError: when there is none, or it is of another task.
    """
    ships = reference_of(kind.unit) or (DEFAULT if follows(load_law(DEFAULT), kind) else None)
    chosen = name or ships
    own = "a file of capax fit --out is required, for none ships"
    if chosen is None:
        without = f"; capax plan {kind.tag()} needs none" if kind.planner is not None else ""
        raise LawError(f"law: of {kind.unit} {own}{without}")
    law = load_law(chosen)
    if law.domain_.task_class(law.items) is not kind and not follows(law, kind):
        allowed = f"one of {kind.unit}" if ships else f"of {kind.unit} {own}"
        if ships and reference_of(kind.unit) is None:
            allowed += ", or one in bits, such as reference"
        raise LawError(f"law: {allowed}, got {chosen!r}, which is of {law.domain_.task_class(law.items).unit}")
    return law


def _another(law: Law, kind: type[Any]) -> dict[str, Any]:
    """The task, where the law's data were of another."""
    return {} if law.domain_.task_class(law.items) is kind else {"task": kind.tag()}


def _with_further(sizes: Mapping[str, Any], size: tuple[str, ...], single: bool = False) -> dict[str, Any]:
    """Sizes given by flags of their own, and as name=value.

    Raises:
        LawError: for one that is given twice.
    """
    further = _further(size, single)
    for name, value in further.items():
        if sizes.get(name) is not None:
            raise LawError(f"size: {name} once, got {shown(sizes[name])} by its flag and {shown(value)}")
    return {**sizes, **further}


def _further(given: tuple[str, ...], single: bool = False) -> dict[str, Any]:
    """Sizes given as name=value."""
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise LawError(f"size: name=value, got {text!r:.80}")
        numbers = integers(name, value)
        if single and len(numbers) > 1:
            raise LawError(f"{name}: one value, got {value!r:.80}")
        if name.strip() in found:
            raise LawError(f"size: {name.strip()} once, got {shown(found[name.strip()])} and {value!r:.80}")
        found[name.strip()] = numbers[0] if single else numbers
    return found


# Flags


def _command(base: Callable[..., None], kind: type[Any], flags: Flags) -> Callable[..., None]:
    """A command whose flags are sizes, and the options of a function that takes them."""

    def command(**given: Any) -> None:
        sizes = {name: given.pop(name, None) for name in flags}
        base(kind, sizes, **given)

    keyword = inspect.Parameter.KEYWORD_ONLY
    needed = inspect.Parameter.empty
    options = [one for one in inspect.signature(base, eval_str=True).parameters.values() if one.kind is keyword]
    sizes = [
        inspect.Parameter(
            name, keyword, annotation=Annotated[hint, Parameter(help=text)], default=needed if hint is int else None
        )
        for name, (hint, text) in flags.items()
    ]
    command.__signature__ = inspect.Signature([*sizes, *options])  # type: ignore[attr-defined]
    command.__doc__ = (base.__doc__ or "").replace("items", kind.unit)
    return command


def _app(
    name: str, text: str, base: Callable[..., None], flags: Callable[[type[Task]], Flags], planned: bool = False
) -> App:
    """A command for each task; that of the law that is the default is the group's own, too.

    Args:
        planned: whether a task, or a model, may have a command of its own for this.
    """
    app = App(name=name, help=text)
    for tag, kind in tasks().items():
        if planned and kind.planner is not None:
            app.command(resolve(kind.planner), name=tag, group_parameters=GROUPS["Run"])
            continue
        command = _command(base, kind, flags(kind))
        app.command(command, name=tag)
        if kind.unit == Law.items:
            app.default(command)
    for tag, kind in Model.registry.items() if planned else ():
        if kind.planner is not None:
            app.command(resolve(kind.planner), name=tag, group_parameters=GROUPS["Run"])
    return app


def _one(kind: type[Task]) -> Flags:
    """The sizes of a task and of its models, one value of each."""
    sizes = {name: (int | None, text) for name, text in (kind.size_fields() | _of_models(kind)).items()}
    along = {
        law.along: (
            int | None,
            f"{law.along.capitalize()} of each item in training, to predict what is known by then.",
        )
        for law in LAWS.values()
        if law.along is not None
    }
    return {**sizes, **_kinds(kind), **along}


def _several(kind: type[Task]) -> Flags:
    """How many items are to be held, the sizes of a task, and several values of those of its models."""
    counts = {law.needed_for for law in LAWS.values()}
    of_task = {name: (int | None, text) for name, text in kind.size_fields().items() if name not in counts}
    of_models = {name: (str | None, text) for name, text in _of_models(kind).items()}
    return {"items": (int | None, f"{kind.unit.capitalize()} to memorize."), **of_task, **of_models, **_kinds(kind)}


def _kinds(kind: type[Task]) -> Flags:
    """Fields of a task and of its models that are no sizes, but that some law depends on."""
    found: dict[str, tuple[Any, str]] = {}
    for name, kinds in {name: kinds for law in LAWS.values() for name, kinds in law.coded.items()}.items():
        owners = [one.model_fields[name] for one in (kind, *kind.learners()) if name in one.model_fields]
        if owners and {*kinds} <= {*get_args(owners[0].annotation)}:  # else its values are another task's
            found[name] = (Literal[kinds] | None, owners[0].description or "")
    return found


def _of_models(kind: type[Task]) -> dict[str, str]:
    of_task = kind.size_fields()
    every = {name: text for model in kind.learners() for name, text in model.size_fields().items()}
    return {name: text for name, text in every.items() if name not in of_task}


__getattr__ = made(
    predict_app=lambda: _app("predict", "Predict with a law how much an architecture memorizes.", _predict, _one),
    plan_app=lambda: _app("plan", "Choose an architecture that holds a target.", _plan, _several, planned=True),
)
