"""DC-ASGD: a gradient that comes late is corrected for what has happened since (T-12); one of rows is not."""

from __future__ import annotations

from workbench.framework.program.block import Block
from workbench.ops.distributed.tables import REF_BY_TRAINER_ID
from workbench.ops.math.arithmetic import ADD, MUL, SUB
from workbench.parallel.transpiler.server_mode.layout import Shard

TRAINER_ID = "@TRAINER_ID@"


def corrected(block: Block, shard: Shard, gradient: str, trainers: int) -> str:
    """Append `g + g * g * (p - what its trainer had)`, g as it comes to the update; the name of that.

    What each trainer had is kept under `<parameter>.trainer_<i>_bak`; the server sets `@TRAINER_ID@`.
    """
    home = block.program.global_block()
    dtype, shape = home.var(shard.parameter).dtype, shard.block.shape
    kept = [f"{shard.parameter}.trainer_{i}_bak" for i in range(trainers)]
    for name in kept:
        home.create_var(name, shape, dtype, persistable=True, stop_gradient=True)
    block.create_var(TRAINER_ID, [1], "int64", stop_gradient=True)
    had = block.create_var(f"{shard.parameter}.local_bak", shape, dtype, stop_gradient=True).name
    block.append_op(REF_BY_TRAINER_ID.type, {"X": kept, "TrainerId": TRAINER_ID}, {"Out": had})
    gone = _result(block, SUB.type, shard.parameter, had)
    once = _result(block, MUL.type, gone, gradient)
    twice = _result(block, MUL.type, once, gradient)
    return _result(block, ADD.type, gradient, twice)


def _result(block: Block, type: str, x: str, y: str) -> str:
    blocks = block.program.blocks
    number = sum(name.startswith("tmp_dc_output_") for other in blocks for name in other.vars)
    like = block.var_recursive(x)
    out = block.create_var(f"tmp_dc_output_{number}", like.shape, like.dtype, stop_gradient=True).name
    block.append_op(type, {"X": x, "Y": y}, {"Out": out})
    return out
