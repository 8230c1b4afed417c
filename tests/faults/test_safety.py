"""What somebody else made is data: reading a store, or a model's folder, runs no code that it names."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import capax
from capax.cli import main
from capax.errors import CapaxError, EmbeddingError, SpecError, StoreError
from capax.protocols.measure import run_of
from capax.results import Measurement, ResultError
from capax.specs import Run

EVIL = """
from pathlib import Path
import torch

Path({marker!r}).touch()


class Memory(torch.nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.table = torch.nn.Embedding(vocab_size, vocab_size)

    def forward(self, tokens):
        return self.table(tokens)


def again(vocab_size):
    return Memory(vocab_size)


again = again
"""
TASK = capax.Sequences(seq_len=3, vocab_size=5, library_size=4)
READERS: dict[str, list[str]] = {
    "runs": ["runs", "--store", "their.db"],
    "runs --json": ["runs", "--store", "their.db", "--json"],
    "runs export": ["runs", "export", "runs.csv", "--store", "their.db"],
    "fit": ["fit", "--store", "their.db"],
    "watch": ["watch", "their.db", "--once"],
    "report": ["report", "their.db", "--out", "page.html"],
    "recall": ["runs", "recall", "", "--store", "their.db", "1 2"],
    "probe": ["runs", "probe", "", "--store", "their.db"],
}


class Their:
    """A folder with a store that names a module, and what shows that the module was imported."""

    def __init__(self, folder: Path) -> None:
        self.store, self.source, self.marker = folder / "their.db", folder / "evil.py", folder / "imported"
        self.key = ""

    def write(self, more: str = "") -> None:
        """Write the module's file anew."""
        self.source.write_text(EVIL.format(marker=str(self.marker)) + more)

    def forget(self) -> None:
        """As in a new process: nothing has been imported."""
        sys.modules.pop("evil", None)
        self.marker.unlink(missing_ok=True)

    def change(self, path: str, value: str | None) -> None:
        """Change what the store says of its run."""
        with closing(sqlite3.connect(self.store)) as connection, connection:
            connection.execute("UPDATE runs SET measurement = json_set(measurement, ?, ?)", (path, value))


@pytest.fixture
def their(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Their:
    """A store of one run of a module that tells when it is imported; it has not been."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "evil", raising=False)
    monkeypatch.setattr("capax.models.factory._LOADED", {})
    made = Their(tmp_path)
    made.write()
    model, training = capax.Module(factory="evil:Memory"), capax.Training(max_epochs=1)
    made.key = capax.measure(TASK, model, training, restarts=1, store=made.store, keep_weights=True).key
    assert made.marker.exists()
    made.forget()
    return made


def ended(arguments: list[str]) -> Any:
    """The code that a command ends with."""
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    return exit_.value.code


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reader", "known"), [*((reader, True) for reader in READERS), ("runs --json", False), ("recall", False)]
)
def test_reading_a_store_imports_no_module_that_it_names(their: Their, reader: str, known: bool) -> None:
    if not known:
        their.change("$.spec.model.source_sha256", None)
    code = ended([their.key if word == "" else word for word in READERS[reader]])
    assert not their.marker.exists()
    assert "evil" not in sys.modules
    listed = known and reader.startswith("runs")
    assert code == 0 or not listed


def test_a_store_without_a_source_hash_is_damaged(their: Their) -> None:
    their.change("$.spec.model.source_sha256", None)
    with pytest.raises(StoreError, match="source_sha256"):
        capax.read(their.store)
    assert not their.marker.exists()


def test_results_and_runs_that_are_read_import_nothing(their: Their) -> None:
    with capax.Store(their.store) as store:
        (run,) = store.runs()
        assert store.specs([run.key])[run.key] == run.spec
    assert Run(**json.loads(run.spec.model_dump_json())).key() == run.key
    said = json.loads(run.to_json())
    del said["spec"]["model"]["source_sha256"]
    with pytest.raises(ResultError, match="source_sha256"):
        Measurement.from_json(json.dumps(said))
    with pytest.raises(SpecError, match="source_sha256"):
        Run(**said["spec"])
    assert not their.marker.exists()


def test_a_module_that_the_user_names_is_hashed_as_before(their: Their) -> None:
    model = capax.Module(factory="evil:Memory")
    assert their.marker.exists()
    assert run_of(TASK, model, capax.Training(max_epochs=1), "mac", 1, 0).key() == their.key


def test_recall_of_a_module_needs_trust(their: Their, capsys: pytest.CaptureFixture[str]) -> None:
    recall = ["runs", "recall", their.key, "--store", "their.db", "1 2"]
    assert ended(recall) == 2
    assert "'evil:Memory'" in (line := capsys.readouterr().err)
    assert "--trust" in line
    with pytest.raises(SpecError, match="trust=True"):
        capax.load(their.key, their.store)
    assert not their.marker.exists()
    assert ended([*recall, "--trust"]) == 0
    assert their.marker.exists()
    assert capax.load(their.key, their.store, trust=True).run.key == their.key


def test_recall_compares_the_source_before_it_imports(their: Their) -> None:
    their.write("# changed since\n")
    with pytest.raises(SpecError, match="'evil:Memory'"):
        capax.load(their.key, their.store, trust=True)
    assert not their.marker.exists()


def test_a_source_that_cannot_be_known_before_is_compared_afterwards(their: Their) -> None:
    """Of a name that is bound anew, only importing tells where it comes from."""
    model, training = capax.Module(factory="evil:again"), capax.Training(max_epochs=1)
    key = capax.measure(TASK, model, training, restarts=1, store=their.store, keep_weights=True).key
    their.forget()
    assert capax.load(key, their.store, trust=True).run.key == key


def test_a_package_is_not_imported_to_find_its_module(their: Their, tmp_path: Path) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "inner.py").write_text(their.source.read_text())
    model, training = capax.Module(factory="pack.inner:Memory"), capax.Training(max_epochs=1)
    key = capax.measure(TASK, model, training, restarts=1, store=their.store, keep_weights=True).key
    for name in ("pack.inner", "pack"):
        del sys.modules[name]
    (package / "inner.py").write_text(their.source.read_text() + "# changed\n")
    with pytest.raises(SpecError, match="has changed"):
        capax.load(key, their.store, trust=True)
    assert "pack" not in sys.modules


@pytest.mark.parametrize(
    "task",
    [
        {"task": "sequences", "library": "pipe.npy"},
        {"task": "associations", "library": "pipe.safetensors"},
        {"task": "relations", "graph": "pipe.csv"},
        {"task": "relations", "n_items": 4, "embeddings": "pipe.npy"},
    ],
    ids=str,
)
def test_files_that_data_names_are_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: dict[str, Any]
) -> None:
    """Opening a named pipe would wait for ever."""
    monkeypatch.chdir(tmp_path)
    for end in ("npy", "safetensors", "csv"):
        os.mkfifo(f"pipe.{end}")
    model = {"sequences": "transformer", "associations": "associative_attention", "relations": "key_query_channel"}
    with pytest.raises(SpecError, match="library_sha256"):
        Run(task=task, model={"model": model[task["task"]]})  # type: ignore[arg-type]


CONFIG = {"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1, "vocab_size": 300}


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"config.json": CONFIG | {"auto_map": {"AutoConfig": "evil.Evil"}}}, ["config.json", "auto_map"]),
        ({"config.json": {"auto_map": {"AutoConfig": "evil.Evil"}, "model_type": "new"}}, ["config.json", "auto_map"]),
        (
            {"config.json": CONFIG, "tokenizer_config.json": {"auto_map": {"AutoTokenizer": ["evil.Evil", None]}}},
            ["tokenizer_config.json", "auto_map"],
        ),
        ({"config.json": CONFIG, "pytorch_model.bin": None}, ["pytorch_model.bin", "pickled"]),
        ({"config.json": CONFIG, "model.pt": None}, ["model.pt", "pickled"]),
        (
            {
                "config.json": CONFIG,
                "model.safetensors.index.json": {"weight_map": {"a": "bomb.bin"}},
                "bomb.bin": None,
            },
            ["model.safetensors.index.json", "bomb.bin"],
        ),
        ({"config.json": CONFIG | {"transformers_weights": "adapter_model.bin"}}, ["config.json"]),
        ({"config.json": CONFIG | {"attn_implementation": "somebody/kernels"}}, ["config.json"]),
        ({"config.json": CONFIG, "adapter_config.json": {"base_model_name_or_path": "x"}}, ["adapter_config.json"]),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else "",
)
def test_a_model_folder_runs_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, Any], said: list[str]
) -> None:
    import torch

    from capax.checks.huggingface import read

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    folder, marker = tmp_path / "model", tmp_path / "ran"
    folder.mkdir()
    (tmp_path / "t.txt").write_text("abcd\nefgh\n")
    (folder / "evil.py").write_text(f"from pathlib import Path\nPath({str(marker)!r}).touch()\nclass Evil: pass\n")
    for name, content in files.items():
        if content is None:
            torch.save({"wte.weight": Bomb(marker)}, folder / name)
        else:
            (folder / name).write_text(json.dumps(content))
    with pytest.raises(EmbeddingError) as error:
        read(folder, tmp_path / "t.txt")
    assert not marker.exists()
    assert "\n" not in str(error.value)
    for word in said:
        assert word in str(error.value)


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    store, training = tmp_path / "s.db", capax.Training(max_epochs=1)
    for width in (4, 8):
        capax.measure(TASK, capax.Transformer(d_model=width), training, restarts=1, store=store, keep_weights=True)
    one, two = sorted((tmp_path / "s.db-weights").iterdir())
    one.write_bytes(two.read_bytes())
    with pytest.raises(StoreError, match="weights"):
        capax.load(one.stem, store)
    one.unlink()
    os.mkfifo(one)
    with pytest.raises(CapaxError, match="not a regular file"):
        capax.load(one.stem, store)
