"""Optimizer: from a loss to update operators (P-40 … P-48).

`minimize` = `backward` (gradients) + `apply_gradients`, which takes the parameters in the order of their
names and appends: clip, decay, then per parameter one update operator. Everything appended here has role
Optimize; what belongs to one parameter also carries `op_role_var = [P, P@GRAD]`.

State is kept per program, parameter and kind in persistable variables (P-6), filled by the startup program.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import workbench.ops  # noqa: F401  (registers the ops updates are made of)
from workbench.autodiff import append_backward
from workbench.builders.initializer import Constant
from workbench.builders.layer import global_variable
from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet, Unimplemented, one_of
from workbench.framework import names
from workbench.framework.notice import tell
from workbench.framework.program.block import Block
from workbench.framework.program.guard import default_startup_program, program_guard, static_mode
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.roles import LOSS_GRAD, LR_SCHED, OPTIMIZE
from workbench.framework.program.undo import unchanged_on_error
from workbench.framework.program.variable import Parameter, Variable
from workbench.framework.values.dtype import DType, bfloat16, float16, float32
from workbench.framework.values.portable import portable
from workbench.optimizer.clip import ClipGradBase
from workbench.optimizer.lr import LRScheduler
from workbench.optimizer.regularizer import add_decay, as_regularizer

Pairs = list[tuple[Parameter, Variable]]


class Accumulator(NamedTuple):
    """One kind of state a parameter has.

    Attributes:
        name: middle part of the variable's name, `fc_0.w_0_<name>_0` (P-6).
        slot: the update op's input slot; it writes the new value to `<slot>Out`.
        fill: initial value.
        scalar: shape [1] instead of the parameter's.
    """

    name: str
    slot: str
    fill: float = 0.0
    scalar: bool = False


@portable
class ConstantRate(LRScheduler):
    """The schedule of a rate changed by `set_lr`: always `learning_rate`, or the rate of a restored state."""

    def get_lr(self) -> float:
        return self.last_lr


class Optimizer:
    """Base class. A subclass names its update op and states, and gives the op's attributes.

    Args:
        learning_rate: a number, or an `optimizer.lr` schedule read before every run.
        parameters: Parameters or names to update; None for every trainable one.
        weight_decay: a number (stands for L2Decay) or a regularizer.
        grad_clip: a `ClipGradBy…`.
        name: put before the kind in the names of states.

    Raises:
        InvalidType, InvalidArgument: an argument of the wrong kind, a negative rate.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> optimizer = wb.optimizer.SGD(wb.optimizer.lr.StepDecay(0.1, step_size=30), weight_decay=1e-4)
        >>> ops, pairs = optimizer.minimize(loss)
        >>> [parameter.name for parameter, gradient in pairs]
        ['fc_0.w_0', 'fc_0.b_0']
    """

    op_type = ""

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        parameters: Sequence[Parameter | str] | None = None,
        weight_decay: Any = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
    ) -> None:
        self._learning_rate = _checked_rate(type(self).__name__, learning_rate)
        self._parameters = _checked_parameters(type(self).__name__, parameters)
        self._regularizer = as_regularizer(weight_decay, type(self).__name__)
        if not (grad_clip is None or isinstance(grad_clip, ClipGradBase)):
            raise InvalidType(f"{type(self).__name__} takes a ClipGradBy… object as grad_clip, got {grad_clip!r}")
        if not (name is None or isinstance(name, str)):
            raise InvalidType(f"{type(self).__name__} takes a string or None as name, got {name!r}")
        self._grad_clip, self._name = grad_clip, name
        self._states: dict[tuple[int, str, str], Variable] = {}
        self._rates: dict[int, Variable] = {}

    # What a subclass says

    def accumulators(self) -> tuple[Accumulator, ...]:
        """The states every parameter has."""
        return ()

    def attributes(self, parameter: Parameter) -> dict[str, Any]:
        """Attributes of a parameter's update op."""
        return {}

    # From loss to updates

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameters: Sequence[Parameter | str] | None = None,
        no_grad_set: set[Variable | str] | None = None,
    ) -> tuple[list[Operator], Pairs]:
        """Append gradient and update operators to the program of `loss`; if that fails, nothing is appended.

        Args:
            loss: shape [1].
            startup_program: where states are filled; the default one if None.
            parameters: what to update instead of the constructor's.
            no_grad_set: Variables or names no gradient flows through.

        Returns:
            the update operators, and the raw (parameter, gradient) pairs in the order of creation.

        Raises:
            PreconditionNotMet: in dynamic mode.
            InvalidArgument, InvalidType: no scalar loss, nothing to update.
        """
        loss = self._require_loss(loss)
        startup = startup_program if startup_program is not None else default_startup_program()
        updated = _updated_for(loss)
        with self._all_or_nothing(loss.block.program, startup):
            pairs = self.backward(loss, startup, parameters, no_grad_set)
            ops = self.apply_optimize(loss, startup, pairs)
        _tell_of_second_update(loss, updated.intersection(parameter.name for parameter, _ in pairs))
        return ops, pairs

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameters: Sequence[Parameter | str] | None = None,
        no_grad_set: set[Variable | str] | None = None,
        callbacks: Sequence[Any] | None = None,
    ) -> Pairs:
        """Append the gradient operators alone; returns (parameter, gradient) pairs in creation order."""
        loss = self._require_loss(loss)
        chosen = _checked_parameters("minimize", parameters)
        if chosen is None:
            chosen = self._parameters
        startup = startup_program if startup_program is not None else default_startup_program()
        with (
            unchanged_on_error(loss.block.program),
            program_guard(loss.block.program, startup),
            static_mode(),
        ):
            return append_backward(loss, chosen, no_grad_set, callbacks)

    def apply_optimize(self, loss: Variable, startup_program: Program | None, params_grads: Pairs) -> list[Operator]:
        """Append the update operators for gradients that exist, with states filled by `startup_program`."""
        return self._apply(params_grads, startup_program)

    def apply_gradients(self, params_grads: Sequence[tuple[Parameter, Variable]]) -> list[Operator]:
        """Append clip, decay and update operators for (parameter, gradient) pairs.

        Returns:
            the update operators, in the order of the parameters' names.

        Raises:
            InvalidArgument: no pair, a parameter twice, parameters of several programs.
            InvalidType: not pairs.
        """
        return self._apply(list(params_grads), None)

    def _apply(self, params_grads: Pairs, startup_program: Program | None) -> list[Operator]:
        pairs = _checked_pairs(type(self).__name__, params_grads)
        program = pairs[0][0].block.program
        startup = startup_program if startup_program is not None else default_startup_program()
        with self._all_or_nothing(program, startup), program_guard(program, startup), static_mode():
            ordered = sorted(pairs, key=lambda pair: pair[0].name)
            clipped = self._grad_clip(ordered) if self._grad_clip is not None else ordered
            decayed = [(p, raw, self._decayed(p, raw, g)) for (p, raw), (_, g) in zip(ordered, clipped, strict=True)]
            block = program.current_block()
            self._create_states(ordered, startup)
            return [self._append_update(block, p, raw, g) for p, raw, g in decayed]

    def _decayed(self, parameter: Parameter, raw: Variable, grad: Variable) -> Variable:
        with parameter.block.program.role_guard(OPTIMIZE, [parameter, raw]):
            return add_decay(parameter, grad, self._regularizer)

    def _append_update(self, block: Block, parameter: Parameter, raw: Variable, grad: Variable) -> Operator:
        program = block.program
        rate = self._rate_of(parameter)
        states = {a.slot: self._states[program.uid, parameter.name, a.name] for a in self.accumulators()}
        with program.role_guard(OPTIMIZE, [parameter, raw]):
            return block.append_op(
                self.op_type,
                inputs={"Param": parameter, "Grad": grad, "LearningRate": rate, **states},
                outputs={"ParamOut": parameter, **{f"{slot}Out": state for slot, state in states.items()}},
                attrs=self.attributes(parameter),
            )

    # State and rate

    def _create_states(self, pairs: Pairs, startup: Program) -> None:
        for parameter, _ in pairs:
            for kind in self.accumulators():
                self._create_state(parameter, kind, startup)
        self._create_rate(pairs, startup)

    def _create_state(self, parameter: Parameter, kind: Accumulator, startup: Program) -> None:
        program = parameter.block.program
        key = program.uid, parameter.name, kind.name
        if key in self._states:
            return
        prefix = f"{self._name}_" if self._name else ""
        self._states[key] = _new_variable(
            f"{parameter.name}_{prefix}{kind.name}",
            program,
            startup,
            (1,) if kind.scalar else parameter.shape,
            _wide(parameter.dtype) if kind.scalar else parameter.dtype,
            kind.fill,
        )

    def _create_rate(self, pairs: Pairs, startup: Program) -> None:
        """The learning rate variable of a program: persistable, shape [1]."""
        program = pairs[0][0].block.program
        if program.uid in self._rates:
            return
        rate = _new_variable("learning_rate", program, startup, (1,), _wide(pairs[0][0].dtype), self.get_lr())
        self._rates[program.uid] = rate
        if isinstance(self._learning_rate, LRScheduler):
            program.lr_schedulers[rate.name] = self._learning_rate

    def _rate_of(self, parameter: Parameter) -> Variable:
        """The rate variable, through a `scale` operator if the parameter has a factor of its own (P-46)."""
        rate = self._rates[parameter.block.program.uid]
        factor = parameter.optimize_attr.get("learning_rate", 1.0)
        if factor == 1.0:
            return rate
        with parameter.block.program.role_guard(OPTIMIZE | LR_SCHED):
            return rate * factor

    def get_lr(self) -> float:
        """The current learning rate."""
        rate = self._learning_rate
        return float(rate()) if isinstance(rate, LRScheduler) else rate

    def set_lr(self, value: float) -> None:
        """Use another constant rate from the next run on, in every program this optimizer has updates in.

        Raises:
            PreconditionNotMet: the rate comes from a schedule.
        """
        if isinstance(self._learning_rate, LRScheduler):
            raise PreconditionNotMet("the learning rate comes from a schedule, which alone can change it; step() that")
        self._learning_rate = _checked_rate("set_lr", value)
        for rate in self._rates.values():
            rate.block.program.lr_schedulers[rate.name] = ConstantRate(self._learning_rate)

    # Dynamic mode

    def step(self) -> None:
        """Update from accumulated gradients: dynamic mode only."""
        raise _dynamic_gap(f"{type(self).__name__}.step()")

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Forget accumulated gradients: dynamic mode only."""
        raise _dynamic_gap(f"{type(self).__name__}.clear_grad()")

    clear_gradients = clear_grad

    def _require_loss(self, loss: Any) -> Variable:
        if isinstance(loss, Variable):
            return loss
        if hasattr(loss, "numpy"):
            raise _dynamic_gap(f"{type(self).__name__}.minimize() of a Tensor")
        raise InvalidType(f"{type(self).__name__}.minimize takes a Variable of a static Program as loss, got {loss!r}")

    @contextmanager
    def _all_or_nothing(self, program: Program, startup: Program) -> Iterator[None]:
        """If the `with` body raises, programs and optimizer are as before."""
        kept = dict(self._states), dict(self._rates), dict(program.lr_schedulers)
        try:
            with unchanged_on_error(program, startup):
                yield
        except BaseException:
            self._states, self._rates, program.lr_schedulers = kept
            raise


def _dynamic_gap(what: str) -> PreconditionNotMet:
    return PreconditionNotMet(
        f"{what} works in dynamic mode only, which cannot train yet; "
        "call workbench.enable_static(), build a Program and use minimize(loss)"
    )


def _wide(dtype: DType) -> DType:
    """The dtype of rates and powers: half precision would round them away."""
    return float32 if dtype in (float16, bfloat16) else dtype


def _new_variable(
    key: str, program: Program, startup: Program, shape: tuple[int, ...], dtype: DType, value: float
) -> Variable:
    """A persistable variable named after `key` in both programs, filled with `value`."""
    block, startup_block = program.global_block(), startup.global_block()
    name = names.generate(key)
    while block.has_var(name) or startup_block.has_var(name):  # counters started afresh over the same program
        name = names.generate(key)
    return global_variable(block, startup_block, name, shape, dtype, Constant(value))


def checked_number(owner: str, what: str, value: Any) -> float:
    """A finite number of at least 0, or InvalidType / InvalidArgument naming optimizer and argument."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidType(f"{owner} takes a number as {what}, got {value!r}")
    if not (value >= 0 and math.isfinite(value)):
        raise InvalidArgument(f"{owner} takes a finite {what} of at least 0, got {value}")
    return float(value)


def checked_beta(owner: str, what: str, value: Any) -> float:
    """A decay rate in [0, 1)."""
    beta = checked_number(owner, what, value)
    if beta >= 1:
        raise InvalidArgument(f"{owner} takes a {what} in [0, 1), got {value}")
    return beta


def refuse_multi_precision(owner: str, multi_precision: bool) -> None:
    """Raise Unimplemented for float32 master copies of parameters."""
    if multi_precision:
        raise Unimplemented(f"{owner}: multi_precision is not supported; keep the parameters in float32")


def _updated_for(loss: Variable) -> set[str]:
    """The parameters a program updates, if it has gradients of this loss already."""
    ops = loss.block.program.global_block().ops
    if not any(op.role == LOSS_GRAD and loss.grad_name in op.output_arg_names for op in ops):
        return set()
    return {name for op in ops if op.role & OPTIMIZE for name in op.inputs.get("Param", ())}


def _tell_of_second_update(loss: Variable, twice: set[str]) -> None:
    """A notice where a loss is minimized once more: a cell was run twice, or it is meant."""
    if twice:
        tell(
            f"the program minimizes {loss.name!r} already: every step now computes its gradients twice and updates "
            f"{one_of(twice, limit=3)} twice. To change the optimizer, build the program anew"
        )


def _checked_rate(owner: str, rate: Any) -> Any:
    if isinstance(rate, LRScheduler):
        return rate
    if isinstance(rate, bool) or not isinstance(rate, int | float):
        raise InvalidType(f"{owner} takes a number or an optimizer.lr schedule as learning rate, got {rate!r}")
    return checked_number(owner, "learning rate", rate)


def _checked_parameters(owner: str, parameters: Any) -> list[Parameter | str] | None:
    if parameters is None:
        return None
    if isinstance(parameters, str | Variable) or not isinstance(parameters, Iterable):
        raise InvalidType(f"{owner} takes a list of Parameters or names as parameters, got {parameters!r}")
    chosen = list(parameters)
    for p in chosen:
        if isinstance(p, dict):
            raise Unimplemented(
                f"{owner}: groups of parameters with options of their own are not supported; "
                "give ParamAttr(learning_rate=…, regularizer=…) to the parameters instead"
            )
        if not isinstance(p, str | Parameter):
            raise InvalidType(f"{owner} takes Parameters or names as parameters, got {p!r} in the list")
    return chosen


def _checked_pairs(owner: str, params_grads: Any) -> Pairs:
    pairs: Pairs = []
    for pair in params_grads:
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], Parameter)):
            raise InvalidType(f"{owner} takes (Parameter, gradient) pairs, got {pair!r}")
        parameter, grad = pair
        if not (grad is None or isinstance(grad, Variable)):
            raise InvalidType(f"{owner}: the gradient of {parameter.name!r} is a Variable or None, got {grad!r}")
        if grad is not None and parameter.trainable:
            pairs.append((parameter, grad))
    if not pairs:
        raise InvalidArgument(f"{owner}: no trainable parameter has a gradient, so there is nothing to update")
    seen: set[str] = set()
    for parameter, _ in pairs:
        if parameter.name in seen:
            raise InvalidArgument(f"{owner}: parameter {parameter.name!r} comes twice")
        if parameter.block.program is not pairs[0][0].block.program:
            raise InvalidArgument(f"{owner}: {pairs[0][0].name!r} and {parameter.name!r} belong to different programs")
        seen.add(parameter.name)
    return pairs
