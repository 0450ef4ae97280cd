"""Distributed tables and geo-SGD (T-12), and what fails half-way leaves the programs as they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.parallel.transpiler.programs import (
    FIRST,
    SECOND,
    config,
    line,
    looked_up,
    transpiled,
    types,
)
from tests.parallel.transpiler.test_rules_servers import ASYNC, clipped, server, trainer
from workbench import fluid
from workbench.errors import InvalidArgument, InvalidForm, PreconditionNotMet, Unimplemented
from workbench.framework.program.program import Program
from workbench.parallel.transpiler.distribute_transpiler import DistributeTranspiler

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
    assert types(program, 1) == ["sum", "scale", "sgd"]


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
