"""CapturedTensor: what stands for a tensor while Python code is recorded."""

from __future__ import annotations

import operator
import sys
from types import CodeType, FrameType
from typing import Any, NoReturn, Protocol

from workbench.dygraph.kinds import kind_like
from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import Unimplemented
from workbench.framework.current import Current
from workbench.framework.program.variable import Variable
from workbench.framework.site import caller, is_ours

_FOR_VALUES = (
    "for a branch or a loop that follows values use static.nn.cond or static.nn.while_loop; to look at a value have "
    "the function return it"
)


class NeedsValue(Unimplemented, TypeError):
    """Python asked for a value that is there only when what is recorded is run; `float()` raises TypeErrors.

    Who records is told of every one: where the function goes on behind an `except`, what it does then is not what it
    would do with the value.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        if (told := refusals.get()) is not None:
            told.append(self)


refusals: Current[list[NeedsValue] | None] = Current("workbench_refusals", None)


class BranchOnValue(NeedsValue):
    """A branch or a loop follows the value of a tensor.

    Attributes:
        code, instruction: the code object that asks for the value, and the offset of the instruction, in bytes.
    """

    def __init__(self, message: str, code: CodeType, instruction: int) -> None:
        super().__init__(message)
        self.code, self.instruction = code, instruction


def _is_asked_by_us() -> bool:
    """Whether the method that calls this was called by workbench's own code."""
    return is_ours(sys._getframe(2).f_code.co_filename)


class RecordsTensors(Protocol):
    """What records.

    Attributes:
        is_open: it still does.
    """

    is_open: bool

    def backward(self, tensor: CapturedTensor, grad_tensor: Any) -> None:
        """Append the gradients of what a tensor was computed from."""

    def integer(self, variable: Variable) -> int:
        """What a variable of one integer holds in the call that is recorded; another value is recorded anew."""

    def obstacle(self, variable: Variable) -> str | None:
        """Why that is not known; None if it is."""

    def write_over(self, tensor: Tensor, value: CapturedTensor) -> None:
        """Have the value of a tensor from outside replaced."""

    def detached(self, tensor: CapturedTensor) -> CapturedTensor:
        """The same value, through which no gradient flows."""


class CapturedTensor(Tensor):
    """A tensor without a value: a variable of the program that is recorded.

    It has shape and dtype, takes part in ops and has their gradients. Whoever asks for its numbers is refused.

    Attributes:
        variable: of the program.
    """

    __slots__ = ("_recorder", "variable")

    has_value = False

    def __init__(self, variable: Variable, recorder: RecordsTensors) -> None:
        self.variable, self._recorder = variable, recorder
        self.kind = kind_like(variable.spec)
        self.source = None

    @property
    def array(self) -> Any:
        """There is none.

        Raises:
            NeedsValue: always.
        """
        self._refuse("Python needs the value of a tensor here")

    @array.setter
    def array(self, value: Any) -> None:
        self._require_writable("an assignment")

    @property
    def stop_gradient(self) -> bool:
        """No gradient flows through it."""
        return self.variable.stop_gradient

    @stop_gradient.setter
    def stop_gradient(self, stop: bool) -> None:
        self.variable.stop_gradient = bool(stop)

    @property
    def name(self) -> str:
        """The variable's."""
        return self.variable.name

    @name.setter
    def name(self, name: str) -> None:
        """The name of a variable is that of the program; it stays."""

    @property
    def is_leaf(self) -> bool:
        """Whether it is an argument of what is recorded."""
        return self.variable.is_data

    @property
    def inplace_version(self) -> int:
        """0: nothing is written in place."""
        return 0

    def detach(self) -> Tensor:
        """The same value without history."""
        return self._recorder.detached(self)

    def backward(self, grad_tensor: Tensor | None = None, retain_graph: bool = False) -> None:
        """Record the gradients of this tensor, and their addition to `grad` of every leaf.

        Raises:
            NeedsValue: the recording is over.
        """
        if not self._recorder.is_open:
            self._refuse("backward() is called here")
        self._recorder.backward(self, grad_tensor)

    def _require_writable(self, by: str) -> None:
        """Raises: NeedsValue: always."""
        what = "an argument" if self.is_leaf else "a value"
        self._refuse(
            f"{by} would write in place over {what} of the function",
            "use the result of what does the same without writing in place",
        )

    def _write_over(self, target: Tensor, by: str) -> None:
        if isinstance(target, CapturedTensor):
            target._require_writable(by)
        self._recorder.write_over(target, self)

    def _set_as_value_of(self, target: Any) -> bool:
        self._recorder.detached(self)._write_over(target, "set_value")
        return True

    def _become_zero(self, by: str) -> bool:
        return False  # a gradient of nothing is as good

    def register_hook(self, hook: Any) -> Any:
        """Hooks are Python code, which is not recorded.

        Raises:
            NeedsValue: always.
        """
        self._refuse("a hook would be Python code that sees gradients")

    def retain_grads(self) -> None:
        """Only leaves have gradients in what is recorded.

        Raises:
            NeedsValue: always.
        """
        self._refuse("retain_grads() asks for the gradient of a value in the middle of the step; use paddle.grad")

    def _refuse(self, what: str, advice: str = _FOR_VALUES) -> NoReturn:
        raise NeedsValue(self._refusal(what, advice))

    def _refusal(self, what: str, advice: str) -> str:
        if not self._recorder.is_open:
            return (
                f"{what}, but tensor {self.name!r} stood for a value while a function was recorded, and that is over; "
                f"have the function return it\n  at {caller()}"
            )
        return (
            f"{what}, while the function is recorded: what is recorded is run later, on the values of each call\n"
            f"  {advice}\n  at {caller()}"
        )

    @property
    def is_open(self) -> bool:
        """Whether the function is still being recorded."""
        return self._recorder.is_open

    def __index__(self) -> int:
        """The integer as it is in this call, for shapes, axes and the like.

        Raises:
            NeedsValue: what computes it cannot run by itself. InvalidType: no integer. InvalidArgument: several.
        """
        if not (self._recorder.is_open and self.kind.dtype.is_integer and self.size == 1):
            return super().__index__()
        if (obstacle := self._recorder.obstacle(self.variable)) is not None:
            self._refuse("Python needs an integer here", f"{obstacle}; pass the integer as an argument")
        return self._recorder.integer(self.variable)

    def tolist(self) -> Any:
        """An integer, or a list of them, as they are in this call, for shapes, axes and the like.

        Raises:
            NeedsValue: other values than integers, or what computes them cannot run by itself.
        """
        if not self.kind.dtype.is_integer or len(self.kind.shape) > 1 or -1 in self.kind.shape:
            return super().tolist()
        return [operator.index(each) for each in self] if self.kind.shape else operator.index(self)

    def __int__(self) -> int:
        return operator.index(self) if self.kind.dtype.is_integer and _is_asked_by_us() else super().__int__()

    def item(self, *index: int) -> Any:
        """The integer as it is in this call, where a function of workbench's takes a number.

        Raises:
            NeedsValue: others ask, or for another value than an integer.
        """
        is_number = not index and self.kind.dtype.is_integer and self.size == 1
        return operator.index(self) if is_number and _is_asked_by_us() else super().item(*index)

    def __bool__(self) -> bool:
        asking = sys._getframe(1)
        message = self._refusal("a branch follows the value of a tensor here", _FOR_VALUES)
        raise BranchOnValue(message, asking.f_code, asking.f_lasti)

    def __repr__(self) -> str:
        self._require_ours(sys._getframe(1))
        return f"CapturedTensor({self.name}: {self.kind.spec})"

    def __format__(self, how: str) -> str:
        self._require_ours(sys._getframe(1))
        return super().__format__(how)

    def _require_ours(self, asking: FrameType) -> None:
        """Only messages of workbench's own say what stands for a tensor."""
        if self._recorder.is_open and not is_ours(asking.f_code.co_filename):
            self._refuse("the value of a tensor is printed here")

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        self._refuse("a tensor is copied deeply here")
