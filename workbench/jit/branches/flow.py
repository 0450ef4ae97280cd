"""What rewritten branches and loops call: on plain values they do what Python does, on recorded tensors they record.

The sides of a branch and the body of a loop are functions that assign the variables of the function around them. Those
are found in their closures, so that one side can be recorded and the variables be put back for the other one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import CellType, FunctionType, ModuleType
from typing import Any, TypeGuard

import numpy as np

from workbench.builders.flow.control_flow import settled_cond, while_loop
from workbench.dygraph.tensor.tensor import Tensor
from workbench.framework.op.record import find_op
from workbench.framework.site import caller
from workbench.jit.branches.agreement import UNASSIGNED, Agreement, as_tensors, require_same
from workbench.jit.values.arguments import entries
from workbench.jit.values.captured_tensor import CapturedTensor, NeedsValue
from workbench.jit.values.watches import PLAIN, ArrayWatch, ContainerWatch
from workbench.ops.tensor.creation import FILL_CONSTANT

_DEPTH = 4  # containers and objects in one another, as far as a side of a branch is watched


class Variables:
    """The variables of a function that functions inside of it assign, and what else these can reach.

    Args:
        names: those that are assigned.
    """

    def __init__(self, functions: Sequence[Any], names: Sequence[str]) -> None:
        closure: dict[str, CellType] = {}
        for function in functions:
            closure.update(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        self.names = names
        self._cells = [closure[name] for name in names]
        self._watches = list(_watches([(name, _content(cell)) for name, cell in closure.items()]))

    def values(self) -> list[Any]:
        """What they hold, `UNASSIGNED` where that is nothing."""
        return [_content(cell) for cell in self._cells]

    def put(self, values: Sequence[Any]) -> None:
        """Have them hold values."""
        for cell, value in zip(self._cells, values, strict=True):
            if value is not UNASSIGNED:
                cell.cell_contents = value
            elif _content(cell) is not UNASSIGNED:
                del cell.cell_contents

    def aside(self, function: Callable[[], Any]) -> tuple[Any, list[Any]]:
        """What a function returns and what the variables hold then; they are put back.

        Raises:
            NeedsValue: it changed something else.
        """
        before = self.values()
        try:
            returned = function()
            after = self.values()
        finally:
            self.put(before)
        for watch in self._watches:
            for change in watch.changes():
                raise NeedsValue(
                    f"{change.name} is changed where a branch or a loop follows values of tensors; only variables can "
                    f"be\n  at {caller()}"
                )
        return returned, after


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return UNASSIGNED


def _watches(pairs: Sequence[tuple[str, Any]]) -> Iterator[ContainerWatch | ArrayWatch]:
    """Containers, arrays and objects, and those in them."""
    seen: set[int] = set()
    for _ in range(_DEPTH):
        new = [pair for pair in pairs if id(pair[1]) not in seen and not isinstance(pair[1], _UNCHANGING)]
        seen.update(id(value) for _, value in new)
        pairs = []
        for label, value in new:
            if isinstance(value, np.ndarray):
                yield ArrayWatch(label, value)
            container = value if isinstance(value, list | tuple | dict | set) else getattr(value, "__dict__", None)
            if isinstance(container, list | tuple | dict | set):
                yield ContainerWatch(label, container)
                pairs += [(label, part) for part in entries(container)]


_UNCHANGING = (*PLAIN, Tensor, ModuleType, FunctionType, type)


def _is_recorded(value: Any) -> TypeGuard[CapturedTensor]:
    return isinstance(value, CapturedTensor) and value.is_open


def branch(test: Any, true: Callable[[], Any], false: Callable[[], Any], names: Sequence[str]) -> None:
    """`if test: ...` with an `else`; both sides assign variables."""
    if not _is_recorded(test):
        (true if test else false)()
        return
    variables = Variables([true, false], names)
    variables.put(_chosen(test, names, lambda side: variables.aside(side)[1], true, false))


def choice(test: Any, true: Callable[[], Any], false: Callable[[], Any], names: Sequence[str] = ()) -> Any:
    """`true() if test else false()`, where both may assign variables nobody reads afterwards."""
    if not _is_recorded(test):
        return (true if test else false)()
    variables = Variables([true, false], names)
    return _chosen(test, ["what is returned"], lambda side: [variables.aside(side)[0]], true, false)[0]


def _chosen(test: Tensor, labels: Sequence[str], values_of: Callable[[Any], list[Any]], true: Any, false: Any) -> Any:
    agreement = Agreement(labels)
    results = settled_cond(
        _truth(test),
        lambda: agreement.keep(values_of(true)),
        lambda: agreement.keep(values_of(false)),
        agreement.settle,
    )
    return agreement.values(results)


def loop(test: Callable[[], Any], body: Callable[[], Any], names: Sequence[str]) -> None:
    """`while test(): body()`, from the pass on whose test is a recorded tensor as an operator."""
    while not _is_recorded(truth := test()):
        if not truth:
            return
        body()
    variables = Variables([test, body], names)
    before = variables.values()
    kept = [i for i, value in enumerate(before) if value is not UNASSIGNED]
    nothing = [UNASSIGNED] * len(before)
    first = [as_tensors(names[i], before[i]) for i in kept]

    def put(values: Sequence[Any]) -> None:
        variables.put([dict(zip(kept, values, strict=True)).get(i, UNASSIGNED) for i in range(len(nothing))])

    def goes_on(*values: Any) -> Any:
        put(values)
        return _truth(variables.aside(test)[0])

    def one_pass(*values: Any) -> list[Any]:
        put(values)
        after = variables.aside(body)[1]
        for i, old in zip(kept, values, strict=True):
            require_same(names[i], old, after[i])
        return [as_tensors(names[i], after[i]) for i in kept]

    put(while_loop(goes_on, one_pass, first))


def _truth(value: Any) -> Any:
    """A tensor as a bool tensor of one element."""
    if isinstance(value, Tensor) and value.dtype.name != "bool":
        return value != 0
    return value


# `and`, `or` and `not` in conditions


def both(*parts: Callable[[], Any]) -> Any:
    """`a and b and …`, as one tensor from the first recorded one on."""
    return _joined("logical_and", parts, ends=False)


def either(*parts: Callable[[], Any]) -> Any:
    """`a or b or …`, as one tensor from the first recorded one on."""
    return _joined("logical_or", parts, ends=True)


def _joined(op: str, parts: Sequence[Callable[[], Any]], *, ends: bool) -> Any:
    so_far: Any = None
    for part in parts:
        value = part()
        if _is_recorded(so_far):
            so_far = _with_value(op, so_far, value, ends=ends)
            continue
        so_far = value
        if not _is_recorded(so_far) and bool(so_far) is ends:
            return so_far
    return so_far


def _with_value(op: str, so_far: Any, value: Any, *, ends: bool) -> Any:
    if isinstance(value, Tensor):
        return find_op(op)(_truth(so_far), _truth(value))
    truth = FILL_CONSTANT(shape=tuple(so_far.shape), value=bool(value), dtype="bool")
    return find_op(op)(_truth(so_far), truth)


def negated(value: Any) -> Any:
    """`not value`."""
    return find_op("logical_not")(_truth(value)) if _is_recorded(value) else not value
