"""Values picked by class labels, and their adjoint: the two ops that losses with hard labels are made of."""

from __future__ import annotations

from typing import Any

from workbench.errors import DtypeError, InvalidArgument, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import Shape, Spec, normalize_axis, same_dim, shape_text, sizes_along
from workbench.ops.index_range import require_in_range
from workbench.ops.tensor.assign import detach
from workbench.ops.tensor.shape import length_of

OFFERED = {"workbench.nn.functional": "label_smooth"}

IGNORE_INDEX = -100


def require_labels(label: Spec, scores: Spec, axis: int) -> None:
    """Check that `label` holds one class number for every vector of `scores` along `axis`.

    Raises:
        DtypeError: the labels are no integers. ShapeError: they do not fit `scores`.
    """
    if not label.dtype.is_integer:
        raise DtypeError(
            "hard labels are integers; give soft_label=True for probabilities",
            "an integer dtype",
            label.dtype,
        )
    kept = reduced_shape(scores.shape, axis)
    axis = normalize_axis(axis, len(scores.shape))
    short = kept[:axis] + kept[axis + 1 :]
    fits = any(len(label.shape) == len(s) and all(map(same_dim, label.shape, s)) for s in (kept, short))
    if not fits:
        raise ShapeError(
            f"labels do not fit scores of shape {shape_text(scores.shape)} with classes along axis {axis}",
            f"{shape_text(kept)} or {shape_text(short)}",
            shape_text(label.shape),
        )


def reduced_shape(shape: Shape, axis: int) -> Shape:
    """`shape` with 1 at `axis`."""
    axis = normalize_axis(axis, len(shape))
    return (*shape[:axis], 1, *shape[axis + 1 :])


def checked_labels(xp: Any, what: str, label: Any, shape: Shape, axis: int, ignore_index: int) -> tuple[Any, Any]:
    """Labels as an index with 1 at `axis`, and where they are ignored (None if nowhere; their index is 0).

    Raises:
        InvalidArgument: a label is neither a class nor `ignore_index`.
    """
    require_in_range(xp, f"{what}: label", label, shape[axis], ignore_index)
    index = label.reshape(reduced_shape(shape, axis))
    ignored = index == ignore_index
    if not bool(ignored.any()):
        return index, None
    return xp.where(ignored, index.dtype.type(0), index), ignored


def along(xp: Any, index: Any, axis: int) -> tuple[Any, ...]:
    """The fancy index that reads or writes one element per vector along `axis`."""
    axis = normalize_axis(axis, index.ndim)
    grid = [
        xp.arange(n).reshape(tuple(n if j == i else 1 for j in range(index.ndim))) for i, n in enumerate(index.shape)
    ]
    grid[axis] = index
    return tuple(grid)


def _infer_pick(x: Spec, label: Spec, axis: int, ignore_index: int) -> Spec:
    require_labels(label, x, axis)
    return x.with_shape(reduced_shape(x.shape, axis))


def _pick_rule(g: Any, out: Any, x: Any, label: Any, axis: int, ignore_index: int) -> Any:
    return place_label(label, g, x, axis=axis, ignore_index=ignore_index)


def _pick_row(x: Any, label: Any, out: Any, axis: int, ignore_index: int) -> tuple[Any, ...]:
    return "pick_label", x, label, out, *sizes_along(x.shape, axis), ignore_index


def _place_row(x: Any, label: Any, out: Any, axis: int, ignore_index: int) -> tuple[Any, ...]:
    return "place_label", x, label, out, *sizes_along(out.shape, axis), ignore_index


@op(
    "pick_label",
    "X, Label -> Out",
    attrs={"axis": -1, "ignore_index": IGNORE_INDEX},
    infer=_infer_pick,
    grad=_pick_rule,
    kernel=_pick_row,
    grad_kernel=lambda x, label, g, out, **attrs: _place_row(g, label, out, **attrs),
    saved="Label",
    shape_only="X",
    no_grad="Label",
)
def pick_label(xp: Any, x: Any, label: Any, axis: int, ignore_index: int) -> Any:
    """The element of every vector along `axis` that its label names; 0 where the label is `ignore_index`."""
    index, ignored = checked_labels(xp, "pick_label", label, x.shape, axis, ignore_index)
    picked = x[along(xp, index, axis)]
    return picked if ignored is None else xp.where(ignored, x.dtype.type(0), picked)


def _infer_place(label: Spec, x: Spec, like: Spec, axis: int, ignore_index: int) -> Spec:
    require_labels(label, like, axis)
    one_each = reduced_shape(like.shape, axis)
    if len(x.shape) != len(one_each) or not all(map(same_dim, x.shape, one_each)):
        raise ShapeError("place_label takes one value per label", shape_text(one_each), shape_text(x.shape))
    return Spec(like.shape, x.dtype)


def _place_rule(g: Any, out: Any, label: Any, x: Any, like: Any, axis: int, ignore_index: int) -> Any:
    return None, pick_label(g, label, axis=axis, ignore_index=ignore_index), None


@op(
    "place_label",
    "Label, X, Like -> Out",
    attrs={"axis": -1, "ignore_index": IGNORE_INDEX},
    infer=_infer_place,
    grad=_place_rule,
    kernel=lambda label, x, like, out, **attrs: _place_row(x, label, out, **attrs),
    grad_kernel=lambda label, x, like, g, out, **attrs: _pick_row(g, label, out, **attrs),
    saved="Label",
    shape_only="X, Like",
    no_grad="Label, Like",
)
def place_label(xp: Any, label: Any, x: Any, like: Any, axis: int, ignore_index: int) -> Any:
    """Zeros shaped as `like`, with `x` (1 along `axis`) where labels point; ignored ones place nothing."""
    index, ignored = checked_labels(xp, "place_label", label, like.shape, axis, ignore_index)
    out = xp.zeros(like.shape, x.dtype)
    out[along(xp, index, axis)] = x if ignored is None else xp.where(ignored, x.dtype.type(0), x)
    return out


def _infer_count(label: Spec, ignore_index: int, dtype: str, zero_dim: bool) -> Spec:
    return Spec(() if zero_dim else (1,), as_dtype(dtype))


@op(
    "count_labels",
    "Label -> Out",
    attrs={"ignore_index": IGNORE_INDEX, "dtype": "float32", "zero_dim": False},
    infer=_infer_count,
    kernel=lambda label, out, ignore_index, **attrs: ("count_labels", label, out, label.size, ignore_index),
)
def count_labels(xp: Any, label: Any, ignore_index: int, dtype: str, zero_dim: bool) -> Any:
    """How many labels are not `ignore_index`, at least 1, in shape [1] or []: the divisor of their mean loss."""
    count = (label != ignore_index).sum()
    return xp.maximum(count, 1).reshape(() if zero_dim else (1,)).astype(as_dtype(dtype).numpy)


def label_smooth(label: Any, prior_dist: Any = None, epsilon: float = 0.1, name: str | None = None) -> Any:
    """(1 - epsilon) * label + epsilon * prior: labels that are a little unsure.

    Args:
        label: one-hot labels `[N, ..., C]`, floating.
        prior_dist: `[1, C]`; equal chances if None. It gets no gradient, as in Paddle.
        epsilon: in [0, 1].

    Raises:
        InvalidArgument: `epsilon` out of range.

    Source: Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", 2015.

    Example:
        >>> print(F.label_smooth(wb.to_tensor([[0.0, 1.0]]), epsilon=0.2).numpy().round(3))
        [[0.1 0.9]]
    """
    if not 0 <= epsilon <= 1:
        raise InvalidArgument(f"label_smooth takes an epsilon in [0, 1], got {epsilon}")
    kept = label * (1.0 - epsilon)
    if prior_dist is not None:
        return kept + detach(prior_dist) * epsilon
    return kept + epsilon / length_of(label, -1)
