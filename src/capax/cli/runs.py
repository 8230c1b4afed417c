"""`capax runs`, `capax merge` and `capax recall`: what stores hold, and what a kept memory says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from capax.errors import printable

if TYPE_CHECKING:
    import polars as pl

Json = Annotated[bool, Parameter(name="--json", negative="")]


def runs(
    *,
    store: Path = Path("capax.db"),
    where: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    failed: Annotated[bool, Parameter(negative="")] = False,
    export: Path | None = None,
    delete: str | None = None,
    import_from: Annotated[Path | None, Parameter(name="--import")] = None,
    as_json: Json = False,
) -> None:
    """List the finished runs of a store, oldest first; a narrow terminal shows fewer columns.

    Parameters
    ----------
    store
        SQLite file of finished runs.
    where
        Only runs with column=value, of any column that --export writes; may be given more than once.
    failed
        List the runs that failed instead: when, how often, and why.
    export
        Write the runs and imported rows as a .csv or .parquet table instead.
    delete
        Delete the run or failure whose key begins so, with its kept weights.
    import_from
        Take in somebody else's measurements: a .csv or .parquet table with columns seq_len, n_heads, d_model,
        memorized, ...; rows of a file of this name that were taken in before are replaced.
    as_json
        Print one JSON array of measurements, run by run as they are read; with --failed, of failures.
    """
    _check_choice({"failed": failed, "export": export, "delete": delete, "import": import_from}, bool(where), as_json)
    if failed:
        _list_failures(store, as_json)
    elif export is not None:
        _export(store, where, export)
    elif delete is not None:
        _delete(store, delete)
    elif import_from is not None:
        _import(store, import_from)
    elif as_json:
        _print_json(store, where)
    else:
        _list(store, where)


def _check_choice(actions: dict[str, object], where: bool, as_json: bool) -> None:
    """Each of the actions excludes the others, and what it has no use for."""
    from capax.errors import CapaxError

    chosen = [name for name, value in actions.items() if value not in (None, False)]
    if len(chosen) > 1:
        raise CapaxError(f"{chosen[0]}: not together with --{chosen[1]}")
    if where and chosen and chosen[0] != "export":
        raise CapaxError(f"where: not together with --{chosen[0]}")
    if as_json and chosen and chosen[0] != "failed":
        raise CapaxError(f"json: not together with --{chosen[0]}")


def _rows(store: Path, where: tuple[str, ...]) -> pl.DataFrame:
    from capax.store import tables

    return tables.where(tables.read(store), where)


def _selected(store: Path, where: tuple[str, ...]) -> tuple[set[str], dict[str, int]]:
    """The keys of the runs that meet the conditions, and how many imported rows of each source do."""
    rows = _rows(store, where)
    if "source" not in rows.columns:
        return set(rows["key"]), {}
    imported = rows.filter(rows["source"].is_not_null())["source"].to_list()
    keys = set(rows.filter(rows["source"].is_null())["key"]) if "key" in rows.columns else set()
    return keys, {source: imported.count(source) for source in dict.fromkeys(imported)}


def _list(store: Path, where: tuple[str, ...]) -> None:
    from capax.cli import output
    from capax.store import Store

    with Store(store, create=False) as opened:
        found, sources = opened.summaries(), opened.sources()
    if where:
        keys, sources = _selected(store, where)
        found = [run for run in found if run.key in keys]
    output.show_runs(found)
    for source, count in sources.items():
        print(f"and {count} row{'s' * (count > 1)} imported from {printable(source)}")


def _print_json(store: Path, where: tuple[str, ...]) -> None:
    from capax.store import Store

    keys = _selected(store, where)[0] if where else None
    before = "["
    with Store(store, create=False) as opened:
        for run in opened.each(keys):
            print(before, _ascii(run.to_json()), sep="", end="")
            before = ", "
    print("[]" if before == "[" else "]")


def _ascii(text: str) -> str:
    """JSON in letters that every terminal and file can hold."""
    return text if text.isascii() else json.dumps(json.loads(text), separators=(",", ":"))


def _list_failures(store: Path, as_json: bool) -> None:
    from dataclasses import asdict

    from capax.cli import output
    from capax.store import Store

    with Store(store, create=False) as opened:
        found = opened.failures()
    if as_json:
        print(json.dumps([asdict(failure) for failure in found]))
    else:
        output.show_failures(found)


def _export(store: Path, where: tuple[str, ...], path: Path) -> None:
    from capax.store import tables

    tables.check_export(path)
    rows = _rows(store, where)
    tables.to_file(rows, path)
    print(f"{len(rows)} row{'s' * (len(rows) > 1)} written to {printable(path)}")


def _delete(store: Path, start: str) -> None:
    from capax.store import Store

    with Store(store, create=False) as opened:
        key, runs_there = opened.find_key(start), opened.keys()
        held = {
            "the run": key in runs_there,
            "its failure": any(failure.key == key for failure in opened.failures()),
            "its kept weights": opened.weights_path(key).exists(),
        }
        opened.delete(key)
    print(f"deleted {key[:12]}: {', '.join(what for what, there in held.items() if there)}")


def _import(store: Path, path: Path) -> None:
    from capax.store import Store, tables
    from capax.store.importing import importable

    rows = importable(tables.from_file(path))  # before the store is made: bad rows leave nothing behind
    with Store(store) as opened:
        count = opened.import_rows(rows, str(path))
    print(f"{count} row{'s' * (count > 1)} imported from {printable(path)}")


def merge(
    *stores: Path,
    out: Annotated[Path, Parameter(alias="-o")],
) -> None:
    """Copy several stores into a new one; of a run that is in several, the one that finished last.

    Parameters
    ----------
    stores
        SQLite files of finished runs.
    out
        The new file.
    """
    from capax.store.merge import merge as merge_stores

    count = merge_stores(stores, out)
    print(f"{count} run{'s' * (count != 1)} in {printable(out)}")


def recall(
    key: str,
    *,
    prefix: str,
    store: Path = Path("capax.db"),
    trust: Annotated[bool, Parameter(negative="")] = False,
    as_json: Json = False,
) -> None:
    """Ask a memory that was kept with --keep-weights for the token after a prefix.

    Parameters
    ----------
    key
        Key of the run, or its beginning.
    prefix
        seq_len - 1 tokens: "3 17 4 ...".
    store
        SQLite file that the run was stored in.
    trust
        Of a run of a module: import it, which runs its code, if its source is the one that was measured.
    as_json
        Print one JSON object.
    """
    from capax.cli.path import search_here
    from capax.errors import CapaxError
    from capax.memory import Memory, load

    if trust:
        search_here()
    try:
        tokens = [int(word) for word in prefix.replace(",", " ").split()]
    except ValueError:
        raise CapaxError(f"prefix: integers separated by spaces, got {prefix!r}") from None
    memory = load(key, store, trust=trust)
    if not isinstance(memory, Memory):
        raise CapaxError(f"key: run {memory.run.key[:12]} learned {memory.run.spec.task.task}, which have no prefix")
    answer = memory.recall(tokens)
    if as_json:
        print(answer.model_dump_json())
        return
    says = {
        None: "the library does not hold this prefix",
        True: "the library says the same",
        False: f"the library says {answer.library_token}",
    }
    print(f"{answer.token} (probability {answer.probability:.3f}); {says[answer.agrees]}")
