"""`capax runs recall`: what a kept memory says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from capax.cli import output
from capax.cli.flags import Flag, Json
from capax.cli.path import search_here
from capax.cli.runs import CAPAX_DB
from capax.errors import CapaxError
from capax.memory import load
from capax.results import Recall

SAYS = {None: "the library does not hold this prefix", True: "the library says the same"}


def recall(
    key: str,
    *,
    prefix: str,
    store: Path = CAPAX_DB,
    trust: Annotated[bool, Flag] = False,
    as_json: Json = False,
) -> None:
    """Ask a kept memory for the token after a prefix.

    Parameters
    ----------
    key
        Key of a run that was measured with --keep-weights, or its beginning.
    prefix
        seq_len - 1 tokens: "3 17 4 ...".
    store
        SQLite file that the run was stored in.
    trust
        Of a run of a module: import it, which runs its code, if its source is the one that was measured.
    """
    if trust:
        search_here()
    try:
        tokens = [int(word) for word in prefix.replace(",", " ").split()]
    except ValueError:
        raise CapaxError(f"prefix: integers separated by spaces, got {prefix!r}") from None
    memory = load(key, store, trust=trust)
    ask = getattr(memory, "recall", None)
    if ask is None:
        raise CapaxError(f"key: run {memory.run.key[:12]} learned {memory.run.spec.task.task}, which have no prefix")
    output.emit(ask(tokens), _show, as_json=as_json)


def _show(answer: Recall) -> None:
    says = SAYS.get(answer.agrees, f"the library says {answer.library_token}")
    print(f"{answer.token} (probability {answer.probability:.3f}); {says}")
