"""docs/figures.md lists the figures that there are, and what it says to type runs."""

import re
import shlex
from pathlib import Path

import pytest
from made import changed, trained

import capax
from capax.cli import main
from capax.reports.registry import FIGURES
from capax.store import Store

PAGE = (Path(__file__).parents[2] / "docs" / "figures.md").read_text(encoding="utf-8")


def test_the_table_is_the_registry() -> None:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("|")]
    assert rows[2:] == [[f"`{name}`", one.title, one.of, one.needs] for name, one in FIGURES.items()]
    assert all(one.needs for one in FIGURES.values())


@pytest.mark.slow
def test_its_commands_and_its_python_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for width in (4, 8):
        spec = changed(trained().spec, d_model=width)
        capax.measure(spec.task, spec.model, spec.training, protocol=spec.protocol, store=Path("capax.db"))
    for line in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)[0].splitlines():
        with pytest.raises(SystemExit) as exit_:
            main(shlex.split(line)[1:])
        assert exit_.value.code == 0
        Path("width.pdf").unlink()
    capsys.readouterr()
    (python,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(python, {})
    with Store("capax.db") as opened:
        counts = tuple(float(run.memorized) for run in opened.runs())
    assert str(counts) in capsys.readouterr().out
    assert Path("width.pdf").read_bytes().startswith(b"%PDF")
