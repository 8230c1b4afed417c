"""The base of all specs, and what several of them allow."""

from __future__ import annotations

import inspect
import json
import math
import numbers
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Annotated, Any, ClassVar, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from capax.errors import CapaxError, SpecError, among, shown
from capax.inputs import refuse_nested
from capax.specs.plugins import Registry, pickled, source_sha256

LARGEST = 2**63 - 1
"""Of any count."""

LARGEST_LIBRARY = 10_000_000
"""Items that a library may hold: more would not fit in memory beside the training."""

LARGEST_SIZE = 2**31 - 1
"""Of a width, a number of heads, or whatever else makes tensors; the memory ends long before."""

MOST_STEPS = 2**53
"""Of steps, epochs and evaluations: as many as a float counts exactly."""

MOST_TRAININGS = 1_000_000
"""Of one measurement."""

Size = Annotated[int, Field(ge=1, le=LARGEST_SIZE)]
Steps = Annotated[int, Field(ge=1, le=MOST_STEPS)]


_STORED: ContextVar[bool] = ContextVar("stored", default=False)
"""Whether a spec is being read from data: a store, a result, a request."""


def reads_data() -> bool:
    """Whether a spec is being read from data, which names files by their content: none is read."""
    return _STORED.get()


def must_be_given(field: str) -> None:
    """Refuse data without a field that would otherwise come from reading a file or importing a module.

    Raises:
        ValueError: where a spec is being read from data.
    """
    if reads_data():
        raise ValueError(f"{field}: is required where a run is read from data, got none")


def _one_line(error: ValidationError, allowed: list[str]) -> str:
    """The first problem of a pydantic error: the field, what is allowed, what was given."""
    first = error.errors()[0]
    places = first["loc"]
    if first["type"] == "finite_number" and places[-1] in ("float", "int"):  # which of JSON's kinds it is, no field
        places = places[:-1]
    field = ".".join(map(str, places))
    given = shown(first["input"])
    match first["type"]:
        case "extra_forbidden":
            return f"{field}: unknown field; allowed are {among(field, allowed)}"
        case "missing":
            return f"{field}: is required"
        case "value_error":
            return str(first["ctx"]["error"]) if "ctx" in first else first["msg"]
        case "int_from_float" | "int_parsing" | "int_type":
            return f"{field}: should be an integer, got {given}"
        case "float_parsing" | "float_type":
            return f"{field}: should be a number, got {given}"
        case _:
            said = first["msg"].removeprefix("Input ")
            said = said.replace("greater than or equal to", "at least").replace("less than or equal to", "at most")
            return f"{field}: {said}, got {given}"


def whole(name: str, value: Any, least: int | None = 1, error: type[CapaxError] = SpecError) -> int:
    """A count that is given as an argument: a whole number, at least so large. A fraction is never rounded.

    Raises:
        CapaxError: of the given class, that names the argument.
    """
    try:
        integer = not isinstance(value, bool | str) and int(value) == value
    except (TypeError, ValueError, OverflowError):
        integer = False
    if not integer:
        raise error(f"{name}: should be a whole number, got {shown(value)}")
    if least is not None and value < least:
        raise error(f"{name}: at least {least}, got {shown(value)}")
    if value > LARGEST:
        raise error(f"{name}: at most 2^63 - 1, got {shown(value)}")
    return int(value)


def positive(name: str, value: Any, most: float = math.inf, error: type[CapaxError] = SpecError) -> float:
    """A positive number that is given as an argument, below infinity.

    Args:
        most: the largest that is allowed.

    Raises:
        CapaxError: of the given class, that names the argument.
    """
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not (number and 0 < value <= min(most, sys.float_info.max)):  # an integer may be larger than any float
        limit = "a positive number" if most == math.inf else f"above 0 and at most {most:.4g}"
        raise error(f"{name}: {limit}, got {shown(value)}")
    return float(value)


def proper_share(name: str, value: Any, error: type[CapaxError] = SpecError) -> float:
    """A number above 0 and below 1 that is given as an argument.

    Raises:
        CapaxError: of the given class, that names the argument.
    """
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not (number and 0 < value < 1):
        raise error(f"{name}: above 0 and below 1, got {shown(value)}")
    return float(value)


def truth(name: str, value: Any, error: type[CapaxError] = SpecError) -> bool:
    """A truth value that is given as an argument: python takes any text, such as "no", for True.

    Raises:
        CapaxError: of the given class, that names the argument.
    """
    if not isinstance(value, bool):
        raise error(f"{name}: True or False, got {shown(value)}")
    return value


def since(version: str, description: str, **limits: Any) -> Any:
    """A field that runs of earlier versions do not have: at its default it is no part of a run's key.

    Args:
        version: the first one that has it.
    """
    return Field(description=description, json_schema_extra={"since": version}, **limits)


def filled_in(description: str, version: str | None = None) -> Any:
    """A field that is filled in when a spec is made: it is no flag and no axis.

    Args:
        version: the first one that has it, as of `since`; None where runs of all versions do.
    """
    later: dict[str, Any] = {} if version is None else {"since": version}
    return Field(description=description, json_schema_extra={"filled_in": True, **later})


def is_filled_in(field: FieldInfo) -> bool:
    """Whether a field is filled in when a spec is made."""
    extra = field.json_schema_extra
    return isinstance(extra, dict) and "filled_in" in extra


def _holds_objects(annotation: Any) -> bool:
    """Whether a field is an object of any content: a spec's own fields are checked one by one."""
    return any(get_origin(one) is dict for one in (annotation, *get_args(annotation)))


def refuse_unwritable(name: str, value: Mapping[str, Any]) -> None:
    """Refuse an object that no JSON in UTF-8 could hold, or that is nested too deeply.

    Raises:
        SpecError: that names the field.
    """
    refuse_nested(value, name, SpecError)
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except (UnicodeEncodeError, TypeError):
        raise SpecError(f"{name}: should be text in UTF-8, got {shown(value)}") from None


class Spec(BaseModel):
    """Base of all specs: frozen, unknown fields refused, errors in one line.

    Raises `SpecError` that names the field, the value given and what is allowed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, allow_inf_nan=False)

    def __init__(self, **fields: Any) -> None:
        self.refuse_unregistered()
        own = type(self).model_fields
        for name, value in fields.items():
            field = own.get(name)
            kinds = () if field is None else (field.annotation, *get_args(field.annotation))
            if isinstance(value, bool) and kinds and bool not in kinds:
                raise SpecError(f"{name}: should be no truth value, got {value}")  # True would be read as 1
            if isinstance(value, str) and value != value.encode(errors="replace").decode():
                raise SpecError(f"{name}: should be text in UTF-8, got {shown(value)}")  # no JSON could hold it
            if isinstance(value, Mapping) and field is not None and _holds_objects(field.annotation):
                refuse_unwritable(name, value)
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise SpecError(_one_line(error, list(type(self).model_fields))) from None

    @classmethod
    def refuse_unregistered(cls) -> None:
        """Refuse a class that would be trained, and stored, as the one that it is made from.

        Raises:
            SpecError: for a subclass that is not one of capax's own.
        """
        package = __name__.partition(".")[0]
        if cls.__module__.partition(".")[0] != package:
            base = next(parent for parent in cls.__mro__ if parent.__module__.startswith(f"{package}."))
            raise SpecError(
                f"{cls.__name__}: a subclass of {base.__name__} would be taken for {base.__name__}; only tasks and "
                "models are made by subclassing"
            )

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed, validated anew."""
        return type(self)(**{**{name: getattr(self, name) for name in self.model_fields_set}, **changes})

    def fill(self, **fields: Any) -> None:
        """Set fields to what follows from those that were given; a copy with changes has them."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)
            self.model_fields_set.add(name)

    def canonical(self) -> dict[str, Any]:
        """Every field as JSON has it, but those that came later and are at their defaults."""
        fields = self.model_dump(mode="json")
        for name, field in type(self).model_fields.items():
            extra = field.json_schema_extra
            if isinstance(extra, dict) and "since" in extra and fields[name] == field.default:
                del fields[name]
        source = source_sha256(type(self).__module__)
        return fields if source is None else fields | {"source_sha256": source}


def later_fields(kind: type[Spec]) -> tuple[str, ...]:
    """The fields that runs of earlier versions do not have."""
    return tuple(
        name
        for name, field in kind.model_fields.items()
        if isinstance(field.json_schema_extra, dict) and "since" in field.json_schema_extra
    )


class Tagged(Spec):
    """A spec that is found by its tag: a task or a model. A subclass with a tag of its own is registered.

    Attributes:
        tag_field: the field that holds the tag, a `Literal` with a default.
        registry: the classes of this kind by their tags.
        axes: fields that capacity may depend on; none stands for all whole numbers.
    """

    tag_field: ClassVar[str]
    registry: ClassVar[Registry]
    axes: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        tag = cls.tag()
        own = hasattr(cls, "tag_field") and cls.tag_field in inspect.get_annotations(cls)
        if tag is not None and own:  # else it is that of its base, whose place it does not take
            cls.registry.add(tag, cls)

    @classmethod
    def tag(cls) -> str | None:
        """What the class is called in JSON, TOML and on the command line; None of a base class."""
        field = cls.model_fields.get(cls.tag_field) if hasattr(cls, "tag_field") else None
        return None if field is None or get_args(field.annotation) != (field.default,) else str(field.default)

    @classmethod
    def size_fields(cls) -> dict[str, str]:
        """Its fields that are whole numbers and that one gives; `library_size` counts items and is no size."""
        return {
            name: field.description or ""
            for name, field in cls.model_fields.items()
            if field.annotation in (int, int | None) and name != "library_size" and not is_filled_in(field)
        }

    @classmethod
    def size_axes(cls) -> tuple[str, ...]:
        """The sizes that capacity may depend on: `axes`, or all."""
        return cls.axes or tuple(cls.size_fields())

    @classmethod
    def refuse_unregistered(cls) -> None:
        """Refuse a class that has no tag, or the tag of another, whose runs would be stored as that one's.

        Raises:
            SpecError: that says how to register it.
        """
        tag = cls.tag()
        if tag is None or cls.registry.get(tag) is not cls:
            field = cls.tag_field
            has = "has no tag" if tag is None else f"has the tag {tag!r} of {cls.registry[tag].__name__}"
            raise SpecError(
                f"{cls.__name__}: {has}; give it one of its own, which registers it: "
                f'`{field}: Literal["{cls.__name__.lower()}"] = "{cls.__name__.lower()}"`'
            )

    def __reduce__(self) -> Any:
        return pickled(self) or super().__reduce__()

    @classmethod
    def read(cls, value: Any, _: Any = None) -> Self:
        """An instance as it is, or the one that data (a mapping with a tag) describes.

        Data names files, and modules, by their content: none is read or imported for it.

        Raises:
            UnknownTag: that says which tags are known.
            ValueError: for bad fields.
        """
        if isinstance(value, cls):
            type(value).refuse_unregistered()
            return value
        field = cls.tag_field
        if not isinstance(value, Mapping):
            raise ValueError(f"{field}: should be a {cls.__name__} or an object with its fields, got {shown(value)}")
        if field not in value:
            raise ValueError(f"{field}.{field}: is required, one of {', '.join(cls.registry)}")
        kind = cls.registry.find(value[field])
        token = _STORED.set(True)
        try:
            return kind.model_validate(value)
        except SpecError as error:
            raise ValueError(f"{field}.{error}") from None
        finally:
            _STORED.reset(token)
