"""A fact as it is read, before it is put into tokens."""

from __future__ import annotations

from typing import NamedTuple

from capax.errors import LibraryError


class FactsError(LibraryError):
    """Facts that cannot be read or learned."""


class Fact(NamedTuple):
    """The answer to a key and a relation.

    Attributes:
        relation: empty where a file has one relation only, that is not named.
        weight: how often it occurs, where that is given.
    """

    key: str
    relation: str
    answer: str
    weight: float = 1.0
