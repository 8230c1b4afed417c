"""Tasks and models that an installed package brings, that a script defines, and that a cluster has to find."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import capax
from capax.specs import plugins

FOLDER = Path(__file__).parents[2] / "examples" / "plugins"
POINTS = "[capax.tasks]\npairs = installed_pairs:Pairs\n[capax.models]\ngqa = installed_gqa:GQA\n"
MEASURED = """
from installed_pairs import Pairs
import capax

if __name__ == "__main__":
    model = capax.Model.registry.find("gqa")(n_heads=2, d_model=4, d_head=4)
    task = Pairs(n_keys=9, n_values=3, library_size=5)
    found = capax.measure(task, model, capax.Training(max_epochs=2), restarts=4, workers=2, device="cpu")
    print(found.key)
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks as if a package with the plugins were installed there."""
    for name in "pairs", "gqa":
        shutil.copy(FOLDER / f"{name}.py", tmp_path / f"installed_{name}.py")
    told = tmp_path / "installed_plugins-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: installed-plugins\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_an_installed_package_brings_them(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugins.load_installed.cache_clear()
    try:
        run = {"task": {"task": "pairs", "n_keys": 9, "library_size": 5}, "model": {"model": "gqa", "n_heads": 2}}
        found = capax.Run.model_validate(run)
    finally:
        plugins.load_installed.cache_clear()
        for name in "installed_pairs", "installed_gqa":
            sys.modules.pop(name, None)
    assert type(found.task).__module__ == "installed_pairs"
    assert found.model.columns()["n_kv_heads"] == 1


def test_without_the_package_the_tag_is_named() -> None:
    with pytest.raises(capax.CapaxError, match=r"task: .*plugin.*'pairs'"):
        capax.Run.model_validate({"task": {"task": "pairs"}, "model": {"model": "transformer"}})


@pytest.mark.very_slow
def test_worker_processes_import_the_package(installed: Path) -> None:
    script = installed / "measured.py"
    script.write_text(MEASURED)
    done = subprocess.run([sys.executable, script], cwd=installed, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.strip()) == 64


RAY = """
import sys
import capax
from capax.specs.plugins import load_file
from capax.sweeps.cluster import RayTasks

if __name__ == "__main__":
    for file in sys.argv[1:]:
        load_file(file)
    Pairs, GQA = capax.Task.registry["pairs"], capax.Model.registry["gqa"]
    task = Pairs(n_keys=9, n_values=3, library_size=5)
    runs = [
        capax.Run(task=task, model=GQA(n_heads=2, d_model=width, d_head=4), training=capax.Training(max_epochs=2))
        for width in (4, 6)
    ]
    with RayTasks("local", slots=2) as executor:
        found = list(capax.sweep(runs, "ray.db", executor=executor, device="cpu"))
    print("swept", len({run.key for run in found}))
"""


@pytest.mark.very_slow
def test_ray_tasks_find_the_files(ours: SimpleNamespace, tmp_path: Path) -> None:
    script = tmp_path / "ray_sweep.py"
    script.write_text(RAY)
    command = [sys.executable, script, *ours.files]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert "swept 2" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["pairs", "gqa"])
def test_the_pages_show_the_files(name: str) -> None:
    page = FOLDER.parents[1] / "docs" / "how-to" / f"add-a-{'task' if name == 'pairs' else 'model'}.md"
    assert f"```python\n{(FOLDER / name).with_suffix('.py').read_text()}```" in page.read_text()
