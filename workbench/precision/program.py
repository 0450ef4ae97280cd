"""Mixed precision of programs: products in half precision, and a loss that is scaled so that gradients survive it.

`fluid.contrib.mixed_precision.decorate` of 1.x. The forward operators of a program that stands are rewritten: casts in
front of those that compute in half precision, and in front of those that never do. Parameters stay float32, and so do
their gradients, since the gradient of a cast is a cast back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from workbench.builders.initializers.initializer import Constant
from workbench.builders.layer import global_variable
from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet, Unimplemented
from workbench.framework import names
from workbench.framework.op.record import find_op
from workbench.framework.program.block import Block
from workbench.framework.program.guard import default_startup_program, program_guard, static_mode
from workbench.framework.program.infer import infer_specs
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.roles import BACKWARD, LR_SCHED, OPTIMIZE
from workbench.framework.program.undo import restored_on_error
from workbench.framework.program.variable import Variable
from workbench.framework.values.dtype import DType, as_dtype, float32
from workbench.framework.values.spec import ROWS
from workbench.graph.loss import SCALED_LOSSES
from workbench.ops.math.arithmetic import maximum
from workbench.ops.math.cast import CAST
from workbench.ops.math.compare import logical_and, where
from workbench.ops.math.reductions.folds import all as all_of
from workbench.ops.math.unary import isfinite
from workbench.ops.tensor.assign import assign
from workbench.ops.tensor.creation import full, zeros_like
from workbench.optimizer.checks import Pairs
from workbench.optimizer.optimizer import Optimizer
from workbench.precision.policy import Policy


class AutoMixedPrecisionLists:
    """Types of ops that compute in half precision, or never do, beside those that do anyway.

    Args:
        custom_white_list, custom_black_list: in half precision; in float32.

    Raises:
        InvalidArgument: a type in both.
    """

    def __init__(
        self, custom_white_list: Iterable[str] | None = None, custom_black_list: Iterable[str] | None = None
    ) -> None:
        self.white_list, self.black_list = set(custom_white_list or ()), set(custom_black_list or ())
        both = sorted(self.white_list & self.black_list)
        if both:
            raise InvalidArgument(f"AutoMixedPrecisionLists: {both[0]!r} is in both lists")


def decorate(
    optimizer: Any,
    amp_lists: AutoMixedPrecisionLists | None = None,
    init_loss_scaling: float = 1.0,
    incr_every_n_steps: int = 1000,
    decr_every_n_nan_or_inf: int = 2,
    incr_ratio: float = 2.0,
    decr_ratio: float = 0.8,
    use_dynamic_loss_scaling: bool = True,
    dtype: str = "float16",
) -> MixedPrecisionOptimizer:
    """An optimizer that trains a program in mixed precision.

    Args:
        amp_lists: which ops compute in half precision.
        init_loss_scaling: what the loss is multiplied by at first. With `use_dynamic_loss_scaling` it is multiplied by
            `incr_ratio` after so many good steps in a row, and by `decr_ratio` after so many with NaN or Inf in a
            gradient; the gradients of those count as 0.
        dtype: the half precision; Paddle 1.x has float16 only.

    Raises:
        InvalidType: no optimizer. InvalidArgument: ratios that do not grow or shrink.

    Example:
        >>> import workbench.fluid as fluid
        >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 4]), 2))
        >>> optimizer = fluid.contrib.mixed_precision.decorate(fluid.optimizer.SGD(0.1), init_loss_scaling=128.0)
        >>> ops, pairs = optimizer.minimize(loss)
        >>> [gradient.dtype.name for parameter, gradient in pairs]
        ['float32', 'float32']
    """
    if not (isinstance(optimizer, Optimizer) or hasattr(optimizer, "apply_optimize")):
        raise InvalidType(f"decorate takes an optimizer, got {optimizer!r}")
    if not (incr_ratio > 1.0 and 0.0 < decr_ratio < 1.0):
        raise InvalidArgument(
            f"decorate takes an incr_ratio above 1 and a decr_ratio between 0 and 1, got {incr_ratio} and {decr_ratio}"
        )
    scaling = LossScaling(
        float(init_loss_scaling), int(incr_every_n_steps), int(decr_every_n_nan_or_inf), float(incr_ratio),
        float(decr_ratio), bool(use_dynamic_loss_scaling),
    )  # fmt: skip
    lists = AutoMixedPrecisionLists() if amp_lists is None else amp_lists
    return MixedPrecisionOptimizer(optimizer, lists, scaling, as_dtype(dtype))


class MixedPrecisionOptimizer:
    """What `decorate` gives."""

    def __init__(self, optimizer: Any, lists: AutoMixedPrecisionLists, scaling: LossScaling, dtype: DType) -> None:
        self._optimizer, self._lists, self._scaling, self._dtype = optimizer, lists, scaling, dtype
        self._scaled_loss: Variable | None = None

    def get_loss_scaling(self) -> Variable:
        """The variable with the current factor, shape [1].

        Raises:
            PreconditionNotMet: before `minimize`.
        """
        return self._scaling.variable

    def get_scaled_loss(self) -> Variable | None:
        """The loss times the factor; None before `minimize`."""
        return self._scaled_loss

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Any] | None = None,
        no_grad_set: set[Any] | None = None,
        callbacks: Sequence[Any] | None = None,
    ) -> Pairs:
        """Rewrite the program, scale the loss, and append the gradient operators; gradients are still scaled."""
        startup = startup_program if startup_program is not None else default_startup_program()
        program = loss.block.program
        with program_guard(program, startup), static_mode():
            use_half_precision(program, Policy(self._dtype, False, self._lists.white_list, self._lists.black_list))
            self._scaling.build(program, startup)
            self._scaled_loss = loss * self._scaling.variable
            program.attributes.setdefault(SCALED_LOSSES, {})[self._scaled_loss.name] = loss.name
            pairs: Pairs = self._optimizer.backward(self._scaled_loss, startup, parameter_list, no_grad_set, callbacks)
        return pairs

    def apply_gradients(self, params_grads: Pairs) -> list[Operator]:
        """Append what takes the factor out of the gradients, adapts it, and updates."""
        return self.apply_optimize(None, None, params_grads)

    def apply_optimize(self, loss: Any, startup_program: Program | None, params_grads: Pairs) -> list[Operator]:
        """The same, with states filled by `startup_program`."""
        startup = startup_program if startup_program is not None else default_startup_program()
        with program_guard(params_grads[0][0].block.program, startup), static_mode():
            plain = self._scaling.take_out(params_grads)
            ops: list[Operator] = self._optimizer.apply_optimize(loss, startup, plain)
        return ops

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Any] | None = None,
        no_grad_set: set[Any] | None = None,
    ) -> tuple[list[Operator], Pairs]:
        """Append all of it; returns the update operators and the (parameter, scaled gradient) pairs."""
        startup = startup_program if startup_program is not None else default_startup_program()
        with restored_on_error(loss.block.program, startup):
            pairs = self.backward(loss, startup, parameter_list, no_grad_set)
            return self.apply_optimize(loss, startup, pairs), pairs


class LossScaling:
    """The factor of a loss, and how a program adapts it.

    Args:
        initial: the factor to begin with. grow_after, shrink_after: good and bad steps in a row. growth, shrinkage:
            what it is multiplied by then. is_dynamic: whether it is adapted at all.
    """

    def __init__(
        self, initial: float, grow_after: int, shrink_after: int, growth: float, shrinkage: float, is_dynamic: bool
    ) -> None:
        self._initial, self._is_dynamic = initial, is_dynamic
        self._grow_after, self._shrink_after, self._growth, self._shrinkage = (
            grow_after,
            shrink_after,
            growth,
            shrinkage,
        )
        self._made: dict[str, Variable] = {}

    @property
    def variable(self) -> Variable:
        """The factor, shape [1].

        Raises:
            PreconditionNotMet: before it was built.
        """
        if not self._made:
            raise PreconditionNotMet("the loss scaling belongs to a program from minimize(loss) on")
        return self._made["loss_scaling"]

    def build(self, program: Program, startup: Program) -> None:
        """Make the variables: the factor, and how many good and bad steps there were last."""
        kinds = {"loss_scaling": ("float32", self._initial), "num_good_steps": ("int32", 0)}
        kinds["num_bad_steps"] = ("int32", 0)
        for key, (dtype, value) in kinds.items():
            self._made[key] = global_variable(
                program.global_block(), startup.global_block(), names.generate(key), (1,), as_dtype(dtype),
                Constant(value),
            )  # fmt: skip

    def take_out(self, pairs: Pairs) -> Pairs:
        """Gradients without the factor; 0 where one of them is not finite, and then the factor is adapted."""
        sparse = next((g for _, g in pairs if g.kind == ROWS), None)
        if sparse is not None:
            raise Unimplemented(f"mixed precision does not take sparse gradients: {sparse.name!r}; is_sparse=False")
        program = pairs[0][0].block.program
        with program.role_guard(OPTIMIZE):
            plain = [(p, self._divided(p, g)) for p, g in pairs]
            if not self._is_dynamic:
                return plain
            is_finite = all_of(isfinite(plain[0][1]))
            for _, gradient in plain[1:]:
                is_finite = logical_and(is_finite, all_of(isfinite(gradient)))
            kept_or_zero = [(p, self._zero_unless(is_finite, p, g)) for p, g in plain]
            self._adapt(is_finite)
        return kept_or_zero

    def _divided(self, parameter: Any, gradient: Any) -> Any:
        with parameter.block.program.role_guard(OPTIMIZE, [parameter, gradient]):
            return gradient / self.variable

    def _zero_unless(self, is_finite: Any, parameter: Any, gradient: Any) -> Any:
        with parameter.block.program.role_guard(OPTIMIZE, [parameter, gradient]):
            return where(is_finite, gradient, zeros_like(gradient))

    def _adapt(self, is_finite: Any) -> None:
        factor, good, bad = (self._made[key] for key in ("loss_scaling", "num_good_steps", "num_bad_steps"))
        none = full([1], 0, "int32")
        good_now, bad_now = where(is_finite, good + 1, none), where(is_finite, none, bad + 1)
        grows = good_now >= full([1], self._grow_after, "int32")
        shrinks = bad_now >= full([1], self._shrink_after, "int32")
        larger = factor * self._growth
        smaller = maximum(factor * self._shrinkage, full([1], 1.0, "float32"))
        larger = where(isfinite(larger), larger, factor)
        assign(where(grows, larger, where(shrinks, smaller, factor)), factor)
        assign(where(grows, none, good_now), good)
        assign(where(shrinks, none, bad_now), bad)


def use_half_precision(program: Program, policy: Policy) -> None:
    """Rewrite the forward operators of the global block for a policy."""
    _HalfPrecision(program.global_block(), policy).run()


class _HalfPrecision:
    """Casts in front of operators, and the dtypes that follow for what they write."""

    def __init__(self, block: Block, policy: Policy) -> None:
        self._block, self._policy = block, policy
        self._cast: dict[tuple[str, str], str] = {}

    def run(self) -> None:
        ops = list(self._block.ops)
        self._block.ops.clear()
        for op in ops:
            if not op.role & (BACKWARD | OPTIMIZE | LR_SCHED) and not op.blocks():
                self._rewrite(op)
            self._block.ops.append(op)
            written = set(op.output_arg_names)
            self._cast = {key: cast for key, cast in self._cast.items() if key[0] not in written}
        self._block.program.touch()

    def _rewrite(self, op: Operator) -> None:
        read = [variable for name in op.input_arg_names if (variable := self._block.find_var(name)) is not None]
        dtype = self._policy.dtype_for(op.record, read)
        if dtype is not None:
            op.inputs = {slot: [self._as(name, dtype, op) for name in given] for slot, given in op.inputs.items()}
        specs = infer_specs(op.record, self._block, op.inputs, op.call_attrs(), op.site)
        for slot, spec in zip(op.record.outputs, specs, strict=False):
            inferred = spec if isinstance(spec, list) else [spec]
            for name, one in zip(op.outputs.get(slot.name, ()), inferred, strict=False):
                variable = self._block.find_var(name)
                if variable is not None and one is not None and not variable.persistable:
                    variable.dtype = one.dtype

    def _as(self, name: str, dtype: DType, op: Operator) -> str:
        variable = self._block.find_var(name)
        if variable is None or not variable.dtype.is_float or variable.dtype == dtype:
            return name
        if (name, dtype.name) not in self._cast:
            fresh = f"{name}.cast_{'fp32' if dtype is float32 else dtype.name}"
            while self._block.find_var(fresh) is not None:
                fresh += "_"
            stop = variable.stop_gradient
            self._block.add_var(Variable(self._block, fresh, variable.shape, dtype, stop_gradient=stop))
            attrs = find_op(CAST.type).complete({"dtype": dtype.name})
            self._block.add_operator(CAST.type, {"X": [name]}, {"Out": [fresh]}, {**attrs, "op_role": op.role}, op.site)
            self._cast[name, dtype.name] = fresh
        return self._cast[name, dtype.name]
