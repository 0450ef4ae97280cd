"""Shuffles, votes, matches, reductions and barriers give what the CUDA guide says, lane by lane."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.cuda.device import Device

HEAD = 'extern "C" __global__ void '
SOURCE = f"""
{HEAD} shuffles(const int* x, int* up, int* down, int* across, int* any, int width) {{
  int t = threadIdx.x, v = x[t];
  up[t] = __shfl_up_sync(~0u, v, 3, width);
  down[t] = __shfl_down_sync(~0u, v, 5, width);
  across[t] = __shfl_xor_sync(~0u, v, 6, width);
  any[t] = __shfl_sync(~0u, v, x[t], width);
}}
{HEAD} long_shuffle(const double* x, double* y) {{ y[threadIdx.x] = __shfl_xor_sync(~0u, x[threadIdx.x], 1); }}
{HEAD} votes(const int* x, unsigned* ballot, int* any, int* all, unsigned* active) {{
  int t = threadIdx.x;
  ballot[t] = __ballot_sync(~0u, x[t] > 3); any[t] = __any_sync(~0u, x[t] > 6); all[t] = __all_sync(~0u, x[t] >= 0);
  if (x[t] & 1) active[t] = __activemask(); else active[t] = 0;
}}
{HEAD} halves(const int* x, unsigned* y) {{
  int t = threadIdx.x; unsigned mask = t % 32 < 16 ? 0xffffu : 0xffff0000u;
  y[t] = __ballot_sync(mask, x[t] > 3) + __shfl_sync(mask, x[t], 2, 16);
}}
{HEAD} matches(const int* x, unsigned* any, unsigned* all, int* same) {{
  int t = threadIdx.x, p;
  any[t] = __match_any_sync(~0u, x[t]); all[t] = __match_all_sync(~0u, x[t] / 8, &p); same[t] = p;
}}
{HEAD} reductions(const int* x, int* sum, int* least, unsigned* bits) {{
  int t = threadIdx.x;
  sum[t] = __reduce_add_sync(~0u, x[t]); least[t] = __reduce_min_sync(~0u, x[t] - 4);
  bits[t] = __reduce_or_sync(~0u, 1u << x[t]);
}}
{HEAD} block_votes(const int* x, int* count, int* any, int* all) {{
  int t = threadIdx.x; count[t] = __syncthreads_count(x[t] > 3);
  any[t] = __syncthreads_or(x[t] > 7); all[t] = __syncthreads_and(x[t] >= 0);
}}
{HEAD} handed_over(const int* x, int* y) {{  // one warp fills what the other one takes
  __shared__ int s[32]; int t = threadIdx.x;
  for (int round = 0; round < 3; ++round) {{
    if (t < 32) {{
      if (round) asm volatile("bar.sync 2, 64;" ::: "memory");
      s[t] = x[t] + round; asm volatile("bar.arrive 1, 64;" ::: "memory");
    }} else {{
      asm volatile("bar.sync 1, 64;" ::: "memory");
      y[t + 32 * round - 32] = s[31 - (t - 32)];
      if (round < 2) asm volatile("bar.arrive 2, 64;" ::: "memory");
    }}
  }}
}}
{HEAD} in_step(const int* x, int* y) {{
  __shared__ int s[64]; int t = threadIdx.x;
  s[t] = x[t]; __syncwarp(); int v = s[t ^ 1]; __syncwarp(); s[t] = v; __syncwarp(); y[t] = s[t ^ 2];
}}
"""
SEEDS = range(20)


@pytest.fixture(scope="module")
def device() -> Device:
    return Device(SOURCE)


def numbers(seed: int, size: int = 64) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 8, size).astype(np.int32)


def lane_by_lane(x: np.ndarray, width: int, source: Callable[[int, int, int], int]) -> list[int]:
    """Read from `source(lane, first of the segment, last of it)` where that lies in the segment, else the own value."""
    values = []
    for thread in range(x.size):
        lane = thread % 32
        first = lane // width * width
        chosen = source(lane, first, int(x[thread]))
        inside = first <= chosen < first + width
        values.append(int(x[thread - lane + (chosen if inside else lane)]))
    return values


@pytest.mark.parametrize("width", [32, 16, 8])
def test_shuffles(device: Device, width: int) -> None:
    x = numbers(width)
    up, down, across, some = (np.zeros(64, np.int32) for _ in range(4))
    device.run("shuffles", (1,), (64,), [x, up, down, across, some, np.int32(width)], seed=1)
    assert up.tolist() == lane_by_lane(x, width, lambda lane, first, value: lane - 3)
    assert down.tolist() == lane_by_lane(x, width, lambda lane, first, value: lane + 5)
    assert across.tolist() == lane_by_lane(x, width, lambda lane, first, value: lane ^ 6)
    assert some.tolist() == lane_by_lane(x, width, lambda lane, first, value: first + value % width)


def test_a_double_is_shuffled_in_two_halves(device: Device) -> None:
    x = np.random.default_rng(0).standard_normal(32)
    y = np.zeros(32)
    device.run("long_shuffle", (1,), (32,), [x, y])
    assert y.tolist() == x.reshape(16, 2)[:, ::-1].ravel().tolist()


def masks(said: np.ndarray) -> list[int]:
    """Return for each thread the lanes of its warp that say yes."""
    return [sum(1 << lane for lane in range(32) if said[t // 32 * 32 + lane]) for t in range(said.size)]


@pytest.mark.parametrize("seed", SEEDS)
def test_votes(device: Device, seed: int) -> None:
    x = numbers(seed)
    ballot, some, every, active = np.zeros(64, np.uint32), *np.zeros((2, 64), np.int32), np.zeros(64, np.uint32)
    some, every = some.copy(), every.copy()
    device.run("votes", (1,), (64,), [x, ballot, some, every, active], seed=seed)
    assert ballot.tolist() == masks(x > 3)
    assert some.tolist() == [int(mask != 0) for mask in masks(x > 6)]
    assert every.tolist() == [1] * 64
    assert active.tolist() == [mask if odd else 0 for mask, odd in zip(masks(x % 2 == 1), x % 2 == 1)]


def test_masks_of_half_a_warp(device: Device) -> None:
    x, y = numbers(3), np.zeros(64, np.uint32)
    device.run("halves", (1,), (64,), [x, y], seed=2)
    halves = [0xFFFF if t % 32 < 16 else 0xFFFF0000 for t in range(64)]
    assert y.tolist() == [
        (mask & half) + int(x[t // 16 * 16 + 2]) for t, (mask, half) in enumerate(zip(masks(x > 3), halves))
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_matches_and_reductions(device: Device, seed: int) -> None:
    x = numbers(seed)
    some, every, same = np.zeros(64, np.uint32), np.zeros(64, np.uint32), np.zeros(64, np.int32)
    device.run("matches", (1,), (64,), [x, some, every, same], seed=seed)
    assert some.tolist() == [masks(x == x[t])[t] for t in range(64)]
    assert every.tolist() == [0xFFFFFFFF] * 64 and same.tolist() == [1] * 64
    total, least, bits = np.zeros(64, np.int32), np.zeros(64, np.int32), np.zeros(64, np.uint32)
    device.run("reductions", (1,), (64,), [x, total, least, bits], seed=seed)
    warps = x.reshape(2, 32)
    assert total.tolist() == np.repeat(warps.sum(1), 32).tolist()
    assert least.tolist() == np.repeat(warps.min(1) - 4, 32).tolist()
    assert bits.tolist() == np.repeat(np.bitwise_or.reduce(1 << warps, axis=1), 32).tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_votes_of_a_block(device: Device, seed: int) -> None:
    x = numbers(seed)
    count, some, every = (np.zeros(64, np.int32) for _ in range(3))
    device.run("block_votes", (1,), (64,), [x, count, some, every], seed=seed)
    assert set(count.tolist()) == {int((x > 3).sum())} and set(some.tolist()) == {0} and set(every.tolist()) == {1}


@pytest.mark.parametrize("seed", SEEDS)
def test_named_barriers_hand_over_from_warp_to_warp(device: Device, seed: int) -> None:
    x, y = numbers(seed, 32), np.zeros(96, np.int32)
    device.run("handed_over", (1,), (64,), [x, y], seed=seed)
    assert y.tolist() == [int(v) + round for round in range(3) for v in x[::-1]]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_synchronised_warp_orders_its_lanes(device: Device, seed: int) -> None:
    x, y = numbers(seed), np.zeros(64, np.int32)
    device.run("in_step", (1,), (64,), [x, y], seed=seed)
    assert y.tolist() == [int(x[t ^ 3]) for t in range(64)]
