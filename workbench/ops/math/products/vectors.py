"""Functions of vectors and their lengths; composed of other ops."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.op.infix import tensor_method
from workbench.framework.values.spec import normalize_axis, shape_text
from workbench.ops.arguments import one_int
from workbench.ops.math.compare import where
from workbench.ops.math.products.distance import length
from workbench.ops.pointwise import Tensor
from workbench.ops.tensor.creation import full_like, ones_like
from workbench.ops.tensor.join import stack
from workbench.ops.tensor.shape import unsqueeze
from workbench.ops.tensor.tile import flip, roll

OFFERED = {"workbench": "cdist cross renorm vander"}

FIRST_OF_SIZE_3 = 9  # Paddle's default of `cross`


@tensor_method("cross")
def cross(x: Tensor, y: Tensor, axis: int = FIRST_OF_SIZE_3, name: str | None = None) -> Any:
    """The vector products of vectors of three entries.

    Args:
        x, y: tensors of one shape and dtype.
        axis: along which the vectors lie; by default the first one of size 3.

    Raises:
        InvalidArgument: no axis of size 3, shapes that differ.

    Example:
        >>> print(wb.cross(wb.to_tensor([1.0, 0.0, 0.0]), wb.to_tensor([0.0, 1.0, 0.0])).numpy())
        [0. 0. 1.]
    """
    threes = [a for a, d in enumerate(x.shape) if d == 3]
    axis = (threes or [0])[0] if axis == FIRST_OF_SIZE_3 else normalize_axis(axis, len(x.shape))
    if axis not in threes or tuple(x.shape) != tuple(y.shape):
        got = f"{shape_text(x.shape)} and {shape_text(y.shape)}"
        raise ShapeError("cross multiplies vectors of three entries", "one shape, 3 along the axis", got)
    return roll(x, -1, axis) * roll(y, -2, axis) - roll(x, -2, axis) * roll(y, -1, axis)


@tensor_method("cdist")
def cdist(
    x: Tensor,
    y: Tensor,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
    name: str | None = None,
) -> Any:
    """The p-norms of the differences of all rows of `x` and all rows of `y`.

    Args:
        x: [..., n, k]. y: [..., m, k], of one dtype.
        p: a number >= 0, or infinity.
        compute_mode: one of Paddle's three words, which all mean the same here.

    Returns:
        [..., n, m].

    Raises:
        InvalidArgument: p below 0, another mode, rows of other sizes.

    Example:
        >>> print(wb.cdist(wb.to_tensor([[3.0, 4.0]]), wb.to_tensor([[0.0, 0.0], [3.0, 0.0]])).numpy())
        [[5. 4.]]
    """
    known = [f"{word}use_mm_for_euclid_dist" for word in ("", "donot_")]
    if compute_mode not in (*known, f"{known[0]}_if_necessary"):
        raise InvalidArgument(f"cdist's compute_mode is one of {known[0]}_if_necessary, {', '.join(known)}")
    if p < 0:
        raise InvalidArgument(f"cdist takes p >= 0, got {p}")
    return length(unsqueeze(x, -2) - unsqueeze(y, -3), float(p), axis=-1, name=name)


@tensor_method("renorm")
def renorm(x: Tensor, p: float, axis: int, max_norm: float) -> Any:
    """`x` with the slices along `axis` whose p-norm exceeds `max_norm` scaled down to it.

    Raises:
        InvalidArgument: p <= 0, max_norm < 0, an axis that is not there.

    Example:
        >>> print(wb.renorm(wb.to_tensor([[3.0, 4.0], [0.6, 0.8]]), 2.0, 0, 1.0).numpy().round(3))
        [[0.6 0.8]
         [0.6 0.8]]
    """
    if p <= 0 or max_norm < 0:
        raise InvalidArgument(f"renorm takes p > 0 and max_norm >= 0, got {p} and {max_norm}")
    axis = normalize_axis(one_int("renorm's axis", axis), len(x.shape))
    size = length(x, float(p), axis=[a for a in range(len(x.shape)) if a != axis], keepdim=True)
    return x * where(size > max_norm, max_norm / (size + 1e-7), ones_like(size))


@tensor_method("vander")
def vander(x: Tensor, n: int | None = None, increasing: bool = False, name: str | None = None) -> Any:
    """The powers of each element of a vector, n - 1 down to 0 (`increasing`: 0 up to n - 1), a row each.

    Args:
        n: how many powers; by default as many as elements.

    Raises:
        InvalidArgument: `x` is no vector, n < 0 or not known.

    Example:
        >>> print(wb.vander(wb.to_tensor([2.0, 3.0])).numpy())
        [[2. 1.]
         [3. 1.]]
    """
    count = x.shape[0] if n is None and len(x.shape) == 1 else n
    if len(x.shape) != 1 or count is None or count < 0:
        raise ShapeError("vander takes a vector and n >= 0", "shape [m]", f"{shape_text(x.shape)} and {n}")
    powers = [full_like(x, 1.0)]
    while len(powers) < count:
        powers.append(powers[-1] * x)
    rising = stack(powers[: max(count, 1)], 1)[:, :count]
    return rising if increasing else flip(rising, 1)
