"""Parameter-server programs, rule by rule (T-1 … T-12); texts are written from the rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.parallel.transpiler.programs import (
    FIRST,
    SECOND,
    SERVERS,
    config,
    exchanges,
    line,
    transpiled,
    types,
)
from workbench import fluid
from workbench.errors import InvalidArgument, NotFound, PreconditionNotMet
from workbench.framework.program.program import Program
from workbench.parallel.transpiler.blocks import cut
from workbench.parallel.transpiler.config import DistributeTranspilerConfig
from workbench.parallel.transpiler.dispatch import HashName, PSDispatcher, RoundRobin
from workbench.parallel.transpiler.distribute_transpiler import DistributeTranspiler

ASYNC = {"sync_mode": False}
SPLIT = {"sync_mode": False, "runtime_split_send_recv": True}


def trainer(fields: Any = None, programs: Any = None, **told: Any) -> tuple[Program, Program]:
    main, startup = programs or line()
    return transpiled((main, startup), fields, **told).get_trainer_program(wait_port=False), startup


def server(endpoint: str, fields: Any = None, programs: Any = None, **told: Any) -> tuple[Program, Program]:
    return transpiled(programs or line(), fields, **told).get_pserver_programs(endpoint)


def written(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


# Configuration


def test_config_has_paddles_fields_and_defaults() -> None:
    settings = DistributeTranspilerConfig()
    fields = {name: getattr(settings, name) for name in DistributeTranspilerConfig._DEFAULTS}
    assert fields == {
        "slice_var_up": True, "split_method": None, "min_block_size": 8192, "mode": "pserver", "sync_mode": True,
        "runtime_split_send_recv": False, "wait_port": True, "enable_dc_asgd": False, "half_async": False,
        "completely_not_async": False, "geo_sgd_mode": False, "geo_sgd_need_push_nums": 100, "nccl_comm_num": 1,
        "use_hierarchical_allreduce": False, "hierarchical_allreduce_inter_nranks": 0, "collective_mode": None,
        "print_log": False,
    }  # fmt: skip


def test_config_refuses_what_does_not_go_together() -> None:
    with pytest.raises(ValueError, match="sync_mode=False"):
        config(runtime_split_send_recv=True)
    with pytest.raises(ValueError, match="runtime_split_send_recv=False"):
        config(sync_mode=False, runtime_split_send_recv=True).sync_mode = True
    with pytest.raises(NotFound, match="mode"):
        config(moed="nccl2")
    with pytest.raises(AssertionError, match="at least 8192, got 100"):
        DistributeTranspiler(config(min_block_size=100))
    with pytest.raises(InvalidArgument, match="'nccl2'"):
        config(mode="nccl")


# T-1


@pytest.mark.parametrize(
    ("told", "what"),
    [
        ({"trainer_id": 2}, r"trainer_id is in \[0, 2\)"),
        ({"trainers": "a:1,b:1"}, "how many"),
        ({"pservers": "nowhere"}, "ip:port"),
        ({"pservers": "a:1,a:1"}, "none twice"),
    ],
)
def test_t1_refuses_what_does_not_fit(told: dict[str, Any], what: str) -> None:
    main, startup = line()
    before = str(main), str(startup)
    with pytest.raises(InvalidArgument, match=what):
        transpiled((main, startup), **told)
    assert (str(main), str(startup)) == before


def test_t1_takes_the_default_programs() -> None:
    main, startup = line()
    with fluid.program_guard(main, startup):
        DistributeTranspiler().transpile(0, trainers=2)
    assert types(main)[-2:] == ["recv", "fetch_barrier"] and "recv" in types(startup)


def test_t1_a_program_without_updates_is_refused() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with pytest.raises(PreconditionNotMet, match="minimize"):
        transpiled((main, startup))


# T-2


@pytest.mark.parametrize(
    ("shape", "servers", "rows"),
    [
        ([200, 100], 2, [100, 100]),
        ([100], 2, [100]),
        ([1000, 10], 2, [1000]),
        ([3, 10000], 2, [2, 1]),
        ([1], 4, [1]),
        ([40000], 3, [13334, 13334, 13332]),
        ([7, 5000], 4, [2, 2, 2, 1]),
    ],
)
def test_t2_blocks_have_whole_rows_and_at_least_so_many_elements(
    shape: list[int], servers: int, rows: list[int]
) -> None:
    blocks = cut(shape, servers, 8192)
    assert [block.stop - block.start for block in blocks] == rows
    assert [block.shape for block in blocks] == [(n, *shape[1:]) for n in rows]
    assert blocks[0].start == 0 and blocks[-1].stop == shape[0]
    names = [block.named("v") for block in blocks]
    assert names == (["v"] if len(rows) == 1 else [f"v.block{i}" for i in range(len(rows))])


def test_t2_nothing_is_cut_without_slice_var_up() -> None:
    assert len(cut([200, 100], 2, 8192, is_sliced=False)) == 1
    main, _ = trainer({"slice_var_up": False})
    assert "split_byref" not in types(main) and "concat" not in types(main)


# T-3


def test_t3_blocks_go_round_the_servers_in_the_order_of_updates() -> None:
    main, _ = trainer()
    where = {name: op.attr("epmap") for op in main.global_block().ops if op.type == "recv" for name in op.output("Out")}
    assert where == {"fc_0.b_0": [FIRST], "fc_0.w_0.block0": [SECOND, FIRST], "fc_0.w_0.block1": [SECOND, FIRST]}


def test_t3_round_robin_goes_on_and_hash_name_is_stable() -> None:
    robin = RoundRobin(["a:1", "b:1", "c:1"])
    assert robin.dispatch([0, 0]) + robin.dispatch([0, 0]) == ["a:1", "b:1", "c:1", "a:1"]
    robin.reset()
    assert robin.dispatch([0]) == ["a:1"]
    names = [type("Named", (), {"name": name}) for name in ("fc_0.w_0@GRAD", "fc_0.b_0@GRAD", "fc_1.w_0@GRAD")]
    assert HashName(["a:1", "b:1", "c:1"]).dispatch(names) == ["b:1", "b:1", "a:1"]  # CRC-32 modulo 3


def test_t3_trainers_and_servers_agree_with_every_dispatcher() -> None:
    for method in (RoundRobin, HashName):
        main, _ = trainer({"split_method": method})
        wanted = {}
        for op in main.global_block().ops:
            wanted |= dict(zip(op.output("Out"), op.attr("epmap"))) if op.type == "recv" else {}
        for endpoint in (FIRST, SECOND):
            program, _ = server(endpoint, {"split_method": method})
            for name in (n for n, e in wanted.items() if e == endpoint):
                assert program.global_block().var(name).persistable


def test_t3_uncut_gradients_are_dealt_in_an_order_that_follows_from_the_seed() -> None:
    main, _ = trainer({"slice_var_up": False})
    endpoints = [op.attr("epmap")[0] for op in main.global_block().ops if op.type == "recv"]
    order = np.random.RandomState(0).permutation(2)
    assert endpoints == [SERVERS.split(",")[list(order).index(i)] for i in range(2)]


# T-4 … T-6, F-11

SYNC_TRAINER = """
Out=[%__control_var@0: bool[]] = send(X=[%fc_0.b_0@GRAD.trainer_0]) {epmap=["127.0.0.1:6174"]} role=RPC role_var=[%fc_0.b_0, %fc_0.b_0@GRAD.trainer_0]
Out=[%fc_0.w_0@GRAD.block0.trainer_0: float32[100, 100], %fc_0.w_0@GRAD.block1.trainer_0: float32[100, 100]] = split_byref(X=%fc_0.w_0@GRAD) {sections=[100, 100]} role=Dist
Out=[%__control_var@1: bool[]] = send(X=[%fc_0.w_0@GRAD.block0.trainer_0, %fc_0.w_0@GRAD.block1.trainer_0]) {epmap=["127.0.0.1:6175", "127.0.0.1:6174"]} role=RPC role_var=[%fc_0.w_0, %fc_0.w_0@GRAD]
Out=[%__control_var@2: bool[]] = send_barrier(X=[%__control_var@0, %__control_var@1]) {endpoints=["127.0.0.1:6174", "127.0.0.1:6175"]} role=RPC
Out=[%fc_0.b_0: float32[100]] = recv(X=[%__control_var@2]) {epmap=["127.0.0.1:6174"]} role=RPC role_var=[%fc_0.b_0, %fc_0.b_0@GRAD.trainer_0]
Out=[%fc_0.w_0.block0: float32[100, 100], %fc_0.w_0.block1: float32[100, 100]] = recv(X=[%__control_var@2]) {epmap=["127.0.0.1:6175", "127.0.0.1:6174"]} role=RPC role_var=[%fc_0.w_0, %fc_0.w_0@GRAD]
Out=[%fc_0.b_0: float32[100], %fc_0.w_0.block0: float32[100, 100], %fc_0.w_0.block1: float32[100, 100]] = fetch_barrier(X=[%__control_var@2]) {endpoints=["127.0.0.1:6174", "127.0.0.1:6175"]} role=RPC
%fc_0.w_0: float32[200, 100] = concat(X=[%fc_0.w_0.block0, %fc_0.w_0.block1]) role=Dist
"""  # noqa: E501


def test_t4_a_synchronous_trainer_sends_meets_and_receives() -> None:
    main, _ = trainer()
    assert exchanges(main) == written(SYNC_TRAINER)
    ops = main.global_block().ops
    places = [i for i, op in enumerate(ops) if op.type == "send"]
    assert "fc_0.b_0@GRAD.trainer_0" in ops[places[0] - 1].output_arg_names  # as soon as it is there
    assert "sgd" not in types(main) and not main.global_block().has_var("learning_rate_0")


def test_t4_the_names_are_those_of_the_trainer_and_of_one_alone_they_stay() -> None:
    second, _ = trainer(trainer_id=1)
    assert second.global_block().has_var("fc_0.b_0@GRAD.trainer_1")
    alone, _ = trainer(trainers=1)
    assert not any("trainer_" in name for name in alone.global_block().vars)


def test_t5_an_asynchronous_trainer_meets_nobody() -> None:
    main, _ = trainer(ASYNC, sync_mode=False)
    assert not any("barrier" in type for type in types(main))
    assert not any("trainer_" in name for name in main.global_block().vars)
    ops = main.global_block().ops
    sent = {op.attr("op_role_var")[0]: op.output("Out") for op in ops if op.type == "send"}
    assert {op.attr("op_role_var")[0]: op.input("X") for op in ops if op.type == "recv"} == sent


def scheduled() -> Any:
    return fluid.optimizer.SGD(fluid.layers.exponential_decay(0.1, 10, 0.5))


def test_t5_the_steps_of_a_schedule_are_told_to_all_servers() -> None:
    main, startup = trainer(ASYNC, line(scheduled), sync_mode=False)
    (op,) = [op for op in main.global_block().ops if op.type == "send" and not op.attr("use_send_handler")]
    assert op.input("X") == ["@LR_DECAY_COUNTER@.trainer_0"]
    assert op.attr("epmap") == [FIRST, SECOND] and op.attr("merge_add")
    assert startup.global_block().has_var("@LR_DECAY_COUNTER@.trainer_1")


SYNC_STARTUP = """
Out=[%fc_0.b_0: float32[100]] = recv() {epmap=["127.0.0.1:6174"]} role=RPC
Out=[%fc_0.w_0.block0: float32[100, 100], %fc_0.w_0.block1: float32[100, 100]] = recv() {epmap=["127.0.0.1:6175", "127.0.0.1:6174"]} role=RPC
Out=[%__control_var@0: bool[]] = fetch_barrier() {endpoints=["127.0.0.1:6174", "127.0.0.1:6175"]} role=RPC
%fc_0.w_0: float32[200, 100] = concat(X=[%fc_0.w_0.block0, %fc_0.w_0.block1])
"""  # noqa: E501


def test_t6_a_trainer_begins_with_the_values_of_the_servers() -> None:
    _, startup = trainer(programs=line(lambda: fluid.optimizer.Momentum(0.1, 0.9)))
    assert exchanges(startup) == written(SYNC_STARTUP)
    assert (
        types(startup)[:2] == ["uniform_random", "fill_constant"] and len(types(startup)) == 6
    )  # no velocity, no rate


def test_f11_with_runtime_split_whole_gradients_are_handed_over() -> None:
    main, _ = trainer({**SPLIT, "half_async": True, "completely_not_async": True}, sync_mode=False)
    ops = {op.type: op for op in main.global_block().ops if op.type in ("send", "send_barrier", "recv")}
    assert ops["send"].input("X") == ["fc_0.w_0@GRAD"] and ops["send"].attr("sections") == [100, 100]
    assert ops["send"].attr("send_varnames") == [f"fc_0.w_0@GRAD.block{i}.trainer_0" for i in range(2)]
    assert ops["send_barrier"].attr("half_async") and "fetch_barrier" not in types(main)
    assert ops["recv"].output("Out") == ["fc_0.w_0"]
    assert ops["recv"].attr("recv_varnames") == ["fc_0.w_0.block0", "fc_0.w_0.block1"]
    assert {"split_byref", "concat"}.isdisjoint(types(main))


def clipped() -> Any:
    return fluid.optimizer.SGD(0.1, grad_clip=fluid.clip.GradientClipByGlobalNorm(1.0))


class OneForAll(PSDispatcher):
    """Names one server however many variables there are."""

    def dispatch(self, varlist: Sequence[Any]) -> list[str]:
        return self.eps[:1]


class Elsewhere(PSDispatcher):
    """Names an address that is no server's."""

    def dispatch(self, varlist: Sequence[Any]) -> list[str]:
        return ["127.0.0.1:1"] * len(varlist)


@pytest.mark.parametrize("method", [OneForAll, Elsewhere])
def test_a_dispatcher_has_to_name_a_server_for_each_variable(method: type[PSDispatcher]) -> None:
    with pytest.raises(InvalidArgument, match=f"{method.__name__}.dispatch gives one of the servers for each"):
        trainer({"split_method": method})
