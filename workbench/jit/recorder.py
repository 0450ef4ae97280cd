"""CaptureRecorder: ops that are applied to tensors become operators of a new program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from workbench.autodiff.backward import gradients
from workbench.dygraph.dispatch.recorder import dynamic_recorder
from workbench.dygraph.tensor.tensor import Tensor
from workbench.dygraph.witness import witness
from workbench.errors import InvalidType
from workbench.framework import names
from workbench.framework.gradmode import recording_gradients
from workbench.framework.op.record import Op, flat
from workbench.framework.op.recorder import recording
from workbench.framework.program.guard import program_guard, static_recorder
from workbench.framework.program.program import Program
from workbench.framework.program.variable import Variable
from workbench.framework.site import caller
from workbench.framework.values.spec import Spec
from workbench.jit.averaging import Averaging, ProcessExchange
from workbench.jit.leaf_gradients import LeafGradients, through_hooks
from workbench.jit.sameness import Recorded
from workbench.jit.values.arguments import mapped
from workbench.jit.values.bindings import TensorBindings
from workbench.jit.values.captured_tensor import CapturedTensor, NeedsValue, refusals
from workbench.jit.values.integer_reads import IntegerReads
from workbench.jit.values.python_reads import PythonReads, ReadValue, memory_id
from workbench.jit.values.raw_arrays import raw_arrays_told
from workbench.jit.values.sources import Sources
from workbench.ops.tensor.assign import ASSIGN
from workbench.runtime.standing import standing


class CaptureRecorder:
    """Appends every applied op to a program of its own. Tensors that were there before become persistable variables.

    Attributes:
        program, startup: what is recorded; what fills the variables that stand for no tensor.
        bindings: the tensors that were met. leaf_gradients: what becomes of `grad`.
        averaging: whose gradients are means over processes.
        optimizers: those that have updated something. reads: values of tensors that Python looks at.
        integers: those that Python reads of what the function computes.
        sources: what the function has called that gives something else in every call.
        is_open: the function is still running. refused: what it was refused so far.
    """

    name = "capture"
    zero_dim = True
    is_eager = False

    def __init__(self, name: str, known: Sequence[Tensor] = ()) -> None:
        self.program, self.startup = Program(), Program()
        self.program.name = name
        self.bindings = TensorBindings(self.program)
        self.leaf_gradients = LeafGradients(self.program, self.bindings, known)
        self.averaging = Averaging()
        self.optimizers: list[Any] = []
        self.reads = PythonReads(self.bindings.has_memory_of)
        self.integers = IntegerReads(self.program, self.bindings)
        self.sources = Sources()
        self.is_open = True
        self.refused: list[NeedsValue] = []
        self._with_history: set[str] = set()  # variables written over by values that pass gradients
        self._names = names.current()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Record what is done in the `with` body; `grad` of tensors from outside is to be put back behind it."""
        with (
            program_guard(self.program, self.startup), recording(self), self._names_of_all(), raw_arrays_told(),
            refusals.replaced(self.refused), self.sources.watched(),
        ):  # fmt: skip
            token = witness.set(self.reads)
            try:
                yield
            finally:
                witness.reset(token)
                self.is_open = False

    def _names_of_all(self) -> AbstractContextManager[Any]:
        """One of several processes names values as the others do, whatever it has named before."""
        return names.guard() if standing().size > 1 else nullcontext()

    def values_read(self) -> list[ReadValue]:
        """The values of tensors from outside that Python has read.

        Raises:
            NeedsValue: what was recorded changes one.
        """
        names = {name for op in self.program.all_ops() for name in op.output_arg_names}
        changing = [each.tensor for each in self.bindings if each.variable.name in names]
        changing += [each.before for each in self.leaf_gradients.by_tensor.values() if each.before is not None]
        return self.reads.kept(set(map(memory_id, changing)))

    def said(self, feeds: Sequence[str], outputs: Any) -> Recorded:
        """What was recorded, to be compared with other recordings of the function."""
        return Recorded(self.program, feeds, outputs, self.bindings, list(self.leaf_gradients.by_tensor.values()))

    def argument(self, name: str, spec: Spec, given: Tensor) -> CapturedTensor:
        """What stands for a tensor the function is called with; of its shape the program knows what `spec` says."""
        block = self.program.global_block()
        while block.has_var(name):
            name = names.generate(name)
        variable = block.create_var(
            name, spec.shape, spec.dtype, stop_gradient=given.stop_gradient, is_data=True, need_check_feed=True
        )
        self.integers.arguments[name] = given
        return CapturedTensor(variable, self)

    # What ops become

    def record(self, op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any], name: str | None) -> Any:
        given = tuple([self._operand(op, value) for value in op.every_input(inputs)])
        outputs = static_recorder.record(op, given, attrs, name)
        passes = recording_gradients.get() and op.differentiable and _wants_gradient(op, given)
        return self._wrapped(outputs, passes)

    def _wrapped(self, output: Any, passes: bool) -> Any:
        if output is None:
            return None
        if isinstance(output, list | tuple):
            return type(output)(self._wrapped(part, passes) for part in output)
        if not passes:
            output.stop_gradient = True
        return CapturedTensor(output, self)

    def _operand(self, op: Op, value: Any) -> Any:
        if value is None or isinstance(value, Variable):
            return value
        if isinstance(value, list | tuple):
            return [self._operand(op, v) for v in value]
        if isinstance(value, np.ndarray | np.generic):
            value = Tensor(np.array(value))
        if not isinstance(value, Tensor):
            raise InvalidType(f"op {op.type!r} takes Tensors, got {type(value).__name__} {value!r}\n  at {caller()}")
        return self.variable(value)

    def variable(self, tensor: Tensor) -> Variable:
        """What stands for a tensor in the program."""
        if isinstance(tensor, CapturedTensor):
            if tensor.variable.block.program is not self.program:
                raise NeedsValue(
                    f"tensor {tensor.name!r} stood for a value while another function was recorded; have that function "
                    f"return it\n  at {caller()}"
                )
            return tensor.variable
        variable = self.bindings.bound(tensor).variable
        if variable.name in self._with_history and recording_gradients.get():
            raise NeedsValue(
                f"tensor {tensor.name!r} was written over by a value that wants a gradient, and is read again while "
                "gradients are recorded: what is recorded would lose it\n  go on with the value itself, or write its "
                f"detach()\n  at {caller()}"
            )
        if tensor.stop_gradient and not variable.stop_gradient:
            return self._cut(variable)  # detached from a parameter
        return variable

    def _cut(self, variable: Variable) -> Variable:
        copied: Variable = static_recorder.record(ASSIGN, (variable,), {}, None)
        copied.stop_gradient = True
        return copied

    def detached(self, tensor: CapturedTensor) -> CapturedTensor:
        """The same value, through which no gradient flows."""
        return CapturedTensor(self._cut(self.variable(tensor)), self)

    def on_variables(self, function: Callable[..., Any], *given: Any) -> Any:
        """`function` of the variables of tensors; functions among `given` go on being recorded."""
        with recording(static_recorder):
            results = function(*mapped(given, self._as_variables))
        return mapped(results, self._as_tensor)

    def _as_variables(self, value: Any) -> Any:
        """A tensor as its variable; a function of tensors as one of variables."""
        if isinstance(value, Tensor):
            return self.variable(value)
        if not callable(value):
            return value

        def of_variables(*variables: Any) -> Any:
            with recording(self):
                results = value(*mapped(variables, self._as_tensor))
            return mapped(results, self._as_variables)

        return of_variables

    def _as_tensor(self, value: Any) -> Any:
        return self._wrapped(value, recording_gradients.get()) if isinstance(value, Variable) else value

    # What is written

    def restore_own(self) -> None:
        """Record that tensors which the function makes of Python's values, and writes, begin every run with these.

        Called behind the function, whose writes are operators: the values are still there.
        """
        block = self.program.global_block()
        written = {name for op in self.program.all_ops() for name in op.output_arg_names}
        own = [each for each in self.bindings if each.variable.name in written and self.reads.is_made(each.tensor)]
        for each in own:
            first = self.bindings.bound(Tensor(each.storage.array.copy())).variable
            block.prepend_op(ASSIGN.type, inputs={"X": first}, outputs={"Out": each.variable})

    def record_into(self, write: Any, given: dict[str, Any]) -> Any:
        """An op that writes tensors there are."""
        inputs = {slot: self.variable(t) for slot, t in {**write.inputs, **given}.items() if t is not None}
        outputs = {slot: self.variable(t) for slot, t in write.outputs.items() if t is not None}
        block = self.program.current_block()
        return block.append_op(write.op.type, inputs=inputs, outputs=outputs, attrs=write.attrs)

    def integer(self, variable: Variable) -> int:
        """What a variable of one integer holds in the call that is recorded; another value is recorded anew."""
        return self.integers.value(variable)

    def obstacle(self, variable: Variable) -> str | None:
        """Why that is not known; None if it is."""
        return self.integers.obstacle(variable)

    def write_over(self, tensor: Tensor, value: CapturedTensor) -> None:
        """Have the value of a tensor from outside replaced."""
        target, given = self.bindings.bound(tensor).variable, self.variable(value)
        self.program.current_block().append_op(ASSIGN.type, inputs={"X": given}, outputs={"Out": target})
        (self._with_history.discard if given.stop_gradient else self._with_history.add)(target.name)

    def role_guard(self, role: int, pair: Sequence[Any]) -> AbstractContextManager[None]:
        """Operators appended in the `with` body belong to an update."""
        return self.program.role_guard(role, [self.variable(t) for t in pair])

    def average_over(self, exchange: ProcessExchange) -> None:
        """Gradients of what a model computes from here on are means over processes."""
        self.averaging.note(exchange)

    def begin_update(self, optimizer: Any, pairs: Sequence[Any]) -> None:
        """States are tensors, made now; the program works on them."""
        with recording(dynamic_recorder), names.guard(self._names):
            optimizer.make_states([tensor for tensor, _ in pairs])
        if optimizer not in self.optimizers:
            self.optimizers.append(optimizer)

    def gradients_of(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], given: Sequence[Any], create_graph: bool,
        blocked: Sequence[Tensor],
    ) -> list[Tensor | None]:  # fmt: skip
        """Append the gradients of outputs by inputs; see `paddle.grad`."""
        targets = [tensor for tensor in outputs if not tensor.stop_gradient]
        if not targets:
            return [None] * len(inputs)
        first = [
            None if g is None else self.variable(g)
            for tensor, g in zip(outputs, given, strict=True)
            if not tensor.stop_gradient
        ]
        with recording(static_recorder):
            grads = gradients(
                [self.variable(t) for t in targets], [self.variable(t) for t in inputs], first,
                {self.variable(t).name for t in blocked},
            )  # fmt: skip
        wrapped = [None if v is None else self._wrapped(v, create_graph) for v in grads]
        return [None if g is None else through_hooks(tensor, g) for tensor, g in zip(inputs, wrapped, strict=True)]

    def backward(self, tensor: CapturedTensor, grad_tensor: Any) -> None:
        """Append the gradients of what a tensor was computed from."""
        loss: Any = tensor if grad_tensor is None else tensor * grad_tensor
        if loss.shape not in ([], [1]):
            loss = loss.sum()
        self.leaf_gradients.append_backward(self.variable(loss), lambda variable: CapturedTensor(variable, self))


def _wants_gradient(op: Op, given: Sequence[Any]) -> bool:
    receiving = [value for slot, value in zip(op.inputs, given, strict=True) if slot.name not in op.no_grad]
    return any(not v.stop_gradient and v.dtype.is_float for v in flat(receiving))
