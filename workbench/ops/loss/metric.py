"""Metrics computed inside a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.errors import DtypeError, ShapeError, Unimplemented
from workbench.framework.op.declare import op
from workbench.framework.op.recorder import zero_dim
from workbench.framework.values.dtype import float32, int32
from workbench.framework.values.spec import Spec, same_dim, shape_text
from workbench.ops.index.order.sort import topk

OFFERED = {"workbench.static": "accuracy", "workbench.metric": "accuracy"}


def _infer(out: Spec, indices: Spec, label: Spec, zero_dim: bool) -> tuple[Spec, Spec, Spec]:
    if not label.dtype.is_integer:
        raise DtypeError("accuracy takes class numbers as labels", "an integer dtype", label.dtype)
    if len(indices.shape) != 2:
        raise ShapeError("accuracy takes the best classes of every row", "[N, k]", shape_text(indices.shape))
    rows = indices.shape[0]
    fits = len(label.shape) == 1 or (len(label.shape) == 2 and same_dim(label.shape[1], 1))
    if not fits or not same_dim(label.shape[0], rows):
        dim = "?" if rows < 0 else rows
        raise ShapeError("accuracy takes one label per row", f"[{dim}, 1] or [{dim}]", shape_text(label.shape))
    shape = () if zero_dim else (1,)
    return Spec(shape, float32), Spec(shape, int32), Spec(shape, int32)


def _row(best: Any, indices: Any, label: Any, share: Any, correct: Any, total: Any, zero_dim: bool) -> tuple[Any, ...]:
    return "accuracy", indices, label, share, correct, total, *indices.shape


@op("accuracy", "Out, Indices, Label -> Accuracy, Correct, Total", attrs={"zero_dim": False}, infer=_infer, kernel=_row)
def ACCURACY(xp: Any, out: Any, indices: Any, label: Any, zero_dim: bool) -> tuple[Any, Any, Any]:
    """The share of rows whose label is among `indices`, their number, and the number of rows; 0 of 0 is 0."""
    hits = (indices == label.reshape(-1, 1)).any(axis=1)
    shape = () if zero_dim else (1,)
    correct = xp.asarray(hits.sum()).reshape(shape).astype("int32")
    total = xp.full(shape, hits.shape[0], "int32")
    return correct.astype("float32") / xp.maximum(total, 1).astype("float32"), correct, total


def accuracy(
    input: Any, label: Any, k: int = 1, correct: Any = None, total: Any = None, name: str | None = None
) -> Any:
    """The share of rows whose label is among the `k` largest scores.

    Args:
        input: floating tensor `[N, C]`, scores.
        label: integers `[N, 1]` or `[N]`.
        k: how many classes count as a hit.
        correct, total: tensors to write the counts into; not supported.

    Returns:
        a float32 tensor of shape [1], in dynamic mode []; 0 for no rows.

    Raises:
        InvalidArgument: shapes or dtypes that do not fit, `k` out of range.
        Unimplemented: `correct` or `total` is given.

    Example:
        >>> wb.enable_static()
        >>> scores, label = static.data("scores", [None, 3]), static.data("label", [None, 1], "int64")
        >>> accuracy = static.accuracy(scores, label)
        >>> feed = {"scores": np.eye(3, dtype=np.float32), "label": np.array([[0], [1], [0]])}
        >>> print(static.Executor().run(feed=feed, fetch_list=[accuracy])[0].round(3))
        [0.667]
    """
    return accuracy_of(topk, input, label, k, correct, total, name)


def accuracy_of(
    best_of: Callable[..., Any], input: Any, label: Any, k: int, correct: Any, total: Any, name: str | None = None
) -> Any:
    """`accuracy`, where `best_of(input, k=k)` gives the largest scores and their positions."""
    if correct is not None or total is not None:
        raise Unimplemented("accuracy does not write its counts into given tensors; leave correct and total out")
    best, indices = best_of(input, k=k)
    return ACCURACY(best, indices, label, zero_dim=zero_dim(), name=name)[0]
