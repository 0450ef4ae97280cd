"""What kind of object something is that code reads."""

from __future__ import annotations

from types import CellType, ModuleType
from typing import Any

from workbench.framework.site import Site, is_ours
from workbench.jit.values.libraries import file_of, is_library
from workbench.jit.values.watches import MISSING
from workbench.optimizer.lr import LRScheduler
from workbench.optimizer.optimizer import Optimizer


def is_layer(value: Any) -> bool:
    """Whether a value is a layer."""
    return hasattr(value, "_sub_layers") and hasattr(type(value), "forward")


def first_argument(function: Any, value: Any) -> dict[str, Any]:
    code = getattr(function, "__code__", None)
    return {code.co_varnames[0]: value} if code is not None and code.co_argcount else {}


def content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return MISSING


def is_users(value: Any) -> bool:
    return not is_ours(file_of(type(value)))


def is_closed(value: Any) -> bool:
    """Whether an object has no attributes a user might set, or too many to be anybody's settings: of a library."""
    if isinstance(value, ModuleType):
        return is_library(vars(value))
    if isinstance(value, Optimizer | LRScheduler):
        return False
    owner = value if isinstance(value, type) else type(value)
    return is_ours(file_of(owner)) or (owner.__module__ == "builtins" and owner is value)


def site_of(function: Any) -> Site | None:
    code = getattr(function, "__code__", None)
    return None if code is None else Site(code.co_filename, code.co_firstlineno)
