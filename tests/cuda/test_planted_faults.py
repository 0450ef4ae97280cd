"""Mistakes planted in kernels are result, each with its kernel, source line, thread and block.

Every source has a line marked HERE (both, where two places clash); that is where the simulator has to point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.cuda.device import Device
from workbench.cuda.simulated.ptx import faults

HEAD = 'extern "C" __global__ void '


@dataclass(frozen=True)
class Plant:
    """A mistake: its name, the kernel, the fault it is, a part of the message, how it is launched."""

    name: str
    source: str
    fault: type[Exception]
    says: str
    grid: tuple[int, ...] = (1,)
    block: tuple[int, ...] = (64,)
    shared_bytes: int = 0


OUT, UNREAD, RACE, BARRIER = faults.AddressOutOfBounds, faults.UninitialisedRead, faults.Race, faults.BarrierFault
PLANTS = [
    Plant(
        "a store behind the end",
        """k(float* x, float* y) {
             x[threadIdx.x + 65] = 1;  // HERE
           }""",
        OUT,
        "lies 0 bytes behind an allocation of 512 bytes",
    ),
    Plant(
        "a load before the start",
        """k(float* x, float* y) {
             y[threadIdx.x] = x[(int)threadIdx.x - 1];  // HERE
           }""",
        OUT,
        "",
    ),
    Plant(
        "a guard with <= in place of <",
        """k(float* x, float* y) {
             int i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i <= 128)
               y[i] = 2;  // HERE
           }""",
        OUT,
        "lies 0 bytes behind",
        (3,),
    ),
    Plant(
        "an index that overflows 32 bits",
        """k(float* x, float* y) {
             int i = (threadIdx.x + 1) * 2000000000;
             y[i] = 1;  // HERE
           }""",
        OUT,
        "",
    ),
    Plant(
        "a pointer of null",
        """k(float* x, float* y) {
             float* p = 0;
             asm volatile("" : "+l"(p));
             p[threadIdx.x] = 1;  // HERE
           }""",
        OUT,
        "no address of this device",
    ),
    Plant(
        "shared memory behind its end",
        """k(float* x, float* y) {
             extern __shared__ float s[];
             s[threadIdx.x] = x[threadIdx.x];  // HERE
             __syncthreads();
             y[threadIdx.x] = s[63 - threadIdx.x];
           }""",
        OUT,
        "Byte 252 of shared memory, of which the block has 252 bytes",
        shared_bytes=252,
    ),
    Plant(
        "a local array behind its end",
        """k(float* x, float* y) {
             int a[4] = {1, 2, 3, 4};
             y[threadIdx.x] = a[(int)x[threadIdx.x] + 4];  // HERE
           }""",
        OUT,
        "of local memory, of which a thread has 16 bytes",
    ),
    Plant(
        "an atomic behind the end",
        """k(float* x, float* y) {
             atomicAdd(&y[threadIdx.x + 100], 1.0f);  // HERE
           }""",
        OUT,
        "",
    ),
    Plant(
        "a result that is read before it was written",
        """k(float* x, float* y) {
             float* fresh = (float*)*(long long*)&x[126];
             y[threadIdx.x] = fresh[threadIdx.x];  // HERE
           }""",
        UNREAD,
        "that nobody wrote",
    ),
    Plant(
        "an accumulator without a start in shared memory",
        """k(float* x, float* y) {
             __shared__ float s[64];
             s[threadIdx.x] += x[threadIdx.x];  // HERE
             __syncthreads();
             y[threadIdx.x] = s[63 - threadIdx.x];
           }""",
        UNREAD,
        "shared memory",
    ),
    Plant(
        "an atomic sum without a start",
        """k(float* x, float* y) {
             __shared__ float s;
             atomicAdd(&s, x[threadIdx.x]);  // HERE
             __syncthreads();
             y[threadIdx.x] = s;
           }""",
        UNREAD,
        "",
    ),
    Plant(
        "a local array half filled",
        """k(float* x, float* y) {
             int a[8];
             for (int i = 0; i < (int)x[0] + 4; ++i) a[i ^ (int)x[1]] = i;
             y[threadIdx.x] = a[threadIdx.x & 7];  // HERE
           }""",
        UNREAD,
        "local memory",
    ),
    Plant(
        "memory that was given back",
        """k(float* x, float* y) {
             float* gone = (float*)*(long long*)&x[124];
             gone[threadIdx.x] = 1;  // HERE
           }""",
        faults.UseAfterFree,
        "that were freed",
    ),
    Plant(
        "memory that was given back, read",
        """k(float* x, float* y) {
             float* gone = (float*)*(long long*)&x[124];
             y[threadIdx.x] = gone[threadIdx.x];  // HERE
           }""",
        faults.UseAfterFree,
        "that were freed",
    ),
    Plant(
        "a vector load from an odd place",
        """k(float* x, float* y) {
             float4 v = *(float4*)(x + threadIdx.x);  // HERE
             y[threadIdx.x] = v.x + v.y + v.z + v.w;
           }""",
        faults.Misaligned,
        "no multiple of 16",
    ),
    Plant(
        "a vector store from an odd place",
        """k(float* x, float* y) {
             *(float2*)(y + threadIdx.x) = make_float2(1, 2);  // HERE
           }""",
        faults.Misaligned,
        "no multiple of 8",
    ),
    Plant(
        "bytes taken for a number",
        """k(char* x, float* y) {
             y[threadIdx.x] = *(int*)(x + threadIdx.x);  // HERE
           }""",
        faults.Misaligned,
        "no multiple of 4",
    ),
    Plant(
        "a missing barrier between store and load",
        """k(float* x, float* y) {
             __shared__ float s[64];
             s[threadIdx.x] = x[threadIdx.x];
             y[threadIdx.x] = s[63 - threadIdx.x];  // HERE
           }""",
        RACE,
        "shared memory",
    ),
    Plant(
        "a missing barrier at the end of a loop",
        """k(float* x, float* y) {
             __shared__ float s[64];
             float a = 0;
             for (int k = 0; k < 3; ++k) {
               s[threadIdx.x] = x[threadIdx.x] + k;  // HERE
               __syncthreads();
               a += s[63 - threadIdx.x];
             }
             y[threadIdx.x] = a;
           }""",
        RACE,
        "reads it, and nothing orders the two",
    ),
    Plant(
        "threads of one warp that rely on going in step",
        """k(float* x, float* y) {
             __shared__ float s[32];
             s[threadIdx.x] = x[threadIdx.x];
             y[threadIdx.x] = s[threadIdx.x ^ 1];  // HERE
           }""",
        RACE,
        "shared memory",
        block=(32,),
    ),
    Plant(
        "two threads that write one word",
        """k(float* x, float* y) {
             __shared__ int s[64];
             s[threadIdx.x / 2] = threadIdx.x;  // HERE
             __syncthreads();
             y[threadIdx.x] = s[threadIdx.x / 2];
           }""",
        RACE,
        "writes it",
    ),
    Plant(
        "blocks that write one place",
        """k(float* x, float* y) {
             y[threadIdx.x] = blockIdx.x;  // HERE
           }""",
        RACE,
        "writes it",
        (2,),
    ),
    Plant(
        "a sum that should be atomic",
        """k(float* x, float* y) {
             y[threadIdx.x / 16] += x[threadIdx.x];  // HERE
           }""",
        RACE,
        "",
    ),
    Plant(
        "a block that reads what another one wrote",
        """k(float* x, float* y) {
             int i = blockIdx.x * blockDim.x + threadIdx.x;
             x[i] = i;
             __syncthreads();
             y[i] = x[127 - i];  // HERE
           }""",
        RACE,
        "",
        (2,),
    ),
    Plant(
        "an update in place that reads its neighbour",
        """k(float* x, float* y) {
             if (threadIdx.x < 63)
               x[threadIdx.x] = x[threadIdx.x + 1];  // HERE
           }""",
        RACE,
        "reads it, and nothing",
    ),
    Plant(
        "an atomic and a plain store",
        """k(float* x, float* y) {
             if (threadIdx.x == 0)
               y[0] = 1;  // HERE
             else
               atomicAdd(&y[0], 1.0f);  // HERE
           }""",
        RACE,
        "",
    ),
    Plant(
        "a flag that is not published with a fence",
        """k(float* x, float* y) {
             if (threadIdx.x == 0) {
               if (blockIdx.x == 0) { x[0] = 3; atomicAdd(&y[0], 1.0f); }  // HERE
               else { atomicAdd(&y[0], 1.0f);
                 y[1] = x[0];  // HERE
               }
             }
           }""",
        RACE,
        "",
        (2,),
    ),
    Plant(
        "neighbouring bytes taken for one word",
        """k(unsigned char* x, float* y) {
             if (threadIdx.x < 16)
               x[threadIdx.x] = 1;
             else
               y[threadIdx.x] = *(int*)&x[(threadIdx.x & 3) * 4];  // HERE
           }""",
        RACE,
        "",
    ),
    Plant(
        "a barrier in a branch",
        """k(float* x, float* y) {
             __shared__ float s[64];
             s[threadIdx.x] = x[threadIdx.x];
             if (threadIdx.x < 40)
               __syncthreads();  // HERE
             else
               for (;;) { if (*(volatile float*)y > 5) break; asm volatile("bar.sync 1;"); }
             y[threadIdx.x] = s[threadIdx.x];
           }""",
        BARRIER,
        "of 64 threads have reached barrier",
    ),
    Plant(
        "two barriers for the two ways of a branch",
        """k(float* x, float* y) {
             if (threadIdx.x < 32) { y[threadIdx.x] = 1; __syncthreads(); y[threadIdx.x] += x[threadIdx.x]; }
             else {
               x[threadIdx.x] = 2;
               __syncthreads();  // HERE
               x[threadIdx.x] += 3;
             }
           }""",
        BARRIER,
        "wait at two places",
    ),
    Plant(
        "a shuffle in a branch",
        """k(float* x, float* y) {
             if (threadIdx.x < 20)
               y[threadIdx.x] = __shfl_down_sync(~0u, x[threadIdx.x], 1);  // HERE
           }""",
        faults.InactiveLane,
        "The mask names lane 20, which is not here",
    ),
    Plant(
        "a shuffle from a lane that is not in the mask",
        """k(float* x, float* y) {
             if (threadIdx.x < 16)
               y[threadIdx.x] = __shfl_xor_sync(0xffffu, x[threadIdx.x], 16);  // HERE
           }""",
        faults.InactiveLane,
        "It shuffles from lane 16",
    ),
    Plant(
        "a shuffle from a lane behind the end of the block",
        """k(float* x, float* y) {
             float v = x[threadIdx.x];
             y[threadIdx.x] = v + __shfl_xor_sync(~0u, v, 16);  // HERE
           }""",
        faults.InactiveLane,
        "It shuffles from lane",
        block=(24,),
    ),
    Plant(
        "a vote whose mask lacks the own lane",
        """k(float* x, float* y) {
             y[threadIdx.x] = __ballot_sync(0x7fffffffu, x[threadIdx.x] > 0);  // HERE
           }""",
        faults.InactiveLane,
        "own lane",
    ),
    Plant(
        "a read-only load of what the launch writes",
        """k(float* x, float* y) {
             x[threadIdx.x] = 1;
             __syncthreads();
             y[threadIdx.x] = __ldg(&x[threadIdx.x]);  // HERE
           }""",
        faults.WriteToConstant,
        "read as read-only",
    ),
    Plant(
        "a loop without an end",
        """k(float* x, float* y) {
             while (*(volatile float*)x < 1e9f) y[threadIdx.x] = 1;  // HERE
           }""",
        faults.StepLimit,
        "all the instructions",
    ),
    Plant(
        "a lock that waits for a block which comes later",
        """k(float* x, float* y) {
             if (blockIdx.x == 0) while (atomicAdd(&y[0], 0.0f) == 0.0f);  // HERE
           }""",
        faults.StepLimit,
        "",
    ),
    Plant(
        "an assertion",
        """k(float* x, float* y) {
             if (x[threadIdx.x] == 0 && threadIdx.x == 33)
               __trap();  // HERE
           }""",
        faults.KernelFault,
        "stops itself",
    ),
]


def launch_planted(plant: Plant, seed: int) -> Any:
    device = Device(HEAD + plant.source)
    fresh, gone = device.memory.allocate(512), device.memory.allocate(512)
    device.memory.free(gone)
    x, y = np.zeros(128, np.float32), np.zeros(128, np.float32)
    x[124:128] = np.array([gone, fresh], np.int64).view(np.float32)
    return device.run("k", plant.grid, plant.block, [x, y], plant.shared_bytes, seed=seed, step_limit=5000)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_planted_fault_is_found(plant: Plant) -> None:
    with pytest.raises(plant.fault) as caught:
        launch_planted(plant, 0)
    fault = caught.value
    assert type(fault) is plant.fault
    lines = (HEAD + plant.source).splitlines()
    assert fault.kernel == "k"
    assert "HERE" in lines[fault.line - 1], str(fault)
    assert plant.says in str(fault)
    assert f"line {fault.line}, thread ({fault.culprit.thread[0]}" in str(fault)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_planted_fault_is_found_whatever_the_order(plant: Plant) -> None:
    expected = (plant.fault, UNREAD) if plant.fault is RACE else plant.fault  # who comes too early reads nothing yet
    for seed in range(1, 6):
        with pytest.raises(expected):
            launch_planted(plant, seed)


def test_the_first_thread_that_does_wrong_is_named() -> None:
    with pytest.raises(faults.AddressOutOfBounds) as caught:
        Device(HEAD + "k(float* x) { x[blockIdx.y * 200 + threadIdx.y * 8 + threadIdx.x] = 1; }").run(
            "k", (1, 2), (8, 4), [np.zeros(217, np.float32)]
        )
    assert caught.value.culprit == faults.Culprit((1, 2, 0), (0, 1, 0))
