"""Arrays without memory, whose sizes may be unknown (`planning.sizes`): rules of the tape take them for NumPy's.

They have shapes and strides and can be seen in another way; what would look at an element, or needs to know a size,
raises `Unsettled` or notes a condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from workbench.executors.planning.sizes.size import Sizes, overlap
from workbench.executors.planning.sizes.unknowns import Number, Turn, Unsettled
from workbench.framework.values.spec import Shape
from workbench.framework.values.views import RESHAPED, Strided, range_of, row_major
from workbench.runtime.native.tape import Pointer


class _Flags:
    """As `ndarray.flags`, as far as rules ask."""

    def __init__(self, c_contiguous: bool) -> None:
        self.c_contiguous = c_contiguous
        self.aligned = self.writeable = True


class MetaArray:
    """A strided array at an address; nobody can read it. Strides are in bytes."""

    __array_ufunc__ = None

    def __init__(self, address: Number, shape: Sequence[Number], strides: Sequence[Number], dtype: Any) -> None:
        self.address, self.dtype = address, np.dtype(dtype)
        self.shape, self.strides = tuple(shape), tuple(strides)

    __class__: Any = property(lambda self: np.ndarray)  # for `isinstance`, an array

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @cached_property
    def size(self) -> Number:
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> Number:
        return self.size * self.dtype.itemsize

    @cached_property
    def flags(self) -> _Flags:
        return _Flags(self._seen.is_contiguous)

    @property
    def base(self) -> MetaArray:
        return self

    @property
    def _seen(self) -> Strided:
        return Strided(self.address, self.shape, self.strides, self.dtype.itemsize)

    def pointer(self) -> Pointer:
        """To the first element."""
        return self._pointer

    @cached_property
    def _pointer(self) -> Pointer:
        at = self.address
        if self.flags.c_contiguous:
            return Pointer(at, 0, self.nbytes)
        before, behind = 0, self.dtype.itemsize
        for size, stride in zip(self.shape, self.strides, strict=True):
            reach = (size - 1) * stride
            before, behind = (before - reach, behind) if reach < 0 else (before, behind + reach)
        return Pointer(at, before, behind)

    # Seen in another way

    def _view(self, address: Number, shape: Sequence[Number], strides: Sequence[Number]) -> MetaArray:
        return MetaArray(address, shape, strides, self.dtype)

    def view(self, dtype: Any) -> MetaArray:
        """The same bytes as numbers of another kind, as many bytes each."""
        if np.dtype(dtype).itemsize != self.itemsize:
            raise Unsettled(f"{self} seen as {np.dtype(dtype)}")
        return MetaArray(self.address, self.shape, self.strides, dtype)

    def transpose(self, *axes: Any) -> MetaArray:
        given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        order = [axis % self.ndim for axis in given] if given else range(self.ndim)[::-1]
        return self._view(self.address, [self.shape[a] for a in order], [self.strides[a] for a in order])

    @property
    def T(self) -> MetaArray:
        return self.transpose()

    def swapaxes(self, a: int, b: int) -> MetaArray:
        order = list(range(self.ndim))
        order[a], order[b] = order[b], order[a]
        return self.transpose(*order)

    def reshape(self, *shape: Any) -> MetaArray:
        wanted = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        seen = self.seen_as(wanted)
        if seen is None:
            raise Unsettled(f"{self} has to be copied to have the shape {wanted}")
        return seen

    def seen_as(self, shape: Shape) -> MetaArray | None:
        """The array in another shape, None if that takes a copy."""
        if any(type(d) is int and d == -1 for d in shape):
            known = prod(d for d in shape if not (type(d) is int and d == -1))
            shape = tuple(self.size // known if type(d) is int and d == -1 else d for d in shape)
        if prod(shape) != self.size:
            raise ValueError(f"cannot reshape array of size {self.size} into shape {shape}")
        seen = RESHAPED(self._seen, tuple(shape), {})
        return None if seen is None else self._view(seen.offset, seen.shape, seen.strides)

    def __getitem__(self, index: Any) -> MetaArray:
        given = index if isinstance(index, tuple) else (index,)
        taken = sum(entry is not None and entry is not ... for entry in given)
        rest = [slice(None)] * (self.ndim - taken)
        at = next((i for i, entry in enumerate(given) if entry is ...), len(given))
        address, shape, strides, axis = self.address, [], [], 0
        for entry in (*given[:at], *rest, *given[at + 1 :]):
            if entry is None:
                shape.append(1)
                strides.append(0)
                continue
            size, stride = self.shape[axis], self.strides[axis]
            axis += 1
            if isinstance(entry, slice):
                start, length, step = range_of(entry, size)
                address, shape, strides = address + start * stride, [*shape, length], [*strides, stride * step]
            else:
                address += (entry if entry >= 0 else size + entry) * stride
        return self._view(address, shape, strides)

    # NumPy's functions

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function not in _FUNCTIONS or kwargs:
            raise Unsettled(f"{function.__name__} needs the numbers of an array")
        return _FUNCTIONS[function](*args)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsettled("an array without memory has no numbers")

    def __len__(self) -> Number:
        return self.shape[0]

    def __iter__(self) -> Iterator[MetaArray]:
        return map(self.__getitem__, range(self.shape[0]))

    def __repr__(self) -> str:
        return f"MetaArray({self.shape}, {self.dtype}, strides={self.strides})"


def _may_share_memory(a: Any, b: Any) -> bool:
    if not (type(a) is MetaArray and type(b) is MetaArray) or not a.size or not b.size:
        return False
    ours, others = a.pointer(), b.pointer()
    return overlap((ours.begin, ours.end), (others.begin, others.end))


def _broadcast_to(array: MetaArray, shape: Shape) -> MetaArray:
    missing = len(shape) - array.ndim
    if missing < 0 or not all(own in (1, wanted) for own, wanted in zip(array.shape, shape[missing:], strict=True)):
        raise ValueError(f"{array} does not broadcast to {shape}")
    dims = zip(array.shape, shape[missing:], array.strides, strict=True)
    kept = [0 if own == 1 and wanted != 1 else stride for own, wanted, stride in dims]
    return array._view(array.address, shape, [0] * missing + kept)


def _moveaxis(array: MetaArray, source: int, target: int) -> MetaArray:
    order = [axis for axis in range(array.ndim) if axis != source % array.ndim]
    order.insert(target % array.ndim, source % array.ndim)
    return array.transpose(*order)


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.may_share_memory: _may_share_memory,
    np.shares_memory: _may_share_memory,
    np.broadcast_to: _broadcast_to,
    np.moveaxis: _moveaxis,
}


class MetaMemory:
    """A device's arena before it is known how large pieces are: in place of `runtime.device.DeviceMemory`."""

    nbytes = resident = 0

    def array(self, offset: Number, shape: Sequence[Number], dtype: Any, strides: Sequence[Number]) -> MetaArray:
        """An array at an address."""
        return MetaArray(offset, shape, strides, dtype)

    def release(self) -> int:
        """There is nothing to give back."""
        return 0


class MetaScratch:
    """Memory for the temporaries of the rows of one thread, as `operands.Scratch`, of sizes nobody knows.

    Attributes:
        begin: its address. ends: distances from there; all that has been handed out lies before the largest.
    """

    def __init__(self, sizes: Sizes) -> None:
        self.begin = sizes.address(64, Turn())
        self.ends: list[Number] = []
        self.used: Number = 0

    def restart(self) -> None:
        """All of it is free again."""
        self.used = 0

    def __call__(self, shape: Sequence[Number], dtype: Any) -> MetaArray:
        dtype = np.dtype(dtype)
        start, nbytes = self.used, max(prod(shape) * dtype.itemsize, 1)
        self.used += (nbytes + 63) // 64 * 64
        self.ends.append(self.used)
        return MetaArray(self.begin + start, shape, row_major(tuple(shape), dtype.itemsize), dtype)
