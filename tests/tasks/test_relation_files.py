"""The user's graphs and embeddings: what is read, and one line that names the item for all that cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

import capax
from capax.errors import CapaxError, LibraryError
from capax.specs import KeyQueryChannel, Run, Training
from capax.specs.relations import Relations
from capax.tasks import embeddings, graphs, relation_files
from capax.text import Over

EDGES = "source,target\na,b\nb,c\nc,a\n"


def csv(folder: Path, content: str | bytes = EDGES, name: str = "own.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def npy(folder: Path, array: Any, name: str = "own.npy") -> str:
    np.save(folder / name, np.asarray(array))
    return str(folder / name)


def graphml(folder: Path, graph: Any, name: str = "own.graphml") -> Path:
    nx.write_graphml(graph, folder / name)
    return folder / name


def refusal(graph: Path | str, **fields: Any) -> str:
    """The message, one line long, with which files are refused."""
    with pytest.raises(CapaxError) as refused:
        Relations(graph=str(graph), **fields)
    message = str(refused.value)
    assert "\n" not in message
    assert len(message) < 300 + len(str(graph))
    return message


# what is read


def test_a_file_fills_sizes_path_and_hash(tmp_path: Path) -> None:
    spec = Relations(graph=str(csv(tmp_path)))
    assert (spec.n_items, spec.n_edges, spec.library_size, spec.library) == (3, 3, 3, "file")
    assert spec.graph == str((tmp_path / "own.csv").resolve())
    assert spec.library_sha256 is not None
    assert spec.items == "own.csv, 3 items"
    assert graphs.draw(spec, np.random.default_rng(0)).tolist() == [[0, 1], [1, 2], [2, 0]]
    again = Relations.model_validate_json(spec.model_dump_json())
    assert again == spec


def test_columns_in_any_order_spaces_blank_lines_quotes_and_a_mark(tmp_path: Path) -> None:
    other = csv(tmp_path, b'\xef\xbb\xbf target , source\r\n b,a\r\n\r\n"c",b\r\n \r\na , c', "other.csv")
    names, edges = relation_files.read_graph(other)
    assert [(names[i], names[j]) for i, j in edges] == [("a", "b"), ("b", "c"), ("c", "a")]


def test_numbers_are_items_in_their_order_and_other_names_as_they_appear(tmp_path: Path) -> None:
    names, edges = relation_files.read_graph(csv(tmp_path, "source,target\n10,9\n9,0\n0,10\n2,10\n"))
    assert names == ["0", "2", "9", "10"]
    assert edges.tolist() == [[3, 2], [2, 0], [0, 3], [1, 3]]
    names, _ = relation_files.read_graph(csv(tmp_path, "source,target\n10,x\n9,10\n"))
    assert names == ["10", "x", "9"]


def test_graphml_keeps_the_order_of_items_and_those_without_edges(tmp_path: Path) -> None:
    graph = nx.DiGraph([("z", "a"), ("a", "m")])
    graph.add_node("alone")
    graph.add_edge("m", "z", weight=2.5)
    names, edges = relation_files.read_graph(graphml(tmp_path, graph))
    assert names == ["z", "a", "m", "alone"]
    assert sorted(edges.tolist()) == [[0, 1], [1, 2], [2, 0]]
    assert Relations(graph=str(tmp_path / "own.graphml")).n_items == 4


@settings(derandomize=True, deadline=None, max_examples=25)
@given(n=st.integers(3, 12), seed=st.integers(0, 2**32 - 1))
def test_networkx_graphs_survive_either_file(tmp_path_factory: pytest.TempPathFactory, n: int, seed: int) -> None:
    folder = tmp_path_factory.mktemp("graphs")
    drawn = graphs.draw(Relations(graph="random", n_items=n, n_edges=2 * n), np.random.default_rng(seed))
    graph = nx.DiGraph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(drawn.tolist())
    assert sorted(relation_files.from_networkx(graph)[1].tolist()) == drawn.tolist()
    spec = Relations(graph=str(graphml(folder, graph)))
    assert graphs.draw(spec, np.random.default_rng(0)).tolist() == drawn.tolist()
    if len(np.unique(drawn)) == n:
        lines = "".join(f"{i},{j}\n" for i, j in drawn[::-1])
        assert Relations(graph=str(csv(folder, "source,target\n" + lines))).library_sha256 == spec.library_sha256


def test_the_hash_tells_graphs_sizes_and_vectors_apart(tmp_path: Path) -> None:
    rows, large = npy(tmp_path, np.eye(3)), nx.DiGraph([("a", "b"), ("b", "c"), ("c", "a")])
    large.add_node("d")
    specs = [
        Relations(graph=str(csv(tmp_path))),
        Relations(graph=str(csv(tmp_path, "source,target\na,b\nb,c\nb,a\n", "two.csv"))),
        Relations(graph=str(graphml(tmp_path, large))),
        Relations(graph=str(csv(tmp_path)), embeddings=rows),
        Relations(graph=str(csv(tmp_path)), embeddings=npy(tmp_path, 2 * np.eye(3), "twice.npy")),
        Relations(embeddings=rows),
    ]
    assert len({spec.library_sha256 for spec in specs}) == len(specs)


def test_a_file_that_changed_is_refused_and_a_copy_reads_it_again(tmp_path: Path) -> None:
    path, rows = csv(tmp_path), npy(tmp_path, np.eye(3))
    spec = Relations(graph=str(path), embeddings=rows)
    npy(tmp_path, np.eye(3)[::-1])
    for draw in (lambda: graphs.draw(spec, np.random.default_rng(0)), lambda: relation_files.load(spec)):
        with pytest.raises(LibraryError, match=r"^library_sha256: .*own\.csv.*own\.npy"):
            draw()
    changed = spec.replace(strict=True)
    assert changed.library_sha256 != spec.library_sha256
    np.testing.assert_array_equal(embeddings.draw(changed, 3, np.random.default_rng(0)), np.eye(3)[::-1])
    path.unlink()
    with pytest.raises(LibraryError, match=r"^graph: no such file"):
        graphs.draw(spec, np.random.default_rng(0))


def test_fields_that_agree_are_accepted_and_others_named(tmp_path: Path) -> None:
    path = csv(tmp_path)
    assert Relations(graph=str(path), n_items=3, n_edges=3).n_edges == 3
    assert refusal(path, n_items=4).endswith("own.csv has 3, got 4")
    assert refusal(path, n_edges=4).startswith("n_edges: ")
    assert refusal(path, degree=1).startswith("degree: ")


# graphs that are refused


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("source,target\na,b\nb,b\n", "line 3: a self-loop at item 'b'"),
        ("source,target\na,b\n\u00e9,e\u0301\n", "line 3: a self-loop at item '\u00e9'"),  # one name, spelled twice
        ("source,target\na,b\nb,a\n\n a ,b\n", "line 5: the edge from 'a' to 'b' repeats, first in line 2"),
        ("source,target,weight\na,b,1\n", "unknown column 'weight'"),
        ("a,b\nb,c\n", "unknown column 'a'; its first line should be source,target"),
        ("source\na\n", "should have the columns source,target, got source"),
        ("source,source\na,b\n", "should have the columns source,target, got source,source"),
        ("source,target\na,b,c\n", "line 2: a source and a target, got 'a,b,c'"),
        ("source,target\na,b\nb,\n", "line 3: a source and a target, got 'b,'"),
        ("source,target\na,b\n,\n", "line 3: a source and a target, got ','"),
        ("source,target\n", "has no edges"),
        ("", "is empty; its first line should be source,target"),
        (b"source,target\n\xff,b\n", "is not a .csv file: "),
        ('source,target\na,"b\n', "is not a .csv file: "),
    ],
)
def test_edge_lists_that_cannot_be(tmp_path: Path, content: str | bytes, message: str) -> None:
    refused = refusal(csv(tmp_path, content))
    assert refused.startswith(f"graph: {tmp_path / 'own.csv'}")
    assert message in refused


def test_files_are_read_once_while_they_do_not_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, times = relation_files.read_graph, []
    spec = Relations(graph=str(csv(tmp_path)))
    monkeypatch.setattr(relation_files, "read_graph", lambda path: (times.append(path), read(path))[1])
    for seed in range(5):
        graphs.draw(spec, np.random.default_rng(seed))
        embeddings.draw(spec, 4, np.random.default_rng(seed))
    assert len(times) == 1
    csv(tmp_path, f"{EDGES}c,b\n")
    with pytest.raises(LibraryError, match="has changed since it was read"):
        relation_files.load(spec)


def test_networkx_graphs_that_cannot_be(tmp_path: Path) -> None:
    cases: list[tuple[Any, str]] = [
        (nx.Graph([("a", "b")]), "is undirected, but relations are directed"),
        (nx.DiGraph([("a", "b"), ("b", "b")]), "a self-loop at item 'b'"),
        (nx.MultiDiGraph([("a", "b"), ("b", "a"), ("a", "b")]), "the edge from 'a' to 'b' repeats"),
        (nx.empty_graph(3, create_using=nx.DiGraph), "has no edges"),
    ]
    for graph, message in cases:
        path = graphml(tmp_path, graph)
        assert refusal(path).startswith(f"graph: {path}")
        assert message in refusal(path)
        with pytest.raises(LibraryError, match=f"^graph: the graph.*{message}"):
            relation_files.from_networkx(graph)
    with pytest.raises(LibraryError, match="'1'"):
        relation_files.from_networkx(nx.DiGraph([(1, "1")]))


@pytest.mark.parametrize("content", ["", "no xml", "<graphml/>", "<a", '<?xml version="1.0"?><svg></svg>'])
def test_what_is_not_graphml(tmp_path: Path, content: str) -> None:
    assert "own.graphml is not GraphML: " in refusal(csv(tmp_path, content, "own.graphml"))


def test_an_edge_to_a_node_that_the_file_lacks_is_refused(tmp_path: Path) -> None:
    """networkx would add the node, and the study an item that is but a misspelt name."""
    path = graphml(tmp_path, nx.DiGraph([("a", "b"), ("b", "c")]))
    path.write_text(path.read_text().replace('target="c"', 'target="zz"'))
    assert refusal(path) == f"graph: {path}: an edge names 'zz', which is no node of the file"


def test_no_such_graph(tmp_path: Path) -> None:
    assert str(tmp_path / "none.csv") in refusal(tmp_path / "none.csv")
    unknown = refusal("cycle")
    assert unknown.startswith("graph: ")
    assert all(word in unknown for word in ("permutation", "tree", ".graphml", ".csv", "'cycle'"))


# embeddings


def bad(row: int, value: float) -> np.ndarray:
    vectors = np.eye(3)
    vectors[row] = value
    return vectors


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.eye(3)[:2], ": item 3 ('c') has no vector: 2 rows for 3 items"),
        (np.eye(5), ": row 4 has no item: 5 rows, 3 items"),
        (bad(1, np.nan), ": item 2 ('b') should be finite, but channel 1 is nan"),
        (bad(2, np.inf), ": item 3 ('c') should be finite, but channel 1 is inf"),
        (bad(0, 0.0), ": item 1 ('a') is a zero vector: it has no direction"),
        (np.ones(3), ": a 2-D array of real numbers, got 1-D of float64"),
        (np.eye(3, dtype=complex), ": a 2-D array of real numbers, got 2-D of complex128"),
        (np.ones((3, 0)), " is empty, of shape (3, 0)"),
    ],
)
def test_vectors_that_cannot_be(tmp_path: Path, array: np.ndarray, message: str) -> None:
    path = npy(tmp_path, array)
    assert refusal(csv(tmp_path), embeddings=path) == f"embeddings: {path}{message}"


def test_items_with_one_vector_are_refused(tmp_path: Path) -> None:
    twice = np.eye(3)
    twice[2] = 2 * twice[0]
    said = "item 3 has the direction of an item before it: nothing can tell their edges apart"
    assert refusal("permutation", embeddings=npy(tmp_path, twice)).endswith(said)


def test_items_of_a_drawn_graph_are_named_by_number(tmp_path: Path) -> None:
    path = npy(tmp_path, bad(1, 0.0))
    assert refusal("permutation", embeddings=path).endswith("item 2 is a zero vector: it has no direction")
    path = npy(tmp_path, np.eye(3))
    assert refusal("permutation", embeddings=path, n_items=4).endswith("item 4 has no vector: 3 rows for 4 items")
    assert refusal("permutation", embeddings=path, n_items=2).endswith("row 3 has no item: 3 rows, 2 items")


def test_no_such_vectors(tmp_path: Path) -> None:
    graph = csv(tmp_path)
    assert refusal(graph, embeddings="learned").endswith("or hf:FOLDER, got 'learned'")
    assert refusal(graph, embeddings="none.npy").startswith("embeddings: ")
    (tmp_path / "text.npy").write_text("1 2 3")
    assert "text.npy is not a .npy array: " in refusal(graph, embeddings=str(tmp_path / "text.npy"))


def test_vectors_not_of_unit_norm_are_noted_or_refused(tmp_path: Path) -> None:
    graph, path = str(csv(tmp_path)), npy(tmp_path, np.diag([1, 2, 1]))
    spec = Relations(graph=graph, embeddings=path)
    notice = "1 of 3 vectors are not of unit norm: item 2 ('b') has norm 2"
    assert relation_files.notes(spec) == (f"embeddings: {notice}; all were normalised",)
    np.testing.assert_array_equal(embeddings.draw(spec, 3, np.random.default_rng(0)), np.eye(3))
    assert f"{path}: {notice}" in refusal(graph, embeddings=path, strict=True)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_rounded_unit_vectors_pass_in_silence(tmp_path: Path, dtype: str) -> None:
    vectors = embeddings.gaussian(50, 16, np.random.default_rng(0)).astype(dtype)
    spec = Relations(embeddings=npy(tmp_path, vectors), strict=True)
    assert relation_files.notes(spec) == ()
    np.testing.assert_allclose(
        np.linalg.norm(embeddings.draw(spec, 16, np.random.default_rng(0)), axis=1), 1, rtol=0, atol=1e-15
    )


# the tokens of a model


def table(folder: Path, name: str = "model.embed_tokens.weight", array: Any = None, file: str = "model") -> str:
    folder.mkdir(exist_ok=True)
    array = np.random.default_rng(0).normal(size=(20, 6)) if array is None else array
    save_file(
        {name: np.asarray(array, np.float32), "other.weight": np.zeros((2, 2), np.float32)},
        folder / f"{file}.safetensors",
    )
    return f"hf:{folder}"


@pytest.mark.parametrize("name", ["model.embed_tokens.weight", "wte.weight", "embeddings.word_embeddings.weight"])
def test_items_are_tokens_of_a_model(tmp_path: Path, name: str) -> None:
    """Different ones, of unit norm, drawn by the seed; those without a direction are left out."""
    rows = np.random.default_rng(0).normal(size=(20, 6))
    rows[3] = 0
    spec = Relations(n_items=19, embeddings=table(tmp_path / "m", name, rows))
    drawn = embeddings.draw(spec, 6, np.random.default_rng(1))
    known = np.delete(rows, 3, axis=0).astype(np.float32).astype(np.float64)
    known /= np.linalg.norm(known, axis=1, keepdims=True)
    assert sorted(map(tuple, drawn.round(12))) == sorted(map(tuple, known.round(12)))
    assert not np.array_equal(drawn, embeddings.draw(spec, 6, np.random.default_rng(2)))
    assert Relations.model_validate_json(spec.model_dump_json()) == spec
    assert "the user's m (sha256 " in spec.described(Over([spec]), "19")


def test_the_name_of_the_folder_makes_no_difference_but_its_tokens_do(tmp_path: Path) -> None:
    def key(folder: str, **fields: Any) -> str:
        task = Relations(n_items=5, embeddings=table(tmp_path / folder, **fields))
        return Run(task=task, model=KeyQueryChannel(d_model=6, d_head=2)).key()

    assert key("a") == key("b")
    assert key("a") != key("c", array=np.ones((20, 6)))


@pytest.mark.slow
def test_a_channel_learns_tokens_of_a_model(tmp_path: Path) -> None:
    task = Relations(n_items=8, embeddings=table(tmp_path / "m"), contexts="uniform", context_size=4)
    model = KeyQueryChannel(d_model=6, d_head=3, channel="softmax", d_value=6)
    run = capax.measure(task, model, Training(max_steps=300), restarts=1)
    assert run.metrics["f1"] > 0.4


def test_tables_that_cannot_be_used(tmp_path: Path) -> None:
    def message(embeddings: str, n_items: int = 5, **fields: Any) -> str:
        return refusal("permutation", embeddings=embeddings, n_items=n_items, **fields)

    assert "no folder" in message(f"hf:{tmp_path / 'none'}")
    (tmp_path / "empty").mkdir()
    assert "empty has no .safetensors file" in message(f"hf:{tmp_path / 'empty'}")
    assert "should have one table of token vectors, got none" in message(table(tmp_path / "a", "head.weight"))
    two = table(tmp_path / "b")
    table(tmp_path / "b", "wte.weight", file="second")
    assert "got model.embed_tokens.weight, wte.weight" in message(two)
    assert "every number should be finite" in message(table(tmp_path / "c", array=np.full((3, 2), np.nan)))
    assert "a matrix of real numbers, got shape (3,)" in message(table(tmp_path / "d", array=np.ones(3)))
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "model.safetensors").write_bytes(b"no tensors")
    assert "cannot be read" in message(f"hf:{tmp_path / 'e'}")
    assert "n_items: is required" in refusal("permutation", embeddings=table(tmp_path / "f"))
    spec = Relations(n_items=21, embeddings=table(tmp_path / "g"))
    with pytest.raises(LibraryError, match="has 20 tokens, got 21"):
        embeddings.draw(spec, 6, np.random.default_rng(0))
    with pytest.raises(LibraryError, match=r"d_model: the vectors of .* have 6 channels, got 7"):
        embeddings.draw(spec, 7, np.random.default_rng(0))
