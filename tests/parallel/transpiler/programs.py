"""Programs that are transpiled in tests, and what is looked at in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench import fluid
from workbench.framework.program.program import Program
from workbench.parallel.transpiler.config import DistributeTranspilerConfig
from workbench.parallel.transpiler.distribute_transpiler import DistributeTranspiler

SERVERS = "127.0.0.1:6174,127.0.0.1:6175"
FIRST, SECOND = SERVERS.split(",")
TRAINERS = "127.0.0.1:6170,127.0.0.1:6171"

Optimizer = Callable[[], Any]


def sgd() -> Any:
    return fluid.optimizer.SGD(0.1)


def line(optimizer: Optimizer = sgd, width: int = 200, hidden: int = 100) -> tuple[Program, Program]:
    """x [?, width] -> fc(hidden) -> squares, trained; with width 200 and hidden 100 the weight is cut in two."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, width])
        loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(x, hidden)))
        optimizer().minimize(loss)
    return main, startup


def looked_up(optimizer: Optimizer = sgd) -> tuple[Program, Program]:
    """A sparse table of 4096 rows of 16, cut in two."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        ids = fluid.data("ids", [None], "int64")
        rows = fluid.embedding(ids, [4096, 16], is_sparse=True, param_attr=fluid.ParamAttr(name="table"))
        optimizer().minimize(fluid.layers.mean(fluid.layers.square(rows)))
    return main, startup


def config(**fields: Any) -> DistributeTranspilerConfig:
    config = DistributeTranspilerConfig()
    for name, value in fields.items():
        setattr(config, name, value)
    return config


def transpiled(programs: tuple[Program, Program], fields: Any = None, **told: Any) -> DistributeTranspiler:
    """A transpiler that has transpiled; by default for trainer 0 of two, with two servers."""
    transpiler = DistributeTranspiler(config(**(fields or {})))
    told = {"trainer_id": 0, "pservers": SERVERS, "trainers": 2} | told
    transpiler.transpile(program=programs[0], startup_program=programs[1], **told)
    return transpiler


def types(program: Program, block: int = 0) -> list[str]:
    return [op.type for op in program.block(block).ops]


def exchanges(program: Program) -> list[str]:
    """The operators of a program that exchange values, as text."""
    shown = ("send", "recv", "barrier", "split", "concat", "c_", "listen", "nccl", "fake", "distributed", "scale")
    return [str(op) for op in program.global_block().ops if any(word in op.type for word in shown)]
