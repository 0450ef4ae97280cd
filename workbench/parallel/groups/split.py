"""`distributed.split`: a layer whose parameters are shared out among the processes."""

from __future__ import annotations

from typing import Any, NoReturn

from workbench.errors import InvalidArgument, Unimplemented
from workbench.framework.program.guard import in_static_mode

OPERATIONS = ("linear", "embedding")


def split(
    x: Any, size: Any, operation: str, axis: int = 0, num_partitions: int = 1, gather_out: bool = True,
    weight_attr: Any = None, bias_attr: Any = None, name: str | None = None,
) -> NoReturn:  # fmt: skip
    """A linear layer or an embedding of which every process has a part; not there yet.

    Args:
        x: its input. size: of its weight. operation: "linear" or "embedding". axis: along which the weight is cut.
        num_partitions: processes. Others: as of the layers.

    Raises:
        InvalidArgument: dynamic mode, where Paddle refuses it, too; or an unknown operation.
        Unimplemented: static mode; programs have no exchanges within a layer so far.
    """
    if operation not in OPERATIONS:
        raise InvalidArgument(f"operation is one of {', '.join(map(repr, OPERATIONS))}, got {operation!r}")
    if not in_static_mode():
        raise InvalidArgument("distributed.split is for static mode; in dynamic mode layers are not shared out")
    raise Unimplemented(
        "distributed.split: programs have no exchanges within a layer so far; every process can have the whole model"
    )
