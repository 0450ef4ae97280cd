"""Losses that are likelihoods of a distribution, or overlaps."""

from __future__ import annotations

import math
from typing import Any

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.values.spec import shape_text
from workbench.ops.index.embedding import one_hot
from workbench.ops.loss.losses import SIGMOID_CROSS_ENTROPY
from workbench.ops.loss.reduction import reduced, require_reduction
from workbench.ops.loss.softmax import softmax_with_cross_entropy
from workbench.ops.math.clip import clip
from workbench.ops.math.compare import where
from workbench.ops.math.products.matmul import matmul
from workbench.ops.math.reductions.reduce import mean
from workbench.ops.math.reductions.reduce import sum as reduce_sum
from workbench.ops.math.unary import exp, log, square
from workbench.ops.nn.activation import sigmoid
from workbench.ops.tensor.assign import detach
from workbench.ops.tensor.shape import reshape, squeeze, unsqueeze
from workbench.ops.tensor.transpose import transpose

OFFERED = {
    "workbench.nn.functional": "dice_loss gaussian_nll_loss log_loss npair_loss poisson_nll_loss sigmoid_focal_loss",
}


def gaussian_nll_loss(
    input: Any,
    label: Any,
    variance: Any,
    full: bool = False,
    epsilon: float = 1e-6,
    reduction: str = "mean",
    name: str | None = None,
) -> Any:
    """(log(variance) + (input - label)^2 / variance) / 2: the negative log likelihood of normal numbers.

    Args:
        input, label: means and observations of one shape.
        variance: of that shape, or with 1 as, or without, the last dimension; at least `epsilon` counts.
        full: add log(2 pi) / 2.
        reduction: "mean", "sum" or "none".

    Raises:
        InvalidArgument: shapes that do not fit, or an unknown reduction.

    Example:
        >>> x = wb.to_tensor([1.0])
        >>> print(F.gaussian_nll_loss(x, x + 2.0, wb.to_tensor([1.0]), reduction="none").numpy())
        [2.]
    """
    require_reduction(reduction)
    shape, own = list(input.shape), list(variance.shape)
    if own != shape:
        if own == shape[:-1]:
            variance = unsqueeze(variance, -1)
        elif own != [*shape[:-1], 1]:
            raise ShapeError("a variance per mean, or per row of them", shape_text(shape), shape_text(own))
    variance = clip(variance, min=epsilon)
    loss = (log(variance) + square(input - label) / variance) * 0.5
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction, name)


def poisson_nll_loss(
    input: Any,
    label: Any,
    log_input: bool = True,
    full: bool = False,
    epsilon: float = 1e-8,
    reduction: str = "mean",
    name: str | None = None,
) -> Any:
    """exp(input) - label * input: the negative log likelihood of counts.

    Args:
        input: logarithms of the expected counts, or, without `log_input`, the counts expected.
        label: counts, in the shape of `input`.
        full: add Stirling's approximation of log(label!) where the label exceeds 1.
        epsilon: added where a logarithm of `input` is taken.
        reduction: "mean", "sum" or "none".

    Raises:
        InvalidArgument: an unknown reduction, epsilon <= 0, or shapes that do not fit.

    Example:
        >>> print(F.poisson_nll_loss(wb.to_tensor([0.0]), wb.to_tensor([3.0]), reduction="none").numpy())
        [1.]
    """
    require_reduction(reduction)
    if not epsilon > 0:
        raise InvalidArgument(f"poisson_nll_loss takes an epsilon above 0, got {epsilon}")
    loss = exp(input) - label * input if log_input else input - label * log(input + epsilon)
    if full:
        count = clip(label, min=1.0)
        stirling = count * log(count) - count + log(count * (2 * math.pi)) * 0.5
        loss = loss + where(label > 1.0, stirling, 0.0)
    return reduced(loss, reduction, name)


def log_loss(input: Any, label: Any, epsilon: float = 1e-4, name: str | None = None) -> Any:
    """-label log(input + epsilon) - (1 - label) log(1 - input + epsilon).

    Args:
        input: probabilities `[N, 1]`; label: 0 or 1, `[N, 1]`; receives no gradient.

    Example:
        >>> print(F.log_loss(wb.to_tensor([[0.5]]), wb.to_tensor([[1.0]])).numpy().round(3))
        [[0.693]]
    """
    label = detach(label)
    return -(label * log(input + epsilon)) - (1.0 - label) * log(1.0 - input + epsilon)


def sigmoid_focal_loss(
    logit: Any,
    label: Any,
    normalizer: Any = None,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: str = "sum",
    name: str | None = None,
) -> Any:
    """Cross entropy of yes/no labels, times alpha (or 1 - alpha) and (1 - p)^gamma, p being the label's probability.

    Args:
        logit: floating tensor; label: 0 or 1, in its shape.
        normalizer: one element that the loss is divided by, or None.
        reduction: "sum", "mean" or "none".

    Raises:
        InvalidArgument: an unknown reduction, or shapes that do not fit.

    Source: Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017.

    Example:
        >>> print(F.sigmoid_focal_loss(wb.to_tensor([0.0]), wb.to_tensor([1.0]), reduction="none").numpy().round(4))
        [0.0433]
    """
    require_reduction(reduction)
    chance = sigmoid(logit)
    missed = label * (1.0 - chance) + (1.0 - label) * chance
    share = label * alpha + (1.0 - label) * (1.0 - alpha)
    loss = SIGMOID_CROSS_ENTROPY(logit, label) * share * missed**gamma
    return reduced(loss if normalizer is None else loss / normalizer, reduction, name)


def dice_loss(input: Any, label: Any, epsilon: float = 1e-5, name: str | None = None) -> Any:
    """1 - 2 |both| / (|input| + |label|), the mean over samples.

    Args:
        input: probabilities `[N, ..., C]`; label: class numbers `[N, ..., 1]`.

    Raises:
        InvalidArgument: shapes that do not fit.

    Example:
        >>> print(F.dice_loss(wb.to_tensor([[1.0, 0.0]]), wb.to_tensor([[1]])).numpy().item())
        1.0
    """
    if len(label.shape) != len(input.shape) or label.shape[-1] not in (1, -1):
        got = f"{shape_text(input.shape)} and {shape_text(label.shape)}"
        raise ShapeError("dice_loss takes a label per row of probabilities", "[N, ..., C] and [N, ..., 1]", got)
    wanted = one_hot(squeeze(label, -1), input.shape[-1]).astype(input.dtype)
    axes = list(range(1, len(input.shape)))
    both = reduce_sum(input * wanted, axis=axes)
    either = reduce_sum(input, axis=axes) + reduce_sum(wanted, axis=axes)
    return mean(1.0 - both * 2.0 / (either + epsilon), name=name)


def npair_loss(anchor: Any, positive: Any, labels: Any, l2_reg: float = 0.002) -> Any:
    """Cross entropy of which rows of `positive` bear an anchor's label, from their products, plus a penalty on lengths.

    Args:
        anchor, positive: `[N, D]`; labels: `[N]`.

    Source: Sohn, "Improved Deep Metric Learning with Multi-class N-pair Loss Objective", 2016.

    Example:
        >>> x = wb.zeros([2, 3])
        >>> round(F.npair_loss(x, x, wb.to_tensor([0.0, 1.0])).item(), 3)
        0.693
    """
    same = (reshape(labels, [-1, 1]) == reshape(labels, [1, -1])).astype(anchor.dtype)
    shares = same / reduce_sum(same, axis=1, keepdim=True)
    lengths = mean(reduce_sum(square(anchor), axis=1)) + mean(reduce_sum(square(positive), axis=1))
    losses = softmax_with_cross_entropy(matmul(anchor, transpose(positive, [1, 0])), shares, soft_label=True)
    return mean(losses) + lengths * (0.25 * l2_reg)
