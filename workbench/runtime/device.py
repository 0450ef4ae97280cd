"""What an executor needs from a device, and the devices that every machine has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from numpy.typing import DTypeLike

from workbench.framework.values.place import CPUPlace, Place
from workbench.runtime.arena import Arena


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


class Device(Protocol):
    """A processor with memory of its own; `cuda.devices.gpu` has another one.

    Attributes:
        place: which one.
        grows_by_use: whether memory takes up room only once it is written, so that more may be asked for than needed.
    """

    place: Place
    grows_by_use: bool

    def allocate(self, nbytes: int) -> DeviceMemory:
        """Memory for temporaries.

        Raises:
            Unavailable: there is not that much.
        """


class CPUDevice:
    """A CPU worker: its memory is its own, the processors are those of all."""

    grows_by_use = True

    def __init__(self, index: int = 0) -> None:
        self.place: Place = CPUPlace(index)

    def allocate(self, nbytes: int) -> DeviceMemory:
        """An `Arena`."""
        return Arena(nbytes)

    def __repr__(self) -> str:
        return f"CPUDevice({self.place.index})"
