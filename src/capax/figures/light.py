"""Runs in little memory: a page needs thousands of them at once."""

from __future__ import annotations

from typing import Any

from capax.results import Curve, Measurement, Result
from capax.specs import Spec

PARTS = ("task", "model", "training", "protocol")


class Light:
    """Makes runs light: with the first and the last evaluation of each curve alone, and with what they share once.

    Equal parts of specs are one object, and so are the sets of the fields that were given to the parts of a result,
    which take half of its memory otherwise.
    """

    def __init__(self) -> None:
        self._specs: dict[tuple[type[Spec], str], Spec] = {}
        self._given: dict[frozenset[str], set[str]] = {}

    def run(self, run: Measurement) -> Measurement:
        """The same run, light."""
        members = tuple(member.model_copy(update={"curve": _ends(member.curve)}) for member in run.members)
        spec = run.spec.model_copy(update={name: self._one(getattr(run.spec, name)) for name in PARTS})
        light: Measurement = self._shared(run.model_copy(update={"members": members, "spec": spec}))
        return light

    def _one(self, part: Spec) -> Spec:
        return self._specs.setdefault((type(part), part.model_dump_json()), part)

    def _shared(self, value: Any) -> Any:
        if isinstance(value, tuple) and value and isinstance(value[0], Result):
            return tuple(map(self._shared, value))
        if not isinstance(value, Result):
            return value
        given = self._given.setdefault(frozenset(value.model_fields_set), value.model_fields_set)
        return type(value).model_construct(given, **{name: self._shared(field) for name, field in value})


def _ends(curve: Curve) -> Curve:
    step = max(len(curve.epoch) - 1, 1)
    return Curve(epoch=curve.epoch[::step], memorized=curve.memorized[::step], loss=curve.loss[::step])
