"""nccl2 and the collective modes, rule by rule (T-20 … T-32); texts are written from the rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.parallel.transpiler.programs import TRAINERS, config, exchanges, line, sgd, types
from workbench import fluid
from workbench.errors import EnforceNotMet, InvalidArgument, PreconditionNotMet, Unimplemented
from workbench.framework.notice import Notice
from workbench.framework.program.program import Program
from workbench.parallel.transpiler.distribute_transpiler import DistributeTranspiler
from workbench.runtime.comm.mpi.rings import RINGS

FIRST = TRAINERS.split(",")[0]


def transpiled(mode: str, rings: int = 1, optimizer: Any = sgd, **told: Any) -> tuple[Program, Program]:
    main, startup = line(optimizer, width=2, hidden=1)
    fields: dict[str, Any] = {"mode": "nccl2"} if mode == "nccl2" else {"mode": "collective", "collective_mode": mode}
    transpiler = DistributeTranspiler(config(nccl_comm_num=rings, **fields, **told.pop("fields", {})))
    told = {"trainer_id": 0, "trainers": TRAINERS, "current_endpoint": FIRST} | told
    transpiler.transpile(program=main, startup_program=startup, **told)
    return main, startup


NCCL2 = """
%NCCLID: raw uint8[] = gen_nccl_id() {trainers=["127.0.0.1:6170", "127.0.0.1:6171"], nccl_comm_num=2}
"""


def test_t20_nccl2_appends_to_the_startup_program_alone() -> None:
    plain, _ = line(width=2, hidden=1)
    main, startup = transpiled("nccl2", rings=2)
    assert [str(op) for op in main.all_ops()] == [str(op) for op in plain.all_ops()]
    assert exchanges(startup) == [NCCL2.strip()]
    assert {"NCCLID", "NCCLID_1"} <= set(startup.global_block().vars)
    hierarchy = {"use_hierarchical_allreduce": True, "hierarchical_allreduce_inter_nranks": 2}
    with pytest.warns(Notice, match="use_hierarchical_allreduce = True has no effect: between machines"):
        _, startup = transpiled("nccl2", fields=hierarchy)
    names = {"Hierarchical_inter_NCCLID_0", "Hierarchical_exter_NCCLID_0"}
    assert {n for n, v in startup.global_block().vars.items() if v.type == "VarType.RAW"} == names | {"NCCLID"}
    with pytest.raises(ValueError, match="int >= 0"):
        transpiled("nccl2", trainer_id=-1)


@pytest.mark.parametrize("mode", ["grad_allreduce", "local_sgd"])
def test_t30_refuses_what_is_no_group(mode: str) -> None:
    for told, what in (
        ({"trainers": FIRST}, "two trainers or more"),
        ({"trainer_id": -1}, "int >= 0"),
        ({"current_endpoint": "x:1"}, "current_endpoint"),
        ({"trainers": 2}, "ip:port"),
    ):
        with pytest.raises(ValueError, match=what):
            transpiled(mode, **told)
    with pytest.raises(ValueError, match="grad_allreduce"):
        transpiled("all_reduce")


STARTUP = """
%nccl_id_0: raw uint8[] = c_gen_nccl_id() {endpoint="127.0.0.1:6170", other_endpoints=["127.0.0.1:6171"]}
c_comm_init(X=%nccl_id_0) {nranks=2}
%nccl_id_1: raw uint8[] = c_gen_nccl_id() {endpoint="127.0.0.1:6170", other_endpoints=["127.0.0.1:6171"]}
c_comm_init(X=%nccl_id_1) {nranks=2, ring_id=1}
%fc_0.w_0: float32[2, 1] = c_broadcast(X=%fc_0.w_0)
%fc_0.b_0: float32[1] = c_broadcast(X=%fc_0.b_0) {ring_id=1}
%fc_0.b_0: float32[1] = c_sync_comm_stream(X=%fc_0.b_0)
%fc_0.b_0: float32[1] = c_sync_comm_stream(X=%fc_0.b_0) {ring_id=1}
"""

GRAD_ALLREDUCE = """
%mean_0.tmp_0@GRAD: float32[1] = scale(X=%mean_0.tmp_0@GRAD) {scale=0.5} role=Backward
%fc_0.b_0@GRAD: float32[1] = c_sync_calc_stream(X=%fc_0.b_0@GRAD) role=Backward
%fc_0.b_0@GRAD: float32[1] = c_allreduce_sum(X=%fc_0.b_0@GRAD) {ring_id=1} role=Backward
%fc_0.w_0@GRAD: float32[2, 1] = c_sync_calc_stream(X=%fc_0.w_0@GRAD) role=Backward
%fc_0.w_0@GRAD: float32[2, 1] = c_allreduce_sum(X=%fc_0.w_0@GRAD) role=Backward
%fc_0.b_0@GRAD: float32[1] = c_sync_comm_stream(X=%fc_0.b_0@GRAD) role=Backward
%fc_0.b_0@GRAD: float32[1] = c_sync_comm_stream(X=%fc_0.b_0@GRAD) {ring_id=1} role=Backward
"""


def test_t30_gradients_are_summed_where_they_are_made() -> None:
    main, startup = transpiled("grad_allreduce", rings=2)
    assert exchanges(main) == GRAD_ALLREDUCE.strip().split("\n")
    assert exchanges(startup) == STARTUP.strip().split("\n")
    ops = main.global_block().ops
    fill = types(main).index("fill_constant")
    assert types(main)[fill + 1] == "scale" and ops[fill].output_arg_names == ops[fill + 1].input_arg_names


def test_t30_rings_are_waited_for_before_the_first_operator_of_an_update() -> None:
    def decayed() -> Any:
        return fluid.optimizer.Momentum(0.1, 0.9, regularization=fluid.regularizer.L2Decay(0.01))

    main, startup = transpiled("grad_allreduce", optimizer=decayed)
    ops = main.global_block().ops
    first = next(i for i, op in enumerate(ops) if op.attr("op_role") == 2)
    assert ops[first - 1].type == "c_sync_comm_stream" and ops[first].type == "scale"
    sent = [op.input("X")[0] for op in startup.global_block().ops if op.type == "c_broadcast"]
    assert sent == ["fc_0.w_0", "fc_0.b_0"]  # no velocity


LOCAL_SGD = """
%fc_0.b_0: float32[1] = sgd(Param=%fc_0.b_0, Grad=%fc_0.b_0@GRAD, LearningRate=%learning_rate_0) role=Optimize role_var=[%fc_0.b_0, %fc_0.b_0@GRAD]
%fc_0.b_0: float32[1] = elementwise_sub(X=%fc_0.b_0@SNAPSHOT, Y=%fc_0.b_0) role=Optimize
%fc_0.b_0: float32[1] = c_sync_calc_stream(X=%fc_0.b_0) role=Optimize
%fc_0.b_0: float32[1] = c_allreduce_sum(X=%fc_0.b_0) {ring_id=1} role=Optimize
%fc_0.w_0: float32[2, 1] = sgd(Param=%fc_0.w_0, Grad=%fc_0.w_0@GRAD, LearningRate=%learning_rate_0) role=Optimize role_var=[%fc_0.w_0, %fc_0.w_0@GRAD]
%fc_0.w_0: float32[2, 1] = elementwise_sub(X=%fc_0.w_0@SNAPSHOT, Y=%fc_0.w_0) role=Optimize
%fc_0.w_0: float32[2, 1] = c_sync_calc_stream(X=%fc_0.w_0) role=Optimize
%fc_0.w_0: float32[2, 1] = c_allreduce_sum(X=%fc_0.w_0) role=Optimize
%fc_0.b_0: float32[1] = c_sync_comm_stream(X=%fc_0.b_0) role=Optimize
%fc_0.b_0: float32[1] = c_sync_comm_stream(X=%fc_0.b_0) {ring_id=1} role=Optimize
%fc_0.b_0: float32[1] = scale(X=%fc_0.b_0) {scale=0.5} role=Optimize
%fc_0.b_0: float32[1] = elementwise_sub(X=%fc_0.b_0@SNAPSHOT, Y=%fc_0.b_0) role=Optimize
%fc_0.b_0@SNAPSHOT: float32[1] = assign(X=%fc_0.b_0) role=Optimize
%fc_0.w_0: float32[2, 1] = scale(X=%fc_0.w_0) {scale=0.5} role=Optimize
%fc_0.w_0: float32[2, 1] = elementwise_sub(X=%fc_0.w_0@SNAPSHOT, Y=%fc_0.w_0) role=Optimize
%fc_0.w_0@SNAPSHOT: float32[2, 1] = assign(X=%fc_0.w_0) role=Optimize
"""  # noqa: E501


def test_t31_what_has_changed_is_averaged_after_every_update() -> None:
    main, startup = transpiled("local_sgd", rings=2)
    assert [str(op) for op in main.all_ops() if op.attr("op_role") == 2] == LOCAL_SGD.strip().split("\n")
    assert types(startup)[-2:] == ["assign", "assign"] and exchanges(startup) == STARTUP.strip().split("\n")
    assert main.global_block().var("fc_0.w_0@SNAPSHOT").persistable


def test_t32_one_process_has_one_ring_and_no_broadcast() -> None:
    main, startup = transpiled("single_process_multi_thread", rings=2)
    assert exchanges(startup) == ["c_comm_init_all()"]
    assert {op.attr("ring_id") for op in main.all_ops() if op.type == "c_allreduce_sum"} == {0}
    assert "scale=0.5" in str(main)


@pytest.fixture
def no_rings() -> Any:
    RINGS.leave_all()
    yield
    RINGS.leave_all()


def run(program: Any, scope: Any, feed: Any, fetches: Any) -> Any:
    return fluid.Executor(fluid.CPUPlace()).run(program, feed=feed, fetch_list=fetches, scope=scope)


def test_t32_devices_of_one_process_train_as_one(no_rings: None) -> None:
    """Against one device that sees all rows."""
    main, startup = transpiled("single_process_multi_thread")
    plain, _ = line(width=2, hidden=1)
    x = np.random.default_rng(3).standard_normal((8, 2)).astype(np.float32)
    scope, alone = fluid.Scope(), fluid.Scope()
    run(startup, scope, None, None)
    for variable in plain.persistables():
        value = np.array(scope.find_var(variable.name).get_tensor())
        alone.var(variable.name).get_tensor().set(value, fluid.CPUPlace())
    (loss,) = [op.output("Out")[0] for op in plain.all_ops() if op.type == "mean"]
    places = fluid.cpu_places(2)
    compiled = fluid.CompiledProgram(main).with_data_parallel(loss_name=loss, places=places)
    executor = fluid.Executor(fluid.CPUPlace())
    for _ in range(3):
        executor.run(compiled, feed={"x": x}, scope=scope, fetch_list=[loss])
        run(plain, alone, {"x": x}, [loss])
    for name in ("fc_0.w_0", "fc_0.b_0"):
        weights, expected = (np.array(s.find_var(name).get_tensor()) for s in (scope, alone))
        np.testing.assert_allclose(weights, expected, rtol=1e-5)


def test_a_process_alone_is_told_how_processes_are_started(no_rings: None) -> None:
    for mode in ("grad_allreduce", "local_sgd", "nccl2"):
        _, startup = transpiled(mode)
        with pytest.raises(EnforceNotMet, match="workbench launch -n 2"):
            run(startup, fluid.Scope(), None, None)
    with pytest.raises(PreconditionNotMet, match="run the startup program"):
        run(transpiled("grad_allreduce")[0], fluid.Scope(), {"x": np.ones((2, 2), np.float32)}, None)


def test_a_mode_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="local_sgd"):
        transpiled("")


def with_ring_of_devices(type: str, aside: bool = False, **attrs: Any) -> tuple[Program, Program, str]:
    """x + 0, exchanged among the devices of this process."""
    main, startup = fluid.Program(), fluid.Program()
    startup.global_block().append_op("c_comm_init_all", {}, {}, {"ring_id": 0})
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        y = fluid.layers.scale(fluid.data("x", [None, 2]), 1.0)
        out = main.global_block().create_var("out", [-1, 2], "float32") if aside else y
        main.global_block().append_op(type, {"X": y}, {"Out": out}, {"ring_id": 0} | attrs)
        result = fluid.layers.scale(out, 1.0)
    return main, startup, result.name


@pytest.mark.parametrize("aside", [False, True])
@pytest.mark.parametrize(("type", "attrs", "want"), [("c_broadcast", {"root": 1}, 2), ("c_allreduce_sum", {}, 3)])
def test_devices_exchange_in_programs_that_only_infer(
    no_rings: None, type: str, attrs: Any, want: float, aside: bool
) -> None:
    main, startup, result = with_ring_of_devices(type, aside, **attrs)
    run(startup, fluid.Scope(), None, None)
    compiled = fluid.CompiledProgram(main).with_data_parallel(places=fluid.cpu_places(2))
    feed = [{"x": np.full((1, 2), 1, np.float32)}, {"x": np.full((1, 2), 2, np.float32)}]
    np.testing.assert_array_equal(run(compiled, fluid.Scope(), feed, [result])[0], np.full((2, 2), want))
    with pytest.raises(InvalidArgument):  # one row is not enough for two devices that need each other
        run(compiled, fluid.Scope(), {"x": np.ones((1, 2), np.float32)}, [result])


def test_collectives_inside_branches_are_refused(no_rings: None) -> None:
    main, startup = fluid.Program(), fluid.Program()
    startup.global_block().append_op("c_comm_init_all", {}, {}, {"ring_id": 0})
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [1])

        def summed() -> Any:
            y = fluid.layers.scale(x, 2.0)
            y.block.append_op("c_allreduce_sum", {"X": y}, {"Out": y}, {"ring_id": 0})
            return y

        out = fluid.layers.cond(fluid.layers.less_than(x, fluid.layers.zeros_like(x)), summed, lambda: x * 1.0)
    run(startup, fluid.Scope(), None, None)
    with pytest.raises(Unimplemented, match="'c_allreduce_sum' exchanges values inside"):
        run(main, fluid.Scope(), {"x": np.ones(1, np.float32)}, [out])
