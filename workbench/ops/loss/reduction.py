"""How a loss per element becomes one number: shape [1], in dynamic mode []."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument
from workbench.framework.op.recorder import zero_dim
from workbench.ops.index.label import count_labels
from workbench.ops.math.reductions.reduce import mean
from workbench.ops.math.reductions.reduce import sum as reduce_sum

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


def label_count(label: Any, ignore_index: int, loss: Any) -> Any:
    """How many labels take part in a loss, in its dtype."""
    return count_labels(label, ignore_index=ignore_index, dtype=loss.dtype.name, zero_dim=zero_dim())


def require_reduction(reduction: str, allowed: tuple[str, ...] = REDUCTIONS) -> None:
    """Raise InvalidArgument unless the reduction is one that is allowed."""
    if reduction not in allowed:
        raise InvalidArgument(f"reduction must be one of {', '.join(map(repr, allowed))}, got {reduction!r}")
