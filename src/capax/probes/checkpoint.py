"""A kept Hugging Face model as a folder that transformers reads, with its tokenizer and text that it never saw."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal, get_args

import torch
from pydantic import Field

from capax import memory, outputs
from capax.errors import ReportError, SpecError, shown
from capax.models.hf_files import quiet
from capax.results import Result
from capax.store import DEFAULT

WRITTEN = ("config.json", "model.safetensors")
BESIDE = ("tokenizer.json", "held-out.txt")
"""What a task may add to them."""
Stored = Literal["float32", "bfloat16"]
"""Numbers that weights are written as."""


class Checkpoint(Result):
    """A folder that was written."""

    key: Annotated[str, Field(description="Of the run.")]
    folder: str
    files: tuple[str, ...]
    parameters: int
    vocab_size: int
    precision: Stored


def checkpoint(
    key: str, folder: Path | str, store: Path | str = DEFAULT, *, precision: Stored = "float32"
) -> Checkpoint:
    """Write the kept weights of a Hugging Face model as a checkpoint: config.json and model.safetensors.

    Of a run on text also tokenizer.json, whose tokens the model knows (byte pairs), and held-out.txt: windows of the
    half that it did not learn (`Task.beside_checkpoint`). Files of these names are replaced; a folder with a tokenizer
    or held-out text that this run does not write is refused.

    Args:
        key: of a run of model `hf` that was measured with `keep_weights`, or its beginning.
        folder: made where it is not there.
        precision: float32, or bfloat16: half the bytes, 8 significant bits.

    Raises:
        StoreError: when the store has no such run, or it kept no weights.
        SpecError: for a run of another model, or another precision.
        ReportError: for a folder that cannot be written, or that has a tokenizer or text of another model.
    """
    if precision not in get_args(Stored):
        raise SpecError(f"precision: {' or '.join(get_args(Stored))}, got {shown(precision)}")
    run, (path, *_) = memory.find(key, store)
    spec = run.spec.model
    if not spec.pretrained:
        raise SpecError(f"key: run {run.key[:12]} should be of model 'hf', got {spec.model!r}")
    folder = Path(folder)
    outputs.check_folder(folder, "folder")
    beside = run.spec.task.beside_checkpoint()
    for name in BESIDE:
        if name not in beside and (folder / name).exists():
            raise ReportError(
                f"folder: {folder} has {name} of another model, which this one does not know; name another"
            )
    sizes = run.spec.task.sizes()
    module = spec.torch_module(sizes, 0)
    weights = {name: tensor[0] for name, tensor in memory.kept(run, path).parameters.items()}
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        tensor.data.copy_(weights[name].data)
    with TemporaryDirectory() as made, quiet():
        module.network.to(getattr(torch, precision)).save_pretrained(made)
        content = {name: (Path(made) / name).read_bytes() for name in WRITTEN}
    content |= beside
    for name, data in content.items():
        outputs.write(folder / name, data, "folder")
    return Checkpoint(
        key=run.key,
        folder=str(folder.resolve()),
        files=tuple(content),
        parameters=run.parameters.total,
        vocab_size=sizes["vocab_size"],
        precision=precision,
    )
