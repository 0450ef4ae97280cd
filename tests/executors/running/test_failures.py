"""What goes wrong before a step runs is told like what goes wrong in it: op, device, inputs, line."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built
from workbench import static
from workbench.config import override
from workbench.errors import EnforceNotMet, InvalidArgument, Unavailable
from workbench.executors.lowering import programs
from workbench.executors.lowering.operands import Scratch
from workbench.executors.planning.memory import aliases, request, storage


def run(built: Any, feed: dict[str, np.ndarray], fetch: Any) -> Any:
    return static.Executor().run(static.CompiledProgram(built.main), feed=feed, fetch_list=[fetch])


@pytest.mark.parametrize("rows", [10**10, 10**17, 10**18])
def test_no_memory_names_the_op_whose_result_takes_most(rows: int) -> None:
    with Built() as built:
        x = static.data("x", [None, 16])
        y = wb.mean(wb.expand(x, [rows, 16]) + x)
    with pytest.raises(Unavailable) as caught:
        run(built, {"x": np.ones((1, 16), np.float32)}, y)
    text = str(caught.value)
    assert "op 'expand_v2' on cpu:0: no memory" in text and f"float32[{rows}, 16]" in text
    assert "test_failures.py" in text


def test_no_memory_for_an_arena_says_so_too() -> None:
    with Built() as built:
        x = static.data("x", [None, 16])
        y = wb.matmul(x, x, transpose_y=True)
    refusal = mock.patch("workbench.runtime.device.Arena", side_effect=Unavailable("the system gives no bytes"))
    with refusal, pytest.raises(Unavailable, match=r"op 'matmul_v2' on cpu:0: no memory.*\[500, 500\]"):
        run(built, {"x": np.ones((500, 16), np.float32)}, y)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    ("error", "kind"),
    [(ValueError("cannot reshape array of size 320"), InvalidArgument), (OSError(12, "no"), EnforceNotMet)],
)  # fmt: skip
def test_what_fails_while_a_row_is_bound_names_it(error: Exception, kind: type[Exception], native: bool) -> None:
    with Built() as built:
        y = wb.lgamma(static.data("x", [None, 3]))  # for which there are no kernels
    lower = programs.lower

    def failing(row: Any, *given: Any) -> Any:
        if row.node.type == "lgamma":
            raise error
        return lower(row, *given)

    with override(cpu_tape=native), mock.patch.object(programs, "lower", failing), pytest.raises(kind) as caught:
        run(built, {"x": np.ones((2, 3), np.float32)}, y)
    text = str(caught.value)
    assert text.startswith(f"op 'lgamma' failed on cpu:0: {error}")
    assert "input X: " in text and "test_failures.py" in text and caught.value.__cause__ is error


@pytest.mark.usefixtures("tape")
def test_no_room_for_what_rows_share_is_told() -> None:
    with Built() as built:
        y = wb.logsumexp(static.data("x", [None, 3, 4, 5]), axis=[0, 2])  # rows that have to be copied first

    def full(scratch: Any, shape: Any, dtype: Any) -> Any:
        raise MemoryError("Unable to allocate 3 GiB")

    match = "op 'logsumexp' on cpu:0: no memory for its values: Unable"
    with mock.patch.object(Scratch, "__call__", full), pytest.raises(Unavailable, match=match):
        run(built, {"x": np.ones((2, 3, 4, 5), np.float32)}, y)


def test_a_startup_program_without_room_fails_like_a_step() -> None:
    with Built() as built:
        static.nn.fc(static.data("x", [None, 8]), 10**12)
    with pytest.raises(Unavailable, match=r"op 'uniform_random': no memory for its values: Unable(.|\n)*test_failures"):
        static.Executor().run(built.startup, scope=static.Scope())


class Late(ValueError, OSError):
    """What a handler raises; code of ours takes some of its kinds for its own."""


@pytest.fixture
def alarm() -> Iterator[Callable[[], None]]:
    """Has a signal's handler raise."""

    def handler(number: int, frame: Any) -> None:
        raise Late("too late")

    old = signal.signal(signal.SIGALRM, handler)
    yield lambda: signal.raise_signal(signal.SIGALRM)
    signal.signal(signal.SIGALRM, old)


@pytest.mark.parametrize(
    "where",
    [(programs, "lower"), (request, "is_static"), (storage, "nbytes_of"), (aliases, "shown_input")],
    ids=lambda where: where[1],
)
def test_what_a_handler_raises_while_a_step_is_made_ready_is_its_own(where: Any, alarm: Callable[[], None]) -> None:
    with Built() as built:
        x = static.data("x", [None, 4])
        y = wb.mean(wb.lgamma(wb.reshape(x, [-1, 2])))  # for which there are no kernels
    module, name = where
    real, rung = getattr(module, name), 0

    def ringing(*given: Any, **options: Any) -> Any:
        nonlocal rung
        rung += 1
        if rung == 1:
            alarm()
        return real(*given, **options)

    feed = {"x": np.ones((2, 4), np.float32)}
    compiled, exe = static.CompiledProgram(built.main), static.Executor()
    with mock.patch.object(module, name, ringing):
        with pytest.raises(Late) as caught:
            exe.run(compiled, feed=feed, fetch_list=[y])
        assert type(caught.value) is Late and str(caught.value) == "too late"
        (value,) = exe.run(compiled, feed=feed, fetch_list=[y])
    assert abs(value.item()) < 1e-12


def test_an_op_that_fails_tells_the_shapes_it_was_given() -> None:
    with Built() as built:
        x, label = static.data("x", [None, 3]), static.data("label", [None, 1], "int64")
        y = wb.mean(wb.nn.functional.cross_entropy(x, label))
    feed = {"x": np.ones((4, 3), np.float32), "label": np.full((4, 1), 7)}
    with pytest.raises(EnforceNotMet) as caught:
        run(built, feed, y)
    text = str(caught.value)
    assert "on cpu:0" in text and "label int64[4, 1]" in text and "x float32[4, 3]" in text and "?" not in text
