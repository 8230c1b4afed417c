"""What a user calls a run: a name, and tags. They are no part of its key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from capax.errors import SpecError, shown

LONGEST = 100
"""Letters of a name or a tag."""


@dataclass(frozen=True)
class Labels:
    """A name and tags, checked.

    Raises:
        SpecError: as `checked_name` and `checked_tags`.
    """

    name: str | None = None
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", checked_name(self.name))
        object.__setattr__(self, "tags", checked_tags(self.tags))

    def and_those(self, others: Labels) -> Labels:
        """These, where others say nothing."""
        return Labels(others.name or self.name, (*self.tags, *others.tags))

    def lacking(self, name: str | None, tags: Iterable[str]) -> bool:
        """Whether a run that is called so lacks any of them."""
        return self.name not in (None, name) or not set(self.tags) <= set(tags)


def checked_name(name: object) -> str | None:
    """A name, without spaces around it; None for none.

    Raises:
        SpecError: for what is no text, or has control characters or more than 100 letters.
    """
    return None if name is None else _checked("name", name)


def checked_tags(tags: Iterable[object]) -> tuple[str, ...]:
    """Tags, each once; tables join them by commas.

    Raises:
        SpecError: as `checked_name`, and for a tag with a comma, or one text in place of several.
    """
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise SpecError(f"tags: a list of texts, got {shown(tags)}")
    found = dict.fromkeys(_checked("tags", tag) for tag in tags)
    for tag in found:
        if "," in tag:
            raise SpecError(f"tags: without commas, got {shown(tag)}")
    return tuple(found)


def _checked(field: str, text: object) -> str:
    stripped = text.strip() if isinstance(text, str) else ""
    if not (stripped and stripped.isprintable() and len(stripped) <= LONGEST):
        raise SpecError(f"{field}: 1 to {LONGEST} printable letters, got {shown(text)}")
    return stripped


UNCALLED = Labels()
"""Of a run that has no name and no tags."""
