"""The ratio of norms that layer-wise adaptive updates multiply their rate with."""

from __future__ import annotations

from typing import Any

from workbench.framework.op.declare import op
from workbench.framework.values.rows import dense
from workbench.framework.values.spec import Spec, require_float
from workbench.ops.precision import wide, wide_dtype
from workbench.ops.update.optimizers import LAMB_ATTRS, lamb_direction


def _infer(param: Spec, grad: Spec, *state: Spec, **attrs: Any) -> Spec:
    require_float("lamb_ratio", param, grad, *state)
    return Spec((1,), wide_dtype(param.dtype))


@op(
    "lamb_ratio",
    "Param, Grad, Moment1, Moment2, Beta1Pow, Beta2Pow -> Out",
    sparse="Grad",
    attrs=LAMB_ATTRS,
    infer=_infer,
)
def LAMB_RATIO(
    xp: Any, param: Any, grad: Any, moment1: Any, moment2: Any, beta1_power: Any, beta2_power: Any, **attrs: Any
) -> Any:
    """||param|| / ||direction of LAMB's step||, in shape [1]; 1 where one of them is 0."""
    p = wide(param)
    powers = (power.reshape(()).astype(p.dtype) for power in (beta1_power, beta2_power))
    grad = dense(xp, grad).astype(p.dtype)
    direction, *_ = lamb_direction(xp, p, grad, wide(moment1), wide(moment2), *powers, **attrs)
    length, step = xp.sqrt((p * p).sum()), xp.sqrt((direction * direction).sum())
    both = (length > 0) & (step > 0)
    return xp.where(both, length / xp.where(both, step, 1), 1).astype(p.dtype).reshape(1)
