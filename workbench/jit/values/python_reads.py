"""PythonReads: tensors from outside whose values Python has looked at while a function was recorded.

What followed from such a value is part of what was recorded, so a run is for tensors that still hold it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from functools import partial
from operator import call
from typing import Any

import numpy as np

from workbench.dygraph.aliases import tensors_on
from workbench.dygraph.overwrites import CodeSpot, here, memory_of
from workbench.dygraph.tensor.tensor import Tensor
from workbench.framework.op.recorder import current_recorder
from workbench.framework.site import is_ours
from workbench.jit.values.captured_tensor import CapturedTensor, NeedsValue
from workbench.runtime.undisturbed import Call


class ReadValue:
    """A value that was read, to be looked at again.

    Args:
        tensor: whose value it is. now: gives the tensor that is in its place later. spot: where it was read.
    """

    def __init__(self, tensor: Tensor, now: Callable[[], Tensor | None], spot: CodeSpot) -> None:
        self.tensor, self.spot, self._now = tensor, spot, now
        self._kind, self._kept = tensor.kind, _bytes_of(tensor)

    def is_unchanged(self) -> bool:
        """Whether it is what it was, however large: nobody is told of a write to the numbers in `Tensor.array`."""
        tensor = self._now()
        return tensor is not None and tensor.kind is self._kind and _bytes_of(tensor) == self._kept

    @property
    def is_written(self) -> bool:
        """Whether it is another one."""
        return _bytes_of(self.tensor) != self._kept

    @property
    def reason(self) -> str:
        """Why there is a recording for the value that is there now."""
        tensor, values = self._now(), ""
        if tensor is not None and tensor.kind is self._kind and tensor.size == 1:
            before = np.frombuffer(self._kept, self._kind.dtype.numpy)
            values = f" from {before.item()} to {tensor._dense().item()}"
        return f"the value of {self.tensor.name}, which Python reads at {self.spot.site}, has changed{values}"


class PythonReads:
    """What Python does with values of tensors while a function is recorded; a `Witness`.

    Args:
        is_bound: whether the program that is recorded already works on the memory of an array.

    Attributes:
        grads_seen: tensors whose `grad` code of users asks for, with what was there when it first did.
        putting_back: gives tensors from outside the `grad` that was there before the function touched it, with its
            value, when it is gone through: by C alone, so that no signal comes in between.
    """

    def __init__(self, is_bound: Callable[[Any], bool]) -> None:
        self._is_bound = is_bound
        self._made: dict[int, Any] = {}  # memory of tensors that the function makes itself
        self._grads: dict[int, tuple[Tensor, Tensor]] = {}
        self._reads: dict[int, ReadValue] = {}
        self.grads_seen: dict[int, tuple[Tensor, Tensor | None]] = {}
        self._touched: set[int] = set()  # tensors whose `grad`, and gradients whose value, is kept
        self._before: list[Call] = []
        self.putting_back: Iterator[Any] = map(call, self._before)

    def saw_made(self, tensor: Tensor) -> None:
        """What the function makes is part of what it does."""
        memory = memory_of(tensor.array)
        self._made[id(memory)] = memory

    def is_made(self, tensor: Tensor) -> bool:
        """Whether the function has made it, and makes another one in every call."""
        return memory_id(tensor) in self._made

    def saw_grad(self, tensor: Tensor, grad: Tensor | None) -> None:
        """Another tensor may be there later, or none."""
        if grad is not None:
            self._grads[id(grad)] = tensor, grad
        self.saw_grad_replaced(tensor, grad)
        if not isinstance(tensor, CapturedTensor) and not is_ours(sys._getframe(2).f_code.co_filename):
            self.grads_seen.setdefault(id(tensor), (tensor, grad))

    def saw_grad_replaced(self, tensor: Tensor, grad: Tensor | None) -> None:
        """Keep it for a recording that is refused."""
        if not (isinstance(tensor, CapturedTensor) or isinstance(grad, CapturedTensor)):
            self._keep(tensor, partial(setattr, tensor, "_grad", grad))

    def _keep(self, touched: Tensor, put_back: Call) -> None:
        if id(touched) not in self._touched:
            self._touched.add(id(touched))
            self._before.append(put_back)

    def saw_read(self, tensor: Tensor) -> None:
        """Keep the value, if it is from outside."""
        if isinstance(tensor, CapturedTensor) or id(tensor) in self._reads or current_recorder().is_eager:
            return
        if memory_id(tensor) in self._made and not self._is_bound(tensor.array):
            return
        shown = self._grads.get(id(tensor))
        now = partial(_same, tensor) if shown is None else partial(getattr, shown[0], "_grad")
        self._reads[id(tensor)] = ReadValue(tensor, now, here())

    def saw_write(self, tensor: Tensor, by: str) -> None:
        """Refuse what would be done once, when the function is recorded, and not by the runs.

        Raises:
            NeedsValue: the tensor is from outside, or the program works on it.
        """
        if isinstance(tensor, CapturedTensor) or current_recorder().is_eager:
            return
        if id(tensor) in self._grads:
            if tensor.kind.is_dense:
                self._keep(tensor, partial(np.copyto, tensor.array, tensor.array.copy()))
            return
        if memory_id(tensor) in self._made and not self._is_bound(tensor.array):
            return
        raise NeedsValue(
            f"{by} writes a value of Python's over tensor {tensor.name!r} while the function is recorded; a run of "
            "what is recorded would not\n"
            "  write the result of an op with paddle.assign(result, output=tensor), or do it outside of the function\n"
            f"  at {here().site}"
        )

    def kept(self, written: Collection[int]) -> list[ReadValue]:
        """What was read, with the other tensors that show the same memory.

        Args:
            written: ids of the memory that the recorded function writes, or has other tensors take the place of.

        Raises:
            NeedsValue: it writes what it reads, so that the value is another one in every call; or Python does.
        """
        reads = list(self._reads.values())
        for each in reads:
            if memory_id(each.tensor) in written or each.is_written:
                raise NeedsValue(
                    f"the value of tensor {each.tensor.name!r} is read by Python here, and the function that is "
                    "recorded changes it: every run would go on with the value of now\n"
                    "  use the tensor itself in ops or static.nn.cond, or read it outside of the function\n"
                    f"  at {each.spot.site}"
                )
        self._made, self._grads, self._reads = {}, {}, {}  # tensors of the function are not kept alive
        by_memory = {memory_id(each.tensor): each for each in reads}
        known = {id(each.tensor) for each in reads}
        for tensor in tensors_on(by_memory, Tensor) if by_memory else ():
            if id(tensor) not in known:
                reads.append(ReadValue(tensor, partial(_same, tensor), by_memory[memory_id(tensor)].spot))
        return reads


def memory_id(tensor: Tensor) -> int:
    """The id of what owns the memory of a tensor; of a sparse gradient, of itself."""
    array = tensor.array
    return id(memory_of(array) if isinstance(array, np.ndarray) else array)


def _bytes_of(tensor: Tensor) -> bytes:
    content: bytes = tensor._dense().tobytes()
    return content


def _same(tensor: Tensor) -> Tensor:
    return tensor
