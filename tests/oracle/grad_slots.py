"""Inputs of backward operators against those that Paddle 1.8.5 gives them, for all ops that both have.

    python -m tests.oracle.grad_slots --paddle PYTHON

PYTHON is an interpreter in which `import paddle.fluid` is version 1.8.5. Writes what its gradient makers say into
`grad_slots.json`, with which `test_grad_slots.py` compares on every run; prints what differs and is not in `KNOWN`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import workbench.ops
from workbench.framework.op.record import OPS, Op, grad_slot

TABLE = Path(__file__).with_name("grad_slots.json")
WORKER = Path(__file__).with_name("grad_slots_worker.py")

_SHAPE = "the shape of its operand follows from nothing else: Paddle keeps it in XShape, or cuts by attributes"
_OUT = "the gradient is computed from the result, too, which spares computing it once more"
KNOWN = {
    "reshape2": _SHAPE,
    "squeeze2": _SHAPE,
    "unsqueeze2": _SHAPE,
    "transpose2": _SHAPE,
    "pad": _SHAPE,
    "stack": _SHAPE,
    "unstack": _SHAPE,
    "elementwise_pow": _OUT,
    "swish": _OUT,
    "leaky_relu": "Paddle looks at the sign of the result, which is another one where alpha is negative",
    "selu": "Paddle computes from the result; here from the operand",
    "pool2d": "Paddle's kernel reads the result; here the operand says where the maximum was",
    "reduce_prod": "Paddle divides the result by the operand; here zeros have their gradient",
    "max_pool2d_with_index": "Paddle's kernel reads the places; here the operand says where the maximum was",
    "huber_loss": "Paddle keeps the residual; here it is computed once more",
    "data_norm": "Paddle's kernel reads means and scales; here they follow from the sums",
}


def differentiable() -> list[str]:
    """The types of all ops of ours that have a backward op."""
    for module in pkgutil.walk_packages(workbench.ops.__path__, "workbench.ops."):
        importlib.import_module(module.name)
    return sorted(type for type, record in OPS.items() if record.differentiable and not record.is_grad)


def carried(record: Op) -> set[str]:
    """The slots that a backward operator has in a program."""
    return {slot.name for slot in record.backward.inputs} - set(record.backward.shaped_like)


def difference(record: Op, theirs: set[str]) -> str:
    """What our backward operators have too much and too little; "" if they have what Paddle's have.

    Slots of Paddle's that the op itself does not have here, such as `AxisTensor`, are no matter, nor are gradients of
    outputs through which Paddle lets none: an operator carries those that are there.
    """
    ours = carried(record)
    gradients = {grad_slot(slot.name) for slot in record.outputs}
    known = {slot.name for slot in (*record.inputs, *record.outputs)}
    extra, missing = ours - theirs - gradients, (theirs & (known | {grad_slot(name) for name in known})) - ours
    parts = [f"carries {', '.join(sorted(extra))}"] if extra else []
    parts += [f"does not carry {', '.join(sorted(missing))}"] if missing else []
    return "; ".join(parts)


def differences(table: dict[str, list[str]]) -> dict[str, str]:
    """Tells of every type that differs how it does."""
    differs = {type: difference(OPS[type], set(slots)) for type, slots in table.items()}
    return {type: text for type, text in differs.items() if text}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paddle", required=True, help="a Python in which paddle.fluid is 1.8.5")
    command = [parser.parse_args().paddle, "-I", str(WORKER)]
    asked = json.dumps(differentiable())
    process = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=300, check=True)
    answers = json.loads(process.stdout.strip().split("\n")[-1])
    same_type = {type: one["inputs"] for type, one in answers.items() if one["type"] == type + "_grad"}
    TABLE.write_text("{\n" + ",\n".join(f'  "{t}": {json.dumps(s)}' for t, s in sorted(same_type.items())) + "\n}\n")
    left = {type: text for type, text in differences(same_type).items() if type not in KNOWN}
    print("\n".join(f"{type}_grad {text}" for type, text in left.items()))
    print(f"{len(same_type) - len(left)} of {len(same_type)} backward ops agree, {len(KNOWN)} of them with a reason")
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
