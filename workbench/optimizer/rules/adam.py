"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.errors import InvalidType
from workbench.ops.update.update import update_op
from workbench.optimizer.checks import checked_beta, checked_flag, checked_number
from workbench.optimizer.clip import ClipGradBase
from workbench.optimizer.groups import GroupOption, of_the_op
from workbench.optimizer.lr import LRScheduler
from workbench.optimizer.optimizer import Optimizer

OFFERED = {"workbench.optimizer": "Adam AdamW"}


def _adam(
    xp: Any, p: Any, g: Any, lr: Any, m: Any, v: Any, beta1_power: Any, beta2_power: Any,
    beta1: float, beta2: float, epsilon: float, scaled_epsilon: bool, **attrs: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; p -= lr c / (1 - b1^t) m / (sqrt(v) + eps c)

    with c = sqrt(1 - b2^t), so that epsilon is compared with the corrected moment; as it is, without `scaled_epsilon`.
    """
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * (g * g)
    correction = xp.sqrt(1 - beta2_power)
    least = epsilon * correction if scaled_epsilon else epsilon
    return p - (lr * correction / (1 - beta1_power)) * (m / (xp.sqrt(v) + least)), m, v


def _adamw(
    xp: Any, p: Any, g: Any, lr: Any, *state: Any, coeff: float, lr_ratio: float, with_decay: bool, **attrs: Any
) -> tuple[Any, ...]:
    """Adam after p -= lr coeff p: the decay takes no part in the moments."""
    lr = lr * lr_ratio
    return _adam(xp, p - (lr * coeff) * p if with_decay else p, g, lr, *state, **attrs)


def _if_lazy(lazy_mode: bool, **attrs: Any) -> bool:
    return lazy_mode


_STATE, _BETAS = "Moment1, Moment2", "beta1, beta2"
_ATTRS = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "lazy_mode": False, "scaled_epsilon": True}

_DECAY = {"coeff": 0.01, "lr_ratio": 1.0, "with_decay": True}

ADAM_UPDATE = update_op("adam", _STATE, betas=_BETAS, attrs=_ATTRS, touched_only=_if_lazy)(_adam)
ADAMW_UPDATE = update_op("adamw", _STATE, betas=_BETAS, attrs=_ATTRS | _DECAY, touched_only=_if_lazy)(_adamw)


class Adam(Optimizer):
    """Steps by the ratio of running means of the gradient and of its square.

    With t counted from 1:

        moment1 = beta1 * moment1 + (1 - beta1) * grad
        moment2 = beta2 * moment2 + (1 - beta2) * grad^2
        param -= learning_rate * sqrt(1 - beta2^t) / (1 - beta1^t)
                 * moment1 / (sqrt(moment2) + epsilon * sqrt(1 - beta2^t))

    Args:
        beta1, beta2: in [0, 1). epsilon: at least 0.
        lazy_mode: with a sparse gradient, update only the rows that were read.
        multi_precision: keep float32 copies of half-precision parameters, and update those.
        use_multi_tensor: accepted for Paddle's sake; updates of a program are joined anyway.
        Others: see `Optimizer`.

    Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, end of section 2; epsilon
    as in Paddle 2.x (`fluid.optimizer.Adam` has that of 1.x).

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> ops, pairs = wb.optimizer.Adam(0.001).minimize(loss)
        >>> [op.type for op in ops]
        ['adam', 'adam']
    """

    op = ADAM_UPDATE
    options = Optimizer.options | of_the_op(
        beta1=checked_beta, beta2=checked_beta, epsilon=checked_number, lazy_mode=checked_flag
    )

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameters: Sequence[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: ClipGradBase | None = None,
        lazy_mode: bool = False,
        multi_precision: bool = False,
        use_multi_tensor: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._multi_precision = bool(multi_precision)
        self._set_options(beta1=beta1, beta2=beta2, epsilon=epsilon, lazy_mode=lazy_mode)


class AdamW(Adam):
    """Adam with decoupled weight decay: param *= 1 - learning_rate * weight_decay, then an Adam step.

    Args:
        weight_decay: the factor; not added to the gradient.
        lr_ratio: function of a parameter giving a factor on the rate.
        apply_decay_param_fun: function of a parameter's name; where it is false there is no decay.
        Others: see `Adam`.

    Source: Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> ops, pairs = wb.optimizer.AdamW(0.001, weight_decay=0.01).minimize(loss)
        >>> [op.type for op in ops]
        ['adamw', 'adamw']
    """

    op = ADAMW_UPDATE
    options = Adam.options | {"weight_decay": GroupOption("_coeff", checked_number, "coeff")}

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameters: Sequence[Any] | None = None,
        weight_decay: float = 0.01,
        lr_ratio: Callable[[Any], float] | None = None,
        apply_decay_param_fun: Callable[[str], bool] | None = None,
        grad_clip: ClipGradBase | None = None,
        lazy_mode: bool = False,
        multi_precision: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(
            learning_rate, beta1, beta2, epsilon, parameters, None, grad_clip, lazy_mode, multi_precision, name=name
        )
        for what, function in (("lr_ratio", lr_ratio), ("apply_decay_param_fun", apply_decay_param_fun)):
            if not (function is None or callable(function)):
                raise InvalidType(f"AdamW takes a function or None as {what}, got {function!r}")
        self._set_options(weight_decay=weight_decay)
        self._lr_ratio, self._decays = lr_ratio, apply_decay_param_fun

    def attributes(self, parameter: Any) -> dict[str, Any]:
        decays = self._decays is None or bool(self._decays(parameter.name))
        ratio = 1.0 if self._lr_ratio is None else checked_number("AdamW", "lr_ratio", self._lr_ratio(parameter))
        return {**super().attributes(parameter), "lr_ratio": ratio, "with_decay": decays}
