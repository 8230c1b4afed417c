"""Laws by name, to and from JSON."""

from __future__ import annotations

import copy
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from capax import outputs
from capax.errors import LawError, TableError, shown
from capax.laws.capacity import CapacityLaw
from capax.laws.censored import Solution
from capax.laws.domain import Domain
from capax.laws.ecm import ECM
from capax.laws.exposure import ExposureLaw
from capax.laws.law import Law
from capax.laws.polynomial import Polynomial
from capax.laws.power import AssociationLaw, BitsLaw, DepthLaw, LinearRelationLaw, PowerLaw, Product, RelationLaw
from capax.laws.predictor import FEWEST_DRAWS
from capax.laws.printed import SOURCES
from capax.laws.rejected import ExponentialLaw, LogisticLaw
from capax.laws.rows import checked_rows
from capax.specs import Model, Task

LAWS: dict[str, type[Law]] = {
    law.name: law
    for law in (
        *(ECM, ExponentialLaw, LogisticLaw, Polynomial, BitsLaw, PowerLaw, DepthLaw, CapacityLaw, ExposureLaw),
        *(AssociationLaw, RelationLaw, LinearRelationLaw),
    )
}
Forms = Literal["ecm", "exponential", "logistic", "polynomial", "bits", "power", "depth", "capacity", "exposure"]
LawName = Literal[Forms, "association", "relation", "relation-linear"]
DEFAULT = "reference"


class LawFile(BaseModel):
    """A fitted law as `capax fit --out` writes it: enough to predict, to plan, and to fit it anew with more rows."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    law: LawName
    options: Annotated[dict[str, Any], Field(description="Arguments of the law.")]
    values: Annotated[dict[str, float], Field(description="Numbers behind a prediction, by parameter.")]
    held: Annotated[
        dict[str, tuple[float, str]], Field(description="Parameters that were not fitted: their value, and why.")
    ]
    free: Annotated[
        tuple[str, ...] | None,
        Field(description="Parameters that were fitted; None in files of earlier versions: all that were not held."),
    ] = None
    undetermined: Annotated[dict[str, str], Field(description="Parameters that the data do not determine, and why.")]
    sigma: Annotated[
        FiniteFloat, Field(gt=0, description="Spread of log counts about the law (polynomial: of counts).")
    ]
    spreads: Annotated[
        dict[str, float],
        Field(description="How many times sigma measurements spread of a kind, by column=kind, where that differs."),
    ] = {}
    dof: Annotated[int, Field(ge=0)]
    deviance: Annotated[FiniteFloat, Field(ge=0)]
    domain: Domain
    source: str
    notes: tuple[str, ...]
    columns: Annotated[dict[str, tuple[float, ...]], Field(description="The rows that it was fitted to.")]
    counts: tuple[float, ...]
    library: tuple[float, ...]
    draws: Annotated[
        tuple[tuple[float, ...], ...], Field(description="Parameters, and sigma last, of the bootstrap's refits.")
    ]
    schema_version: Literal[1] = 1


def to_json(law: Law) -> str:
    """A fitted law as one JSON object; `from_json` gives back the same predictions bit for bit.

    Raises:
        LawError: for what is no law, or one that is not fitted.
    """
    draws = _fitted(law).bootstrap()
    rows, solution = law.measured, law.solution_
    return LawFile(
        law=law.name,  # type: ignore[arg-type]
        options=law.options(),
        values=solution.values,
        held=getattr(law, "held_", {}),
        free=solution.free,
        undetermined=law.undetermined_,
        sigma=solution.sigma,
        spreads=getattr(law, "spreads_", {}),
        dof=solution.dof,
        deviance=solution.deviance,
        domain=law.domain_,
        source=law.source_,
        notes=tuple(law.notes_),
        columns={} if rows is None else {name: tuple(values.tolist()) for name, values in rows.columns.items()},
        counts=() if rows is None else tuple(rows.counts.tolist()),
        library=() if rows is None else tuple(rows.library.tolist()),
        draws=tuple(map(tuple, draws.tolist())),
    ).model_dump_json()


def from_json(text: str | bytes) -> Law:
    """Read a law back.

    Raises:
        LawError: when the text is not a law of this schema version.
    """
    try:
        file = LawFile.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        raise LawError(": ".join(filter(None, ("not a law", ".".join(map(str, first["loc"])), first["msg"])))) from None
    law = _law(file)
    _check(file, law)
    values = {name: file.values[name] for name in law.names}
    free = tuple(name for name in law.names if name not in file.held) if file.free is None else file.free
    law.solution_ = Solution(values, free, file.sigma, file.dof, file.deviance)
    law.sigma_, law.held_, law.undetermined_ = file.sigma, file.held, file.undetermined
    law.spreads_ = file.spreads
    law.parameters_ = {name: None if name in file.undetermined else value for name, value in values.items()}
    law.domain_, law.source_, law.notes_ = file.domain, file.source, list(file.notes)
    law.draws_ = np.array(file.draws)
    law.n_features_in_ = len(law.columns)
    _check_predictions(law)
    if file.counts:
        columns = {name: np.array(column) for name, column in file.columns.items()}
        try:
            law.rows_ = checked_rows(columns, np.array(file.counts), np.array(file.library), "counts")
        except TableError as error:
            raise LawError(f"not a law: {error}") from None
    return law


def _check_predictions(law: Law) -> None:
    """Whether a law and its bootstrap say something at both ends of its domain; a parameter itself may be infinite.

    Raises:
        LawError: that names the field.
    """
    ends = {name: np.array(law.domain_.ranges.get(name, (1.0, len(law.coded.get(name, ()))))) for name in law.columns}
    capacities = law._capacities(ends)
    for field, rows in (("values", [law.solution_.theta]), ("draws", law.bootstrap()[:, :-1])):
        with np.errstate(all="ignore"):
            said = [capacities(np.asarray(theta))[0] for theta in rows]
        if not np.isfinite(said).all():
            raise LawError(f"not a law: {field}: they give no finite count in the law's domain")


def _law(file: LawFile) -> Law:
    """The law of a file, not fitted."""
    usual = LAWS[file.law]().get_params()
    for name, value in file.options.items():
        if name not in usual:
            raise LawError(f"not a law: options: {', '.join(usual)} are those of {file.law}, got {name}")
        if usual[name] is not None and type(value) is not type(usual[name]):
            raise LawError(f"not a law: options.{name}: should be like {usual[name]!r}, got {value!r:.80}")
    law = LAWS[file.law](**file.options)
    for name, least in (("random_state", 0), ("n_bootstrap", FEWEST_DRAWS)):
        if (given := getattr(law, name)) < least:
            raise LawError(f"not a law: options.{name}: at least {least}, got {given}")
    try:
        _ = law.names
    except LawError as error:
        raise LawError(f"not a law: options.{error}") from None
    return law


def _check(file: LawFile, law: Law) -> None:
    """Whether what a file says of its law belongs together.

    Raises:
        LawError: that names the field.
    """
    if set(file.values) != set(law.names):
        raise LawError(
            f"not a law: values: {', '.join(law.names)} are needed, got {', '.join(file.values)} (a file of an earlier "
            "version is written by fitting the law again)"
        )
    if isinstance(law, Product) and not file.values[law.scale] > 0:
        raise LawError(f"not a law: values.{law.scale}: a positive number is needed, got {file.values[law.scale]}")
    for field, named in (("held", file.held), ("free", file.free or ()), ("undetermined", file.undetermined)):
        if foreign := set(named) - set(law.names):
            raise LawError(f"not a law: {field}: {', '.join(law.names)} are its parameters, got {min(foreign)}")
    if len(file.draws) < FEWEST_DRAWS:
        raise LawError(f"not a law: draws: at least {FEWEST_DRAWS}, got {len(file.draws)}")
    for number, draw in enumerate(file.draws):
        if len(draw) != len(law.names) + 1 or not 0 < draw[-1] < np.inf:
            raise LawError(f"not a law: draws.{number}: {', '.join(law.names)} and a positive sigma are needed")
    for name in law.columns:
        if name in law.coded:
            if not file.domain.kinds.get(name) or not set(file.domain.kinds[name]) <= set(law.coded[name]):
                raise LawError(f"not a law: domain.kinds.{name}: some of {', '.join(law.coded[name])} are needed")
            continue
        low, high = file.domain.ranges.get(name, (0.0, 0.0))
        if not 0 < low <= high < np.inf:
            raise LawError(f"not a law: domain.ranges.{name}: from a positive number up to a finite one is needed")
    for kind, times in file.spreads.items():
        name, _, value = kind.partition("=")
        if name not in law.columns or value not in law.coded.get(name, ()) or not 0 < times < np.inf:
            raise LawError(f"not a law: spreads.{kind}: column=kind of the law's, and a positive number are needed")
    _check_protocol(file.domain, law)
    if file.domain.largest_library is not None and not 0 < file.domain.largest_library < np.inf:
        raise LawError(f"not a law: domain.largest_library: positive and finite, got {file.domain.largest_library}")
    if file.counts and set(file.columns) != set(law.columns):
        raise LawError(f"not a law: columns: {', '.join(law.columns)} are needed, got {', '.join(file.columns)}")
    if len(file.library) != len(file.counts):
        raise LawError(f"not a law: library: as many as counts are needed, {len(file.counts)}, got {len(file.library)}")


def _check_protocol(domain: Domain, law: Law) -> None:
    """Whether the model of the data learns their task; what is of plugins that are not there is not known.

    Raises:
        LawError: that names the field.
    """
    tags = {kind: domain.protocol.get(name) for name, kind in (("task", Task), ("model", Model))}
    if all(tag is None or tag in kind.registry for kind, tag in tags.items()):
        try:
            domain.model_class(law.items)
        except LawError as error:
            raise LawError(f"not a law: domain.protocol.{error}") from None


def save_law(law: Law, path: Path | str) -> None:
    """Write a law as JSON, whole or not at all.

    Raises:
        LawError: for a law that is not fitted, or is none.
        ReportError: for what is no path, and when the file cannot be written.
    """
    outputs.write(outputs.path_of(path), f"{to_json(law)}\n".encode())


def _fitted(law: Any) -> Law:
    if not isinstance(law, Law):
        raise LawError(f"law: a fitted law, got {shown(law)}")
    if not hasattr(law, "domain_"):
        raise LawError(f"law: a fitted law, got one of {law.name} that is not fitted")
    return law


def load_law(name: Law | Path | str = DEFAULT) -> Law:
    """A law by name: a JSON file, `reference`, or `published:harma2024` (`published:harma2024:2` for two layers).

    A law is given back as it is.

    `reference` (`reference:capacity`) is the law of bits fitted to the converged networks that ship with capax;
    `reference:exposure` that of their curves. `reference:power`, `reference:ecm` and `reference:bits` are laws of items
    in width, heads and length, fitted to those that differ in these alone (`reference:grid`); `reference:association`
    is the law of attention layers, `reference:relation` that of the key-query channel.

    Raises:
        LawError: when there is no such law.
    """
    if isinstance(name, Law):
        return _fitted(name)
    if not isinstance(name, Path | str):
        raise LawError(f"law: a fitted law, or the name of one, got {shown(name)}")
    if str(name).startswith("published:"):
        _, source, *layers = str(name).split(":")
        if len(layers) > 1 or not all(layer.isdecimal() for layer in layers):
            raise LawError(f"law: published:SOURCE or published:SOURCE:LAYERS, got {str(name)!r}")
        if source not in SOURCES:
            printed = ", ".join(f"published:{one}" for one in SOURCES)
            raise LawError(f"law: of published laws {printed}, got {str(name)!r:.80}")
        return ECM.published(source, n_layers=int(layers[0]) if layers else 1)
    if str(name).partition(":")[0] == "reference":
        return _reference(str(name))
    path = Path(name)
    try:
        text = path.read_bytes() if path.is_file() else None
    except OSError as error:
        raise LawError(f"law: cannot read {path}: {error.strerror}") from None
    if text is None:
        if path.suffix or path.parent != Path():
            raise LawError(f"law: {'a folder, not a file' if path.is_dir() else 'no such file'}: {path}")
        raise LawError(f"law: a JSON file, reference, reference:NAME or published:harma2024, got {str(name)!r}")
    try:
        return from_json(text)
    except LawError as error:
        raise LawError(f"law: {path} is {error}") from None


REFERENCE = ("capacity", "power", "ecm", "bits", "exposure", "association", "relation")


def reference_of(items: str) -> str | None:
    """The name of the law that ships for some kind of items; None where there is none."""
    found = next((law for law in REFERENCE if LAWS[law].items == items), None)
    return DEFAULT if found == REFERENCE[0] else found and f"{DEFAULT}:{found}"


def _reference(name: str) -> Law:
    law = name.partition(":")[2] or REFERENCE[0]
    if law not in REFERENCE:
        raise LawError(f"law: reference or reference:NAME with {', '.join(REFERENCE)}, got {name!r}")
    return copy.deepcopy(_shipped(law))


@cache
def _shipped(law: str) -> Law:
    """A law of the files that ship, which are read and checked once; callers get copies, which they may fit anew."""
    return from_json((files("capax") / "data" / "reference" / f"{law}.json").read_bytes())
