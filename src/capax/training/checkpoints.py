"""A pack's state on disk: a killed training goes on where it was, a finished pack is not trained again.

Contract: a file is there whole or not at all, and is read only when every byte of it is as it was written, by the same
versions and for the same pack; nothing is pickled. A pack under way has one file, `<digest>.safetensors`; once finished
it has `<digest>.outcomes.json`, and `<digest>.outcomes.safetensors` beside it where weights are kept. One process at a
time trains a pack in a folder.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from capax import machine
from capax.errors import CapaxError
from capax.specs import Run
from capax.tasks.library import Constant
from capax.training.pack import Outcome, Pack
from capax.training.stopping import Information

FORMAT = 2
STATE = "state.json"
"""The tensor that holds a state's JSON: a header of safetensors may not be as long as many curves are."""


class CheckpointError(CapaxError):
    """A checkpoint cannot be read or written."""

    exit_code = 1


@dataclass(frozen=True)
class Snapshot:
    """A training between two steps: its tensors, and the rest as JSON has it."""

    tensors: dict[str, Tensor] = field(repr=False)
    state: dict[str, Any]


class Checkpoint:
    """The files of one pack in a folder.

    Args:
        folder: made when something is written.
    """

    def __init__(self, folder: Path, pack: Pack) -> None:
        self.folder, self.digest = folder, digest(pack)
        self._running = folder / f"{self.digest}.safetensors"
        self._finished = folder / f"{self.digest}.outcomes.json"
        self._weights = folder / f"{self.digest}.outcomes.safetensors"

    def load(self) -> Snapshot | None:
        """The pack's last state; None when there is none.

        Raises:
            CheckpointError: when the file is damaged, of another pack, or of other versions.
        """
        return self._read(self._running) if os.path.exists(self._running) else None

    def save(self, snapshot: Snapshot) -> None:
        """Write a state in place of the one before.

        Raises:
            CheckpointError: when it cannot be written; the one before stays.
        """
        self._write(self._running, snapshot)

    def outcomes(self) -> list[Outcome] | None:
        """What the pack's members reached; None when it is not finished.

        Raises:
            CheckpointError: as `load`.
        """
        if not os.path.exists(self._finished):
            return None
        try:
            document = json.loads(self._finished.read_text())
            content = document["outcomes"]
            self._check(document["header"], _text_checksum(content))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(f"checkpoint: cannot read {self._finished}: {error}") from None
        weights = self._read(self._weights).tensors if any(fields["kept"] for fields in content) else {}
        return [_outcome(fields, place, weights) for place, fields in enumerate(content)]

    def finish(self, outcomes: list[Outcome]) -> None:
        """Write what the members reached in place of the pack's state.

        Raises:
            CheckpointError: when it cannot be written; the last state stays.
        """
        weights = {
            f"{place}/{name}": tensor
            for place, outcome in enumerate(outcomes)
            for name, tensor in (outcome.weights or {}).items()
        }
        if weights:
            self._write(self._weights, Snapshot(weights, {}))
        content = [_fields(outcome) for outcome in outcomes]
        document = json.dumps({"header": self._header(_text_checksum(content)), "outcomes": content})
        self._replace(self._finished, lambda partial: partial.write_text(document))
        _remove(self._running)
        _remove(_partial(self._running))  # of a process that was killed while it wrote

    def _header(self, checksum: str) -> dict[str, Any]:
        return {"format": FORMAT, "versions": machine.versions(), "pack": self.digest, "sha256": checksum}

    def _check(self, header: dict[str, Any], checksum: str) -> None:
        expected = self._header(checksum)
        differing = [name for name, value in expected.items() if header.get(name) != value]
        if differing:
            raise CheckpointError(f"checkpoint: another {differing[0]} than expected in {self.folder}")

    def _read(self, path: Path) -> Snapshot:
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
            self._check(json.loads(metadata["header"]), _checksum(tensors))
            state = json.loads(tensors.pop(STATE).numpy().tobytes())
        except (OSError, SafetensorError, ValueError, KeyError, AttributeError) as error:
            raise CheckpointError(f"checkpoint: cannot read {path}: {error}") from None
        return Snapshot(tensors, state)

    def _write(self, path: Path, snapshot: Snapshot) -> None:
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in snapshot.tensors.items()}
        tensors[STATE] = torch.frombuffer(bytearray(json.dumps(snapshot.state).encode()), dtype=torch.uint8)
        header = {"header": json.dumps(self._header(_checksum(tensors)))}
        self._replace(path, lambda partial: save_file(tensors, partial, header))

    def _replace(self, path: Path, write: Callable[[Path], object]) -> None:
        """Put a file in the place of another, so that a crash at any moment leaves one of the two."""
        partial = _partial(path)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write(partial)
            _flush(partial)
            partial.replace(path)
            _flush(self.folder)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"checkpoint: not written ({error})") from None
        finally:
            _remove(partial)


def digest(pack: Pack) -> str:
    """Sha256 of the canonical JSON of all that a pack's results depend on.

    The seconds are left out: those of a training that goes on are what the time before has left of them.
    """
    fields = {name: getattr(pack, name) for name in (f.name for f in dataclasses.fields(pack)) if name != "seconds"}
    specs = {name: fields.pop(name) for name in ("task", "model", "training")}
    fields["specs"] = Run(**specs).canonical_json()  # as in a run's key: a user's file counts by its content
    return _text_checksum(fields)


def _partial(path: Path) -> Path:
    """Where a file is written before it takes its place."""
    return path.with_name(path.name + ".partial")


def _text_checksum(content: object) -> str:
    return hashlib.sha256(_canonical(content).encode()).hexdigest()


def _canonical(content: object) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def _checksum(tensors: dict[str, Tensor]) -> str:
    found = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        found.update(tensor.reshape(-1).numpy().data)
    return found.hexdigest()


def _flush(path: Path) -> None:
    """Have the disk hold what was written to a file or a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:  # the folder is not one, or not ours: writing has said so
        return


def _fields(outcome: Outcome) -> dict[str, Any]:
    fields = {f.name: getattr(outcome, f.name) for f in dataclasses.fields(outcome) if f.name != "weights"}
    return fields | {"kept": outcome.weights is not None}


def _outcome(fields: dict[str, Any], place: int, weights: dict[str, Tensor]) -> Outcome:
    """An outcome from JSON, where tuples are lists."""
    fields = dict(fields)
    kept, start = fields.pop("kept"), f"{place}/"
    fields["curve"] = tuple(tuple(point) for point in fields["curve"])
    fields |= {name: tuple(fields[name]) for name in ("unreachable", "notes")}
    if fields["information"] is not None:
        fields["information"] = Information(*fields["information"])
    if fields.get("constant") is not None:
        fields["constant"] = Constant(*fields["constant"])
    if kept:
        fields["weights"] = {
            name.removeprefix(start): tensor for name, tensor in weights.items() if name.startswith(start)
        }
    return Outcome(**fields)
