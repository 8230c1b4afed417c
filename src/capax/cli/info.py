"""`capax info`: versions, device, threads."""

from __future__ import annotations

import platform
from typing import Annotated

from cyclopts import Parameter


def info(*, as_json: Annotated[bool, Parameter(name="--json", negative="")] = False) -> None:
    """Show versions, device and threads.

    Parameters
    ----------
    as_json
        Print one JSON object (docs/schemas/info.json).
    """
    import torch

    from capax import devices, machine
    from capax.results import Info

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
    )
    if as_json:
        print(facts.model_dump_json())
        return
    rows = {**facts.versions, **facts.model_dump(exclude={"versions"})}
    for name, value in rows.items():
        print(f"{name:14} {'none' if value is None else value}")
