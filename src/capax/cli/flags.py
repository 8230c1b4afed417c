"""Flags made from specs: a command takes specs, and the command line gives it their fields."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from cyclopts import Group, Parameter, Token
from pydantic import SkipValidation
from pydantic.fields import FieldInfo

from capax.cli import progress
from capax.cli.path import search_here
from capax.errors import OF_A_PLUGIN, SpecError, shown
from capax.inputs import exists, json_object
from capax.specs import PROTOCOLS, Model, Module, Spec, Task, Training, XTransformers
from capax.specs.plugins import load_installed
from capax.specs.spec import is_filled_in

HELP = {"Training": "Protocol capacity, where a task has it, has defaults and a library's size of its own."}
GROUPS = {
    name: Group(name, help=HELP.get(name, ""), sort_key=place)
    for place, name in enumerate(["Task", "Model", "Training", "Protocol", "Run"])
}

Flag = Parameter(negative="")
Tags = Annotated[
    tuple[str, ...],
    Parameter(name="--tag", negative="", show_default=False, help="A word for what it belongs to; more than once."),
]
Json = Annotated[
    bool, Parameter(name="--json", negative="", help="Print one JSON object, whose schema is in docs/schemas.")
]


@dataclass
class Part:
    """A spec, or one of several that a flag chooses, with their fields as flags of one group.

    Attributes:
        name: of the group.
        kinds: the specs by their tags; the first is the usual one.
        chosen_by: the flag that chooses among them; it is the field of their tags, too.
        usual: defaults that are not those of the fields, as they are shown.
        only: the fields that are flags; all where none is named.
    """

    name: str
    kinds: Mapping[str, type[Spec]]
    chosen_by: str | None = None
    usual: Mapping[str, Any] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    _fields: dict[str, str] = field(default_factory=dict)

    @classmethod
    def task(cls, kind: type[Task]) -> Part:
        """The fields of a task."""
        return cls("Task", {str(kind.tag()): kind})

    @classmethod
    def tasks(cls, usual: type[Task]) -> Part:
        """The tasks whose items are read as those of one are, and the fields of all of them."""
        alike = {tag: kind for tag, kind in tasks().items() if kind.reads == usual.reads}
        return cls("Task", {str(usual.tag()): usual, **alike}, "task")

    @classmethod
    def training(cls, kind: type[Task]) -> Part:
        """The fields of a training, with a task's defaults."""
        return cls("Training", {"training": Training}, usual=kind.usual_training)

    @classmethod
    def protocol(cls, kind: type[Task]) -> Part:
        """The protocols of a task, and the fields of all of them."""
        return cls("Protocol", {tag: one for tag, one in PROTOCOLS.items() if one.suits(kind.reads)}, "protocol")

    @classmethod
    def model(cls, kind: type[Task]) -> Part:
        """The models that learn a task, and the fields of all of them."""
        return cls.models({tag: one for tag, one in Model.registry.items() if one.reads == kind.reads}, kind.learner)

    @classmethod
    def models(cls, kinds: Mapping[str, type[Model]], usual: type[Model]) -> Part:
        """Some models, and the fields of all of them."""
        modules = [kind for kind in kinds.values() if issubclass(kind, Module)]
        every = {str(usual.tag()): usual, **{tag: kind for tag, kind in kinds.items() if kind not in modules}}
        return _OrModule("Model", every, "model", module=modules[0]) if modules else cls("Model", every, "model")

    def flags(self, taken: set[str]) -> list[inspect.Parameter]:
        """Its flags; one whose name is taken has that of the group before it."""
        owners: dict[str, dict[str, FieldInfo]] = {}
        for tag, kind in self.kinds.items():
            for name, of in kind.model_fields.items():
                hidden = name == getattr(kind, "tag_field", self.chosen_by) or is_filled_in(of) or _is_spec(of)
                if not hidden and (not self.only or name in self.only):
                    owners.setdefault(name, {})[tag] = of
        found = [] if self.chosen_by is None else [self._chooser(self.chosen_by)]
        taken.update(one.name for one in found)
        for name, fields in owners.items():
            flag = f"{self.name.lower()}_{name}" if name in taken else name
            taken.add(flag)
            self._fields[flag] = name
            found.append(self._flag(flag, name, fields))
        return found

    def chosen(self, given: Mapping[str, Any]) -> type[Spec]:
        """The class that the flags choose that were given; the usual one where they choose none that there is."""
        usual = next(iter(self.kinds.values()))
        return usual if self.chosen_by is None else self.kinds.get(str(given.get(self.chosen_by)), usual)

    def spec(self, given: dict[str, Any]) -> Any:
        """The spec that is chosen, of the flags that were given, which are taken away.

        Raises:
            SpecError: for a tag that is none of theirs, or a field that the chosen spec does not have.
        """
        usual = next((tag for flag, name in self._fields.items() if flag in given for tag in self._chosen(name)), None)
        usual = usual or next(iter(self.kinds))
        tag = given.pop(self.chosen_by, usual) if self.chosen_by else usual
        if tag not in self.kinds:
            plugin = "" if self.chosen_by == "protocol" else f", {OF_A_PLUGIN}"
            raise SpecError(f"{self.chosen_by}: one of {', '.join(self.kinds)}{plugin}, got {shown(tag)}")
        fields = {name: given.pop(flag) for flag, name in self._fields.items() if flag in given}
        for name in fields:
            if name not in self.kinds[tag].model_fields:
                theirs = [other for other, kind in self.kinds.items() if name in kind.model_fields]
                of = f"{' or '.join(theirs)}, " if theirs else ""
                raise SpecError(f"{name}: a field of {self.chosen_by} {of}not of {tag!r}")
        return self.kinds[tag](**fields)

    def _chosen(self, name: str) -> Iterable[str]:
        """The specs that a field stands for, where its flag alone chooses among them."""
        kinds = {tag: kind.model_fields.get(name) for tag, kind in self.kinds.items()}
        return (tag for tag, of in kinds.items() if of is not None and _says(of, "chooses"))

    def _chooser(self, name: str) -> inspect.Parameter:
        words = "; ".join(f"{tag}: {first_line(kind).rstrip('.')}" for tag, kind in self.kinds.items())
        tags = tuple(self.kinds)
        return _keyword(name, Literal[tags], tags[0], f"{words}.", self.name, _as_given)

    def _flag(self, flag: str, name: str, fields: Mapping[str, FieldInfo]) -> inspect.Parameter:
        """A field of one or several of the specs."""
        first = next(iter(fields.values()))
        hint, convert = _on_the_line(first.annotation)
        if _is_pairs(first):
            hint, convert = list[str] | None, _pairs
        by_text: dict[tuple[str, str], tuple[Any, list[str]]] = {}  # and by how defaults are written: some are lists
        for tag, of in fields.items():
            default = (
                self.usual[name]
                if name in self.usual
                else None
                if of.is_required() or of.default_factory
                else of.get_default()
            )
            by_text.setdefault((of.description or "", repr(default)), (default, []))[1].append(tag)
        if len(by_text) == 1 and len(fields) == len(self.kinds):
            (((text, _), (default, _)),) = by_text.items()
            if len(fields) == 1 and first.is_required():  # such as a task's file: it needs no flag
                made = _keyword(flag, hint, inspect.Parameter.empty, text, self.name, convert)
                return made.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
            return _keyword(flag, hint, default, text, self.name, convert, _other_name(first))
        text = " ".join(
            f"{', '.join(tags)}: {text}{'' if default is None else f' [default: {_words(default)}]'}"
            for (text, _), (default, tags) in by_text.items()
        )
        return _keyword(flag, hint if type(None) in get_args(hint) else hint | None, None, text, self.name, convert)


@dataclass
class _OrModule(Part):
    """A model, or a user's module in its place.

    Attributes:
        module: what such a module is.
    """

    module: type[Module] = Module

    def flags(self, taken: set[str]) -> list[inspect.Parameter]:
        """Those of the models, and of a module."""
        module = "A torch.nn.Module of yours instead: package.module:factory, found from the working directory, too."
        arguments = "With --module: what the factory is called with, a JSON object."
        native = "With x-transformers: the same network as capax computes it, where it can; faster."
        taken |= {"module", "arguments", "native"}
        libraries = [_keyword("native", Annotated[bool, Flag], False, native, self.name)] * self._has_libraries
        return [
            *super().flags(taken),
            *libraries,
            _keyword("module", str | None, None, module, self.name),
            _keyword("arguments", str | None, None, arguments, self.name),
        ]

    @property
    def _has_libraries(self) -> bool:
        return XTransformers in self.kinds.values()

    def spec(self, given: dict[str, Any]) -> Any:
        """The module, or the model.

        Raises:
            SpecError: for arguments that are no JSON object, or beside flags of a model; and where no model of capax is
                the same network.
        """
        factory, arguments = given.pop("module", None), given.pop("arguments", None)
        native = given.pop("native", False)
        if factory is None:
            if arguments is not None:
                raise SpecError("arguments: only with --module")
            found = super().spec(given)
            if native and not isinstance(found, XTransformers):
                raise SpecError(f"native: only with --model x-transformers, got {found.model}")
            return found.native() if native else found
        if native:
            raise SpecError("native: only with --model x-transformers, got --module")
        for flag in (self.chosen_by, *self._fields):
            if flag in given:
                raise SpecError(f"{flag}: not with --module, whose arguments say it")
        search_here()
        return self.module(factory=factory, arguments=json_object(arguments or "{}", "arguments", SpecError))


def every_model() -> dict[str, type[Model]]:
    """Every model that is registered, those of installed packages too, by its tag; a user's module is none of them."""
    load_installed()
    return {tag: kind for tag, kind in Model.registry.items() if not issubclass(kind, Module)}


def tasks() -> dict[str, type[Task]]:
    """Every task that is registered, those of installed packages too, by its tag."""
    load_installed()
    return dict(Task.registry)


def made(**names: Callable[[], Any]) -> Callable[[str], Any]:
    """A module's `__getattr__` for what is made when it is asked for: a plugin may have brought tasks since."""

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(name)
        return names[name]()

    return get


def command(function: Callable[..., None], *parts: Part, without: Collection[str] = ()) -> Callable[..., None]:
    """A command of a function: its leading arguments are specs, made of flags, and the others are flags themselves.

    Args:
        parts: the specs, in the order of the function's arguments.
        without: arguments that are no flags of this command.
    """
    options = [
        one
        for one in inspect.signature(function, eval_str=True).parameters.values()
        if one.kind is inspect.Parameter.KEYWORD_ONLY and one.name not in without
    ]
    taken = {one.name for one in options}
    # A task's fields come last: those of a plugin may have the names of others.
    flags = {id(part): part.flags(taken) for part in reversed(parts)}

    positional = [flag for part in parts for flag in flags[id(part)] if flag.kind is not flag.KEYWORD_ONLY]
    keyword = [flag for part in parts for flag in flags[id(part)] if flag.kind is flag.KEYWORD_ONLY]

    def run(*places: Any, **given: Any) -> None:
        given |= {flag.name: value for flag, value in zip(positional, places, strict=False)}
        chosen = {"tokenizer", "tokenization"} & given.keys()
        says = any("tokenizer" in part.chosen(given).model_fields for part in parts)
        if says and not chosen and "base" in given:
            if not exists(Path(given["base"]), "base", SpecError):
                raise SpecError(f"base: no such file or folder {str(given['base'])!r:.80} (nothing is downloaded)")
            given["tokenizer"] = str(given["base"])  # facts are said in the tokens of the model that learns them
        with progress.under_way():
            specs = [part.spec(given) for part in parts]
        function(*specs, **given)

    run.__annotations__ = {}
    run.__doc__ = function.__doc__
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [*positional, *keyword, *options]
    )
    return run


def _keyword(
    name: str,
    hint: Any,
    default: Any,
    text: str,
    group: str,
    convert: Callable[..., Any] | None = None,
    alias: str | None = None,
) -> inspect.Parameter:
    shown_default = None if default is None or isinstance(default, bool) else (lambda _: _words(default))
    negative = "" if convert is _pairs else None
    said = Parameter(
        help=text, group=GROUPS[group], converter=convert, show_default=shown_default, alias=alias, negative=negative
    )
    # Otherwise cyclopts would check the words against the hint; the spec says better what is wrong with them.
    unchecked = SkipValidation()  # type: ignore[type-arg]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, said, unchecked]
    )


def _words(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def first_line(kind: type[Any]) -> str:
    """What the docstring of a class begins with."""
    return (kind.__doc__ or "").strip().split("\n")[0]


def _on_the_line(hint: Any) -> tuple[Any, Callable[..., Any] | None]:
    """What a field is on the command line, and how its words are read: the spec itself says what is wrong with them."""
    kinds = {one for one in _alternatives(hint) if one is not type(None)}
    if kinds == {bool}:
        return hint, None
    if all(kind in (int, float, str) or get_origin(kind) is Literal for kind in kinds):
        return hint, _as_given
    if all(get_origin(kind) in (tuple, list) for kind in kinds):
        return str, _separated
    return str, _json


def _other_name(of: FieldInfo) -> str | None:
    """A further flag of a field."""
    extra = of.json_schema_extra
    return str(extra["flag"]) if isinstance(extra, dict) and "flag" in extra else None


def _is_spec(of: FieldInfo) -> bool:
    return any(isinstance(kind, type) and issubclass(kind, Spec) for kind in _alternatives(of.annotation))


def _alternatives(hint: Any) -> Iterable[Any]:
    if get_origin(hint) is Annotated:
        return _alternatives(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return [kind for part in get_args(hint) for kind in _alternatives(part)]
    return [hint]


def _as_given(hint: Any, tokens: Sequence[Token]) -> Any:
    """A number where it is one, and else the words."""
    for kind in (kind for kind in (int, float) if kind in _alternatives(hint)):
        with suppress(ValueError):
            return kind(tokens[0].value)
    return tokens[0].value


def _separated(_: Any, tokens: Sequence[Token]) -> list[str]:
    return tokens[0].value.split(",")


def _json(_: Any, tokens: Sequence[Token]) -> Any:
    with suppress(ValueError, RecursionError):
        return json.loads(tokens[0].value)
    return tokens[0].value


def _says(of: FieldInfo, name: str) -> bool:
    """Whether a field has a mark."""
    return isinstance(of.json_schema_extra, dict) and name in of.json_schema_extra


def _is_pairs(of: FieldInfo) -> bool:
    """Whether a field is given as name=value, more than once."""
    return _says(of, "pairs")


def _pairs(_: Any, tokens: Sequence[Token]) -> dict[str, Any]:
    """Options by their names: values that are JSON, and others as text."""
    found: dict[str, Any] = {}
    for token in tokens:
        (name, equals, value), flag = token.value.partition("="), (token.keyword or "").lstrip("-")
        if not name or not equals:
            raise SpecError(f"{flag}: should be name=value, got {shown(token.value)}")
        if name in found:
            raise SpecError(f"{flag}: {name} is given twice")
        found[name] = value
        with suppress(ValueError, RecursionError):
            found[name] = json.loads({"True": "true", "False": "false"}.get(value, value))
    return found
