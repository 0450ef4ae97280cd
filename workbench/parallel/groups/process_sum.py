"""A tensor summed over the processes of a group, as part of what is differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.dygraph.autograd.py_layer import PyLayer
from workbench.dygraph.tensor.tensor import Tensor


class ProcessSum(PyLayer):
    """The sum over all processes; every process's loss depends on it, so its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, process_group: Any, name: str) -> Tensor:
        ctx.process_group, ctx.name = process_group, name
        return _summed(tensor, process_group, name)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _summed(gradient, ctx.process_group, f"gradient of {ctx.name}")


def _summed(tensor: Tensor, process_group: Any, name: str) -> Tensor:
    return Tensor(process_group.all_reduce(np.ascontiguousarray(tensor.array), names=[name]).wait())
