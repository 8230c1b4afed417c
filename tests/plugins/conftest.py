"""The example plugins, loaded from their files as `--plugin` does, and forgotten again after the tests of a module."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import capax
from capax.specs import plugins

FOLDER = Path(__file__).parents[2] / "examples" / "plugins"


@pytest.fixture(scope="module")
def ours() -> Iterator[SimpleNamespace]:
    """The classes `Pairs` and `GQA`, and `files`."""
    files = (FOLDER / "pairs.py", FOLDER / "gqa.py")
    for file in files:
        plugins.load_file(file)
    yield SimpleNamespace(
        Pairs=capax.Task.registry["pairs"], GQA=capax.Model.registry["gqa"], files=tuple(map(str, files))
    )
    del capax.Task.registry["pairs"], capax.Model.registry["gqa"]
    for name in list(plugins._FILES):
        del plugins._FILES[name], sys.modules[name]
    plugins.resolve.cache_clear()
