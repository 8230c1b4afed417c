"""A training between two steps, and the part of it that belongs to some of its members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Snapshot:
    """A training between two steps: its tensors, and the rest as JSON has it (`Course.snapshot` says what there is)."""

    tensors: dict[str, Tensor] = field(repr=False)
    state: dict[str, Any]


BY_PLACE = ("orders", "generators", "random")
"""Tensors of one member each, `<name>/<its place in the learner>`."""


def part(snapshot: Snapshot, members: Sequence[int]) -> Snapshot:
    """The state of some of a pack's members, as they would have it in a pack of their own.

    Of the seconds it has their share.

    Args:
        members: their places in the pack, in the order of the new one.
    """
    tensors, state = snapshot.tensors, snapshot.state
    place_of = {member: place for place, member in enumerate(state["active"])}
    active = [new for new, member in enumerate(members) if member in place_of]
    places = [place_of[members[new]] for new in active]
    if len(active) == 1 < min(len(members), len(place_of)):
        # the last that trains keeps company, as in `Course.step`: a member that has left, with a copy of its tensors
        active, places = sorted([active[0], 1 if active[0] == 0 else 0]), places * 2

    def chosen(values: Sequence[Any]) -> list[Any]:
        return [values[place] for place in places]

    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        kind, _, rest = name.partition("/")
        if kind in BY_PLACE:
            found |= {f"{kind}/{new}": tensor for new, place in enumerate(places) if place == int(rest)}
        elif kind == "weights":
            member, _, weight = rest.partition("/")
            found |= {f"weights/{new}/{weight}": tensor for new, old in enumerate(members) if old == int(member)}
        else:
            found[name] = tensor[places] if tensor.dim() else tensor
    return Snapshot(
        found,
        {
            "records": [state["records"][member] for member in members],
            "active": active,
            "steps_since": chosen(state["steps_since"]),
            "order": {name: chosen(counts) for name, counts in state["order"].items()},
            "kept": [new for new, member in enumerate(members) if member in state["kept"]],
            "notes": state["notes"],
            "seconds": state["seconds"] * len(set(members)) / len(state["records"]),
        },
    )
