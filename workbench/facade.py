"""Which public name comes from which module.

`workbench/__init__.py`, `workbench.static` … load a name's module when it is first used, so that
`import workbench` stays quick and no name is written twice.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

# Functions on tensors, Paddle 2.x's `paddle.*`.
TENSOR = {
    "workbench.framework.dtype": "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8",
    "workbench.framework.place": "CPUPlace CUDAPlace",
    "workbench.framework.random": "seed",
}

FUNCTIONAL: dict[str, str] = {}  # `workbench.nn.functional`


def names(table: dict[str, str]) -> dict[str, str]:
    """`{public name: module}` from `{module: "name name …"}`."""
    return {name: module for module, line in table.items() for name in line.split()}


def lazy(module: str, table: dict[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a module whose public names live elsewhere."""
    where = names(table)

    def __getattr__(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(where[name]), name)
        setattr(sys.modules[module], name, value)
        return value

    def __dir__() -> list[str]:
        return sorted({*vars(sys.modules[module]), *where})

    return __getattr__, __dir__, sorted(where)
