"""Constant values inside operators: which kinds there are, and arrays as text.

An attribute is None, a bool, int, float or str, a list, tuple or dict (with string keys) of attributes, a
NumPy array, a Block, or an object of a registered class (see `portable`). NumPy scalars count as the Python
numbers they hold.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.values.dtype import DType, as_dtype

MAX_DEPTH = 64  # of lists in lists; deeper values are mistakes or attacks
MAX_RANK = 32
MAX_BYTES = 1 << 48  # of one tensor


def plain(value: Any) -> Any:
    """A NumPy scalar as a Python number, a DType as its name; anything else as it is."""
    if isinstance(value, np.generic):
        return value.item()
    return value.name if isinstance(value, DType) else value


def check_size(shape: tuple[int, ...], dtype: DType) -> None:
    """Refuse shapes that no tensor has; −1 stands for an unknown dimension.

    Raises:
        InvalidArgument: more than 32 dimensions, one below −1, or more than 2^48 bytes in the known ones.
    """
    if len(shape) > MAX_RANK:
        raise InvalidArgument(f"a shape has at most {MAX_RANK} dimensions, got {len(shape)}")
    size = dtype.itemsize
    for dim in shape:
        if dim < -1:
            raise InvalidArgument(f"a dimension is >= 0, or -1 for unknown, got {dim}")
        size *= max(dim, 1)
    if size > MAX_BYTES:
        raise InvalidArgument(f"a tensor of shape {list(shape)} is too large: {size} bytes, at most 2^48 are taken")


def array_dtype(array: np.ndarray) -> DType | None:
    """The element type of an array, None for one that programs do not hold."""
    try:
        return as_dtype(array.dtype.newbyteorder("="))
    except InvalidType:
        return None


def array_data(array: np.ndarray) -> str:
    """The elements in row-major little-endian order, as base64."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(little.tobytes()).decode("ascii")


def array_from_data(dtype: DType, shape: tuple[int, ...], data: str) -> np.ndarray:
    """The array that `array_data` gives `data` for.

    Raises:
        InvalidArgument: the data is not base64, or not of the size of the shape.
    """
    check_size(shape, dtype)
    if -1 in shape:
        raise InvalidArgument(f"an array has no unknown dimension, got shape {list(shape)}")
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidArgument(f"the data of an array is not base64: {error}") from error
    expected = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if len(raw) != expected:
        raise InvalidArgument(f"{dtype} data of shape {list(shape)} has {expected} bytes, got {len(raw)}")
    return np.frombuffer(raw, dtype.numpy.newbyteorder("<")).astype(dtype.numpy).reshape(shape)
