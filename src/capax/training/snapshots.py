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
    renumbered = {old: new for new, old in enumerate(members)}
    active = [(renumbered[member], place) for place, member in enumerate(state["active"]) if member in renumbered]
    places = [place for _, place in sorted(active)]

    def chosen(values: Sequence[Any]) -> list[Any]:
        return [values[place] for place in places]

    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        kind, _, rest = name.partition("/")
        if kind in BY_PLACE:
            if int(rest) in places:
                found[f"{kind}/{places.index(int(rest))}"] = tensor
        elif kind == "weights":
            member, _, weight = rest.partition("/")
            if int(member) in renumbered:
                found[f"weights/{renumbered[int(member)]}/{weight}"] = tensor
        else:
            found[name] = tensor[places] if tensor.dim() else tensor
    return Snapshot(
        found,
        {
            "records": [state["records"][member] for member in members],
            "active": sorted(new for new, _ in active),
            "steps_since": chosen(state["steps_since"]),
            "order": {name: chosen(counts) for name, counts in state["order"].items()},
            "kept": [renumbered[member] for member in state["kept"] if member in renumbered],
            "notes": state["notes"],
            "seconds": state["seconds"] * len(members) / len(state["records"]),
        },
    )
