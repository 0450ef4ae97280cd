"""All processes begin with the parameters and buffers of the first (rule D-2)."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument
from workbench.layers.layer import Layer
from workbench.parallel.groups.objects import decoded, encoded


def share_start_values(model: Layer, process_group: Any) -> None:
    """Give the model's parameters and buffers the values they have in process 0.

    Raises:
        InvalidArgument: the models differ; names the first difference.
    """
    tensors = [*model.named_parameters(), *model.named_buffers()]
    _require_the_same(tensors, process_group)
    by_dtype: dict[Any, list[tuple[str, Any]]] = defaultdict(list)
    for name, tensor in tensors:
        by_dtype[tensor.dtype].append((name, tensor))
    for dtype, some in by_dtype.items():
        flat = np.concatenate([tensor.numpy().reshape(-1) for _, tensor in some])
        names = [f"{dtype} parameters and buffers of {model.full_name()}"]
        process_group.broadcast(flat, 0, names=names).wait()
        begin = 0
        for _, tensor in some:
            tensor.set_value(flat[begin : begin + tensor.size].reshape(tensor.shape))
            begin += tensor.size


def _require_the_same(tensors: list[tuple[str, Any]], process_group: Any) -> None:
    own = [f"{name}: {tensor.dtype}{tensor.shape}" for name, tensor in tensors]
    told = encoded(own)
    size = np.array([told.size])
    process_group.broadcast(size, 0, names=["size of the model's description"]).wait()
    first = np.zeros(int(size[0]), np.uint8)
    if process_group.rank == 0:
        first[:] = told
    process_group.broadcast(first, 0, names=["the model's description"]).wait()
    expected = decoded(first)
    agree = np.array([own == expected], np.int32)
    if process_group.all_reduce(agree, op="min", names=["the model's description"]).wait()[0]:
        return
    if own == expected:
        raise InvalidArgument("DataParallel: the model of another process differs from that of rank 0; it says how")
    here, there = next(
        (a, b) for a, b in zip([*own, "nothing more"], [*expected, "nothing more"], strict=False) if a != b
    )
    raise InvalidArgument(
        f"DataParallel: the model differs from that of rank 0\n  expected: {there}\n  got:      {here}"
    )
