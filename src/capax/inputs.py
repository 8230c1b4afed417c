"""Files that the user names: regular files alone are opened, and what they hold is taken in within limits."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any

from capax.errors import CapaxError, shown

if TYPE_CHECKING:
    import numpy as np

DEEPEST = 64
"""Levels of tables or lists in each other: nothing that capax reads has more than ten."""

LARGEST_TEXT = 4 * 2**20
"""Bytes of a file of settings (JSON, TOML)."""


def regular(path: Path, field: str, error: type[CapaxError], *, largest: int | None = None) -> Path:
    """A path, if it is that of a regular file: opening a named pipe waits for ever, and a device has no end.

    Args:
        path: what the user named.
        field: name that the message begins with.
        error: class of the error.
        largest: bytes that it may have.

    Raises:
        error: for what is missing, a folder, a pipe, a device or a socket, or too large.
    """
    found = _status(path, field, error)
    if found is None:
        raise error(f"{field}: no such file: {path}")
    if stat.S_ISDIR(found.st_mode):
        raise error(f"{field}: {path} is a folder; name a file")
    if not stat.S_ISREG(found.st_mode):
        raise error(f"{field}: {path} is not a regular file")
    if largest is not None and found.st_size > largest:
        raise error(f"{field}: {path} has {found.st_size} bytes; at most {largest} are read")
    return path


def whole_path(path: Path | str, field: str, error: type[CapaxError]) -> str:
    """A path from the root, which a record in UTF-8 can hold.

    Raises:
        error: for what is no path, an empty one, or one that cannot be looked at, and where it has a name that is no
            UTF-8.
    """
    if not isinstance(path, str | Path) or path == "":
        raise error(f"{field}: a path, got {shown(path)}")
    try:
        text = str(Path(path).resolve())
    except (OSError, ValueError, RuntimeError) as problem:  # a null character; links in a circle
        said = getattr(problem, "strerror", None) or problem
        raise error(f"{field}: cannot read {str(path)!r:.80}: {said}") from None
    try:
        text.encode()
    except UnicodeEncodeError:
        raise error(f"{field}: a path in UTF-8, got {shown(text)}") from None
    return text


def package_folder(name: str) -> Path | None:
    """Where an installed package is; None where there is none. It is not imported."""
    try:
        found = find_spec(name) if name.isidentifier() else None
    except ValueError:  # of what is no package, such as __main__
        found = None
    return None if found is None or found.origin is None else Path(found.origin).parent


def exists(path: Path, field: str, error: type[CapaxError]) -> bool:
    """Whether anything exists at a path.

    Raises:
        error: for a path that cannot be looked at, such as one that is too long.
    """
    return _status(path, field, error) is not None


def is_folder(path: Path, field: str, error: type[CapaxError]) -> bool:
    """Whether a path is that of a folder.

    Raises:
        error: as `exists`.
    """
    found = _status(path, field, error)
    return found is not None and stat.S_ISDIR(found.st_mode)


def _status(path: Path, field: str, error: type[CapaxError]) -> os.stat_result | None:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as problem:  # ValueError: a null character
        said = getattr(problem, "strerror", None) or problem
        raise error(f"{field}: cannot read {str(path)!r:.80}: {said}") from None


Stamp = tuple[Path, tuple[int, ...]]
"""A file, and what of it changes when its content does."""


def stamps(files: Iterable[Path]) -> tuple[Stamp, ...]:
    """By what a cache knows that files are as they were when it read them; those that are not there are left out."""
    found = list[Stamp]()
    for file in files:
        with suppress(OSError, ValueError):  # ValueError: a null character
            at = file.stat()
            found.append((file, (at.st_dev, at.st_ino, at.st_mtime_ns, at.st_size)))
    return tuple(found)


def read_text(path: Path, field: str, error: type[CapaxError], largest: int | None = None) -> str:
    """The text that a file holds.

    Raises:
        error: as `regular`, and for what is no UTF-8.
    """
    try:
        return regular(path, field, error, largest=largest).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        raise error(f"{field}: cannot read {path}: {problem}") from None


def read_json(path: Path, field: str, error: type[CapaxError]) -> dict[str, Any]:
    """The JSON object that a file holds.

    Raises:
        error: as `regular`, and for what is no JSON object or nested too deeply.
    """
    return json_object(read_text(path, field, error, LARGEST_TEXT), f"{field}: {path}", error)


def json_object(text: str, field: str, error: type[CapaxError]) -> dict[str, Any]:
    """A JSON object.

    Raises:
        error: for what is none, or nested too deeply.
    """
    try:
        found = json.loads(text, object_pairs_hook=once)
    except RecursionError:
        raise error(f"{field}: nested too deeply") from None
    except RepeatedName as problem:
        raise error(f"{field}: {problem}") from None
    except ValueError as problem:
        raise error(f"{field}: should be a JSON object, got {text!r:.80} ({problem})") from None
    if not isinstance(found, dict):
        raise error(f"{field}: should be a JSON object, got {text!r:.80}")
    refuse_nested(found, field, error)
    return found


class RepeatedName(ValueError):
    """A JSON object that has a name twice."""


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these names and values, as an `object_pairs_hook`: of two equal names one would silently be lost.

    Raises:
        RepeatedName: for a name that is there twice.
    """
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise RepeatedName(f"{name!r:.80} is there twice")
        found[name] = value
    return found


def refuse_nested(value: Any, field: str, error: type[CapaxError]) -> None:
    """Refuse tables and lists in each other beyond `DEEPEST` levels.

    Raises:
        error: for more.
    """
    level = [value]
    for _ in range(DEEPEST):
        level = [
            child
            for one in level
            if isinstance(one, dict | list)
            for child in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return
    raise error(f"{field}: nested too deeply; {DEEPEST} levels are read")


def lines_of(path: Path, field: str, error: type[CapaxError], longest: int) -> Iterator[str]:
    r"""The lines of a text file without their ends, one at a time.

    Lines end with `\n`, `\r\n` or `\r`: what else Unicode calls an end, such as a form feed, is part of a line.

    Args:
        longest: characters that a line may have.

    Raises:
        error: as `regular`, for what is no text, and for a longer line, whose number it names.
    """
    number = 0
    try:
        with regular(path, field, error).open(encoding="utf-8-sig") as file:
            while part := file.readline(longest + 1):
                number += 1
                if len(part) > longest:
                    raise error(f"{field}: {path}, line {number}: longer than {longest} characters")
                yield part.removesuffix("\n")
    except (UnicodeDecodeError, OSError) as problem:
        raise error(f"{field}: {path} is not a text file: {problem}") from None


def read_npy(path: Path, field: str, error: type[CapaxError]) -> np.ndarray:
    """The array of a .npy file, which is not read at all where it is shorter than it says.

    Raises:
        error: as `regular`, and for what is no array of numbers.
    """
    import numpy as np  # here: commands that read no array are faster without

    regular(path, field, error)
    try:
        return np.array(np.lib.format.open_memmap(path, mode="r"))  # np.load would also open archives and pickles
    except (
        ValueError,
        OSError,
        EOFError,
        MemoryError,
        RecursionError,
        OverflowError,
        SyntaxError,
        TokenError,
    ) as problem:
        reason = getattr(problem, "strerror", None) or str(problem).partition("\n")[0]
        raise error(f"{field}: {path} is not a .npy array: {reason}") from None
