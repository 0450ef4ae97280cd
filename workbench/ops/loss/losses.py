"""Loss functions. Reductions give shape [1], in dynamic mode []."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument
from workbench.framework import names
from workbench.framework.op.elementwise import elementwise
from workbench.framework.op.record import find_op
from workbench.framework.op.recorder import zero_dim
from workbench.framework.values.dtype import float16
from workbench.framework.values.spec import normalize_axis, shape_text
from workbench.ops.index.embedding import LOOKUP_TABLE, one_hot
from workbench.ops.index.label import IGNORE_INDEX, count_labels, label_smooth, pick_label
from workbench.ops.loss.softmax import softmax_with_cross_entropy
from workbench.ops.math.arithmetic import clip
from workbench.ops.math.reductions.reduce import mean
from workbench.ops.math.reductions.reduce import sum as reduce_sum
from workbench.ops.math.unary import log, sign
from workbench.ops.nn.activation import sigmoid
from workbench.ops.tensor.creation import detach, ones_like
from workbench.ops.tensor.shape import moveaxis, reshape, squeeze, unsqueeze

REDUCTIONS = ("none", "mean", "sum")


def reduced(loss: Any, reduction: str, name: str | None = None) -> Any:
    """A loss per element made one number, by "mean" or "sum"; "none" leaves it as it is.

    Raises:
        InvalidArgument: another reduction.
    """
    require_reduction(reduction)
    if reduction == "none":
        return loss
    return mean(loss, name=name) if reduction == "mean" else reduce_sum(loss, name=name)


def _count(label: Any, ignore_index: int, loss: Any) -> Any:
    """How many labels take part in a loss, in its dtype."""
    return count_labels(label, ignore_index=ignore_index, dtype=loss.dtype.name, zero_dim=zero_dim())


def require_reduction(reduction: str, allowed: tuple[str, ...] = REDUCTIONS) -> None:
    """Raise InvalidArgument unless the reduction is one that is allowed."""
    if reduction not in allowed:
        raise InvalidArgument(f"reduction must be one of {', '.join(map(repr, allowed))}, got {reduction!r}")


def square_error_cost(input: Any, label: Any) -> Any:
    """(input - label)^2, element by element.

    Args:
        input, label: floating tensors of shapes that broadcast.

    Returns:
        a tensor of the broadcast shape.

    Raises:
        InvalidArgument: the shapes do not broadcast, or the dtypes differ.

    Example:
        >>> print(F.square_error_cost(wb.to_tensor([1.0, 2.0]), wb.to_tensor([1.0, 4.0])).numpy())
        [0. 4.]
    """
    layer = names.generate("square_error_cost")  # both operators are counted under one layer (P-5)
    return find_op("square")(find_op("elementwise_sub")(input, label, name=layer), name=layer)


def mse_loss(input: Any, label: Any, reduction: str = "mean", name: str | None = None) -> Any:
    """Mean squared error.

    Args:
        input, label: floating tensors of one shape.
        reduction: `"mean"`, `"sum"` (both give shape [1], in dynamic mode []) or `"none"`.

    Raises:
        InvalidArgument: an unknown reduction, or shapes that do not broadcast.

    Example:
        >>> print(F.mse_loss(wb.to_tensor([1.0, 2.0]), wb.to_tensor([1.0, 4.0])).numpy())
        2.0
    """
    require_reduction(reduction)
    return reduced(square_error_cost(input, label), reduction, name)


def l1_loss(input: Any, label: Any, reduction: str = "mean", name: str | None = None) -> Any:
    """Mean absolute error. Arguments, result and errors as for `mse_loss`.

    Example:
        >>> print(F.l1_loss(wb.to_tensor([1.0, 2.0]), wb.to_tensor([1.0, 4.0])).numpy())
        1.0
    """
    require_reduction(reduction)
    return reduced(abs(input - label), reduction, name)


def _huber_rule(g: Any, out: Any, x: Any, y: Any, delta: float) -> Any:
    r = x - y
    near = (abs(r) <= delta).astype(r.dtype)
    slope = g * (near * r + (1.0 - near) * (sign(r) * delta))
    return slope, -slope


@elementwise("huber_loss", "X, Y -> Out", grad=_huber_rule, attrs={"delta": 1.0}, layer="smooth_l1_loss")
def HUBER_LOSS(xp: Any, x: Any, y: Any, delta: float) -> Any:
    """r^2 / 2 where |r| <= delta, else delta (|r| - delta / 2), with r = x - y."""
    r = x - y
    size = xp.abs(r)
    return xp.where(size <= delta, 0.5 * (r * r), delta * (size - 0.5 * delta))


def smooth_l1_loss(input: Any, label: Any, reduction: str = "mean", delta: float = 1.0, name: str | None = None) -> Any:
    """Quadratic for small errors, linear beyond `delta` (Huber's loss).

    Args:
        input, label: floating tensors of one shape.
        reduction: `"mean"`, `"sum"` (both give shape [1], in dynamic mode []) or `"none"`.
        delta: where the two pieces meet, > 0.

    Raises:
        InvalidArgument: an unknown reduction, `delta` <= 0, or shapes that do not broadcast.

    Example:
        >>> print(F.smooth_l1_loss(wb.to_tensor([0.0, 0.0]), wb.to_tensor([0.5, 3.0])).numpy())
        1.3125
    """
    require_reduction(reduction)
    if delta <= 0:
        raise InvalidArgument(f"delta of smooth_l1_loss must be above 0, got {delta}")
    return reduced(HUBER_LOSS(input, label, delta=float(delta)), reduction, name)


def _sigmoid_cross_entropy_rule(g: Any, out: Any, x: Any, label: Any, ignore_index: int) -> Any:
    return g * (sigmoid(x) - label) * (label != ignore_index).astype(x.dtype)


@elementwise(
    "sigmoid_cross_entropy_with_logits",
    "X, Label -> Out",
    grad=_sigmoid_cross_entropy_rule,
    attrs={"ignore_index": IGNORE_INDEX},
    no_grad="Label",
)
def SIGMOID_CROSS_ENTROPY(xp: Any, x: Any, label: Any, ignore_index: int) -> Any:
    """-label log(sigmoid(x)) - (1 - label) log(1 - sigmoid(x)), safely; 0 for labels that are ignored."""
    loss = xp.maximum(x, 0.0) - x * label + xp.log1p(xp.exp(-xp.abs(x)))
    return xp.where(label == ignore_index, 0.0, loss)


def sigmoid_cross_entropy_with_logits(
    x: Any, label: Any, ignore_index: int = IGNORE_INDEX, name: str | None = None, normalize: bool = False
) -> Any:
    """Cross entropy of independent yes/no labels, element by element.

    Args:
        x: floating tensor, logits.
        label: probabilities in [0, 1], shape and dtype of `x`; receives no gradient.
        ignore_index: entries with this label give loss 0.
        normalize: divide by the number of entries that are not ignored (at least 1).

    Returns:
        a tensor of the shape of `x`.
    """
    loss = SIGMOID_CROSS_ENTROPY(x, label, ignore_index=ignore_index, name=name)
    return loss / _count(label, ignore_index, loss) if normalize else loss


def binary_cross_entropy_with_logits(
    logit: Any,
    label: Any,
    weight: Any = None,
    reduction: str = "mean",
    pos_weight: Any = None,
    name: str | None = None,
) -> Any:
    """-pos_weight label log(sigmoid(logit)) - (1 - label) log(1 - sigmoid(logit)), times weight.

    Args:
        logit: floating tensor.
        label: probabilities, shape and dtype of `logit`; receives no gradient.
        weight, pos_weight: tensors that broadcast against `logit`.
        reduction: `"mean"`, `"sum"` (both give shape [1], in dynamic mode []) or `"none"`.

    Raises:
        InvalidArgument: an unknown reduction, or shapes that do not fit.

    Example:
        >>> score, label = wb.to_tensor([0.0, 0.0]), wb.to_tensor([1.0, 0.0])
        >>> print(F.binary_cross_entropy_with_logits(score, label).numpy().round(3))
        0.693
    """
    require_reduction(reduction)
    loss = SIGMOID_CROSS_ENTROPY(logit, label)
    if pos_weight is not None:
        # The part of the loss that belongs to positive labels, -label log(sigmoid(logit)), weighs pos_weight.
        positive = detach(label) * SIGMOID_CROSS_ENTROPY(logit, ones_like(label))
        loss = loss + (pos_weight - 1.0) * positive
    return reduced(loss if weight is None else loss * weight, reduction, name)


def _binary_cross_entropy_rule(g: Any, out: Any, x: Any, label: Any) -> Any:
    return g * (x - label) / clip(x * (1.0 - x), min=1e-12)


@elementwise("bce_loss", "X, Label -> Out", grad=_binary_cross_entropy_rule, no_grad="Label")
def BCE_LOSS(xp: Any, x: Any, label: Any) -> Any:
    """-label log(x) - (1 - label) log(1 - x), the logarithms at least -100; NaN for x outside [0, 1]."""
    return -(label * xp.maximum(xp.log(x), -100.0) + (1.0 - label) * xp.maximum(xp.log1p(-x), -100.0))


def binary_cross_entropy(
    input: Any, label: Any, weight: Any = None, reduction: str = "mean", name: str | None = None
) -> Any:
    """Cross entropy of probabilities with yes/no labels.

    Args:
        input: probabilities in [0, 1] (NaN elsewhere); from logits use `binary_cross_entropy_with_logits`.
        label: shape and dtype of `input`; receives no gradient.
        weight: tensor that broadcasts against `input`.
        reduction: `"mean"`, `"sum"` (both give shape [1], in dynamic mode []) or `"none"`.

    Raises:
        InvalidArgument: an unknown reduction, or shapes that do not fit.

    Example:
        >>> p, label = wb.to_tensor([0.5, 0.5]), wb.to_tensor([1.0, 0.0])
        >>> print(F.binary_cross_entropy(p, label).numpy().round(3))
        0.693
    """
    require_reduction(reduction)
    loss = BCE_LOSS(input, label)
    return reduced(loss if weight is None else loss * weight, reduction, name)


def _kl_rule(g: Any, out: Any, x: Any, target: Any) -> Any:
    return -(g * target) * (target > 0).astype(target.dtype)


@elementwise("kldiv_loss", "X, Target -> Loss", grad=_kl_rule, saved="Target", shape_only="X", no_grad="Target")
def KL_LOSS(xp: Any, x: Any, target: Any) -> Any:
    """target (log(target) - x), 0 where target <= 0."""
    given = target > 0
    return xp.where(given, target * (xp.log(xp.where(given, target, 1.0)) - x), 0.0)


def kl_div(input: Any, label: Any, reduction: str = "mean", name: str | None = None) -> Any:
    """Kullback-Leibler divergence of `label` from exp(input).

    Args:
        input: log-probabilities.
        label: probabilities, shape and dtype of `input`; receives no gradient.
        reduction: `"mean"` over all elements, `"batchmean"` (sum / first dimension), `"sum"` or `"none"`.

    Raises:
        InvalidArgument: an unknown reduction, or shapes that do not fit.

    Example:
        >>> p = wb.to_tensor([0.5, 0.5])
        >>> print(F.kl_div(wb.log(p), p, reduction="sum").numpy().round(3))
        0.0
    """
    require_reduction(reduction, (*REDUCTIONS, "batchmean"))
    loss = KL_LOSS(input, label)
    if reduction != "batchmean":
        return reduced(loss, reduction, name)
    rest = list(range(1, len(loss.shape)))
    return mean(reduce_sum(loss, axis=rest) if rest else loss, name=name)


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
        return loss, lambda: _count(label, ignore_index, loss)
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
