"""Tensor: a value computed at once, with what it was computed from."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any
from weakref import ref

import numpy as np

from workbench.dygraph.aliases import tensors_on
from workbench.dygraph.kinds import kind_of
from workbench.dygraph.overwrites import here, memory_of
from workbench.dygraph.tape.hooks import HookRemover
from workbench.dygraph.tape.leaves import backward
from workbench.dygraph.tape.node import node_and_index
from workbench.dygraph.tape.rewrites import leaf_shown, note_rewrite
from workbench.dygraph.tensor.written_value import WrittenValue
from workbench.dygraph.witness import witness
from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet
from workbench.framework import names
from workbench.framework.gradmode import recording_gradients
from workbench.framework.notice import tell
from workbench.framework.op.infix import Infix
from workbench.framework.op.record import Op, find_op
from workbench.framework.references import is_held_by_others
from workbench.framework.values.dtype import DType, as_dtype
from workbench.framework.values.number import copied
from workbench.framework.values.place import CPUPlace, Place
from workbench.framework.values.rows import Rows
from workbench.framework.values.spec import require_place_for


class Tensor(WrittenValue, Infix):
    """An array with workbench's ops, and its history if a gradient may be wanted.

    Attributes:
        array: the value; tensors that are views of each other share its memory.
        stop_gradient: no gradient flows through it. True for what you make, unless you say otherwise; False for
            what is computed from a tensor that wants a gradient. Integers and bools never get one, whatever it says:
            their `grad` is None (Paddle cuts gradients off to integers, so that 0.5 becomes 0).
        grad: the gradient that `backward()` left, a Tensor, or None.
        persistable: part of a layer's state.
        kind: shape and dtype of the value. source: the recorded op it came from, None for a leaf.

    Example:
        >>> x = wb.to_tensor([1.0, 2.0], stop_gradient=False)
        >>> (x * x).sum().backward()
        >>> print(x.grad.numpy())
        [2. 4.]
    """

    __slots__ = ("__dict__", "__weakref__", "source", "stop_gradient")

    source: Any
    stop_gradient: bool
    _grad: Tensor | None = None
    persistable = False
    is_distributed = False
    _name: str | None = None
    _hooks: dict[int, Callable[[Any], Any]] | None = None

    def __init__(self, array: Any, stop_gradient: bool = True) -> None:
        self.array, self.kind = array, kind_of(array)
        self.stop_gradient, self.source = stop_gradient, None

    # What it is

    @property
    def shape(self) -> list[int]:  # type: ignore[override]
        """Dimensions."""
        return list(self.kind.shape)

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """Element type."""
        return self.kind.dtype

    def astype(self, dtype: Any) -> Tensor:
        """A copy in another dtype, or in its own."""
        target = as_dtype(dtype)
        converted: Tensor = find_op("assign")(self) if target is self.kind.dtype else super().astype(target)
        return converted

    cast = astype

    @property
    def name(self) -> str:
        """A name no other tensor has."""
        if self._name is None:
            self._name = names.generate("generated_tensor" if self.source is None else "eager_tmp")
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name

    @property
    def place(self) -> Place:
        """Where the value is."""
        return CPUPlace()

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded op made it."""
        return self.source is None

    def is_sparse(self) -> bool:
        """Whether it is a sparse gradient."""
        return not self.kind.is_dense

    is_selected_rows = is_sparse

    def is_dense(self) -> bool:
        """Whether it is no sparse gradient."""
        return self.kind.is_dense

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if self.source is not None:
            raise PreconditionNotMet("only a leaf can be copied deeply; take a clone() or detach() of others")
        copied = memo[id(self)] = type(self).__new__(type(self))
        own = {name: value for name, value in self.__dict__.items() if name not in ("_grad", "_hooks", "_name")}
        copied.__dict__.update(deepcopy(own, memo))
        copied._put(self.array if isinstance(self.array, Rows) else self.as_read().copy())
        copied.stop_gradient, copied.source = self.stop_gradient, None
        return copied

    # Copies and views

    def detach(self) -> Tensor:
        """The same value, in the same memory, without history."""
        return Tensor(self.array)

    def detach_(self) -> Tensor:
        """Forget the history; returns this tensor."""
        self.source, self.stop_gradient = None, True
        return self

    # Gradients

    @property
    def grad(self) -> Tensor | None:
        """The gradient that `backward()` left; None if there is none, after a notice for integers that want one."""
        grad = self._grad
        if grad is None and not self.stop_gradient and not self.kind.is_float:
            tell(
                f"grad of {self.name!r} is None, for it holds {self.dtype}, to which no op passes a gradient; cast it "
                "to a floating dtype first, and ask the result for its grad"
            )
        seen = witness.get()
        if seen is not None:
            seen.saw_grad(self, grad)
        return grad

    @grad.setter
    def grad(self, gradient: Tensor | None) -> None:
        seen = witness.get()
        if seen is not None:
            seen.saw_grad_replaced(self, self._grad)
        if gradient is None:
            self._grad = None
            return
        if not isinstance(gradient, Tensor) or gradient.kind.shape != self.kind.shape:
            raise InvalidType(f"the gradient of a tensor of shape {self.shape} is a Tensor like it, got {gradient!r}")
        self._grad = gradient._as_gradient()

    def _as_gradient(self) -> Tensor:
        """This value as the `grad` of another tensor, where Paddle shows it as one that wants a gradient."""
        if not self.stop_gradient:
            return self
        gradient = tensor_from(self.array, self.source)
        gradient.stop_gradient = False
        return gradient

    def retain_grads(self) -> None:
        """Have `backward()` leave the gradient in `grad` though an op made this tensor; leaves do so anyway."""
        if self.source is None:
            return
        node, index = node_and_index(self.source)
        node.retained = {**(node.retained or {}), index: ref(self)}

    def register_hook(self, hook: Callable[[Tensor], Any]) -> HookRemover:
        """Call `hook(gradient)` whenever the gradient of this tensor is complete.

        Args:
            hook: what it returns takes the gradient's place, unless it is None.

        Returns:
            a handle; its `remove()` ends it.

        Raises:
            PreconditionNotMet: the tensor has `stop_gradient=True`. InvalidType: no function.

        Example:
            >>> x = wb.to_tensor([1.0], stop_gradient=False)
            >>> handle = x.register_hook(lambda g: g * 2)
            >>> (x * 3).backward()
            >>> x.grad.item()
            6.0
        """
        if self.stop_gradient:
            raise PreconditionNotMet("a tensor with stop_gradient=True gets no gradient that a hook could see")
        if not callable(hook):
            raise InvalidType(f"register_hook takes a function of the gradient, got {hook!r}")
        if self.source is None:
            if self._hooks is None:
                self._hooks = {}
            hooks = self._hooks
        else:
            node, index = node_and_index(self.source)
            node.hooks = node.hooks or {}
            hooks = node.hooks.setdefault(index, {})
        return HookRemover(hooks, hook)

    def backward(self, grad_tensor: Tensor | None = None, retain_graph: bool = False) -> None:
        """Add the gradient of this tensor to `grad` of every floating leaf it was computed from.

        No gradient flows through integers or bools: their `grad` stays None, and reading it says so.

        Args:
            grad_tensor: the gradient to begin with, of this tensor's shape; ones by default.
            retain_graph: keep the values, so that it can be called once more.

        Raises:
            PreconditionNotMet: values were freed by an earlier call, or overwritten.
            InvalidArgument: `grad_tensor` has another shape or dtype. If it raises, every `grad` is as it was.

        Example:
            >>> x = wb.to_tensor([1.0, 2.0], stop_gradient=False)
            >>> (x * 3).backward(wb.to_tensor([1.0, 10.0]))
            >>> print(x.grad.numpy())
            [ 3. 30.]
        """
        start, first = self._start(), first_gradient(self, grad_tensor)
        if start is not None:
            backward([(start, first)], retain_graph, Tensor)

    def _start(self) -> Any:
        """Where a walk back from this tensor begins; None, after a notice, if nothing was recorded."""
        if self.stop_gradient:
            tell(
                "backward() of a tensor with stop_gradient=True does nothing: nothing it was computed from wants a "
                "gradient; make the inputs with stop_gradient=False, outside of no_grad()"
            )
            return None
        return self.source or self

    def gradient(self) -> Any:
        """The gradient as a NumPy array, None if there is none; a sparse one as (values, rows)."""
        if self.grad is None:
            return None
        array = self.grad.array
        return (np.array(array.values), np.array(array.rows)) if isinstance(array, Rows) else copied(array)

    def _grad_ivar(self) -> Tensor | None:
        """`grad`, as programs for Paddle up to 2.1 ask for it."""
        return self.grad

    def clear_gradient(self, set_to_zero: bool = True) -> None:
        """Make the gradient zero, or None."""
        if self.grad is None:
            return
        if not (set_to_zero and self.grad._become_zero("clear_gradient")):
            self.grad = None

    clear_grad = clear_gradient

    # Writing in place

    def overwrite(self, op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Tensor:
        """Compute a one-output op and write the result over this tensor's value.

        Raises:
            InvalidArgument: the result has another shape or dtype; or it is a leaf that wants a gradient, while
                gradients are recorded.
        """
        self._require_writable(op.type)
        return self._become(op(*inputs, **attrs), op.type)

    def _become(self, result: Tensor, by: str) -> Tensor:
        """Take over value and history of a tensor."""
        if result.kind is not self.kind:
            require_place_for(result.kind.spec, "the tensor it is written to", self.kind.spec)
        if result.source is not None and self.source is None:
            self._require_unseen(by)
        before = self.array
        result._write_over(self, by)
        if result.source is not None:
            if self.source is not None and self.array is before:
                note_rewrite(self.source, by)
            self.source, self.stop_gradient = result.source, False
        return self

    def _write_over(self, target: Tensor, by: str) -> None:
        """Have another tensor hold this value, in its own memory."""
        target._write(self.array, by)

    def _require_writable(self, by: str) -> None:
        if self.source is None and not self.stop_gradient and recording_gradients.get():
            raise InvalidArgument(
                f"{by} would overwrite a leaf that wants a gradient (stop_gradient=False)\n"
                f"  do it inside `with no_grad():`, or overwrite a clone()\n  at {here().site}"
            )
        if self.source is not None and recording_gradients.get() and leaf_shown(self.source) is not None:
            raise InvalidArgument(
                f"{by} would overwrite part of a leaf that wants a gradient, which this tensor is a view of\n"
                f"  do it inside `with no_grad():`, or overwrite a clone()\n  at {here().site}"
            )

    def _require_unseen(self, by: str) -> None:
        """Nobody else sees the memory of this tensor, which has no history and is about to get one.

        Raises:
            InvalidArgument: others do; they would show values without the history of these.
        """
        memory = memory_of(self.array)
        if not is_held_by_others(memory):
            return
        if any(each is not self for each in tensors_on({id(memory)}, Tensor)):
            raise InvalidArgument(
                f"{by} would write what has a gradient to memory that another tensor without one shows, too: its "
                "gradient would get lost\n"
                f"  write to a clone(), or give the other one's memory its history first\n  at {here().site}"
            )


def first_gradient(tensor: Tensor, given: Any) -> Any:
    """The array a walk back from a tensor begins with.

    Raises:
        InvalidType: no tensor. InvalidArgument: another shape or dtype than the tensor.
    """
    if given is None:
        return np.ones(tensor.kind.shape, tensor.kind.dtype.numpy)
    if not isinstance(given, Tensor):
        raise InvalidType(f"the gradient to begin with is a Tensor or None, got {given!r}")
    if given.kind.shape != tensor.kind.shape or given.dtype is not tensor.dtype:
        raise InvalidArgument(
            "the gradient to begin with is like the tensor itself\n"
            f"  expected: {tensor.kind.spec}\n  got:      {given.kind.spec}"
        )
    return given.array


def tensor_from(array: Any, source: Any) -> Tensor:
    """A tensor that came from a recorded op, or from none."""
    tensor = Tensor(array, stop_gradient=source is None)
    tensor.source = source
    return tensor
