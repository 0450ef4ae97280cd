"""Libraries: modules that nobody changes while a program runs, and what comes from them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

from workbench.dygraph.tensor.tensor import Tensor
from workbench.framework.site import is_ours
from workbench.jit.values.watches import PLAIN


def library_names(value: Any, path: Sequence[str] = ()) -> Iterator[str]:
    """The name of a module that nobody changes, and of what is read of it; or of the module a value comes from."""
    if isinstance(value, ModuleType):
        if is_library(vars(value)):
            yield ".".join([value.__name__, *path])
        return
    made_by = None if isinstance(value, type) else getattr(value, "__self__", None)
    owner: Any = value if isinstance(value, type | FunctionType) else type(value if made_by is None else made_by)
    module = sys.modules.get(owner.__module__)
    if module is not None and not isinstance(value, (*PLAIN, Tensor)) and is_library(vars(module)):
        yield f"{module.__name__}.{getattr(value, '__name__', '')}"


def draws_nothing(name: str) -> bool:
    """Whether what is called so is known to leave the generators of `random` and `numpy.random` alone."""
    first, *rest = name.split(".")
    if first == "numpy":
        return bool(rest) and "random" not in rest
    return first == "workbench" or (first in sys.stdlib_module_names and first != "random")


def file_of(owner: type) -> str:
    return str(getattr(sys.modules.get(owner.__module__), "__file__", "") or "")


def is_library(names: Mapping[str, Any]) -> bool:
    """Whether a namespace is that of a module nobody changes: workbench's own, or an installed one."""
    file = str(names.get("__file__") or "")
    if not file:
        return names.get("__name__") != "__main__" and names.get("__spec__") is not None
    return is_ours(file) or "site-packages" in file or "/lib/python3" in file
