"""The names and tags of a store's runs, which a user may change at any time."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from sqlite3 import Connection

from capax.errors import StoreError


def tags_of(text: str | None) -> tuple[str, ...]:
    """The tags of a row, None where a run has no row.

    Raises:
        StoreError: for what is no list of texts.
    """
    try:
        found = json.loads(text or "[]")
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(tag, str) for tag in found):
        raise StoreError(f"store: damaged: tags should be a list of texts, got {text!r:.80}")
    return tuple(found)


def write(
    connection: Connection, key: str, name: str | None, tags: Iterable[str], without: Collection[str] = ()
) -> None:
    """Add to what a run is called; a name that is given replaces the one there, the empty text takes it away."""
    row = connection.execute("SELECT name, tags FROM labels WHERE key = ?", (key,)).fetchone()
    before, known = row or (None, None)
    kept = [tag for tag in dict.fromkeys((*tags_of(known), *tags)) if tag not in without]
    name = (before if name is None else name) or None
    connection.execute("DELETE FROM labels WHERE key = ?", (key,))
    if name or kept:
        connection.execute("INSERT INTO labels VALUES (?, ?, ?)", (key, name, json.dumps(kept)))
