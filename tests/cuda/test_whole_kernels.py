"""Kernels as people write them give NumPy's numbers on the simulator, at odd sizes and for many seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.cuda.device import Device

SOURCE = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void softmax_rows(const float* x, float* y, int n) {
  extern __shared__ float red[];
  const float* r = x + (size_t)blockIdx.x * n; float* o = y + (size_t)blockIdx.x * n;
  float m = -INFINITY;
  for (int i = threadIdx.x; i < n; i += blockDim.x) m = fmaxf(m, r[i]);
  for (int k = 16; k; k >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, k));
  if ((threadIdx.x & 31) == 0) red[threadIdx.x >> 5] = m;
  __syncthreads();
  m = red[0]; for (int k = 1; k < (blockDim.x + 31) / 32; ++k) m = fmaxf(m, red[k]);
  __syncthreads();
  float s = 0; for (int i = threadIdx.x; i < n; i += blockDim.x) { float e = expf(r[i] - m); o[i] = e; s += e; }
  for (int k = 16; k; k >>= 1) s += __shfl_xor_sync(~0u, s, k);
  if ((threadIdx.x & 31) == 0) red[threadIdx.x >> 5] = s;
  __syncthreads();
  s = 0; for (int k = 0; k < (blockDim.x + 31) / 32; ++k) s += red[k];
  for (int i = threadIdx.x; i < n; i += blockDim.x) o[i] = o[i] / s;
}
extern "C" __global__ void adam(float* p, const float* g, float* m, float* v, float lr, float b1, float b2, float eps,
                                long long n) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x) {
    float gi = g[i]; m[i] = b1 * m[i] + (1 - b1) * gi; v[i] = b2 * v[i] + (1 - b2) * gi * gi;
    p[i] -= lr * m[i] / (sqrtf(v[i]) + eps); }
}
extern "C" __global__ void matmul_tile(const float* a, const float* b, float* c, int M, int N, int K) {
  __shared__ float as[16][17], bs[16][17];
  int r = blockIdx.y * 16 + threadIdx.y, q = blockIdx.x * 16 + threadIdx.x; float s = 0;
  for (int k = 0; k < K; k += 16) {
    as[threadIdx.y][threadIdx.x] = r < M && k + threadIdx.x < K ? a[r * K + k + threadIdx.x] : 0;
    bs[threadIdx.y][threadIdx.x] = q < N && k + threadIdx.y < K ? b[(k + threadIdx.y) * N + q] : 0;
    __syncthreads();
    for (int j = 0; j < 16; ++j) s += as[threadIdx.y][j] * bs[j][threadIdx.x];
    __syncthreads();
  }
  if (r < M && q < N) c[r * N + q] = s;
}
extern "C" __global__ void count(const int* ids, const float* g, unsigned* n, float* t, long long size) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) { atomicAdd(&n[ids[i]], 1u); atomicAdd(&t[ids[i]], g[i]); }
}
extern "C" __global__ void gelu_half(const __half* x, __half* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { float v = __half2float(x[i]); y[i] = __float2half(0.5f * v * (1 + erff(v * 0.70710678f))); }
}
extern "C" __global__ void doubles(const double* x, double* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = exp(x[i]) + log(fabs(x[i])) + sin(x[i]) + tanh(x[i]) + pow(fabs(x[i]), 0.3) + cbrt(x[i]) + x[i] / 3;
}
extern "C" __global__ void last_block_sums(const float* x, float* parts, float* y, unsigned* done, int n) {
  __shared__ float s[128]; __shared__ bool last; int t = threadIdx.x;
  float v = 0; for (int i = blockIdx.x * 128 + t; i < n; i += gridDim.x * 128) v += x[i];
  s[t] = v; __syncthreads();
  for (int k = 64; k; k >>= 1) { if (t < k) s[t] += s[t + k]; __syncthreads(); }
  if (t == 0) { parts[blockIdx.x] = s[0]; __threadfence(); last = atomicAdd(done, 1u) == gridDim.x - 1; }
  __syncthreads();
  if (last && t == 0) {
    float a = 0; __threadfence(); for (int b = 0; b < gridDim.x; ++b) a += ((volatile float*)parts)[b]; *y = a;
  }
}
"""
SEEDS = range(20)


@pytest.fixture(scope="module")
def device() -> Device:
    return Device(SOURCE)


@pytest.mark.parametrize("seed", SEEDS)
def test_softmax(device: Device, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((int(rng.integers(1, 9)), int(rng.integers(1, 300)))).astype(np.float32)
    y = np.zeros_like(x)
    device.run("softmax_rows", (len(x),), (128,), [x, y, np.int32(x.shape[1])], 16, seed=seed)
    exact = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, exact / exact.sum(1, keepdims=True), rtol=2e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_adam(device: Device, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 3000))
    p, g, m, v = rng.standard_normal((4, n)).astype(np.float32)
    v = np.abs(v)
    p, m, v = (np.ascontiguousarray(a) for a in (p, m, v))
    lr, b1, b2, eps = (np.float32(a) for a in (0.01, 0.9, 0.999, 1e-8))
    wide = [a.astype(np.float64) for a in (p, g, m, v)]
    device.run("adam", (4,), (128,), [p, g, m, v, lr, b1, b2, eps, n], seed=seed)
    m2 = float(b1) * wide[2] + float(np.float32(1) - b1) * wide[1]
    v2 = float(b2) * wide[3] + float(np.float32(1) - b2) * wide[1] ** 2
    np.testing.assert_allclose(m, m2, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(p, wide[0] - lr * m2 / (np.sqrt(v2) + eps), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_matrix_product(device: Device, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns, inner = (int(size) for size in rng.integers(1, 50, 3))
    a, b = rng.standard_normal((rows, inner)).astype("f"), rng.standard_normal((inner, columns)).astype("f")
    c = np.zeros((rows, columns), np.float32)
    grid = (-(-columns // 16), -(-rows // 16))
    sizes = [np.int32(size) for size in (rows, columns, inner)]
    device.run("matmul_tile", grid, (16, 16), [a, b, c, *sizes], seed=seed)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_atomics_lose_nothing(device: Device, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 777
    ids, g = rng.integers(0, 7, n).astype(np.int32), rng.standard_normal(n).astype(np.float32)
    counts, totals = np.zeros(7, np.uint32), np.zeros(7, np.float32)
    counters = device.run("count", (7,), (128,), [ids, g, counts, totals, n], seed=seed)
    assert counts.tolist() == np.bincount(ids, minlength=7).tolist()
    np.testing.assert_allclose(totals, np.bincount(ids, g, 7), rtol=1e-4, atol=1e-4)
    assert counters.atomics == 2 * n


def test_float_sums_by_atomics_depend_on_the_seed(device: Device) -> None:
    ids, g = np.zeros(777, np.int32), np.random.default_rng(0).standard_normal(777).astype(np.float32)
    result = set()
    for seed in range(8):
        counts, totals = np.zeros(1, np.uint32), np.zeros(1, np.float32)
        device.run("count", (7,), (128,), [ids, g, counts, totals, 777], seed=seed)
        result.add(float(totals[0]))
    assert len(result) > 1


def test_gelu_in_half(device: Device) -> None:
    x = np.random.default_rng(0).standard_normal(333).astype(np.float16)
    y = np.zeros_like(x)
    device.run("gelu_half", (2,), (256,), [x, y, np.int32(333)])
    want = [0.5 * float(v) * (1 + math.erf(float(v) / math.sqrt(2))) for v in x]
    np.testing.assert_allclose(y, want, rtol=1e-3, atol=1e-6)


def test_functions_of_doubles(device: Device) -> None:
    x = np.random.default_rng(0).standard_normal(333) * 30
    x[:4] = 1e6, -1e9, 1e-12, 700.0
    y = np.zeros_like(x)
    device.run("doubles", (3,), (128,), [x, y, np.int32(333)])
    with np.errstate(over="ignore"):
        want = np.exp(x) + np.log(np.abs(x)) + np.sin(x) + np.tanh(x) + np.abs(x) ** 0.3 + np.cbrt(x) + x / 3
    np.testing.assert_allclose(y, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_last_block_may_read_what_others_wrote_behind_a_fence(device: Device, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal(3001).astype(np.float32)
    parts, y, done = np.zeros(6, np.float32), np.zeros(1, np.float32), np.zeros(1, np.uint32)
    device.run("last_block_sums", (6,), (128,), [x, parts, y, done, np.int32(x.size)], seed=seed)
    np.testing.assert_allclose(y[0], x.astype(np.float64).sum(), rtol=1e-4, atol=1e-4)
