"""The role of operators that belong to an update."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from workbench.framework.op.recorder import current_recorder
from workbench.framework.program.variable import Variable


def role_of(parameter: Any, role: int, pair: Sequence[Any] = ()) -> AbstractContextManager[None]:
    """Operators appended in the `with` body have that role; nothing happens where ops are computed at once.

    Args:
        parameter: of the program, or a tensor. pair: the parameter and gradient they belong to.
    """
    if isinstance(parameter, Variable):
        return parameter.block.program.role_guard(role, list(pair))
    return current_recorder().role_guard(role, pair)
