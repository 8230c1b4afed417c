"""What a plan may spend, and how sure it is to be: the options of `plan`, checked."""

from __future__ import annotations

from typing import Any, NamedTuple, Self, get_args

from capax.errors import LawError, shown
from capax.planning.answers import SUREST
from capax.planning.cost import PEAKS, Accelerator
from capax.planning.results import BYTES, Bounds, Precision, Target
from capax.specs.spec import positive, truth, whole


class Options(NamedTuple):
    """The options of `plan` and `plan_facts`, where they are explained."""

    budget: Bounds
    probability: float
    multiple: int | None
    precision: Precision
    exposures: int | None
    accelerator: Accelerator
    target: Target
    extrapolate: bool | None

    @classmethod
    def checked(
        cls,
        *,
        budget_parameters: Any,
        budget_bytes: Any,
        budget_hours: Any,
        probability: Any,
        multiple: Any,
        precision: Any,
        accelerator: Any,
        target: Any,
        exposures: Any = None,
        extrapolate: Any = None,
    ) -> Self:
        """Options as they were given.

        Raises:
            LawError: that names the one that is not allowed.
        """
        counts = {
            "budget_parameters": budget_parameters,
            "budget_bytes": budget_bytes,
            "multiple": multiple,
            "exposures": exposures,
        }
        for name, value in counts.items():
            if value is not None:
                whole(name, value, error=LawError)
        if budget_hours is not None:
            positive("budget_hours", budget_hours, error=LawError)
        if extrapolate is not None:
            truth("extrapolate", extrapolate, LawError)
        choices = (
            ("precision", precision, BYTES),
            ("accelerator", accelerator, PEAKS),
            ("target", target, get_args(Target)),
        )
        for name, value, known in choices:
            if value not in known:
                raise LawError(f"{name}: {', '.join(known)}, got {shown(value)}")
        positive("probability", probability, SUREST, LawError)
        return cls(
            Bounds(parameters=budget_parameters, bytes=budget_bytes, hours=budget_hours),
            probability,
            multiple,
            precision,
            exposures,
            accelerator,
            target,
            extrapolate,
        )
