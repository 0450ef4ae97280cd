"""Ops that need other processes: slots, attributes and defaults as in Paddle 1.8.5, and what their bodies ask for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench.optimizer.rules  # noqa: F401  (fills the op table)
from workbench.errors import InvalidArgument
from workbench.framework.op.record import find_op
from workbench.framework.program.program import Program
from workbench.framework.text.parser import parse_program

# type: inputs -> outputs (* a list), attributes with their defaults
DECLARED: dict[str, tuple[str, dict[str, Any]]] = {
    "send": (
        "X* -> Out*",
        {
            "trainer_id": 0, "epmap": ["127.0.0.1:6164"], "sections": [], "send_varnames": [], "num": 0,
            "merge_add": False, "use_send_handler": True,
        },
    ),
    "recv": (
        "X* -> Out*",
        {
            "epmap": [], "trainer_id": 0, "with_barrier": True, "varnames": [], "recv_varnames": [], "do_not_run": 0,
        },
    ),
    "send_barrier": ("X* -> Out*", {"trainer_id": 0, "endpoints": ["127.0.0.1:6164"], "half_async": False}),
    "fetch_barrier": ("X* -> Out*", {"trainer_id": 0, "endpoints": ["127.0.0.1:6164"]}),
    "split_byref": ("X -> Out*", {"sections": [], "num": 0}),
    "listen_and_serv": (
        "X* -> ",
        {
            "endpoint": "127.0.0.1:6164", "pserver_id": -1, "grad_to_block_id": [], "distributed_mode": 0,
            "dc_asgd": False, "optimize_blocks": [], "prefetch_var_name_to_block_id": [], "sparse_grad_to_param": [],
            "Fanin": 1, "checkpint_block_id": -1, "lr_decay_block_id": -1, "rpc_get_thread_num": 12,
            "rpc_send_thread_num": 12, "rpc_prefetch_thread_num": 12,
        },
    ),
    "c_allreduce_sum": ("X -> Out", {"ring_id": 0, "use_calc_stream": False}),
    "c_broadcast": ("X -> Out", {"ring_id": 0, "root": 0, "use_calc_stream": False}),
    "c_gen_nccl_id": (" -> Out", {"rank": 0, "endpoint": "", "other_endpoints": []}),
    "gen_nccl_id": (
        " -> NCCLID",
        {
            "trainers": [], "trainer_id": 0, "nccl_comm_num": 1, "use_hierarchical_allreduce": False,
            "hierarchical_allreduce_inter_nranks": 0,
        },
    ),
    "c_comm_init": ("X -> ", {"nranks": 1, "rank": 0, "ring_id": 0}),
    "c_comm_init_all": (" -> ", {"devices": [], "ring_id": 0}),
    "c_sync_calc_stream": ("X -> Out", {}),
    "c_sync_comm_stream": ("X -> Out", {"ring_id": 0}),
}  # fmt: skip


@pytest.mark.parametrize("type", DECLARED)
def test_slots_and_attributes_are_those_of_paddle(type: str) -> None:
    op = find_op(type)
    slots, attrs = DECLARED[type]
    sides = [", ".join(str(slot).rstrip("?") for slot in side) for side in (op.inputs, op.outputs)]
    assert " -> ".join(sides) == slots
    assert op.attrs == attrs and not op.differentiable


class Recorded:
    """Stands in for whom a body is handed; notes every call and answers with `answer`."""

    def __init__(self, answer: Any = None) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.answer = answer

    def __call__(self, ring_id: int) -> Recorded:
        self.calls.append((ring_id,))
        return self

    def __getattr__(self, name: str) -> Any:
        def called(*args: Any, **attrs: Any) -> Any:
            self.calls.append((name, *args, *attrs.items()))
            return self.answer

        return called


def run(type: str, *inputs: Any, answer: Any = None, **attrs: Any) -> tuple[Any, list[tuple[Any, ...]]]:
    """What the body gives, and whom it has asked for what."""
    op, recorded = find_op(type), Recorded(answer)
    (need,) = op.needs
    return op.forward(np, *inputs, **{need: recorded}, **op.complete(attrs)), recorded.calls


def test_collectives_ask_the_ring_of_their_number() -> None:
    x = np.ones(2)
    assert run("c_allreduce_sum", x, answer="sum", ring_id=3) == ("sum", [(3,), ("all_reduce", x)])
    assert run("c_broadcast", x, answer="root's", ring_id=1, root=2) == ("root's", [(1,), ("broadcast", x, 2)])


def test_a_communicator_is_named_and_entered() -> None:
    _, calls = run("c_gen_nccl_id", rank=1, endpoint="b:1", other_endpoints=["a:1", "c:1"])
    assert calls == [("identity", ["a:1", "b:1", "c:1"], 1, 128)]
    _, calls = run("gen_nccl_id", trainers=["a:1", "b:1"], trainer_id=1)
    assert calls == [("identity", ["a:1", "b:1"], 1, 128)]
    assert run("c_comm_init", b"", nranks=2, rank=1, ring_id=4) == ((), [("enter", 4, 2, 1)])
    assert run("c_comm_init_all", ring_id=2, devices=[0, 1]) == ((), [("enter_all", 2, [0, 1])])


def test_what_goes_to_servers_is_handed_to_the_client() -> None:
    xs = [np.ones(2)]
    _, calls = run("send", xs, epmap=["a:1"])
    assert calls[0][:2] == ("send", xs) and ("epmap", ["a:1"]) in calls[0]
    result, calls = run("recv", None, answer=["p"], epmap=["a:1"])
    assert result == ["p"] and calls[0][0] == "recv" and ("epmap", ["a:1"]) in calls[0]
    for barrier in ("send_barrier", "fetch_barrier"):
        result, calls = run(barrier, None, endpoints=["a:1"])
        assert result is None and calls[0][0] == barrier and ("endpoints", ["a:1"]) in calls[0]
    result, calls = run("listen_and_serv", [], Fanin=2)
    assert result == () and calls[0][0] == "serve" and ("Fanin", 2) in calls[0]


def program_with_servers() -> Program:
    """A program of a server that has one parameter, and whose block 1 updates it."""
    program = Program()
    block = program.global_block()
    block.create_parameter("w", [2], "float32")
    block.create_var("g", [2], persistable=True)
    block.create_var("rate", [1], persistable=True)
    inner = program.create_block()
    inner.append_op("sgd", {"Param": "w", "Grad": "g", "LearningRate": "rate"}, {"ParamOut": "w"})
    program.rollback()
    block.append_op("listen_and_serv", {"X": []}, {}, {"optimize_blocks": [inner], "grad_to_block_id": ["g:1"]})
    return program


@pytest.mark.parametrize("again", ["clone", "text", "json"])
def test_blocks_in_a_list_go_with_the_program(again: str) -> None:
    program = program_with_servers()
    copied = {
        "clone": program.clone,
        "text": lambda: parse_program(str(program)),
        "json": lambda: Program.parse_from_string(program.serialize_to_string()),
    }[again]()
    (serve,) = copied.global_block().ops
    assert serve.blocks() == [copied.block(1)] and copied.block(1).ops[0].type == "sgd"


def test_a_raw_variable_is_read_back() -> None:
    program = Program()
    identity = program.global_block().create_var("NCCLID", kind="raw", dtype="uint8", persistable=True)
    program.global_block().append_op("gen_nccl_id", {}, {"NCCLID": identity}, {"trainers": ["a:1"]})
    assert identity.type == "VarType.RAW"
    for copied in (parse_program(str(program)), Program.parse_from_string(program.serialize_to_string())):
        assert copied.global_block().var("NCCLID").kind == "raw"


def test_what_is_written_keeps_its_declaration() -> None:
    program = Program()
    block = program.global_block()
    block.create_var("p", [3, 4], persistable=True)
    block.create_var("done", dtype="bool")
    block.append_op("recv", {"X": "done"}, {"Out": ["p"]}, {"epmap": ["a:1"]})
    assert block.var("p").shape == (3, 4) and str(block.var("done").dtype) == "paddle.bool"


def test_sections_add_up_to_the_rows() -> None:
    block = Program().global_block()
    block.create_var("g", [5, 2])
    for name in ("a", "b"):
        block.create_var(name)
    with pytest.raises(InvalidArgument, match="the sections add up to the rows"):
        block.append_op("split_byref", {"X": "g"}, {"Out": ["a", "b"]}, {"sections": [2, 2]})
    block.append_op("split_byref", {"X": "g"}, {"Out": ["a", "b"]}, {"sections": [2, 3]})
    assert (block.var("a").shape, block.var("b").shape) == ((2, 2), (3, 2))
