"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.errors import InvalidType
from workbench.ops.update import optimizers as update
from workbench.optimizer.checks import checked_beta, checked_number
from workbench.optimizer.clip import ClipGradBase
from workbench.optimizer.groups import GroupOption
from workbench.optimizer.lr import LRScheduler
from workbench.optimizer.optimizer import Optimizer
from workbench.optimizer.states import Accumulator


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

    op_type = update.ADAM.type
    options = {
        **Optimizer.options,
        "beta1": GroupOption("_beta1", checked_beta),
        "beta2": GroupOption("_beta2", checked_beta),
        "epsilon": GroupOption("_epsilon", checked_number),
    }

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
        owner = type(self).__name__
        self._multi_precision = bool(multi_precision)
        self._beta1, self._beta2 = checked_beta(owner, "beta1", beta1), checked_beta(owner, "beta2", beta2)
        self._epsilon = checked_number(owner, "epsilon", epsilon)
        self._lazy_mode = bool(lazy_mode)

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (
            Accumulator("moment1", "Moment1"),
            Accumulator("moment2", "Moment2"),
            Accumulator("beta1_pow_acc", "Beta1Pow", self._beta1, scalar=True),
            Accumulator("beta2_pow_acc", "Beta2Pow", self._beta2, scalar=True),
        )

    def attributes(self, parameter: Any) -> dict[str, Any]:
        return {
            "beta1": self._beta1,
            "beta2": self._beta2,
            "epsilon": self._epsilon,
            "lazy_mode": self._lazy_mode,
        }


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

    op_type = update.ADAMW.type
    options = {**Adam.options, "weight_decay": GroupOption("_coeff", checked_number)}

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
            learning_rate,
            beta1,
            beta2,
            epsilon,
            parameters,
            None,
            grad_clip,
            lazy_mode,
            multi_precision,
            name=name,
        )
        for what, function in (("lr_ratio", lr_ratio), ("apply_decay_param_fun", apply_decay_param_fun)):
            if not (function is None or callable(function)):
                raise InvalidType(f"AdamW takes a function or None as {what}, got {function!r}")
        self._coeff = checked_number("AdamW", "weight_decay", weight_decay)
        self._lr_ratio, self._decays = lr_ratio, apply_decay_param_fun

    def attributes(self, parameter: Any) -> dict[str, Any]:
        decays = self._decays is None or bool(self._decays(parameter.name))
        ratio = 1.0 if self._lr_ratio is None else checked_number("AdamW", "lr_ratio", self._lr_ratio(parameter))
        return {
            **super().attributes(parameter),
            "coeff": self._coeff,
            "lr_ratio": ratio,
            "with_decay": decays,
        }
