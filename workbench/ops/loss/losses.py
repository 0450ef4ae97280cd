"""Losses of numbers and of probabilities: squares, distances, binary cross entropy, divergence."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument
from workbench.framework import names
from workbench.framework.op.record import find_op
from workbench.ops.index.label import IGNORE_INDEX
from workbench.ops.loss.reduction import REDUCTIONS, label_count, reduced, require_reduction
from workbench.ops.math.clip import clip
from workbench.ops.math.reductions.reduce import mean
from workbench.ops.math.reductions.reduce import sum as reduce_sum
from workbench.ops.math.unary import sign
from workbench.ops.nn.activation import sigmoid
from workbench.ops.pointwise import float_elementwise
from workbench.ops.tensor.assign import detach
from workbench.ops.tensor.creation import ones_like

OFFERED = {
    "workbench.nn.functional": (
        "binary_cross_entropy binary_cross_entropy_with_logits kl_div l1_loss mse_loss smooth_l1_loss square_error_cost"
    ),
}


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


@float_elementwise("huber_loss", "X, Y -> Out", grad=_huber_rule, attrs={"delta": 1.0}, layer="smooth_l1_loss")
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


@float_elementwise(
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
    return loss / label_count(label, ignore_index, loss) if normalize else loss


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


@float_elementwise("bce_loss", "X, Label -> Out", grad=_binary_cross_entropy_rule, no_grad="Label")
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


@float_elementwise("kldiv_loss", "X, Target -> Loss", grad=_kl_rule, saved="Target", shape_only="X", no_grad="Target")
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
