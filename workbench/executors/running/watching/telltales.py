"""Telltales: the few numbers of a step that tell, before it is applied, whether a NaN or an Inf is in it.

A NaN reaches the loss, or it is born on the way back; then it reaches the gradients of the layers before. So what is
looked at is the loss, where it is fetched, and of every gradient its first numbers (of biases all): a NaN in one row of
a batch is in the sum over the rows, and what one unit of a layer hands back is NaN for all units of the layer below.
That is a few thousand numbers that a kernel reads in a microsecond, where looking at everything a step has made costs
several times the step (`FLAGS_check_nan_inf`). What it can miss - a single weight's gradient that overflows by itself -
makes a parameter infinite, and is seen in the loss of the step after.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.executors.planning.plan import gradients_of
from workbench.framework.quiet import quietly
from workbench.graph.ssa import FUSED_UPDATE, Node, Value, is_update
from workbench.ops.distributed.exchange import SERVER_EXCHANGE
from workbench.runtime.native.tape import address
from workbench.runtime.words.step import STRETCH_WORDS

if TYPE_CHECKING:
    from workbench.executors.lowering.binding import Binding

_OF_MATRICES, _OF_VECTORS = 256, 4096  # first numbers looked at
_FLOAT = np.dtype(np.float32)


class Telltales:
    """Of one binding.

    Args:
        loss: the variable that is trained; None to look at all that is fetched.
    """

    def __init__(self, binding: Binding, loss: str | None) -> None:
        control = binding.pool.control
        self._bring_home = binding.lowering.bring_home
        self.arrays = _distinct([*_fetched(binding, loss), *_gradients(binding), *_updated(binding)])
        self._pushed = _distinct(list(_pushed(binding)))
        self._vectors = [array for array in self.arrays if array.dtype != _FLOAT or control is None]
        stretches = [(address(array), array.size) for array in self.arrays if array.dtype == _FLOAT]
        self.stretches = np.array(stretches if control is not None else [], np.int64).reshape(-1, STRETCH_WORDS)
        self._look = control.blemished if control is not None else None
        self._address = address(self.stretches)

    @property
    def in_kernels(self) -> bool:
        """Whether kernels can look at all of them."""
        return not self._vectors

    def are_finite(self) -> bool:
        """Whether there is neither NaN nor Inf among them."""
        self._bring_home(self.arrays)
        if self._look is not None and len(self.stretches) and self._look(self._address, len(self.stretches)):
            return False
        return all(map(is_finite, self._vectors))

    def are_pushed_finite(self) -> bool:
        """The same before a step is pushed to servers, when what they will be given is still there."""
        self._bring_home(self._pushed)
        return self.are_finite() and all(map(is_finite, self._pushed))


def is_finite(array: np.ndarray) -> bool:
    """Whether an array, one after the other in memory, holds neither NaN nor Inf.

    The squares' sum is not finite if one of them is not, and is found quickest; it may overflow by itself, though.
    """
    if array.size == 1:
        return math.isfinite(array.item())
    flat = array.reshape(-1)
    return quietly(lambda: math.isfinite(flat.dot(flat)) or bool(np.isfinite(flat).all()))


def first_numbers(array: Any) -> np.ndarray | None:
    """What is looked at of an array; None if it holds no numbers that could be NaN."""
    if not isinstance(array, np.ndarray) or array.dtype.kind != "f" or not array.size or not array.flags.c_contiguous:
        return None
    return array.reshape(-1)[: _OF_VECTORS if array.ndim < 2 or array.size <= _OF_VECTORS // 4 else _OF_MATRICES]


def _fetched(binding: Binding, loss: str | None) -> Iterator[np.ndarray]:
    for name, values in binding.plan.fetches:
        if loss is None or name == loss:
            yield from _arrays(binding, values)


def _gradients(binding: Binding) -> Iterator[np.ndarray]:
    """Of the updates that the commit makes, on all devices: of sums that updates take themselves every part."""
    for row in binding.plan.commit:
        for value in _read_by(row.node):
            yield from _arrays(binding, binding.values.parts_of(value))


def _updated(binding: Binding) -> Iterator[np.ndarray]:
    """What updates make aside: the memory of their gradients may hold something else by then."""
    written = [v for row in binding.plan.rows if is_update(row.node) for v in row.node.writes]
    for value in written:
        numbers = first_numbers(binding.array(value)) if value in binding.plan.refs else None
        if numbers is not None:
            yield numbers


def _pushed(binding: Binding) -> Iterator[np.ndarray]:
    """Of what servers are given; sparse gradients are objects, and are not looked at."""
    for row in binding.plan.rows:
        if row.node.type == SERVER_EXCHANGE.type:
            values = [value for slot in row.node.inputs for value in slot] if row.node.inputs else []
            yield from _arrays(binding, values)


def _read_by(node: Node) -> Sequence[Value]:
    if not is_update(node):
        return []
    if node.type == FUSED_UPDATE:
        return gradients_of(node)
    slots = zip(node.record.inputs, node.inputs, strict=True)
    return [value for slot, value in slots if slot.name == "Grad" and isinstance(value, Value)]


def _arrays(binding: Binding, values: Sequence[Value]) -> Iterator[np.ndarray]:
    for value in values:
        if value in binding.plan.refs and not value.persistable:
            numbers = first_numbers(binding.array(value))
            if numbers is not None:
                yield numbers


def _distinct(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return list({(address(array), array.size): array for array in arrays}.values())
