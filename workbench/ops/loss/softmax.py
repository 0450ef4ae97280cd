"""Softmax, its logarithm, and the cross entropy of both in one numerically safe op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.errors import ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.record import Cost
from workbench.framework.values.spec import (
    Spec,
    normalize_axis,
    require_float,
    require_same_dtype,
    same_dim,
    shape_text,
    size_of,
)
from workbench.framework.values.sums import add_up_along
from workbench.ops.index.label import (
    IGNORE_INDEX,
    along,
    checked_labels,
    place_label,
    reduced_shape,
    require_labels,
)
from workbench.ops.loss.bound_softmax import (
    bind_cross_entropy,
    bind_cross_entropy_grad,
    bind_softmax,
    bind_softmax_grad,
    prepare_softmax,
)
from workbench.ops.math.reductions.reduce import sum as reduce_sum
from workbench.ops.math.unary import exp
from workbench.ops.precision import rounded, wide


def _infer(x: Spec, axis: int) -> Spec:
    require_float("softmax", x)
    normalize_axis(axis, len(x.shape))
    return x


def _cost(x: Spec, axis: int) -> Cost:
    n = max(size_of(x.shape), 0)
    return Cost(5 * n, 2 * n * x.dtype.itemsize)


def _exp_shifted(xp: Any, x: Any, axis: int, out: Any = None) -> tuple[Any, Any]:
    """exp(x - max) and its sum along `axis`; no overflow, and the sum is at least 1."""
    shifted = xp.subtract(x, x.max(axis=axis, keepdims=True), out=out)
    grown = xp.exp(shifted, out=shifted)
    return grown, add_up_along(grown, axis)


def _softmax_into(xp: Any, outs: Sequence[Any], x: Any, axis: int) -> None:
    (out,) = outs
    if not x.size:
        return
    if wide(x) is not x:
        out[...] = _softmax(xp, x, axis)
        return
    grown, total = _exp_shifted(xp, x, axis, out)
    xp.divide(grown, total, out=out)


def _softmax(xp: Any, x: Any, axis: int) -> Any:
    if not x.size:
        return x.copy()
    grown, total = _exp_shifted(xp, wide(x), axis)
    grown /= total
    return rounded(grown, x)


def _softmax_rule(g: Any, y: Any, x: Any, axis: int) -> Any:
    gy = g * y
    return gy - y * reduce_sum(gy, axis=axis, keepdim=True)


def _softmax_back(xp: Any, x: Any, y: Any, g: Any, wanted: Any, axis: int) -> Any:
    w = wide(y)
    gy = w * g
    gy -= w * add_up_along(gy, axis)
    return rounded(gy, y)


@op(
    "softmax",
    "X -> Out",
    shaped_like={"X": "Out"},
    attrs={"axis": -1},
    like_x="Out",
    infer=_infer,
    grad=_softmax_rule,
    grad_forward=_softmax_back,
    forward_out=_softmax_into,
    bind=bind_softmax,
    prepare=prepare_softmax,
    grad_bind=bind_softmax_grad,
    saved="Out",
    shape_only="X",
    cost=_cost,
)
def SOFTMAX(xp: Any, x: Any, axis: int) -> Any:
    """exp(x) / sum(exp(x)) along one axis."""
    return _softmax(xp, x, axis)


def softmax(x: Any, axis: int = -1, dtype: Any = None, name: str | None = None) -> Any:
    """exp(x_i) / sum_j exp(x_j) along `axis`, computed after subtracting the maximum.

    Args:
        x: floating tensor of any shape with at least one dimension.
        axis: the axis that sums to 1.
        dtype: cast `x` to this dtype first.

    Returns:
        a tensor of the shape of `x`.

    Raises:
        InvalidArgument: the axis does not exist, or `x` is not floating.

    Example:
        >>> print(F.softmax(wb.to_tensor([[1.0, 1.0, 1.0, 1.0]])).numpy())
        [[0.25 0.25 0.25 0.25]]
    """
    return SOFTMAX(x if dtype is None else x.astype(dtype), axis=axis, name=name)


def _log_softmax_back(xp: Any, x: Any, y: Any, g: Any, wanted: Any, axis: int) -> Any:
    g_wide = wide(g)
    return rounded(g_wide - xp.exp(wide(y)) * add_up_along(g_wide, axis), y)


@op(
    "log_softmax",
    "X -> Out",
    attrs={"axis": -1},
    like_x="Out",
    infer=_infer,
    grad=lambda g, y, x, axis: g - exp(y) * reduce_sum(g, axis=axis, keepdim=True),
    grad_forward=_log_softmax_back,
    saved="Out",
    shape_only="X",
    cost=_cost,
)
def LOG_SOFTMAX(xp: Any, x: Any, axis: int) -> Any:
    """log(softmax(x)) along one axis."""
    if not x.size:
        return x.copy()
    shifted = wide(x) - wide(x).max(axis=axis, keepdims=True)
    shifted -= xp.log(add_up_along(xp.exp(shifted), axis))
    return rounded(shifted, x)


def log_softmax(x: Any, axis: int = -1, dtype: Any = None, name: str | None = None) -> Any:
    """x_i - log(sum_j exp(x_j)) along `axis`; finite wherever `x` is.

    Args, Returns, Raises: as for `softmax`.

    Example:
        >>> print(F.log_softmax(wb.to_tensor([[0.0, 0.0]])).numpy().round(3))
        [[-0.693 -0.693]]
    """
    return LOG_SOFTMAX(x if dtype is None else x.astype(dtype), axis=axis, name=name)


def _infer_cross_entropy(logits: Spec, label: Spec, soft_label: bool, axis: int, **attrs: Any) -> tuple[Spec, Spec]:
    require_float("softmax_with_cross_entropy", logits)
    axis = normalize_axis(axis, len(logits.shape))
    if logits.shape[axis] == 0:
        raise ShapeError("there is no class to choose from", f"at least 1 along axis {axis}", shape_text(logits.shape))
    if soft_label:
        _require_soft(logits, label)
    else:
        require_labels(label, logits, axis)
    return logits, logits.with_shape(reduced_shape(logits.shape, axis))


def _require_soft(logits: Spec, label: Spec) -> None:
    require_same_dtype("softmax_with_cross_entropy with soft labels", logits, label)
    if len(label.shape) != len(logits.shape) or not all(map(same_dim, label.shape, logits.shape)):
        raise ShapeError("soft labels have the shape of the logits", shape_text(logits.shape), shape_text(label.shape))


def _cross_entropy_rule(
    g: Any, out: Any, logits: Any, label: Any, soft_label: bool, ignore_index: int, axis: int, **attrs: Any
) -> Any:
    g_softmax, g_loss = g
    softmax = out[0]
    total = None
    if g_loss is not None:
        if soft_label:
            target = label * g_loss
        else:
            target = place_label(label, g_loss, softmax, axis=axis, ignore_index=ignore_index)
        total = softmax * reduce_sum(target, axis=axis, keepdim=True) - target
    if g_softmax is not None:
        more = _softmax_rule(g_softmax, softmax, logits, axis)
        total = more if total is None else total + more
    return total


def _cross_entropy_back(
    xp: Any, logits: Any, label: Any, softmax: Any, g_softmax: Any, g_loss: Any, wanted: Any,
    soft_label: bool, ignore_index: int, axis: int, **attrs: Any,
) -> Any:  # fmt: skip
    p = wide(softmax)
    if g_loss is None:
        grad = xp.zeros_like(p)
    elif soft_label:
        grad = _soft_back(p, wide(label), wide(g_loss), axis)
    else:
        grad = _hard_back(xp, p, label, wide(g_loss), ignore_index, axis)
    if g_softmax is not None:
        grad += _softmax_back(xp, p, p, wide(g_softmax), None, axis)
    return rounded(grad, softmax)


def _soft_back(p: Any, label: Any, g: Any, axis: int) -> Any:
    return (p * add_up_along(label, axis) - label) * g


def _hard_back(xp: Any, p: Any, label: Any, g: Any, ignore_index: int, axis: int) -> Any:
    index, ignored = checked_labels(xp, "softmax_with_cross_entropy", label, p.shape, axis, ignore_index)
    if ignored is not None:
        g = xp.where(ignored, g.dtype.type(0), g)
    grad = p * g
    grad[along(xp, index, axis)] -= g
    return grad


def _cross_entropy_cost(logits: Spec, label: Spec, **attrs: Any) -> Cost:
    n = max(size_of(logits.shape), 0)
    return Cost(6 * n, 2 * n * logits.dtype.itemsize + max(size_of(label.shape), 0) * label.dtype.itemsize)


@op(
    "softmax_with_cross_entropy",
    "Logits, Label -> Softmax, Loss",
    shaped_like={"Logits": "Softmax"},
    attrs={"soft_label": False, "ignore_index": IGNORE_INDEX, "numeric_stable_mode": True, "axis": -1},
    infer=_infer_cross_entropy,
    grad=_cross_entropy_rule,
    grad_forward=_cross_entropy_back,
    bind=bind_cross_entropy,
    grad_bind=bind_cross_entropy_grad,
    saved="Label, Softmax",
    shape_only="Logits",
    no_grad="Label",
    cost=_cross_entropy_cost,
)
def SOFTMAX_WITH_CROSS_ENTROPY(
    xp: Any,
    logits: Any,
    label: Any,
    soft_label: bool,
    ignore_index: int,
    numeric_stable_mode: bool,
    axis: int,
) -> tuple[Any, Any]:
    """Softmax and -sum(label * log(softmax)); always in the stable form, whatever `numeric_stable_mode`."""
    if not logits.size:
        return logits.copy(), xp.zeros(reduced_shape(logits.shape, axis), logits.dtype)
    x = wide(logits)
    shifted = x - x.max(axis=axis, keepdims=True)
    grown = xp.exp(shifted)
    total = add_up_along(grown, axis)
    grown /= total
    log_total = xp.log(total)
    if soft_label:
        loss = add_up_along(label * (log_total - shifted), axis)
    else:
        loss = _hard_loss(xp, shifted, log_total, label, ignore_index, axis)
    return rounded(grown, logits), rounded(loss, logits)


def _hard_loss(xp: Any, shifted: Any, log_total: Any, label: Any, ignore_index: int, axis: int) -> Any:
    index, ignored = checked_labels(xp, "softmax_with_cross_entropy", label, shifted.shape, axis, ignore_index)
    loss = log_total - shifted[along(xp, index, axis)]
    return loss if ignored is None else xp.where(ignored, loss.dtype.type(0), loss)


def softmax_with_cross_entropy(
    logits: Any,
    label: Any,
    soft_label: bool = False,
    ignore_index: int = IGNORE_INDEX,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Any:
    """Cross entropy between softmax(logits) and labels, one loss per vector along `axis`.

    Args:
        logits: floating tensor `[..., C, ...]`, unscaled log-probabilities with C classes along `axis`.
        label: hard labels: integers in [0, C), shaped as `logits` with 1 along `axis` or without that axis;
            soft labels (`soft_label=True`): probabilities in the shape and dtype of `logits`.
        ignore_index: hard labels of this value give loss 0 and no gradient.
        numeric_stable_mode: accepted for compatibility; the result is always numerically stable.
        return_softmax: also return softmax(logits).

    Returns:
        the loss, shaped as `logits` with 1 along `axis`; with `return_softmax` the pair (loss, softmax).
        Labels receive no gradient.

    Raises:
        InvalidArgument: shapes or dtypes do not fit; when run, a label outside [0, C) that is not
            `ignore_index`.

    Example:
        >>> scores, label = wb.to_tensor([[2.0, 2.0]]), wb.to_tensor([[1]])
        >>> print(F.softmax_with_cross_entropy(scores, label).numpy().round(3))
        [[0.693]]
    """
    probabilities, loss = SOFTMAX_WITH_CROSS_ENTROPY(
        logits,
        label,
        soft_label=soft_label,
        ignore_index=ignore_index,
        numeric_stable_mode=numeric_stable_mode,
        axis=axis,
    )
    return (loss, probabilities) if return_softmax else loss
