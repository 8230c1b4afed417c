"""The device that a run computes on, and how it rounds."""

from __future__ import annotations

import platform
from functools import cache
from typing import Literal

import torch

from capax.errors import DeviceError


def choose_device(device: str) -> Literal["cpu", "cuda"]:
    """`cpu` or `cuda`; `auto` takes a GPU where there is one.

    Raises:
        DeviceError: for another name, or `cuda` without a GPU that this torch can use.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise DeviceError(f"device: 'auto', 'cpu' or 'cuda', got {device!r}")
    available = torch.cuda.is_available()
    if device == "cuda" and not available:
        raise DeviceError(f"device: 'auto' or 'cpu' here (torch {torch.__version__} finds no GPU), got 'cuda'")
    return "cuda" if available and device != "cpu" else "cpu"


def processor(device: str) -> str:
    """What decides how results are rounded: the kind of processor and the instructions that torch takes, or the GPU."""
    if device == "cpu":
        name = torch.cpu.get_capabilities().get("cpu_name") or platform.machine()
        return f"{name} {torch.backends.cpu.get_cpu_capability()}"
    return torch.cuda.get_device_name(device)


def multiplies_bfloat16(device: Literal["cpu", "cuda"]) -> bool:
    """Whether `torch.autocast` takes bfloat16 there: on every CPU, on a GPU that has it."""
    return device == "cpu" or torch.cuda.is_bf16_supported()


def is_bfloat16_native(device: Literal["cpu", "cuda"]) -> bool:
    """Whether products in bfloat16 have instructions of their own there; without them they are emulated, and slow."""
    if device == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    has = torch.cpu.get_capabilities()
    if has.get("architecture") == "x86_64":
        return bool(has.get("avx512_bf16") or has.get("amx_bf16"))
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def caveat(precision: str, device: Literal["cpu", "cuda"]) -> str | None:
    """A warning about a precision on a device; None where there is none."""
    if precision == "bfloat16" and not is_bfloat16_native(device):
        return "precision: this processor emulates products in bfloat16; float32 is several times faster here"
    return None


@cache
def rounds_batches_alike() -> bool:
    """Whether a product of matrices has the same bits in a batch of two as in one of five, here on the CPU.

    Then a member's results are the same in every pack of two and more. Tried on products of a hundred shapes.
    """
    draw = torch.Generator().manual_seed(0)
    for m, k, n in torch.randint(1, 64, (100, 3), generator=draw).tolist():
        a, b = torch.randn(5, k, m, generator=draw), torch.randn(5, k, n, generator=draw)
        if not torch.equal((a.mT @ b)[3:], a[3:].clone().mT @ b[3:].clone()):
            return False
    return True
