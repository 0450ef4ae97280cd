"""What a transpiler makes of one program, in full: a text a mode, in the folder `golden`.

The program is x [?, 200] -> fc(100) -> mean of squares, trained by SGD, with two trainers and two servers: its weight
is cut in two, its bias is not. The texts were printed, not written by hand: they hold what is made against changes that
nobody meant. That it is right, the rules' own tests say, and `python -m tests.oracle.transpiler` beside Paddle 1.8.5.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.transpiler import MODES, waits_of
from tests.parallel.transpiler.programs import FIRST, TRAINERS, line, transpiled
from workbench.framework.program.program import Program
from workbench.framework.text.parser import parse_program

GOLDEN = Path(__file__).with_name("golden")
AMONG_TRAINERS: dict[str, dict[str, Any]] = {
    "nccl2": {"mode": "nccl2"},
    "hierarchical_nccl2": {
        "mode": "nccl2", "use_hierarchical_allreduce": True, "hierarchical_allreduce_inter_nranks": 2,
    },
    "grad_allreduce": {"mode": "collective", "collective_mode": "grad_allreduce"},
    "local_sgd": {"mode": "collective", "collective_mode": "local_sgd"},
    "single_process_multi_thread": {"mode": "collective", "collective_mode": "single_process_multi_thread"},
}  # fmt: skip


def programs(mode: str) -> dict[str, Program]:
    """Those of trainer 1 of two, and of the first of two servers."""
    main, startup = line()
    if mode in AMONG_TRAINERS:
        told = {"trainers": TRAINERS, "current_endpoint": TRAINERS.split(",")[1]}
        transpiled((main, startup), {"nccl_comm_num": 2} | AMONG_TRAINERS[mode], trainer_id=1, **told)
        return {"trainer": main, "startup of the trainer": startup}
    fields = MODES[mode]
    transpiler = transpiled((main, startup), fields, trainer_id=1, sync_mode=waits_of(mode))
    trainer = transpiler.get_trainer_program(wait_port=False)
    server, begin = transpiler.get_pserver_programs(FIRST)
    return {"trainer": trainer, "startup of the trainer": startup, "server": server, "startup of the server": begin}


def text(mode: str) -> str:
    """All of them, but for the number by which trainers know their servers, which follows from the rest."""
    written = "".join(f"== {what}\n{program}\n" for what, program in programs(mode).items())
    return re.sub(r"^attribute served = .*\n", "", written, flags=re.M)


@pytest.mark.filterwarnings("ignore:.*use_hierarchical_allreduce", "ignore:.*set both")
@pytest.mark.parametrize("mode", [*MODES, *AMONG_TRAINERS])
def test_a_mode_makes_these_programs(mode: str) -> None:
    assert text(mode).splitlines() == (GOLDEN / f"{mode}.txt").read_text().splitlines()


@pytest.mark.filterwarnings("ignore:.*use_hierarchical_allreduce", "ignore:.*set both")
@pytest.mark.parametrize("mode", [*MODES, *AMONG_TRAINERS])
def test_transpiled_programs_come_back_from_their_text(mode: str) -> None:
    for program in programs(mode).values():
        assert str(parse_program(str(program))) == str(program)


def test_every_text_is_that_of_a_mode() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {*MODES, *AMONG_TRAINERS}
