"""Tensor storage: the array behind a scope variable.

Storage is stable: setting a value copies into the existing array, so that what was bound to it stays right.
Only a change of shape or dtype takes a new array, and moves `generation` on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.errors import InvalidType, PreconditionNotMet, Unavailable
from workbench.framework.dtype import DType, as_dtype
from workbench.framework.place import CPUPlace, Place


class Moves:
    """Counts how often any storage of the process was replaced or left its scope; who has bound arrays looks here."""

    count = 0


class LoDTensor:
    """Paddle's name for a tensor in a scope; here always dense, without levels of detail.

    Values are written with `set()`. Views of the storage, as `np.array(tensor, copy=False)` gives, are for reading: who
    writes through one is not noticed, and on several devices the replicas of a variable may be taken for equal.

    Attributes:
        array: the storage, None until a value is set.
        bucket: what the storage is a part of (`runtime.bucket`), None if it stands alone.
        generation: moves on whenever `array` is replaced by another one.
        version: moves on after every change of the value.
    """

    __slots__ = ("_version", "array", "bucket", "generation")

    def __init__(self, array: Any = None) -> None:
        self.array = array
        self.bucket: Any = None
        self.generation = self._version = 0

    @property
    def version(self) -> int:
        return self._version if self.bucket is None else self._version + self.bucket.steps

    @version.setter
    def version(self, number: int) -> None:
        if self.bucket is None:
            self._version = number
        else:
            self._version = number - self.bucket.steps
            self.bucket.writes += 1

    def set(self, value: Any, place: Place | None = None) -> None:
        """Copy a value in.

        Args:
            value: array or nested lists; of the storage's shape and dtype it is copied into the same storage.
            place: only the CPU is served here.

        Raises:
            Unavailable: another place. InvalidType: the value has no supported dtype.
        """
        if place is not None and not isinstance(place, CPUPlace):
            raise Unavailable(f"a CPU scope holds tensors on CPUPlace(), not on {place!r}")
        new = np.asarray(value)
        as_dtype(new.dtype)
        self.assign(new)

    def assign(self, new: Any) -> None:
        """`set` without checks."""
        self.take(new if self.holds(new) else np.array(new))

    def holds(self, new: Any) -> bool:
        """Whether there is storage for a value of this shape and dtype."""
        return self.array is not None and self.array.shape == new.shape and self.array.dtype == new.dtype

    def take(self, new: Any) -> None:
        """Like `assign`, but keeps `new` itself as the storage where there is none to copy into."""
        if self.holds(new):
            np.copyto(self.array, new)
        else:
            self._replace(new)
        self.version += 1

    def patch(self, rows: Any, values: Any) -> None:
        """Give some rows new values."""
        self.array[rows] = values
        self.version += 1

    def move_to(self, storage: Any, bucket: Any) -> None:
        """Keep the value, from now on in `storage`, an array of the same shape and dtype."""
        np.copyto(storage, self.array)
        self._replace(storage, bucket)

    def _replace(self, array: Any, bucket: Any = None) -> None:
        Moves.count += 1  # before and after: neither Ctrl-C nor another thread in between makes anybody miss it
        version = self.version
        self.array, self.bucket = array, bucket
        self._version = version if bucket is None else version - bucket.steps
        self.generation += 1
        Moves.count += 1

    def __deepcopy__(self, memo: dict[int, Any]) -> LoDTensor:
        """A tensor with a copy of the value; it belongs to no bucket."""
        return LoDTensor(None if self.array is None else self.array.copy())

    def __reduce__(self) -> tuple[Any, ...]:
        return LoDTensor, (None if self.array is None else self.array.copy(),)

    @property
    def initialized(self) -> bool:
        return self.array is not None

    def shape(self) -> list[int]:
        """Dimensions as a list (a method, as in Paddle)."""
        return list(self._value().shape)

    @property
    def dtype(self) -> DType:
        return as_dtype(self._value().dtype)

    def numpy(self) -> np.ndarray:
        """A copy of the value."""
        return np.array(self._value())

    def lod(self) -> list[list[int]]:
        """Levels of detail; always empty."""
        return []

    def set_lod(self, lod: Any) -> None:
        """Only the empty LoD is accepted."""
        if lod:
            raise InvalidType("LoD tensors (variable-length sequences) are not supported; pad the sequences")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        value = self._value()
        return np.array(value, dtype=dtype if dtype is not None else value.dtype, copy=copy is not False)

    def _value(self) -> Any:
        if self.array is None:
            raise PreconditionNotMet("the tensor is not initialised; run the startup program or set() a value")
        return self.array

    def __repr__(self) -> str:
        if self.array is None:
            return "LoDTensor(not initialised)"
        return f"LoDTensor({as_dtype(self.array.dtype)}{list(self.array.shape)})"
