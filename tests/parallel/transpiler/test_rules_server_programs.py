"""Server programs and their startup programs, rule by rule (T-7 … T-9)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.parallel.transpiler.programs import (
    FIRST,
    SECOND,
    line,
    sgd,
    transpiled,
    types,
)
from tests.parallel.transpiler.test_rules_servers import ASYNC, SPLIT, clipped, scheduled, server, trainer, written
from workbench import fluid
from workbench.errors import InvalidArgument, PreconditionNotMet, Unimplemented
from workbench.framework.notice import Notice
from workbench.framework.text.parser import parse_program
from workbench.parallel.transpiler.distribute_transpiler import DistributeTranspiler

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
