"""The device that a run computes on, and how it rounds."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from capax.errors import DeviceError, shown

VISIBLE = "CUDA_VISIBLE_DEVICES"


Device = Literal["cpu", "cuda", "mps"]

FIRST_WITH_TF32 = (8, 0)
"""Compute capability."""


def choose_device(device: str) -> Device:
    """`cpu`, `cuda`, or `mps` for Apple's GPUs; `auto` takes a GPU of CUDA where there is one.

    Raises:
        DeviceError: for another name, or a GPU that this torch does not find.
    """
    return _chosen(device, device)


def _chosen(device: str, given: str) -> Device:
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        return "cuda" if there["cuda"] else "cpu"
    for name in ("cpu", "cuda", "mps"):
        if device == name and there[name]:
            return name
    if device not in tuple(there):
        raise DeviceError(f"device: 'auto', 'cpu', 'cuda' or 'mps', got {shown(given)}")
    names = ", ".join(repr(name) for name, is_there in there.items() if is_there)
    kind = "Apple GPU" if device == "mps" else "GPU"
    raise DeviceError(f"device: 'auto' or {names} here (torch {torch.__version__} finds no {kind}), got {given!r}")


def choose_gpus(device: str) -> tuple[Device, tuple[str, ...]]:
    """As `choose_device`, and the GPUs among which worker processes are shared out, by their names for CUDA.

    `cuda` takes all that this process may see, `cuda:1` the second of them.

    Raises:
        DeviceError: as `choose_device`, and for a GPU that is not there.
    """
    where = _chosen("cuda" if str(device).startswith("cuda:") else device, device)
    if where != "cuda":
        return where, ()
    return where, gpus(device, torch.cuda.device_count(), os.environ.get(VISIBLE))


def gpus(device: str, count: int, visible: str | None) -> tuple[str, ...]:
    """The GPUs that a device names, as CUDA_VISIBLE_DEVICES would.

    Args:
        count: GPUs that this process sees.
        visible: what CUDA_VISIBLE_DEVICES says now, such as "2,3"; None or empty where it says nothing.

    Raises:
        DeviceError: for one that is not there.
    """
    names = [name.strip() for name in visible.split(",")][:count] if visible else [str(place) for place in range(count)]
    _, colon, number = device.partition(":")
    if not colon:
        return tuple(names)
    if not (number.isascii() and number.isdecimal() and len(number) < 5 and int(number) < count):
        raise DeviceError(f"device: 'cuda:N' with N from 0 to {count - 1}, got {shown(device)}")
    return (names[int(number)],)


def refuse(device: Device, precision: str, optimizer: str) -> None:
    """Refuse what a device cannot compute: TF32 without CUDA; Apple's GPUs lack float64, and bfloat16 is untried there.

    Raises:
        DeviceError: that names the field.
    """
    if device == "mps" and precision != "float32":
        raise DeviceError(f"precision: Apple's GPU (device 'mps') computes in float32 alone, got {precision!r}")
    if device != "cuda" and precision == "tf32":
        raise DeviceError(f"precision: only GPUs of CUDA multiply in TF32 (device 'cuda'), got 'tf32' on {device!r}")
    if device == "mps" and optimizer == "soap":
        raise DeviceError("optimizer: SOAP computes in float64, which Apple's GPU (device 'mps') lacks, got 'soap'")


def wait() -> None:
    """Wait until GPUs have done what they were given: calls return earlier."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    elif torch.backends.mps.is_available():
        torch.mps.synchronize()


def wide_on(device: torch.device) -> torch.device:
    """Where numbers of a device are computed in float64: there, or on the CPU for Apple's GPUs, which cannot."""
    return torch.device("cpu") if device.type == "mps" else device


def wide(tensor: Tensor) -> Tensor:
    """A tensor in float64, where that can be."""
    return tensor.to(wide_on(tensor.device), torch.float64)


def processor(device: str) -> str:
    """What decides how results are rounded: the kind of processor and the instructions that torch takes, or the GPU."""
    if device == "cpu":
        name = torch.cpu.get_capabilities().get("cpu_name") or platform.machine()
        return f"{name} {torch.backends.cpu.get_cpu_capability()}"
    return f"{platform.machine()} mps" if device == "mps" else torch.cuda.get_device_name(device)


def multiplies_bfloat16(device: Device) -> bool:
    """Whether `torch.autocast` takes bfloat16 there: on every CPU, on a GPU of CUDA that has it."""
    return device == "cpu" or (device == "cuda" and torch.cuda.is_bf16_supported())


def is_bfloat16_native(device: str) -> bool:
    """Whether products in bfloat16 have instructions of their own there; without them they are emulated, and slow."""
    if device == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    has = torch.cpu.get_capabilities()
    if has.get("architecture") == "x86_64":
        return bool(has.get("avx512_bf16") or has.get("amx_bf16"))
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


@contextmanager
def multiplying(precision: str) -> Iterator[None]:
    """Products of float32 matrices on GPUs of CUDA in TF32, where a precision is that, and otherwise as they are."""
    products = torch.backends.cuda.matmul
    before = products.fp32_precision
    try:
        if precision == "tf32":
            products.fp32_precision = "tf32"
        yield
    finally:
        products.fp32_precision = before


def caveat(precision: str, device: str) -> str | None:
    """A warning about a precision on a device; None where there is none."""
    if precision == "tf32" and device == "cuda" and torch.cuda.get_device_capability(device) < FIRST_WITH_TF32:
        return "precision: this GPU has no TF32; products are in float32"
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
