"""Learning rates that servers compute, and what trainers tell them for that.

Schedules of 1.x are operators of role LRSched; they go to the servers (T-7). Where trainers do not wait for each other
(`transpile(sync_mode=False)`), each tells all servers of every step it makes (T-5), and the schedule follows the sum of
these steps; a server that adds up the gradients of all trainers counts those as one step. Schedules of 2.x are objects
that the user's program moves on by `step()`; so the first trainer sends the rate itself.
"""

from __future__ import annotations

from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.roles import LR_SCHED
from workbench.parallel.transpiler.server_mode.control import ServerOperators
from workbench.parallel.transpiler.server_mode.layout import Layout

COUNTER = "@LR_DECAY_COUNTER@"
_OF_TRAINER = f"{COUNTER}.trainer_"


def schedule_of(block: Block) -> list[Operator]:
    """The operators that compute learning rates."""
    return [op for op in block.ops if op.role & LR_SCHED]


def counts_steps(block: Block) -> bool:
    """Whether some schedule follows from how many steps there were."""
    return any(COUNTER in op.output_arg_names for op in schedule_of(block))


def counters(trainers: int) -> list[str]:
    """The steps of each trainer."""
    return [f"{_OF_TRAINER}{i}" for i in range(trainers)]


def is_counter(name: str) -> bool:
    """Whether a variable counts the steps of one trainer."""
    return name.startswith(_OF_TRAINER)


def declare_counters(block: Block, trainers: int) -> list[str]:
    """Variables for the steps of each trainer."""
    names = counters(trainers)
    for name in names:
        if name not in block.vars:
            block.create_var(name, [1], "int64", persistable=True, stop_gradient=True)
    return names


def send_counter(exchange: ServerOperators, layout: Layout) -> list[str]:
    """Tell all servers of one more step of this trainer; the control variable, if there is a schedule at all."""
    if not counts_steps(exchange.block):
        return []
    own = declare_counters(exchange.block, layout.trainers)[layout.trainer]
    end = len(exchange.block.ops)
    told = [own] if layout.config.runtime_split_send_recv else []
    attrs = {"send_varnames": told, "merge_add": True, "use_send_handler": False}
    return [exchange.send(end, [own], layout.endpoints, (own, own), **attrs)]


def send_scheduled_rates(exchange: ServerOperators, layout: Layout) -> list[str]:
    """Tell all servers the rates that schedulers of 2.x have set; only the first trainer does."""
    names = list(exchange.block.program.lr_schedulers) if layout.trainer == 0 else []
    end = len(exchange.block.ops)
    return [exchange.send(end, [name], layout.endpoints, (), use_send_handler=False) for name in names]


def begin_counters(startup: Program, layout: Layout) -> None:
    """Have a startup program make the counters of the trainers, as 1.8.5 does: 1 each, their sum begins one lower.

    A server that adds up the gradients of all trainers counts such steps itself, from where the schedule begins.
    """
    block = startup.global_block()
    (begin,) = [op for op in block.ops if COUNTER in op.output_arg_names]
    if not layout.adds_up:
        begin.set_attr("value", begin.attr("value") - 1)
    for name in declare_counters(block, layout.trainers):
        attrs = {"shape": (1,), "value": 1.0, "dtype": block.vars[name].dtype}
        block.prepend_op(begin.type, outputs={"Out": name}, attrs=attrs)
