"""Run by Paddle 1.8.5's Python: which inputs and outputs its gradient makers give the backward operators of op types.

Takes a list of types as JSON on standard input; the last line of output is a dict of those that Paddle has and
differentiates: `{type: {"type": of the backward operator, "inputs": [slots], "outputs": [slots]}}`.
"""

import contextlib
import json
import os
import sys

os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")

import paddle.fluid as fluid
import paddle.fluid.proto.framework_pb2 as framework_pb2
from paddle.fluid import core

DECLARED = {proto.type: proto for proto in map(framework_pb2.OpProto.FromString, map(bytes, core.get_all_op_protos()))}


def described(proto):
    """An operator with a variable in each of its slots."""
    block = fluid.Program().global_block()
    op = block.desc.append_op()
    op.set_type(proto.type)
    for slots, put in ((proto.inputs, op.set_input), (proto.outputs, op.set_output)):
        for slot in slots:
            name = "variable of " + slot.name
            block.create_var(name=name, shape=[2, 2], dtype="float32")
            put(slot.name, [name])
    with contextlib.suppress(Exception):  # an attribute without a default: gradient makers of such ops may do without
        op.check_attrs()
    return op, block


def backward(type):
    op, _block = described(DECLARED[type])
    try:
        grads = core.get_grad_op_desc(op, set(), [])[0]
    except Exception:
        return None
    if len(grads) != 1:
        return None
    ins = sorted(slot for slot in grads[0].input_names() if grads[0].input(slot))
    outs = sorted(slot for slot in grads[0].output_names() if grads[0].output(slot))
    return {"type": grads[0].type(), "inputs": ins, "outputs": outs}


answers = {type: backward(type) for type in json.load(sys.stdin) if type in DECLARED}
print("\n" + json.dumps({type: answer for type, answer in answers.items() if answer}))
