"""Devices: which are taken, and how GPUs are shared out, as far as that is known without one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
import torch

import capax
from capax import devices
from capax.errors import CapaxError, DeviceError
from capax.sweeps.executors import Processes, least_used
from capax.testing.executors import small

NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@pytest.mark.parametrize(
    ("device", "count", "visible", "found"),
    [
        ("cuda", 1, None, ("0",)),
        ("cuda", 4, None, ("0", "1", "2", "3")),
        ("cuda", 4, "", ("0", "1", "2", "3")),
        ("cuda:2", 4, None, ("2",)),
        ("cuda", 2, "5,7", ("5", "7")),
        ("cuda:1", 2, "5, 7", ("7",)),
        ("cuda:0", 1, "GPU-3af1,9", ("GPU-3af1",)),
    ],
)
def test_gpus_have_the_names_that_this_process_knows_them_by(
    device: str, count: int, visible: str | None, found: tuple[str, ...]
) -> None:
    assert devices.gpus(device, count, visible) == found


@pytest.mark.parametrize("device", ["cuda:2", "cuda:-1", "cuda:x", "cuda:", "cuda:1.0", "cuda:²", "cuda:99999999999"])
def test_a_gpu_that_is_not_there_is_refused(device: str) -> None:
    with pytest.raises(DeviceError, match=r"^device: 'cuda:N' with N from 0 to 1, got 'cuda:"):
        devices.gpus(device, 2, None)


def test_processes_are_shared_out_evenly_and_one_that_died_leaves_its_gpu_to_the_next() -> None:
    taken: list[str] = []
    for _ in range(6):
        gpu = least_used(("0", "1", "2"), taken)
        assert gpu is not None
        taken.append(gpu)
    assert sorted(taken) == ["0", "0", "1", "1", "2", "2"]
    assert least_used(("0", "1", "2"), ["0", "2"]) == "1"
    assert least_used((), []) is None


@pytest.mark.very_slow
def test_each_process_sees_its_gpu_alone(tmp_path: Path) -> None:
    """By the environment of real processes, which CUDA reads; there is no GPU here that they could train on."""
    with Processes(2, ("3", "5")) as executor:
        first, second = (executor._pool() for _ in range(2))
        seen = [pool.submit(os.getenv, devices.VISIBLE).result() for pool in (first, second)]
        executor._discard(first)
        third = executor._pool()
        seen.append(third.submit(os.getenv, devices.VISIBLE).result())
        for pool in (second, third):
            pool.shutdown()
    assert seen == ["3", "5", "3"]


@NO_GPU
@pytest.mark.parametrize("device", ["cuda", "cuda:1", "mps"])
def test_a_device_that_is_not_there_is_refused_in_one_line(tmp_path: Path, device: str) -> None:
    with pytest.raises(DeviceError, match=rf"^device: .*'cpu' here .* finds no .*GPU\), got '{device}'"):
        capax.sweep([small()], tmp_path / "s.db", workers=1, device=device)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("device", ["gpu", "cpu:1", "mps:0", "", "cudaa", "CUDA"])
def test_a_name_of_no_device_is_refused(tmp_path: Path, device: str) -> None:
    with pytest.raises(DeviceError, match=r"^device: 'auto', 'cpu', 'cuda' or 'mps', got"):
        capax.sweep([small()], tmp_path / "s.db", workers=1, device=device)


def test_what_apples_gpus_cannot_is_said() -> None:
    devices.refuse("mps", "float32", "adam")
    devices.refuse("cpu", "float64", "soap")
    for precision in ("float64", "bfloat16"):
        with pytest.raises(CapaxError, match=rf"^precision: .*mps.*got '{precision}'"):
            devices.refuse("mps", precision, "adam")
    with pytest.raises(CapaxError, match=r"^optimizer: SOAP .*mps"):
        devices.refuse("mps", "float32", "soap")


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_tf32_is_refused_but_on_a_gpu_of_cuda(device: devices.Device) -> None:
    devices.refuse("cuda", "tf32", "soap")
    with pytest.raises(CapaxError, match=rf"^precision: .*'tf32' on '{device}'|^precision: Apple.*got 'tf32'"):
        devices.refuse(device, "tf32", "adam")


def test_products_are_in_tf32_for_a_step_alone() -> None:
    """Whatever they were in before, also when the step fails."""
    products = torch.backends.cuda.matmul
    for before in ("none", "ieee"):
        products.fp32_precision = before
        for precision, inside in (("float32", before), ("float64", before), ("tf32", "tf32")):
            with suppress(ZeroDivisionError), devices.multiplying(precision):
                assert products.fp32_precision == inside
                raise ZeroDivisionError
            assert products.fp32_precision == before
    products.fp32_precision = "none"


def test_wide_numbers_are_where_they_can_be() -> None:
    assert devices.wide_on(torch.device("mps")) == devices.wide_on(torch.device("cpu")) == torch.device("cpu")
    assert devices.wide_on(torch.device("cuda", 1)) == torch.device("cuda", 1)
    assert devices.wide(torch.ones(2)).dtype == torch.float64
