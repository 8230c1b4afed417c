"""`capax runs recall`: what a kept memory says."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from capax.cli import output
from capax.cli.flags import Flag, Json
from capax.cli.path import search_here
from capax.errors import CapaxError, printable
from capax.memory import load
from capax.results import FactRecall, Recall
from capax.store import DEFAULT

LIBRARY = {None: "the library does not hold this prefix", True: "the library says the same"}


def recall(
    key: str,
    /,
    *question: str,
    store: Path = DEFAULT,
    library: Path | None = None,
    trust: Annotated[bool, Flag] = False,
    as_json: Json = False,
) -> None:
    """Ask a kept memory for the token after a prefix, or for a fact.

    Parameters
    ----------
    key
        Key of a run that was measured with --keep-weights, or its beginning.
    question
        Of sequences the seq_len - 1 tokens of a prefix, "3 17 4 ..."; of facts the key and the relation, "Rome"
        "country".
    store
        SQLite file that the run was stored in.
    library
        Where the file lies now that the run learned. [default: where it was]
    trust
        Of a run of a module: import it, which runs its code, if its source is the one that was measured.
    """
    if trust:
        search_here()
    memory = load(key, store, trust=trust, library=library)
    ask = getattr(memory, "asked", None)
    if ask is None:
        raise CapaxError(
            f"key: run {memory.run.key[:12]} learned {memory.run.spec.task.task}, which cannot be asked in words"
        )
    shuffled = getattr(memory.run.spec.task, "control", "none") == "shuffled"
    output.emit(ask(question), partial(_show, file="shuffled file" if shuffled else "file"), as_json=as_json)


def _show(answer: Recall | FactRecall, file: str) -> None:
    if isinstance(answer, Recall):
        says = LIBRARY.get(answer.agrees, f"the library says {answer.library_token}")
        print(f"{answer.token} (probability {answer.probability:.3f}); {says}")
    else:
        others = [one for one in answer.file_answers if not (answer.agrees and one == answer.answer)]
        said = ", and ".join(["the same"] * bool(answer.agrees) + [" or ".join(others)] * bool(others))
        says = f"the {file} says {said}" if said else "none of the facts that it learned answers this"
        print(printable(f"{answer.answer} (probability {answer.probability:.3f}); {says}"))
