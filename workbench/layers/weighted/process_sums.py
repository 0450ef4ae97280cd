"""Sums over all processes, for layers that take statistics over them; who connects the processes says how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_sums: list[Callable[[Any], Any]] = []


def sum_with(function: Callable[[Any], Any] | None) -> None:
    """From now on sum tensors over the processes with `function`, which gradients pass through; None for no more."""
    _sums[:] = [] if function is None else [function]


def process_sum() -> Callable[[Any], Any] | None:
    """What sums a tensor over the processes; None where this one is alone."""
    return _sums[0] if _sums else None
