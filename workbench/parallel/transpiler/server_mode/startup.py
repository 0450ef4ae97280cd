"""Startup programs: trainers begin with the servers' values (T-6), servers with what lives there (T-8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.errors import PreconditionNotMet, Unimplemented
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.roles import FORWARD
from workbench.ops.distributed.tables import FAKE_INIT
from workbench.ops.random.distributions import GAUSSIAN_RANDOM, TRUNCATED_GAUSSIAN_RANDOM, UNIFORM_RANDOM
from workbench.ops.tensor.assign import ASSIGN
from workbench.ops.tensor.creation import FILL_CONSTANT
from workbench.parallel.transpiler.blocks import TensorBlock
from workbench.parallel.transpiler.server_mode.control import ServerOperators
from workbench.parallel.transpiler.server_mode.layout import Layout, Served
from workbench.parallel.transpiler.server_mode.rate import COUNTER, begin_counters
from workbench.parallel.transpiler.server_mode.server import OwnVariable, ServerProgram
from workbench.parallel.transpiler.server_mode.trainer import declare_blocks, join_blocks

_OF_ANY_SHAPE = (FILL_CONSTANT, UNIFORM_RANDOM, GAUSSIAN_RANDOM, TRUNCATED_GAUSSIAN_RANDOM)
_APART = 1 << 20  # between the random streams of a parameter's blocks


def require_initialised(startup: Program, layout: Layout) -> None:
    """The startup program makes what servers keep.

    Raises:
        PreconditionNotMet: names a parameter that it does not make.
    """
    initialised = {name for op in startup.global_block().ops for name in op.output_arg_names}
    missing = next((one.name for one in layout.served if one.name not in initialised), None)
    if missing is not None:
        raise PreconditionNotMet(f"startup_program does not make {missing!r}; give the program's own")


def pull_at_start(startup: Program, layout: Layout) -> None:
    """Have a trainer's startup program take parameters from the servers; those of tables are not made at all."""
    block = startup.global_block()
    exchange = ServerOperators(block, layout.trainer)
    for one in layout.served:
        if not one.is_table:
            exchange.recv([], declare_blocks(block, one), one.endpoints, (), ())
    exchange.fetch_barrier([], [exchange.control()], layout.endpoints)
    join_blocks(exchange, layout, FORWARD)
    for one in layout.served:
        if one.is_table:
            block.ops = [op for op in block.ops if one.name not in op.output_arg_names]
            block.append_op(FAKE_INIT.type, {}, {"Out": one.name}, {"shape": list(one.shape)})


def server_startup(startup: Program, server: ServerProgram) -> Program:
    """What makes the variables of one server."""
    layout = server.layout
    program = _initialised(startup, server.program, server.kept)
    block = program.global_block()
    if f"{COUNTER}.trainer_0" in block.vars:
        begin_counters(program, layout)
    for one, shard in layout.of(server.endpoint) if layout.config.enable_dc_asgd else ():
        for i in range(layout.trainers if not one.is_sparse else 0):
            block.append_op(ASSIGN.type, {"X": shard.parameter}, {"Out": f"{shard.parameter}.trainer_{i}_bak"})
    return program


def geo_startup(startup: Program, server: Program, layout: Layout, endpoint: str) -> Program:
    """What makes the parameters of one server."""
    return _initialised(startup, server, parameters_at(layout, endpoint))


def parameters_at(layout: Layout, endpoint: str) -> dict[str, list[OwnVariable]]:
    """Of each parameter what a server has of it."""
    kept: dict[str, list[OwnVariable]] = {}
    for one, shard in layout.of(endpoint):
        kept.setdefault(one.name, []).append(OwnVariable(shard.parameter, one, shard))
    return kept


def _initialised(startup: Program, server: Program, kept: Mapping[str, Sequence[OwnVariable]]) -> Program:
    """The initialisers of what a server has, of the shapes it has there."""
    program = Program()
    program.random_seed = startup.random_seed
    block = program.global_block()
    for variable in server.global_block().vars.values():
        block.create_var(
            variable.name, variable.shape, variable.dtype, variable.kind, persistable=True, stop_gradient=True
        )
    for op in startup.global_block().ops:
        names = op.output_arg_names
        for one in kept.get(names[0], ()) if len(names) == 1 else ():
            _initialise(program, op, one)
    return program


def _initialise(program: Program, op: Operator, kept: OwnVariable) -> None:
    attrs = dict(op.attrs)
    if kept.one is not None and kept.shard is not None and kept.one.is_cut:
        _of_block(op, attrs, kept.one, kept.shard.block)
        if "stream" in attrs:
            attrs["stream"] += kept.shard.block.index * _APART
    program.streams = max(program.streams, attrs.get("stream", 0))
    program.global_block().append_op(op.type, {}, dict.fromkeys(op.outputs, kept.name), attrs)


def _of_block(op: Operator, attrs: dict[str, Any], one: Served, block: TensorBlock) -> None:
    """Change the attributes of an initialiser of the whole to those of a block's.

    Raises:
        Unimplemented: it is not known how the operator makes a part of what it makes.
    """
    variable = op.block.var(op.output_arg_names[0])
    if tuple(variable.shape) != one.shape:
        return  # state of the parameter that has a shape of its own
    values = attrs.get("values")
    if values is not None:
        rows = np.reshape(np.asarray(values), one.shape)[block.start : block.stop]
        attrs["values"] = rows.copy() if isinstance(values, np.ndarray) else type(values)(rows.reshape(-1).tolist())
    if values is None and op.record not in _OF_ANY_SHAPE:
        raise Unimplemented(
            f"op {op.type!r} initialises {variable.name!r}, of which a server has a part only; "
            "the op cannot initialise a part\n"
            "  expected: DistributeTranspilerConfig.slice_var_up = False, or another initializer"
        )
    attrs["shape"] = type(attrs["shape"])(block.shape)
