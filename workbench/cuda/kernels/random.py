"""Kernels that draw random numbers: Philox4x64-10, with the bits of `framework.values.random`; dropout among them.

A thread makes a block of four words. The block of threads then exchanges them through shared memory, so that
neighbouring threads write neighbouring elements. A stream is five words in memory (seed, op, step, place, trip), so a
captured graph draws anew when they change.

Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from workbench.cuda.kernels.launch import CudaKernel, Launch, blocks_for, named
from workbench.cuda.kernels.numbers import PREAMBLE, NoKernel, stored
from workbench.framework.values.dtype import as_dtype

THREADS = 128
BITS = {"float32": 24, "float16": 11, "bfloat16": 8}
"""Of a random number of a dtype; no more than it holds, so that none is rounded up to 1."""

_PHILOX = r"""
typedef unsigned long long word;

struct Words { word of[4]; };

// Block number `block` of a stream; NumPy's generator counts up before it draws.
__device__ __forceinline__ Words philox(const word* stream, word block) {
  word a = block + 1, b = stream[2], c = stream[3], d = stream[4], first = stream[0], second = stream[1];
  #pragma unroll
  for (int round = 0; round < 10; ++round) {
    const word high = __umul64hi(0xD2E7470EE14C6C93ull, a), low = 0xD2E7470EE14C6C93ull * a;
    const word other_high = __umul64hi(0xCA5A826395121157ull, c), other_low = 0xCA5A826395121157ull * c;
    a = other_high ^ b ^ first;
    b = other_low;
    c = high ^ d ^ second;
    d = low;
    first += 0x9E3779B97F4A7C15ull;
    second += 0xBB67AE8584CAA73Bull;
  }
  Words words = {{a, b, c, d}};
  return words;
}

// A float of the upper bits of half a word, and a double of those of a whole one: both in [0, 1).
__device__ __forceinline__ float unit(unsigned int half, int bits) {
  return (float)(half >> (32 - bits)) * __int_as_float((127 - bits) << 23);
}
__device__ __forceinline__ double unit(word whole) { return (double)(whole >> 11) * 0x1p-53; }
"""


class _PiecesOfWords(NamedTuple):
    """What elements are made of: halves of words, or whole ones."""

    type: str
    per_block: int
    taken: str
    row: int


_HALVES = _PiecesOfWords("unsigned int", 8, "(unsigned int)(words.of[n / 2] >> (32 * (n % 2)))", THREADS + 4)
_WHOLE = _PiecesOfWords("word", 4, "words.of[n]", THREADS + 4)
"""A row of shared memory has four more pieces than threads: then neither writing nor reading meets a bank twice."""


@dataclass(frozen=True)
class DrawKernel:
    """A kernel that draws.

    Attributes:
        kernel: its operands begin with `stream`: five words of 64 bits.
        per_thread: elements that a thread makes at a time.
    """

    kernel: CudaKernel
    per_thread: int

    def launch(self, count: int, *numbers: np.generic) -> Launch:
        """For a count of elements.

        Args:
            numbers: what the kernel is told besides, see the function that made it.
        """
        blocks = blocks_for(count, THREADS * self.per_thread)
        return Launch((blocks, 1, 1), (THREADS, 1, 1), (np.int64(count), *numbers))


def uniform_kernel(dtype: Any) -> DrawKernel:
    """`y = min(u * scale + shift, most)` of uniform numbers u in [0, 1).

    Launched with scale, shift and most, each a float64; 1, 0 and 1 leave numbers as they are.
    """
    name = as_dtype(dtype).name
    numbers = ["double scale", "double shift", "double most"]
    if name == "float64":
        line = "y[i] = np_minimum(__dadd_rn(__dmul_rn(unit(piece), scale), shift), most);"
        return _exchanged("uniform", _WHOLE, [("y", name)], numbers, line)
    if name not in BITS:
        raise NoKernel(f"uniform numbers are floating, not {name}")
    value = f"__fadd_rn(__fmul_rn(unit(piece, {BITS[name]}), (float)scale), (float)shift)"
    return _exchanged("uniform", _HALVES, [("y", name)], numbers, f"put(y + i, np_minimum({value}, (float)most));")


def truths_kernel() -> DrawKernel:
    """`y = 1` where 24 random bits are at least `least`, an uint32; else 0, as uint8."""
    line = f"y[i] = piece >> {32 - BITS['float32']} >= least;"
    return _exchanged("truths", _HALVES, [("y", "uint8")], ["unsigned int least"], line)


def dropout_kernel(dtype: Any, has_mask: bool = True) -> DrawKernel:
    """`y = x * factor` where 24 random bits are at least `least`, else 0; and the mask of those kept, as uint8.

    Launched with least, an uint32, and factor, a float64.
    """
    name = as_dtype(dtype).name
    held = "double" if name == "float64" else "float"
    operands = [("x", name), ("y", name), *([("mask", "uint8")] if has_mask else [])]
    line = (
        f"const bool kept = piece >> {32 - BITS['float32']} >= least; "
        f"put(y + i, kept ? number_of(x[i]) * ({held})factor : ({held})0);{' mask[i] = kept;' if has_mask else ''}"
    )
    return _exchanged("dropout", _HALVES, operands, ["unsigned int least", "double factor"], line)


def integers_kernel(dtype: Any = "int64") -> DrawKernel:
    """`y = low + word % span`; launched with low, an int64, and span, an uint64."""
    name = as_dtype(dtype).name
    line = f"y[i] = ({stored(name)})((long long)(piece % span) + low);"
    return _exchanged("integers", _WHOLE, [("y", name)], ["long long low", "word span"], line)


def chances_kernel(dtype: Any) -> DrawKernel:
    """`y = 1` with probability x, else 0."""
    name = as_dtype(dtype).name
    line = "put(y + i, unit(piece) < (double)number_of(x[i]) ? 1.0f : 0.0f);"
    return _exchanged("chances", _WHOLE, [("x", name), ("y", name)], [], line)


def normal_kernel(dtype: Any) -> DrawKernel:
    """`y = z * scale + shift` of standard normal numbers z, by Box and Muller's transform computed in float64.

    Launched with scale and shift, each a float64. Two elements are made of two words that lie half the stream apart,
    so every thread makes the two blocks they are in.
    """
    name = as_dtype(dtype).name
    held = "double" if name == "float64" else "float"
    line = "__dadd_rn(__dmul_rn(z, scale), shift)" if held == "double" else ""
    line = line or "__fadd_rn(__fmul_rn((float)z, (float)scale), (float)shift)"
    if name in ("float16", "bfloat16"):
        line = f"(float)({'as_half' if name == 'float16' else 'as_bfloat'}((float)z)) * (float)scale + (float)shift"
    body = f"""
  const word pairs = (count + 1) / 2;
  for (word i = blockIdx.x * (word)blockDim.x + threadIdx.x; i < pairs; i += gridDim.x * (word)blockDim.x) {{
    const double radius = sqrt(-2.0 * log1p(-unit(philox(stream, i / 4).of[i % 4])));
    const double angle = 6.283185307179586 * unit(philox(stream, (pairs + i) / 4).of[(pairs + i) % 4]);
    double z = radius * cos(angle);
    put(y + i, {line});
    z = radius * sin(angle);
    if (pairs + i < (word)count) put(y + (pairs + i), {line});
  }}
"""
    return _kernel("normal", [("y", name)], ["double scale", "double shift"], body, 2)


def _exchanged(
    stem: str, pieces: _PiecesOfWords, operands: Sequence[tuple[str, str]], numbers: Sequence[str], line: str
) -> DrawKernel:
    """A kernel whose threads exchange pieces of words; `line` makes element `i` of a `piece`."""
    per = pieces.per_block
    body = f"""
  __shared__ {pieces.type} pieces[{per} * {pieces.row}];
  const long long step = {per * THREADS};
  for (long long begin = blockIdx.x * step; begin < count; begin += gridDim.x * step) {{
    const Words words = philox(stream, (word)begin / {per} + threadIdx.x);
    #pragma unroll
    for (int n = 0; n < {per}; ++n) pieces[n * {pieces.row} + threadIdx.x] = {pieces.taken};
    __syncthreads();
    #pragma unroll
    for (int n = 0; n < {per}; ++n) {{
      const int own = n * {THREADS} + threadIdx.x;
      const long long i = begin + own;
      const {pieces.type} piece = pieces[own % {per} * {pieces.row} + own / {per}];
      if (i < count) {{ {line} }}
    }}
    __syncthreads();
  }}
"""
    return _kernel(stem, operands, numbers, body, per)


def _kernel(
    stem: str, operands: Sequence[tuple[str, str]], numbers: Sequence[str], body: str, per_thread: int
) -> DrawKernel:
    parameters = ["const word* stream", *(f"{stored(dtype)}* {name}" for name, dtype in operands), "long long count"]
    given = ", ".join([*parameters, *numbers])
    entry = named(stem, given + body)
    source = (
        f'{PREAMBLE}{_PHILOX}\nextern "C" __global__ void __launch_bounds__({THREADS}) {entry}({given}) {{{body}}}\n'
    )
    return DrawKernel(CudaKernel(entry, source, (("stream", "uint64"), *operands)), per_thread)
