"""`capax info`: versions, device, threads."""

from __future__ import annotations

import json
import platform
from typing import Annotated

from cyclopts import Parameter


def info(*, as_json: Annotated[bool, Parameter(name="--json", negative="")] = False) -> None:
    """Show versions, device and threads.

    Parameters
    ----------
    as_json
        Print one JSON object.
    """
    import torch

    from capax import machine

    facts: dict[str, object] = {
        **machine.versions(),
        "platform": platform.platform(),
        "cores": machine.cores(),
        "torch_threads": torch.get_num_threads(),
        "device": machine.choose_device("auto"),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }
    if as_json:
        print(json.dumps(facts))
        return
    for name, value in facts.items():
        print(f"{name:14} {'none' if value is None else value}")
