"""Joining samples into a batch of NumPy arrays. Source of the rules: `paddle.io.dataloader.collate`.

Two rules differ from Paddle's. Python floats become float32, the framework's default dtype (Paddle makes
float64, which a float32 variable would then refuse). Samples whose arrays differ in dtype are an error
instead of being promoted, because the dtype of a batch would depend on which samples are in it.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidType

_ARRAY_LIKE = (np.ndarray, np.generic)


class RaggedBatch(InvalidArgument):
    """Two samples of a batch do not fit together: number 0 and number `position`."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


def default_collate_fn(batch: Sequence[Any]) -> Any:
    """Stack the fields of the samples along a new first axis.

    Args:
        batch: samples of the same structure: arrays, numbers, strings, or (nested) sequences and mappings.

    Returns:
        The structure of one sample with arrays [len(batch), ...] as leaves: int -> int64, float -> float32,
        bool -> bool, arrays and NumPy scalars keep their dtype; tuples become lists; strings stay lists.

    Raises:
        InvalidArgument: empty batch.
        RaggedBatch: samples that differ in structure, shape or dtype, naming the field.
        InvalidType: a field that cannot be batched.
    """
    if len(batch) == 0:
        raise InvalidArgument("cannot make a batch of no samples")
    return _collate(batch, "")


def default_convert_fn(sample: Any) -> Any:
    """One sample as it is, used when automatic batching is off (`batch_size=None`)."""
    if isinstance(sample, Mapping):
        return {key: default_convert_fn(value) for key, value in sample.items()}
    if isinstance(sample, Sequence) and not isinstance(sample, (str, bytes)):
        return [default_convert_fn(value) for value in sample]
    return sample


def _collate(values: Sequence[Any], field: str) -> Any:
    first = values[0]
    if isinstance(first, _ARRAY_LIKE):
        return _stack(values, field)
    if isinstance(first, numbers.Number):
        return _numbers(values, field)
    if isinstance(first, (str, bytes)):
        return list(values)
    if isinstance(first, Mapping):
        return _mappings(values, field)
    if isinstance(first, Sequence):
        return _sequences(values, field)
    if hasattr(first, "__array__"):
        return _stack(values, field)
    raise InvalidType(
        f"{_name(field)} of sample 0 is a {type(first).__name__}: a batch is made of arrays, numbers, "
        "strings, and tuples, lists or dicts of those; pass collate_fn= for anything else"
    )


def _name(field: str) -> str:
    return f"field {field}" if field else "the value"


def _stack(values: Sequence[Any], field: str) -> np.ndarray:
    arrays = [np.asarray(value) for value in values]
    for position, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            shapes = f"{list(arrays[0].shape)} in sample 0 and {list(array.shape)} in sample {position}"
            hint = "stacking needs equal shapes (pad them, or pass collate_fn=)"
            raise RaggedBatch(f"{_name(field)} has shape {shapes} of the batch: {hint}", position)
        if array.dtype != arrays[0].dtype:
            dtypes = f"{arrays[0].dtype} in sample 0 and {array.dtype} in sample {position}"
            hint = "use one dtype for all samples"
            raise RaggedBatch(f"{_name(field)} has dtype {dtypes} of the batch: {hint}", position)
    if arrays[0].dtype == object:
        raise InvalidType(f"{_name(field)} is an array of Python objects, which cannot be fed")
    return np.stack(arrays)


def _numbers(values: Sequence[Any], field: str) -> np.ndarray:
    """Python numbers: all bool, all int, or some float."""
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return np.array(values, np.bool_)
    if kinds == {int}:
        return _integers(values, field)
    if kinds <= {int, float}:
        return np.array(values, np.float32)
    if any(issubclass(kind, _ARRAY_LIKE) for kind in kinds):
        return _stack(values, field)
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise InvalidType(f"{_name(field)} mixes values that do not make one array: {names}")


def _integers(values: Sequence[int], field: str) -> np.ndarray:
    try:
        return np.array(values, np.int64)
    except OverflowError:
        raise InvalidArgument(f"{_name(field)} has an integer outside int64") from None


def _mappings(values: Sequence[Any], field: str) -> dict[Any, Any]:
    for position, value in enumerate(values):
        if not isinstance(value, Mapping) or value.keys() != values[0].keys():
            got = sorted(map(str, value)) if isinstance(value, Mapping) else type(value).__name__
            keys = sorted(map(str, values[0]))
            what = f"{_name(field)} has the keys {keys} in sample 0, but {got} in sample {position}"
            raise RaggedBatch(f"{what} of the batch", position)
    return {key: _collate([value[key] for value in values], f"{field}[{key!r}]") for key in values[0]}


def _sequences(values: Sequence[Any], field: str) -> list[Any]:
    count = len(values[0])
    for position, value in enumerate(values):
        if isinstance(value, (str, bytes)) or not isinstance(value, Sequence) or len(value) != count:
            got = f"{len(value)}" if isinstance(value, Sequence) else f"a {type(value).__name__}"
            what = f"{_name(field)} has {count} fields in sample 0, but {got} in sample {position}"
            raise RaggedBatch(f"{what} of the batch", position)
    return [_collate(column, f"{field}[{k}]") for k, column in enumerate(zip(*values))]
