"""Tensor storage: the array behind a scope variable.

Storage is stable: setting a value copies into the existing array, so that what was bound to it stays right.
Only a change of shape or dtype takes a new array, and moves `generation` on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from operator import ne, setitem
from typing import Any

import numpy as np

from workbench.errors import InvalidType, PreconditionNotMet, Unavailable
from workbench.framework.values.dtype import DType, as_dtype
from workbench.framework.values.number import copied
from workbench.framework.values.place import CPUPlace, Place
from workbench.runtime.undisturbed import Call, in_one_call


class _Moves:
    """Another number whenever storage is replaced or leaves its scope, anywhere; who has bound arrays looks here."""

    __slots__ = ("_numbers", "count")

    def __init__(self) -> None:
        self.count, self._numbers = 0, itertools.count(1)

    def happen(self) -> None:
        """Something moves."""
        self.count = next(self._numbers)

    def happening(self) -> Call:
        """`happen` as a C function."""
        return partial(setattr, self, "count", next(self._numbers))


moves = _Moves()
_STEPS = 1 << 40  # more than a bucket ever counts
number_of_write: Callable[[], int] = itertools.count(_STEPS, _STEPS).__next__
"""A number that no other write has, and that steps counted on from another one do not come to.

So writers who have seen the same number before do not leave the same one behind.
"""


class LoDTensor:
    """Paddle's name for a tensor in a scope; here always dense, without levels of detail.

    Values are written with `set()`. Views of the storage, as `np.array(tensor, copy=False)` gives, are for reading: who
    writes through one is not noticed, and on several devices the replicas of a variable may be taken for equal. What is
    set in the middle of a step, by another thread for one, is the value after the step where the variable lies in a
    bucket; a step may write over it elsewhere: statistics of batch_norm, sparse tables, parameters in Reduce mode.

    Attributes:
        array: the storage, None until a value is set.
        stored: the same, though a device may hold newer values.
        mirror: what stands for the storage on a device (`cuda.mirrors`), None if nothing does.
        bucket: what the storage is a part of (`runtime.storage.bucket`), None if it stands alone.
        is_fixed: others look at the storage, too, so that it is not moved into a bucket.
        is_seen: others write to the storage, too, so that no other variable may share its memory.
        generation: moves on whenever `array` is replaced by another one.
        version: another number after every change of the value.
    """

    __slots__ = ("_counts", "bucket", "is_fixed", "is_seen", "mirror", "stored")

    def __init__(self, array: Any = None) -> None:
        self.stored = array
        self.mirror: Any = None
        self.bucket: Any = None
        self._counts = [0, 0]  # version without the bucket's steps, generation; C functions compare and set them
        self.is_fixed = self.is_seen = False

    @property
    def array(self) -> Any:
        if self.mirror is not None:
            self.mirror.bring_home()
        return self.stored

    @property
    def version(self) -> int:
        return self._counts[0] if self.bucket is None else self._counts[0] + self.bucket.steps

    @property
    def counts(self) -> tuple[Any, ...]:
        """Words of which one changes with every change of the value: the first items of lists and the like."""
        return (self._counts,) if self.bucket is None else (self.bucket.written, self.bucket.words)

    @property
    def generation(self) -> int:
        return self._counts[1]

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
        return self.stored is not None and self.stored.shape == new.shape and self.stored.dtype == new.dtype

    def take(self, new: Any) -> None:
        """Like `assign`, but keeps `new` itself as the storage where there is none to copy into."""
        while not self._taken(new):
            pass

    def _taken(self, new: Any) -> bool:
        """Try to; whether nobody has had it lie elsewhere in between, without the value."""
        changed, bucket, array = self.changed(), self.bucket, self.stored
        with nullcontext(True) if bucket is None else bucket.writing() as is_between_steps:
            stays = is_between_steps and self.holds(new)
            if in_one_call([changed, *(self.taking(new) if is_between_steps else self._leaving(new))]):
                return False
        return not stays or self.stored is array

    def _leaving(self, new: Any) -> list[Call]:
        """What gives it the value in memory of its own: the step under way goes on with that of the bucket."""
        return [*self.counting(), *self._replacing(np.array(new), None, number_of_write())]

    def taking(self, new: Any) -> list[Call]:
        """`take`, as C functions for `in_one_call`; nobody may change the tensor before they have been called."""
        if self.bucket is not None:
            self.bucket.part_between_steps()
        if self.mirror is not None:
            self.mirror.bring_home()
        if self.holds(new):
            return [partial(setitem, self.stored, ..., new), *self.counting()]
        return self._replacing(new, None, number_of_write())

    def setting(self, new: Any) -> list[Call]:
        """The same, but where there is no storage to copy into a copy becomes it."""
        if self.bucket is not None:
            self.bucket.part_between_steps()
        if self.mirror is not None:
            self.mirror.bring_home()
        if self.holds(new):
            return [partial(setitem, self.stored, ..., new), *self.counting()]
        return self._replacing(np.array(new), None, number_of_write())

    def patching(self, rows: Any, values: Any) -> list[Call]:
        """What gives some rows new values, in the same way."""
        if self.bucket is not None:
            self.bucket.part_between_steps()
        return [partial(setitem, self.array, rows, values), *self.counting()]

    def part(self) -> None:
        """Have memory of its own from now on; who writes a value does that first, and the value stays as it is."""
        if self.bucket is not None:
            self.bucket.part()

    def showing(self, array: Any) -> list[Call]:
        """What has it lie elsewhere in its bucket, in the same way; somebody tells of the move."""
        return [partial(setattr, self, "stored", array), partial(setitem, self._counts, 1, self.generation + 1)]

    def counting(self) -> list[Call]:
        """What changes the version, in the same way."""
        counted = partial(setitem, self._counts, 0, number_of_write())
        return [counted] if self.bucket is None else [counted, self.bucket.noting_write()]

    def changed(self) -> Call:
        """Whether it has got another value or place since this was asked for, as a C function."""
        return partial(ne, self._counts, list(self._counts))

    def move_to(self, storage: Any, bucket: Any) -> None:
        """Keep the value, from now on in `storage`, an array of the same shape and dtype in a bucket without steps.

        Whoever gives it a value of another shape or dtype meanwhile has it stay outside.
        """
        while self.holds(storage):
            changed = self.changed()
            np.copyto(storage, self.array)
            if not in_one_call([changed, *self._replacing(storage, bucket, self.version)]):
                return

    def _replacing(self, array: Any, bucket: Any, version: int) -> list[Call]:
        fields = {"stored": array, "bucket": bucket, "mirror": None}
        # Moves are told before and after: no other thread in between makes anybody miss them.
        return [
            moves.happening(),
            *(partial(setattr, self, *field) for field in fields.items()),
            partial(setitem, self._counts, slice(None), [version, self.generation + 1]),
            moves.happening(),
        ]

    def __deepcopy__(self, memo: dict[int, Any]) -> LoDTensor:
        """A tensor with a copy of the value; it belongs to no bucket."""
        return LoDTensor(None if self.stored is None else self.array.copy())

    def __reduce__(self) -> tuple[Any, ...]:
        return LoDTensor, (None if self.stored is None else self.array.copy(),)

    @property
    def initialized(self) -> bool:
        """Whether it has a value."""
        return self.stored is not None

    def shape(self) -> list[int]:
        """Dimensions as a list (a method, as in Paddle)."""
        return list(self._value().shape)

    @property
    def dtype(self) -> DType:
        """Of its elements."""
        return as_dtype(self._value().dtype)

    def numpy(self) -> np.ndarray:
        """A copy of the value."""
        return copied(self._value())

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
        if self.stored is None:
            raise PreconditionNotMet("the tensor is not initialised; run the startup program or set() a value")
        return self.array

    def __str__(self) -> str:
        """As Paddle prints it: every element, with six digits."""
        if self.stored is None:
            return repr(self)
        data = " ".join(format(float(e), "g") if self.dtype.is_float else str(int(e)) for e in self.array.flat)
        facts = {
            "shape": list(self.array.shape), "layout": "NCHW", "place": "Place(cpu)", "dtype": self.dtype,
            "data": f"[{data}]",
        }  # fmt: skip
        return "\n".join(f"  - {name}: {fact}" for name, fact in facts.items())

    def __repr__(self) -> str:
        if self.stored is None:
            return "LoDTensor(not initialised)"
        return f"LoDTensor({as_dtype(self.stored.dtype)}{list(self.stored.shape)})"
