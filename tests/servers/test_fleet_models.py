"""Inference models of a fleet whose tables only servers have: a trainer pulls them, in messages of bounded length."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.servers.in_process import free_endpoints, running
from workbench import fluid
from workbench.fluid.incubate.fleet.base.role_maker import Role, UserDefinedRoleMaker
from workbench.fluid.incubate.fleet.parameter_server.distribute_transpiler import FleetTranspiler, StrategyFactory
from workbench.parallel.servers.asking import exchange
from workbench.parallel.servers.asking.links import Link

ROWS, WIDTH = 5000, 4
TABLE = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32)
IDS = np.array([[3], [4999], [3], [2600]])


@pytest.fixture(autouse=True)
def _static() -> Any:
    wb.enable_static()
    yield
    wb.disable_static()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each message asks for."""
    counts: list[int] = []
    start = Link.start

    def counted(link: Link, kind: str, arrays: Any, **fields: Any) -> Any:
        if kind == "rows":
            counts.append(sum(array.size for array in arrays.values()))
        return start(link, kind, arrays, **fields)

    monkeypatch.setattr(Link, "start", counted)
    return counts


def network() -> tuple[Any, Any]:
    """Rows of a table, with a weight; and their mean, the loss."""
    start = fluid.initializer.NumpyArrayInitializer(TABLE)
    given = fluid.ParamAttr(name="table", initializer=start)
    rows = fluid.layers.embedding(
        fluid.data("ids", [None, 1], "int64"), [ROWS, WIDTH], is_sparse=True, param_attr=given
    )
    one = fluid.ParamAttr("w", initializer=fluid.initializer.Constant(1.0))
    prediction = fluid.layers.fc(rows, 1, param_attr=one, bias_attr=False)
    return prediction, fluid.layers.mean(prediction)


@pytest.mark.parametrize("kind", ["sync", "async", "half_async"])
def test_a_trainer_saves_the_tables_that_only_servers_have(
    kind: str, tmp_path: Path, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "_PIECE", 8 * WIDTH * 1000)
    endpoints, scope = free_endpoints(2), fluid.Scope()
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(scope)
    ):  # fmt: skip
        fleet = FleetTranspiler()
        fleet.init(UserDefinedRoleMaker(0, Role.WORKER, 1, endpoints))
        prediction, loss = network()
        strategy = getattr(StrategyFactory, f"create_{kind}_strategy")()
        fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy).minimize(loss)
        with running([fleet._transpiler.get_pserver_programs(endpoint) for endpoint in endpoints]):
            executor = fluid.Executor()
            executor.run(fleet.startup_program)
            executor.run(fleet.main_program, feed={"ids": IDS}, fetch_list=[loss])
            asked.clear()
            fleet.save_inference_model(executor, tmp_path / "model", ["ids"], [prediction])
            assert sum(asked) == ROWS + WIDTH and max(asked) <= 1000
            assert scope.find_var("table") is None and not scope.kids  # nothing of it is kept
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                fleet.save_inference_model(executor, str(tmp_path / "one"), "ids", prediction)
    expected = TABLE.astype(np.float64)
    np.subtract.at(expected, IDS[:, 0], 0.1 / len(IDS))
    with fluid.scope_guard(fluid.Scope()):
        executor = fluid.Executor()
        program, feeds, fetches = fluid.io.load_inference_model(tmp_path / "model", executor)
        (result,) = executor.run(program, feed={feeds[0]: IDS}, fetch_list=fetches)
    weight = 1 - 0.1 * TABLE[IDS[:, 0]].mean(0)
    assert np.allclose(np.ravel(result), expected[IDS[:, 0]] @ weight, atol=1e-5)
