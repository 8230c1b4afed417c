"""Weights rounded to few bits, against torch's own rounding and a file that is really packed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from capax.probes.rounding import grid, read_back, rounded
from capax.probes.written import STEP_BITS, Rounding

ZERO = torch.zeros(1, dtype=torch.int32)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def ends(bits: int) -> tuple[int, int]:
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_one_step_a_tensor_is_what_torch_calls_fake_quantization(bits: int) -> None:
    weights = drawn(3, 16, 5, seed=bits)
    _, step = grid(weights.flatten(), bits, None)
    theirs = torch.fake_quantize_per_tensor_affine(weights, step.flatten(), ZERO, *ends(bits))
    assert torch.equal(rounded(weights, bits, None, inputs=-2), theirs)


@pytest.mark.parametrize(("inputs", "outputs"), [(0, 1), (1, 0)])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_groups_as_long_as_the_inputs_are_torchs_channels(bits: int, inputs: int, outputs: int) -> None:
    weights = drawn(24, 40, seed=bits)
    steps = grid(weights.movedim(inputs, -1).flatten(), bits, weights.shape[inputs])[1].flatten()
    zeros = torch.zeros_like(steps, dtype=torch.int32)
    theirs = torch.fake_quantize_per_channel_affine(weights, steps, zeros, outputs, *ends(bits))
    assert torch.equal(rounded(weights, bits, weights.shape[inputs], inputs), theirs)


@given(
    values=st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=70),
    bits=st.integers(2, 16),
    group=st.none() | st.integers(1, 40),
)
@settings(deadline=None, max_examples=60, database=None)
def test_no_weight_is_off_by_more_than_half_a_step(values: list[float], bits: int, group: int | None) -> None:
    weights = torch.tensor(values, dtype=torch.float64)
    codes, steps = grid(weights, bits, group)
    low, high = ends(bits)
    assert low <= codes.min() <= codes.max() <= high
    errors = (codes * steps).flatten()[: len(weights)] - weights
    half = (steps / 2).expand(codes.shape).flatten()[: len(weights)]
    assert bool((errors.abs() <= half * (1 + 1e-12)).all())
    assert torch.equal(steps, steps.bfloat16().double())


def packed(weights: Tensor, bits: int, group: int | None) -> bytes:
    """A file: codes one after another, then steps as bfloat16."""
    codes, steps = grid(weights.movedim(-2, -1).flatten(), bits, group)
    each = codes.flatten()[: weights.numel()].long().numpy() + 2 ** (bits - 1)
    digits = (each[:, None] >> np.arange(bits)) & 1
    tail = steps.bfloat16().view(torch.int16).numpy().tobytes()
    return np.packbits(digits.astype(np.uint8).ravel()).tobytes() + tail


def unpacked(file: bytes, shape: torch.Size, bits: int, group: int | None) -> Tensor:
    count = shape.numel()
    size = count if group is None else group
    n_steps = -(-count // size)
    codes = np.unpackbits(np.frombuffer(file[: -2 * n_steps], np.uint8))[: count * bits].reshape(count, bits)
    each = (codes.astype(np.int64) << np.arange(bits)).sum(1) - 2 ** (bits - 1)
    steps = torch.from_numpy(np.frombuffer(file[-2 * n_steps :], np.int16).copy()).view(torch.bfloat16).float()
    flat = torch.from_numpy(each).float() * steps.repeat_interleave(size)[:count]
    return flat.view(*shape[:-2], shape[-1], shape[-2]).movedim(-1, -2)


@pytest.mark.parametrize("group", [None, 32, 7])
@pytest.mark.parametrize("bits", [2, 3, 5, 8, 16])
def test_the_bytes_are_those_of_a_file_that_is_packed_and_read_back(bits: int, group: int | None) -> None:
    weights, how = drawn(2, 12, 5, seed=bits), Rounding.integers(bits, group)
    file = packed(weights, bits, group)
    assert how.n_bytes("up", weights.shape) == len(file)
    assert torch.equal(unpacked(file, weights.shape, bits, group), read_back("up", weights, how, -2))


def test_vectors_stay_as_they_are_but_in_bfloat16() -> None:
    vector = drawn(9)
    assert read_back("gain", vector, Rounding.integers(2, None), -1) is vector
    assert Rounding.integers(2, 4).n_bytes("gain", vector.shape) == 9 * 4
    half = Rounding.floats("bfloat16")
    assert torch.equal(read_back("gain", vector, half, -1), vector.bfloat16().float())
    assert (half.n_bytes("gain", [9]), Rounding.floats("float32").n_bytes("gain", [9])) == (18, 36)
    experts = drawn(2, 9)
    assert read_back("layers.0.up_bias", experts, Rounding.integers(2, 4), -2) is experts
    assert STEP_BITS == 16


def test_a_group_of_zeros_stays_zero() -> None:
    weights = torch.cat([torch.zeros(4, 4), drawn(4, 4)])
    assert not rounded(weights, 4, 16)[:4].any()
