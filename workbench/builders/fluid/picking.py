"""`fluid.layers`: entries that integers pick and put, and places of entries, with the arguments of Paddle 1.x."""

from __future__ import annotations

from typing import Any

from workbench.framework.values.dtype import int64
from workbench.ops.index import coordinates
from workbench.ops.index import gather as gathering
from workbench.ops.index import scatter as scattering
from workbench.ops.index.composed.filling import multiplex as chosen_rows
from workbench.ops.index.order import sort
from workbench.ops.math.reductions import extreme
from workbench.ops.math.reductions.cumulative import CUMSUM


def gather(input: Any, index: Any, overwrite: bool = True) -> Any:
    """Rows of `input` by their numbers.

    Args:
        input: `[N, ...]`. index: integers `[K]`, or `[K, 1]`. overwrite: accepted for Paddle's sake. Gradients of a
            row that is picked several times add up; in 1.8.5 one of them is taken.

    Returns:
        `[K, ...]`.

    Raises:
        InvalidArgument: another rank of `index`; when run, a number out of range.

    Example:
        >>> import workbench.fluid as fluid
        >>> index = fluid.data("index", [4], "int64")
        >>> fluid.layers.gather(fluid.data("x", [None, 3]), index).shape
        (4, 3)
    """
    return gathering.gather(input, index)


def index_select(input: Any, index: Any, dim: int = 0) -> Any:
    """Entries of `input` along `dim`, by their numbers `[K]`."""
    return gathering.index_select(input, index, dim)


def scatter(input: Any, index: Any, updates: Any, name: str | None = None, overwrite: bool = True) -> Any:
    """`input` with rows replaced: row `index[i]` by `updates[i]`; or, without `overwrite`, by the sum of its updates.

    Args:
        input: `[N, ...]`; rows that are replaced receive no gradient (in 1.8.5 they do). index: integers `[K]`.
        updates: `[K, ...]`.

    Raises:
        InvalidArgument: shapes that do not fit; when run, a number out of range.
    """
    return scattering.scatter(input, index, updates, overwrite, name)


def scatter_nd_add(ref: Any, index: Any, updates: Any, name: str | None = None) -> Any:
    """`ref` with `updates` added at coordinates; see `paddle.scatter_nd_add`."""
    return coordinates.scatter_nd_add(ref, index, updates, name)


def multiplex(inputs: Any, index: Any) -> Any:
    """Row i of the result is row i of `inputs[index[i]]`; index `[N, 1]`."""
    return chosen_rows(inputs, index)


def argmax(x: Any, axis: int = 0) -> Any:
    """The place of the largest entry along `axis`, int64.

    Raises:
        InvalidArgument: an axis out of range.

    Example:
        >>> import workbench.fluid as fluid
        >>> fluid.layers.argmax(fluid.data("x", [None, 3]), axis=-1).shape
        (-1,)
    """
    return extreme.argmax(x, axis)


def argmin(x: Any, axis: int = 0) -> Any:
    """The place of the smallest entry along `axis`, int64; see `argmax`."""
    return extreme.argmin(x, axis)


def argsort(input: Any, axis: int = -1, descending: bool = False, name: str | None = None) -> Any:
    """The entries along `axis` in order, and their places (int64); entries that are equal stay in order."""
    return sort.ARGSORT(input, axis=axis, descending=bool(descending), name=name)


def cumsum(x: Any, axis: int | None = None, exclusive: bool | None = None, reverse: bool | None = None) -> Any:
    """The sums of the entries up to each one along `axis`, the last one if None.

    Args:
        exclusive: without the entry itself. reverse: of the entries from each one on.
    """
    x = x.astype(int64) if x.dtype.kind == "bool" else x
    return CUMSUM(x, axis=-1 if axis is None else axis, exclusive=bool(exclusive), reverse=bool(reverse))
