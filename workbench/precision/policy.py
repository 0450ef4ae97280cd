"""Which ops compute in half precision, and which never do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from workbench.framework.op.record import Op
from workbench.framework.values.dtype import DType, float32
from workbench.ops.loss.losses import BCE_LOSS, HUBER_LOSS, KL_LOSS, SIGMOID_CROSS_ENTROPY
from workbench.ops.loss.softmax import LOG_SOFTMAX, SOFTMAX, SOFTMAX_WITH_CROSS_ENTROPY
from workbench.ops.math.cast import CAST
from workbench.ops.math.reductions.folds import LOGSUMEXP, REDUCE_PROD
from workbench.ops.math.reductions.reduce import MEAN, REDUCE_MEAN, REDUCE_SUM
from workbench.ops.math.unary import EXP, LOG, RSQRT, SQUARE
from workbench.ops.nn.norm import BATCH_NORM, LAYER_NORM

_SENSITIVE = (
    EXP, LOG, RSQRT, SQUARE, MEAN, REDUCE_MEAN, REDUCE_SUM, REDUCE_PROD, LOGSUMEXP, SOFTMAX, LOG_SOFTMAX,
    SOFTMAX_WITH_CROSS_ENTROPY, SIGMOID_CROSS_ENTROPY, BCE_LOSS, KL_LOSS, HUBER_LOSS,
)  # fmt: skip
IN_FLOAT32 = frozenset(op.type for op in _SENSITIVE)
"""Sums of many terms, exponentials and losses: what half precision rounds too coarsely, or cannot hold."""
AS_THEY_ARE = frozenset(op.type for op in (CAST, BATCH_NORM, LAYER_NORM))
"""Conversions say themselves what they make; normalisations take statistics in another dtype than their input."""


class Policy:
    """What is done to the floating inputs of an op.

    Args:
        dtype: the half precision. everything: all ops but those that never do compute in it (level O2), not only
            products (level O1).
        white, black: op types that do in any case, or never.
    """

    def __init__(self, dtype: DType, everything: bool, white: Iterable[str], black: Iterable[str]) -> None:
        self._dtype, self._everything = dtype, everything
        self._white, self._black = frozenset(white), frozenset(black)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self._dtype, self._everything, self._white, self._black))

    def dtype_for(self, op: Op, inputs: Sequence[Any]) -> DType | None:
        """What floating inputs are converted to; None leaves them as they are."""
        if op.type in self._black:
            return float32
        if op.type in self._white or op.is_product:
            return self._dtype
        if op.type in AS_THEY_ARE:
            return None
        if op.type in IN_FLOAT32:
            return float32
        if self._everything:
            return self._dtype
        return float32 if self._is_mixed(inputs) else None

    def _is_mixed(self, inputs: Sequence[Any]) -> bool:
        dtypes = {t.dtype for t in flat(inputs) if t.dtype in (self._dtype, float32)}
        return len(dtypes) > 1


def flat(inputs: Sequence[Any]) -> list[Any]:
    """The tensors among the inputs of an op, lists opened."""
    flattened: list[Any] = []
    for value in inputs:
        for each in value if isinstance(value, list | tuple) else [value]:
            if each is not None and hasattr(each, "dtype") and hasattr(each.dtype, "is_float"):
                flattened.append(each)
    return flattened
