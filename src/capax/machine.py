"""What a run computes on, and with which versions."""

from __future__ import annotations

import multiprocessing
import os
import platform
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from multiprocessing.connection import wait
from pathlib import Path
from typing import Literal

from capax.errors import DeviceError, SpecError

UNSTARTED = (
    "workers: the worker processes die while they start; in a script, put what starts them below "
    '`if __name__ == "__main__":`, since each worker imports the script, or ask for workers=1'
)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> int:
    """Bytes that this process may use: those of the machine, of its container, or of a limit, whichever are fewest."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")] if hasattr(os, "sysconf") else []
    with suppress(OSError, ValueError):  # no container, or "max"
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    with suppress(ImportError):  # Windows
        import resource

        limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
        found += [limit for limit in limits if limit != resource.RLIM_INFINITY]
    return min(found, default=2**62)


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


def processor(device: str) -> str:
    """What decides how results are rounded: the kind of processor and the instructions that torch takes, or the GPU."""
    import torch

    if device == "cpu":
        name = torch.cpu.get_capabilities().get("cpu_name") or platform.machine()
        return f"{name} {torch.backends.cpu.get_cpu_capability()}"
    return torch.cuda.get_device_name(device)


def multiplies_bfloat16(device: Literal["cpu", "cuda"]) -> bool:
    """Whether `torch.autocast` takes bfloat16 there: on every CPU, on a GPU that has it."""
    import torch

    return device == "cpu" or torch.cuda.is_bf16_supported()


def is_bfloat16_native(device: Literal["cpu", "cuda"]) -> bool:
    """Whether products in bfloat16 have instructions of their own there; without them they are emulated, and slow."""
    import torch

    if device == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    has = torch.cpu.get_capabilities()
    if has.get("architecture") == "x86_64":
        return bool(has.get("avx512_bf16") or has.get("amx_bf16"))
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def caveat(precision: str, device: Literal["cpu", "cuda"]) -> str | None:
    """What to know before training in a precision on a device; None where there is nothing."""
    if precision == "bfloat16" and not is_bfloat16_native(device):
        return "precision: this processor emulates products in bfloat16; float32 is several times faster here"
    return None


@cache
def rounds_batches_alike() -> bool:
    """Whether a product of matrices has the same bits in a batch of two as in one of five, here on the CPU.

    Then a member's results are the same in every pack of two and more. Asked of products of a hundred shapes.
    """
    import torch

    draw = torch.Generator().manual_seed(0)
    for m, k, n in torch.randint(1, 64, (100, 3), generator=draw).tolist():
        a, b = torch.randn(5, k, m, generator=draw), torch.randn(5, k, n, generator=draw)
        if not torch.equal((a.mT @ b)[3:], a[3:].clone().mT @ b[3:].clone()):
            return False
    return True


@contextmanager
def starting_workers() -> Iterator[None]:
    """Keep Ctrl-C from processes that are started meanwhile, from their first moment on; here it waits until the end.

    A worker that ignores it only when it has begun prints where it was until then.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_if_imported_by_a_worker() -> None:
    """End a worker process that asks for workers while it imports the script of its parent, which tells (UNSTARTED)."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        sys.exit(1)


def check_script() -> None:
    """Refuse workers where the script comes from stdin: each would look for a file of that name, and die.

    Raises:
        SpecError: there.
    """
    if getattr(sys.modules["__main__"], "__file__", None) == "<stdin>":
        raise SpecError(
            "workers: each worker imports the script, which cannot be had from stdin; put it in a file, "
            "or ask for workers=1"
        )


def end_with_parent() -> None:
    """Let this worker process end when the process that started it is gone, however that ended."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch(sentinel: int) -> None:
        wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, args=(parent.sentinel,), daemon=True).start()
