"""Tasks and models by tag: those of capax, of installed packages, and of a user's files."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from capax.errors import OF_A_PLUGIN, SpecError, shown

GROUPS = ("capax.tasks", "capax.models")
"""Entry points through which a package registers tasks and models."""

_PREFIX = "capax_plugin_"
_FILES: dict[str, Path] = {}
"""Files that were loaded, by the names of their modules."""


class UnknownTag(SpecError):
    """A task or a model of a plugin that is not loaded, or of no plugin at all."""


class Registry(dict[str, type[Any]]):
    """Classes of one kind by their tags, in the order in which they were defined."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def add(self, tag: str, found: type[Any]) -> None:
        """Register a class.

        Raises:
            SpecError: when another class has the tag.
        """
        known = self.get(tag)
        if known is not None and not _anew(known, found):
            raise SpecError(
                f"{self.kind}: tag {tag!r} of {found.__module__}.{found.__qualname__} is that of "
                f"{known.__module__}.{known.__qualname__}"
            )
        self[tag] = found

    def find(self, tag: Any) -> type[Any]:
        """The class of a tag.

        Raises:
            UnknownTag: when there is none.
        """
        if isinstance(tag, str) and tag not in self:
            load_installed()
        if not isinstance(tag, str) or tag not in self:
            raise UnknownTag(f"{self.kind}: one of {', '.join(self)}, {OF_A_PLUGIN}, got {shown(tag)}")
        return self[tag]


def _anew(known: type[Any], found: type[Any]) -> bool:
    """Whether a class is one that was defined again.

    In a notebook, by a worker that imports the script, or by an import of a plugin's file.
    """
    modules = {known.__module__, found.__module__}
    files = {getattr(sys.modules.get(module), "__file__", None) for module in modules}
    again = len(modules) == 1 or modules == {"__main__", "__mp_main__"} or (len(files) == 1 and None not in files)
    return known.__qualname__ == found.__qualname__ and again


@cache
def source_sha256(module: str) -> str | None:
    """Hash of the file that defines a module of somebody else's, as it was when it was first asked for; None of ours.

    None as well where there is no file, as in a notebook.
    """
    if module.partition(".")[0] == "capax":
        return None
    path = _FILES.get(module) or getattr(sys.modules.get(module), "__file__", None)
    return None if path is None else hashlib.sha256(Path(path).read_bytes()).hexdigest()


@cache
def load_installed() -> None:
    """Import what installed packages bring, once.

    Raises:
        SpecError: when one of them cannot be imported.
    """
    for group in GROUPS:
        for point in entry_points(group=group):
            with _reported(f"{group}: the entry point {point.value!r}"):
                point.load()


def load_file(path: Path | str) -> None:
    """Import a user's file, whose tasks and models are then registered; a file that was loaded is not loaded again.

    Raises:
        SpecError: when it is no Python file or fails.
    """
    path = Path(path).resolve()
    if path.suffix != ".py":
        raise SpecError(f"plugin: a .py file, got {path}")
    if not path.is_file():
        raise SpecError(f"plugin: no such file: {path}")
    name = f"{_PREFIX}{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    _FILES[name] = path
    try:
        with _reported(f"plugin: {path}"):
            found.loader.exec_module(module)
            _refuse_unregistered(module)
    except SpecError:
        del sys.modules[name], _FILES[name]
        raise


def _refuse_unregistered(module: ModuleType) -> None:
    """Refuse a task or a model of a user's file that no tag finds, though it says one, or is no base of others.

    Raises:
        SpecError: that says how to register it.
    """
    classes = (kind for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == module.__name__)
    own: list[Any] = [kind for kind in classes if hasattr(kind, "refuse_unregistered")]
    bases = {base for kind in own for base in kind.__mro__[1:]}
    for kind in own:
        if kind.tag_field in inspect.get_annotations(kind) or kind not in bases:
            kind.refuse_unregistered()


@contextmanager
def _reported(what: str) -> Iterator[None]:
    """Whatever somebody else's code raises, in one line."""
    try:
        yield
    except SpecError as error:
        raise SpecError(f"{what}: {error}") from None
    except (Exception, SystemExit) as error:
        raise SpecError(f"{what} cannot be imported ({type(error).__name__}: {error})") from None


def pickled(found: Any) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
    """How an instance of a class from a user's file is pickled, so that other processes load the file first."""
    kind = type(found)
    path = _FILES.get(kind.__module__)
    return None if path is None else (_revived, (str(path), kind.__module__, kind.__qualname__, found.__getstate__()))


def _revived(path: str, module: str, name: str, state: Any) -> Any:
    load_file(path)
    kind = getattr(sys.modules[module], name)
    found = kind.__new__(kind)
    found.__setstate__(state)
    return found


@cache
def resolve(name: str) -> Any:
    """What `package.module:name` stands for: how a spec names what needs torch."""
    home, _, attribute = name.partition(":")
    return getattr(importlib.import_module(home), attribute)
