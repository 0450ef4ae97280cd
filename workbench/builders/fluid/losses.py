"""`fluid.layers`: losses, lengths and angles with the arguments and defaults of Paddle 1.x.

Where 1.8.5 has one operator, a program here has the few that it is made of; kernels run them together.
"""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument
from workbench.ops.index.composed.labelled import LABELLED_ONE_HOT
from workbench.ops.index.label import IGNORE_INDEX
from workbench.ops.index.label import label_smooth as smoothed
from workbench.ops.loss import losses as ops
from workbench.ops.math.arithmetic import DIV
from workbench.ops.math.clip import clip
from workbench.ops.math.reductions.reduce import mean, sum
from workbench.ops.math.unary import sqrt, square
from workbench.ops.nn.activation import softplus
from workbench.ops.nn.piecewise import relu
from workbench.ops.tensor.assign import detach
from workbench.ops.tensor.shape import reshape


def mse_loss(input: Any, label: Any) -> Any:
    """The mean of (input - label)^2, `[1]`; two variables of one shape.

    Raises:
        InvalidArgument: shapes that do not broadcast.

    Example:
        >>> import workbench.fluid as fluid
        >>> x = fluid.data("x", [None, 3])
        >>> fluid.layers.mse_loss(x, x).shape
        (1,)
    """
    return mean(ops.square_error_cost(input, label))


def huber_loss(input: Any, label: Any, delta: float) -> Any:
    """r^2 / 2 where |r| <= delta, else delta (|r| - delta / 2), with r = label - input (Huber 1964).

    Args:
        input, label: floating variables of one shape, which the result has.

    Raises:
        InvalidArgument: shapes that do not broadcast, a delta that is not positive.
    """
    return ops.HUBER_LOSS(input, label, delta=_positive("huber_loss's delta", delta))


def smooth_l1(x: Any, y: Any, inside_weight: Any = None, outside_weight: Any = None, sigma: float | None = None) -> Any:
    """Per row the sum of d^2 sigma^2 / 2 where |d| < 1 / sigma^2, else |d| - 1 / (2 sigma^2) (Girshick, "Fast R-CNN").

    Args:
        x, y: `[N, ...]`, of one shape. inside_weight: what x - y is multiplied by to give d.
        outside_weight: what every element's loss is multiplied by. sigma: 1 if None.

    Returns:
        `[N, 1]`.

    Raises:
        InvalidArgument: shapes that differ, sigma <= 0.

    Example:
        >>> import workbench.fluid as fluid
        >>> x = fluid.data("x", [None, 3])
        >>> fluid.layers.smooth_l1(x, x).shape
        (-1, 1)
    """
    if inside_weight is not None:
        x, y = x * inside_weight, y * inside_weight
    factor = _positive("smooth_l1's sigma", 1.0 if sigma is None else sigma) ** 2
    loss = ops.HUBER_LOSS(x, y, delta=1.0 / factor) * factor
    if outside_weight is not None:
        loss = loss * outside_weight
    return reshape(sum(loss, list(range(1, len(x.shape)))), [-1, 1])


def _positive(what: str, value: float) -> float:
    if not value > 0:
        raise InvalidArgument(f"{what} is a number above 0, got {value!r}")
    return float(value)


def kldiv_loss(x: Any, target: Any, reduction: str = "mean", name: str | None = None) -> Any:
    """target * (log(target) - x), 0 where the target is 0: how far probabilities are from those whose logarithm is x.

    Args:
        x, target: of one shape. reduction: "none", "mean", "sum", or "batchmean", the sum over the number of rows.

    Raises:
        InvalidArgument: another reduction, or shapes that differ.
    """
    return ops.kl_div(x, target, reduction, name)


def margin_rank_loss(label: Any, left: Any, right: Any, margin: float = 0.1, name: str | None = None) -> Any:
    """max(0, margin - label * (left - right)).

    Args:
        label: 1 where the left score shall be the higher one, else -1. left, right: scores; all `[N, 1]`.
    """
    return relu(-label * (left - right) + margin, name=name)


def rank_loss(label: Any, left: Any, right: Any, name: str | None = None) -> Any:
    """log(1 + exp(o)) - label * o with o = left - right (Burges et al. 2005, "RankNet").

    Args:
        label: 1 where the left score shall be the higher one, else 0, or 0.5; receives no gradient. left, right:
            scores; all `[N, 1]`.
    """
    return ops.SIGMOID_CROSS_ENTROPY(left - right, label, name=name)


def bpr_loss(input: Any, label: Any, name: str | None = None) -> Any:
    """Bayesian personalised ranking (Hidasi et al. 2016): the mean over all other classes of log(1 + exp(x_j - x_y)).

    Args:
        input: scores `[N, C]`, C > 1 and known. label: y, classes `[N, 1]`.

    Returns:
        `[N, 1]`.

    Raises:
        InvalidArgument: other shapes; when run, a label out of range.
    """
    classes = input.shape[-1]
    if classes < 2:
        raise InvalidArgument(f"bpr_loss takes scores of at least two classes, a number that is known, got {classes}")
    own = LABELLED_ONE_HOT(label, depth=classes)
    score = sum(input * own, -1, keepdim=True)
    return sum(softplus(input - score) * (1.0 - own), -1, keepdim=True, name=name) * (1.0 / (classes - 1))


def sigmoid_cross_entropy_with_logits(
    x: Any, label: Any, ignore_index: int = IGNORE_INDEX, name: str | None = None, normalize: bool = False
) -> Any:
    """-label log(sigmoid(x)) - (1 - label) log(1 - sigmoid(x)), element by element.

    Args:
        x, label: floating variables of one shape; labels are probabilities, and receive no gradient.
        ignore_index: elements with this label have loss 0.
        normalize: divide by how many elements do not have it.
    """
    loss = ops.SIGMOID_CROSS_ENTROPY(x, label, ignore_index=ignore_index, name=name)
    if not normalize:
        return loss
    return loss / clip(sum((label != float(ignore_index)).astype(x.dtype)), min=1e-5)


def label_smooth(
    label: Any, prior_dist: Any = None, epsilon: float = 0.1, dtype: Any = "float32", name: str | None = None
) -> Any:
    """(1 - epsilon) * label + epsilon * prior_dist, or, without one, epsilon / classes (Szegedy et al. 2015).

    Args:
        label: one-hot rows `[..., classes]`; receives no gradient. prior_dist: `[1, classes]`.
        dtype: that of `label` counts.

    Raises:
        InvalidArgument: epsilon outside [0, 1].
    """
    return smoothed(detach(label), prior_dist, epsilon, name)


def cos_sim(X: Any, Y: Any) -> Any:
    """The cosine of the angle between rows.

    Args:
        X: `[N, D]`. Y: `[N, D]`, or `[1, D]` for all rows.

    Returns:
        `[N, 1]`; NaN for a row of zeros.

    Raises:
        InvalidArgument: shapes that do not fit.

    Example:
        >>> import workbench.fluid as fluid
        >>> x = fluid.data("x", [None, 3])
        >>> fluid.layers.cos_sim(x, x).shape
        (-1, 1)
    """
    product = sum(X * Y, 1, keepdim=True)
    return product / (sqrt(sum(square(X), 1, keepdim=True)) * sqrt(sum(square(Y), 1, keepdim=True)))


def l2_normalize(x: Any, axis: int | None, epsilon: float = 1e-12, name: str | None = None) -> Any:
    """x / sqrt(sum(x^2) + epsilon), the sum along `axis`; 1 if None, 0 for one dimension.

    Example:
        >>> import workbench.fluid as fluid
        >>> fluid.layers.l2_normalize(fluid.data("x", [None, 3]), axis=-1).shape
        (-1, 3)
    """
    along = 0 if len(x.shape) == 1 else 1 if axis is None else axis
    length = sqrt(sum(square(x), along, keepdim=True) + epsilon)
    return DIV(x, length, name=name)
