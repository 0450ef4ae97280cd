"""Programs with the operators of servers, written by hand: one weight or one matrix, SGD."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import workbench as wb
from workbench import static
from workbench.framework.program.program import Program


def server_programs(
    endpoint: str,
    trainers: int,
    mode: int = 0,
    shape: Sequence[int] = (1,),
    value: float = 1.0,
    rate: float = 0.1,
    **attrs: Any,
) -> tuple[Program, Program]:
    """Main and startup program of a server with the parameter `w`, as T-7 and T-8 have them."""
    main, startup = Program(), Program()
    for program in (main, startup):
        here = program.global_block()
        here.create_parameter("w", list(shape), "float32")
        here.create_var("rate", [1], "float32", persistable=True)
    for name, start in (("w", value), ("rate", rate)):
        filling = {"shape": list(startup.global_block().var(name).shape), "value": start, "dtype": "float32"}
        startup.global_block().append_op("fill_constant", {}, {"Out": name}, filling)
    block = main.global_block()
    incoming = [f"w@GRAD.trainer_{trainer}" for trainer in range(trainers)] if mode == 0 else ["w@GRAD"]
    for name in dict.fromkeys(["w@GRAD", *incoming]):
        block.create_var(name, list(shape), "float32", persistable=True)
    inner = main.create_block()
    if mode == 0:
        inner.append_op("sum", {"X": incoming}, {"Out": "w@GRAD"})
        inner.append_op("scale", {"X": "w@GRAD"}, {"Out": "w@GRAD"}, {"scale": 1 / trainers})
    update = {"Param": "w", "Grad": "w@GRAD", "LearningRate": "rate"}
    inner.append_op("sgd", update, {"ParamOut": "w"}, {"op_role": 2})
    main.rollback()
    block.append_op(
        "listen_and_serv",
        {"X": incoming},
        {},
        {
            "endpoint": endpoint, "Fanin": trainers, "distributed_mode": mode, "optimize_blocks": [inner],
            "grad_to_block_id": [f"w@GRAD:{inner.idx}"], **attrs,
        },
    )  # fmt: skip
    return main, startup


def trainer_programs(
    endpoint: str, trainer: int, trainers: int, sync: bool = True, shape: Sequence[int] = (1,)
) -> tuple[Program, Program]:
    """Main and startup program of a trainer whose gradient of `w` is what is fed as `x` (T-4 … T-6)."""
    main, startup = Program(), Program()
    suffix = f".trainer_{trainer}" if sync and trainers > 1 else ""
    gradient = f"w@GRAD{suffix}"
    with static.program_guard(main, startup):
        x = static.data("x", list(shape), "float32")
        w = main.global_block().create_parameter("w", list(shape), "float32")
        wb.sum(x * w)
        main.global_block().create_var(gradient, list(shape), "float32")
        main.global_block().append_op("scale", {"X": x}, {"Out": gradient}, {"scale": 1.0})
        _exchange(main, gradient, endpoint, trainer, sync)
    here = startup.global_block()
    here.create_parameter("w", list(shape), "float32")
    here.append_op("fill_constant", {}, {"Out": "w"}, {"shape": list(shape), "value": -7.0, "dtype": "float32"})
    here.append_op("recv", {}, {"Out": ["w"]}, {"epmap": [endpoint], "trainer_id": trainer})
    here.create_var("fetched")
    here.append_op("fetch_barrier", {}, {"Out": ["fetched"]}, {"endpoints": [endpoint], "trainer_id": trainer})
    return main, startup


def _exchange(main: Program, gradient: str, endpoint: str, trainer: int, sync: bool) -> None:
    block = main.global_block()
    for name in ("sent", "all_sent"):
        block.create_var(name, dtype="bool")
    told = {"trainer_id": trainer, "op_role": 4}
    block.append_op("send", {"X": [gradient]}, {"Out": ["sent"]}, {"epmap": [endpoint], **told})
    if sync:
        block.append_op("send_barrier", {"X": ["sent"]}, {"Out": ["all_sent"]}, {"endpoints": [endpoint], **told})
    block.append_op("recv", {"X": ["all_sent" if sync else "sent"]}, {"Out": ["w"]}, {"epmap": [endpoint], **told})
    if sync:
        block.append_op("fetch_barrier", {"X": ["all_sent"]}, {"Out": ["w"]}, {"endpoints": [endpoint], **told})
