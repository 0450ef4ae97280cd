"""Batches of arrays as batches of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import InvalidType


def as_tensors(batch: Any) -> Any:
    """The batch with tensors in the place of arrays, on the same memory; what is no array stays as it is."""
    if isinstance(batch, np.ndarray):
        return _tensor(batch)
    if isinstance(batch, Mapping):
        return {key: as_tensors(value) for key, value in batch.items()}
    if isinstance(batch, list | tuple):
        return [as_tensors(value) for value in batch]
    return batch


def _tensor(array: np.ndarray) -> Any:
    try:
        return Tensor(array)
    except InvalidType:  # of a dtype tensors do not have
        return array
