"""The file of a claim: safetensors with the data, the weights, and in the metadata what they are said to reach.

Nothing in it is code. Everything is checked when it is read: names, types and shapes of the tensors, that numbers are
finite, the labels and edges, the metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from capax import outputs
from capax.errors import ClaimError, LibraryError, ReportError
from capax.inputs import LARGEST_TEXT, json_object, regular
from capax.results import Result
from capax.tasks.association_files import Examples, checked
from capax.tasks.graphs import check_edges

METADATA = "capax"
"""The entry of the metadata that has the claim, as JSON."""
SUFFIX = ".safetensors"

Real = Annotated[float, Field(allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


class AssociationClaim(Result):
    """What an attention layer is said to remember."""

    library_size: Count
    recalled: Annotated[
        Count | None, Field(description="Examples whose arg-max is their class, or with every number within tolerance.")
    ] = None
    max_error: Annotated[
        Real | None, Field(ge=0, description="Largest distance of an output from its label, a class as one-hot vector.")
    ] = None
    tolerance: Annotated[Real | None, Field(gt=0, description="Of a number of a real label.")] = None


class RelationClaim(Result):
    """What a key-query channel is said to recognize."""

    n_items: Count
    n_edges: Count
    total_key_dim: Annotated[Count, Field(description="n_heads · d_head.")]
    f1: Annotated[Real, Field(ge=0, le=1, description="Over all ordered pairs of different items.")]
    margin: Annotated[
        Real | None, Field(description="Smallest score of an edge minus the largest of a non-edge; None: not claimed.")
    ] = None


class AssociationHeader(Result):
    """The metadata of a claim on associations."""

    format: Literal[1] = 1
    task: Literal["associations"] = "associations"
    profile: Literal["plain", "mahdavi2024"] = "plain"
    claim: AssociationClaim
    about: Annotated[dict[str, Any], Field(description="Where it comes from; nothing that is checked.")] = {}  # noqa: RUF012 (pydantic copies it)


class RelationHeader(Result):
    """The metadata of a claim on relations."""

    format: Literal[1] = 1
    task: Literal["relations"] = "relations"
    aggregate: Literal["max", "sum"] = "max"
    claim: RelationClaim
    about: dict[str, Any] = {}  # noqa: RUF012 (pydantic copies it)


Header = Annotated[AssociationHeader | RelationHeader, Field(discriminator="task")]
HEADER: TypeAdapter[AssociationHeader | RelationHeader] = TypeAdapter(Header)

Shape = tuple[str | int, ...]
HEADS: dict[str, Shape] = {
    "query": ("n_heads", "d_model", "d_head"),
    "key": ("n_heads", "d_model", "d_head"),
}
RELATIONS: dict[str, Shape] = {
    "items": ("n_items", "d_model"),
    "edges": ("n_edges", 2),
    "threshold": (1,),
    **HEADS,
}
PLAIN: dict[str, Shape] = {
    "queries": ("library_size", "d_model"),
    "contexts": ("n_contexts", "context_size", "d_model"),
    **HEADS,
    "value": ("n_heads", "d_model", "d_value"),
    "out": ("n_heads", "d_value", "d_out"),
}
PUBLISHED: dict[str, Shape] = PLAIN | {
    "out": ("n_heads", "d_value", "d_model"),
    "embedding": ("d_model", "d_model"),
    "embedding_bias": ("d_model",),
    "readout": ("d_model", "d_out"),
    "readout_bias": ("d_out",),
}
"""Tensors and their shapes. Associations also have `labels`: classes (library_size) or real (library_size, d_out)."""


@dataclass(frozen=True)
class ClaimFile:
    """Weights, the data that they are of, and what they are said to reach.

    Attributes:
        header: the claim.
        tensors: by name; `sizes` are their dimensions.
    """

    header: AssociationHeader | RelationHeader
    tensors: Mapping[str, np.ndarray]
    sizes: Mapping[str, int]

    @classmethod
    def of(cls, header: AssociationHeader | RelationHeader, tensors: Mapping[str, np.ndarray]) -> ClaimFile:
        """A claim on tensors that fit together.

        Raises:
            ClaimError: where they do not; the message names the tensor.
        """
        return cls(header, tensors, _sizes(header, tensors))

    def save(self, path: Path) -> None:
        """Write it (.safetensors), whole or not at all.

        Raises:
            ReportError: for another suffix, or when the file cannot be written.
        """
        check_path(path)
        arrays = {name: np.ascontiguousarray(array) for name, array in self.tensors.items()}
        outputs.write(path, save(arrays, {METADATA: self.header.model_dump_json()}), "save")


def data_of(examples: Examples) -> dict[str, np.ndarray]:
    """The tensors of examples: classes as integers, all else in float64."""
    labels, wide = examples.labels, np.float64
    classes = np.issubdtype(labels.dtype, np.integer)
    return {
        "queries": examples.queries.astype(wide),
        "contexts": examples.contexts.astype(wide),
        "labels": labels.astype(np.int64) if classes else labels.reshape(len(labels), -1).astype(wide),
    }


def check_path(path: Path) -> None:
    """Refuse a path that a claim cannot be written to.

    Raises:
        ReportError: for another suffix, or when the file cannot be written.
    """
    if path.suffix != SUFFIX:
        raise ReportError(f"save: a {SUFFIX} file, got {str(path)!r}")
    outputs.check(path, "save")
    if path.is_file() and path.stat().st_size:
        try:
            read(path)
        except ClaimError:
            raise ReportError(f"save: {path} is there, and no claim; name another file") from None


def read(path: Path) -> ClaimFile:
    """The claim of a file, and what it is of.

    Raises:
        ClaimError: for a file that is damaged, of something else, or whose parts do not fit together.
    """
    regular(path, "file", ClaimError)
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
        if length > LARGEST_TEXT:
            raise ClaimError(f"file: {path} is no {SUFFIX} file: a header of {length} bytes, at most {LARGEST_TEXT}")
        with safe_open(path, framework="numpy") as opened:
            metadata, tensors = opened.metadata(), {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (no mapping)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ClaimError(f"file: cannot read {path} as {SUFFIX}: {error}") from None
    if METADATA not in (metadata or {}):
        raise ClaimError(f"file: {path} has no claim of capax in its metadata, as `capax construct … --save` writes it")
    return ClaimFile.of(_header(metadata[METADATA]), tensors)


def _header(text: str) -> AssociationHeader | RelationHeader:
    fields = json_object(text, "metadata", ClaimError)
    try:
        return HEADER.validate_python(fields)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part not in ("associations", "relations"))
        given = "" if first["type"] == "missing" else f", got {json.dumps(first['input'], default=str)[:80]}"
        raise ClaimError(f"metadata: {place or 'claim'}: {first['msg']}{given}") from None


def _sizes(header: AssociationHeader | RelationHeader, tensors: Mapping[str, np.ndarray]) -> dict[str, int]:
    """The dimensions, if tensors are those of the task and fit together."""
    shapes: dict[str, Shape]
    integer: str | None
    if isinstance(header, RelationHeader):
        shapes, integer = RELATIONS, "edges"
    else:
        shapes = PLAIN if header.profile == "plain" else PUBLISHED
        real = "labels" in tensors and np.issubdtype(tensors["labels"].dtype, np.floating)
        labels: Shape = ("library_size", "d_out") if real else ("library_size",)
        shapes, integer = shapes | {"labels": labels}, None if real else "labels"
    for name in {**shapes, **tensors}:
        if (name in shapes) != (name in tensors):
            wrong = "is missing" if name in shapes else "is none of them"
            raise ClaimError(f"file: the tensors of {header.task} are {', '.join(shapes)}; {name!r:.80} {wrong}")
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        _check_tensor(name, tensors[name], shape, name == integer, sizes)
    try:
        _check_data(header, tensors, sizes)
    except LibraryError as error:
        raise ClaimError(str(error)) from None
    return sizes


def _check_tensor(name: str, array: np.ndarray, shape: Shape, integers: bool, sizes: dict[str, int]) -> None:
    """Refuse another type or shape than expected, no elements, and numbers that are not finite."""
    kinds = ("int64",) if integers else ("float64", "float32")
    if str(array.dtype) not in kinds:
        raise ClaimError(f"{name}: numbers of {' or '.join(kinds)}, got {array.dtype}")
    wanted = tuple(size if isinstance(size, int) else sizes.get(size, size) for size in shape)
    fits = len(wanted) == array.ndim and all(
        have > 0 and (isinstance(size, str) or size == have) for size, have in zip(wanted, array.shape, strict=True)
    )
    if not fits:
        words = ", ".join(map(str, wanted))
        raise ClaimError(f"{name}: an array of shape ({words}), got {array.shape}")
    sizes.update({size: have for size, have in zip(shape, array.shape, strict=True) if isinstance(size, str)})
    if not integers and not np.isfinite(array).all():
        raise ClaimError(f"{name}: should be finite, it has NaN or infinity")


def _check_data(
    header: AssociationHeader | RelationHeader, tensors: Mapping[str, np.ndarray], sizes: Mapping[str, int]
) -> None:
    """Refuse edges or labels that cannot be.

    Raises:
        LibraryError: that names the edge or the example.
    """
    if isinstance(header, RelationHeader):
        check_edges(tensors["edges"], sizes["n_items"])
        return
    examples = checked(tensors["queries"], tensors["contexts"], tensors["labels"])
    classes = tensors["labels"].ndim == 1
    if classes and (highest := int(examples.labels.max())) >= sizes["d_out"]:
        at = int(examples.labels.argmax()) + 1
        raise LibraryError(f"labels: example {at} is of class {highest}, but there are {sizes['d_out']} outputs")
    if not classes and header.claim.recalled is not None and header.claim.tolerance is None:
        raise LibraryError("metadata: claim.tolerance: is required where real labels are said to be recalled")
    if header.claim.recalled is None and header.claim.max_error is None:
        raise LibraryError("metadata: claim: should have recalled or max_error, got neither")
