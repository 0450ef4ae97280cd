"""Programs with `send`, `recv` and barriers: what is run of them, and what goes where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.servers.hand_made import server_programs, trainer_programs
from tests.servers.in_process import free_endpoints, running
from workbench import static
from workbench.errors import InvalidArgument, PreconditionNotMet
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.program.program import Program
from workbench.framework.program.remote import runnable, service_of
from workbench.ops.distributed.exchange import SERVER_EXCHANGE
from workbench.runtime.servers.standing import client_of


@pytest.fixture(autouse=True)
def _static() -> Any:
    wb.enable_static()
    yield
    wb.disable_static()


def types(program: Program) -> list[str]:
    return [op.type for op in program.global_block().ops]


def test_all_that_goes_to_servers_becomes_one_operator_behind_the_gradients() -> None:
    main, startup = trainer_programs("127.0.0.1:1", 0, 2)
    before = str(main)
    program = runnable(main)
    assert types(program)[-2:] == ["scale", SERVER_EXCHANGE.type] and str(main) == before
    exchange = program.global_block().ops[-1]
    assert exchange.input("X") == ["w@GRAD.trainer_0"] and exchange.output("Out") == ["w"]
    assert types(runnable(startup)) == ["fill_constant", SERVER_EXCHANGE.type]


def test_other_programs_are_run_as_they_are() -> None:
    program = Program()
    assert runnable(program) is program and service_of(program) is None


def test_a_program_of_a_server_is_served() -> None:
    assert service_of(server_programs("127.0.0.1:1", 1)[0]) is not None


def test_every_variable_has_one_server() -> None:
    main, _ = trainer_programs("127.0.0.1:1", 0, 1)
    block = main.global_block()
    block.append_op("send", {"X": ["x", "w"]}, {}, {"epmap": ["a:1"]})
    with pytest.raises(InvalidArgument, match=r"send at .*\n  expected: 2 endpoints"):
        runnable(main)


@pytest.mark.parametrize("reference", [False, True])
def test_a_step_fetches_what_it_has_received(reference: bool) -> None:
    (endpoint,) = free_endpoints(1)
    wb.set_flags({"FLAGS_executor": "reference" if reference else "compiled"})
    try:
        with running([server_programs(endpoint, 1)]) as (held,):
            main, startup = trainer_programs(endpoint, 0, 1)
            executor, scope = static.Executor(), static.Scope()
            executor.run(startup, scope=scope)
            for expected in (0.8, 0.6):
                (w,) = executor.run(main, feed={"x": np.full(1, 2, np.float32)}, fetch_list=["w"], scope=scope)
                assert np.allclose(w, expected)
            assert np.array_equal(scope.find_var("w").get_tensor().array, held.find_var("w").get_tensor().array)
    finally:
        wb.set_flags({"FLAGS_executor": "compiled"})


def test_T11_a_closed_executor_has_left_its_servers() -> None:
    (endpoint,) = free_endpoints(1)
    with running([server_programs(endpoint, 1)]):
        main, startup = trainer_programs(endpoint, 0, 1)
        executor, other, scope = static.Executor(), static.Executor(), static.Scope()
        executor.run(startup, scope=scope)
        feed = {"x": np.ones(1, np.float32)}
        other.run(main, feed=feed, scope=scope)
        executor.close()
        with pytest.raises(PreconditionNotMet, match="this process has left its parameter servers"):
            other.run(main, feed=feed, scope=scope)


def test_F11_a_gradient_is_cut_and_a_parameter_put_together_on_the_way() -> None:
    """As with `runtime_split_send_recv`: one `send` and one `recv`, which know the blocks."""
    endpoints = free_endpoints(2)
    blocks = [
        server_programs(endpoint, 1, mode=1, shape=(rows, 2), value=rows) for endpoint, rows in zip(endpoints, (3, 2))
    ]
    main = Program()
    with static.program_guard(main, Program()):
        x = static.data("x", [5, 2], "float32")
        w = main.global_block().create_parameter("w", [5, 2], "float32")
        wb.sum(x * w)
    block = main.global_block()
    block.create_var("sent", dtype="bool")
    told = {"epmap": endpoints, "sections": [3, 2], "send_varnames": ["w@GRAD", "w@GRAD"]}
    block.append_op("send", {"X": ["x"]}, {"Out": ["sent"]}, told)
    block.append_op("recv", {"X": ["sent"]}, {"Out": ["w"]}, {"epmap": endpoints, "recv_varnames": ["w", "w"]})
    gradient = np.arange(10, dtype=np.float32).reshape(5, 2)
    with running(blocks) as held:
        executor, scope = static.Executor(), static.Scope()
        scope.var("w").set(np.zeros((5, 2), np.float32))
        (w,) = executor.run(main, feed={"x": gradient}, fetch_list=["w"], scope=scope)
        parts = [one.find_var("w").get_tensor().array.copy() for one in held]
    expected = np.repeat([[3], [2]], [3, 2], axis=0) - 0.1 * gradient
    assert np.allclose(w, expected) and np.array_equal(w, np.concatenate(parts))


class Client:
    """Stands in for servers."""

    def exchange(self, values: Any, place: int) -> Any:
        return [value + 1 for value in values]


def test_bodies_ask_who_knows_the_servers() -> None:
    """`server_exchange` does."""
    x = np.ones(2, np.float32)
    (result,), _ = SERVER_EXCHANGE.forward(numpy_xp, [x], client=Client(), place=0, exchange=1)
    assert np.array_equal(result, [2, 2])
    assert SERVER_EXCHANGE.forward(numpy_xp, None, client=Client(), place=1, exchange=1) == ([], None)


def test_an_exchange_that_is_gone_is_told() -> None:
    with pytest.raises(PreconditionNotMet, match="an executor was closed"):
        client_of({"exchange": -1})
