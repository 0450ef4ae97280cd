"""Updates with sparse gradients that no optimizer writes, but a program from a file may hold: kernels, calls and the
interpreter do the same with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import workbench as wb
from workbench import static
from workbench.config import override
from workbench.errors import InvalidArgument
from workbench.framework.program.guard import static_mode
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program

IDS = np.array([[1, 5], [5, 2], [0, 1]])


@pytest.fixture(autouse=True)
def _static() -> Iterator[None]:
    with static_mode():
        yield


def program(change: Callable[[Program, dict[str, Operator]], None]) -> tuple[Program, Program, str]:
    """A table and a weight of one shape trained with Adam, and changed; the startup program; the loss."""
    main, startup = static.Program(), static.Program()
    main.random_seed = startup.random_seed = 3
    with wb.utils.unique_name.guard(), static.program_guard(main, startup):
        x, ids = static.data("x", [None, 12]), static.data("ids", [None, 2], "int64")
        rows = static.nn.embedding(ids, [12, 4], is_sparse=True, param_attr="table")
        loss = wb.mean((static.nn.fc(x, 4, weight_attr="weight") - wb.mean(rows, axis=1)) ** 2)
        wb.optimizer.Adam(0.1, lazy_mode=True).minimize(loss)
    change(main, {op.inputs["Param"][0]: op for op in main.all_ops() if op.type == "adam"})
    main.touch()
    return main, startup, loss.name


def values_after(main: Program, startup: Program, loss: str) -> dict[str, np.ndarray]:
    """What the scope holds after three steps."""
    scope, exe = static.Scope(), static.Executor()
    exe.run(startup, scope=scope)
    feed = {"x": np.linspace(-1, 1, 36, dtype=np.float32).reshape(3, 12), "ids": IDS}
    for _ in range(3):
        exe.run(main, feed=feed, fetch_list=[loss], scope=scope)
    return {v.name: np.array(scope.find_var(v.name).get_tensor()) for v in main.persistables()}


def writes_the_moment_of_the_table(main: Program, updates: dict[str, Operator]) -> None:
    (name,) = updates["table"].outputs["Moment1Out"]
    main.global_block().ops.sort(key=lambda op: op is updates["weight"])  # the dense one comes last
    updates["weight"].outputs["Moment1Out"] = [name]


def writes_no_moment(main: Program, updates: dict[str, Operator]) -> None:
    del updates["table"].outputs["Moment1Out"]


def writes_a_power_elsewhere(main: Program, updates: dict[str, Operator]) -> None:
    main.global_block().create_var("elsewhere", [1], "float32")
    updates["table"].outputs["Beta1PowOut"] = ["elsewhere"]


def knows_no_height(main: Program, updates: dict[str, Operator]) -> None:
    (name,) = updates["table"].inputs["Grad"]
    main.global_block().vars[name].shape = (-1, 4)


@pytest.mark.parametrize(
    "change", [writes_the_moment_of_the_table, writes_no_moment, writes_a_power_elsewhere, knows_no_height]
)
def test_it_is_the_same_however_it_is_run(
    change: Callable[[Program, dict[str, Operator]], None], lowering: str
) -> None:
    main, startup, loss = program(change)
    with override(executor="reference"):
        expected = values_after(main, startup, loss)
    got = values_after(main, startup, loss)
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_a_sparse_gradient_is_nothing_a_scope_keeps() -> None:
    def keep(main: Program, updates: dict[str, Operator]) -> None:
        (name,) = updates["table"].inputs["Grad"]
        main.global_block().vars[name].persistable = True

    with pytest.raises(InvalidArgument, match="'table@GRAD' of block 0 is persistable and a sparse gradient"):
        values_after(*program(keep))
