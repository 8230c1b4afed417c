"""`capax runs save`: what a layer or channel learned, as one file that can be verified."""

from __future__ import annotations

from pathlib import Path

from capax.errors import printable
from capax.store import DEFAULT
from capax.theory.claims.export import save_run


def save(key: str, path: Path, /, *, store: Path = DEFAULT) -> None:
    """Write kept weights of a run on associations or relations with their data and a claim, for `capax verify`.

    Parameters
    ----------
    key
        Key of a run that was measured with --keep-weights, or its beginning.
    path
        A .safetensors file.
    store
        SQLite file that the run was stored in.
    """
    save_run(key, path, store)
    print(f"Weights, data and claim: {printable(path)}")
