"""What an executor needs from a device; `cpu.py` is the first that offers it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from numpy.typing import DTypeLike

from workbench.framework.values.place import Place

Call = Callable[[], Any]


class DeviceMemory(Protocol):
    """A piece of a device's memory, in which arrays are views; `arena.Arena` on a CPU."""

    @property
    def nbytes(self) -> int:
        """Its size."""

    @property
    def resident(self) -> int:
        """How many bytes of it take up memory at this moment."""

    def array(self, offset: int, shape: Sequence[int], dtype: DTypeLike, strides: Sequence[int] | None = None) -> Any:
        """A view in the device's array type; `offset` and `strides` in bytes."""

    def release(self) -> int:
        """Give the memory back while arrays in it stay valid; returns how many bytes that were."""


class DeviceStream(Protocol):
    """Work of a device that is done in the order in which it was given, while the caller may go on."""

    def synchronize(self) -> None:
        """Wait until everything given so far is done."""


class Device(Protocol):
    """A processor with memory of its own.

    Attributes:
        place: which one.
        lowering: how plans become something that runs here: "calls" are Python calls, one after the other.
        xp: the array module its arrays belong to (what `forward(xp, ...)` of an op gets).
        grows_by_use: whether memory takes up room only once it is written, so that more may be asked for than needed.
    """

    place: Place
    lowering: str
    xp: Any
    grows_by_use: bool

    def allocate(self, nbytes: int) -> DeviceMemory:
        """Memory for temporaries.

        Raises:
            Unavailable: there is not that much.
        """

    def stream(self) -> DeviceStream:
        """A new stream."""

    def copy_in(self, target: Any, value: Any, stream: DeviceStream) -> None:
        """Copy a NumPy array into one of the device's, of equal shape and dtype. It may be done when the stream is."""

    def copy_out(self, target: Any, value: Any, stream: DeviceStream) -> None:
        """Copy one of the device's arrays into a NumPy array, of equal shape and dtype, likewise."""

    def capture(self, calls: Sequence[Call], stream: DeviceStream) -> Call | None:
        """One call that does again what `calls` do, without Python between them; None where there is no such thing."""

    def synchronize(self) -> None:
        """Wait until all streams are done."""
