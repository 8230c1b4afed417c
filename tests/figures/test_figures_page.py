"""docs/figures.md lists the figures that there are."""

from pathlib import Path

from capax.figures.registry import FIGURES

PAGE = (Path(__file__).parents[2] / "docs" / "figures.md").read_text(encoding="utf-8")


def test_the_table_is_the_registry() -> None:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("|")]
    assert rows[2:] == [[f"`{name}`", one.title, one.of, one.needs] for name, one in FIGURES.items()]
    assert all(one.needs for one in FIGURES.values())
