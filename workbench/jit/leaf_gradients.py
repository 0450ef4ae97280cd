"""LeafGradients: `grad` of the tensors that a recorded function computes gradients of.

While it is recorded, `grad` of a tensor from outside is what stands for its gradient. What is left there at the end
becomes a tensor of its own, which every run writes; what was there at the beginning and is added to is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import call
from typing import Any

import numpy as np

from workbench.autodiff.backward import append_backward
from workbench.dygraph.overwrites import clock, write_since
from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import InvalidArgument, PreconditionNotMet, Unimplemented
from workbench.framework.gradmode import recording_gradients
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.roles import BACKWARD, OPTIMIZE
from workbench.framework.program.variable import Variable
from workbench.framework.site import caller
from workbench.framework.values.spec import DENSE
from workbench.jit.values.bindings import TensorBindings
from workbench.jit.values.captured_tensor import CapturedTensor
from workbench.ops.tensor.assign import ASSIGN
from workbench.runtime.undisturbed import Call

Wrap = Callable[[Variable], Tensor]


class LeafGradient:
    """What a recorded function does to `grad` of a tensor.

    Attributes:
        before: what was there when it was recorded, put back behind that.
        reads: the function adds to a gradient that it found.
        clears: whatever it finds there is forgotten before something is added.
        after: what is there behind a run, as a tensor of its own; None if nothing is.
    """

    __slots__ = ("after", "before", "clears", "reads", "tensor")

    def __init__(self, tensor: Tensor, before: Tensor | None, reads: bool, clears: bool) -> None:
        self.tensor, self.before, self.reads, self.clears = tensor, before, reads, clears
        self.after: Tensor | None = None

    @property
    def is_lasting(self) -> bool:
        """Whether a run leaves there what it found."""
        return self.after is (self.before if self.reads else None)

    def fits(self) -> bool:
        """Whether what a run would find there is what the function found when it was recorded."""
        grad = self.tensor._grad
        if self.clears or (grad is self.before and (self.reads or grad is None)):
            return True
        if self.reads:
            return grad is not None and self._take_over(grad)
        if grad is None:
            return True
        if not _is_zero(grad):
            return False
        self.tensor._grad = None
        return True

    def _take_over(self, grad: Tensor) -> bool:
        """Have the tensor that a run reads hold another gradient, which dynamic mode has put there."""
        assert self.before is not None
        if grad.kind is not self.before.kind:
            return False
        self.before.set_value(grad)
        self.tensor._grad = self.before
        return True


class LeafGradients:
    """Gradients that are recorded.

    Args:
        program: what is recorded. bindings: the tensors it works on.
        known: tensors that were given gradients when the function was recorded before.

    Attributes:
        by_tensor: what each gets, in the order in which they were met.
        losses: names of the variables that were minimized.
        putting_back: gives tensors from outside the `grad` they had, when it is gone through: by C alone, so that no
            signal comes in between.
    """

    def __init__(self, program: Program, bindings: TensorBindings, known: Sequence[Tensor] = ()) -> None:
        self._program, self._bindings = program, bindings
        self._begun = clock.now
        self._at_first = {id(tensor): tensor._grad for tensor in known}
        self.by_tensor: dict[int, LeafGradient] = {}
        self.losses: list[str] = []
        self._before: list[Call] = []
        self.putting_back: Iterator[Any] = map(call, self._before)

    def append_backward(self, loss: Variable, wrap: Wrap) -> None:
        """Record the gradients of a loss, and their addition to `grad` of the leaves.

        Raises:
            PreconditionNotMet: it was computed with values that an update has overwritten since.
        """
        if loss.stop_gradient:
            return
        block = self._program.global_block()
        before = len(block.ops)
        pairs = append_backward(loss)
        _require_untouched(block.ops, before)
        self.losses.append(loss.name)
        tensors = {each.variable.name: each.tensor for each in self._bindings}
        for parameter, gradient in pairs:
            tensor = tensors[parameter.name]
            with self._program.role_guard(BACKWARD):
                arriving = through_hooks(tensor, wrap(gradient))
            self._add(tensor, arriving)

    def _add(self, tensor: Tensor, gradient: Tensor) -> None:
        if id(tensor) not in self.by_tensor:
            self._meet(tensor)
        if tensor._grad is None:
            tensor._grad = gradient
            return
        if not (tensor._grad.kind.is_dense and gradient.kind.is_dense):
            raise Unimplemented(f"sparse gradients are not added up in what is recorded\n  at {caller()}")
        with self._program.role_guard(BACKWARD):
            tensor._grad = tensor._grad + gradient

    def _meet(self, tensor: Tensor) -> None:
        """What there is before the first gradient of a tensor."""
        grad = tensor._grad
        clears = (grad is None and self._at_first.get(id(tensor)) is not None) or (
            grad is not None and write_since(grad.array, self._begun) is not None and _is_zero(grad)
        )
        reads = grad is not None and not clears and not _is_zero(grad)
        self._note(LeafGradient(tensor, grad, reads, clears))
        if not reads:
            tensor._grad = None

    def _note(self, met: LeafGradient) -> None:
        self._before.append(partial(setattr, met.tensor, "_grad", met.before))
        self.by_tensor[id(met.tensor)] = met

    def keep(self) -> None:
        """Record that what is left becomes tensors of their own."""
        for bound in list(self._bindings):  # what the function itself has put there
            if isinstance(bound.tensor._grad, CapturedTensor) and id(bound.tensor) not in self.by_tensor:
                self._note(LeafGradient(bound.tensor, None, reads=False, clears=True))
        for each in self.by_tensor.values():
            left = each.tensor._grad
            if left is None:
                continue
            after = each.before
            if after is None or after.kind is not left.kind:
                after = Tensor(np.zeros(left.kind.shape, left.kind.dtype.numpy), stop_gradient=True)
            if left.kind.spec.kind != DENSE:
                raise Unimplemented(
                    f"the sparse gradient of {each.tensor.name!r} cannot be left behind by what is recorded; clear it"
                )
            with self._program.role_guard(OPTIMIZE):
                target = self._bindings.bound(after).variable
                self._program.global_block().append_op(ASSIGN.type, inputs={"X": left.name}, outputs={"Out": target})
            each.after = after


def through_hooks(tensor: Tensor, gradient: Tensor) -> Tensor:
    """What the hooks of a tensor make of its gradient.

    Raises:
        InvalidArgument: something of another shape.
    """
    for hook in list((tensor._hooks or {}).values()):
        with recording_gradients.replaced(False):
            changed = hook(gradient)
        if changed is not None and changed.shape != gradient.shape:
            raise InvalidArgument(
                "a hook returns a gradient like the one it is given, or None\n"
                f"  expected: shape {gradient.shape}\n  got:      shape {changed.shape}\n  at {caller()}"
            )
        gradient = gradient if changed is None else changed
    return gradient


def _is_zero(grad: Tensor) -> bool:
    return grad.kind.is_dense and type(grad) is Tensor and not grad.array.any()


def _require_untouched(ops: Sequence[Operator], before: int) -> None:
    """The values that new gradients are computed with are those of the forward ops.

    Raises:
        PreconditionNotMet: an update has overwritten one.
    """
    updated = {name: i for i, op in enumerate(ops[:before]) if op.role & OPTIMIZE for name in op.output_arg_names}
    for op in ops[before:] if updated else ():
        names = [name for name in op.input_arg_names if name in updated]
        if names and op.record.forward_of is not None:
            position = _forward_position(ops[:before], op)
            late = [name for name in names if updated[name] > position]
            if late:
                raise PreconditionNotMet(
                    f"the gradient of op {op.record.forward_of.type!r} needs {late[0]!r}, which an update has "
                    f"overwritten since; call backward() before step()\n  at {caller()}"
                )


def _forward_position(ops: Sequence[Operator], grad: Operator) -> int:
    forward: Any = grad.record.forward_of
    carried = {slot.name for slot in (*forward.inputs, *forward.outputs)} & grad.inputs.keys()
    for position, op in enumerate(ops):
        own = {**op.inputs, **op.outputs}
        if op.type == forward.type and all(own.get(slot) == grad.inputs[slot] for slot in carried):
            return position
    return len(ops)
