"""Losses of scores or probabilities of classes: cross entropy, negative log likelihood."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument
from workbench.framework.values.dtype import float16
from workbench.framework.values.spec import normalize_axis, shape_text
from workbench.ops.index.embedding import LOOKUP_TABLE, one_hot
from workbench.ops.index.label import IGNORE_INDEX, label_smooth, pick_label
from workbench.ops.loss.reduction import label_count, reduced, require_reduction
from workbench.ops.loss.softmax import softmax_with_cross_entropy
from workbench.ops.math.clip import clip
from workbench.ops.math.reductions.reduce import mean
from workbench.ops.math.reductions.reduce import sum as reduce_sum
from workbench.ops.math.unary import log
from workbench.ops.tensor.shape import reshape, squeeze, unsqueeze
from workbench.ops.tensor.transpose import moveaxis

OFFERED = {"workbench.nn.functional": "cross_entropy nll_loss"}


def cross_entropy(
    input: Any,
    label: Any,
    weight: Any = None,
    ignore_index: int = IGNORE_INDEX,
    reduction: str = "mean",
    soft_label: bool = False,
    axis: int = -1,
    use_softmax: bool = True,
    label_smoothing: float = 0.0,
    name: str | None = None,
) -> Any:
    """Cross entropy of class scores with labels.

    Args:
        input: floating tensor `[..., C, ...]` with C classes along `axis`: logits, or, without
            `use_softmax`, probabilities.
        label: hard: integers in [0, C), shaped as `input` without `axis` or with 1 there;
            soft: probabilities in the shape of `input`. Receives no gradient.
        weight: `[C]`, a factor per class.
        ignore_index: hard labels of this value give loss 0 and take no part in the mean.
        reduction: `"mean"` (with weights: divided by the sum of the weights that took part), `"sum"`, both of
            shape [1] (in dynamic mode []), or `"none"` (shape of a hard label; of `input` with 1 at `axis` for soft
            ones).
        label_smoothing: this share of every label is spread over all classes (`label_smooth`); labels are then soft, so
            `ignore_index` has no part in it.

    Raises:
        InvalidArgument: shapes, dtypes or options that do not fit; when run, a label out of range.

    Example:
        >>> scores, label = wb.to_tensor([[0.0, 0.0], [9.0, 0.0]]), wb.to_tensor([1, 0])
        >>> print(F.cross_entropy(scores, label).numpy().round(3))
        0.347
    """
    require_reduction(reduction)
    axis = normalize_axis(axis, len(input.shape))
    if label_smoothing:
        label, soft_label = _smoothed(input, label, soft_label, axis, label_smoothing), True
    losses = _soft_losses if soft_label else _hard_losses
    loss, share = losses(input, label, weight, ignore_index, axis, use_softmax)
    if reduction == "mean":
        return mean(loss, name=name) if share is None else reduce_sum(loss) / share()
    if reduction == "none" and len(label.shape) == len(input.shape) - 1:
        return squeeze(loss, axis=axis, name=name)
    return reduced(loss, reduction, name)


def _smoothed(input: Any, label: Any, soft_label: bool, axis: int, share: float) -> Any:
    """Soft labels, the classes along `axis`."""
    if soft_label or (len(label.shape) == len(input.shape) and label.shape[axis] != 1):
        return label_smooth(label.astype(input.dtype), epsilon=share)
    classes = squeeze(label, axis=axis) if len(label.shape) == len(input.shape) else label
    return moveaxis(label_smooth(one_hot(classes, input.shape[axis]).astype(input.dtype), epsilon=share), -1, axis)


def _columns(vector: Any, rank: int, axis: int) -> Any:
    return reshape(vector, [-1 if i == axis else 1 for i in range(rank)])


def _log_probability(x: Any) -> Any:
    """log(x), finite for x = 0: the smallest normal number takes its place."""
    return log(clip(x, min=2.0**-14 if x.dtype is float16 else 2.0**-126))


def _soft_losses(input: Any, label: Any, weight: Any, ignore_index: int, axis: int, use_softmax: bool) -> Any:
    """A loss per vector along `axis`, and a function giving what the sum is divided by (None: the count)."""
    if use_softmax:
        loss = softmax_with_cross_entropy(input, label, soft_label=True, axis=axis)
    else:
        loss = -reduce_sum(label * _log_probability(input), axis=axis, keepdim=True)
    if weight is None:
        return loss, None
    factor = reduce_sum(label * _columns(weight, len(input.shape), axis), axis=axis, keepdim=True)
    return loss * factor, lambda: _not_zero(reduce_sum(factor))


def _hard_losses(input: Any, label: Any, weight: Any, ignore_index: int, axis: int, use_softmax: bool) -> Any:
    """As `_soft_losses`."""
    if use_softmax:
        loss = softmax_with_cross_entropy(input, label, ignore_index=ignore_index, axis=axis)
    else:
        picked = pick_label(input, label, axis=axis, ignore_index=ignore_index)
        ignored = (_with_axis(label, input, axis) == ignore_index).astype(input.dtype)
        loss = -_log_probability(picked + ignored)
    return _weighted(loss, label, weight, ignore_index, input, axis)


def _weighted(loss: Any, label: Any, weight: Any, ignore_index: int, input: Any, axis: int) -> Any:
    if weight is None:
        return loss, lambda: label_count(label, ignore_index, loss)
    if len(weight.shape) != 1:
        raise InvalidArgument(f"class weights have shape [C], one per class, got {shape_text(weight.shape)}")
    label = _with_axis(label, input, axis)
    valid = label != ignore_index
    factor = LOOKUP_TABLE(unsqueeze(weight, axis=-1), label * valid.astype(label.dtype))
    factor = squeeze(factor, axis=-1) * valid.astype(weight.dtype)
    return loss * factor, lambda: _not_zero(reduce_sum(factor))


def _with_axis(label: Any, input: Any, axis: int) -> Any:
    """Hard labels with the class axis, of length 1."""
    return label if len(label.shape) == len(input.shape) else unsqueeze(label, axis=axis)


def _not_zero(total: Any) -> Any:
    """`total`, 1 where it is 0: a sum over nothing divided by it stays 0."""
    return total + (total == 0).astype(total.dtype)


def nll_loss(
    input: Any,
    label: Any,
    weight: Any = None,
    ignore_index: int = IGNORE_INDEX,
    reduction: str = "mean",
    name: str | None = None,
) -> Any:
    """Negative log likelihood of hard labels.

    Args:
        input: log-probabilities `[N, C]` or `[N, C, d1, ...]`.
        label: integers in [0, C), `[N]`, `[N, 1]` or `[N, d1, ...]`.
        weight: `[C]`, a factor per class.
        ignore_index: labels of this value give loss 0 and take no part in the mean.
        reduction: `"mean"` (divided by the weights that took part), `"sum"`, both of shape [1] (in dynamic mode []),
            or `"none"`.

    Raises:
        InvalidArgument: shapes or options that do not fit; when run, a label out of range.

    Example:
        >>> logp = wb.log(wb.to_tensor([[0.5, 0.5]]))
        >>> print(F.nll_loss(logp, wb.to_tensor([0])).numpy().round(3))
        0.693
    """
    require_reduction(reduction)
    if len(label.shape) == len(input.shape) and label.shape[1] == 1:
        label = squeeze(label, axis=1)
    if len(input.shape) < 2 or len(label.shape) != len(input.shape) - 1:
        raise InvalidArgument(
            "nll_loss takes log-probabilities and labels without the class dimension\n"
            f"  expected: input [N, C, ...] and label [N, ...]\n"
            f"  got:      {shape_text(input.shape)} and {shape_text(label.shape)}"
        )
    picked = -pick_label(input, label, axis=1, ignore_index=ignore_index)
    loss, share = _weighted(picked, label, weight, ignore_index, input, 1)
    if reduction == "mean":
        return reduce_sum(loss) / share()
    return squeeze(loss, axis=1, name=name) if reduction == "none" else reduce_sum(loss, name=name)
