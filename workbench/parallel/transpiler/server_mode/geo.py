"""Geo-SGD: trainers update by themselves, and now and then tell servers what has changed (F-10).

As of 1.8.5's GeoSgdTranspiler: the operators say no more than that a step is over; which variables lie where is told
beside them, in `program.attributes["geo_sgd"]`, for whoever does the exchange.
"""

from __future__ import annotations

from typing import Any

from workbench.framework.program.block import Block
from workbench.framework.program.program import Program
from workbench.framework.program.roles import FORWARD, ROLE, ROLE_VAR
from workbench.framework.values.spec import DENSE, ROWS
from workbench.ops.distributed.servers import LISTEN_AND_SERV, SEND
from workbench.ops.math.reductions.accumulate import SUM
from workbench.parallel.transpiler.server_mode.control import ServerOperators
from workbench.parallel.transpiler.server_mode.layout import GEO, Layout
from workbench.parallel.transpiler.server_mode.trainer import declare_blocks, join_blocks

BEGIN = "param_init"
ATTRIBUTE = "geo_sgd"


def delta(name: str) -> str:
    """What has changed of a variable since the last push."""
    return f"{name}.delta"


def push_changes(program: Program, layout: Layout) -> None:
    """Have a trainer's program say when a step is over."""
    block = program.global_block()
    for one in layout.served:
        declare_blocks(block, one)
        names = dict.fromkeys([one.name, *(shard.parameter for shard in one.shards)])
        shapes = {one.name: one.shape} | {shard.parameter: shard.block.shape for shard in one.shards}
        for name in names:
            block.create_var(delta(name), shapes[name], one.dtype, stop_gradient=True)
    exchange = ServerOperators(block, layout.trainer)
    _say(exchange, [], [])
    program.attributes[ATTRIBUTE] = told(layout)


def begin_with_servers(startup: Program, layout: Layout) -> None:
    """Have a trainer begin with the servers' values, and say so."""
    block = startup.global_block()
    exchange = ServerOperators(block, layout.trainer)
    for one in layout.served:
        exchange.recv([], declare_blocks(block, one), one.endpoints, (), ())
    exchange.fetch_barrier([], [exchange.control()], layout.endpoints)
    join_blocks(exchange, layout, FORWARD)
    block.create_var(BEGIN, dtype="bool", stop_gradient=True)
    _say(exchange, [BEGIN], [BEGIN])
    startup.attributes[ATTRIBUTE] = told(layout)


def told(layout: Layout) -> dict[str, Any]:
    """What lies where, in plain values."""
    return {
        "trainers": layout.trainers,
        "trainer": layout.trainer,
        "endpoints": list(layout.endpoints),
        "push_nums": layout.config.geo_sgd_need_push_nums,
        "vars": {
            one.name: {
                "var_names": [shard.parameter for shard in one.shards],
                "sections": one.rows,
                "epmap": one.endpoints,
                "is_sparse": one.is_sparse,
            }
            for one in layout.served
        },
    }


def _say(exchange: ServerOperators, names: list[str], told_as: list[str]) -> None:
    """A `send` with no endpoint of its own: one whom the exchange as a whole is told of."""
    block, done = exchange.block, exchange.control()
    attrs = {"send_varnames": told_as, "trainer_id": exchange.trainer, ROLE: FORWARD, ROLE_VAR: []}
    block.append_op(SEND.type, {"X": names}, {"Out": [done]}, attrs)


def geo_server(layout: Layout, endpoint: str) -> Program:
    """The program of a server that adds up what trainers have changed."""
    program = Program()
    home = program.global_block()
    numbers, blocks, sparse = [], [], []
    for one, shard in layout.of(endpoint):
        name, change = shard.parameter, delta(shard.parameter)
        home.create_var(name, shard.block.shape, one.dtype, persistable=True, stop_gradient=True)
        kind = ROWS if one.is_sparse else DENSE
        home.create_var(change, shard.block.shape, one.dtype, kind, stop_gradient=True)
        block = _opened(program)
        block.append_op(SUM.type, {"X": [name, change]}, {"Out": name})
        blocks.append(block)
        numbers.append(f"{change}:{block.idx}")
        sparse += [f"{change}:{name}"] if one.is_sparse else []
    attrs = {
        "endpoint": endpoint,
        "Fanin": layout.trainers,
        "distributed_mode": GEO,
        "optimize_blocks": blocks,
        "grad_to_block_id": numbers,
        "sparse_grad_to_param": sparse,
    }
    home.append_op(LISTEN_AND_SERV.type, {"X": []}, {}, attrs)
    return program


def _opened(program: Program) -> Block:
    block = program.create_block(0)
    program.rollback()
    return block
