"""What transpiling makes of a small program for trainer 0 of two, in static mode."""

from __future__ import annotations

from workbench import fluid
from workbench.framework.program.program import Program


def trainer_program(inputs: int, outputs: int, servers: str) -> Program:
    """The mean of a layer of a weight and a bias, with SGD over the `servers`, 'ip:port,ip:port'."""
    main, startup = untranspiled(inputs, outputs)
    transpiler = fluid.DistributeTranspiler()
    transpiler.transpile(0, main, servers, 2, True, startup)
    return transpiler.get_trainer_program(wait_port=False)


def untranspiled(inputs: int, outputs: int) -> tuple[Program, Program]:
    """The program itself, and its startup program."""
    main, startup = Program(), Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, inputs]), outputs))
        fluid.optimizer.SGD(0.1).minimize(loss)
    return main, startup
