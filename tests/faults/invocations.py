"""Bad invocations of every command, drawn from the table of all flags."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

TINY = ["--max-epochs", "1", "--restarts", "1", "--workers", "1"]
SEQUENCES = ["--seq-len", "3", "--vocab-size", "9", "--library-size", "6", "--d-model", "4", *TINY]
PREFIX = ["1 2"]
ASSOCIATIONS = ["--library-size", "6", "--context-size", "3", "--n-classes", "3", "--d-model", "4", "--d-head", "2"]
RELATIONS = ["--n-items", "5", "--d-model", "4", "--d-head", "2", "--max-steps", "2", "--restarts", "1", *TINY[-2:]]

WITHOUT_LAW = {"predict biographies", "plan biographies", "predict facts", "predict text", "plan text"}
"""Commands that need a law of the user's: none ships."""

BASES: dict[str, list[str]] = {
    "measure sequences": SEQUENCES,
    "measure biographies": ["--library-size", "6", "--reduction", "50", "--d-model", "4", *TINY],
    "measure facts": ["facts.tsv", "--d-model", "4", *TINY],
    "measure text": ["letters.txt", "--tokenization", "bytes", "--seq-len", "4", "--d-model", "4", *TINY],
    "measure associations": [*ASSOCIATIONS, *TINY],
    "measure relations": RELATIONS,
    "sweep": ["study.toml", "--workers", "1"],
    "watch": ["s.db", "--once"],
    "fit": ["--data", "reference:grid"],
    "predict": ["--n-heads", "1", "--d-model", "32", "--seq-len", "8", "--law", "reference:power"],
    "predict sequences": [
        "--n-heads",
        "1",
        "--d-model",
        "32",
        "--d-head",
        "32",
        "--seq-len",
        "8",
        "--vocab-size",
        "100",
        "--n-layers",
        "1",
    ],
    "predict associations": ["--n-heads", "4", "--context-size", "8", "--d-model", "32", "--d-head", "8"],
    "predict relations": ["--n-items", "64", "--n-edges", "64", "--d-model", "32"],
    "plan": ["--items", "300", "--seq-len", "8", "--vocab-size", "100"],
    "plan sequences": ["--items", "300", "--seq-len", "8", "--vocab-size", "100"],
    "plan facts": ["facts.tsv"],
    "plan lora": ["facts.tsv", "--base", "base"],
    "plan associations": ["--items", "30", "--context-size", "8"],
    "plan relations": ["--n-items", "6", "--d-model", "4"],
    "size": ["config.json"],
    "completion": ["bash"],
    "bounds": ["--seq-len", "4"],
    "check assumptions": ["q.npy", "c.npy", "--samples", "20"],
    "calibrate": ["--only", "none"],
    "check model": ["--seq-len", "3", "--vocab-size", "9", "--library-size", "6", "--d-model", "4"],
    "runs": ["--store", "s.db"],
    "runs list": ["--store", "s.db"],
    "runs show": ["KEY", "--store", "s.db"],
    "runs tag": ["KEY", "v2", "--store", "s.db"],
    "runs export": ["r.csv", "--store", "s.db"],
    "runs import": ["theirs.csv", "--store", "new.db"],
    "runs delete": ["KEY", "--store", "s.db"],
    "runs merge": ["s.db", "--out", "joined.db"],
    "runs recall": ["KEY", "--store", "s.db", *PREFIX],
    "runs memorization": ["KEY", "--store", "s.db"],
    "runs probe": ["KEY", "--store", "s.db", "--trials", "5"],
    "runs checkpoint": ["KEY", "written", "--store", "hf.db"],
    "quantize": ["KEY", "--store", "s.db", "--bits", "8,2"],
    "construct associations": ASSOCIATIONS[2:],
    "construct relations": ["--n-items", "5", "--d-model", "4"],
    "verify": ["claim.safetensors"],
    "runs save": ["KEY", "w.safetensors", "--store", "s.db"],
    "check saturation": ["KEY", "--store", "s.db"],
    "report": ["s.db"],
    "figure": ["curves", "s.db", "--out", "f.pdf"],
    "reproduce": ["--list"],
    "demo": ["--quick"],
    "info": [],
}
"""A small invocation of each command; of those that are slow whatever is asked, one that ends at once."""

LEARNED = {
    "runs checkpoint": "hf",
    "check saturation": "associations",
    "runs save": "associations",
    "runs memorization": "text",
}
"""Tasks of the runs that commands take the key of; of the others, sequences."""

SLOW = ("demo", "reproduce", "calibrate")
"""Commands whose flags are drawn only where the value is refused."""

AMOUNTS = {
    *("restarts", "trials", "seeds", "max-trainings", "max-epochs", "max-steps", "min-steps", "patience", "samples"),
    *("time-limit", "first-size", "library-size", "budget", "every", "protocol", "seq-len", "n-layers", "eval-every"),
    *("stop-when-complete", "sensitivity", "contexts", "n-items", "n-edges", "d-model", "d-head", "n-heads", "d-value"),
    *("vocab-size", "n-classes", "d-out", "context-size", "bag-size", "eval-steps", "batch-size", "min-loss-drop"),
    "exposures",
}
"""Flags that ask for work: what is asked may take longer than a case has."""

INTEGERS = [
    *("0", "-1", "-9223372036854775809", "1.5", "1e3", "nan", "inf", "", "x", "9" * 5000, "1" + "0" * 30),
    *(str(2**31), str(2**31 - 1), str(2**62), str(2**63 - 1), str(2**63), "1" + "0" * 400, "1000000000", "10000000"),
    *("1000000", "100000", "٣", "1_0", "0x10", "\x1b[31m7"),
]
FLOATS = [
    "0",
    "-1",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "1e308",
    "1e-320",
    "5e-324",
    "",
    "x",
    "1" + "0" * 400,
    "1_0",
    "9" * 5000,
]
TEXTS = [
    *("", " ", "\x1b[31mred", "x" * 300, "x" * 100_000, "[/red]", "$x$", "'; DROP TABLE runs", "../../x", "\udcff"),
    *(
        ",",
        ",,",
        "=",
        "a=b",
        "n_heads=",
        "n_heads=nan",
        "=1",
        "1,2,x",
        "1," * 100_000,
        "1" + "0" * 400,
        "none",
        "[" * 10_000,
    ),
    *(
        "{" * 10_000,
        '{"a":' * 5000 + "1" + "}" * 5000,
        "{}",
        "[1]",
        "null",
        '{"a": NaN}',
        "a:b",
        ":",
        "os:abort",
        "0",
        "-1",
    ),
    *(
        "n_heads=1e400,d_model=1,seq_len=4",
        "n_heads=-1,d_model=1,seq_len=4",
        "library:x",
        "published:harma2024:9999999999",
    ),
    *(
        "published:",
        "reference:x",
        "lr=1e400",
        "lr=nan",
        "batch_size=64:full:1e30",
        "patience=none",
        "d_model=1" + "0" * 30,
    ),
]
FILES = [
    *(
        "missing",
        "missing.npy",
        "no/such/folder.db",
        "folder",
        "folder.npy",
        "pipe",
        "pipe.npy",
        "pipe.txt",
        "pipe.csv",
    ),
    *(
        "pipe.toml",
        "pipe.json",
        "pipe.db",
        "pipe.graphml",
        "pipe.safetensors",
        "pipe.parquet",
        "/dev/zero",
        "/dev/stdin",
    ),
    *(
        "zero.npy",
        "zero.txt",
        "zero.csv",
        "zero.toml",
        "zero.db",
        "loop.npy",
        "loop.db",
        "x" * 300,
        "x" * 300 + ".csv",
        "",
    ),
    *(
        "empty.npy",
        "empty.txt",
        "empty.csv",
        "empty.db",
        "empty.toml",
        "empty.json",
        "empty.safetensors",
        "empty.parquet",
    ),
    *(
        "line.txt",
        "line.csv",
        "line.toml",
        "bomb.csv",
        "bomb.parquet",
        "huge.npy",
        "nested.json",
        "nested.toml",
        "deep.npy",
    ),
    *("nested.graphml", "object.npy", "huge.safetensors", "not.db", "newer.db", "older.db", "stampless.db", "dates.db"),
    *(
        "times.db",
        "zones.db",
        "keys.db",
        "huge.db",
        "lists.db",
        "failures.db",
        "foreign.db",
        "damaged.db",
        "numbers.db",
        "modules.db",
        "pipes.db",
        "rows.db",
        "noise.npy",
        "noise.parquet",
    ),
    *(
        "big.csv",
        "inf.csv",
        "wrong.toml",
        "array.json",
        "wrong.json",
        "q.npy",
        "edges.csv",
        "s.txt",
        "s.db",
        "study.toml",
    ),
    *("law.json", "model", "pickled", "config.json", "pipes", "\x1b[31m.npy", "a\nb.toml", "f.pdf", "folder/out.csv"),
]


@dataclass(frozen=True)
class Flag:
    """A flag of a command: its first name without dashes, and what it takes; "" where it is given by its place."""

    name: str
    kind: Literal["integer", "float", "text", "path", "choice", "switch"]
    by_place: bool


def _kind(hint: Any) -> Any:
    kinds = {int: "integer", float: "float", str: "text", Path: "path", bool: "switch"}
    if hint in kinds:
        return kinds[hint]
    if get_origin(hint) is Literal:
        return "choice"
    return next((found for part in get_args(hint) if (found := _kind(part)) is not None), None)


def table() -> dict[str, list[Flag]]:
    """The flags of every command, as the command line itself knows them."""
    from capax.cli import command_line

    found: dict[str, list[Flag]] = {}

    def walk(app: Any, path: tuple[str, ...]) -> None:
        if path and app.default_command is not None:
            flags = found.setdefault(" ".join(path), [])
            for argument in app.assemble_argument_collection():
                kind = _kind(argument.hint)
                if argument.parse and kind is not None:
                    name = argument.names[0]
                    flags.append(Flag(name.lstrip("-"), kind, not name.startswith("-")))
        for name in app:
            if not name.startswith("-"):
                walk(app[name], (*path, name))

    walk(command_line(), ())
    return found


def draw(seed: int, count: int, keys: dict[str, str]) -> Iterator[list[str]]:
    """Bad invocations: of each flag of each command in turn, one value that may be bad, and now and then a second one.

    Args:
        keys: of stored runs, by their task.
    """
    rng = random.Random(seed)
    pairs = [(command, flag) for command, flags in table().items() if command in BASES for flag in flags]
    for number in range(count):
        if number % len(pairs) == 0:
            rng.shuffle(pairs)
        command, flag = pairs[number % len(pairs)]
        arguments = with_value(BASES[command], flag, value(flag, rng))
        if rng.random() < 0.2:
            other = rng.choice(table_of(command))
            arguments = with_value(arguments, other, value(other, rng))
        key = keys[LEARNED.get(command, "sequences")]
        yield [*command.split(), *(key if word == "KEY" else word for word in arguments)]


_TABLE: dict[str, list[Flag]] = {}


def table_of(command: str) -> list[Flag]:
    """The flags of one command."""
    if not _TABLE:
        _TABLE.update(table())
    return _TABLE[command]


def value(flag: Flag, rng: random.Random) -> str | None:
    """A value that may be bad; None for a switch."""
    if flag.kind == "switch":
        return None
    known = {"integer": INTEGERS, "float": FLOATS, "text": TEXTS, "path": FILES, "choice": TEXTS[:12]}[flag.kind]
    if flag.kind == "text" and rng.random() < 0.4:
        known = FILES + INTEGERS  # some texts name files, some hold numbers
    return rng.choice(known)


def with_value(arguments: list[str], flag: Flag, given: str | None) -> list[str]:
    """The arguments with a flag's value in place of its own."""
    if flag.by_place and given is not None:
        return [given, *arguments[1:]] if arguments and not arguments[0].startswith("-") else [given, *arguments]
    if given is None:
        return [*arguments, f"--{flag.name}"]
    if f"--{flag.name}" in arguments:
        place = arguments.index(f"--{flag.name}")
        arguments = arguments[:place] + arguments[place + 2 :]
    return [*arguments, f"--{flag.name}={given}"]


def asks_for_work(arguments: list[str]) -> bool:
    """Whether one of the drawn flags may ask for more work than a case has time for; a study of defaults does."""
    defaults = arguments[0] == "sweep" and arguments[1].startswith("empty.")
    trains = "--verify" in arguments
    return (
        defaults
        or trains
        or any(word.startswith("--") and word[2:].partition("=")[0] in AMOUNTS for word in arguments if "=" in word)
    )
