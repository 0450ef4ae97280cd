"""Counters say what a person who knows the hardware would count by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.device import Device
from workbench.cuda.simulated.ptx import Counters

HEAD = 'extern "C" __global__ void '
SOURCE = f"""
{HEAD} copy(const float* x, float* y, int stride, int shift) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = x[i * stride + shift];
}}
{HEAD} wide(const float4* x, float4* y) {{ y[threadIdx.x] = x[threadIdx.x]; }}
{HEAD} same(const float* x, float* y) {{ y[threadIdx.x] = x[blockIdx.x]; }}
{HEAD} backwards(const float* x, float* y) {{ y[threadIdx.x] = x[blockDim.x - 1 - threadIdx.x]; }}
{HEAD} banks(float* y, int stride) {{
  extern __shared__ float s[]; s[threadIdx.x * stride] = 1; y[threadIdx.x] = 1;
}}
{HEAD} wide_banks(float* y) {{
  extern __shared__ float4 v[]; v[threadIdx.x] = make_float4(1, 2, 3, 4); y[threadIdx.x] = 1;
}}
{HEAD} parts(float* x, int most) {{
  if (threadIdx.x < most) x[threadIdx.x] = sinf(x[threadIdx.x]) * 2; else x[threadIdx.x] = expf(x[threadIdx.x] + 1);
}}
"""


@pytest.fixture(scope="module")
def device() -> Device:
    return Device(SOURCE)


def copied(device: Device, stride: int, shift: int) -> Counters:
    x, y = np.ones(8192, np.float32), np.zeros(256, np.float32)
    return device.run("copy", (2,), (128,), [x, y, np.int32(stride), np.int32(shift)])


@pytest.mark.parametrize(
    ("stride", "shift", "sectors"),
    [(1, 0, 32), (1, 1, 40), (2, 0, 64), (8, 0, 256), (32, 0, 256), (0, 3, 8)],
)
def test_sectors_of_a_strided_load(device: Device, stride: int, shift: int, sectors: int) -> None:
    counters = copied(device, stride, shift)
    assert counters.loads.sectors == sectors
    assert counters.loads.ideal == (8 if stride == 0 else 32)
    assert (counters.loads.requests, counters.stores.requests) == (8, 8)
    assert (counters.stores.sectors, counters.stores.ideal, counters.bytes_written) == (32, 32, 1024)


def test_wide_loads_are_one_request(device: Device) -> None:
    counters = device.run("wide", (1,), (64,), [np.ones(256, np.float32), np.zeros(256, np.float32)])
    assert (counters.loads.requests, counters.loads.sectors, counters.loads.efficiency) == (2, 32, 1.0)


def test_the_order_of_lanes_does_not_matter(device: Device) -> None:
    counters = device.run("backwards", (1,), (128,), [np.ones(128, np.float32), np.zeros(128, np.float32)])
    assert (counters.loads.sectors, counters.loads.ideal) == (16, 16)


@pytest.mark.parametrize(("stride", "turns"), [(1, 0), (2, 1), (4, 3), (32, 31), (33, 0), (3, 0)])
def test_bank_conflicts_of_a_stride(device: Device, stride: int, turns: int) -> None:
    counters = device.run("banks", (1,), (64,), [np.zeros(64, np.float32), np.int32(stride)], 4 * 64 * stride)
    assert counters.bank_conflicts == 2 * turns


def test_wide_words_take_their_turns_without_conflict(device: Device) -> None:
    counters = device.run("wide_banks", (1,), (64,), [np.zeros(64, np.float32)], 16 * 64)
    assert counters.bank_conflicts == 0


@pytest.mark.parametrize(("most", "divergent"), [(64, 0), (0, 0), (32, 0), (5, 1), (40, 1)])
def test_branches_at_which_a_warp_parts(device: Device, most: int, divergent: int) -> None:
    counters = device.run("parts", (1,), (64,), [np.ones(64, np.float32), np.int32(most)])
    assert counters.divergent_branches == divergent


def test_threads_and_warps_are_counted_apart(device: Device) -> None:
    counters = device.run(
        "copy", (1,), (33,), [np.ones(33, np.float32), np.zeros(33, np.float32), np.int32(1), np.int32(0)]
    )
    assert counters.instructions * 2 == counters.warp_instructions * 33
    assert counters.mix["ld"] == 33 * 5 and counters.mix["st"] == 33
