"""Dropout that keeps mean and variance of what `selu` gives.

Source: Klambauer et al., "Self-Normalizing Neural Networks", 2017.
"""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.values.dtype import uint8
from workbench.framework.values.spec import Spec, require_float
from workbench.ops.nn.activation import SELU_ALPHA, SELU_SCALE

OFFERED = {"workbench.nn.functional": "alpha_dropout"}

DROPPED = -SELU_ALPHA * SELU_SCALE  # what a dropped element becomes before it is scaled: selu(-infinity)


def _infer(x: Spec, p: float, **attrs: Any) -> Any:
    require_float("alpha_dropout", x)
    if not 0 <= p <= 1:
        raise ShapeError("the dropout probability is out of range", "a number in [0, 1]", p)
    return x, Spec(x.shape, uint8)


def _line(p: float, is_test: bool) -> tuple[float, float]:
    """(a, b): a * value + b has the mean and variance that the values had before some were dropped."""
    if is_test or p == 0:
        return 1.0, 0.0
    if p == 1:
        return 0.0, 0.0
    a = ((1 - p) * (1 + p * DROPPED**2)) ** -0.5
    return a, -a * DROPPED * p


def _rule(g: Any, out: Any, x: Any, p: float, is_test: bool, **attrs: Any) -> Any:
    return g[0] * out[1].astype(g[0].dtype) * _line(p, is_test)[0]


@op(
    "selu_dropout",
    "X -> Out, Mask",
    attrs={"p": 0.5, "is_test": False, "seed": 0, "stream": 0},
    like_x="Out, Mask",
    layer="alpha_dropout",
    infer=_infer,
    grad=_rule,
    saved="Mask",
    shape_only="X",
    needs="rng",
)
def ALPHA_DROPOUT(xp: Any, x: Any, rng: Any, p: float, is_test: bool, **attrs: Any) -> tuple[Any, Any]:
    """`x` with elements at random at what `selu` saturates at, rescaled, and the uint8 mask of those kept."""
    if is_test:
        return x * x.dtype.type(1), xp.ones(x.shape, "uint8")
    mask = (rng.uniform(xp, x.shape, "float32") >= p).astype("uint8")
    a, b = _line(p, is_test)
    return (xp.where(mask, x, x.dtype.type(DROPPED)) * a + b).astype(x.dtype), mask


def alpha_dropout(x: Any, p: float = 0.5, training: bool = True, name: str | None = None) -> Any:
    """Dropout for nets with `selu`: mean and variance stay what they are.

    Args:
        x: floating tensor of any shape.
        p: probability in [0, 1] of dropping an element.
        training: False passes everything; a program cloned with `for_test=True` does so too.

    Raises:
        InvalidArgument: `p` is out of range.

    Example:
        >>> print(F.alpha_dropout(wb.to_tensor([1.0, 2.0]), training=False).numpy())
        [1. 2.]
    """
    if isinstance(p, bool) or not isinstance(p, int | float):
        raise InvalidArgument(f"alpha_dropout takes a number as p, got {p!r}")
    return ALPHA_DROPOUT(x, p=float(p), is_test=not training, name=name)[0]
