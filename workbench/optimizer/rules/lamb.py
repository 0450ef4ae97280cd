"""LAMB."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.errors import InvalidType
from workbench.framework.op.rows import row_op
from workbench.framework.values.dtype import as_dtype, wide_dtype
from workbench.framework.values.rows import dense
from workbench.framework.values.spec import Spec, require_float
from workbench.ops.update.update import update_op
from workbench.optimizer.checks import checked_beta, checked_number
from workbench.optimizer.clip import ClipGradBase
from workbench.optimizer.groups import GroupOption, of_the_op
from workbench.optimizer.lr import LRScheduler
from workbench.optimizer.optimizer import Optimizer

OFFERED = {"workbench.optimizer": "Lamb"}

_ATTRS = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-6, "weight_decay": 0.01}


def _direction(
    xp: Any, p: Any, g: Any, m: Any, v: Any, beta1_power: Any, beta2_power: Any,
    beta1: float, beta2: float, epsilon: float, weight_decay: float,
) -> tuple[Any, ...]:  # fmt: skip
    """m and v as in Adam, and m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + weight_decay p."""
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * (g * g)
    adapted = (m / (1 - beta1_power)) / (xp.sqrt(v / (1 - beta2_power)) + epsilon)
    return adapted + weight_decay * p, m, v


@update_op("lamb", "Moment1, Moment2", betas="beta1, beta2", attrs=_ATTRS)
def LAMB_UPDATE(xp: Any, p: Any, g: Any, lr: Any, *state: Any, **attrs: Any) -> tuple[Any, ...]:
    """p -= lr direction, where lr was multiplied with the ratio of norms (`lamb_ratio`)."""
    direction, m, v = _direction(xp, p, g, *state, **attrs)
    return p - lr * direction, m, v


def _infer_ratio(param: Spec, grad: Spec, *state: Spec, **attrs: Any) -> Spec:
    require_float("lamb_ratio", param, grad, *state)
    return Spec((1,), wide_dtype(param.dtype))


def _with_dense_gradient(body: Callable[..., Any]) -> Callable[..., Any]:
    """The NumPy form, which takes sparse gradients, too."""

    def forward(xp: Any, param: Any, grad: Any, *state: Any, **attrs: Any) -> Any:
        return body(xp, param, dense(xp, grad), *state, **attrs).astype(
            wide_dtype(as_dtype(param.dtype)).numpy, copy=False
        )

    return forward


@row_op(
    "lamb_ratio",
    "Param, Grad, Moment1, Moment2, Beta1Pow, Beta2Pow -> Out",
    axes=lambda rank, attrs: tuple(range(rank)),
    per_row="Beta1Pow, Beta2Pow, Out",
    row_shape=lambda shape, axes, attrs: (1,),
    layouts=("lines",),
    wide="Out",
    numbers=" ".join(_ATTRS),
    around=_with_dense_gradient,
    sparse="Grad",
    attrs=_ATTRS,
    infer=_infer_ratio,
)
def LAMB_RATIO(rows: Any, p: Any, g: Any, *state: Any, **attrs: Any) -> Any:
    """||param|| / ||direction of LAMB's step||, in shape [1]; 1 where one of them is 0."""
    direction, *_ = _direction(rows, p, g, *state, **attrs)
    length, step = (rows.sqrt(rows.sum(x * x)) for x in (p, direction))
    both = rows.logical_and(length > 0.0, step > 0.0)
    return rows.where(both, length / rows.where(both, step, 1.0), 1.0)


class Lamb(Optimizer):
    """Adam with a rate per parameter, in proportion to its norm.

    With moments as in Adam and t counted from 1:

        direction = moment1 / (1 - beta1^t) / (sqrt(moment2 / (1 - beta2^t)) + epsilon) + lamb_weight_decay * param
        param -= learning_rate * ||param|| / ||direction|| * direction

    Args:
        lamb_weight_decay: at least 0. beta1, beta2: in [0, 1). epsilon: at least 0.
        exclude_from_weight_decay_fn: function of a parameter; where it is true there is no decay, and no ratio either
            unless `always_adapt`.
        multi_precision: keep float32 copies of half-precision parameters, and update those.
        always_adapt: multiply by the ratio of norms also where there is no decay.
        Others: see `Optimizer`.

    Source: You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", ICLR 2020.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> ops, pairs = wb.optimizer.Lamb(0.001).minimize(loss)
        >>> [op.type for op in ops]
        ['lamb', 'lamb']
    """

    op = LAMB_UPDATE
    options = {
        **Optimizer.options,
        **of_the_op(beta1=checked_beta, beta2=checked_beta, epsilon=checked_number),
        "lamb_weight_decay": GroupOption("_decay", checked_number, "weight_decay"),
    }

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-06,
        parameters: Sequence[Any] | None = None,
        grad_clip: ClipGradBase | None = None,
        exclude_from_weight_decay_fn: Callable[[Any], bool] | None = None,
        multi_precision: bool = False,
        always_adapt: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameters, None, grad_clip, name)
        if not (exclude_from_weight_decay_fn is None or callable(exclude_from_weight_decay_fn)):
            given = exclude_from_weight_decay_fn
            raise InvalidType(f"Lamb takes a function or None as exclude_from_weight_decay_fn, got {given!r}")
        self._set_options(lamb_weight_decay=lamb_weight_decay, beta1=beta1, beta2=beta2, epsilon=epsilon)
        self._multi_precision = bool(multi_precision)
        self._excludes, self._always_adapt = exclude_from_weight_decay_fn, bool(always_adapt)

    def attributes(self, parameter: Any) -> dict[str, Any]:
        excluded = self._excludes is not None and bool(self._excludes(parameter))
        return super().attributes(parameter) | ({"weight_decay": 0.0} if excluded else {})

    def scaled_rate(self, rate: Any, parameter: Any, held: Any, grad: Any, states: dict[str, Any]) -> Any:
        attributes = self.attributes(parameter)
        if attributes["weight_decay"] == 0.0 and not self._always_adapt:
            return rate
        ratio = LAMB_RATIO(held, grad, *states.values(), **attributes)
        return rate * ratio.astype(rate.dtype)
