"""CPU devices: each a worker with memory of its own, all on the same processors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.framework.values.place import CPUPlace, Place
from workbench.runtime.arena import Arena
from workbench.runtime.device import Call, DeviceMemory, DeviceStream


class CPUStream:
    """The thread that gives the work also does it, so nothing is ever outstanding."""

    def synchronize(self) -> None:
        """Return at once."""


class CPUDevice:
    """A CPU worker (the `Device` protocol)."""

    lowering = "calls"
    xp: Any = np
    grows_by_use = True

    def __init__(self, index: int = 0) -> None:
        self.place: Place = CPUPlace(index)

    def allocate(self, nbytes: int) -> DeviceMemory:
        """An `Arena`."""
        return Arena(nbytes)

    def stream(self) -> DeviceStream:
        """The calling thread."""
        return CPUStream()

    def copy_in(self, target: np.ndarray, value: np.ndarray, stream: DeviceStream) -> None:
        """Copy at once; values are neither cast nor broadcast."""
        _copy(target, value)

    def copy_out(self, target: np.ndarray, value: np.ndarray, stream: DeviceStream) -> None:
        """Copy at once; values are neither cast nor broadcast."""
        _copy(target, value)

    def capture(self, calls: Sequence[Call], stream: DeviceStream) -> None:
        """Nothing: calls are simply made again."""
        return None

    def synchronize(self) -> None:
        """Return at once."""

    def __repr__(self) -> str:
        return f"CPUDevice({self.place.index})"


def _copy(target: np.ndarray, value: np.ndarray) -> None:
    assert target.shape == value.shape and target.dtype == value.dtype, "whoever calls has checked"
    np.copyto(target, value)
