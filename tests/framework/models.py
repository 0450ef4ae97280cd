"""Programs the tests work on."""

from __future__ import annotations

import numpy as np

from tests.framework import toys
from workbench.framework import names
from workbench.framework.names import grad_name
from workbench.framework.program.block import Block
from workbench.framework.program.guard import default_main_program, program_guard, static_mode
from workbench.framework.program.program import Program
from workbench.framework.program.roles import BACKWARD, FORWARD, LOSS, LOSS_GRAD, LR_SCHED, OPTIMIZE
from workbench.framework.program.variable import Parameter, Variable


def data(name: str, shape: tuple[int, ...], dtype: str = "float32") -> Variable:
    block = default_main_program().global_block()
    return block.create_var(name, shape, dtype, is_data=True, need_check_feed=True, stop_gradient=True)


def parameter(name: str, shape: tuple[int, ...], **fields: object) -> Parameter:
    return default_main_program().global_block().create_parameter(name, shape, "float32", **fields)


def forward() -> Variable:
    """x -> mul, add, dropout, relu -> mean, appended to the default program."""
    x, w, b = data("x", (-1, 4)), parameter("fc_0.w_0", (4, 2)), parameter("fc_0.b_0", (2,))
    hidden = toys.add(toys.mul(x, w, name="fc_0"), b, name="fc_0")
    kept, _mask = toys.dropout(hidden, p=0.25)
    return toys.mean(toys.relu(kept))


def trained(with_rate: bool = True) -> Program:
    """A forward, the shape of a backward, an update and a schedule, as `minimize` leaves them."""
    program = default_main_program()
    block = program.global_block()
    loss = forward()
    block.ops[-1].set_attr("op_role", FORWARD | LOSS)
    block.create_var(grad_name(loss.name), (1,))
    with program.role_guard(LOSS_GRAD):
        fill = {"shape": (1,), "value": 1.0}
        block.append_op("toy_constant", outputs={"Out": grad_name(loss.name)}, attrs=fill)
    w = block.var("fc_0.w_0")
    block.create_var(grad_name(w.name), w.shape)
    with program.role_guard(BACKWARD, [w.name, grad_name(w.name)]):
        fill = {"shape": w.shape, "value": 1.0}
        block.append_op("toy_constant", outputs={"Out": grad_name(w.name)}, attrs=fill)
    rate = block.create_var("learning_rate_0", (1,), persistable=True, stop_gradient=True)
    counter = block.create_var("@LR_DECAY_COUNTER@", (1,), "int64", persistable=True, stop_gradient=True)
    with program.role_guard(LR_SCHED):
        block.prepend_op("toy_increment", inputs={"X": counter}, outputs={"Out": counter})
    with program.role_guard(OPTIMIZE, [w.name, grad_name(w.name)]):
        ins = {"Param": w, "Grad": grad_name(w.name), "LearningRate": rate}
        block.append_op("toy_sgd", inputs=ins, outputs={"ParamOut": w})
    program.lr_schedulers["learning_rate_0"] = Schedule()
    return program


class Schedule:
    """Stands for a learning-rate scheduler; only its identity matters."""


def nested() -> tuple[Program, Block, Block]:
    """A block in a block, both capturing from outside, as control flow makes them."""
    program = default_main_program()
    x = data("x", (-1, 4))
    outside = toys.relu(x)
    outer = program.create_block()
    result = toys.relu(outside)
    inner = program.create_block()
    inner.create_var("given", (-1, 4))
    inner.inputs = ["given"]
    deep = toys.add(inner.var("given"), outside)
    program.rollback()
    _run(outer, inner, result, deep)
    program.rollback()
    _run(program.global_block(), outer, x, outer.var(result.name))
    return program, outer, inner


def _run(block: Block, body: Block, given: Variable, out: Variable) -> None:
    name = f"run_{body.idx}.tmp_0"
    block.create_var(name, out.shape)
    block.create_var(f"saved_{body.idx}", (-1,), "uint8", kind="stack", stop_gradient=True)
    block.append_op(
        "toy_run",
        inputs={"Input": [given]},
        outputs={"Out": [name], "Saved": [f"saved_{body.idx}"]},
        attrs={"block": body, "outs": [out.name], "block_saved": [out.name]},
    )


def everything() -> Program:
    """Every feature a text or file has to carry."""
    program = trained()
    program.lr_schedulers.clear()
    program.name, program.random_seed = "all of it", 7
    program.global_block().create_var("@RNG_STEP@_0", (1,), "int64", persistable=True)
    program.rng_step = "@RNG_STEP@_0"
    program.attributes["note"] = {"by": "me", "at": [1, 2.5, None]}
    block = program.global_block()
    block.create_var('odd "name"\n#%', (2, -1), "int64", stop_gradient=False)
    block.create_var("größe.w/2@x", (), "bool")
    block.create_var("rows", (9, 2), kind="rows", persistable=True)
    table = np.arange(40, dtype=np.int16).reshape(4, 10)
    few = np.array([1.5, np.inf, -np.inf, np.nan], np.float32)
    toys.anything([block.var("rows")], value=[table, few, (1, (), 1.0)], more={"k": -0.0, "": float("-inf")})
    toys.show(block.var("x"), text='say "hi"\\\n')
    toys.split(block.var("x"), num=1)
    return program


def built(make: object) -> Program:
    """What `make` builds, in programs of its own."""
    with names.guard(), program_guard(Program(), Program()), static_mode():
        make()  # type: ignore[operator]
        return default_main_program()
