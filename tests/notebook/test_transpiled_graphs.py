"""Graphs of transpiled programs: what other processes are sent, and what comes from them, has a mark of its own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import workbench as wb
from tests.servers.trainer_programs import untranspiled
from workbench import fluid
from workbench.framework.op.record import OPS
from workbench.framework.program.program import Program
from workbench.graph.beyond import BETWEEN_PROCESSES, meets_servers
from workbench.graph.ssa import COLLECTIVES
from workbench.notebook.figures.facts import Nodes
from workbench.notebook.figures.graphs.layout import layout
from workbench.ops.distributed import exchange, servers, tables  # noqa: F401  (they declare what is asked for here)

COLORS = Path(__file__).resolve().parent.parent.parent / "assets" / "src" / "draw" / "colors.js"
ENDPOINTS = "127.0.0.1:6170,127.0.0.1:6171"


@pytest.fixture(autouse=True)
def _static() -> Iterator[None]:
    wb.enable_static()
    yield
    wb.disable_static()


def transpiled(**settings: object) -> tuple[Program, fluid.DistributeTranspiler]:
    """The program of trainer 0 of two: a weight and a bias."""
    main, startup = untranspiled(4, 1)
    config = fluid.DistributeTranspilerConfig()
    for name, value in settings.items():
        setattr(config, name, value)
    transpiler = fluid.DistributeTranspiler(config)
    if config.mode == "pserver":
        transpiler.transpile(0, main, "127.0.0.1:6174", 2, config.sync_mode, startup)
        return transpiler.get_trainer_program(wait_port=False), transpiler
    transpiler.transpile(0, main, trainers=ENDPOINTS, startup_program=startup, current_endpoint="127.0.0.1:6170")
    return main, transpiler


def marked(program: Program, mark: str) -> list[str]:
    """The types of the nodes with a mark in the text of the graph."""
    lines = [line for line in str(wb.ssa(program).graph).splitlines() if f"] {mark} " in line]
    return [re.findall(r"(\w+)\(", line)[0] for line in lines]


def test_what_goes_to_servers_is_shown_as_it_is_written() -> None:
    program, _ = transpiled()
    expected = ["send", "send", "send_barrier", "recv", "recv", "fetch_barrier"]
    assert marked(program, "<>") == expected and marked(program, "==") == []
    message = wb.ssa(program).messages["graph"]
    nodes = Nodes.of(message)
    assert [type for type, kind in zip(nodes.type, nodes.kind) if kind == "server"] == expected
    assert {lane.kind for lane in layout(message).lanes} == {"forward", "backward", "server"}
    labels = [label for label in nodes.label if label.startswith(("send", "recv"))]
    assert sorted(labels) == [
        "recv fc_0.b_0", "recv fc_0.w_0", "send fc_0.b_0@GRAD.trainer_0", "send fc_0.w_0@GRAD.trainer_0",
        "send_barrier",
    ]  # fmt: skip


def test_a_server_is_shown() -> None:
    program, _ = transpiled()[1].get_pserver_programs("127.0.0.1:6174")
    assert marked(program, "<>") == ["listen_and_serv"]


@pytest.mark.parametrize("mode", ["grad_allreduce", "local_sgd"])
def test_collectives_of_operators_are_shown_before_any_ring_is_there(mode: str) -> None:
    program, _ = transpiled(mode="collective", collective_mode=mode)
    assert marked(program, "==") == ["c_allreduce_sum"] * 2 and marked(program, "<>") == []
    assert Counter(Nodes.of(wb.ssa(program).messages["graph"]).kind)["collective"] == 2


def test_other_programs_are_shown_as_they_run() -> None:
    program, _ = transpiled(mode="nccl2")
    assert wb.ssa(program, devices=2).graph.devices == 2 and marked(program, "==") == ["fused_all_reduce"]


def test_the_page_knows_the_same_ops() -> None:
    text = COLORS.read_text()
    listed = {
        name: set(re.findall(r'"(\w+)"', body)) for name, body in re.findall(r"(\w+) = new Set\((.*?)\);", text, re.S)
    }
    assert listed == {
        "COLLECTIVES": COLLECTIVES | BETWEEN_PROCESSES,
        "SERVER_OPS": {type for type in OPS if meets_servers(type)},
    }
