"""Gradients that have been added up already, averaged over the processes (rule D-11)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from workbench.errors import InvalidForm
from workbench.parallel.data_parallel.buckets import MIB
from workbench.parallel.groups.group import require_world

LARGEST = 128 * MIB


def fused_allreduce_gradients(parameter_list: Sequence[Any], hcg: Any) -> None:
    """Make the gradients of parameters their means over all processes; every process has the same ones.

    For what `DataParallel` cannot exchange itself, run in `no_sync()`. Values that are means already stay so.

    Args:
        parameter_list: those that are not trained, or have no gradient, are left out.
        hcg: None; groups of hybrid parallelism are not supported.

    Raises:
        InvalidForm: a sparse gradient, which Paddle refuses, too. PeerTimeout, PeerFailed: as of `all_reduce`.
    """
    group = require_world().process_group if hcg is None else hcg.get_data_parallel_group().process_group
    parameters = [p for p in parameter_list if p.trainable and p.grad is not None]
    sparse = next((p.name for p in parameters if p.grad.is_sparse()), None)
    if sparse is not None:
        raise InvalidForm(f"fused_allreduce_gradients takes dense gradients, that of {sparse} is sparse")
    works = [(some, _started(some, group)) for some in _batches(parameters)]
    for some, work in works:
        _spread(work.wait(), some)


def _started(parameters: Sequence[Any], group: Any) -> Any:
    flat = np.concatenate([p.grad.array.reshape(-1) for p in parameters])
    flat *= flat.dtype.type(1.0 / group.size)
    more = f" and {len(parameters) - 1} more" if len(parameters) > 1 else ""
    return group.all_reduce(flat, out=flat, names=[f"gradients of {parameters[0].name}{more}"])


def _spread(flat: np.ndarray, parameters: Sequence[Any]) -> None:
    begin = 0
    for parameter in parameters:
        size = parameter.grad.size
        parameter.grad.set_value(flat[begin : begin + size].reshape(parameter.grad.shape))
        begin += size


def _batches(parameters: Sequence[Any]) -> list[list[Any]]:
    """Consecutive ones of a dtype, at most `LARGEST` bytes together."""
    batches: list[list[Any]] = []
    for _, of_one_dtype in groupby(parameters, key=lambda p: p.grad.dtype):
        batches.append([])
        room = LARGEST
        for parameter in of_one_dtype:
            nbytes = parameter.grad.array.nbytes
            if batches[-1] and nbytes > room:
                batches.append([])
                room = LARGEST
            batches[-1].append(parameter)
            room -= nbytes
    return batches
