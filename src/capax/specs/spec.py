"""The base of all specs, and what several of them allow."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WrapValidator

from capax.errors import CapaxError, SpecError, shown

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


def _stored(value: Any, validate: Callable[[Any], Any]) -> Any:
    if isinstance(value, Spec):
        registered(type(value))
    token = _STORED.set(not isinstance(value, Spec))
    try:
        return validate(value)
    finally:
        _STORED.reset(token)


Part = WrapValidator(_stored)
"""Of a run's task and model: given as data, and not as a spec that the caller made, no file that they name is read and
no module imported. What they say of its content must be there."""


def must_be_given(field: str) -> None:
    """Refuse data that leaves out what only reading a file, or importing a module, would tell.

    Raises:
        ValueError: where a spec is being read from data.
    """
    if _STORED.get():
        raise ValueError(f"{field}: is required where a run is read from data, got none")


def _one_line(error: ValidationError, allowed: list[str]) -> str:
    """The first problem of a pydantic error: the field, what is allowed, what was given."""
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    given = shown(first["input"])
    match first["type"]:
        case "extra_forbidden":
            return f"{field}: unknown field; allowed are {', '.join(allowed)}"
        case "missing":
            return f"{field}: is required"
        case "value_error":
            return str(first["ctx"]["error"]) if "ctx" in first else first["msg"]
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


def registered(spec: type[BaseModel]) -> None:
    """Whether a class of specs is one of capax's own.

    Raises:
        SpecError: otherwise.
    """
    if spec.__module__.partition(".")[0] != __name__.partition(".")[0]:
        base = next(parent for parent in spec.__mro__ if parent.__module__.startswith(f"{__name__.partition('.')[0]}."))
        raise SpecError(
            f"{spec.__name__}: a subclass of {base.__name__} that is not registered would be taken for {base.__name__};"
            f" only capax's own specs are allowed"
        )


class Spec(BaseModel):
    """Base of all specs: frozen, unknown fields refused, errors in one line.

    Only capax's own specs can be made: another class would be trained, and stored, as the one that it is made from.

    Raises `SpecError` that names the field, the value given and what is allowed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, allow_inf_nan=False)

    def __init__(self, **fields: Any) -> None:
        registered(type(self))
        for name, value in fields.items():
            field = type(self).model_fields.get(name)
            if isinstance(value, bool) and field is not None and field.annotation is not bool:
                raise SpecError(f"{name}: should be no truth value, got {value}")  # True would be read as 1
            if isinstance(value, str) and value != value.encode(errors="replace").decode():
                raise SpecError(f"{name}: should be text in UTF-8, got {shown(value)}")  # no JSON could hold it
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise SpecError(_one_line(error, list(type(self).model_fields))) from None

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed, validated anew."""
        return type(self)(**{**{name: getattr(self, name) for name in self.model_fields_set}, **changes})
