"""Sparse gradients in kernels, of tables of which some rows are read: the bits of NumPy calls and of the reference."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built
from tests.executors.tape.runs import tape
from tests.parallel.models import devices
from workbench import static
from workbench.config import override
from workbench.errors import InvalidArgument
from workbench.executors.lowering.tape.registry import ANY_UPDATE, RULES
from workbench.executors.lowering.tape.segment import Segment
from workbench.executors.lowering.tape.vector_code import Unsuitable
from workbench.framework.values.rows import Rows
from workbench.framework.values.spec import ROWS

HEIGHT, WIDTH = 11, 5
IDS = np.array([3, 7, 3, 0, 3, 10, 7, 3, 0, 3], np.int64)  # some often, so that the order of their sum is seen
MORE = np.array([7, 1, 1, 1, 5, 5, 7, 0, 2, 2], np.int64)

Make = Callable[..., Any]

OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda **given: wb.optimizer.SGD(0.1, **given),
    "momentum": lambda **given: wb.optimizer.Momentum(0.1, 0.9, **given),
    "nesterov": lambda **given: wb.optimizer.Momentum(0.1, 0.9, use_nesterov=True, **given),
    "adam": lambda **given: wb.optimizer.Adam(0.1, **given),
    "lazy adam": lambda **given: wb.optimizer.Adam(0.1, lazy_mode=True, **given),
    "adamw": lambda **given: wb.optimizer.AdamW(0.1, **given),
    "adagrad": lambda **given: wb.optimizer.Adagrad(0.1, **given),
    "rmsprop": lambda **given: wb.optimizer.RMSProp(0.1, momentum=0.9, centered=True, **given),
    "adamax": lambda **given: wb.optimizer.Adamax(0.1, **given),
    "adadelta": lambda **given: wb.optimizer.Adadelta(0.1, **given),
}
EXACT = {"decay": {"weight_decay": 0.01}, "by value": {"grad_clip": wb.nn.ClipGradByValue(0.25)}}
NORMS = {"norm": wb.nn.ClipGradByNorm(0.5), "global norm": wb.nn.ClipGradByGlobalNorm(0.5)}


def table(name: str, padding: int | None = None, dtype: str = "float32") -> Callable[[Any], Any]:
    start = wb.nn.initializer.Uniform(-1, 1)
    return lambda ids: static.nn.embedding(
        ids, [HEIGHT, WIDTH], is_sparse=True, padding_idx=padding, dtype=dtype,
        param_attr=wb.ParamAttr(name, initializer=start),
    )  # fmt: skip


def trained(make: Make, twice: bool = False, padding: int | None = None, dtype: str = "float32", **given: Any) -> Built:
    """A program whose gradients are the numbers it is fed: nothing is rounded before the update.

    Args:
        twice: the table is read twice, so that its gradient is the sum of two.
    """
    with Built() as built:
        built.main.random_seed = built.startup.random_seed = 5
        ids, more = static.data("ids", [None], "int64"), static.data("more", [None], "int64")
        weight = wb.cast(static.data("weight", [None, WIDTH]), dtype)
        look = table("table", padding, dtype)
        read = look(ids) + look(more) if twice else look(ids) * (more.unsqueeze(1) < 100).astype(dtype)
        loss = wb.sum(read * weight)
        make(**given).minimize(loss)
        built.loss = loss  # type: ignore[attr-defined]
    return built


def fed(rows: int, step: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(step)
    weight = rng.standard_normal((rows, WIDTH)).astype(np.float32) * 10.0 ** rng.integers(-3, 4, (rows, 1))
    return {"ids": np.roll(IDS, step)[:rows], "more": MORE[:rows], "weight": weight.astype(np.float32)}


def executor(built: Built, scope: Any, count: int = 1, in_reduce: bool = False) -> static.ParallelExecutor:
    """One on so many devices, with fresh parameters."""
    static.Executor().run(built.startup, scope=scope)
    strategy = static.BuildStrategy()
    if in_reduce:
        strategy.reduce_strategy = static.BuildStrategy.ReduceStrategy.Reduce
    loss = built.loss.name  # type: ignore[attr-defined]
    with devices(count):
        return static.ParallelExecutor(
            use_cuda=False, main_program=built.main, scope=scope, loss_name=loss, build_strategy=strategy
        )


def state_after(
    built: Built, count: int = 1, in_reduce: bool = False, rows: tuple[int, ...] = (10, 10, 10)
) -> tuple[dict[str, np.ndarray], set[str]]:
    """What the scope holds after some steps, and the types of ops that ran in Python."""
    scope = static.Scope()
    exe = executor(built, scope, count, in_reduce)
    in_python: set[str] = set()
    for step, many in enumerate(rows):
        exe.run([], feed=fed(many, step))
        binding = exe.inspection.last
        units = [unit for program in (*binding.speculative, *binding.commit) for unit in program.units]
        in_python |= {unit.row.node.type for unit in units if not isinstance(unit, Segment)}
    return values_of(built, scope), in_python


def values_of(built: Built, scope: Any) -> dict[str, np.ndarray]:
    names = [v.name for v in built.main.list_vars() if v.persistable]
    return {name: np.array(scope.find_var(name).get_tensor()) for name in names if scope.find_var(name) is not None}


def check(built: Built, exactly: bool = True, **run: Any) -> None:
    with override(cpu_tape=False):
        expected, _ = state_after(built, **run)
    with tape():
        state, in_python = state_after(built, **run)
    assert in_python == set()
    assert state.keys() == expected.keys() and any("table" in name for name in state)
    for name, value in expected.items():
        if exactly:
            np.testing.assert_array_equal(state[name], value, err_msg=name)
        else:
            np.testing.assert_allclose(state[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates(name: str, twice: bool) -> None:
    check(trained(OPTIMIZERS[name], twice))


@pytest.mark.parametrize("name", ["sgd", "nesterov", "adam", "lazy adam"])
@pytest.mark.parametrize("kind", EXACT)
def test_tables_of_float64(name: str, kind: str) -> None:
    """Bits that float32 has not are kept: sums of terms a thousand times as large as others."""
    check(trained(OPTIMIZERS[name], twice=True, dtype="float64", **EXACT[kind]))


def test_lamb() -> None:
    with override(cpu_tape=False):
        expected, _ = state_after(trained(wb.optimizer.Lamb))
    with tape():
        state, in_python = state_after(trained(wb.optimizer.Lamb))
    assert in_python == {"lamb_ratio"}  # of the table, which reads what kernels have made
    np.testing.assert_allclose(state["table"], expected["table"], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["sgd", "nesterov", "adam", "lazy adam", "adagrad"])
def test_updates_are_those_of_the_reference(name: str) -> None:
    built, scope = trained(OPTIMIZERS[name], twice=True), static.Scope()
    with override(executor="reference"):
        exe = static.Executor()
        exe.run(built.startup, scope=scope)
        for step in range(3):
            exe.run(built.main, feed=fed(10, step), scope=scope)
    with tape():
        computed, _ = state_after(built)
    for variable, value in values_of(built, scope).items():
        np.testing.assert_array_equal(computed[variable], value, err_msg=variable)


@pytest.mark.parametrize("in_reduce", [False, True])
@pytest.mark.parametrize("name", ["sgd", "adam", "lazy adam"])
def test_several_devices(name: str, in_reduce: bool) -> None:
    check(trained(OPTIMIZERS[name], twice=True), count=2, in_reduce=in_reduce)


@pytest.mark.parametrize("padding", [3, -1])
def test_padding(padding: int) -> None:
    check(trained(OPTIMIZERS["sgd"], padding=padding))


@pytest.mark.parametrize("kind", EXACT)
@pytest.mark.parametrize("twice", [False, True])
def test_decay_and_clips(kind: str, twice: bool) -> None:
    check(trained(OPTIMIZERS["sgd"], twice, **EXACT[kind]))


@pytest.mark.parametrize("kind", NORMS)
def test_clips_by_norm(kind: str) -> None:
    check(trained(OPTIMIZERS["sgd"], twice=True, grad_clip=NORMS[kind]), exactly=False)


def test_any_number_of_rows() -> None:
    """Sizes that have not been seen are filled into one plan."""
    check(trained(OPTIMIZERS["lazy adam"], twice=True), rows=(10, 4, 7, 1, 9, 4, 8))


def test_the_gradient_can_be_fetched() -> None:
    built = trained(OPTIMIZERS["sgd"], twice=True)
    gradients = []
    for on in (False, True):
        with override(cpu_tape=on):
            gradients.append(executor(built, static.Scope()).run(["table@GRAD"], feed=fed(10, 0))[0])
    np.testing.assert_array_equal(*gradients)
    assert gradients[0].shape == (HEIGHT, WIDTH) and np.count_nonzero(gradients[0].any(axis=1)) == 7


def test_without_kernels_what_allocates_is_no_part_of_the_commit() -> None:
    with override(cpu_tape=False):
        exe = executor(trained(OPTIMIZERS["lazy adam"]), static.Scope())
        exe.run([], feed=fed(10, 0))
    plan = exe.inspection.last.plan
    assert plan.staged and not any(v.spec.kind == ROWS for row in plan.commit for v in row.node.reads)


def test_what_is_not_in_the_table_is_told_and_nothing_applied() -> None:
    built, scope = trained(OPTIMIZERS["adagrad"]), static.Scope()
    with tape():
        exe = executor(built, scope)
    exe.run([], feed=fed(10, 0))
    before = values_of(built, scope)
    bad = fed(10, 1)
    bad["ids"] = np.where(bad["ids"] == 10, HEIGHT, bad["ids"])
    with pytest.raises(InvalidArgument, match="embedding: id 11"):
        exe.run([], feed=bad)
    for name, value in values_of(built, scope).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    exe.run([], feed=fed(10, 1))
    assert not np.array_equal(values_of(built, scope)["table"], before["table"])


@pytest.mark.parametrize("name", ["sgd", "adam", "lazy adam"])
@pytest.mark.parametrize("refused", ["lookup_table_v2_grad", "sum", "update"])
def test_what_kernels_turn_out_not_to_take_runs_in_python(
    refused: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python reads what kernels have made, and the other way round; the commit changes the scope all the same."""

    def refuse(writer: Any, row: Any) -> None:
        raise Unsuitable

    built = trained(OPTIMIZERS[name], twice=True)
    with override(cpu_tape=False):
        expected, _ = state_after(built, rows=(10, 7, 4, 9))
    op_type = name.split()[-1] if refused == "update" else refused
    monkeypatch.setitem(RULES, ANY_UPDATE if refused == "update" else refused, refuse)
    with tape():
        computed, in_python = state_after(built, rows=(10, 7, 4, 9))
    assert op_type in in_python
    for variable, value in expected.items():
        np.testing.assert_array_equal(computed[variable], value, err_msg=variable)


@pytest.mark.parametrize("executor", ["", "reference"])
def test_a_sparse_gradient_is_scaled_by_the_operator_of_dense_ones(executor: str) -> None:
    with Built() as built:
        ids, weight = static.data("ids", [None], "int64"), static.data("weight", [None, WIDTH])
        loss = wb.sum(table("table")(ids) * weight)
        ((_, gradient),) = static.append_backward(loss)
        halved = wb.scale(gradient, 0.5)
        with pytest.raises(InvalidArgument, match="scale adds nothing to a sparse gradient"):
            wb.scale(gradient, 0.5, bias=1.0)
    rows = np.array([3, 1, 3])
    given = np.arange(3 * WIDTH, dtype=np.float32).reshape(3, WIDTH)
    expected = np.zeros((HEIGHT, WIDTH), np.float32)
    np.add.at(expected, rows, given / 2)
    with override(executor=executor) if executor else nullcontext():
        exe = static.Executor()
        exe.run(built.startup)
        (result,) = exe.run(built.main, feed={"ids": rows, "weight": given}, fetch_list=[halved])
    assert np.array_equal(result.to_dense(np) if isinstance(result, Rows) else result, expected)


def test_a_sparse_gradient_is_scaled_at_once() -> None:
    table = wb.nn.Embedding(4, 2, sparse=True)
    wb.sum(table(wb.to_tensor([1, 3, 1]))).backward()
    assert np.array_equal(np.asarray(wb.scale(table.weight.grad, 0.5)), [[0, 0], [1, 1], [0, 0], [0.5, 0.5]])
