"""What a run computes on, and with which versions."""

from __future__ import annotations

import multiprocessing
import os
import platform
import threading
from importlib.metadata import version
from multiprocessing.connection import wait
from typing import Literal

from capax.errors import DeviceError


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def versions() -> dict[str, str]:
    """Versions of what a result depends on."""
    return {"capax": version("capax"), "python": platform.python_version()} | {
        name: version(name) for name in ("torch", "numpy", "scipy")
    }


def choose_device(device: str) -> Literal["cpu", "cuda"]:
    """`cpu` or `cuda`; `auto` takes a GPU where there is one.

    Raises:
        DeviceError: for another name, or `cuda` without a GPU that this torch can use.
    """
    import torch

    if device not in ("auto", "cpu", "cuda"):
        raise DeviceError(f"device: 'auto', 'cpu' or 'cuda', got {device!r}")
    available = torch.cuda.is_available()
    if device == "cuda" and not available:
        raise DeviceError(f"device: 'auto' or 'cpu' here (torch {torch.__version__} finds no GPU), got 'cuda'")
    return "cuda" if available and device != "cpu" else "cpu"


def multiplies_bfloat16(device: Literal["cpu", "cuda"]) -> bool:
    """Whether `torch.autocast` takes bfloat16 there: on every CPU, on a GPU that has it."""
    import torch

    return device == "cpu" or torch.cuda.is_bf16_supported()


def end_with_parent() -> None:
    """Let this worker process end when the process that started it is gone, however that ended."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch(sentinel: int) -> None:
        wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, args=(parent.sentinel,), daemon=True).start()
