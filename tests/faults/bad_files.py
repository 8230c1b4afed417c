"""A folder of good and bad inputs of every kind: stores, tables, libraries, laws, studies, models, pipes, devices."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from made_base import SHAPE, write_base

import capax
from capax.laws.files import load_law, save_law

STUDY = """
[task]
seq_len = 3
vocab_size = 9
library_size = 6
[model]
d_model = 4
[training]
max_epochs = 1
[protocol]
restarts = 1
[grid]
seed = [0, 1]
"""
QUICK = "[training]\nmax_epochs = 1\n[protocol]\nrestarts = 1\n"
"""Of studies that are allowed, odd as they are."""

WRONG_STUDIES = {
    "task": f"task = {{}}\n{QUICK}",
    "task2": "task = 3",
    "task3": "[task]\ntask = []",
    "task4": "[task]\ntask = {}",
    "task5": "[task]\ntask = nan",
    "protocol": "[protocol]\nprotocol = [1]",
    "model": "[model]\nmodel = {}",
    "store": 'store = ""',
    "store2": 'store = "/dev/null"',
    "store3": 'store = "a\\u0000b"',
    "store4": 'store = "folder"',
    "seed": "seed = 1" + "0" * 400,
    "seed2": "seed = nan",
    "range": "[grid]\nd_model = {from = 1, to = 1000000000000, steps = 100000000000}",
    "range2": "[grid]\nlr = {from = 1, to = 1e18, factor = 1.0000000001}",
    "range3": "[grid]\nd_model = {from = 1, to = 1" + "0" * 400 + ", factor = 2}",
    "range4": "[grid]\nlr = {from = 1, to = 2, steps = -5}",
    "range5": "[grid]\nlr = {from = 1e-320, to = 1e308, steps = 3}",
    "range6": "[grid]\nlr = {from = 1, to = inf, steps = 3}",
    "range7": "[grid]\nlr = {from = 1, to = 2, factor = 1e400}",
    "range8": "[grid]\nlr = {from = 1, to = 2, steps = 1" + "0" * 400 + "}",
    "list": f"[grid]\nseed = [{', '.join(map(str, range(200_000)))}]",
    "product": "[grid]\n"
    + "\n".join(f"{name} = {{from = 1, to = 100000, steps = 3000}}" for name in ("d_model", "n_heads", "lr")),
    "axis": "[grid]\nseed = [{a = 1}, [2], nan]",
    "axis2": "[grid]\narguments = [{a = 1}]",
    "zip": "[[zip]]\nseed = [1, 2]\nlr = 3",
    "change": f"{QUICK}[[change]]\nif = {{seed = []}}\nset = {{seed = {{}}}}",
    "change2": f"{QUICK}[[change]]\nif = {{d_model = [[1]]}}\nset = {{d_model = 1{'0' * 30}}}",
    "size": "[model]\nd_model = 1" + "0" * 30,
    "size2": "[task]\nlibrary_size = 1" + "0" * 400,
    "size3": "[training]\nlr = 1e400",
    "size4": "[training]\nmax_steps = 9223372036854775807\nmax_epochs = 9223372036854775807\nschedule = 'cosine'",
    "date": "seed = 1979-05-27",
    "dotted": "a" + ".a" * 5000 + " = 1",
    "tables": "[" + ".".join(["a"] * 5000) + "]\nb = 1",
    "key": '"\\u001b[31m" = 1',
    "module": '[model]\nmodel = "module"\nfactory = "os:abort"\narguments = {a = ' + "[" * 200 + "]" * 200 + "}",
}


def make(folder: Path) -> dict[str, str]:
    """Fill a folder; the keys of the runs of its store `s.db`, by task."""
    runs = _stores(folder)
    (folder / "folder").mkdir()
    (folder / "folder.npy").mkdir()
    for name in (
        "pipe",
        *(f"pipe.{end}" for end in ["npy", "txt", "csv", "toml", "json", "db", "graphml", "safetensors", "parquet"]),
    ):
        os.mkfifo(folder / name)
    (folder / "pipes").mkdir()
    for name in ("queries.npy", "contexts.npy", "labels.npy", "config.json"):
        os.mkfifo(folder / "pipes" / name)
    for end in ("npy", "txt", "csv", "toml", "db"):
        (folder / f"zero.{end}").symlink_to("/dev/zero")
        (folder / f"loop.{end}").symlink_to(f"loop.{end}")
    for end in ["npy", "txt", "csv", "db", "toml", "json", "safetensors", "parquet"]:
        (folder / f"empty.{end}").touch()
    _tables(folder)
    _arrays(folder)
    _texts(folder)
    _models(folder)
    return runs


def _stores(folder: Path) -> dict[str, str]:
    good = folder / "s.db"
    (folder / "facts.tsv").write_text("key\tanswer\n" + "".join(f"k{n}\ta{n % 3}\n" for n in range(6)))
    (folder / "letters.txt").write_text("".join(chr(97 + n * n % 26) for n in range(80)))
    short = capax.Training(max_epochs=1)
    runs = [
        capax.measure(task, model, short, restarts=1, store=good, keep_weights=True)
        for task, model in (
            (capax.Sequences(seq_len=3, vocab_size=9, library_size=6), capax.Transformer(d_model=4)),
            (capax.Associations(library_size=6, context_size=3, n_classes=3), capax.AssociativeAttention(d_model=4)),
            (capax.Relations(n_items=5), capax.KeyQueryChannel(d_model=4, d_head=2)),
            (
                capax.Text(library=str(folder / "letters.txt"), tokenization="bytes", seq_len=4),
                capax.Transformer(d_model=4),
            ),
        )
    ]
    llama = capax.HuggingFace(config={"model_type": "llama", **SHAPE}, set={})
    task = capax.Sequences(seq_len=3, vocab_size=9, library_size=6)
    keys = {run.spec.task.task: run.key for run in runs}
    capax.construct(capax.Relations(n_items=4), capax.KeyQueryChannel(d_model=3)).save(folder / "claim.safetensors")
    keys["hf"] = capax.measure(task, llama, short, restarts=1, store=folder / "hf.db", keep_weights=True).key
    write_base(folder / "base")
    key = keys["sequences"]

    def altered(name: str, *statements: str) -> None:
        shutil.copy(good, folder / name)
        shutil.copytree(folder / "s.db-weights", folder / f"{name}-weights")
        connection = sqlite3.connect(folder / name)
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        connection.close()

    def set_to(path: str, value: str) -> str:
        return f"UPDATE runs SET measurement = json_set(measurement, '{path}', {value})"

    altered("newer.db", "PRAGMA user_version = 99")
    altered("older.db", "PRAGMA user_version = 1")
    altered("stampless.db", "PRAGMA user_version = -5")
    altered("dates.db", "UPDATE runs SET finished = x'00ff'", "UPDATE runs SET seconds = 'soon'")
    altered("times.db", "UPDATE runs SET finished = 'tomorrow'")
    altered("zones.db", "UPDATE runs SET finished = '9999-12-31T23:59:59'")
    altered("keys.db", f"UPDATE runs SET key = '../../x' WHERE key = '{key}'", set_to("$.key", "'../../x'"))
    altered("huge.db", set_to("$.spec.task.library_size", "10000000"), set_to("$.spec.task.seq_len", "100000"))
    altered("lists.db", set_to("$.members", "json('[]')"), set_to("$.spec", "json('[]')"))
    altered("failures.db", "INSERT INTO failures VALUES (lower(hex(zeroblob(32))), 'never', 'why', 1e300, '[[[')")
    altered(
        "rows.db", 'INSERT INTO imported VALUES (\'t.csv\', \'{"seq_len": "x", "memorized": 1e999, "d_model": [1]}\')'
    )
    altered("numbers.db", set_to("$.memorized", "1e300"), set_to("$.spec.model.d_model", "9223372036854775807"))
    altered("modules.db", set_to("$.spec.model", 'json(\'{"model": "module", "factory": "os:abort"}\')'))
    altered("pipes.db", set_to("$.spec.task.library", "'pipe.npy'"))
    altered("foreign.db")
    weights = folder / "foreign.db-weights"
    names = [weights / f"{keys[task]}.safetensors" for task in ("sequences", "associations", "relations")]
    contents = [path.read_bytes() for path in names]
    for path, content in zip(names, contents[1:] + contents[:1], strict=True):
        path.write_bytes(content)
    altered("damaged.db")
    text = bytearray((folder / "damaged.db").read_bytes())
    text[3000:9000] = bytes(range(250)) * 24
    (folder / "damaged.db").write_bytes(bytes(text))
    for path in (folder / "damaged.db-weights").iterdir():
        path.write_bytes(path.read_bytes()[:100])
    with closing(sqlite3.connect(folder / "not.db")) as other, other:
        other.execute("CREATE TABLE diary (entry TEXT)")
    return keys


def _tables(folder: Path) -> None:
    head = "seq_len,n_heads,d_model,memorized\n"
    (folder / "big.csv").write_text(head + "".join(f"8,1,{width},1{'0' * 30}\n" for width in range(4, 30)))
    (folder / "inf.csv").write_text(head + "8,1,4,inf\n8,nan,1e400,3\n8,1,9223372036854775808,3\n")
    (folder / "line.csv").write_bytes(b"1 " * 50_000_000)
    with gzip.open(folder / "bomb.csv", "wb", compresslevel=6) as file:
        file.write(head.encode())
        row = b"8,1,4,3\n" * 2**17
        for _ in range(1500):
            file.write(row)
    pl.DataFrame({"seq_len": [8]}).select(
        pl.repeat(8, 400_000_000, dtype=pl.Int8).alias(name) for name in ("seq_len", "n_heads", "d_model", "memorized")
    ).write_parquet(folder / "bomb.parquet")
    (folder / "noise.parquet").write_bytes(b"PAR1" + bytes(range(256)) * 4 + b"PAR1")
    (folder / "edges.csv").write_text("source,target\n0,1\n1,2\n")
    (folder / "theirs.csv").write_text("seq_len,n_heads,d_model,memorized\n8,1,32,100\n")


def _arrays(folder: Path) -> None:
    rng = np.random.default_rng(0)
    np.save(folder / "q.npy", rng.standard_normal((6, 4)))
    np.save(folder / "c.npy", rng.standard_normal((3, 4)))
    np.save(folder / "object.npy", np.array([{}, 1], dtype=object))
    (folder / "noise.npy").write_bytes(b"\x93NUMPY\x01\x00" + bytes(range(256)))
    _npy(folder / "huge.npy", str((10**7, 10**6)))
    _npy(folder / "deep.npy", "(" * 9000 + ")" * 9000)
    header = json.dumps(
        {"queries": {"dtype": "F64", "shape": [10**9, 10**3], "data_offsets": [0, 8 * 10**12]}}
    ).encode()
    (folder / "huge.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)


def _npy(path: Path, shape: str) -> None:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)


def _texts(folder: Path) -> None:
    (folder / "s.txt").write_text("1 2 3\n4 5 6\n")
    os.link(folder / "line.csv", folder / "line.txt")
    (folder / "line.toml").write_bytes(b"a = " + b"1" * 100_000_000)
    (folder / "nested.json").write_text('{"law": ' + "[" * 100_000 + "]" * 100_000 + "}")
    (folder / "nested.toml").write_text("[task]\nseq_len = " + "[" * 50_000 + "]" * 50_000)
    (folder / "nested.graphml").write_text("<graphml>" + "<graph>" * 20_000 + "</graph>" * 20_000 + "</graphml>")
    (folder / "array.json").write_text("[1, 2]")
    (folder / "wrong.json").write_text('{"law": 3, "model_type": [], "auto_map": {}}')
    (folder / "study.toml").write_text(STUDY)
    (folder / "wrong.toml").write_text("task = 3\n")
    (folder / "a\nb.toml").write_text("task = 3\n")
    (folder / "\x1b[31m.npy").write_text("no array")
    for name, text in WRONG_STUDIES.items():
        (folder / f"study-{name}.toml").write_text(text)
    save_law(load_law(), folder / "law.json")


def _models(folder: Path) -> None:
    config: dict[str, Any] = {"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1, "vocab_size": 300}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoModel": "evil.Evil"}}))
    (folder / "pickled").mkdir()
    (folder / "pickled" / "config.json").write_text(json.dumps(config))
    (folder / "pickled" / "pytorch_model.bin").write_bytes(b"cos\nabort\n(tR.")
