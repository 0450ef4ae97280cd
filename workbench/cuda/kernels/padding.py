"""Kernels of padding by constants, mirrors, edges and circles, its adjoint, and roll, a circle without padding.

A thread makes an element of the result. In the adjoint it adds up the entries that are copies of its own, at most three
along a dimension but for edges, in their order. Neighbouring dimensions without padding are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from workbench.cuda.kernels.launch import CudaKernel, Launch, blocks_for, written_kernel
from workbench.cuda.kernels.numbers import NoKernel, held
from workbench.framework.values.dtype import as_dtype

THREADS = 256
CONSTANT, REFLECT, REPLICATE, CIRCULAR = MODES = ("constant", "reflect", "replicate", "circular")
Dim = tuple[int, int, int]
"""The size of a dimension, and how many entries there are before and behind it."""

_PLACES = {
    CONSTANT: "is_inside = is_inside && s{d} >= 0 && s{d} < n{d};",
    REFLECT: "s{d} = s{d} < 0 ? -s{d} : s{d} >= n{d} ? 2 * (n{d} - 1) - s{d} : s{d};",
    REPLICATE: "s{d} = s{d} < 0 ? 0 : s{d} >= n{d} ? n{d} - 1 : s{d};",
    CIRCULAR: "s{d} = s{d} < 0 ? s{d} + n{d} : s{d} >= n{d} ? s{d} - n{d} : s{d};",
}
"""Where an entry comes from."""
_COPIES = {
    CONSTANT: ["at{d} + b{d}"],
    REFLECT: ["at{d} > 0 ? b{d} - at{d} : -1", "at{d} + b{d}", "at{d} < n{d} - 1 ? b{d} + 2 * (n{d} - 1) - at{d} : -1"],
    CIRCULAR: ["at{d} + b{d} - n{d}", "at{d} + b{d}", "at{d} + b{d} + n{d}"],
}
"""Where the copies of an entry are, if they are there."""


@dataclass(frozen=True)
class PadKernel:
    """A kernel of padding, or of its adjoint.

    Attributes:
        kernel: its operands are x and y. is_back: it is the adjoint.
    """

    kernel: CudaKernel
    dims: tuple[Dim, ...]
    is_back: bool

    def launch(self, value: float = 0.0) -> Launch:
        """The launch; `value`: what is put around an array by CONSTANT."""
        count = prod(n if self.is_back else n + before + behind for n, before, behind in self.dims)
        numbers: list[np.generic] = [np.int64(count)]
        numbers += [np.int64(number) for dim in self.dims for number in dim]
        return Launch((blocks_for(count, THREADS), 1, 1), (THREADS, 1, 1), (*numbers, np.float64(value)))


def pad_kernel(dtype: Any, shape: Sequence[int], paddings: Sequence[int], mode: str = CONSTANT) -> PadKernel:
    """`y`: `x` with `paddings[2 d]` entries before and `paddings[2 d + 1]` behind it along dimension d."""
    return _pad(dtype, _joined(shape, paddings), mode)


def roll_kernel(dtype: Any, shape: Sequence[int], shifts: Sequence[int], axes: Sequence[int]) -> PadKernel:
    """`y`: `x` moved along axes, what leaves at one end coming in at the other."""
    before = [0] * len(shape)
    for shift, axis in zip(shifts, axes, strict=True):
        before[axis] = shift % shape[axis] if shape[axis] else 0
    return _pad(dtype, _joined(shape, [n for b in before for n in (b, -b)]), CIRCULAR)


def unpad_kernel(dtype: Any, shape: Sequence[int], paddings: Sequence[int], mode: str = CONSTANT) -> PadKernel:
    """`y` of a shape: of the padded `x` the sum of all copies of every entry."""
    name, dims = as_dtype(dtype).name, _joined(shape, paddings)
    number = held(name)
    lines = _divided([f"n{d}" for d in range(len(dims))], "at")
    lines.append(f"    {number} total = 0;")
    strides = _strides([f"(n{d} + b{d} + e{d})" for d in range(len(dims))])
    for d, (_, before, behind) in enumerate(dims):
        lines += _loop(d, mode if before or behind else CONSTANT)
    places = " + ".join(f"p{d} * {stride}" for d, stride in enumerate(strides)) or "0"
    lines.append(f"      total = ({number})(total + number_of(x[{places}]));")
    lines += ["    }" * len(dims), "    put(y + i, total);"]
    return PadKernel(_kernel("unpad", name, len(dims), lines), dims, True)


def _loop(d: int, mode: str) -> list[str]:
    """Over the copies of an entry along a dimension."""
    if mode == REPLICATE:
        return [
            f"    const long long low{d} = at{d} == 0 ? 0 : at{d} + b{d};",
            f"    const long long high{d} = at{d} == n{d} - 1 ? n{d} + b{d} + e{d} - 1 : at{d} + b{d};",
            f"    for (long long p{d} = low{d}; p{d} <= high{d}; ++p{d}) {{",
        ]
    copies = [copy.format(d=d) for copy in _COPIES[mode]]
    return [
        f"    for (int k{d} = 0; k{d} < {len(copies)}; ++k{d}) {{",
        f"      const long long copies{d}[] = {{{', '.join(copies)}}};",
        f"      const long long p{d} = copies{d}[k{d}];",
        f"      if (p{d} < 0 || p{d} >= n{d} + b{d} + e{d}) continue;",
    ]


def _pad(dtype: Any, dims: tuple[Dim, ...], mode: str) -> PadKernel:
    name = as_dtype(dtype).name
    lines = _divided([f"(n{d} + b{d} + e{d})" for d in range(len(dims))], "at")
    lines.append("    bool is_inside = true;")
    for d, (_, before, _) in enumerate(dims):
        lines += [f"    long long s{d} = at{d} - b{d};"]
        lines += [f"    {_PLACES[mode].format(d=d)}"] if before or dims[d][2] else []
    strides = _strides([f"n{d}" for d in range(len(dims))])
    places = " + ".join(f"s{d} * {stride}" for d, stride in enumerate(strides)) or "0"
    lines.append(f"    put(y + i, is_inside ? number_of(x[{places}]) : ({held(name)})value);")
    return PadKernel(_kernel(f"pad_{mode}", name, len(dims), lines), dims, False)


def _joined(shape: Sequence[int], paddings: Sequence[int]) -> tuple[Dim, ...]:
    """Dimensions with their paddings, those without joined with what they lie beside."""
    joined: list[Dim] = []
    for size, before, behind in zip(shape, paddings[::2], paddings[1::2], strict=True):
        if joined and not (before or behind or joined[-1][1] or joined[-1][2]):
            joined[-1] = (joined[-1][0] * size, 0, 0)
        else:
            joined.append((size, before, behind))
    return tuple(joined)


def _divided(sizes: Sequence[str], name: str) -> list[str]:
    """The place along every dimension, of the number of an element."""
    lines = ["    long long rest = i;"]
    for d in range(len(sizes) - 1, 0, -1):
        lines += [f"    const long long {name}{d} = rest % {sizes[d]};", f"    rest /= {sizes[d]};"]
    return [*lines, f"    const long long {name}0 = rest;"]


def _strides(sizes: Sequence[str]) -> list[str]:
    return [" * ".join(sizes[d + 1 :]) or "1" for d in range(len(sizes))]


def _kernel(stem: str, name: str, rank: int, lines: Sequence[str]) -> CudaKernel:
    if name == "complex64" or not rank:
        raise NoKernel(f"arrays of {rank} dimensions of {name} are not padded")
    loop = [
        "",
        "  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count;",
        "       i += gridDim.x * (long long)blockDim.x) {",
    ]
    numbers = " ".join(["count", *(f"n{d} b{d} e{d}" for d in range(rank)), "double:value"])
    return written_kernel(stem, [("x", name), ("y", name)], numbers, "\n".join([*loop, *lines, "  }", ""]), THREADS)
