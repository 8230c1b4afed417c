"""Graphs and embeddings that the user brings.

A graph is a .graphml file (items in its order), or a .csv of edges with the header source,target (items are the names
in it: in numeric order where all are numbers, else as they first appear). A networkx graph becomes such a file by
`write_graph`. Embeddings are a .npy array, one row an item, in the items' order; or `hf:` and
the folder of a Hugging Face model, whose table of tokens the items' vectors are drawn from.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any
from unicodedata import normalize
from xml.etree.ElementTree import ParseError, iterparse

import numpy as np
from jaxtyping import Float, Int

from capax import outputs
from capax.errors import LibraryError
from capax.inputs import read_npy, regular, stamps, whole_path
from capax.specs.relations import EMBEDDINGS, GRAPHS, HF, Relations
from capax.tasks import token_tables
from capax.tasks.directions import repeats

COLUMNS = ("source", "target")
UNIT = 1e-3
"""How far from 1 the norm of a unit vector may be: half precision is off by less."""


@dataclass(frozen=True)
class Files:
    """What the files of a spec hold; None for what is drawn.

    Attributes:
        table: vectors that those of the items are drawn from.
    """

    names: list[str] | None
    edges: Int[np.ndarray, "edges 2"] | None
    vectors: Float[np.ndarray, "items channels"] | None
    table: Float[np.ndarray, "tokens channels"] | None = None

    @cached_property
    def sha256(self) -> str:
        """Sha256 of sizes, edges and vectors (as they are, not normalised), in whatever files; names are no part."""
        found = hashlib.sha256()
        if self.names is not None and self.edges is not None:
            rows = np.unique(self.edges, axis=0).astype("<i8")
            found.update(f"graph {len(self.names)} {len(rows)} ".encode() + rows.tobytes())
        if self.vectors is not None:
            found.update(f"embeddings {list(self.vectors.shape)} ".encode() + self.vectors.astype("<f8").tobytes())
        if self.table is not None:
            found.update(f"table {list(self.table.shape)} ".encode() + self.table.astype("<f4").tobytes())
        return found.hexdigest()


def read_graph(path: Path) -> tuple[list[str], Int[np.ndarray, "edges 2"]]:
    """The names of a file's items, and its edges as rows of source and target (from 0), in the file's order.

    Raises:
        LibraryError: when there is no such graph, or it is undirected, has no edges, a self-loop or an edge twice; the
            message names the items, and of a .csv the line and the column.
    """
    if path.suffix not in (".graphml", ".csv"):
        raise LibraryError(f"graph: {', '.join(GRAPHS)}, or a .graphml or .csv file, got {str(path)!r}")
    regular(path, "graph", LibraryError)
    if path.suffix == ".csv":
        return _read_csv(path)
    import networkx as nx  # here, since most runs read no graph

    try:
        graph = nx.read_graphml(path, force_multigraph=True)  # else repeated edges would become one
        declared = {one.get("id") for _, one in iterparse(path) if one.tag.rpartition("}")[2] == "node"}
    except (OSError, ParseError, nx.NetworkXException, LookupError, ValueError, TypeError, AttributeError) as error:
        raise LibraryError(f"graph: {path} is not GraphML: {' '.join(str(error).split()):.120}") from None
    if added := [node for node in graph.nodes if node not in declared]:
        raise LibraryError(f"graph: {path}: an edge names {added[0]!r:.80}, which is no node of the file")
    return from_networkx(graph, str(path))


def from_networkx(graph: Any, called: str = "the graph") -> tuple[list[str], Int[np.ndarray, "edges 2"]]:
    """The names and edges of a networkx graph, in its order; attributes are ignored.

    Raises:
        LibraryError: as `read_graph`, and when two nodes have one name; `called` says in the message where it is from.
    """
    if not graph.is_directed():
        raise LibraryError(
            f"graph: {called} is undirected, but relations are directed: give each edge in the directions that it has"
        )
    names = [str(node) for node in graph.nodes]
    if len(set(names)) < len(names):
        repeated = next(name for name, count in Counter(names).items() if count > 1)
        raise LibraryError(f"graph: {called} has two nodes of the name {repeated!r:.80}")
    place = {node: number for number, node in enumerate(graph.nodes)}
    edges = _checked(((place[source], place[target], "") for source, target in graph.edges()), names, called)
    return names, edges


def write_graph(graph: Any, path: Path) -> None:
    """Write a networkx graph as GraphML: its names and edges, in its order.

    Raises:
        LibraryError: as `from_networkx`, for what is no graph, and for a path that does not end in .graphml.
        ReportError: when the file cannot be written.
    """
    import networkx as nx

    if path.suffix != ".graphml":
        raise LibraryError(f"path: a file that ends in .graphml, got {str(path)!r:.80}")
    if not isinstance(graph, nx.Graph):
        raise LibraryError(f"graph: a directed networkx graph, got {graph!r:.80}")
    names, edges = from_networkx(graph)
    plain = nx.DiGraph()
    plain.add_nodes_from(names)
    plain.add_edges_from((names[source], names[target]) for source, target in edges)
    outputs.write(path, "\n".join(nx.generate_graphml(plain)).encode(), "path")


def _read_csv(path: Path) -> tuple[list[str], Int[np.ndarray, "edges 2"]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            lines = [(reader.line_num, [normalize("NFC", cell.strip()) for cell in row]) for row in reader]
    except (UnicodeDecodeError, OSError, csv.Error) as error:
        raise LibraryError(f"graph: {path} is not a .csv file: {error}") from None
    lines = [(number, cells) for number, cells in lines if cells and cells != [""]]
    if not lines:
        raise LibraryError(f"graph: {path} is empty; its first line should be source,target")
    header = lines[0][1]
    for column in header:
        if column not in COLUMNS:
            raise LibraryError(
                f"graph: {path} has the unknown column {column!r:.80}; its first line should be source,target"
            )
    if sorted(header) != list(COLUMNS):
        raise LibraryError(f"graph: {path} should have the columns source,target, got {','.join(header)}")
    pairs: list[tuple[str, str, int]] = []
    for number, cells in lines[1:]:
        if len(cells) != 2 or not all(cells):
            raise LibraryError(f"graph: {path}, line {number}: a source and a target, got {','.join(cells)!r:.80}")
        source, target = cells if header[0] == "source" else cells[::-1]
        pairs.append((source, target, number))
    names = list(dict.fromkeys(name for source, target, _ in pairs for name in (source, target)))
    if all(re.fullmatch("[0-9]+", name) for name in names):
        names.sort(key=lambda name: (len(name.lstrip("0")), name.lstrip("0"), name))
    place = {name: number for number, name in enumerate(names)}
    edges = ((place[source], place[target], f", line {number}") for source, target, number in pairs)
    return names, _checked(edges, names, str(path))


def _checked(edges: Iterable[tuple[int, int, str]], names: list[str], called: str) -> Int[np.ndarray, "edges 2"]:
    """Edges (source, target, where it stands) as an array, after those that cannot be are refused."""
    seen: dict[tuple[int, int], str] = {}
    for source, target, where in edges:
        if source == target:
            raise LibraryError(f"graph: {called}{where}: a self-loop at item {names[source]!r:.80}")
        if (source, target) in seen:
            first = seen[source, target].replace(", line", ", first in line")
            raise LibraryError(
                f"graph: {called}{where}: the edge from {names[source]!r:.80} to {names[target]!r:.80} repeats{first}"
            )
        seen[source, target] = where
    if not seen:
        raise LibraryError(f"graph: {called} has no edges")
    return np.array(list(seen), dtype=np.int64).reshape(-1, 2)


def read_embeddings(
    path: Path, names: list[str] | None = None, n_items: int | None = None
) -> Float[np.ndarray, "items channels"]:
    """The vectors of a file in float64, not normalised; `names` are the items' where a file gives them.

    Raises:
        LibraryError: when there is no such array, an item has no vector, a vector no item, or one is not finite or
            zero, or two items have one direction; the message names the item (from 1).
    """
    if path.suffix != ".npy":
        raise LibraryError(f"embeddings: {', '.join(EMBEDDINGS)}, a .npy file, or hf:FOLDER, got {str(path)!r}")
    array = read_npy(path, "embeddings", LibraryError)
    if array.ndim != 2 or not (np.issubdtype(array.dtype, np.floating) or np.issubdtype(array.dtype, np.integer)):
        raise LibraryError(f"embeddings: {path}: a 2-D array of real numbers, got {array.ndim}-D of {array.dtype}")
    expected = len(names) if names is not None else n_items
    if expected is not None and len(array) < expected:
        raise LibraryError(
            f"embeddings: {path}: {_item(len(array), names)} has no vector: {len(array)} rows for {expected} items"
        )
    if expected is not None and len(array) > expected:
        raise LibraryError(f"embeddings: {path}: row {expected + 1} has no item: {len(array)} rows, {expected} items")
    if array.size == 0:
        raise LibraryError(f"embeddings: {path} is empty, of shape {array.shape}")
    vectors = array.astype(np.float64)
    unusable = np.argwhere(~np.isfinite(vectors))
    if len(unusable):
        row, channel = (int(at) for at in unusable[0])
        raise LibraryError(
            f"embeddings: {path}: {_item(row, names)} should be finite, but channel {channel + 1} is "
            f"{vectors[row, channel]}"
        )
    zero = np.flatnonzero(~vectors.any(axis=1))
    if len(zero):
        raise LibraryError(f"embeddings: {path}: {_item(int(zero[0]), names)} is a zero vector: it has no direction")
    again = repeats(vectors)
    if len(again):
        raise LibraryError(
            f"embeddings: {path}: {_item(int(again[0]), names)} has the direction of an item before it: nothing can "
            "tell their edges apart"
        )
    return vectors


def _item(row: int, names: list[str] | None) -> str:
    return f"item {row + 1}" if names is None else f"item {row + 1} ({names[row]!r:.80})"


def norm_notice(vectors: Float[np.ndarray, "items channels"], names: list[str] | None = None) -> str | None:
    """What is to be said of vectors that are not of unit norm (within `UNIT`), or None."""
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(vectors, axis=1)
    off = np.flatnonzero(~(np.abs(norms - 1) <= UNIT))
    if len(off) == 0:
        return None
    first = int(off[0])
    return f"{len(off)} of {len(norms)} vectors are not of unit norm: {_item(first, names)} has norm {norms[first]:.6g}"


def notes(spec: Relations) -> tuple[str, ...]:
    """What a user should know of a spec's files: that vectors were normalised."""
    files = load(spec)
    notice = None if files.vectors is None else norm_notice(files.vectors, files.names)
    return () if notice is None else (f"embeddings: {notice}; all were normalised",)


def load(spec: Relations) -> Files:
    """The files of a spec.

    Raises:
        LibraryError: as `read_graph` and `read_embeddings`, and when their content is not that of `library_sha256`.
    """
    files = _read(spec.graph, spec.embeddings, spec.n_items, spec.strict)
    there = any(part is not None for part in (files.names, files.vectors, files.table))
    if there and files.sha256 != spec.library_sha256:
        changed = [path for path in (spec.graph, spec.embeddings) if path not in (*GRAPHS, *EMBEDDINGS)]
        raise LibraryError(f"library_sha256: {' or '.join(changed)} has changed since it was read")
    return files


def _read(graph: str, embeddings: str, n_items: int | None, strict: bool) -> Files:
    """What files hold; of unchanged ones what was read before, as every member draws from them."""
    named = [Path(name) for name, drawn in ((graph, GRAPHS), (embeddings, EMBEDDINGS)) if name not in drawn]
    if embeddings.startswith(HF):
        named[-1:] = token_tables.files(Path(embeddings.removeprefix(HF)))
    return _read_anew(graph, embeddings, n_items, strict, stamps(named))


@lru_cache(maxsize=2)
def _read_anew(graph: str, embeddings: str, n_items: int | None, strict: bool, _: object) -> Files:
    names, edges = (None, None) if graph in GRAPHS else read_graph(Path(graph))
    if embeddings.startswith(HF):
        return Files(names, edges, None, token_tables.read(Path(embeddings.removeprefix(HF))))
    vectors = None if embeddings in EMBEDDINGS else read_embeddings(Path(embeddings), names, n_items)
    notice = norm_notice(vectors, names) if strict and vectors is not None else None
    if notice is not None:
        raise LibraryError(f"embeddings: {embeddings}: {notice}, and strict refuses them")
    return Files(names, edges, vectors)


def describe(graph: str, embeddings: str, given: dict[str, Any]) -> dict[str, Any]:
    """A spec's fields that follow from its files, after those that were given have been checked against them.

    Raises:
        LibraryError: as `read_graph` and `read_embeddings`; for a field that contradicts a file; and, where `strict`
            was given, for a vector that is not of unit norm.
    """
    files = _read(graph, embeddings, given.get("n_items"), given.get("strict", False))
    found: dict[str, Any] = {}
    if files.names is not None and files.edges is not None:
        found |= {"n_items": len(files.names), "n_edges": len(files.edges)}
    elif files.vectors is not None:
        found["n_items"] = len(files.vectors)
    for name, value in found.items():
        if given.get(name) not in (None, value):
            raise LibraryError(f"{name}: {graph} has {value}, got {given[name]}")
    for name, value, drawn in (("graph", graph, GRAPHS), ("embeddings", embeddings, EMBEDDINGS)):
        if value not in drawn:
            start = HF if value.startswith(HF) and name == "embeddings" else ""
            found[name] = start + whole_path(value.removeprefix(start), name, LibraryError)
    return {**found, "library_sha256": files.sha256}
