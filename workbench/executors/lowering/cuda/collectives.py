"""Collectives between the GPUs of one process, as calls of NCCL; others run on the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.cuda.devices.gpu import GPU
from workbench.cuda.devices.ranks import ranks_of
from workbench.cuda.driver import NCCL_TYPES
from workbench.executors.lowering.cuda.segment import DeviceCollective
from workbench.executors.lowering.numpy.lower_collectives import as_one
from workbench.executors.lowering.operands import Call, Context, is_dynamic
from workbench.executors.planning.plan import Row
from workbench.framework.values.dtype import as_dtype
from workbench.graph.ssa import ALL_REDUCE, BROADCAST, FUSED_ALL_REDUCE, FUSED_BROADCAST, REDUCE

Shares = list[list[Call]]  # by rank


def collective_of(row: Row, context: Context, gpus: Sequence[GPU]) -> DeviceCollective | None:
    """What runs a collective on its devices; None if the host has to do it."""
    make = _MAKERS.get(row.node.type)
    if make is None or is_dynamic(row) or len(gpus) != len(row.node.places) or not context.comm.computes_here:
        return None
    shares: Shares = [[] for _ in gpus]
    members = _members(row, context)
    if not all(_is_plain(array) for ins, outs in members for array in (*ins, *outs)):
        return None
    for ins, outs in members:
        make(row, gpus, ins, outs, shares)
    return DeviceCollective(gpus, shares)


def _members(row: Row, context: Context) -> list[tuple[list[Any], list[Any]]]:
    """Parts and results, of every variable or of all as one."""
    whole = as_one(row, context) if row.node.type == FUSED_ALL_REDUCE else None
    if whole is not None:
        return [(whole.parts, whole.results)]
    pairs = zip(row.node.inputs, row.node.outputs, strict=True)
    return [([context.array(v) for v in parts], [context.array(v) for v in results]) for parts, results in pairs]


def _is_plain(array: np.ndarray) -> bool:
    return array.flags.c_contiguous and as_dtype(array.dtype).name in NCCL_TYPES


def _at(gpu: GPU, array: np.ndarray) -> int:
    address = array.__array_interface__["data"][0]
    mirror = gpu.mirrors.find(address)
    assert mirror is not None, "operands of a collective lie in arenas or in the scope"
    return mirror.at(address)


def _all_reduce(row: Row, gpus: Sequence[GPU], ins: list[Any], outs: list[Any], shares: Shares) -> None:
    for gpu, rank, part, out, calls in zip(gpus, ranks_of(gpus), ins, outs, shares, strict=True):
        places = _at(gpu, part), _at(gpu, out), out.size, as_dtype(out.dtype).name
        calls.append(partial(gpu.driver.all_reduce, rank, *places, "sum", gpu.exchange))


def _reduce(row: Row, gpus: Sequence[GPU], ins: list[Any], outs: list[Any], shares: Shares) -> None:
    root, (out,) = row.node.attrs["root"], outs
    for number, (gpu, rank, part, calls) in enumerate(zip(gpus, ranks_of(gpus), ins, shares, strict=True)):
        target = _at(gpu, out) if number == root else _at(gpu, part)
        places = _at(gpu, part), target, part.size, as_dtype(part.dtype).name
        calls.append(partial(gpu.driver.reduce, rank, *places, "sum", root, gpu.exchange))


def _broadcast(row: Row, gpus: Sequence[GPU], ins: list[Any], outs: list[Any], shares: Shares) -> None:
    root, (source,) = row.node.attrs["root"], ins
    targets = [*outs[:root], source, *outs[root:]]
    for gpu, rank, target, calls in zip(gpus, ranks_of(gpus), targets, shares, strict=True):
        at = _at(gpu, target)
        calls.append(
            partial(gpu.driver.broadcast, rank, at, at, target.size, as_dtype(target.dtype).name, root, gpu.exchange)
        )


_MAKERS: dict[str, Callable[[Row, Sequence[GPU], list[Any], list[Any], Shares], None]] = {
    ALL_REDUCE: _all_reduce, FUSED_ALL_REDUCE: _all_reduce, REDUCE: _reduce, BROADCAST: _broadcast,
    FUSED_BROADCAST: _broadcast,
}  # fmt: skip
