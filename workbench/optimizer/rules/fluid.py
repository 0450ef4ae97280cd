"""`fluid.optimizer`: optimizers with the argument names and orders of Paddle 1.x, and `parameter_list`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.errors import Unimplemented
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.optimizer.checks import Pairs
from workbench.optimizer.clip import ClipGradBase
from workbench.optimizer.optimizer import Optimizer
from workbench.optimizer.regularizer import L1Decay, L2Decay
from workbench.optimizer.rules.adadelta import Adadelta
from workbench.optimizer.rules.adagrad import Adagrad
from workbench.optimizer.rules.adam import Adam
from workbench.optimizer.rules.adamax import Adamax
from workbench.optimizer.rules.lamb import Lamb
from workbench.optimizer.rules.momentum import Momentum
from workbench.optimizer.rules.rmsprop import RMSProp
from workbench.optimizer.rules.sgd import SGD


class ParameterListForm(Optimizer):
    """An optimizer whose `minimize` and `backward` call the parameters `parameter_list`, as 1.x does."""

    def minimize(
        self,
        loss: Any,
        startup_program: Program | None = None,
        parameter_list: Sequence[Any] | None = None,
        no_grad_set: set[Any] | None = None,
    ) -> tuple[list[Operator], Pairs]:
        """Append gradient and update operators to the program of `loss`; see `optimizer.Optimizer.minimize`."""
        return super().minimize(loss, startup_program, parameter_list, no_grad_set)

    def backward(
        self,
        loss: Any,
        startup_program: Program | None = None,
        parameter_list: Sequence[Any] | None = None,
        no_grad_set: set[Any] | None = None,
        callbacks: Sequence[Any] | None = None,
        checkpoints: Sequence[Any] | None = None,
    ) -> Pairs:
        """Append the gradient operators alone; see `optimizer.Optimizer.backward`."""
        return super().backward(loss, startup_program, parameter_list, no_grad_set, callbacks, checkpoints)


class SGDOptimizer(ParameterListForm, SGD):
    """`optimizer.SGD` in the form of 1.x; `regularization` is its weight decay.

    Example:
        >>> import workbench.fluid as fluid
        >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 4]), 2))
        >>> ops, pairs = fluid.optimizer.SGD(0.1, regularization=fluid.regularizer.L2Decay(1e-4)).minimize(loss)
        >>> [parameter.name for parameter, gradient in pairs]
        ['fc_0.w_0', 'fc_0.b_0']
    """

    def __init__(
        self,
        learning_rate: Any,
        parameter_list: Sequence[Any] | None = None,
        regularization: Any = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
    ) -> None:
        SGD.__init__(self, learning_rate, parameter_list, regularization, grad_clip, name=name)


class MomentumOptimizer(ParameterListForm, Momentum):
    """`optimizer.Momentum` in the form of 1.x."""

    def __init__(
        self,
        learning_rate: Any,
        momentum: float,
        parameter_list: Sequence[Any] | None = None,
        use_nesterov: bool = False,
        regularization: Any = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
    ) -> None:
        Momentum.__init__(
            self, learning_rate, momentum, parameter_list, use_nesterov, regularization, grad_clip, name=name
        )


class AdamOptimizer(ParameterListForm, Adam):
    """`optimizer.Adam` in the form of 1.x: epsilon is added to the root of the second moment as it is.

    A sparse gradient gives the steps of a dense one; in 1.8.5 it has the powers of the step after, on the CPU.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameter_list: Sequence[Any] | None = None,
        regularization: Any = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
        lazy_mode: bool = False,
    ) -> None:
        Adam.__init__(
            self, learning_rate, beta1, beta2, epsilon, parameter_list, regularization, grad_clip, lazy_mode, name=name
        )

    def attributes(self, parameter: Any) -> dict[str, Any]:
        return {**super().attributes(parameter), "scaled_epsilon": False}


class AdagradOptimizer(ParameterListForm, Adagrad):
    """`optimizer.Adagrad` in the form of 1.x."""

    def __init__(
        self,
        learning_rate: Any,
        epsilon: float = 1e-06,
        parameter_list: Sequence[Any] | None = None,
        regularization: Any = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
        initial_accumulator_value: float = 0.0,
    ) -> None:
        Adagrad.__init__(
            self, learning_rate, epsilon, parameter_list, regularization, grad_clip, name, initial_accumulator_value
        )


class AdamaxOptimizer(ParameterListForm, Adamax):
    """`optimizer.Adamax` in the form of 1.x."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameter_list: Sequence[Any] | None = None,
        regularization: Any = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
    ) -> None:
        Adamax.__init__(self, learning_rate, beta1, beta2, epsilon, parameter_list, regularization, grad_clip, name)


class AdadeltaOptimizer(ParameterListForm, Adadelta):
    """`optimizer.Adadelta` in the form of 1.x."""

    def __init__(
        self,
        learning_rate: Any,
        epsilon: float = 1e-06,
        rho: float = 0.95,
        parameter_list: Sequence[Any] | None = None,
        regularization: Any = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
    ) -> None:
        Adadelta.__init__(self, learning_rate, epsilon, rho, parameter_list, regularization, grad_clip, name)


class RMSPropOptimizer(ParameterListForm, RMSProp):
    """`optimizer.RMSProp` in the form of 1.x."""

    def __init__(
        self,
        learning_rate: Any,
        rho: float = 0.95,
        epsilon: float = 1e-06,
        momentum: float = 0.0,
        centered: bool = False,
        parameter_list: Sequence[Any] | None = None,
        regularization: Any = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
    ) -> None:
        RMSProp.__init__(
            self, learning_rate, rho, epsilon, momentum, centered, parameter_list, regularization, grad_clip, name
        )


class LambOptimizer(ParameterListForm, Lamb):
    """`optimizer.Lamb` in the form of 1.x; it has a decay of its own, so that `regularization` is refused."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-06,
        parameter_list: Sequence[Any] | None = None,
        regularization: Any = None,
        grad_clip: ClipGradBase | None = None,
        exclude_from_weight_decay_fn: Callable[[Any], bool] | None = None,
        name: str | None = None,
    ) -> None:
        if regularization is not None:
            raise Unimplemented("LambOptimizer decays weights by lamb_weight_decay; leave regularization out")
        Lamb.__init__(
            self, learning_rate, lamb_weight_decay, beta1, beta2, epsilon, parameter_list, grad_clip,
            exclude_from_weight_decay_fn, name=name,
        )  # fmt: skip


class L2DecayRegularizer(L2Decay):
    """`regularizer.L2Decay` under its 1.x name.

    Example:
        >>> import workbench.fluid as fluid
        >>> fluid.regularizer.L2Decay(regularization_coeff=0.1).coeff
        0.1
    """

    def __init__(self, regularization_coeff: float = 0.0) -> None:
        super().__init__(regularization_coeff)


class L1DecayRegularizer(L1Decay):
    """`regularizer.L1Decay` under its 1.x name."""

    def __init__(self, regularization_coeff: float = 0.0) -> None:
        super().__init__(regularization_coeff)
