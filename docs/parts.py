"""What scripts of this folder have in common: parts of pages between two comments, and stores of a study's runs."""

from __future__ import annotations

from pathlib import Path

from capax.reports.report import content, without_folders
from capax.store import Store


def filled(text: str, name: str, script: str, part: str) -> str:
    """The page with a part as its script makes it now."""
    begin, end = f"<!-- {name}: python docs/{script} -->\n", f"<!-- end of {name} -->\n"
    before, rest = text.split(begin)
    return f"{before}{begin}\n{part.strip()}\n\n{end}{rest.split(end)[1]}"


def head(*names: str) -> list[str]:
    """The first two lines of a table."""
    return [f"| {' | '.join(names)} |", f"| {' | '.join('---' for _ in names)} |"]


def keep(folder: Path, path: Path) -> None:
    """Keep the runs of a folder's stores, in one store, with the names of their files in place of paths."""
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    with Store(path) as store:
        for run in without_folders(content(sorted(folder.glob("*.db")))).runs:
            store.add(run)
