"""Whether two recordings of a function say the same, whatever their values are called.

Not all that Python reads can be watched. So a function is recorded anew now and then, which computes nothing; where
that says something else, a thing has changed of which nobody was told.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Hashable, Iterable, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.jit.leaf_gradients import LeafGradient
from workbench.jit.values.arguments import leaves
from workbench.jit.values.bindings import BoundTensor
from workbench.jit.values.captured_tensor import CapturedTensor
from workbench.jit.values.keys import is_by_value, key_of


class Recorded(NamedTuple):
    """What was recorded of one call.

    Attributes:
        program: as it was recorded. feeds: names of the arguments. outputs: what the function returned.
        bound: the tensors the program works on. gradients: what becomes of `grad`.
    """

    program: Program
    feeds: Sequence[str]
    outputs: Any
    bound: Iterable[BoundTensor]
    gradients: Iterable[LeafGradient]

    def difference(self, other: Recorded) -> str | None:
        """In which place the other one says something else, in words; None if it says the same."""
        common = {id(each.storage) for each in self.bound}.intersection(id(each.storage) for each in other.bound)
        before, after = _Reading(self, common), _Reading(other, common)
        ours, theirs = before.operators(), after.operators()
        for (op, text), (its_op, its_text) in zip_longest(ours, theirs, fillvalue=(None, None)):
            if text != its_text:
                return _described(op, its_op)
        if before.returned() != after.returned():
            return "it returns something else"
        return None


class _Reading:
    """A recording as it is read: its values numbered in the order in which they come up.

    Args:
        common: ids of the storage of tensors that both recordings work on.
    """

    def __init__(self, recorded: Recorded, common: Collection[int]) -> None:
        self._recorded = recorded
        shown = {id(grad): id(each.tensor) for each in recorded.gradients for grad in (each.before, each.after)}
        self._tokens: dict[str, Hashable] = {name: number for number, name in enumerate(recorded.feeds)}
        written = {name for op in recorded.program.all_ops() for name in op.output_arg_names}
        for each in recorded.bound:
            owner, storage = shown.get(id(each.tensor)), each.storage
            if owner is not None:
                token: Hashable = "grad", owner
            elif id(storage) in common:
                token = "tensor", id(storage)
            elif each.variable.name in written:  # made by the function, in every call anew
                token = "made", each.tensor.kind
            else:
                token = "made", each.tensor.kind, hashlib.sha256(storage.array.tobytes()).digest()
            self._tokens[each.variable.name] = token
        self._names = {name for block in recorded.program.blocks for name in block.vars}

    def operators(self) -> list[tuple[Operator, Hashable]]:
        """All operators, each with what it says."""
        return [(op, self._said_by(op)) for block in self._recorded.program.blocks for op in block.ops]

    def returned(self) -> list[Hashable]:
        """What the function returned."""
        return [
            self._token(leaf.name) if isinstance(leaf, CapturedTensor) else _value(leaf)
            for leaf in leaves(self._recorded.outputs)
        ]

    def _said_by(self, op: Operator) -> Hashable:
        slots = [
            (slot, tuple(map(self._token, names))) for side in (op.inputs, op.outputs) for slot, names in side.items()
        ]
        return op.type, tuple(slots), tuple((name, self._attribute(value)) for name, value in op.attrs.items())

    def _token(self, name: str) -> Hashable:
        return self._tokens.setdefault(name, ("value", len(self._tokens)))

    def _attribute(self, value: Any) -> Hashable:
        if isinstance(value, list | tuple):
            return tuple(map(self._attribute, value))
        return self._token(value) if isinstance(value, str) and value in self._names else _value(value)


def _value(value: Any) -> Hashable:
    """What a value says; of an object that may be a new one in every recording, only its type."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    key = key_of(value)
    return key if is_by_value(key) else (type(value),)


def _described(before: Operator | None, now: Operator | None) -> str:
    op = now or before
    assert op is not None
    where = "" if op.site is None else f"\n  at {op.site}"
    if before is None or now is None or before.type != now.type:
        were = "nothing" if before is None else f"op {before.type!r}"
        return f"where there was {were} there is {'nothing' if now is None else f'op {now.type!r}'} now{where}"
    changed = [name for name in now.attrs if _value(now.attrs[name]) != _value(before.attrs.get(name))]
    if not changed:
        return f"op {op.type!r} works on other values{where}"
    name = changed[0]
    return f"{name} of op {op.type!r} was {before.attrs.get(name)!r} and is {now.attrs[name]!r}{where}"
