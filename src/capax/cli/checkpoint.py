"""`capax runs checkpoint`: a kept Hugging Face model as a folder of transformers."""

from __future__ import annotations

from pathlib import Path

from capax.cli import output
from capax.cli.flags import Json
from capax.probes.checkpoint import Checkpoint, Stored
from capax.probes.checkpoint import checkpoint as write
from capax.store import DEFAULT


def checkpoint(
    key: str, folder: Path, /, *, precision: Stored = "float32", store: Path = DEFAULT, as_json: Json = False
) -> None:
    """Write the kept weights of a Hugging Face model as a checkpoint: config.json and model.safetensors.

    Of a run on text also tokenizer.json and held-out.txt, text of the half that it did not learn.

    Parameters
    ----------
    key
        Key of a run of --model hf that was measured with --keep-weights, or its beginning.
    folder
        Made where it is not there; files of these names are replaced.
    precision
        Numbers that weights are written as; bfloat16 has half the bytes.
    store
        SQLite file that the run was stored in.
    """
    output.emit(write(key, folder, store, precision=precision), _show, as_json=as_json)


def _show(found: Checkpoint) -> None:
    print(f"{found.folder}: {', '.join(found.files)}; {found.parameters} parameters, {found.vocab_size} tokens")
