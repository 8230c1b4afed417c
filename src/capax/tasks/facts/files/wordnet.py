"""WordNet's own database (Princeton WordNet 3.0, `wndb(5WN)`): a folder with `data.noun`, `index.noun` and so on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from capax.tasks.facts.fact import Fact, FactsError
from capax.tasks.facts.files.columns import TRIPLES, facts
from capax.tasks.facts.files.lines import lines

PARTS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
"""Parts of speech: the files' names, and what pointers call them."""
POINTERS = {
    "@": "hypernym",
    "@i": "instance_hypernym",
    "#m": "member_holonym",
    "#p": "part_holonym",
    "#s": "substance_holonym",
    ";c": "domain_topic",
    ";r": "domain_region",
    ";u": "domain_usage",
}
"""Of pointers that are each other's inverses, the one that leads to fewer: up, to the whole, to the domain."""
BETWEEN_SYNSETS = "0000"
Synset = tuple[str, str]
"""Part of speech and offset."""


def data_files(folder: Path) -> list[Path]:
    """The data files of a folder, one for each part of speech that it has."""
    return [path for part in PARTS if (path := folder / f"data.{part}").exists()]


def read_wordnet(folder: Path) -> Iterator[Fact]:
    """The facts between synsets, in one direction: a dog's hypernym is a canine, and nothing says so the other way.

    Each pair of pointers that are each other's inverses gives one relation (`POINTERS`). Left out are pointers between
    words (antonyms, derivations), those that are their own inverses (similar, attribute, verb group) and those that
    have none (entailment, cause, also see). A synset is called by its first word, its part of speech and the sense of
    the word that it is (`dog.n.01`), as elsewhere; names are held in memory (118,000), facts are not.

    Raises:
        FactsError: as `lines`; for an index that is missing, a line that is broken, and a pointer to a synset that is
            missing.
    """
    names = _names(folder)
    for path in data_files(folder):
        yield from facts(_rows(path, names), TRIPLES, f"library: {path}")


def _synsets(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The number and the words of each line that is no part of the licence; what follows `|` is prose."""
    for number, line in enumerate(lines(path), start=1):
        if not line.startswith("  ") and not line.isspace():
            yield number, line.partition(" | ")[0].split()


def _broken(path: Path, number: int) -> FactsError:
    return FactsError(f"library: {path}, line {number}: not as WordNet's database has it")


def _names(folder: Path) -> dict[Synset, str]:
    names: dict[Synset, str] = {}
    for path in data_files(folder):
        part = PARTS[path.suffix[1:]]
        senses = _senses(folder / f"index{path.suffix}")
        for number, words in _synsets(path):
            try:
                offset, kind, first = words[0], words[2], words[4].partition("(")[0].lower()
                names[part, offset] = f"{first}.{kind}.{senses[first, offset]:02d}"
            except (IndexError, KeyError):
                raise _broken(path, number) from None
    return names


def _senses(path: Path) -> dict[tuple[str, str], int]:
    """Which sense of a word, from 1, a synset is: the most used is the first."""
    senses: dict[tuple[str, str], int] = {}
    for number, words in _synsets(path):
        try:
            count = int(words[2])
        except (IndexError, ValueError):
            raise _broken(path, number) from None
        for sense, offset in enumerate(words[-count:], start=1):
            senses[words[0], offset] = sense
    return senses


def _rows(path: Path, names: dict[Synset, str]) -> Iterator[tuple[int, tuple[str, str, str]]]:
    part = PARTS[path.suffix[1:]]
    for number, words in _synsets(path):
        try:
            first = 5 + 2 * int(words[3], 16)
            for place in range(first, first + 4 * int(words[first - 1]), 4):
                symbol, offset, target, between = words[place : place + 4]
                if symbol in POINTERS and between == BETWEEN_SYNSETS:
                    yield number, (names[part, words[0]], POINTERS[symbol], names[target, offset])
        except (IndexError, ValueError):
            raise _broken(path, number) from None
        except KeyError:
            raise FactsError(
                f"library: {path}, line {number}: points to {offset} ({target}), which is missing"
            ) from None
