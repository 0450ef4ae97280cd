"""Parameter-server programs, rule by rule (T-1 … T-12); texts are written from the rules."""

from __future__ import annotations

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
    looked_up,
    sgd,
    transpiled,
    types,
)
from workbench import fluid
from workbench.errors import InvalidArgument, InvalidForm, NotFound, PreconditionNotMet, Unimplemented
from workbench.framework.notice import Notice
from workbench.framework.program.program import Program
from workbench.framework.text.parser import parse_program
from workbench.parallel.transpiler.blocks import cut
from workbench.parallel.transpiler.config import DistributeTranspilerConfig
from workbench.parallel.transpiler.dispatch import HashName, RoundRobin
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


# T-7

SYNC_SERVER = """
listen_and_serv(X=[%fc_0.b_0@GRAD.trainer_0, %fc_0.b_0@GRAD.trainer_1, %fc_0.w_0@GRAD.block1.trainer_0, %fc_0.w_0@GRAD.block1.trainer_1]) {endpoint="127.0.0.1:6174", pserver_id=0, grad_to_block_id=["fc_0.b_0@GRAD:1", "fc_0.w_0@GRAD.block1:2"], optimize_blocks=[block 1, block 2], Fanin=2}
%fc_0.b_0@GRAD: float32[100] = sum(X=[%fc_0.b_0@GRAD.trainer_0, %fc_0.b_0@GRAD.trainer_1])
%fc_0.b_0@GRAD: float32[100] = scale(X=%fc_0.b_0@GRAD) {scale=0.5}
%fc_0.b_0: float32[100] = sgd(Param=%fc_0.b_0, Grad=%fc_0.b_0@GRAD, LearningRate=%learning_rate_0) role=Optimize role_var=[%fc_0.b_0, %fc_0.b_0@GRAD.trainer_0]
%fc_0.w_0@GRAD.block1: float32[100, 100] = sum(X=[%fc_0.w_0@GRAD.block1.trainer_0, %fc_0.w_0@GRAD.block1.trainer_1])
%fc_0.w_0@GRAD.block1: float32[100, 100] = scale(X=%fc_0.w_0@GRAD.block1) {scale=0.5}
%fc_0.w_0.block1: float32[100, 100] = sgd(Param=%fc_0.w_0.block1, Grad=%fc_0.w_0@GRAD.block1, LearningRate=%learning_rate_0) role=Optimize role_var=[%fc_0.w_0, %fc_0.w_0@GRAD]
"""  # noqa: E501


def test_t7_a_synchronous_server_averages_and_updates() -> None:
    program, _ = server(FIRST)
    assert [str(op) for op in program.all_ops()] == written(SYNC_SERVER)
    assert str(parse_program(str(program))) == str(program)


@pytest.mark.parametrize(
    ("fields", "mode"),
    [
        ({}, 0),
        ({**SPLIT, "half_async": True, "completely_not_async": True}, 0),
        (SPLIT, 1),
        (ASYNC, 2),
        ({**ASYNC, "geo_sgd_mode": True}, 3),
    ],
)
def test_t7_the_mode_of_a_server_is_that_of_the_config(fields: dict[str, Any], mode: int) -> None:
    program, _ = server(FIRST, fields, sync_mode=fields.get("sync_mode", True))
    assert program.global_block().ops[0].attr("distributed_mode") == mode


@pytest.mark.filterwarnings("ignore:DistributeTranspiler")  # that trainers wait and servers do not
def test_a_program_of_another_mode_is_another_program() -> None:
    told = [
        trainer(fields, sync_mode=waits)[0].attributes["served"]
        for fields, waits in (({}, True), (SPLIT, True), (ASYNC, True), (ASYNC, False), (ASYNC, False))
    ]
    assert len(set(told)) == 4 and told[3] == told[4]


def test_t7_an_asynchronous_server_applies_every_gradient_in_full() -> None:
    program, _ = server(FIRST, ASYNC, sync_mode=False)
    assert [types(program, i) for i in range(3)] == [["listen_and_serv"], ["sgd"], ["sgd"]]


def test_t7_schedules_come_first_and_decay_before_the_update() -> None:
    def decayed() -> Any:
        rate = fluid.layers.exponential_decay(0.1, 10, 0.5)
        return fluid.optimizer.SGD(rate, regularization=fluid.regularizer.L2Decay(0.01))

    program, _ = server(SECOND, programs=line(decayed))
    serve = program.global_block().ops[0]
    assert serve.attr("lr_decay_block_id") == 1 and types(program, 1)[0] == "increment"
    assert types(program, 2) == ["sum", "scale", "scale", "sum", "sgd"] and program.block(2).parent_idx == 1
    assert program.block(2).ops[2].input("X") == ["fc_0.w_0.block0"]
    assert all(
        op.block.spec(name).shape in ((100, 100), (1,)) for op in program.block(2).ops for name in op.output_arg_names
    )


def test_t7_asynchronous_servers_count_the_steps_of_all_trainers() -> None:
    program, startup = server(FIRST, ASYNC, line(scheduled), sync_mode=False)
    first = program.block(1).ops[0]
    assert first.type == "sum" and first.input("X") == [f"@LR_DECAY_COUNTER@.trainer_{i}" for i in range(2)]
    assert startup.global_block().has_var("@LR_DECAY_COUNTER@.trainer_0")


def clipped() -> Any:
    return fluid.optimizer.SGD(0.1, grad_clip=fluid.clip.GradientClipByGlobalNorm(1.0))


def test_t7_a_clip_by_the_norm_of_all_gradients_needs_one_server() -> None:
    program, _ = server(FIRST, programs=line(clipped), pservers=FIRST)
    assert program.num_blocks == 2 and types(program, 1)[-2:] == ["sgd", "sgd"]
    assert program.global_block().ops[0].attr("grad_to_block_id") == ["fc_0.b_0@GRAD:1", "fc_0.w_0@GRAD:1"]
    with pytest.raises(Unimplemented, match="one server and sync_mode=True"):
        server(FIRST, programs=line(clipped))


def test_t7_a_parameter_whose_norm_is_taken_is_not_cut() -> None:
    def by_norm() -> Any:
        return fluid.optimizer.SGD(0.1, grad_clip=fluid.clip.GradientClipByNorm(1.0))

    main, _ = trainer(programs=line(by_norm))
    assert "split_byref" not in types(main)


# T-8, T-9


def test_t8_a_server_makes_what_it_has_in_the_shape_it_has_it() -> None:
    program, startup = server(FIRST, programs=line(fluid.optimizer.Adam))
    shapes = {op.output_arg_names[0]: tuple(op.attr("shape")) for op in startup.global_block().ops}
    assert shapes["fc_0.w_0.block1"] == shapes["fc_0.w_0_moment1_0"] == (100, 100)
    assert shapes["fc_0.w_0_beta1_pow_acc_0"] == shapes["learning_rate_0"] == (1,)
    kept = {v.name for v in program.persistables()}
    assert set(shapes) == {name for name in kept if not name.endswith("@GRAD") and "@GRAD.block" not in name}


def test_t8_given_values_are_cut_and_random_ones_differ_between_blocks() -> None:
    values = np.arange(20_000.0, dtype=np.float32).reshape(200, 100)
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        given = fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(values))
        x = fluid.data("x", [None, 200])
        loss = fluid.layers.mean(fluid.layers.fc(x, 100, param_attr=given, bias_attr=False))
        sgd().minimize(loss)
    transpiler = transpiled((main, startup))
    pieces = []
    for endpoint in (FIRST, SECOND):
        scope = fluid.Scope()
        fluid.Executor(fluid.CPUPlace()).run(transpiler.get_startup_program(endpoint), scope=scope)
        (name,) = [
            v.name
            for v in transpiler.get_pserver_programs(endpoint)[0].list_vars()
            if ".w_0.block" in v.name and "@" not in v.name
        ]
        pieces.append((name, np.array(scope.find_var(name).get_tensor())))
    np.testing.assert_array_equal(np.concatenate([array for _, array in sorted(pieces)]), values)
    drawn = []
    for endpoint in (FIRST, SECOND):
        main, startup = line()
        startup.random_seed = 7
        scope = fluid.Scope()
        _, startup = server(endpoint, programs=(main, startup))
        fluid.Executor(fluid.CPUPlace()).run(startup, scope=scope)
        name = "fc_0.w_0.block1" if endpoint == FIRST else "fc_0.w_0.block0"
        drawn.append(np.array(scope.find_var(name).get_tensor()))
    assert not np.array_equal(*drawn)


def test_t9_one_transpiler_gives_all_programs_in_any_order() -> None:
    transpiler = transpiled(line())
    before = [str(p) for p in transpiler.get_pserver_programs(FIRST)]
    main = transpiler.get_trainer_program(wait_port=False)
    assert [str(p) for p in transpiler.get_pserver_programs(FIRST)] == before
    assert transpiler.get_trainer_program(wait_port=False) is main
    with pytest.warns(Notice, match="deprecated"):
        assert str(transpiler.get_pserver_program(FIRST)) == before[0]
    with pytest.raises(InvalidArgument, match="there is no server 'x:1'"):
        transpiler.get_pserver_programs("x:1")
    with pytest.raises(PreconditionNotMet, match="transpiled before"):
        transpiler.transpile(0, program=main, trainers=2)
    with pytest.raises(PreconditionNotMet, match="first"):
        DistributeTranspiler().get_trainer_program()


def test_t11_one_synchronous_trainer_and_its_server_agree_on_names() -> None:
    main, _ = trainer(trainers=1)
    sent = [name for op in main.global_block().ops if op.type == "send" for name in op.input("X")]
    listened = [n for e in (FIRST, SECOND) for n in server(e, trainers=1)[0].global_block().ops[0].input("X")]
    assert sorted(sent) == sorted(listened)


def test_trainers_and_servers_that_are_told_different_things_are_told_so() -> None:
    with pytest.warns(Notice, match="set both"):
        transpiled(line(), sync_mode=False)


# T-12, tables, geo


def test_t12_a_late_gradient_is_corrected() -> None:
    program, startup = server(FIRST, {**ASYNC, "enable_dc_asgd": True}, sync_mode=False)
    names = ["ref_by_trainer_id", "elementwise_sub", "elementwise_mul", "elementwise_mul", "elementwise_add", "sgd"]
    assert types(program, 1) == names and program.global_block().ops[0].attr("dc_asgd")
    scope, p, g, had = fluid.Scope(), 3.0, 2.0, 1.0
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(startup, scope=scope)
    inner = Program()
    for variable in (*program.global_block().vars.values(), *program.block(1).vars.values()):
        home = inner.global_block()
        if not home.has_var(variable.name):
            is_kept = variable.persistable or variable.name == "@TRAINER_ID@"
            home.create_var(variable.name, variable.shape, variable.dtype, persistable=is_kept, stop_gradient=True)
    for op in program.block(1).ops:
        inner.global_block().add_operator(op.type, op.inputs, op.outputs, op.attrs, op.site)
    values = {"fc_0.b_0": p, "fc_0.b_0@GRAD": g, "fc_0.b_0.trainer_1_bak": had, "fc_0.b_0.trainer_0_bak": -9.0}
    for name, value in values.items():
        scope.var(name).get_tensor().set(np.full(100, value, np.float32), fluid.CPUPlace())
    scope.var("@TRAINER_ID@").get_tensor().set(np.array([1]), fluid.CPUPlace())
    executor.run(inner, scope=scope)
    after = np.array(scope.find_var("fc_0.b_0").get_tensor())
    np.testing.assert_allclose(after, p - 0.1 * (g + g * g * (p - had)), rtol=1e-6)


def test_tables_live_on_servers_only() -> None:
    main, startup = trainer(programs=looked_up())
    ops = {op.type: op for op in main.global_block().ops}
    pull = ops["distributed_lookup_table"]
    assert pull.attr("table_names") == ["table.block0", "table.block1"] and pull.attr("endpoints") == [FIRST, SECOND]
    assert pull.attr("height_sections") == ops["split_selected_rows"].attr("height_sections") == [2048, 2048]
    assert "recv" not in types(main) and types(startup)[-1] == "fake_init" and "uniform_random" not in types(startup)
    program, _ = server(FIRST, programs=looked_up())
    serve = program.global_block().ops[0]
    assert serve.attr("sparse_grad_to_param") == ["table@GRAD.block0:table.block0"]
    assert types(program, 1) == ["sum", "fill_constant", "multiply_rows", "sgd"]


def test_geo_trainers_update_and_servers_add_what_has_changed() -> None:
    fields = {**ASYNC, "geo_sgd_mode": True, "geo_sgd_need_push_nums": 7}
    main, startup = trainer(fields, sync_mode=False)
    assert types(main)[-3:] == ["sgd", "sgd", "send"] and types(startup)[-1] == "send"
    told = main.attributes["geo_sgd"]
    assert told["push_nums"] == 7 and told["vars"]["fc_0.w_0"]["epmap"] == [SECOND, FIRST]
    assert told["vars"]["fc_0.w_0"]["sections"] == [100, 100]
    program, startup = server(FIRST, fields, sync_mode=False)
    assert [op.input("X") for op in program.block(1).ops] == [["fc_0.b_0", "fc_0.b_0.delta"]]
    assert sorted(op.output_arg_names[0] for op in startup.global_block().ops) == ["fc_0.b_0", "fc_0.w_0.block1"]


def test_rates_of_schedulers_are_sent_by_the_first_trainer() -> None:
    import workbench as wb

    def stepped() -> Any:
        return wb.optimizer.SGD(wb.optimizer.lr.StepDecay(0.1, step_size=2))

    for number, count in ((0, 1), (1, 0)):
        main, _ = trainer(programs=line(stepped), trainer_id=number)
        sent = [op for op in main.global_block().ops if op.type == "send" and op.input("X") == ["learning_rate_0"]]
        assert len(sent) == count and all(op.attr("epmap") == [FIRST, SECOND] for op in sent)


def test_block_size_is_checked_when_the_transpiler_is_made() -> None:
    with pytest.raises(InvalidForm):
        DistributeTranspiler(config(min_block_size=8191))


# What fails half-way


def test_a_transpile_that_fails_half_way_leaves_the_programs_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "workbench.parallel.transpiler.distribute_transpiler.begin_counters"
    monkeypatch.setattr(module, lambda *_: 1 / 0)
    programs = line(lambda: fluid.optimizer.SGD(fluid.layers.exponential_decay(0.1, 10, 0.5)))
    before = [str(program) for program in programs]
    with pytest.raises(ZeroDivisionError):
        transpiled(programs, ASYNC, sync_mode=False)
    assert [str(program) for program in programs] == before
    assert all(variable.name == name for name, variable in programs[0].global_block().vars.items())
    monkeypatch.undo()
    assert "send" in types(transpiled(programs, ASYNC, sync_mode=False).get_trainer_program(wait_port=False))


def test_a_startup_program_of_another_program_is_refused() -> None:
    main, _ = line()
    before = str(main)
    with pytest.raises(PreconditionNotMet, match=r"does not make 'fc_0\.[wb]_0'; give the program's own"):
        transpiled((main, Program()))
    assert str(main) == before


@pytest.mark.parametrize("field", ["enable_dc_asgd", "geo_sgd_mode"])
def test_what_is_for_servers_that_do_not_wait_is_refused_before_anything_is_done(field: str) -> None:
    programs = line()
    before = [str(program) for program in programs]
    with pytest.raises(InvalidForm, match=f"{field}=True needs sync_mode=False"):
        transpiled(programs, {field: True})
    assert [str(program) for program in programs] == before


@pytest.mark.parametrize(("fields", "told"), [({}, {}), (ASYNC, {"sync_mode": False, "pservers": FIRST})])
def test_t7_trainers_too_are_refused_a_clip_by_the_norm_of_all_gradients(fields: Any, told: Any) -> None:
    programs = line(clipped)
    before = str(programs[0])
    with pytest.raises(Unimplemented, match="one server and sync_mode=True"):
        transpiled(programs, fields, **told)
    assert str(programs[0]) == before


@pytest.mark.parametrize("wrong", [0, -1, 1.0, True, "2"])
def test_communicators_are_counted(wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="nccl_comm_num is an int from 1 on"):
        config(nccl_comm_num=wrong)
