"""`capax info`: versions, device, threads."""

from __future__ import annotations

import platform

import torch

from capax import devices, machine
from capax.cli import output
from capax.cli.flags import Json
from capax.results import Info


def info(*, as_json: Json = False) -> None:
    """Show versions, device and threads."""
    device = devices.choose_device("auto")
    facts = Info(
        versions=machine.versions(),
        platform=platform.platform(),
        cores=machine.cores(),
        torch_threads=torch.get_num_threads(),
        device=device,
        gpu=torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        bfloat16="native" if devices.is_bfloat16_native(device) else "emulated",
        packs="bit for bit" if devices.rounds_batches_alike() else "to rounding",
        docs=str(machine.folder("docs")),
        examples=str(machine.folder("examples")),
    )
    output.emit(facts, _show, as_json=as_json)


def _show(facts: Info) -> None:
    for name, value in {**facts.versions, **facts.model_dump(exclude={"versions"})}.items():
        print(f"{name:14} {'none' if value is None else value}")
