"""`capax runs` and `capax recall`: what the store holds, and what a kept memory says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

Json = Annotated[bool, Parameter(name="--json", negative="")]


def runs(*, store: Path = Path("capax.db"), as_json: Json = False) -> None:
    """List the finished runs of a store, oldest first.

    Parameters
    ----------
    store
        SQLite file of finished runs.
    as_json
        Print one JSON array of measurements.
    """
    from capax.store import Store

    with Store(store, create=False) as opened:
        found = opened.runs()
    if as_json:
        print(json.dumps([run.model_dump(mode="json") for run in found]))
        return
    from capax.cli import output

    output.show_runs(found)


def recall(
    key: str,
    *,
    prefix: str,
    store: Path = Path("capax.db"),
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
    as_json
        Print one JSON object.
    """
    from capax.errors import CapaxError
    from capax.memory import load

    try:
        tokens = [int(word) for word in prefix.replace(",", " ").split()]
    except ValueError:
        raise CapaxError(f"prefix: integers separated by spaces, got {prefix!r}") from None
    answer = load(key, store).recall(tokens)
    if as_json:
        print(answer.model_dump_json())
        return
    says = {
        None: "the library does not hold this prefix",
        True: "the library says the same",
        False: f"the library says {answer.library_token}",
    }
    print(f"{answer.token} (probability {answer.probability:.3f}); {says[answer.agrees]}")
