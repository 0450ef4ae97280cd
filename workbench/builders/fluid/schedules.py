"""Learning rates that the program itself computes, from a counter of its steps (P-47).

A schedule of 1.x is a few operators with role LRSched. The counter, `@LR_DECAY_COUNTER@`, is incremented by the first
operator of the program, and is 0 in the first step. An optimizer takes the variable as its learning rate, so that a
program that is saved, transpiled or run elsewhere has its schedule with it.

The operators are those of Paddle 1.8.5, one for one, so that rates are rounded as there. Only what Paddle chooses by
running one of several blocks is chosen by `where` here (`piecewise_decay`, `linear_lr_warmup`, `polynomial_decay` with
`cycle`): a step without branches is one call of a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import wraps
from typing import Any

from workbench.builders.initializers.initializer import Constant
from workbench.builders.layer import global_variable, require_static
from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.program.guard import default_main_program, default_startup_program
from workbench.framework.program.roles import LR_SCHED
from workbench.framework.program.undo import unchanged_on_error
from workbench.framework.program.variable import Variable
from workbench.framework.values.dtype import float32, int64
from workbench.ops.math.arithmetic import maximum, minimum
from workbench.ops.math.cast import CAST
from workbench.ops.math.compare import where
from workbench.ops.math.reductions.accumulate import INCREMENT
from workbench.ops.math.unary import ceil, cos, exp, floor
from workbench.ops.tensor.creation import full

COUNTER = "@LR_DECAY_COUNTER@"


def _schedule(build: Any) -> Any:
    """A schedule: what it appends has role LRSched, and stays only if all of it could be built."""

    @wraps(build)
    def scheduled(*args: Any, **kwargs: Any) -> Any:
        require_static(f"fluid.layers.{build.__name__}")
        main, startup = default_main_program(), default_startup_program()
        with unchanged_on_error(main, startup), main.role_guard(LR_SCHED):
            return build(*args, **kwargs)

    return scheduled


def _step(begin: int = 0) -> Any:
    """How many steps the program has made before this one, counted from `begin`, as float32 `[1]`."""
    block = default_main_program().global_block()
    if not block.has_var(COUNTER):
        startup = default_startup_program().global_block()
        counter = global_variable(block, startup, COUNTER, (1,), int64, Constant(begin - 1))
        block.prepend_op(INCREMENT.type, inputs={"X": counter}, outputs={"Out": counter}, attrs={"step": 1.0})
    return CAST(block.var(COUNTER), dtype=float32.name)


def _constant(value: float) -> Any:
    return full([1], value, "float32")


@_schedule
def exponential_decay(learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False) -> Any:
    """learning_rate * decay_rate ** (step / decay_steps).

    Args:
        staircase: the exponent is rounded down.

    Example:
        >>> import workbench.fluid as fluid
        >>> rate = fluid.layers.exponential_decay(0.1, decay_steps=1, decay_rate=0.5)
        >>> executor = fluid.Executor(fluid.CPUPlace())
        >>> started = executor.run(fluid.default_startup_program())
        >>> [float(executor.run(fetch_list=[rate])[0][0].round(3)) for _ in range(3)]
        [0.1, 0.05, 0.025]
    """
    periods = _periods(decay_steps, staircase)
    return learning_rate * _constant(decay_rate) ** periods


@_schedule
def natural_exp_decay(learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False) -> Any:
    """learning_rate * exp(-decay_rate * step / decay_steps), the quotient rounded down with `staircase`."""
    return learning_rate * exp(_periods(decay_steps, staircase) * -decay_rate)


@_schedule
def inverse_time_decay(learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False) -> Any:
    """learning_rate / (1 + decay_rate * step / decay_steps), the quotient rounded down with `staircase`."""
    return learning_rate / (_periods(decay_steps, staircase) * decay_rate + 1.0)


def _periods(decay_steps: int, staircase: bool) -> Any:
    share = _step() * (1.0 / decay_steps)
    return floor(share) if staircase else share


@_schedule
def polynomial_decay(
    learning_rate: float,
    decay_steps: int,
    end_learning_rate: float = 0.0001,
    power: float = 1.0,
    cycle: bool = False,
) -> Any:
    """(learning_rate - end) * (1 - step / decay_steps) ** power + end.

    Args:
        cycle: begin again after `decay_steps`, each time for longer; else it stays at the end.
    """
    step, length = _step(), _constant(float(decay_steps))
    if cycle:
        share = step / (length * maximum(ceil(step / float(decay_steps)), _constant(1.0)))
    else:
        share = minimum(step, length) * (1.0 / decay_steps)
    left = 1.0 - share
    return (learning_rate - end_learning_rate) * left ** _constant(power) + end_learning_rate


@_schedule
def cosine_decay(learning_rate: float, step_each_epoch: int, epochs: int) -> Any:
    """learning_rate * 0.5 * (cos(epoch * pi / epochs) + 1)."""
    epoch = floor(_step() * (1.0 / step_each_epoch))
    return learning_rate * 0.5 * (cos(epoch * math.pi * (1.0 / epochs)) + 1.0)


@_schedule
def noam_decay(d_model: float, warmup_steps: int, learning_rate: float = 1.0) -> Any:
    """learning_rate * d_model ** -0.5 * min(step ** -0.5, step * warmup_steps ** -1.5), the first step being 1."""
    step = _step(begin=1)
    return learning_rate * d_model**-0.5 * minimum(step ** _constant(-0.5), step * warmup_steps**-1.5)


@_schedule
def piecewise_decay(boundaries: Sequence[int], values: Sequence[float]) -> Any:
    """values[i] until step boundaries[i]; the last value from the last boundary on.

    Raises:
        InvalidArgument: not one value more than boundaries.

    Example:
        >>> import workbench.fluid as fluid
        >>> rate = fluid.layers.piecewise_decay([1, 2], [0.1, 0.01, 0.001])
        >>> executor = fluid.Executor(fluid.CPUPlace())
        >>> started = executor.run(fluid.default_startup_program())
        >>> [float(executor.run(fetch_list=[rate])[0][0].round(3)) for _ in range(3)]
        [0.1, 0.01, 0.001]
    """
    if len(values) != len(boundaries) + 1:
        raise InvalidArgument(
            "piecewise_decay takes one value more than boundaries\n"
            f"  expected: {len(boundaries) + 1} values\n  got:      {len(values)}"
        )
    step, rate = _step(), _constant(float(values[-1]))
    for boundary, value in reversed(list(zip(boundaries, values, strict=False))):
        rate = where(step < _constant(float(boundary)), _constant(float(value)), rate)
    return rate


@_schedule
def linear_lr_warmup(learning_rate: Any, warmup_steps: int, start_lr: float, end_lr: float) -> Any:
    """From `start_lr` up to `end_lr` in a straight line; from `warmup_steps` on, `learning_rate`.

    Args:
        learning_rate: a number, or what another schedule gave.

    Raises:
        InvalidType: something else.
    """
    if isinstance(learning_rate, bool) or not isinstance(learning_rate, int | float | Variable):
        raise InvalidType(f"linear_lr_warmup takes a number or a schedule as learning_rate, got {learning_rate!r}")
    after = learning_rate if isinstance(learning_rate, Variable) else _constant(float(learning_rate))
    step = _step()
    rising = step * ((end_lr - start_lr) / warmup_steps) + start_lr
    return where(step < _constant(float(warmup_steps)), rising, after)
