"""Every name that descriptions of fleets and transpilers of 1.x speak of is there, with the arguments they name."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy as np
import pytest

from workbench import fluid
from workbench.errors import InvalidForm, InvalidType
from workbench.fluid.transpiler import collective

_RUN = "program feed fetch_list feed_var_name fetch_var_name scope return_numpy use_program_cache"
_WHO = "is_worker is_server is_first_worker worker_num worker_index server_index"
_ENDS = "get_trainer_endpoints get_pserver_endpoints"
_TOGETHER = "all_gather all_reduce_worker barrier_worker barrier_all to_string"
FLEET = """init init_worker init_server run_server stop_worker distributed_optimizer save_persistables save_inference_model
    is_worker is_server is_first_worker worker_num worker_index server_num server_index split_files worker_endpoints(to_string)
    server_endpoints(to_string) barrier_worker all_reduce_worker(input,output)"""  # noqa: E501

NAMES = {  # by module: classes, and after a dot their methods, in brackets the arguments
    "incubate.fleet.collective": """
        fleet Collective CollectiveOptimizer DistributedStrategy Collective.distributed_optimizer(optimizer,strategy)
        Collective.run_worker CollectiveOptimizer.minimize(loss,startup_program,parameter_list,no_grad_set)
        CollectiveOptimizer._try_to_compile(startup_program,main_program)
        CollectiveOptimizer._transpile(startup_program,main_program) DistributedOptimizer
    """,
    "incubate.fleet.parameter_server.distribute_transpiler": """
        fleet StrategyFactory StrategyFactory.create_sync_strategy StrategyFactory.create_async_strategy
        StrategyFactory.create_half_async_strategy StrategyFactory.create_geo_strategy(update_frequency)
    """,
    "incubate.fleet.dist_transpiler": "DistributeTranspiler",
    "incubate.fleet.base.role_maker": """
        Role RoleMakerBase MPIRoleMaker MPISymetricRoleMaker PaddleCloudRoleMaker(is_collective)
        GeneralRoleMaker(kwargs)
        UserDefinedRoleMaker(current_id,role,worker_num,server_endpoints)
        UserDefinedCollectiveRoleMaker(current_id,worker_endpoints)
    """,
    "transpiler": "DistributeTranspiler DistributeTranspilerConfig HashName RoundRobin collective",
    "transpiler.distribute_transpiler": """
        DistributeTranspilerConfig
        DistributeTranspiler.transpile(trainer_id,program,pservers,trainers,sync_mode,startup_program,current_endpoint)
        DistributeTranspiler._transpile_nccl2(trainer_id,trainers,current_endpoint,startup_program,wait_port)
        DistributeTranspiler._transpile_collective(collective_mode,trainer_id,trainers,current_endpoint,startup_program,main_program,wait_port)
        DistributeTranspiler.get_trainer_program(wait_port) DistributeTranspiler.get_pserver_program(endpoint)
        DistributeTranspiler.get_pserver_programs(endpoint) DistributeTranspiler.get_startup_program(endpoint,pserver_program,startup_program)
    """,  # noqa: E501
    "transpiler.ps_dispatcher": "HashName PSDispatcher RoundRobin",
    "transpiler.collective": """
        Collective Collective.transpile(startup_program,main_program,rank,endpoints,current_endpoint,wait_port)
        GradAllReduce(nrings) LocalSGD(nrings) SingleProcessMultiThread() LocalSGD.snapshot_name(param_name)
    """,
    "compiler": """
        CompiledProgram(program_or_graph,build_strategy) CompiledProgram._compile(scope,place)
        CompiledProgram.with_data_parallel(loss_name,build_strategy,exec_strategy,share_vars_from,places)
        BuildStrategy ExecutionStrategy
    """,
    "executor": f"""
        Executor(place) Executor.close() Executor.run({_RUN.replace(" ", ",")},return_merged)
        Executor._run_impl({_RUN.replace(" ", ",")},return_merged,use_prune) Executor._run_program({_RUN.replace(" ", ",")})
        Executor._run_parallel(program,scope,feed,fetch_list,fetch_var_name,return_numpy,return_merged)
        Executor._run_inference(exe,feed) Executor._prune_program(program,feed,fetch_list,optimize_ops)
        Executor._split_optimize_ops_in_fetch_list(fetch_list) global_scope scope_guard
    """,  # noqa: E501
    "": """
        Executor ParallelExecutor CompiledProgram BuildStrategy ExecutionStrategy DistributeTranspiler CPUPlace
        CUDAPlace DistributeTranspilerConfig Program program_guard default_main_program default_startup_program
        global_scope data
        ParamAttr layers io initializer regularizer optimizer unique_name compiler dygraph incubate transpiler backward
    """,
}
ROLE_MAKERS = [
    "RoleMakerBase", "UserDefinedRoleMaker", "UserDefinedCollectiveRoleMaker", "PaddleCloudRoleMaker",
    "GeneralRoleMaker", "MPIRoleMaker", "MPISymetricRoleMaker",
]  # fmt: skip


def named() -> list[tuple[str, str]]:
    return [(module, name) for module, names in NAMES.items() for name in names.split()]


@pytest.mark.parametrize(("module", "name"), named())
def test_a_name_is_there_with_its_arguments(module: str, name: str) -> None:
    path, _, arguments = name.rstrip(")").partition("(")
    member: Any = importlib.import_module(f"workbench.fluid.{module}".rstrip("."))
    for part in path.split("."):
        member = getattr(member, part)
    if arguments:
        wanted = arguments.split(",")
        known = [one for one in inspect.signature(member).parameters if one != "self"]
        assert known[: len(wanted)] == wanted  # by place as by name


@pytest.mark.parametrize("maker", ROLE_MAKERS)
def test_role_makers_have_all_methods(maker: str) -> None:
    role_maker = getattr(fluid.incubate.fleet.base.role_maker, maker)
    assert [name for name in f"{_WHO} {_ENDS} {_TOGETHER}".split() if not hasattr(role_maker, name)] == []


@pytest.mark.parametrize("kind", ["collective", "parameter_server.distribute_transpiler"])
def test_fleets_have_all_methods(kind: str) -> None:
    fleet = importlib.import_module(f"workbench.fluid.incubate.fleet.{kind}").fleet
    for name in FLEET.split():
        path, _, arguments = name.rstrip(")").partition("(")
        known = list(inspect.signature(getattr(fleet, path)).parameters)
        assert known[: len(arguments.split(","))] == arguments.split(",") or not arguments, name


def trained() -> tuple[Any, Any, Any]:
    x = fluid.data("x", [None, 3])
    loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(x, 2)))
    result = fluid.optimizer.SGD(0.1).minimize(loss)
    return loss, result, {"x": np.arange(12, dtype=np.float32).reshape(4, 3)}


def test_inner_names_of_the_executor_do_what_run_does() -> None:
    loss, _, feed = trained()
    exe = fluid.Executor(fluid.CPUPlace())
    main = fluid.default_main_program()
    test = main.clone(for_test=True)
    exe.run(fluid.default_startup_program())
    wanted = exe.run(test, feed, [loss])[0]
    ends = "feed", "fetch"
    assert exe._run_impl(test, feed, [loss], *ends, None, True, False, True, False)[0] == wanted
    assert exe._run_program(test, feed, [loss], *ends, fluid.global_scope(), True, True)[0] == wanted
    assert type(exe._run_impl(test, feed, [loss], *ends, None, False, False, True, False)[0]) is fluid.LoDTensor
    with pytest.raises(InvalidType, match="_run_program"):
        exe._run_program(fluid.CompiledProgram(test), feed, [loss], *ends, None, True, True)


def test_compiled_programs_go_by_an_inner_name_too() -> None:
    loss, _, feed = trained()
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.global_scope()
    exe.run(fluid.default_startup_program())
    plain = fluid.CompiledProgram(fluid.default_main_program())
    with pytest.raises(InvalidForm, match="with_data_parallel"):
        exe._run_parallel(plain, scope, feed, [loss], "fetch", True, True)
    with pytest.raises(InvalidType, match="_run_parallel"):
        exe._run_parallel(fluid.default_main_program(), scope, feed, [loss], "fetch", True, True)
    compiled = plain.with_data_parallel(loss_name=loss.name, places=fluid.cpu_places(2))
    assert compiled._compile(scope, fluid.CPUPlace()) is compiled
    (losses,) = exe._run_parallel(compiled, scope, feed, [loss], "fetch", True, True)
    assert losses.shape == (2,)
    apart = exe._run_parallel(compiled, scope, feed, [loss], "fetch", True, False)
    assert np.shape(apart[0]) == (2, 1)


def test_a_program_is_pruned_by_its_inner_name() -> None:
    loss, (updates, _), feed = trained()
    exe, main = fluid.Executor(fluid.CPUPlace()), fluid.default_main_program()
    types = lambda program: [op.type for op in program.global_block().ops]  # noqa: E731
    assert exe._prune_program(main) is main
    forward = types(main.clone(for_test=True))
    wanted = [one for one in updates if one.input("Param") == ["fc_0.w_0"]]
    assert types(exe._prune_program(main, feed, [], wanted)).count("sgd") == 1
    assert types(exe._prune_program(main, feed, [wanted, loss])).count("sgd") == 1
    assert types(exe._prune_program(main.clone(for_test=True), feed, [loss])) == forward
    with pytest.raises(InvalidType, match="_prune_program"):
        exe._prune_program(fluid.CompiledProgram(main))


def test_another_executor_of_a_program_that_only_infers() -> None:
    class Other:
        def run(self, feed: Any) -> list[Any]:
            return [feed["x"] + 1]

    assert fluid.Executor()._run_inference(Other(), {"x": 1}) == [2]


TRAINERS = ["127.0.0.1:6170", "127.0.0.1:6171"]


@pytest.mark.parametrize("mode", ["grad_allreduce", "local_sgd", "single_process_multi_thread"])
def test_transpiler_classes_write_what_the_transpiler_of_their_mode_writes(mode: str) -> None:
    classes = {one.MODE: one for one in (collective.GradAllReduce, collective.LocalSGD)}
    classes["single_process_multi_thread"] = collective.SingleProcessMultiThread
    texts = []
    for by_class in (True, False):
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            trained()
        if by_class:
            classes[mode]().transpile(startup, main, 1, TRAINERS, TRAINERS[1], False)
        else:
            config = fluid.DistributeTranspilerConfig()
            config.mode, config.collective_mode, config.nccl_comm_num = "collective", mode, 2
            told = {"trainers": ",".join(TRAINERS), "current_endpoint": TRAINERS[1]}
            fluid.DistributeTranspiler(config).transpile(1, main, startup_program=startup, **told)
        texts.append(f"{main}\n{startup}")
    assert texts[0] == texts[1] and "c_allreduce_sum" in texts[0]
