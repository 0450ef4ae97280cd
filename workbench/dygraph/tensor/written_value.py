"""The value of a tensor, written over in its own memory; every write is noted."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.dygraph.kinds import Kind, kind_of
from workbench.dygraph.overwrites import clock, writes_to, written
from workbench.dygraph.tensor.python_value import PythonValue
from workbench.dygraph.witness import witness
from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.values.rows import Rows


class WrittenValue(PythonValue):
    """What is written to a tensor's value, whatever its history.

    Attributes: see `PythonValue`.
    """

    __slots__ = ("array", "kind")

    array: Any
    kind: Kind

    @property
    def inplace_version(self) -> int:
        """How often its memory was written to."""
        return writes_to(self.array)

    def _require_unrecorded(self, by: str) -> None:
        """No op writes, but Python does: refused where that would have to be recorded."""
        seen = witness.get()
        if seen is not None:
            seen.saw_write(self, by)

    def _write(self, value: Any, by: str) -> None:
        """Write into the memory, which views share."""
        self._require_unrecorded(by)
        if isinstance(self.array, Rows) or not self.array.flags.writeable:
            self._put(np.array(np.broadcast_to(value, self.kind.shape)))
            return
        np.copyto(self.array, value)
        written(self.array, by)

    def _become_zero(self, by: str) -> bool:
        """Write zeros; False where a value does not lie in memory to be written."""
        if not self.kind.is_dense:
            return False
        self._require_unrecorded(by)
        np.copyto(self.memory(), np.zeros((), self.array.dtype))
        written(self.array, by)
        return True

    def memory(self) -> np.ndarray:
        """The array its value is in, to be written to."""
        if isinstance(self.array, Rows) or not self.array.flags.writeable:
            self._put(np.array(self._dense()))
        return self.array

    def _changed(self, array: Any, by: str) -> None:
        """Note that the value was written to, in its own memory or in `array`, that takes its place."""
        if array is self.array:
            written(array, by)
        else:
            self._put(array)

    def _put(self, array: Any) -> None:
        """Have another array as the value; that is a write, too, for those who have noted where it was."""
        self.array, self.kind = array, kind_of(array)
        clock.now += 1

    def _set_as_value_of(self, target: Any) -> bool:
        """Have another tensor hold this value without its history; False where there are numbers to copy."""
        return False

    def set_value(self, value: Any) -> None:
        """Write an array, a tensor or numbers over the value.

        Raises:
            InvalidArgument: another shape. InvalidType: another dtype.
        """
        if isinstance(value, WrittenValue) and value.kind is self.kind and value._set_as_value_of(self):
            return
        given = np.asarray(value.as_read() if isinstance(value, PythonValue) else value)
        if given.dtype != self.array.dtype and not hasattr(value, "dtype"):
            given = given.astype(self.array.dtype)
        if given.shape != self.array.shape or given.dtype != self.array.dtype:
            kind = InvalidArgument if given.shape != self.array.shape else InvalidType
            raise kind(f"set_value takes a value like the tensor\n  expected: {self.kind.spec}\n"
                       f"  got:      {given.dtype}{list(given.shape)}")  # fmt: skip
        self._write(given, "set_value")
