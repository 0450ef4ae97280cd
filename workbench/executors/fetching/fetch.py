"""From fetch lists to names, and from values to what the user gets (rules E-2, E-3, E-10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidForm, InvalidType, described
from workbench.framework.program.operator import Operator
from workbench.framework.program.roles import OPTIMIZE
from workbench.framework.program.variable import Variable
from workbench.framework.values.number import copied
from workbench.framework.values.rows import dense
from workbench.ops.flow.control_flow import Stack
from workbench.runtime.storage.tensor import LoDTensor


def split_optimize_ops(fetch_list: Any) -> tuple[list[Any], list[Operator]]:
    """Take optimizer operators out of a fetch list (E-3).

    An item may be an optimizer operator, a list of them, or the tuple `minimize` returns.

    Returns:
        the rest of the list, and the operators.

    Raises:
        InvalidType: an item is neither a variable nor optimizer operators.
        InvalidForm: `fetch_list` is no list.
    """
    rest: list[Any] = []
    ops: list[Operator] = []
    for item in as_items(fetch_list):
        if isinstance(item, Variable | str):
            rest.append(item)
        elif isinstance(item, tuple) and item:
            ops += _optimizer_ops(item[0] if isinstance(item[0], list | tuple) else list(item))
        elif isinstance(item, list):
            ops += _optimizer_ops(item)
        else:
            ops += _optimizer_ops([item])
    return rest, ops


def as_items(fetch_list: Any) -> list[Any]:
    """A fetch list as a list; a bare Variable or name counts as a list of one."""
    if fetch_list is None:
        return []
    if isinstance(fetch_list, Variable | str):
        return [fetch_list]
    if not isinstance(fetch_list, list | tuple):
        given = described(fetch_list) + _exchanged(fetch_list)
        raise InvalidForm(f"fetch_list takes a list of Variables or names, got {given}")
    return list(fetch_list)


def _optimizer_ops(items: Any) -> list[Operator]:
    for item in items:
        if not isinstance(item, Operator) or not item.role & OPTIMIZE:
            given = _what(item) + _exchanged(item)
            raise InvalidType(f"fetch_list takes Variables, names and optimizer operators, got {given}")
    return list(items)


def _what(item: Any) -> str:
    return f"the operator {item.type!r}" if isinstance(item, Operator) else described(item)


def _exchanged(given: Any) -> str:
    """A hint where what should be fetched is a dict of feeds."""
    return "; feed and fetch_list look exchanged: pass them by name" if isinstance(given, Mapping) else ""


KEPT_FOR_GRADIENT = "what a branch or loop keeps for its gradient cannot be fetched"


def fetchable(value: Any) -> np.ndarray:
    """A value as an array, not copied; a sparse gradient becomes dense.

    Raises:
        InvalidArgument: what a branch or loop keeps for its gradient.
    """
    if isinstance(value, Stack):
        raise InvalidArgument(KEPT_FOR_GRADIENT)
    return dense(np, value)


def to_user(value: Any, return_numpy: bool) -> Any:
    """A copy of a value for the caller: an ndarray, or a LoDTensor; sparse gradients become dense arrays.

    Raises:
        InvalidArgument: what a branch or loop keeps for its gradient.
    """
    array = copied(fetchable(value))
    return array if return_numpy else LoDTensor(array)
