"""`capax runs`: what stores hold, and what can be done with it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from capax.cli import measurement, output, streams
from capax.cli.flags import Flag, Json
from capax.errors import CapaxError, StoreError, printable
from capax.specs import apart
from capax.specs.labels import checked_tags
from capax.store import DEFAULT, Store
from capax.store.merge import merge as merge_stores
from capax.store.schema import Summary
from capax.text import counted

Place = Annotated[Path, Parameter(help="SQLite file of finished runs.")]
Where = Annotated[
    tuple[str, ...],
    Parameter(
        negative="",
        show_default=False,
        help="Only runs with column=value, of any column of `capax runs export`; more than once.",
    ),
]
Tagged = Annotated[
    tuple[str, ...],
    Parameter(name="--tag", negative="", show_default=False, help="Only runs with this tag; more than once."),
]

LEAST_OF_A_KEY = 6

app = App(name="runs", help="List the finished runs of a store; show, export, delete or merge them; query a memory.")
for _name, (_home, _text) in {
    "export": ("tables:export", "Write the runs and imported rows of a store as a table."),
    "import": ("tables:take_in", "Add somebody else's measurements to a store."),
    "recall": ("recall:recall", "Ask a kept memory for the token after a prefix, or for a fact."),
    "probe": ("probe:probe", "Probe a kept memory: how much cue it needs, how much corruption it tolerates, and more."),
    "save": ("save:save", "Write a kept layer or channel with its data and claim, for capax verify."),
    "checkpoint": ("checkpoint:checkpoint", "Write a kept Hugging Face model as a folder that transformers reads."),
    "memorization": ("memorization:memorization", "Say what a kept model remembers of a text, verbatim and in bits."),
}.items():
    app.command(f"capax.cli.{_home}", name=_name, help=_text)


@app.default
@app.command(name="list")
def listed(
    *,
    store: Place = DEFAULT,
    where: Where = (),
    tags: Tagged = (),
    failed: Annotated[bool, Flag] = False,
    as_json: Json = False,
) -> None:
    """List the finished runs of a store, oldest first; a narrow terminal shows fewer columns.

    Parameters
    ----------
    failed
        List the runs that failed instead: when, how often, and why.
    as_json
        Print one JSON array of measurements, run by run as they are read; with --failed, of failures.
    """
    if failed and (where or tags):
        raise CapaxError(f"{'where' if where else 'tag'}: not together with --failed")
    where = conditions(where, tags)
    with Store(store, create=False) as opened:
        if failed:
            failures = opened.failures()
            if as_json:
                print(json.dumps([asdict(failure) for failure in failures]), file=streams.stdout())
            else:
                output.show_failures(failures)
            return
        keys, sources = _selected(store, where) if where else (None, opened.sources())
        if as_json:
            before = "["
            for run in opened.each(keys):
                print(before, _ascii(run.to_json()), sep="", end="", file=streams.stdout())
                before = ", "
            print("[]" if before == "[" else "]", file=streams.stdout())
            return
        runs = [run for run in opened.summaries() if keys is None or run.key in keys]
        if runs:
            output.show_runs(runs, _told_apart(opened, runs))
        else:
            unfinished = len(opened.failures())
            print("no finished runs" + (f"; {unfinished} failed: capax runs --failed says why" if unfinished else ""))
    _show_sources(sources)


def _told_apart(store: Store, runs: Sequence[Summary]) -> dict[str, str]:
    """In words, by key, what tells apart runs whose other columns are the same."""
    groups: dict[Any, list[str]] = {}
    for run in runs:
        shown = (run.task, run.protocol, run.items, run.n_layers, run.n_heads, run.d_model, run.library_size)
        groups.setdefault(shown, []).append(run.key)
    alike = [store.fields(keys) for keys in groups.values() if len(keys) > 1]
    return {
        key: apart.in_words(told)
        for fields in alike
        for key, told in zip(fields, apart.among(list(fields.values())), strict=True)
    }


def _show_sources(sources: Mapping[str, int]) -> None:
    for source, count in sources.items():
        print(f"and {output.rows(count)} imported from {printable(source)}")


def conditions(where: tuple[str, ...], tags: tuple[str, ...]) -> tuple[str, ...]:
    """Those of --where, and those of --tag in the same form."""
    return (*where, *(f"tags={tag}" for tag in checked_tags(tags)))


def _ascii(text: str) -> str:
    """JSON in letters that every terminal and file can hold."""
    return text if text.isascii() else json.dumps(json.loads(text), separators=(",", ":"))


def _selected(store: Path, where: tuple[str, ...]) -> tuple[set[str], dict[str, int]]:
    """The keys of the runs that meet the conditions, and how many imported rows of each source do."""
    from capax.store import tables  # loads polars, which a listing of all runs does not need

    rows = tables.where(tables.read(store), where)
    if "source" not in rows.columns:
        return set(rows["key"]), {}
    imported = rows.filter(rows["source"].is_not_null())["source"].to_list()
    keys = set(rows.filter(rows["source"].is_null())["key"]) if "key" in rows.columns else set()
    return keys, {source: imported.count(source) for source in dict.fromkeys(imported)}


@app.command
def show(key: str, *, store: Place = DEFAULT, as_json: Json = False) -> None:
    """Show a finished run.

    Parameters
    ----------
    key
        Key of the run, or its beginning.
    """
    with Store(store, create=False) as opened:
        found = opened.find(key)
    output.emit(found, measurement.show, as_json=as_json)


@app.command
def tag(
    key: str,
    /,
    *tags: str,
    name: str | None = None,
    remove: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    store: Place = DEFAULT,
) -> None:
    """Name a finished run and tag it; its key stays.

    Parameters
    ----------
    key
        Key of the run, or its beginning.
    tags
        Words for what it belongs to, beside those that it has.
    name
        What it is called from now on; "" takes its name away.
    remove
        A tag that is taken away; more than once.
    """
    if not (tags or remove) and name is None:
        raise CapaxError("tags: at least one, or --name or --remove")
    with Store(store, create=False) as opened:
        whole = opened.find(key).key
        opened.label(whole, name=name, tags=tags, remove=remove)
        found = opened.find(whole)
    print(printable(f"{whole[:12]}: name {found.name or '(none)'}, tags {', '.join(found.tags) or '(none)'}"))


@app.command
def delete(key: str, *, store: Place = DEFAULT) -> None:
    """Delete a run or a failure, with its kept weights.

    Parameters
    ----------
    key
        Key of the run or failure, or at least six characters of its beginning.
    """
    with Store(store, create=False) as opened:
        whole, runs = opened.find_key(key), opened.keys()
        if len(key) < LEAST_OF_A_KEY:
            raise StoreError(
                f"key: at least {LEAST_OF_A_KEY} characters, as a deletion is final, got {key!r} ({whole[:12]})"
            )
        held = {
            "the run": whole in runs,
            "its failure": any(failure.key == whole for failure in opened.failures()),
            "its kept weights": opened.weights_path(whole).exists(),
        }
        opened.delete(whole)
    print(f"deleted {whole[:12]}: {', '.join(what for what, there in held.items() if there)}")


@app.command
def merge(*stores: Path, out: Annotated[Path, Parameter(alias="-o")]) -> None:
    """Copy several stores into a new one; of a run that is in several, the one that finished last.

    Parameters
    ----------
    stores
        SQLite files of finished runs.
    out
        The new file.
    """
    count = merge_stores(stores, out)
    print(f"{counted(count, 'run')} in {printable(out)}")
    with Store(out, create=False) as merged:
        _show_sources(merged.sources())
