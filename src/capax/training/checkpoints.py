"""Members' states on disk: a killed training resumes where it was, a finished one is not repeated.

Contract: a file is there whole or not at all, and is read only when every byte of it is as it was written, by the same
versions; nothing is pickled. A pack under way has one file, `<digest>.safetensors`; once finished it has
`<digest>.outcomes.json`, and `<digest>.outcomes.safetensors` beside it where weights are kept. One process at a time
trains a member in a folder.

A state belongs to its members, not to the pack that wrote it: a file serves any pack of some of its members, and a
member goes on from the file in which it is furthest. The plan of packs is not kept instead, since it does not last:
timings of packs differ from start to start, a pack whose process died is cut in halves, a study gains and loses seeds.
What members of one file have in common, their step, is all that a pack needs; members of two files train apart.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from capax import devices, machine
from capax.errors import CapaxError
from capax.specs import Run
from capax.tasks.library import Constant
from capax.training.pack import Outcome, Pack
from capax.training.snapshots import Snapshot, part
from capax.training.stopping import CycleEnd, Information

FORMAT = 4
STATE = "state.json"
"""The tensor that holds a state's JSON: a header of safetensors may not be as long as many curves are."""
RUNNING, FINISHED, WEIGHTS, PARTIAL = ".safetensors", ".outcomes.json", ".outcomes.safetensors", ".partial"
UNREADABLE = (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError)
"""What reading a file that is damaged, foreign or gone may raise."""

Member = tuple[int, int, int, int | None]
"""A member by its seed, its number in its run, the size of its library and of its heads."""


@dataclass(frozen=True)
class Saved:
    """The last state on disk of trainings that go on together: after how many steps, and when it was written (UTC)."""

    steps: int
    written: datetime


class CheckpointError(CapaxError):
    """A checkpoint cannot be read or written."""

    exit_code = 1


@dataclass(frozen=True)
class _File:
    """A file by its header.

    Attributes:
        steps: how far the members are.
        processor: what they were trained on.
    """

    path: Path
    members: tuple[Member, ...]
    steps: int
    processor: str

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Finished before unfinished, then by steps, then by members: these train faster together."""
        return self.path.name.endswith(FINISHED), self.steps, len(self.members)


class Checkpoint:
    """The files of a pack's members in a folder.

    Args:
        folder: made when something is written.

    Attributes:
        processor: where the state was written that was read last, if it was not here.
    """

    def __init__(self, folder: Path, pack: Pack) -> None:
        self.folder, self.digest = folder, digest(pack)
        self.processor: str | None = None
        self._common, self._members = self.digest.partition("-")[0], _members(pack)
        self._here = devices.processor(pack.device)
        self._running = folder / f"{self.digest}{RUNNING}"
        self._finished = folder / f"{self.digest}{FINISHED}"
        self._weights = folder / f"{self.digest}{WEIGHTS}"

    def load(self) -> Snapshot | None:
        """The members' last state, of the file in which they are furthest; None when there is none.

        Raises:
            CheckpointError: when the file is damaged, of another pack, or of other versions.
        """
        file = self._best(RUNNING)
        if file is None:
            return None
        snapshot = self._read(file.path)
        self.processor = None if file.processor == self._here else file.processor
        return part(snapshot, [file.members.index(member) for member in self._members])

    def save(self, snapshot: Snapshot) -> None:
        """Write a state in place of the one before.

        Raises:
            CheckpointError: when it cannot be written; the one before stays.
        """
        self._write(self._running, snapshot, max(record["steps"] for record in snapshot.state["records"]))

    def outcomes(self) -> list[Outcome] | None:
        """What the members reached; None when they are not finished.

        Raises:
            CheckpointError: as `load`.
        """
        file = self._best(FINISHED)
        if file is None:
            return None
        try:
            document = json.loads(file.path.read_text())
            content = document["outcomes"]
            self._check(document["header"], _text_checksum(content))
        except UNREADABLE as error:
            raise CheckpointError(f"checkpoint: cannot read {file.path}: {error}") from None
        weights = self._read(_weights(file.path)).tensors if any(fields["kept"] for fields in content) else {}
        self.processor = None if file.processor == self._here else file.processor
        places = [file.members.index(member) for member in self._members]
        return [_outcome(content[place], place, weights) for place in places]

    def finish(self, outcomes: list[Outcome]) -> None:
        """Write what the members reached in place of the pack's state.

        Raises:
            CheckpointError: when it cannot be written; the last state stays.
        """
        steps = max(outcome.steps for outcome in outcomes)
        weights = {
            f"{place}/{name}": tensor
            for place, outcome in enumerate(outcomes)
            for name, tensor in (outcome.weights or {}).items()
        }
        if weights:
            self._write(self._weights, Snapshot(weights, {}), steps)
        content = [_fields(outcome) for outcome in outcomes]
        document = json.dumps({"header": self._header(_text_checksum(content), steps), "outcomes": content})
        self._replace(self._finished, lambda partial: partial.write_text(document))
        _remove(self._running)
        _remove(_partial(self._running))  # of a process that was killed while it wrote

    def furthest(self) -> list[tuple[Path, int] | None]:
        """By its place, in which file each member is furthest, and of how many members that file is.

        None where nothing can be read of a member.
        """
        files = sorted(self._files((RUNNING, FINISHED), []), key=lambda file: file.rank)
        found = {member: (file.path, len(file.members)) for file in files for member in file.members}
        return [found.get(member) for member in self._members]

    def _best(self, suffix: str) -> _File | None:
        """The file of a kind in which all members are furthest.

        Raises:
            CheckpointError: when there is none that can be read, but one that cannot.
        """
        unreadable: list[CheckpointError] = []
        files = [f for f in self._files((suffix,), unreadable) if set(self._members) <= set(f.members)]
        if not files and unreadable:
            raise unreadable[0]
        return max(files, key=lambda file: file.rank, default=None)

    def _files(self, suffixes: tuple[str, ...], unreadable: list[CheckpointError]) -> Iterator[_File]:
        """The files of some kinds with members of this pack, by their headers; what cannot be read goes into a list."""
        for path in _paths(self.folder, f"{self._common}-", suffixes):
            try:
                header = _read_header(path)
                file = _file(path, header)
                if set(file.members) & set(self._members):
                    self._check(header)
                    yield file
            except FileNotFoundError:
                continue  # another process has finished with it
            except CheckpointError as error:
                unreadable.append(error)
            except UNREADABLE as error:
                unreadable.append(CheckpointError(f"checkpoint: cannot read {path}: {error}"))

    def _header(self, checksum: str, steps: int) -> dict[str, Any]:
        about = {"members": self._members, "steps": steps, "processor": self._here}
        return self._expected() | {"about": about, "sha256": _text_checksum([checksum, about])}

    def _expected(self) -> dict[str, Any]:
        return {"format": FORMAT, "versions": machine.versions(), "common": self._common}

    def _check(self, header: dict[str, Any], checksum: str | None = None) -> None:
        """That a header is as expected, and what was read as it was written, where its checksum is given."""
        expected = self._expected()
        if checksum is not None:
            expected["sha256"] = _text_checksum([checksum, header["about"]])
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
        except UNREADABLE as error:
            raise CheckpointError(f"checkpoint: cannot read {path}: {error}") from None
        return Snapshot(tensors, state)

    def _write(self, path: Path, snapshot: Snapshot, steps: int) -> None:
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in snapshot.tensors.items()}
        tensors[STATE] = torch.frombuffer(bytearray(json.dumps(snapshot.state).encode()), dtype=torch.uint8)
        header = {"header": json.dumps(self._header(_checksum(tensors), steps))}
        # Not save_file: it writes to a file of its own first, by a name at random, which a kill would leave behind.
        self._replace(path, lambda partial: partial.write_bytes(save(tensors, header)))

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


def folder_of(run: Run, place: Path) -> Path:
    """The folder for the checkpoints of a run and of all runs that it may train with."""
    return place / run.replace(seed=0).key()


def reached(folder: Path, seed: int) -> int:
    """How far the trainings of a run are in its folder, by its seed: a number that grows as they go on."""
    return sum(file.steps for file in _all(folder) if any(member[0] == seed for member in file.members))


def saved(place: Path) -> list[Saved]:
    """The trainings under way whose states are in the folders of `place`, those written last first."""
    found = []
    for file in (file for folder in place.glob("*") for file in _all(folder)):
        if file.path.name.endswith(RUNNING):
            with suppress(OSError):  # its training has ended meanwhile
                written = datetime.fromtimestamp(file.path.stat().st_mtime, UTC)
                found.append(Saved(file.steps, written))
    return sorted(found, key=lambda state: state.written, reverse=True)


def forget(folder: Path, kept: Callable[[int], bool]) -> None:
    """Remove the files of which every member's run is kept, by its seed."""
    for file in _all(folder):
        if all(kept(seed) for seed, *_ in file.members):
            _remove(file.path)
            _remove(_weights(file.path))


def tidy(folder: Path) -> None:
    """Remove a folder in which nothing is left that could be read; nobody may be training in it."""
    if next(_all(folder), None) is None:
        shutil.rmtree(folder, ignore_errors=True)


def digest(pack: Pack) -> str:
    """Two checksums: of what a member's results depend on but itself, and of who the members are.

    The seconds are left out: those of a training that goes on are what the time before has left of them.
    """
    apart = ("seconds", "seeds", "members", "sizes", "d_heads")
    fields = {f.name: getattr(pack, f.name) for f in dataclasses.fields(pack) if f.name not in apart}
    specs = {name: fields.pop(name) for name in ("task", "model", "training")}
    fields["specs"] = Run(**specs).canonical_json()  # as in a run's key: a user's file counts by its content
    return f"{_text_checksum(fields)[:40]}-{_text_checksum(_members(pack))[:40]}"


def _members(pack: Pack) -> tuple[Member, ...]:
    heads = pack.d_heads or (None,) * len(pack.members)
    return tuple(zip(pack.seeds, pack.members, pack.sizes, heads, strict=True))


def _all(folder: Path) -> Iterator[_File]:
    """The files of a folder whose headers can be read, of whatever version."""
    for path in _paths(folder, "", (RUNNING, FINISHED)):
        with suppress(*UNREADABLE):
            yield _file(path, _read_header(path))


def _paths(folder: Path, start: str, suffixes: tuple[str, ...]) -> list[Path]:
    found = sorted(folder.glob(f"{start}*"))
    return [path for path in found if path.name.endswith(suffixes) and not path.name.endswith(WEIGHTS)]


def _read_header(path: Path) -> dict[str, Any]:
    if path.name.endswith(FINISHED):
        return json.loads(path.read_text())["header"]
    with safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["header"])


def _file(path: Path, header: dict[str, Any]) -> _File:
    about = header["about"]
    members = tuple((seed, member, size, d_head) for seed, member, size, d_head in about["members"])
    return _File(path, members, int(about["steps"]), str(about["processor"]))


def _weights(finished: Path) -> Path:
    return finished.with_name(finished.name.removesuffix(FINISHED) + WEIGHTS)


def _partial(path: Path) -> Path:
    """Where a file is written before it takes its place."""
    return path.with_name(path.name + PARTIAL)


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
    """Have the disk hold what was written to a file or a folder; Windows opens no folder, and no file to read alone."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
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
    fields["cycles"] = tuple(CycleEnd(*end) for end in fields["cycles"])
    if fields.get("constant") is not None:
        fields["constant"] = Constant(*fields["constant"])
    if kept:
        fields["weights"] = {
            name.removeprefix(start): tensor for name, tensor in weights.items() if name.startswith(start)
        }
    return Outcome(**fields)
