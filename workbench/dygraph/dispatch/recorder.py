"""DynamicRecorder: what stands behind the call of an op in dynamic mode."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from marshal import dumps
from typing import Any, NoReturn

import numpy as np

from workbench.dygraph.dispatch.prepared import PreparedOp
from workbench.dygraph.dispatch.writes import PreparedWrite, write_all
from workbench.dygraph.kinds import kind_of
from workbench.dygraph.overwrites import clock
from workbench.dygraph.tape.node import TapeNode, TapeOutput, next_number
from workbench.dygraph.tape.packing import hooks_in_use, pack
from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import EnforceNotMet, ExecutionError, InvalidArgument, InvalidType, add_line
from workbench.framework.gradmode import recording_gradients
from workbench.framework.op.record import Op
from workbench.framework.op.write import OpWrite
from workbench.framework.outside import is_from_outside
from workbench.framework.program.failures import op_failure
from workbench.framework.program.infer import infer
from workbench.framework.program.variable import Variable
from workbench.framework.site import OURS, caller
from workbench.framework.values.memory import is_refused_memory

_KEPT = 8192  # signatures
_LONG = 2048  # bytes of attributes beyond which a signature is not kept

_new_tensor = Tensor.__new__
_new_node = TapeNode.__new__


class DynamicRecorder:
    """Computes every applied op at once on Tensors (or NumPy arrays), and records it where a gradient may be wanted.

    What an op does with inputs of given shapes and dtypes is prepared once and found again by its *signature*: op,
    attributes and the kinds of the inputs.
    """

    name = "dynamic"
    zero_dim = is_eager = True

    def __init__(self) -> None:
        self._calls: dict[Any, PreparedOp] = {}

    def record(self, op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any], name: str | None) -> Any:
        # What is written out here for one and for two inputs is what the loops of `_apply` do; most ops have as many.
        count = len(inputs)
        if op.has_lists:
            call, inputs = self._found(op, inputs, attrs)
            return self._apply_general(call, inputs)
        key: tuple[Any, ...]
        try:
            if count == 2:
                x, y = inputs
                key = (op, dumps(attrs, 2), x.kind, y.kind) if attrs else (op, x.kind, y.kind)
            elif count == 1:
                (x,) = inputs
                key = (op, dumps(attrs, 2), x.kind) if attrs else (op, x.kind)
            else:
                key = (op, dumps(attrs, 2), *[t.kind for t in inputs]) if attrs else (op, *[t.kind for t in inputs])
            call = self._calls[key]
        except (KeyError, AttributeError, ValueError):
            call, inputs = self._found(op, inputs, attrs)
            return self.apply(call, inputs)
        if not call.is_plain or count > 2 or not count:
            return self.apply(call, inputs)
        tensor = _new_tensor(Tensor)
        tensor.kind = call.kind
        if count == 1:
            arrays = [x.array]
            try:
                result = tensor.array = call.compute(x.array)
            except Exception as error:
                _fail(call.name, error)
            if call.receivers and not x.stop_gradient and recording_gradients.get():
                tensor.stop_gradient, tensor.source = False, _node(call, (x.source or x,), arrays, result)
                return tensor
        else:
            arrays = [x.array, y.array]
            try:
                result = tensor.array = call.compute(x.array, y.array)
            except Exception as error:
                _fail(call.name, error)
            if call.receivers and not (x.stop_gradient and y.stop_gradient) and recording_gradients.get():
                first = None if x.stop_gradient else x.source or x
                second = None if y.stop_gradient else y.source or y
                edges = (first, second) if len(call.receivers) == 2 else (second if call.receivers[0] else first,)
                if edges != (None,):
                    tensor.stop_gradient, tensor.source = False, _node(call, edges, arrays, result)
                    return tensor
        tensor.stop_gradient, tensor.source = True, None
        return tensor

    def record_into(self, write: OpWrite, given: dict[str, Any]) -> None:
        """Compute an op over the tensors it writes.

        Raises:
            InvalidArgument, InvalidType: naming op, expected, got and the line.
        """
        self.record_all_into([(write, given)])

    def record_all_into(self, writes: Iterable[tuple[OpWrite, dict[str, Any]]]) -> None:
        """Compute ops over the tensors they write, all or, where Ctrl-C comes, none of them.

        Raises:
            InvalidArgument, InvalidType: naming ops, expected, got and the line.
        """
        prepared = [(self._prepared_write(write, given), given) for write, given in writes]
        try:
            write_all(prepared)
        except Exception as error:
            _fail(", ".join(dict.fromkeys(write.name for write, _ in prepared)), error)

    def _prepared_write(self, write: OpWrite, given: dict[str, Any]) -> PreparedWrite:
        prepared: PreparedWrite | None = write.prepared
        if prepared is None or not prepared.fits(given):
            inputs = [_operand(write.op, {**write.inputs, **given}.get(slot.name)) for slot in write.op.inputs]
            call, _ = self._prepared(write.op, tuple(inputs), write.attrs)
            prepared = write.prepared = PreparedWrite(write, given, call.attrs)
        return prepared

    def on_variables(self, function: Callable[..., Any], *given: Any) -> Any:
        """`function(*given)`: there are no variables."""
        return function(*given)

    def role_guard(self, role: int, pair: Sequence[Any]) -> AbstractContextManager[None]:
        """Nothing: there are no operators."""
        return nullcontext()

    def begin_update(self, optimizer: Any, pairs: Sequence[Any]) -> None:
        """See that all gradients fit, before anything is done.

        Raises:
            InvalidArgument: one has another shape than its parameter.
        """
        for parameter, grad in pairs:
            if grad.kind is not parameter.kind and grad.kind.shape != parameter.kind.shape:
                raise InvalidArgument(
                    f"{type(optimizer).__name__}: the gradient of {parameter.name!r} is shaped like it\n"
                    f"  expected: {parameter.kind.spec}\n  got:      {grad.kind.spec}\n  at {caller()}"
                )

    def apply(self, call: PreparedOp, inputs: tuple[Any, ...]) -> Any:
        """Compute a prepared op on tensors of the kinds it was prepared for, and record it."""
        return self._apply_plain(call, inputs) if call.is_plain else self._apply_general(call, inputs)

    def _apply_plain(self, call: PreparedOp, inputs: tuple[Any, ...]) -> Tensor:
        """An op of tensors with one output."""
        arrays = [t.array for t in inputs]
        tensor = _new_tensor(Tensor)
        tensor.kind = call.kind
        try:
            result = tensor.array = call.compute(*arrays)
        except Exception as error:
            _fail(call.name, error)
        edges = tuple([None if (t := inputs[i]).stop_gradient else t.source or t for i in call.receivers])
        if any(e is not None for e in edges) and recording_gradients.get():
            tensor.stop_gradient, tensor.source = False, _node(call, edges, arrays, result)
        else:
            tensor.stop_gradient, tensor.source = True, None
        return tensor

    # Slower ways

    def _found(self, op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[PreparedOp, tuple[Any, ...]]:
        """`_prepared` for lists and absent inputs, if it was prepared before."""
        try:
            parts = [tuple([t.kind for t in v]) if type(v) is list else None if v is None else v.kind for v in inputs]
            return self._calls[(op, dumps(attrs, 2), *parts) if attrs else (op, *parts)], inputs
        except (KeyError, AttributeError, ValueError):
            return self._prepared(op, inputs, attrs)

    def _prepared(self, op: Op, given: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[PreparedOp, tuple[Any, ...]]:
        """The op for these inputs, and the inputs, all of them, as tensors.

        Raises:
            InvalidArgument, InvalidType: naming op, expected, got and the line.
        """
        from workbench.dygraph.tensor import methods  # noqa: F401 (they need the ops; loaded with the first tensor)

        inputs = tuple([_operand(op, value) for value in op.every_input(given)])
        kinds = [_kinds(value) for value in inputs]
        key = _key(op, attrs, kinds)
        call = self._calls.get(key) if key is not None else None
        if call is None:
            complete = op.complete(attrs)
            specs = infer(op, [_specs(k) for k in kinds], complete, [None] * len(kinds), caller())
            form = op.form_for(kind.spec.kind for kind in kinds if kind is not None and not isinstance(kind, list))
            try:
                call = PreparedOp(form, complete, kinds, specs)
            except Exception as error:  # what is settled once may take as much memory as the result
                _fail(op.type, error)
            if key is not None:
                if len(self._calls) >= _KEPT:
                    self._calls.clear()
                self._calls[key] = call
        return call, inputs

    def _apply_general(self, call: PreparedOp, inputs: tuple[Any, ...]) -> Any:
        """An op with lists, absent inputs or several outputs."""
        if len(inputs) < len(call.input_kinds):
            inputs = call.op.every_input(inputs)
        arrays = [_arrays(value) for value in inputs]
        try:
            results = call.compute(*arrays)
        except Exception as error:
            _fail(call.name, error)
        slots = (results,) if len(call.op.outputs) == 1 else results
        sources = _sources(call, inputs, arrays, slots)
        outputs: list[Any] = []
        for slot, result in zip(call.op.outputs, slots, strict=True):
            if slot.is_list:
                outputs.append([_tensor(array, next(sources)) for array in result])
            else:
                source = next(sources)
                outputs.append(_tensor(result, None if slot.name in call.op.by_products else source))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _tensor(array: Any, source: Any) -> Any:
    if array is None:
        return None
    tensor = _new_tensor(Tensor)
    tensor.array, tensor.kind = array, kind_of(array)
    is_recorded = source is not None and tensor.kind.is_float
    tensor.stop_gradient, tensor.source = not is_recorded, source if is_recorded else None
    return tensor


def _sources(call: PreparedOp, inputs: tuple[Any, ...], arrays: list[Any], slots: Sequence[Any]) -> Any:
    """Where the outputs, lists opened, come from: for each an entry, None if nothing was recorded."""
    wants = any(not t.stop_gradient for i in call.receivers for t in _opened(inputs[i]))
    if not wants or not recording_gradients.get():
        return iter([None] * call.outputs)
    node = _node(call, tuple([_edge(t) for i in call.receivers for t in _opened(inputs[i])]), arrays, slots)
    if call.is_single:
        return iter([node])
    return (None if i in call.constants else TapeOutput(node, i) for i in range(call.outputs))


def _opened(value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    return value if isinstance(value, list) else (value,)


def _edge(t: Tensor) -> Any:
    return None if t.stop_gradient else t.source or t


def _node(call: PreparedOp, edges: tuple[Any, ...], arrays: list[Any], results: Any) -> TapeNode:
    """The node of an op.

    Args:
        results: the result of a plain op, one entry per slot of others.
    """
    node = _new_node(TapeNode)
    node.call, node.edges = call, edges
    node.arrays = arrays if call.saves_inputs_only else call.saved(arrays, (results,) if call.is_plain else results)
    node.number, node.time = next_number(), clock.now
    node.hooks = node.retained = node.rewrites = None
    node.is_view = call.is_view and _shows(results if call.is_plain else results[0], arrays[0])
    if hooks_in_use:
        pack(node, call.is_kept)
    frame = sys._getframe(2)
    while OURS[frame.f_code.co_filename] and frame.f_back is not None:
        frame = frame.f_back
    node.code, node.lasti = frame.f_code, frame.f_lasti
    return node


def _shows(result: Any, array: Any) -> bool:
    """Whether the result of a view op lies in the memory of its input; some shapes can only be had by a copy."""
    base = result.base
    return base is array or (base is not None and base is array.base)


# Inputs


def _operand(op: Op, value: Any) -> Any:
    if value is None or isinstance(value, Tensor):
        return value
    if isinstance(value, list | tuple):
        return [_operand(op, v) for v in value]
    if isinstance(value, np.ndarray | np.generic):
        return Tensor(np.array(value))  # an op may return a view, and the caller goes on using the array
    if isinstance(value, Variable):
        raise InvalidType(
            f"op {op.type!r} got {value.name!r}, a Variable of a static Program, in dynamic mode; "
            "call enable_static() before building a program"
        )
    raise InvalidType(f"op {op.type!r} takes Tensors, got {type(value).__name__} {value!r}; use to_tensor()")


def _kinds(value: Any) -> Any:
    if value is None:
        return None
    return [t.kind for t in value] if isinstance(value, list) else value.kind


def _specs(kind: Any) -> Any:
    if kind is None:
        return None
    return [k.spec for k in kind] if isinstance(kind, list) else kind.spec


def _arrays(value: Any) -> Any:
    if value is None:
        return None
    return [t.array for t in value] if isinstance(value, list) else value.array


def _key(op: Op, attrs: dict[str, Any], kinds: Sequence[Any]) -> Any:
    """What a prepared op is found by; None if its attributes cannot be told apart."""
    parts = tuple([tuple(k) if isinstance(k, list) else k for k in kinds])
    if not attrs:
        return op, *parts
    try:
        written = dumps(attrs, 2)
    except ValueError:
        return None
    return (op, written, *parts) if len(written) <= _LONG else None


def _fail(name: str, error: Exception) -> NoReturn:
    """Raise the error of a body, with the op and the user's line."""
    if is_from_outside(error):
        raise error
    if is_refused_memory(error):
        raise op_failure(name, "", (), caller(), error) from None
    line = f"in op {name!r} at {caller()}"
    if isinstance(error, EnforceNotMet):
        if not error.located:
            add_line(error, line)
            error.located = True
        raise error
    failed = ExecutionError(f"{type(error).__name__}: {error}\n  {line}")
    failed.located = True
    raise failed from error


dynamic_recorder = DynamicRecorder()
