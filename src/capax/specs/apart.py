"""What tells runs apart: their fields and values, and those that differ, in words."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from capax.specs.run import Run

KIND = ("task", "model", "protocol", "library", "graph", "contexts", "labels", "channel")
"""Fields that say what other fields there are, or mean: groups that differ in one are told apart by it alone."""

CONTENTS = {
    "library": "library_sha256",
    "factory": "source_sha256",
    "weights": "weights_sha256",
    "tokenizer": "tokenizer_sha256",
    "base": "base_sha256",
    "held_out": "held_out_sha256",
}
"""Fields that name files, and those that hold their content."""
FOLLOW = ("file", "network")
"""Fields that say what is in such a file."""

_NOT = object()  # a module's argument that another's does not have
Fields = Mapping[str, Any]


def fields_of(spec: Run, varied: Collection[str]) -> dict[str, Any]:
    """Everything that a run was asked for, but its seed and what is varied; a user's file by its name and content."""
    parts = (spec.task, spec.model, spec.training, spec.protocol)
    fields = {name: value for part in parts for name, value in part.model_dump(mode="json").items()}
    contents = {name: fields.pop(name) for name in {*CONTENTS.values(), *FOLLOW} if name in fields}
    for name, content in (CONTENTS | {name: CONTENTS.get(name, "library_sha256") for name in spec.task.files}).items():
        if name in fields and contents.get(content) is not None:
            fields[name] = f"{Path(fields[name]).name} {contents[content]:.8}"
    if (options := spec.model.options) is not None:
        given = fields.pop(options)
        fields |= {name if name not in fields else f"{options}.{name}": value for name, value in given.items()}
    return {name: value for name, value in fields.items() if name not in varied}


def simplest_of(spec: Run, varied: Collection[str]) -> dict[str, Any]:
    """The same, where one network has one way to be said."""
    model = spec.model.simplest(**spec.task.sizes())
    return fields_of(spec.model_copy(update={"model": model}), varied)


def apart(fields: Fields, others: Collection[Fields]) -> dict[str, Any]:
    """Those of a group's fields that tell it from others: of another kind its kind, of its kind all that differ."""
    told = []
    for name in KIND:
        alike_so_far = [other for other in others if other.get(name) == fields.get(name)]
        if len(alike_so_far) < len(others) and name in fields:
            told.append(name)
        others = alike_so_far
    told += [
        name for name in fields if name not in KIND and any(other.get(name, _NOT) != fields[name] for other in others)
    ]
    return {name: fields[name] for name in told}


def unlike(fields: Fields, usual: Fields) -> dict[str, Any]:
    """Those of a run's fields whose value is not the usual one; None for those that only the usual ones have."""
    told = {name: value for name, value in fields.items() if usual.get(name, _NOT) != value}
    return told | {name: None for name in usual if name not in fields}


def among(alike: Sequence[Fields]) -> list[dict[str, Any]]:
    """Of each of some runs the fields, as JSON, in which not all of them are the same."""
    names = dict.fromkeys(name for fields in alike for name in fields)
    differ = [name for name in names if any(fields.get(name) != alike[0].get(name) for fields in alike)]
    return [{name: fields[name] for name in differ if name in fields} for fields in alike]


def uncommon(some: Sequence[Fields]) -> list[dict[str, Any]]:
    """Of each of some runs the fields, as JSON, whose value is not the commonest."""
    names = list(dict.fromkeys(name for fields in some for name in fields))
    common = {name: Counter(json.dumps(fields.get(name)) for fields in some).most_common(1)[0][0] for name in names}
    return [
        {name: fields.get(name) for name in names if json.dumps(fields.get(name)) != common[name]} for fields in some
    ]


def in_words(told: Fields) -> str:
    """Fields and their values; of a task and a model the value alone says what it is."""
    return ", ".join(_said(name, value) for name, value in told.items())


def _said(name: str, value: Any) -> str:
    if name in ("task", "model"):
        return str(value).replace("_", " ")
    if value is None or isinstance(value, bool):
        return name if value else f"no {name}"
    return f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
