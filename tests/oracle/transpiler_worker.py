"""Run by Paddle 1.8.5's Python: what its DistributeTranspiler makes of programs.

Takes cases (`tests.oracle.transpiler.cases`) as JSON on standard input; the last line of output is a list with an entry
for each, the operators of its programs or the error.
"""

import json
import os
import sys

os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")

import paddle.fluid as fluid
from paddle.fluid.transpiler.geo_sgd_transpiler import GeoSgdTranspiler

APPENDED = fluid.framework.Block.append_op
NOT_IN_CPU_BUILDS = ("c_gen_nccl_id", "gen_nccl_id")
noted = {}  # what could not be appended, by id of the block: (place, operator)


def names(given):
    return [getattr(v, "name", v) for v in (given if isinstance(given, (list, tuple)) else [given])]


def append_op(self, *args, **kwargs):
    if kwargs.get("type") not in NOT_IN_CPU_BUILDS:
        return APPENDED(self, *args, **kwargs)
    slots = lambda key: {slot: names(v) for slot, v in (kwargs.get(key) or {}).items()}  # noqa: E731
    attrs = {k: int(v) if k == "op_role" else v for k, v in kwargs["attrs"].items()}
    noted.setdefault(id(self), []).append((len(self.ops), [kwargs["type"], slots("inputs"), slots("outputs"), attrs]))
    return None


fluid.framework.Block.append_op = append_op


def operators(program):
    return [operators_of(block) for block in program.blocks]


def operators_of(block):
    described = []
    for op in block.ops:
        ins = {slot: op.input(slot) for slot in op.input_names if op.input(slot)}
        outs = {slot: op.output(slot) for slot in op.output_names if op.output(slot)}
        described.append([op.type, ins, outs, {name: value(op, name) for name in op.attr_names}])
    for number, (place, op) in enumerate(noted.get(id(block), ())):
        described.insert(place + number, op)
    return described


def value(op, name):
    if name == "optimize_blocks":
        return [f"block {i}" for i in op._blocks_attr_ids(name)]
    if name.endswith("sub_block"):
        return f"block {op._block_attr_id(name)}"
    return op.attr(name)


def build(model):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        if model.get("sparse"):
            ids = fluid.data("ids", [None, 1], "int64")
            x = fluid.embedding(ids, [4096, 16], is_sparse=True, param_attr=fluid.ParamAttr(name="table"))
        else:
            x = fluid.data("x", [None, 200])
        y = fluid.data("y", [None, 1])
        prediction = fluid.layers.fc(fluid.layers.fc(x, model.get("hidden", 100)), 1)
        loss = fluid.layers.mean(fluid.layers.square_error_cost(prediction, y))
        rate = fluid.layers.exponential_decay(0.1, 10, 0.5) if model.get("schedule") else 0.1
        decay = fluid.regularizer.L2Decay(0.01) if model.get("decay") else None
        if model.get("optimizer") == "adam":
            fluid.optimizer.Adam(rate, regularization=decay).minimize(loss)
        else:
            fluid.optimizer.SGD(rate, regularization=decay).minimize(loss)
    return main, startup


def transpiled(case):
    noted.clear()
    config = fluid.DistributeTranspilerConfig()
    for name, given in case["config"].items():
        setattr(config, name, given)
    program, startup = build(case["model"])
    if config.geo_sgd_mode:
        transpiler = GeoSgdTranspiler(config)
    else:
        transpiler = fluid.DistributeTranspiler(config)
    transpiler.transpile(program=program, startup_program=startup, **case["transpile"])
    if case["server"]:
        programs = transpiler.get_pserver_programs(case["server"])
    elif config.mode == "pserver":
        programs = transpiler.get_trainer_program(wait_port=False), startup
    else:
        programs = program, startup
    return [operators(one) for one in programs]


def outcome(case):
    try:
        with fluid.unique_name.guard():
            return transpiled(case)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).strip().splitlines()[-1][:200]}"


print("\n" + json.dumps([outcome(case) for case in json.load(sys.stdin)]))
