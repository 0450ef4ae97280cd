"""New tensors: constants, ranges, the identity matrix.

Shapes are lists of ints fixed when the op is applied; `-1` and tensors inside a shape are refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidType, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.infix import Infix, is_number, tensor_method
from workbench.framework.values.default_dtype import default_dtype
from workbench.framework.values.dtype import as_dtype, int64
from workbench.framework.values.limits import require_holds
from workbench.framework.values.spec import Shape, Spec
from workbench.ops.arguments import as_number, has_value, one_int
from workbench.ops.pointwise import Tensor

OFFERED = {"workbench": "arange eye full full_like linspace ones ones_like zeros zeros_like"}


def as_shape(what: str, shape: Any) -> Shape:
    """The dims of a new tensor.

    Raises:
        InvalidType: a tensor, or a tensor among the dims. InvalidArgument: a negative dim.
    """
    if isinstance(shape, Infix) and has_value(shape):
        shape = shape.tolist()  # type: ignore[attr-defined]
    if isinstance(shape, Infix | str):
        raise InvalidType(f"{what} takes a shape of ints fixed when it is called, got {shape!r}")
    given = list(shape) if hasattr(shape, "__iter__") else [shape]
    dims = tuple(one_int(f"every entry of the shape of {what}", d) for d in given)
    if any(d < 0 for d in dims):
        raise InvalidArgument(
            f"{what} makes a tensor of a known size\n"
            f"  expected: dimensions >= 0 (the *_like functions follow another tensor's shape)\n"
            f"  got:      {list(dims)}"
        )
    return dims


def _infer_full(shape: Sequence[int], dtype: str, value: Any) -> Spec:
    require_holds("full", dtype, value)
    return infer_new(shape, dtype)


def infer_new(shape: Sequence[int], dtype: str, **attrs: Any) -> Spec:
    if any(d < 0 for d in shape):
        raise ShapeError("the shape of a new tensor is known", "dimensions >= 0", list(shape))
    return Spec(tuple(shape), as_dtype(dtype))


# Constants


@op(
    "fill_constant",
    "-> Out",
    attrs={"shape": (), "value": 0.0, "dtype": "float32"},
    infer=_infer_full,
)
def FILL_CONSTANT(xp: Any, shape: Sequence[int], value: Any, dtype: str) -> Any:
    """A tensor full of one number."""
    return xp.full(tuple(shape), value, as_dtype(dtype).numpy)


def full(shape: Any, fill_value: float, dtype: Any = None, name: str | None = None) -> Tensor:
    """A tensor of the given shape full of `fill_value`.

    Args:
        shape: an int or a sequence of ints >= 0.
        fill_value: a number.
        dtype: float32 by default.

    Raises:
        InvalidType: the shape or the value is or contains a tensor.
        InvalidArgument: a negative dim; a value that the dtype does not hold (NaN, or too large, for integers).

    Example:
        >>> print(wb.full([2, 2], 7.0).numpy())
        [[7. 7.]
         [7. 7.]]
    """
    value = fill_value if is_number(fill_value) else as_number("full", fill_value)
    dtype = as_dtype(dtype or default_dtype())
    return FILL_CONSTANT(shape=as_shape("full", shape), value=_attribute(value), dtype=dtype.name, name=name)


def _attribute(number: Any) -> Any:
    """A plain Python number for a Program's attributes."""
    return number.item() if isinstance(number, np.generic | np.ndarray) else number


def zeros(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """A tensor of zeros. Args and Raises: as for `full`.

    Example:
        >>> print(wb.zeros([2, 2]).numpy())
        [[0. 0.]
         [0. 0.]]
    """
    return full(shape, 0, dtype, name)


def ones(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """A tensor of ones. Args and Raises: as for `full`.

    Example:
        >>> print(wb.ones([2, 2], "int32").numpy())
        [[1 1]
         [1 1]]
    """
    return full(shape, 1, dtype, name)


def _infer_like(x: Spec, value: Any, dtype: str) -> Spec:
    kind = as_dtype(dtype) if dtype else x.dtype
    require_holds("full_like", kind, value)
    return Spec(x.shape, kind)


def _like_dtype(x: Any, dtype: str) -> Any:
    return as_dtype(dtype).numpy if dtype else x.dtype


@op(
    "fill_any_like",
    "X -> Out",
    attrs={"value": 0.0, "dtype": ""},
    infer=_infer_like,
    saved="",
    shape_only="X",
)
def FILL_ANY_LIKE(xp: Any, x: Any, value: Any, dtype: str) -> Any:
    """One number in the shape of X; `dtype` "" is that of X."""
    return xp.full(x.shape, value, _like_dtype(x, dtype))


@tensor_method("full_like")
def full_like(x: Tensor, fill_value: float, dtype: Any = None, name: str | None = None) -> Tensor:
    """A tensor of the shape of `x` (known or not) full of `fill_value`.

    Args:
        x: tensor of any shape and dtype; its values are not read and get no gradient.
        fill_value: a number.
        dtype: that of `x` by default.

    Raises:
        InvalidType: `fill_value` is no number, `dtype` no dtype. InvalidArgument: a value that the dtype does not hold.

    Example:
        >>> print(wb.full_like(wb.to_tensor([1.0, 2.0]), 7.0).numpy())
        [7. 7.]
    """
    if not is_number(fill_value):
        raise InvalidType(f"full_like takes a number to fill with, got {fill_value!r}")
    dtype_name = as_dtype(dtype).name if dtype is not None else ""
    return FILL_ANY_LIKE(x, value=_attribute(fill_value), dtype=dtype_name, name=name)


def zeros_like(x: Tensor, dtype: Any = None, name: str | None = None) -> Tensor:
    """Zeros in the shape of `x`. Args and Raises: as for `full_like`.

    Example:
        >>> print(wb.zeros_like(wb.to_tensor([5.0, 6.0])).numpy())
        [0. 0.]
    """
    return full_like(x, 0, dtype, name)


def ones_like(x: Tensor, dtype: Any = None, name: str | None = None) -> Tensor:
    """Ones in the shape of `x`. Args and Raises: as for `full_like`.

    Example:
        >>> print(wb.ones_like(wb.to_tensor([5.0, 6.0])).numpy())
        [1. 1.]
    """
    return full_like(x, 1, dtype, name)


# Ranges


@op(
    "range",
    "-> Out",
    attrs={"start": 0.0, "end": 0.0, "step": 1.0, "dtype": "int64"},
    infer=lambda start, end, step, dtype: Spec((_count(start, end, step),), as_dtype(dtype)),
)
def RANGE(xp: Any, start: Any, end: Any, step: Any, dtype: str) -> Any:
    """start, start + step, ... below end (above it if step is negative)."""
    return (start + step * xp.arange(_count(start, end, step))).astype(as_dtype(dtype).numpy)


def _count(start: Any, end: Any, step: Any) -> int:
    if step == 0:
        raise ShapeError("the step of a range is not zero", "a number other than 0", step)
    return max(math.ceil((end - start) / step), 0)


def arange(start: Any = 0, end: Any = None, step: Any = 1, dtype: Any = None, name: str | None = None) -> Tensor:
    """start, start + step, start + 2 step, ... without `end`.

    Args:
        start, end, step: numbers, or in dynamic mode tensors of one element; with `end` None the range goes from 0 to
            `start`.
        dtype: by default int64 if all three are ints, otherwise that of `get_default_dtype`.

    Returns:
        shape `[ceil((end - start) / step)]`, empty if that is negative.

    Raises:
        InvalidType: an argument is no number (a Variable, for example). InvalidArgument: step is 0.

    Example:
        >>> print(wb.arange(0, 10, 3).numpy())
        [0 3 6 9]
    """
    if end is None:
        start, end = 0, start
    start, end, step = (v.item() if isinstance(v, Infix) and hasattr(v, "item") else v for v in (start, end, step))
    for what, value in (("start", start), ("end", end), ("step", step)):
        if not is_number(value):
            raise InvalidType(f"arange takes numbers, got {value!r} as {what}")
    numbers = [_attribute(v) for v in (start, end, step)]
    default = int64 if all(isinstance(v, int) for v in numbers) else default_dtype()
    dtype = as_dtype(dtype) if dtype is not None else default
    return RANGE(start=numbers[0], end=numbers[1], step=numbers[2], dtype=dtype.name, name=name)


@op(
    "linspace",
    "-> Out",
    attrs={"start": 0.0, "stop": 0.0, "num": 1, "dtype": "float32"},
    infer=lambda start, stop, num, dtype: Spec((num,), as_dtype(dtype)),
)
def LINSPACE(xp: Any, start: float, stop: float, num: int, dtype: str) -> Any:
    """`num` numbers at equal distances, both ends included."""
    return xp.linspace(start, stop, num, dtype=np.float64).astype(as_dtype(dtype).numpy)


def linspace(start: float, stop: float, num: int, dtype: Any = None, name: str | None = None) -> Tensor:
    """`num` numbers at equal distances from `start` to `stop`, both included; shape `[num]`.

    Args:
        dtype: float32 by default.

    Raises:
        InvalidType: an argument is no number. InvalidArgument: num < 1.

    Example:
        >>> print(wb.linspace(0.0, 1.0, 5).numpy())
        [0.   0.25 0.5  0.75 1.  ]
    """
    start, stop = as_number("start of linspace", start), as_number("stop of linspace", stop)
    num = one_int("num of linspace", num)
    if num < 1:
        raise InvalidArgument(f"linspace makes at least one number, got num={num}")
    dtype = as_dtype(dtype or default_dtype())
    return LINSPACE(start=start, stop=stop, num=num, dtype=dtype.name, name=name)


# Matrices


@op(
    "eye",
    "-> Out",
    attrs={"num_rows": 0, "num_columns": 0, "dtype": "float32"},
    infer=lambda num_rows, num_columns, dtype: Spec((num_rows, num_columns), as_dtype(dtype)),
)
def EYE(xp: Any, num_rows: int, num_columns: int, dtype: str) -> Any:
    """Ones on the main diagonal, zeros elsewhere."""
    return xp.eye(num_rows, num_columns, dtype=as_dtype(dtype).numpy)


def eye(num_rows: int, num_columns: int | None = None, dtype: Any = None, name: str | None = None) -> Tensor:
    """The matrix `[num_rows, num_columns]` with ones on its main diagonal.

    Args:
        num_columns: `num_rows` by default. dtype: float32 by default.

    Raises:
        InvalidType: a size is no int. InvalidArgument: it is negative.

    Example:
        >>> print(wb.eye(2, 3).numpy())
        [[1. 0. 0.]
         [0. 1. 0.]]
    """
    rows, columns = as_shape("eye", [num_rows, num_rows if num_columns is None else num_columns])
    return EYE(num_rows=rows, num_columns=columns, dtype=as_dtype(dtype or default_dtype()).name, name=name)
