"""A study file: a base run, axes, changes; and the runs that it means."""

from __future__ import annotations

import itertools
import math
import os
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capax.errors import LibraryError, SpecError, among
from capax.inputs import LARGEST_TEXT, package_folder, refuse_nested, regular, whole_path
from capax.specs import PROTOCOLS, Model, Run, Spec, Task, Training
from capax.specs.labels import UNCALLED, Labels
from capax.specs.plugins import UnknownTag
from capax.specs.relations import EMBEDDINGS, GRAPHS, HF
from capax.specs.spec import is_filled_in

MOST_RUNS = 1_000_000
MOST_POINTS = 50_000
"""Values of one axis."""
LARGEST_END = 2.0**63
"""Of a range; its ends are in a ratio below this, too."""
FOLDERS = ("library", "config", "weights", "tokenizer", "base")
BESIDE = ("graph", "embeddings", "held_out", *FOLDERS)
"""Fields that may name what lies beside the study, and those of them that may name a folder."""
PACKAGE = "package:"
"""What a file or folder of an installed package begins with, in place of one beside the study."""
DRAWN = {"random", "all", *GRAPHS, *EMBEDDINGS}
"""What these fields are where nothing is named."""
NO_AXES = ("task", "model", "protocol")
Parts = dict[str, type[Spec]]
STUDIED = ("task", "model", "training", "protocol", "grid", "zip")
"""Tables of which a study has one at least: else it would be a run of all defaults."""
KNOWN = ("store", "seed", "task", "model", "training", "protocol", "grid", "zip", "change", "name", "tags")


class StudyError(SpecError):
    """A study file is not what it should be; the message names file, table, field and value."""


@dataclass(frozen=True)
class Study:
    """A study file, read and validated whole.

    Attributes:
        path: the file.
        runs: its runs, each once, in the order of the file: the last axis varies fastest.
        repeated: combinations that mean a run that was there already.
        store: the store that the file names, or else one of the file's name, beside the file.
        labels: what its runs are called.
    """

    path: Path
    runs: tuple[Run, ...]
    repeated: int
    store: Path
    labels: Labels = UNCALLED


def read_study(path: Path | str, *, allow_many: bool = False) -> Study:
    """Read a study file (TOML) and make all its runs.

    The tables `task`, `model`, `training` and `protocol` and the key `seed` hold a base run, in the names of the specs;
    `name` and `tags` are those of all its runs, and `store` is the file that keeps them.
    `grid` holds axes by field name: every combination is a run. Each `[[zip]]` holds fields that advance together, and
    is one axis. An axis is a list, or a range of equal ratios: `{from = 8, to = 128, factor = 2}` or
    `{from = 1e-4, to = 1e-2, steps = 5}`; it has at most 50,000 values. Each `[[change]]` has `if` (fields and values,
    a list of values for several) and `set`: runs that meet all of `if` get the fields of `set`;
    there must be one. A `library` or `tokenizer` of the task, and a `config` or `weights` of
    the model, that lies beside the study is that one.

    Raises:
        StudyError: for a file that cannot be read, is no TOML, has unknown tables, fields or axes, an empty axis, more
            than a million runs without `allow_many`, a change that no run meets, or a run that is not allowed.
    """
    path = Path(path)
    whole_path(path, "study", StudyError)
    tables = _parse(path)
    try:
        study = _study(path, tables, allow_many)
    except (SpecError, LibraryError) as error:
        raise StudyError(f"{path}: {error}") from None
    if not any(tables.get(name) for name in STUDIED):
        raise StudyError(f"{path}: says nothing of what is studied: one of {', '.join(STUDIED)} at least")
    return study


def combinations(path: Path | str) -> int:
    """How many combinations of its axes a study file has; no run is made.

    Raises:
        StudyError: as `read_study`, but for runs that are not allowed, and changes.
    """
    tables = _parse(Path(path))
    try:
        _refuse_unknown(tables)
        parts = _parts(tables)
        return math.prod(len(axis) for axis in _axes(tables, _fields(parts), parts))
    except SpecError as error:
        raise StudyError(f"{path}: {error}") from None


def _parse(path: Path) -> dict[str, Any]:
    try:
        text = regular(path, "study", StudyError, largest=LARGEST_TEXT).read_text(encoding="utf-8-sig")
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{path}: {error}") from None  # it names line and column
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"study: cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    except (RecursionError, ValueError) as error:  # ValueError: an integer of thousands of digits
        raise StudyError(f"{path}: {'nested too deeply' if isinstance(error, RecursionError) else error}") from None
    refuse_nested(tables, str(path), StudyError)
    return tables


def _refuse_unknown(tables: Mapping[str, Any]) -> None:
    for name in tables:
        if name not in KNOWN:
            raise SpecError(f"{name}: unknown table; allowed are {', '.join(KNOWN)}")
    for name in ("task", "model", "training", "protocol", "grid"):
        if not isinstance(tables.get(name, {}), dict):
            raise SpecError(f"{name}: should be a table, got {tables[name]!r}")


def _study(path: Path, tables: dict[str, Any], allow_many: bool) -> Study:
    _refuse_unknown(tables)
    labels = Labels(tables.get("name"), tables.get("tags", ()))
    store = tables.get("store")
    if store is not None and not isinstance(store, str):
        raise SpecError(f"store: should be a file name, got {store!r}")
    parts = _parts(tables)
    fields = _fields(parts)
    base = _base(tables, fields)
    axes = _axes(tables, fields, parts)
    given = {*base, *(name for axis in axes for step in axis for name in step)}
    changes = [_change(number, change, fields, given) for number, change in enumerate(_list(tables, "change"))]
    count = math.prod(len(axis) for axis in axes)
    if count > MOST_RUNS and not allow_many:
        raise SpecError(f"grid: {count} runs are more than {MOST_RUNS}; --yes allows them")
    unmatched = set(range(len(changes)))
    runs: dict[str, Run] = {}
    for combination in itertools.product(*axes):
        values = base | {name: value for step in combination for name, value in step.items()}
        for number, (conditions, settings) in enumerate(changes):
            known = values
            if not conditions.keys() <= values.keys():  # what is not given follows from the rest, such as library_size
                known = _filled_in(_run(values | _beside(path, values), fields, parts, combination)) | values
            if all(known[name] in allowed for name, allowed in conditions.items()):
                values = values | settings
                unmatched.discard(number)
        run = _run(values | _beside(path, values), fields, parts, combination)
        runs.setdefault(run.key(), run)
    if unmatched:
        number = min(unmatched)
        asked = ", ".join(f"{name} = {value!r}" for name, value in _list(tables, "change")[number]["if"].items())
        raise SpecError(f"change[{number}].if: matches no run of the study, got {asked}")
    found = path.with_suffix(".db") if store is None else path.parent / store
    return Study(path, tuple(runs.values()), count - len(runs), found, labels)


def _parts(tables: Mapping[str, Any]) -> Parts:
    """The specs of the study's task, of the model that learns it (ours, or a user's module), and of its protocol."""
    try:
        task = Task.registry.find(tables.get("task", {}).get("task", "sequences"))
        tag = tables.get("model", {}).get("model")
        model = task.learner if tag is None else Model.registry.find(tag)
    except UnknownTag as error:
        kind, _, rest = str(error).partition(":")
        raise SpecError(f"{kind}.{kind}:{rest}") from None
    name = tables.get("protocol", {}).get("protocol", "mac")
    if not isinstance(name, str) or name not in PROTOCOLS:
        raise SpecError(f"protocol.protocol: {', '.join(PROTOCOLS)}, got {name!r:.80}")
    return {"task": task, "model": model, "training": Training, "protocol": PROTOCOLS[name]}


def _fields(parts: Parts) -> dict[str, str]:
    """Every field that a run can have, and the part it belongs to."""
    return {field: part for part, spec in parts.items() for field in spec.model_fields} | {"seed": "run"}


def _base(tables: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {} if "seed" not in tables else {"seed": tables["seed"]}
    for part in ("task", "model", "training", "protocol"):
        for name, value in tables.get(part, {}).items():
            if fields.get(name) != part:
                allowed = [field for field, owner in fields.items() if owner == part]
                raise SpecError(f"{part}.{name}: unknown field; allowed are {among(name, allowed)}")
            values[name] = value
    return values


def _axes(tables: Mapping[str, Any], fields: Mapping[str, str], parts: Parts) -> list[list[dict[str, Any]]]:
    """Each axis as its steps: the fields that a step sets."""
    found, seen = [], dict[str, str]()
    for name, values in tables.get("grid", {}).items():
        _claim(seen, "grid", name, fields, parts)
        found.append([{name: value} for value in _values(f"grid.{name}", values)])
    for number, table in enumerate(_list(tables, "zip")):
        label = f"zip[{number}]"
        columns = {name: _values(f"{label}.{name}", values) for name, values in table.items()}
        for name in columns:
            _claim(seen, label, name, fields, parts)
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) != 1:
            raise SpecError(f"{label}: fields of one length advance together, got {lengths}")
        found.append([dict(zip(columns, step, strict=True)) for step in zip(*columns.values(), strict=True)])
    return found


def _claim(seen: dict[str, str], label: str, name: str, fields: Mapping[str, str], parts: Parts) -> None:
    def is_axis(field: str) -> bool:
        own = parts[fields[field]].model_fields[field] if fields[field] in parts else None
        return field not in NO_AXES and not (own is not None and is_filled_in(own))

    if name not in fields or not is_axis(name):
        allowed = filter(is_axis, fields)
        raise SpecError(f"{label}.{name}: no such axis; allowed are {among(name, allowed)}")
    if name in seen:
        raise SpecError(f"{label}.{name}: is an axis of {seen[name]} already")
    seen[name] = label


def _values(label: str, given: Any) -> list[Any]:
    if isinstance(given, dict):
        return _range(label, given)
    if not isinstance(given, list):
        raise SpecError(
            f"{label}: should be a list or a range such as {{from = 8, to = 128, factor = 2}}, got {given!r}"
        )
    if not given:
        raise SpecError(f"{label}: should have at least one value, got none")
    _refuse_long(label, len(given))
    return given


def _refuse_long(label: str, points: int) -> None:
    if points > MOST_POINTS:
        raise SpecError(f"{label}: an axis has at most {MOST_POINTS} points, got {points}")


def _range(label: str, given: Mapping[str, Any]) -> list[Any]:
    """Values of equal ratio; whole where both ends are."""
    if set(given) not in ({"from", "to", "factor"}, {"from", "to", "steps"}):
        raise SpecError(f"{label}: a range has from, to, and factor or steps, got {', '.join(given) or 'nothing'}")
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < LARGEST_END:
            raise SpecError(f"{label}.{name}: should be a positive number below {LARGEST_END:g}, got {value!r:.80}")
    low, high = given["from"], given["to"]
    if high < low:
        raise SpecError(f"{label}.to: at least {low} (from), got {high}")
    if high / low >= LARGEST_END:
        raise SpecError(f"{label}.from: should be above to / {LARGEST_END:g}, got {low}")
    if "factor" in given:
        if given["factor"] <= 1:
            raise SpecError(f"{label}.factor: should be above 1, got {given['factor']}")
        steps = math.floor(math.log(high / low) / math.log(given["factor"]) + 1e-9) + 1
        _refuse_long(label, steps)
        values = [low * given["factor"] ** step for step in range(steps)]
        if math.isclose(values[-1], high, rel_tol=1e-9):
            values[-1] = high
    else:
        steps = given["steps"]
        if not isinstance(steps, int):
            raise SpecError(f"{label}.steps: should be a whole number, got {steps}")
        if steps < 2 and low < high:
            raise SpecError(f"{label}.steps: at least 2, since from and to are values, got {steps}")
        _refuse_long(label, steps)
        values = [low * (high / low) ** (step / (steps - 1)) for step in range(steps - 1)] + [high]
    if isinstance(low, int) and isinstance(high, int):
        return list(dict.fromkeys(round(value) for value in values))
    return [_as_written(value) for value in values]


def _as_written(value: float) -> float:
    """0.001 where powers and products have come to 0.0009999999999999998."""
    short = float(f"{value:.6g}")
    return short if math.isclose(value, short, rel_tol=1e-12) else value


def _list(tables: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = tables.get(name, [])
    if not isinstance(found, list) or not all(isinstance(table, dict) and table for table in found):
        raise SpecError(f"{name}: should be tables [[{name}]] with fields, got {found!r:.60}")
    return found


def _change(
    number: int, table: Mapping[str, Any], fields: Mapping[str, str], given: Collection[str]
) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    label = f"change[{number}]"
    if set(table) != {"if", "set"} or not all(isinstance(part, dict) and part for part in table.values()):
        raise SpecError(f"{label}: should have the tables if and set, each with a field, got {table!r:.80}")
    for part in ("if", "set"):
        for name in table[part]:
            if name not in fields:
                raise SpecError(f"{label}.{part}.{name}: unknown field; allowed are {among(name, fields)}")
    for name in table["if"]:
        if fields[name] == "training" and name not in given:
            raise SpecError(f"{label}.if.{name}: the study does not set it, and what it is then depends on the task")
    conditions = {name: value if isinstance(value, list) else [value] for name, value in table["if"].items()}
    return conditions, dict(table["set"])


def _beside(path: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """What is named that lies beside the study: a library, a tokenizer, a model's config, its weights or its base.

    What begins with `package:` lies in an installed package instead: `package:NAME/FILE`.

    Raises:
        SpecError: for a package that is not installed.
    """
    found = {}
    for name in BESIDE:
        if isinstance(value := values.get(name), str):
            start, rest = (HF, value.removeprefix(HF)) if name == "embeddings" and value.startswith(HF) else ("", value)
            if rest.startswith(PACKAGE):
                found[name] = start + _in_package(name, rest.removeprefix(PACKAGE))
                continue
            place, folder = os.path.join(path.parent, rest), name in FOLDERS or start == HF
            if value not in DRAWN and (os.path.isfile(place) or (folder and os.path.isdir(place))):  # of any length
                found[name] = start + place
    return found


def _in_package(name: str, path: str) -> str:
    package, _, inside = path.partition("/")
    folder = package_folder(package)
    if folder is None:
        raise SpecError(f"{name}: no package {package!r:.80} is installed here")
    return str(folder / inside)


def _filled_in(run: Run) -> dict[str, Any]:
    """Every field of a run."""
    parts = (run.task, run.model, run.training, run.protocol)
    return {name: getattr(part, name) for part in parts for name in type(part).model_fields} | {"seed": run.seed}


def _run(
    values: Mapping[str, Any], fields: Mapping[str, str], parts: Parts, combination: tuple[dict[str, Any], ...]
) -> Run:
    given: dict[str, dict[str, Any]] = {name: {} for name in (*parts, "run")}
    for name, value in values.items():
        given[fields[name]][name] = value
    own = given.pop("run")
    try:
        made = {part: spec(**given[part]) for part, spec in parts.items()}
        for part, values_of in given.items():
            for name, value in values_of.items():
                if isinstance(value, str) and isinstance(number := getattr(made.get(part), name, None), int | float):
                    raise SpecError(f"{name}: should be {number!r}, without quotes, got {value!r}")
        return Run(**made, **own)  # type: ignore[arg-type]
    except (SpecError, LibraryError) as error:
        steps = ", ".join(f"{name} {value}" for step in combination for name, value in step.items())
        part = fields.get(str(error).partition(":")[0], "run")
        table = "" if part == "run" else f"{part}."
        raise SpecError(f"{table}{error}{f' (in the run with {steps})' if steps else ''}") from None


def shapes(runs: tuple[Run, ...]) -> Iterator[tuple[Run, ...]]:
    """Runs that are equal but for their seed, together, in the order of the first of each."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.replace(seed=0).canonical_json(), []).append(run)
    yield from map(tuple, found.values())
