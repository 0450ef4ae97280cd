"""Softmax, its logarithm, and the cross entropy of both in one numerically safe op."""

from __future__ import annotations

from typing import Any

from workbench.errors import ShapeError
from workbench.framework.op.rows import along, row_op
from workbench.framework.values.spec import (
    Spec,
    normalize_axis,
    require_float,
    require_same_dtype,
    same_dim,
    shape_text,
)
from workbench.ops.index.label import IGNORE_INDEX, reduced_shape, require_labels
from workbench.ops.index_range import require_in_range

OFFERED = {"workbench.nn.functional": "log_softmax softmax softmax_with_cross_entropy"}


def _infer(x: Spec, axis: int) -> Spec:
    require_float("softmax", x)
    normalize_axis(axis, len(x.shape))
    return x


def _softmax_back(rows: Any, x: Any, y: Any, g: Any) -> Any:
    return y * (g - rows.sum(y * g))


@row_op(
    "softmax",
    "X -> Out",
    axes=along("axis"),
    shaped_like={"X": "Out"},
    attrs={"axis": -1},
    like_x="Out",
    infer=_infer,
    grad_body=_softmax_back,
    saved="Out",
    shape_only="X",
)
def SOFTMAX(rows: Any, x: Any) -> Any:
    """exp(x) / sum(exp(x)) along one axis."""
    grown = rows.exp(x - rows.top(x))
    return grown * (1.0 / rows.sum(grown))  # the sum is at least 1


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


def _log_softmax_back(rows: Any, x: Any, y: Any, g: Any) -> Any:
    return g - rows.exp(y) * rows.sum(g)


@row_op(
    "log_softmax",
    "X -> Out",
    axes=along("axis"),
    attrs={"axis": -1},
    like_x="Out",
    infer=_infer,
    grad_body=_log_softmax_back,
    saved="Out",
    shape_only="X",
)
def LOG_SOFTMAX(rows: Any, x: Any) -> Any:
    """log(softmax(x)) along one axis."""
    shifted = x - rows.top(x)
    return shifted - rows.log(rows.sum(rows.exp(shifted)))


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


def _cross_entropy_back(
    rows: Any, logits: Any, label: Any, softmax: Any, g_softmax: Any, g_loss: Any, soft_label: bool, ignore_index: int
) -> Any:
    through = 0.0 * softmax if g_softmax is None else _softmax_back(rows, logits, softmax, g_softmax)
    if g_loss is None:
        return through
    if soft_label:
        own = (softmax * rows.sum(label) - label) * g_loss
    else:
        g = rows.where(label == ignore_index, 0.0, g_loss)
        own = softmax * g - rows.place(g, label, ignore_index)
    return own if g_softmax is None else own + through


@row_op(
    "softmax_with_cross_entropy",
    "Logits, Label -> Softmax, Loss",
    axes=along("axis"),
    per_row="Label, Loss",
    labels="Label",
    soft_labels="soft_label",
    integers="ignore_index",
    check=require_in_range,
    shaped_like={"Logits": "Softmax"},
    attrs={"soft_label": False, "ignore_index": IGNORE_INDEX, "numeric_stable_mode": True, "axis": -1},
    infer=_infer_cross_entropy,
    grad_body=_cross_entropy_back,
    grad_needs="Loss",
    saved="Label, Softmax",
    shape_only="Logits",
    no_grad="Label",
)
def SOFTMAX_WITH_CROSS_ENTROPY(rows: Any, logits: Any, label: Any, soft_label: bool, ignore_index: int) -> Any:
    """Softmax and -sum(label * log(softmax)); always in the stable form, whatever `numeric_stable_mode`."""
    shifted = logits - rows.top(logits)
    grown = rows.exp(shifted)
    total = rows.sum(grown)
    if soft_label:
        loss = rows.sum(label * (rows.log(total) - shifted))
    else:
        loss = rows.log(total) - rows.pick(shifted, label, ignore_index)
        loss = rows.where(label == ignore_index, 0.0, loss)
    return grown * (1.0 / total), loss


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
