"""Places: plain values that say where a tensor lives or an op runs.

A place needs no array library, so that graphs are built, printed and tested on any machine;
what a place can do is the business of `runtime`.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.errors import InvalidArgument, InvalidType


class Place:
    """A kind of device and an index among the devices of that kind."""

    kind = ""
    __slots__ = ("index",)

    def __init__(self, index: int = 0) -> None:
        if not isinstance(index, int) or isinstance(index, bool):
            raise InvalidType(f"a device index is an int, got {index!r}")
        if index < 0:
            raise InvalidArgument(f"a device index is >= 0, got {index}")
        self.index = index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and (self.kind, self.index) == (other.kind, other.index)

    def __hash__(self) -> int:
        return hash((self.kind, self.index))

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"

    def get_device_id(self) -> int:
        """The index (Paddle's name for it)."""
        return self.index


def place_text(places: Sequence[Place], index: int) -> str:
    """What the device with an index is called: `cpu:1`; `device 1` where its place is not known."""
    return str(places[index]) if index < len(places) else f"device {index}"


class CPUPlace(Place):
    """The processor. Several CPU places are several workers with their own memory.

    Args:
        index: the worker; Paddle programs write `CPUPlace()` for worker 0.

    Example:
        >>> static.Executor(wb.CPUPlace()).place
        CPUPlace()
    """

    kind = "cpu"
    __slots__ = ()

    def __repr__(self) -> str:
        return "CPUPlace()" if self.index == 0 else f"CPUPlace({self.index})"


class CUDAPlace(Place):
    """An NVIDIA GPU by its index among the visible ones.

    Example:
        >>> wb.CUDAPlace(1)
        CUDAPlace(1)
    """

    kind = "gpu"
    __slots__ = ()

    def __repr__(self) -> str:
        return f"CUDAPlace({self.index})"
