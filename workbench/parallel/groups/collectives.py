"""Exchanges of tensors among the processes of a group, under Paddle's names.

Each is started by all members in the same order. With `sync_op=False` the task that is returned is waited for later;
until then its tensors are not to be read or written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import InvalidArgument, InvalidType
from workbench.parallel.groups.group import Group, members_of


class ReduceOp:
    """How the tensors of several processes are made one: `SUM`, `MAX`, `MIN`, `PROD`, `AVG`."""

    SUM, MAX, MIN, PROD, AVG = range(5)


_OPS = {ReduceOp.SUM: "sum", ReduceOp.MAX: "max", ReduceOp.MIN: "min", ReduceOp.PROD: "prod", ReduceOp.AVG: "avg"}


class CommTask:
    """An exchange under way.

    Args:
        work: what carries it out. finish: puts the result where it belongs.
    """

    def __init__(self, work: Any, finish: Callable[[np.ndarray], None] | None = None) -> None:
        self._work, self._finish = work, finish

    def is_completed(self) -> bool:
        """Whether `wait` would return at once."""
        return bool(self._work.done)

    def wait(self, timeout: float | None = None) -> bool:
        """Return when the tensors hold the result.

        Args:
            timeout: seconds; those of the group unless given.

        Raises:
            PeerTimeout: not in time; names the ranks that are missing. PeerFailed: another process failed.
        """
        result = self._work.wait(timeout)
        finish, self._finish = self._finish, None
        if finish is not None:
            finish(result)
        return True

    synchronize = wait


def started(work: Any, finish: Callable[[np.ndarray], None] | None, sync_op: bool) -> CommTask:
    """The task of an exchange, waited for if it is to be done now."""
    task = CommTask(work, finish)
    if sync_op:
        task.wait()
    return task


def all_reduce(
    tensor: Tensor, op: int = ReduceOp.SUM, group: Group | None = None, sync_op: bool = True
) -> CommTask | None:
    """Every process's `tensor` becomes the sum (or what `op` says) of all of them, added in the order of the ranks.

    Args:
        tensor: of one shape and dtype everywhere. op: see `ReduceOp`. group: all processes unless given.
        sync_op: wait for it.

    Raises:
        InvalidType, InvalidArgument: no tensor, no such op, or different tensors. PreconditionNotMet: nobody is
            connected, or the processes are at different collectives. PeerTimeout, PeerFailed: see `CommTask.wait`.

    Example:
        >>> x = wb.to_tensor([float(wb.distributed.get_rank())])     # doctest: +SKIP
        >>> wb.distributed.all_reduce(x)                             # doctest: +SKIP
    """
    array, among = array_of(tensor, "all_reduce"), members_of(group)
    if among is None:
        return None
    return started(among.process_group.all_reduce(array, op=_named(op)), tensor.set_value, sync_op)


def reduce(
    tensor: Tensor, dst: int, op: int = ReduceOp.SUM, group: Group | None = None, sync_op: bool = True
) -> CommTask | None:
    """`all_reduce` for one process, whose rank in the world is `dst`; the tensors of the others stay as they are."""
    array, among = array_of(tensor, "reduce"), members_of(group)
    if among is None:
        return None
    root = root_of(among, dst, "dst")
    finish = tensor.set_value if root == among.rank else None
    return started(among.process_group.reduce(array, root, op=_named(op)), finish, sync_op)


def broadcast(tensor: Tensor, src: int, group: Group | None = None, sync_op: bool = True) -> CommTask | None:
    """Every process's `tensor` becomes that of the process whose rank in the world is `src`."""
    array, among = array_of(tensor, "broadcast"), members_of(group)
    if among is None:
        return None
    root = root_of(among, src, "src")
    finish = None if root == among.rank else tensor.set_value
    return started(among.process_group.broadcast(array.copy(), root), finish, sync_op)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Group | None = None, sync_op: bool = True
) -> CommTask | None:
    """Every process gets the tensors of all, in the order of their ranks, added to `tensor_list`."""
    array, among = array_of(tensor, "all_gather"), members_of(group)
    if among is None:
        return None
    require_list(tensor_list, "tensor_list")

    def finish(rows: np.ndarray) -> None:
        tensor_list.extend(Tensor(row.copy()) for row in rows)

    return started(among.process_group.all_gather(array), finish, sync_op)


def reduce_scatter(
    tensor: Tensor, tensor_list: Sequence[Tensor], op: int = ReduceOp.SUM, group: Group | None = None,
    sync_op: bool = True,
) -> CommTask | None:  # fmt: skip
    """`tensor` becomes the sum (or what `op` says) of the entries of all `tensor_list`s at this process's rank."""
    among = members_of(group)
    if among is None:
        return None
    work = among.process_group.reduce_scatter(_stacked(tensor_list, among, "tensor_list"), op=_named(op))
    return started(work, tensor.set_value, sync_op)


def scatter(
    tensor: Tensor, tensor_list: Sequence[Tensor] | None = None, src: int = 0, group: Group | None = None,
    sync_op: bool = True,
) -> CommTask | None:  # fmt: skip
    """`tensor` becomes the entry at this process's rank of the `tensor_list` that the process `src` gives."""
    array, among = array_of(tensor, "scatter"), members_of(group)
    if among is None:
        return None
    root = root_of(among, src, "src")
    rows = _stacked(tensor_list or [], among, "tensor_list") if root == among.rank else None
    return started(among.process_group.scatter(rows, np.empty_like(array), root), tensor.set_value, sync_op)


def alltoall(
    in_tensor_list: Sequence[Tensor] | Tensor, out_tensor_list: list[Tensor], group: Group | None = None,
    sync_op: bool = True,
) -> CommTask | None:  # fmt: skip
    """Entry j of `in_tensor_list` goes to process j; what comes is added to `out_tensor_list`, by ranks."""
    among = members_of(group)
    if among is None:
        return None
    require_list(out_tensor_list, "out_tensor_list")
    rows = _stacked(list(in_tensor_list), among, "in_tensor_list")

    def finish(received: np.ndarray) -> None:
        out_tensor_list.extend(Tensor(row.copy()) for row in received)

    return started(among.process_group.all_to_all(rows), finish, sync_op)


def barrier(group: Group | None = None) -> None:
    """Return when every member has come here."""
    among = members_of(group)
    if among is not None:
        among.process_group.barrier().wait()


def wait(tensor: Tensor, group: Group | None = None, use_calc_stream: bool = True) -> None:
    """Return when `tensor` can be used; on the CPU that is at once, `CommTask.wait` waits for an exchange."""
    array_of(tensor, "wait")


def array_of(tensor: Any, what: str) -> np.ndarray:
    """The value of a tensor.

    Raises:
        InvalidType: it is none, or a sparse gradient.
    """
    if not isinstance(tensor, Tensor) or not tensor.kind.is_dense:
        kind = "a sparse gradient" if isinstance(tensor, Tensor) else f"{type(tensor).__name__} {tensor!r}"
        raise InvalidType(f"{what} takes a dense Tensor, got {kind}")
    return np.ascontiguousarray(tensor.as_read()).reshape(tensor.kind.shape)


def root_of(group: Group, rank: int, what: str) -> int:
    """The rank in a group of a process of the world.

    Raises:
        InvalidArgument: it is no member.
    """
    root = group.get_group_rank(rank)
    if root < 0:
        raise InvalidArgument(f"{what} is the rank of a member in the world, one of {group.ranks}, got {rank!r}")
    return root


def require_list(value: Any, what: str) -> None:
    if not isinstance(value, list):
        raise InvalidType(f"{what} is a list, which the results are added to, got {type(value).__name__}")


def _stacked(tensors: Sequence[Tensor], group: Group, what: str) -> np.ndarray:
    arrays = [array_of(tensor, what) for tensor in tensors]
    if len(arrays) != group.nranks:
        raise InvalidArgument(f"{what} has one tensor for every member: {group.nranks}, got {len(arrays)}")
    odd = next((a for a in arrays if a.shape != arrays[0].shape or a.dtype != arrays[0].dtype), None)
    if odd is not None:
        first = f"{arrays[0].dtype}{list(arrays[0].shape)}"
        raise InvalidArgument(
            f"{what}: tensors are alike\n  expected: {first}\n  got:      {odd.dtype}{list(odd.shape)}"
        )
    return np.stack(arrays)


def _named(op: Any) -> str:
    if op not in _OPS:
        raise InvalidArgument(f"op is one of ReduceOp.SUM, MAX, MIN, PROD and AVG, got {op!r}")
    return _OPS[op]
