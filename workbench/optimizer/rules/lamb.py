"""LAMB."""

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

    op_type = update.LAMB.type
    options = {
        **Optimizer.options,
        "beta1": GroupOption("_beta1", checked_beta),
        "beta2": GroupOption("_beta2", checked_beta),
        "epsilon": GroupOption("_epsilon", checked_number),
        "lamb_weight_decay": GroupOption("_decay", checked_number),
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
        self._decay = checked_number("Lamb", "lamb_weight_decay", lamb_weight_decay)
        self._beta1, self._beta2 = checked_beta("Lamb", "beta1", beta1), checked_beta("Lamb", "beta2", beta2)
        self._epsilon = checked_number("Lamb", "epsilon", epsilon)
        self._excludes = exclude_from_weight_decay_fn
        self._multi_precision, self._always_adapt = bool(multi_precision), bool(always_adapt)

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (
            Accumulator("moment1", "Moment1"),
            Accumulator("moment2", "Moment2"),
            Accumulator("beta1_pow_acc", "Beta1Pow", self._beta1, scalar=True),
            Accumulator("beta2_pow_acc", "Beta2Pow", self._beta2, scalar=True),
        )

    def attributes(self, parameter: Any) -> dict[str, Any]:
        excluded = self._excludes is not None and bool(self._excludes(parameter))
        return {
            "beta1": self._beta1,
            "beta2": self._beta2,
            "epsilon": self._epsilon,
            "weight_decay": 0.0 if excluded else self._decay,
        }

    def scaled_rate(self, rate: Any, parameter: Any, held: Any, grad: Any, states: dict[str, Any]) -> Any:
        attributes = self.attributes(parameter)
        if attributes["weight_decay"] == 0.0 and not self._always_adapt:
            return rate
        ratio = update.LAMB_RATIO(held, grad, *states.values(), **attributes)
        return rate * ratio.astype(rate.dtype)
