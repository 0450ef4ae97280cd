"""`autograd.jacobian` and `autograd.hessian`: matrices of derivatives, a row computed when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.dygraph.autograd.gradients import grad, tensor_list
from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import InvalidArgument
from workbench.ops.tensor.join import stack


class Jacobian:
    """dy/dx, `[M, N]` for y `[M]` and x `[N]`; `[B, M, N]` where the first dimension of both is a batch.

    Rows are computed when they are first read, and kept. It may be indexed, and used like the tensor `J[...]`.
    """

    def __init__(self, y: Tensor, x: Tensor, is_batched: bool) -> None:
        _require_ranks(y, x, is_batched)
        self._y, self._x, self._is_batched = y, x, is_batched
        self._rows: dict[int, Tensor] = {}
        self._batch = [y.shape[0]] if is_batched else []
        self._has_rows = y.ndim > len(self._batch)
        self._height = y.shape[-1] if self._has_rows else 1

    @property
    def shape(self) -> list[int]:
        """Dimensions; one that y or x lacks is left out."""
        inner = self._x.shape[1:] if self._is_batched else self._x.shape
        return [*self._batch, *([self._height] if self._has_rows else []), *inner]

    def __getitem__(self, index: Any) -> Any:
        entries = list(index) if isinstance(index, tuple) else [index]
        axis = len(self._batch)
        if not self._has_rows:
            return self._row(0)[index]
        is_plain = len(entries) > axis and not any(e is ... for e in entries)
        asked = entries[axis] if is_plain else slice(None)
        if isinstance(asked, int):
            row = self._row(range(self._height)[asked])
            rest = [*entries[:axis], *entries[axis + 1 :]]
            return row[tuple(rest)] if rest else row
        numbers = range(self._height)[asked] if isinstance(asked, slice) else range(self._height)
        whole = stack([self._row(i) for i in numbers], axis=axis)
        if isinstance(asked, slice) and len(entries) > axis:
            entries[axis] = slice(None)
        return whole[tuple(entries)]

    def _row(self, number: int) -> Tensor:
        if number not in self._rows:
            part = self._y[..., number] if self._has_rows else self._y
            (row,) = grad([part], [self._x], create_graph=True, retain_graph=True, allow_unused=True)
            self._rows[number] = _zeros(self._x) if row is None else row
        return self._rows[number]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self[...], name)

    def __add__(self, other: Any) -> Any:
        return self[...] + _whole(other)

    def __sub__(self, other: Any) -> Any:
        return self[...] - _whole(other)

    def __mul__(self, other: Any) -> Any:
        return self[...] * _whole(other)

    def __truediv__(self, other: Any) -> Any:
        return self[...] / _whole(other)

    def __matmul__(self, other: Any) -> Any:
        return self[...] @ _whole(other)

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        return np.asarray(self[...].numpy())

    def __repr__(self) -> str:
        return repr(self[...])


class Hessian(Jacobian):
    """The second derivatives of one number by x, `[N, N]`; of one per row of a batch, `[B, N, N]`."""


def _zeros(x: Tensor) -> Tensor:
    return Tensor(np.zeros_like(x.array))


def _whole(value: Any) -> Any:
    return value[...] if isinstance(value, Jacobian) else value


def _require_ranks(y: Tensor, x: Tensor, is_batched: bool) -> None:
    allowed = (1, 2) if is_batched else (0, 1)
    for what, t in (("xs", x), ("ys", y)):
        if t.ndim not in allowed:
            raise InvalidArgument(
                f"{what} of a jacobian has {allowed[0]} or {allowed[1]} dimensions "
                f"{'with' if is_batched else 'without'} batch_axis, got shape {t.shape}"
            )


def jacobian(ys: Any, xs: Any, batch_axis: int | None = None) -> Any:
    """The derivatives of `ys` by `xs`, each a `Jacobian`.

    Args:
        ys, xs: a Tensor of shape [] or [N], or a list of them; with `batch_axis=0` of shape [B] or [B, N].
        batch_axis: 0 if the first dimension of all of them is a batch, whose rows do not depend on each other.

    Returns:
        a Jacobian; for several `xs` a tuple of them, for several `ys` a tuple of these.

    Raises:
        InvalidArgument: other ranks, or another `batch_axis`. InvalidForm: no tensors.

    Example:
        >>> x = wb.to_tensor([1.0, 2.0], stop_gradient=False)
        >>> print(wb.autograd.jacobian(x * x, x)[:].numpy())
        [[2. 0.]
         [0. 4.]]
    """
    is_batched = _batched(batch_axis)
    outer = [_as_given(xs, [Jacobian(y, x, is_batched) for x in tensor_list(xs, "xs")]) for y in tensor_list(ys, "ys")]
    return _as_given(ys, outer)


def hessian(ys: Any, xs: Any, batch_axis: int | None = None) -> Any:
    """The second derivatives of `ys` by `xs`, each a `Hessian`.

    Args:
        ys: a Tensor with one element; with `batch_axis=0` of shape [B] or [B, 1].
        xs: a Tensor of shape [] or [N], or a list of them; with `batch_axis=0` of shape [B, N].

    Returns:
        a Hessian; for several `xs` a tuple of tuples, by the first and the second one of a pair.

    Raises:
        InvalidArgument: other shapes, or another `batch_axis`. InvalidForm: no tensors.

    Example:
        >>> x = wb.to_tensor([1.0, 2.0], stop_gradient=False)
        >>> print(wb.autograd.hessian((x * x * x).sum(), x)[:].numpy())
        [[ 6.  0.]
         [ 0. 12.]]
    """
    is_batched = _batched(batch_axis)
    (y,), sources = tensor_list([ys] if isinstance(ys, Tensor) else ys, "ys"), tensor_list(xs, "xs")
    if (y.size != 1) if not is_batched else (y.ndim > 2 or (y.ndim == 2 and y.shape[1] != 1)):
        raise InvalidArgument(f"a hessian is of one number{' per row' if is_batched else ''}, got shape {y.shape}")
    slopes = grad([y], sources, create_graph=True, allow_unused=True)
    known = [_zeros(x) if slope is None else slope for slope, x in zip(slopes, sources, strict=True)]
    rows = [_as_given(xs, [Hessian(slope, x, is_batched) for x in sources]) for slope in known]
    return _as_given(xs, rows)


def _as_given(given: Any, results: Sequence[Any]) -> Any:
    return tuple(results) if isinstance(given, list | tuple) else results[0]


def _batched(batch_axis: int | None) -> bool:
    if batch_axis not in (None, 0):
        raise InvalidArgument(f"batch_axis is 0 or None, got {batch_axis!r}")
    return batch_axis == 0
