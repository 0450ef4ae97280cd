"""Kinds: shape and dtype of a value as one object, so that a signature is looked up by identity."""

from __future__ import annotations

from typing import Any

from workbench.framework.values.dtype import DType
from workbench.framework.values.spec import DENSE, Shape, Spec, spec_of

_KEPT = 1 << 16


class Kind:
    """Shape, dtype and kind (dense, rows) of a value. Equal ones are one object, as long as not too many are kept.

    Attributes:
        is_float: a gradient can be wanted of it.
    """

    __slots__ = ("dtype", "is_dense", "is_float", "shape", "spec")

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.shape: Shape = spec.shape
        self.dtype: DType = spec.dtype
        self.is_float, self.is_dense = spec.dtype.is_float, spec.kind == DENSE


_kinds: dict[Any, Kind] = {}
_of_arrays: dict[Any, Kind] = {}


def kind_of(array: Any) -> Kind:
    """The kind of a NumPy array or a sparse gradient."""
    key = array.shape, array.dtype, array.__class__
    kind = _of_arrays.get(key)
    if kind is None:
        if len(_of_arrays) >= _KEPT:
            _of_arrays.clear()
        kind = _of_arrays[key] = kind_like(spec_of(array))
    return kind


def kind_like(spec: Spec) -> Kind:
    """The kind of values with a spec, all of whose dimensions are known."""
    kind = _kinds.get(spec)
    if kind is None:
        if len(_kinds) >= _KEPT:
            _kinds.clear()
        kind = _kinds[spec] = Kind(spec)
    return kind
