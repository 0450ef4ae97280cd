"""A launch that no GPU of its architecture takes is refused before anything runs."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.cuda.device import Device
from workbench.cuda.simulated.ptx import ARCHITECTURES
from workbench.cuda.simulated.ptx.faults import LaunchRefused

SOURCE = """
struct Big { char bytes[5000]; };
extern "C" __global__ void plain(float* x, int n, float a) { if (threadIdx.x < n) x[threadIdx.x] = a; }
extern "C" __global__ void dynamic(float* x) { extern __shared__ float s[]; if (!threadIdx.x) x[0] = s[0] = 1; }
extern "C" __global__ void __launch_bounds__(128) bounded(float* x) { x[threadIdx.x] = 1; }
"""
GOOD = [np.zeros(64, np.float32), np.int32(64), np.float32(2)]
SM_80, SM_75 = ARCHITECTURES["sm_80"], ARCHITECTURES["sm_75"]


@pytest.mark.parametrize(
    ("kernel", "grid", "block", "args", "shared", "architecture", "says"),
    [
        ("plain", (1,), (1025,), GOOD, 0, SM_80, "its block is"),
        ("plain", (1,), (32, 33), GOOD, 0, SM_80, "a block has 1056 threads"),
        ("plain", (1,), (1, 1, 65), GOOD, 0, SM_80, "its block is"),
        ("plain", (0,), (32,), GOOD, 0, SM_80, "its grid is"),
        ("plain", (1, 65536), (32,), GOOD, 0, SM_80, "its grid is"),
        ("plain", (1,), (32,), GOOD[:2], 0, SM_80, "it has 3 parameters, 2 arguments"),
        ("plain", (1,), (32,), [GOOD[0], np.int64(64), GOOD[2]], 0, SM_80, "argument 1 has 8 bytes"),
        ("plain", (1,), (32,), [GOOD[0], np.float32(64), GOOD[2]], 0, SM_80, "argument 1 is a float32"),
        ("plain", (1,), (32,), [GOOD[0], GOOD[1], 2], 0, SM_80, "argument 2 is the int 2"),
        ("plain", (1,), (32,), [GOOD[0], GOOD[1], 2.0], 0, SM_80, "argument 2 is a float"),
        ("plain", (1,), (32,), [GOOD[0], 1 << 40, GOOD[2]], 0, SM_80, "does not fit"),
        ("dynamic", (1,), (32,), GOOD[:1], 164 << 10, SM_80, "bytes of shared memory"),
        ("dynamic", (1,), (32,), GOOD[:1], 65 << 10, SM_75, "bytes of shared memory"),
        ("bounded", (1,), (256,), GOOD[:1], 0, SM_80, "__launch_bounds__ promises 128"),
    ],
)
def test_what_no_gpu_takes_is_refused(kernel, grid, block, args, shared, architecture, says) -> None:
    given = [np.array(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
    with pytest.raises(LaunchRefused, match=f"{kernel} cannot be launched: .*{re.escape(says)}"):
        Device(SOURCE).run(kernel, grid, block, given, shared, architecture=architecture)


def test_shared_memory_that_fits_is_there() -> None:
    x = np.zeros(1, np.float32)
    Device(SOURCE).run("dynamic", (1,), (32,), [x], 163 << 10)
    assert x[0] == 1


def test_arguments_arrive_in_their_own_width() -> None:
    x = np.zeros(64, np.float32)
    Device(SOURCE).run("plain", (1,), (64,), [x, 33, np.float32(2.5)])
    assert x.tolist() == [2.5] * 33 + [0] * 31
