"""Hooks on the values that recorded ops save: packed when they are saved, unpacked when their gradient needs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from workbench.dygraph.tape.node import TapeNode
from workbench.framework.current import Current


class PackingHooks(NamedTuple):
    """What is made of a saved value (`pack`), and the value of that (`unpack`); both take and give tensors' values."""

    pack: Callable[[Any], Any]
    unpack: Callable[[Any], Any]


packing: Current[PackingHooks | None] = Current("workbench_saved_tensors_hooks", None)


hooks_in_use: list[PackingHooks] = []  # that were ever in force; so that most programs need not look


class PackedArrays:
    """Saved values some of which were packed."""

    def __init__(self, hooks: PackingHooks, arrays: list[Any], packed: list[bool]) -> None:
        self._unpack = hooks.unpack
        self._packed = packed
        self._values = [hooks.pack(a) if pack else a for a, pack in zip(arrays, packed, strict=True)]

    def unpacked(self) -> list[Any]:
        """The values as they were saved."""
        return [self._unpack(v) if packed else v for v, packed in zip(self._values, self._packed, strict=True)]


def pack(node: TapeNode, is_value: list[bool]) -> None:
    """Have the hooks in force, if there are any, pack the values of a node that was just recorded."""
    hooks = packing.get()
    if hooks is not None:
        node.arrays = PackedArrays(hooks, node.arrays, is_value)
