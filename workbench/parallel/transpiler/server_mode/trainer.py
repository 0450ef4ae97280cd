"""The program of a trainer: gradients go to servers, parameters come from there (T-4, T-5, F-11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.roles import LR_SCHED, OPTIMIZE, ROLE_VAR
from workbench.framework.values.spec import DENSE, ROWS
from workbench.ops.distributed.servers import SPLIT_BYREF
from workbench.ops.distributed.tables import SPLIT_SELECTED_ROWS
from workbench.parallel.transpiler.server_mode.control import DIST, ServerOperators
from workbench.parallel.transpiler.server_mode.layout import Layout, Served
from workbench.parallel.transpiler.server_mode.rate import send_counter, send_scheduled_rates
from workbench.parallel.transpiler.server_mode.tables import pull_rows

IN_BACKGROUND = "half_async"  # of a program whose steps hand gradients over and go on
_UPDATES = OPTIMIZE | LR_SCHED


def exchange_with_servers(program: Program, layout: Layout) -> None:
    """Put into a program what it exchanges with servers; its updates stay until `drop_updates`."""
    block = program.global_block()
    exchange = ServerOperators(block, layout.trainer)
    for one in layout.served:
        if one.is_table:
            pull_rows(block, one, layout)
    controls = {one.name: _push(exchange, one, layout) for one in layout.served}
    sent = [controls[name] for name in layout.dealt]
    if not layout.waits:
        sent += send_counter(exchange, layout)
    sent += send_scheduled_rates(exchange, layout)
    barrier = _meet(exchange, sent, layout)
    pulled = _pull(exchange, layout, lambda one: [barrier] if barrier and layout.waits else [controls[one.name]])
    if layout.waits:
        exchange.fetch_barrier([barrier], pulled, layout.endpoints)
    if not layout.config.runtime_split_send_recv:
        join_blocks(exchange, layout, DIST)
    if layout.config.half_async and not layout.adds_up:
        program.attributes[IN_BACKGROUND] = True


def _push(exchange: ServerOperators, one: Served, layout: Layout) -> str:
    """Send a gradient as soon as it is there; the control variable of the `send`."""
    block, config = exchange.block, layout.config
    at = _last_write(block, one.gradient) + 1
    if config.runtime_split_send_recv:
        told = [layout.sent(shard.gradient) for shard in one.shards]
        pair = (one.name, one.gradient)
        return exchange.send(at, [one.gradient], one.endpoints, pair, sections=one.rows, send_varnames=told)
    if not one.is_cut:
        name = layout.sent(one.gradient)
        rename(block, one.gradient, name)
        return exchange.send(at, [name], one.endpoints, (one.name, name))
    pieces = [layout.sent(shard.gradient) for shard in one.shards]
    for shard, name in zip(one.shards, pieces, strict=True):
        kind = ROWS if one.is_sparse else DENSE
        block.create_var(name, shard.block.shape, one.dtype, kind, stop_gradient=True)
    op, key = (SPLIT_SELECTED_ROWS, "height_sections") if one.is_sparse else (SPLIT_BYREF, "sections")
    block.insert_op(
        at, op.type, inputs={"X": one.gradient}, outputs={"Out": pieces}, attrs={key: one.rows, "op_role": DIST}
    )
    return exchange.send(at + 1, pieces, one.endpoints, (one.name, one.gradient))


def _meet(exchange: ServerOperators, sent: list[str], layout: Layout) -> str:
    config = layout.config
    if layout.waits or (config.runtime_split_send_recv and config.half_async):
        return exchange.send_barrier(sent, layout.endpoints, not layout.waits)
    return ""


def _pull(exchange: ServerOperators, layout: Layout, after: Callable[[Served], list[str]]) -> list[str]:
    """Receive every parameter that trainers have; the names of what is received."""
    pulled = []
    for one in layout.served:
        if one.is_table:
            continue
        pair = (one.name, layout.told(one))
        told = [shard.parameter for shard in one.shards] if layout.config.runtime_split_send_recv else []
        names = [one.name] if told else declare_blocks(exchange.block, one)
        exchange.recv(after(one), names, one.endpoints, pair, told)
        pulled += names
    return pulled


def declare_blocks(block: Block, one: Served) -> list[str]:
    """The variables of a parameter's blocks; itself if it is not cut."""
    names = [shard.parameter for shard in one.shards]
    for shard in one.shards if one.is_cut else ():
        block.create_var(shard.parameter, shard.block.shape, one.dtype, stop_gradient=True)
    return names


def join_blocks(exchange: ServerOperators, layout: Layout, role: int) -> None:
    """Put parameters together from their blocks."""
    for one in layout.served:
        if one.is_cut and not one.is_table:
            exchange.concat([shard.parameter for shard in one.shards], one.name, role)


def _last_write(block: Block, name: str) -> int:
    """The place of the last operator that writes a gradient; one that decays it in place, which servers do, counts."""
    return max(i for i, op in enumerate(block.ops) if name in op.output_arg_names)


def rename(block: Block, old: str, new: str) -> None:
    """Have a variable called otherwise."""
    if old == new:
        return
    variable = block.vars.pop(old)
    variable.name = new
    block.add_var(variable)
    for op in block.ops:
        op.rename_input(old, new)
        op.rename_output(old, new)
        if old in op.attrs.get(ROLE_VAR, ()):
            op.set_attr(ROLE_VAR, [new if name == old else name for name in op.attrs[ROLE_VAR]])


def drop_updates(program: Program, startup: Program) -> None:
    """Take out of a trainer's programs what servers do: updates, and the state of optimizers."""
    block = program.global_block()
    gone = [op for op in block.ops if op.role & _UPDATES]
    block.ops = [op for op in block.ops if not op.role & _UPDATES]
    states = _only_of((op for op in gone if op.role & OPTIMIZE), block)
    for name in _only_of(gone, block):
        variable = block.vars[name]
        if not variable.is_data and not variable.is_parameter and name not in program.lr_schedulers:
            block.remove_var(name)
    start = startup.global_block()
    start.ops = [op for op in start.ops if not set(op.output_arg_names) & states or _makes_others(op, states)]
    for name in states:
        if name in start.vars and not start.vars[name].is_parameter:
            start.remove_var(name)
    program.touch()
    startup.touch()


def _makes_others(op: Operator, names: set[str]) -> bool:
    return not set(op.output_arg_names) <= names


def _only_of(ops: Iterable[Operator], block: Block) -> set[str]:
    """Variables of the block that these operators name, and none of those that are left."""
    named = {name for op in ops for name in (*op.input_arg_names, *op.output_arg_names)}
    left = {name for op in block.ops for name in (*op.input_arg_names, *op.output_arg_names)}
    kept = set(block.program.lr_schedulers)
    return {name for name in named - left - kept if name in block.vars and not block.vars[name].is_parameter}
