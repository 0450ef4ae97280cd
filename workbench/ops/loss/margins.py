"""Losses that want scores or distances apart by a margin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.values.spec import shape_text
from workbench.ops.index.embedding import LOOKUP_TABLE
from workbench.ops.index.label import pick_label
from workbench.ops.loss.reduction import reduced, require_reduction
from workbench.ops.math.arithmetic import minimum
from workbench.ops.math.compare import where
from workbench.ops.math.products.distance import pairwise_distance
from workbench.ops.math.reductions.reduce import mean
from workbench.ops.math.reductions.reduce import sum as reduce_sum
from workbench.ops.math.unary import sqrt
from workbench.ops.nn.activation import log_sigmoid
from workbench.ops.nn.piecewise import relu
from workbench.ops.tensor.shape import length_of, unsqueeze

OFFERED = {
    "workbench.nn.functional": (
        "cosine_embedding_loss hinge_embedding_loss margin_ranking_loss multi_label_soft_margin_loss "
        "multi_margin_loss soft_margin_loss triplet_margin_loss triplet_margin_with_distance_loss"
    ),
}

TINY = 1e-11  # keeps the length of a zero vector above 0


def margin_ranking_loss(
    input: Any, other: Any, label: Any, margin: float = 0.0, reduction: str = "mean", name: str | None = None
) -> Any:
    """max(0, -label * (input - other) + margin): `input` ranks above `other` where the label is 1, below for -1.

    Args:
        input, other, label: floating tensors of one shape.
        reduction: "mean", "sum" or "none".

    Raises:
        InvalidArgument: an unknown reduction, or shapes that do not fit.

    Example:
        >>> x, y, label = wb.to_tensor([1.0, 2.0]), wb.to_tensor([3.0, 1.0]), wb.to_tensor([1.0, 1.0])
        >>> print(F.margin_ranking_loss(x, y, label, reduction="none").numpy())
        [2. 0.]
    """
    require_reduction(reduction)
    return reduced(relu((other - input) * label + margin), reduction, name)


def hinge_embedding_loss(
    input: Any, label: Any, margin: float = 1.0, reduction: str = "mean", name: str | None = None
) -> Any:
    """`input` where the label is 1, max(0, margin - input) where it is -1. Args and Raises: as `margin_ranking_loss`.

    Example:
        >>> distance, label = wb.to_tensor([0.25, 0.25]), wb.to_tensor([1.0, -1.0])
        >>> print(F.hinge_embedding_loss(distance, label, reduction="none").numpy())
        [0.25 0.75]
    """
    require_reduction(reduction)
    positive = where(label == 1.0, input, 0.0)
    return reduced(positive + where(label == -1.0, relu(margin - input), 0.0), reduction, name)


def cosine_embedding_loss(
    input1: Any, input2: Any, label: Any, margin: float = 0, reduction: str = "mean", name: str | None = None
) -> Any:
    """1 - cos(input1, input2) where the label is 1, max(0, cos - margin) where it is -1.

    Args:
        input1, input2: `[N, D]` or `[D]`.
        label: `[N]` or `[1]`.
        margin: in [-1, 1].
        reduction: "mean", "sum" or "none".

    Raises:
        InvalidArgument: shapes that do not fit, or a margin out of range.

    Example:
        >>> x, y = wb.to_tensor([[1.0, 0.0]]), wb.to_tensor([[3.0, 4.0]])
        >>> print(F.cosine_embedding_loss(x, y, wb.to_tensor([-1.0]), reduction="none").numpy().round(3))
        [0.6]
    """
    require_reduction(reduction)
    if not -1 <= margin <= 1:
        raise InvalidArgument(f"cosine_embedding_loss takes a margin in [-1, 1], got {margin}")
    if len(input1.shape) > 2 or len(label.shape) > 1:
        got = f"{shape_text(input1.shape)} and label {shape_text(label.shape)}"
        raise ShapeError("cosine_embedding_loss takes vectors", "[N, D] and label [N], or [D] and label [1]", got)
    squares = (reduce_sum(input1 * input1, axis=-1) + TINY) * (reduce_sum(input2 * input2, axis=-1) + TINY)
    cosine = reduce_sum(input1 * input2, axis=-1) / sqrt(squares)
    positive = where(label == 1, 1.0 - cosine, 0.0)
    return reduced(positive + where(label == -1, relu(cosine - margin), 0.0), reduction, name)


def soft_margin_loss(input: Any, label: Any, reduction: str = "mean", name: str | None = None) -> Any:
    """log(1 + exp(-label * input)), labels being 1 or -1. Args and Raises: as for `margin_ranking_loss`.

    Example:
        >>> round(F.soft_margin_loss(wb.to_tensor([0.0]), wb.to_tensor([1.0])).item(), 3)
        0.693
    """
    require_reduction(reduction)
    return reduced(-log_sigmoid(input * label.astype(input.dtype)), reduction, name)


def multi_label_soft_margin_loss(
    input: Any, label: Any, weight: Any = None, reduction: str = "mean", name: str | None = None
) -> Any:
    """The mean over classes of the cross entropy of yes/no labels with sigmoid(input).

    Args:
        input: logits `[N, C]`; label: 0 or 1, `[N, C]`.
        weight: `[C]` or `[N, C]`, or None.
        reduction: "mean", "sum" or "none" (`[N]`).

    Raises:
        InvalidArgument: an unknown reduction, or shapes that do not fit.

    Example:
        >>> scores, label = wb.to_tensor([[0.0, 0.0]]), wb.to_tensor([[1.0, 0.0]])
        >>> print(F.multi_label_soft_margin_loss(scores, label, reduction="none").numpy().round(3))
        [0.693]
    """
    require_reduction(reduction)
    if len(input.shape) != len(label.shape):
        got = f"{shape_text(input.shape)} and {shape_text(label.shape)}"
        raise ShapeError("multi_label_soft_margin_loss takes a label per score", "one shape", got)
    label = label.astype(input.dtype)
    loss = -(label * log_sigmoid(input) + (1.0 - label) * log_sigmoid(-input))
    return reduced(mean(loss if weight is None else loss * weight, axis=-1), reduction, name)


def multi_margin_loss(
    input: Any,
    label: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    reduction: str = "mean",
    name: str | None = None,
) -> Any:
    """The mean over classes j other than the label y of max(0, margin - input[y] + input[j])^p.

    Args:
        input: scores `[N, C]`; label: class numbers `[N]`.
        weight: `[C]`, or None; that of the label multiplies what is under the maximum.
        reduction: "mean", "sum" or "none" (`[N]`).

    Raises:
        InvalidArgument: an unknown reduction, or shapes that do not fit; when run, a label out of range.

    Example:
        >>> scores = wb.to_tensor([[0.5, 1.0]])
        >>> print(F.multi_margin_loss(scores, wb.to_tensor([1]), reduction="none").numpy())
        [0.25]
    """
    require_reduction(reduction)
    if len(input.shape) != 2 or len(label.shape) != 1:
        got = f"{shape_text(input.shape)} and {shape_text(label.shape)}"
        raise ShapeError("multi_margin_loss takes a label per row of scores", "[N, C] and [N]", got)
    apart = margin - pick_label(input, label, axis=1) + input
    own = float(margin) ** p / length_of(input, 1)  # what class y itself puts into the mean
    if weight is None:
        return reduced(mean(_power(relu(apart), p), axis=1) - own, reduction, name)
    factor = LOOKUP_TABLE(unsqueeze(weight, -1), label)
    loss = mean(_power(relu(factor * apart), p), axis=1) - reduce_sum(factor, axis=1) * own
    return reduced(loss, reduction, name)


def _power(x: Any, p: float) -> Any:
    return x if p == 1 else x**p


def triplet_margin_loss(
    input: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    epsilon: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
    name: str | None = None,
) -> Any:
    """max(0, |input - positive| - |input - negative| + margin) with the p-norm of every row.

    Args:
        input, positive, negative: `[N, D]`.
        epsilon: added to differences.
        swap: take |positive - negative| where that is smaller than |input - negative|.
        reduction: "mean", "sum" or "none" (`[N]`).

    Raises:
        InvalidArgument: an unknown reduction, a margin below 0, or shapes that do not fit.

    Source: Balntas et al., "Learning local feature descriptors with triplets …", 2016.

    Example:
        >>> x, near, far = wb.zeros([1, 2]), wb.to_tensor([[0.0, 1.0]]), wb.to_tensor([[3.0, 4.0]])
        >>> print(F.triplet_margin_loss(x, near, far, margin=5.0, reduction="none").numpy().round(3))
        [1.]
    """

    def distance(x: Any, y: Any) -> Any:
        return pairwise_distance(x, y, p, epsilon)

    return triplet_margin_with_distance_loss(input, positive, negative, distance, margin, swap, reduction, name)


def triplet_margin_with_distance_loss(
    input: Any,
    positive: Any,
    negative: Any,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
    name: str | None = None,
) -> Any:
    """`triplet_margin_loss` with any distance of two tensors, the Euclidean one of rows by default.

    Example:
        >>> x, near, far = wb.zeros([1, 2]), wb.to_tensor([[0.0, 1.0]]), wb.to_tensor([[3.0, 4.0]])
        >>> print(F.triplet_margin_with_distance_loss(x, near, far, margin=5.0, reduction="none").numpy().round(3))
        [1.]
    """
    require_reduction(reduction)
    if margin < 0:
        raise InvalidArgument(f"a margin of distances is at least 0, got {margin}")
    distance = distance_function or pairwise_distance
    far = distance(input, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced(relu(distance(input, positive) - far + margin), reduction, name)
