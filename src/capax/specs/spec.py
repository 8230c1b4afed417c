"""The base of all specs, and what several of them allow."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from capax.errors import SpecError

LARGEST_LIBRARY = 10_000_000
"""Items that a library may hold: more would not fit in memory beside the training."""

Size = Annotated[int, Field(ge=1)]


def _one_line(error: ValidationError, allowed: list[str]) -> str:
    """The first problem of a pydantic error: the field, what is allowed, what was given."""
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    given = f"{first['input']!r:.80}"
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


class Spec(BaseModel):
    """Base of all specs: frozen, unknown fields refused, errors in one line.

    Raises `SpecError` that names the field, the value given and what is allowed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, allow_inf_nan=False)

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise SpecError(_one_line(error, list(type(self).model_fields))) from None

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed, validated anew."""
        return type(self)(**{**{name: getattr(self, name) for name in self.model_fields_set}, **changes})
