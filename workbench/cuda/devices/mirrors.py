"""Mirrors: memory of a device that stands for memory of the host, byte by byte.

What an executor binds are arrays of the host, on a GPU as on a CPU: their addresses, moved to the mirror, are the
addresses that kernels get. So plans, views, buckets and the scope need not know of devices, and what runs on the host
finds its operands where they always are, once they have been brought there.

Which of the two holds the newer values is known in two ways: for temporaries it follows from the order of a step's
rows; for the scope's tensors, to which users write between steps, a mirror keeps a stamp of what it was made from.
"""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_right, insort
from typing import Any

import numpy as np

from workbench.cuda.devices.staging import StagingRing
from workbench.cuda.driver import CudaDriver, ExecutableGraph, Stream
from workbench.runtime.storage.tensor import LoDTensor, moves


class Side:
    """A device, as far as its memory goes.

    Attributes:
        driver, index: which one. stream: what kernels and copies are ordered by.
        staging: the way between host and device.
        lock: held by who gives work to a device of the driver: a capture takes in whatever the stream is given.
    """

    _locks: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def __init__(self, driver: CudaDriver, index: int, stream: Stream) -> None:
        self.driver, self.index, self.stream = driver, index, stream
        self.lock = self._locks.setdefault(driver, threading.RLock())
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
        self._counts: dict[int, tuple[Any, ...]] = {}
        self._stamp: list[int] | None = None

    def at(self, address: int) -> int:
        """Where on the device an address of the host is."""
        return self.address + address - self.base

    # Tensors of a scope

    def watch(self, tensor: LoDTensor) -> None:
        """Stand for the memory of a tensor from now on; whoever reads it is given what the device holds."""
        if tensor.mirror is self:
            return
        with self.side.lock:
            if tensor.mirror is not None:
                tensor.mirror.bring_home()
            tensor.mirror = self
            counts = tensor.counts
            self._counts[id(counts[0])] = counts
            self._stamp = None

    def _version(self) -> list[int]:
        """Another one after every write to a tensor in this memory; what counts the writes keeps no tensor."""
        return [count[0] for counts in self._counts.values() for count in counts]

    def refresh(self) -> None:
        """Bring the host's values to the device if somebody has written them since."""
        with self.side.lock:
            version = self._version()
            if not self.is_ahead and version != self._stamp:
                self._stamp = version
                self.side.staging.upload(self.address, self.base, self.nbytes, self.side.stream)

    def run_ahead(self) -> None:
        """The device has been given work that changes what it holds."""
        with self.side.lock:
            if not self.is_ahead:
                self.is_ahead = True
                moves.happen()  # who works on the host has to ask for the values again

    def bring_home(self) -> None:
        """Bring the device's values to the host if they are newer."""
        if not self.is_ahead:
            return
        with self.side.lock:
            if self.is_ahead:  # another thread may have brought them, and written to the host since
                self.side.use()
                self.side.staging.download([(self.base, self.address, self.nbytes)], self.side.stream)
                self.is_ahead, self._stamp = False, self._version()


class Mirrors:
    """All mirrors on one device, by the memory they stand for."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._bases: list[int] = []
        self._by_base: dict[int, Mirror] = {}
        self._left: list[Mirror] = []  # whose memory of the host is gone
        self._unused: list[int] = []  # memory of the device
        self._graphs: list[ExecutableGraph] = []

    def find(self, address: int) -> Mirror | None:
        """The mirror of the memory an address of the host lies in."""
        with self._side.lock:
            self._forget()
            at = bisect_right(self._bases, address) - 1
            if at < 0:
                return None
            mirror = self._by_base[self._bases[at]]
            return mirror if address < mirror.base + max(mirror.nbytes, 1) else None

    def of_memory(self, base: int, nbytes: int, keeper: Any) -> Mirror:
        """The mirror of memory of the host.

        Args:
            keeper: what lives as long as the memory does, and can be referred to weakly.
        """
        with self._side.lock:
            self._give_back()
            mirror = self._by_base[base] = Mirror(self._side, base, nbytes)
            insort(self._bases, base)
        weakref.finalize(keeper, self._leave, mirror).atexit = False
        return mirror

    def of_array(self, array: np.ndarray) -> Mirror:
        """The mirror of all of an array that shares no memory with a larger one."""
        return self.of_memory(array.__array_interface__["data"][0], array.nbytes, array)

    def of_tensor(self, tensor: LoDTensor) -> Mirror:
        """The mirror of the memory a tensor lies in: of its whole bucket if it is in one."""
        root = tensor.stored
        while isinstance(root.base, np.ndarray):
            root = root.base
        with self._side.lock:
            self._forget()
            mirror = self._by_base.get(root.__array_interface__["data"][0]) or self.of_array(root)
            mirror.watch(tensor)
            return mirror

    def _leave(self, mirror: Mirror) -> None:
        """The host's memory is gone; whatever thread it is, this is all that is done now."""
        self._left.append(mirror)

    def _forget(self) -> None:
        """Forget mirrors of memory that is gone, before new memory is taken for it; called under the lock."""
        while self._left:
            mirror = self._left.pop()
            if self._by_base.get(mirror.base) is mirror:
                del self._by_base[mirror.base]
                self._bases.remove(mirror.base)
            self._unused.append(mirror.address)

    def leave_graph(self, graph: ExecutableGraph) -> None:
        """Nobody launches a graph any more: it goes before memory that it needs."""
        self._graphs.append(graph)

    def _give_back(self) -> None:
        """Give the device's memory back; graphs go before what they need."""
        self._forget()
        if not (self._unused or self._graphs):
            return
        driver = self._side.driver
        self._side.use()
        driver.synchronize_device()
        while self._graphs:
            driver.destroy_executable(self._graphs.pop())
        while self._unused:
            driver.free(self._unused.pop())
