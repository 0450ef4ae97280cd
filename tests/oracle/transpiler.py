"""Programs that our DistributeTranspiler makes against those of Paddle 1.8.5, op for op:

    python -m tests.oracle.transpiler --paddle PYTHON

PYTHON is an interpreter in which `import paddle.fluid` is version 1.8.5. Prints every difference that is not listed in
`KNOWN`, and ends with how many programs agree. Only names, slots, roles and the attributes of operators that
exchange values are compared: what layers make is another matter.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from workbench import fluid
from workbench.framework.program.block import Block
from workbench.framework.program.program import Program
from workbench.framework.program.roles import LR_SCHED
from workbench.parallel.transpiler.config import DistributeTranspilerConfig
from workbench.parallel.transpiler.distribute_transpiler import DistributeTranspiler

WORKER = Path(__file__).with_name("transpiler_worker.py")
SERVERS = "127.0.0.1:6174,127.0.0.1:6175"
TRAINERS = "127.0.0.1:6170,127.0.0.1:6171"
EXCHANGED = {
    "send", "recv", "send_barrier", "fetch_barrier", "split_byref", "listen_and_serv", "c_allreduce_sum", "c_broadcast",
    "c_gen_nccl_id", "gen_nccl_id", "c_comm_init", "c_comm_init_all", "c_sync_calc_stream", "c_sync_comm_stream",
    "split_selected_rows", "distributed_lookup_table", "concat", "fake_init",
}  # fmt: skip
INITIALISERS = {"fill_constant", "uniform_random"}
OURS_ALONE = {"width", "use_quantizer", "use_mkldnn"}
KNOWN = """\
every trainer's send has trainer_id 0 in Paddle, its own here;
grad_to_block_id is in the order of a hash in Paddle; initialisers stand in reverse order there.
"""

ASYNC = {"sync_mode": False}
SPLIT = {"sync_mode": False, "runtime_split_send_recv": True}
MODES: dict[str, dict[str, Any]] = {
    "sync": {},
    "async": ASYNC,
    "runtime_split": SPLIT,
    "half_async": {**SPLIT, "half_async": True},
    "sync_by_communicator": {**SPLIT, "half_async": True, "completely_not_async": True},
    "dc_asgd": {**ASYNC, "enable_dc_asgd": True},
    "geo": {**ASYNC, "geo_sgd_mode": True},
    "unsliced": {"slice_var_up": False},
    "only_servers_async": ASYNC,
    "only_trainers_async": {},
}
WAITS = {
    "only_servers_async": True,
    "only_trainers_async": False,
}  # where transpile(sync_mode=) is not config.sync_mode


def waits_of(mode: str) -> bool:
    """Whether the trainers of a mode wait for each other."""
    return WAITS.get(mode, bool(MODES[mode].get("sync_mode", True)))


MODELS = ({}, {"optimizer": "adam"}, {"schedule": True}, {"decay": True, "hidden": 3}, {"sparse": True, "hidden": 2})


def cases() -> list[tuple[str, dict[str, Any]]]:
    cases = []
    for mode, config in MODES.items():
        waits = waits_of(mode)
        for model in MODELS:
            if model.get("sparse") and mode in ("dc_asgd", "geo"):
                continue  # refused by Paddle, or whole tables
            for trainer in (0, 1):
                told = {"trainer_id": trainer, "pservers": SERVERS, "trainers": 2, "sync_mode": waits}
                for server in ("", *SERVERS.split(",")) if trainer == 0 else ("",):
                    case = {"config": config, "model": model, "transpile": told, "server": server}
                    cases.append((f"{mode} {model} {server or f'trainer {trainer}'}", case))
    for mode in ("grad_allreduce", "local_sgd", "single_process_multi_thread", "nccl2"):
        for rings in (1, 2):
            config = {"mode": "nccl2"} if mode == "nccl2" else {"mode": "collective", "collective_mode": mode}
            config |= {"nccl_comm_num": rings, "wait_port": False}
            told = {"trainer_id": 1, "trainers": TRAINERS, "current_endpoint": TRAINERS.split(",")[1]}
            for model in ({"hidden": 3}, {"hidden": 3, "optimizer": "adam", "decay": True}):
                case = {"config": config, "model": model, "transpile": told, "server": ""}
                cases.append((f"{mode} {rings} rings {model}", case))
    return cases


def theirs(python: str, cases: list[dict[str, Any]]) -> list[Any]:
    """What Paddle makes of each case: operators, or the text of its error."""
    command = [python, "-I", str(WORKER)]  # without this folder, whose files are called like some of Python's
    given = json.dumps(cases)
    process = subprocess.run(command, input=given, capture_output=True, text=True, timeout=500, check=True)
    answers: list[Any] = json.loads(process.stdout.strip().split("\n")[-1])
    return answers


def build(model: dict[str, Any]) -> tuple[Program, Program]:
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
        optimizer = fluid.optimizer.Adam if model.get("optimizer") == "adam" else fluid.optimizer.SGD
        optimizer(rate, regularization=decay).minimize(loss)
    return main, startup


def ours(case: dict[str, Any]) -> Any:
    config = DistributeTranspilerConfig()
    for name, value in case["config"].items():
        setattr(config, name, value)
    program, startup = build(case["model"])
    transpiler = DistributeTranspiler(config)
    transpiler.transpile(program=program, startup_program=startup, **case["transpile"])
    if case["server"]:
        programs = transpiler.get_pserver_programs(case["server"])
    elif config.mode == "pserver":
        programs = transpiler.get_trainer_program(wait_port=False), startup
    else:
        programs = program, startup
    return [[[_operator(op) for op in block.ops] for block in one.blocks] for one in programs]


def _operator(op: Any) -> list[Any]:
    attrs = {name: _plain(value) for name, value in op.attrs.items()}
    return [op.type, {s: n for s, n in op.inputs.items() if n}, {s: n for s, n in op.outputs.items() if n}, attrs]


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [f"block {one.idx}" if isinstance(one, Block) else one for one in value]
    return f"block {value.idx}" if isinstance(value, Block) else value


def comparable(programs: Any) -> list[str]:
    """Lines that have to be the same; control variables and temporaries by the order in which they appear."""
    lines = []
    for name, program in zip(("main", "startup"), programs, strict=True):
        seen: dict[str, str] = {}
        for index, block in enumerate(program):
            initial = sorted(_line(op) for op in block if _initialises(op))
            rest = [_line(op) for op in block if not _initialises(op)]
            lines.append(f"{name} block {index}")
            lines += [_numbered(line, seen) for line in (*initial, *rest)]
    return lines


def _initialises(op: list[Any]) -> bool:
    return op[0] in INITIALISERS and op[3].get("op_role") != LR_SCHED


def _numbered(line: str, seen: dict[str, str]) -> str:
    line = re.sub(r"__control_var@[\w.e-]+", lambda m: seen.setdefault(m[0], f"control {len(seen)}"), line)
    line = re.sub(
        r"(?<![\w.])(fill_constant_\d+\.)?tmp_\d+", lambda m: seen.setdefault(m[0], f"temporary {len(seen)}"), line
    )
    return re.sub(r"_generated_var_(\d+)", r"scale_\1.tmp_0", line)


def _line(op: list[Any]) -> str:
    type, ins, outs, attrs = op
    kept = {"op_role": attrs.get("op_role", 0), "op_role_var": attrs.get("op_role_var") or []}
    if type in EXCHANGED:
        kept |= {k: v for k, v in attrs.items() if not k.startswith("op_") and k not in OURS_ALONE}
        if "grad_to_block_id" in kept:
            kept["grad_to_block_id"] = sorted(kept["grad_to_block_id"])
    if type == "send":
        kept.pop("trainer_id", None)
    slots = lambda given: {slot: given[slot] for slot in sorted(given) if slot != "XShape"}  # noqa: E731
    return f"{slots(outs)} = {type}({slots(ins)}) {dict(sorted(kept.items()))}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paddle", required=True, help="a Python in which paddle.fluid is 1.8.5")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    options = parser.parse_args()
    agree, chosen = 0, [(name, case) for name, case in cases() if options.only in name]
    answers = theirs(options.paddle, [case for _, case in chosen])
    for (name, case), there in zip(chosen, answers, strict=True):
        here = ours(case)
        if isinstance(there, str):
            print(f"{name}: Paddle fails: {there}")
            continue
        left, right = comparable(there), comparable(here)
        agree += left == right
        if left != right:
            print(f"{name}:")
            print("\n".join(f"  - {line}" for line in left if line not in right))
            print("\n".join(f"  + {line}" for line in right if line not in left))
            if sorted(left) == sorted(right):
                print("  another order")
    print(f"{agree} of {len(chosen)} agree. Known: {KNOWN}")
    return int(agree < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
