"""Mirrors: memory of a device that stands for memory of the host, byte by byte.

What an executor binds are arrays of the host, on a GPU as on a CPU: their addresses, moved to the mirror, are the
addresses that kernels get. So plans, views, buckets and the scope need not know of devices, and what runs on the host
finds its operands where they always are, once they have been brought there.

Which of the two holds the newer values is known in two ways: for temporaries it follows from the order of a step's
rows; for the scope's tensors, to which users write between steps, a mirror keeps a stamp of what it was made from.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right, insort
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from workbench.cuda.devices.staging import StagingRing
from workbench.cuda.driver import CudaDriver, ExecutableGraph, Stream
from workbench.runtime.storage.tensor import LoDTensor, moves


class Side:
    """A device, as far as its memory goes: the driver, its number, and the stream copies are ordered by."""

    def __init__(self, driver: CudaDriver, index: int, stream: Stream) -> None:
        self.driver, self.index, self.stream = driver, index, stream
        self.staging = StagingRing(driver)

    def use(self) -> None:
        """Make it the device of this thread."""
        self.driver.set_device(self.index)


class Mirror:
    """A stretch of the host's memory and of the device's.

    Attributes:
        side: the device. base, nbytes: of the host's. address: of the device's.
        is_ahead: whether the device holds newer values than the host, of memory that tensors of a scope lie in.
    """

    def __init__(self, side: Side, base: int, nbytes: int) -> None:
        self.side, self.base, self.nbytes = side, base, nbytes
        side.use()
        self.address = side.driver.allocate(max(nbytes, 1))
        side.driver.fill(self.address, 0, max(nbytes, 1), side.stream)
        self.is_ahead = False
        self._stamp: Hashable = None
        self._version: Callable[[], Hashable] = lambda: None

    def at(self, address: int) -> int:
        """Where on the device an address of the host is."""
        return self.address + address - self.base

    # Tensors of a scope

    def watch(self, tensor: LoDTensor) -> None:
        """Stand for the memory of a tensor from now on; whoever reads it is given what the device holds."""
        if tensor.mirror is self:
            return
        if tensor.mirror is not None:
            tensor.mirror.bring_home()
        tensor.mirror = self
        bucket = tensor.bucket
        self._version = (lambda: tensor.version) if bucket is None else (lambda: (bucket.writes, bucket.steps))
        self._stamp = None

    def refresh(self) -> None:
        """Bring the host's values to the device if somebody has written them since."""
        if self.is_ahead:
            return
        version = self._version()
        if version != self._stamp or version is None:
            self._stamp = version
            self.side.staging.upload(self.address, self.base, self.nbytes, self.side.stream)

    def run_ahead(self) -> None:
        """The device is about to change what it holds."""
        if not self.is_ahead:
            self.is_ahead = True
            moves.happen()  # who works on the host has to ask for the values again

    def bring_home(self) -> None:
        """Bring the device's values to the host if they are newer."""
        if not self.is_ahead:
            return
        self.side.use()
        self.side.staging.download(self.base, self.address, self.nbytes, self.side.stream)
        self.is_ahead, self._stamp = False, self._version()


class Mirrors:
    """All mirrors on one device, by the memory they stand for."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._bases: list[int] = []
        self._by_base: dict[int, Mirror] = {}
        self._left: list[Mirror] = []
        self._graphs: list[ExecutableGraph] = []

    def find(self, address: int) -> Mirror | None:
        """The mirror of the memory an address of the host lies in."""
        at = bisect_right(self._bases, address) - 1
        if at < 0:
            return None
        mirror = self._by_base[self._bases[at]]
        return mirror if address < mirror.base + max(mirror.nbytes, 1) else None

    def of_memory(self, owner: np.ndarray, nbytes: int) -> Mirror:
        """The mirror of the memory of an array, for as long as something keeps the array."""
        self._give_back()
        base = owner.__array_interface__["data"][0]
        mirror = self._by_base[base] = Mirror(self._side, base, nbytes)
        insort(self._bases, base)
        memory = owner.base if owner.base is not None and not isinstance(owner.base, np.ndarray) else owner
        weakref.finalize(_kept_by(memory), self._leave, mirror).atexit = False
        return mirror

    def of_tensor(self, tensor: LoDTensor) -> Mirror:
        """The mirror of the memory a tensor lies in: of its whole bucket if it is in one."""
        root = tensor.stored
        while isinstance(root.base, np.ndarray):
            root = root.base
        base = root.__array_interface__["data"][0]
        mirror = self._by_base.get(base)
        if mirror is None:
            mirror = self.of_memory(root, root.nbytes)
        mirror.watch(tensor)
        return mirror

    def _leave(self, mirror: Mirror) -> None:
        """The host's memory is gone; the device's is given back when somebody asks for more, by whatever thread."""
        self._left.append(mirror)

    def leave_graph(self, graph: ExecutableGraph) -> None:
        """Nobody launches a graph any more: it goes before memory that it needs."""
        self._graphs.append(graph)

    def _give_back(self) -> None:
        if not (self._left or self._graphs):
            return
        driver = self._side.driver
        self._side.use()
        driver.synchronize_device()
        while self._graphs:
            driver.destroy_executable(self._graphs.pop())
        while self._left:
            mirror = self._left.pop()
            if self._by_base.get(mirror.base) is mirror:
                del self._by_base[mirror.base]
                self._bases.remove(mirror.base)
            driver.free(mirror.address)


def _kept_by(memory: Any) -> Any:
    """What lives as long as memory does, and can be referred to weakly."""
    return memory.obj if isinstance(memory, memoryview) else memory
