"""Documents that tests of text learn: Genesis 1 to 7 (tasks/data/genesis-licence.md)."""

from __future__ import annotations

from pathlib import Path

VERSES = Path(__file__).parent / "tasks" / "data" / "genesis.txt"


def chapters() -> list[str]:
    """The text of each chapter, a verse a line, without their numbers."""
    found: dict[str, list[str]] = {}
    for line in VERSES.read_text(encoding="utf-8").splitlines():
        where, _, verse = line.partition(" ")
        found.setdefault(where.partition(":")[0], []).append(verse)
    return ["\n".join(verses) + "\n" for verses in found.values()]


def folder(path: Path) -> Path:
    """A folder of a file for each chapter."""
    path.mkdir(exist_ok=True)
    for number, text in enumerate(chapters(), start=1):
        (path / f"genesis-{number}.txt").write_text(text, encoding="utf-8")
    return path
