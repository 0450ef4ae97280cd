"""PreparedOp: an op with its attributes, for inputs of given kinds. What can be settled once is settled here.

Inputs are told by slot, lists as entries; outputs by their number among all of them, lists opened. An op whose inputs
are single tensors and whose output is one tensor goes a shorter way (`is_plain`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.dygraph.dispatch.fast_calls import fast_backward, fast_forward
from workbench.dygraph.dispatch.kernels import BackwardKernels, kernel_of, with_kernel
from workbench.dygraph.kinds import Kind, kind_like
from workbench.dygraph.tape.node import TapeNode
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.record import Op, grad_slot
from workbench.framework.quiet import quiet
from workbench.framework.values.random import RandomStream
from workbench.framework.values.spec import Spec

_WARM = 3  # uses after which it pays to prepare faster calls


class PreparedOp:
    """An op for inputs of given kinds.

    Args:
        op: the op. attrs: complete. kinds: of the inputs: a Kind, a list of them, or None.
        specs: of the outputs, one entry per slot, from the op's `infer`.

    Attributes:
        name: the op's type.
        is_plain: every input is one tensor, the output is one tensor of `kind`.
        is_view: the output may lie in the memory of the input.
        outputs: how many there are, lists opened. is_single: one output that is no list.
        receivers: positions of the inputs that can get a gradient; empty if there is none.
        constants: numbers of the outputs no gradient flows through: those that take over an input that gets none, as
            the running statistics of a normalisation.
        saves: the gradient needs values. saves_inputs_only: those of all inputs, and no others.
        is_users: False, see `RecordedCall`.
        compute: from arrays to the body's result.
    """

    __slots__ = (
        "_back", "_has_lists", "_kept_outputs", "_placeholders", "_saves_all", "_uses", "attrs", "compute", "constants",
        "input_kinds", "is_plain", "is_single", "is_view", "kind", "name", "op", "outputs", "receivers", "saves",
        "saves_inputs_only", "specs",
    )  # fmt: skip

    is_users = False

    def __init__(self, op: Op, attrs: dict[str, Any], kinds: Sequence[Any], specs: Sequence[Any]) -> None:
        self.op, self.attrs, self.name = op, attrs, op.type
        self.input_kinds, self.specs = list(kinds), list(specs)
        self.is_single = len(specs) == 1 and isinstance(specs[0], Spec)
        one = self.is_single and -1 not in specs[0].shape
        self.kind: Any = kind_like(specs[0]) if one else None
        self.is_plain = one and all(type(kind) is Kind for kind in kinds)
        self.is_view = op.is_view
        self.outputs = sum(1 for _ in _opened(specs))
        self.receivers = self._receivers()
        self.constants = self._constants()
        self._uses = 0
        self._back: dict[Any, Callable[..., Any]] = {}
        self._has_lists = any(isinstance(kind, list) for kind in [*kinds, *specs])
        self._plan_saving()
        self.compute: Callable[..., Any] = self._forward_call()

    # Forward

    def _forward_call(self) -> Callable[..., Any]:
        kernel = None if self._has_lists else kernel_of(self.op, self.attrs, self._input_specs(), self.specs)
        return self._first if kernel is None else with_kernel(kernel, self._body, len(self.specs) == 1)

    def _input_specs(self) -> list[Spec | None]:
        """Of single tensors."""
        return [None if kind is None else kind.spec for kind in self.input_kinds]

    def _first(self, *arrays: Any) -> Any:
        """Run the body; after some uses prepare a faster call."""
        self._uses += 1
        if self._uses == _WARM and not self.op.needs:
            fast = fast_forward(self.op, self.attrs, self.input_kinds, self.kind) if self.is_plain else None
            self.compute = fast or self._settled()
        return self._body(*arrays)

    def _settled(self) -> Callable[..., Any]:
        """The body with its attributes; most results need no second look."""
        body = partial(self.op.forward, numpy_xp, **self.attrs)
        if not self.is_single:
            return lambda *arrays: _of_its_own(quiet.run(body, *arrays), arrays)

        def compute(*arrays: Any) -> Any:
            result = quiet.run(body, *arrays)
            if result.__class__ is np.ndarray and result.base is None:
                for array in arrays:
                    if result is array:
                        return result.copy()
                return result
            return _of_its_own(result, arrays)

        return compute

    def _body(self, *arrays: Any) -> Any:
        extra: dict[str, Any] = {}
        if self.op.needs:
            if "rng" in self.op.needs:
                extra["rng"] = RandomStream.dynamic(self.attrs.get("seed", 0))
            if "wanted" in self.op.needs:
                extra["wanted"] = (True,) * len(self.op.outputs)
        result = quiet.run(partial(self.op.forward, numpy_xp, *arrays, **extra, **self.attrs))
        if not self.op.is_view:
            result = _of_its_own(result, arrays)
        return result

    # What the gradient needs

    def _receivers(self) -> tuple[int, ...]:
        op = self.op
        if not op.differentiable or not any(s is not None and s.dtype.is_float for s in _opened(self.specs)):
            return ()
        return tuple(
            i
            for i, (slot, kind) in enumerate(zip(op.inputs, self.input_kinds, strict=True))
            if slot.name not in op.no_grad and _is_float(kind)
        )

    def _constants(self) -> frozenset[int]:
        op = self.op
        if not op.no_grad or not op.aliases:
            return frozenset()
        return frozenset(i for i, slot in enumerate(op.outputs) if op.aliases.get(slot.name) in op.no_grad)

    def _plan_saving(self) -> None:
        op = self.op
        kept = [slot.name in op.saved or kind is None for slot, kind in zip(op.inputs, self.input_kinds, strict=True)]
        self._saves_all = all(kept)
        self._placeholders = [
            None if keep else _placeholder(kind) for keep, kind in zip(kept, self.input_kinds, strict=True)
        ]
        self._kept_outputs = tuple(i for i, slot in enumerate(op.outputs) if slot.name in op.saved)
        self.saves_inputs_only = self._saves_all and not self._kept_outputs
        self.saves = any(slot.name in op.saved for slot in op.inputs) or bool(self._kept_outputs)

    @property
    def is_kept(self) -> list[bool]:
        """Of each entry of `saved`, whether it is a value, a single one."""
        inputs = [
            type(kind) is Kind and stand_in is None
            for kind, stand_in in zip(self.input_kinds, self._placeholders, strict=True)
        ]
        return inputs + [not self.op.outputs[i].is_list for i in self._kept_outputs]

    def saved(self, arrays: list[Any], results: Sequence[Any]) -> list[Any]:
        """The values the gradient needs, in the order of the backward op's slots; stand-ins for those of which it
        needs only the shape."""
        if not self._saves_all:
            arrays = [a if p is None else p for a, p in zip(arrays, self._placeholders)]
        return [*arrays, *[results[i] for i in self._kept_outputs]] if self._kept_outputs else arrays

    # Backward

    def backward(self, node: TapeNode, gradients: Any, wanted: Sequence[bool]) -> Sequence[Any]:
        """Gradients of the receivers, as arrays."""
        key = tuple(wanted)
        call = self._back.get(key)
        if call is None:
            call = self._back[key] = self._backward_call(key)
        grads: Sequence[Any] = call(*node.arrays, gradients)
        return grads

    def _backward_call(self, wanted: tuple[bool, ...]) -> Callable[..., Sequence[Any]]:
        """`call(*saved values, gradients)` gives the gradients of the receivers, None for those not wanted."""
        record = self.op.backward
        slots = self._wanted_slots(record, wanted)
        body: Callable[..., Any] = partial(record.forward, numpy_xp, wanted=slots, **self.attrs)
        names = [slot.name for slot in record.outputs]
        places = [names.index(grad_slot(self.op.inputs[i].name)) for i in self.receivers]
        if self._has_lists:
            return partial(self._backward_with_lists, body, places)
        kernels = self._backward_kernels(record, slots, body)
        if self.is_plain and kernels.find((True,)) is None:
            fast = fast_backward(self.op, self.attrs, self.input_kinds, self.kind, self.receivers, wanted)
            if fast is not None:
                return fast
        body = kernels
        open_gradients = not self.is_single
        one = len(names) == 1

        def call(*given: Any) -> Sequence[Any]:
            if open_gradients:
                given = (*given[:-1], *given[-1])
            grads = quiet.run(body, *given)
            if one:
                return (grads if grads.__class__ is np.ndarray else _array(grads),)
            return [_array(grads[place]) for place in places]

        return call

    def _backward_kernels(self, record: Op, wanted: Sequence[bool], body: Callable[..., Any]) -> BackwardKernels:
        given = self._input_specs()
        saved = [*given, *[self.specs[i] for i in self._kept_outputs]]
        of_input = {grad_slot(slot.name): spec for slot, spec in zip(self.op.inputs, given, strict=True)}
        inferred: Any = [of_input[slot.name] for slot in record.outputs]
        if self.op.grad_infer is not None:  # a sparse one, perhaps
            inferred = record.infer(*saved, *self.specs, **self.attrs)
            inferred = inferred if isinstance(inferred, list) or len(record.outputs) > 1 else [inferred]
        outs = [spec if keep else None for spec, keep in zip(inferred, wanted, strict=True)]
        return BackwardKernels(record, self.attrs, saved, self.specs, outs, body)

    def _backward_with_lists(self, body: Callable[..., Any], places: Sequence[int], *given: Any) -> list[Any]:
        *arrays, gradients = given
        grads = quiet.run(body, *arrays, *self.by_slot([gradients] if self.is_single else gradients, _zeros))
        slots = grads if isinstance(grads, tuple) else (grads,)
        results: list[Any] = []
        for i, place in zip(self.receivers, places, strict=True):
            kind, result = self.input_kinds[i], slots[place]
            if isinstance(kind, list):
                results += [None] * len(kind) if result is None else list(result)
            else:
                results.append(_array(result))
        return results

    def by_slot(self, parts: Sequence[Any], zeros: Callable[[Spec], Any]) -> list[Any]:
        """Gradients of all outputs, lists opened, as one entry per output slot; lists are filled up with zeros."""
        rest = iter(parts)
        slots: list[Any] = []
        for spec in self.specs:
            if not isinstance(spec, list):
                slots.append(next(rest))
                continue
            entries = [next(rest) for _ in spec]
            filled = [zeros(s) if e is None else e for e, s in zip(entries, spec, strict=True)]
            slots.append(None if all(e is None for e in entries) else filled)
        return slots

    def _wanted_slots(self, record: Op, wanted: Sequence[bool]) -> tuple[bool, ...]:
        rest = iter(wanted)
        asked: dict[str, bool] = {}
        for i in self.receivers:
            kind = self.input_kinds[i]
            entries = [next(rest) for _ in kind] if isinstance(kind, list) else [next(rest)]
            asked[grad_slot(self.op.inputs[i].name)] = any(entries)
        return tuple(asked.get(slot.name, False) for slot in record.outputs)


def _opened(specs: Sequence[Any]) -> Iterator[Any]:
    for spec in specs:
        if isinstance(spec, list):
            yield from spec
        else:
            yield spec


def _is_float(kind: Any) -> bool:
    return any(map(_is_float, kind)) if isinstance(kind, list) else kind is not None and kind.is_float


def _placeholder(kind: Any) -> Any:
    """What stands for a value of which only shape and dtype are read: an array over one element."""
    if isinstance(kind, list):
        return [_placeholder(k) for k in kind]
    return np.broadcast_to(np.zeros((), kind.dtype.numpy), kind.shape)


def _array(value: Any) -> Any:
    """An array also where NumPy makes a number of one without dimensions."""
    return np.asarray(value) if isinstance(value, np.generic) else value


def _zeros(spec: Spec) -> Any:
    return np.zeros(spec.shape, spec.dtype.numpy)


def _of_its_own(result: Any, arrays: Sequence[Any]) -> Any:
    """A result that is an array no input is: what is written to it in place is written nowhere else."""
    if isinstance(result, list | tuple) and not hasattr(result, "_fields"):
        return type(result)(_of_its_own(part, arrays) for part in result)
    if isinstance(result, np.generic):
        return np.asarray(result)
    if isinstance(result, np.ndarray) and (result.base is not None or any(result is a for a in arrays)):
        shared = any(isinstance(a, np.ndarray) and np.may_share_memory(result, a) for a in arrays)
        return result.copy() if shared or not result.flags.writeable else result
    return result
