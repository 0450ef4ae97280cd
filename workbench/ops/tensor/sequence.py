"""Sequences of several lengths in one tensor."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument
from workbench.ops.tensor.creation import arange
from workbench.ops.tensor.shape import unsqueeze

OFFERED = {"workbench.nn.functional": "sequence_mask"}


def sequence_mask(x: Any, maxlen: int | None = None, dtype: Any = "int64", name: str | None = None) -> Any:
    """1 at positions below a length, else 0.

    Args:
        x: lengths, integers of any shape.
        maxlen: how many positions; the largest length, which dynamic mode can look at, if None.
        dtype: of the result.

    Returns:
        `[*x.shape, maxlen]`.

    Raises:
        InvalidArgument: no `maxlen` in a program.

    Example:
        >>> print(F.sequence_mask(wb.to_tensor([1, 3]), maxlen=4).numpy())
        [[1 0 0 0]
         [1 1 1 0]]
    """
    if maxlen is None:
        if not hasattr(x, "item"):
            raise InvalidArgument("sequence_mask in a Program needs maxlen, as lengths are known only when it runs")
        maxlen = int(x.numpy().max())
    return (arange(int(maxlen), dtype=x.dtype) < unsqueeze(x, -1)).astype(dtype)
