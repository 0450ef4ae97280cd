"""Tensors sent from one process to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import InvalidArgument, InvalidType
from workbench.parallel.groups.collectives import CommTask, array_of, root_of, started
from workbench.parallel.groups.group import Group, members_of


def send(tensor: Tensor, dst: int = 0, group: Group | None = None, sync_op: bool = True) -> CommTask | None:
    """Send a tensor to the process whose rank in the world is `dst`, which calls `recv`.

    Args:
        sync_op: wait until the tensor may be changed again.

    Raises:
        InvalidArgument: it is this process, or no member of the group.
    """
    array, among = array_of(tensor, "send"), members_of(group)
    if among is None:
        return None
    return started(among.process_group.send(array, root_of(among, dst, "dst")), None, sync_op)


def recv(tensor: Tensor, src: int = 0, group: Group | None = None, sync_op: bool = True) -> CommTask | None:
    """`tensor` becomes what the process whose rank in the world is `src` sends; of the same shape and dtype."""
    array, among = array_of(tensor, "recv"), members_of(group)
    if among is None:
        return None
    work = among.process_group.receive(np.empty_like(array), root_of(among, src, "src"))
    return started(work, tensor.set_value, sync_op)


def isend(tensor: Tensor, dst: int, group: Group | None = None) -> CommTask | None:
    """`send` without waiting."""
    return send(tensor, dst, group, sync_op=False)


def irecv(tensor: Tensor, src: int | None = None, group: Group | None = None) -> CommTask | None:
    """`recv` without waiting."""
    return recv(tensor, 0 if src is None else src, group, sync_op=False)


class P2POp(NamedTuple):
    """One message for `batch_isend_irecv`: `op` is `isend` or `irecv`, `peer` the other's rank in the world."""

    op: Callable[..., CommTask | None]
    tensor: Tensor
    peer: int
    group: Group | None = None


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[CommTask]:
    """Start several messages at once, in whichever order the others start theirs.

    Returns:
        a task for each; wait for all of them.

    Raises:
        InvalidType: something that is no P2POp. InvalidArgument: none, or an op that is neither isend nor irecv.
    """
    wrong: Any = next((one for one in p2p_op_list if not isinstance(one, P2POp)), None)
    if wrong is not None:
        raise InvalidType(f"batch_isend_irecv takes a list of P2POp, got {type(wrong).__name__} {wrong!r}")
    odd = next((one.op for one in p2p_op_list if one.op not in (isend, irecv)), None)
    if odd is not None or not p2p_op_list:
        raise InvalidArgument(f"a P2POp is made of isend or irecv, got {odd or 'none'}")
    tasks = [one.op(one.tensor, one.peer, one.group) for one in p2p_op_list]
    return [task for task in tasks if task is not None]
