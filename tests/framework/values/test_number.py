"""A single number that was fetched: it works as a Python number, under `[0]`, and as the array it is."""

# ruff: noqa: UP031  # the form that old programs print their losses in is what is tested

from __future__ import annotations

import copy
import io
import json
import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built
from workbench import static
from workbench.dygraph.dispatch.recorder import dynamic_recorder
from workbench.framework.op.recorder import recording
from workbench.framework.values.number import NumberArray, allocator, copied

SHAPES = [pytest.param((), id="[]"), pytest.param((1,), id="[1]")]


def number(shape: tuple[int, ...], value: Any, dtype: Any = np.float32) -> np.ndarray:
    return copied(np.full(shape, value, dtype))


AS_A_NUMBER: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "int": int,
    "complex": complex,
    "bool": bool,
    "%f": lambda x: "%f" % x,
    "%.3e %s": lambda x: "%.3e|%d" % (x, x),
    "%g in a dict": lambda x: "%(loss)g" % {"loss": x},
    "format": lambda x: format(x, ".4f"),
    "f-string": lambda x: f"{x:10.2f}|{x * 2:.1f}",
    "str.format": lambda x: f"{x:.3f} {x:g}",
    "round": lambda x: (round(x), round(x, 1)),
    "rounded by NumPy": lambda x: "%.2f %.3f" % (np.round(x, 1), np.around(x * 1.5, 2)),
    "floor": lambda x: (math.floor(x), math.ceil(x), math.trunc(x)),
    "math": lambda x: (math.exp(x), math.isnan(x)),
    "compared": lambda x: (bool(x < 3), bool(x == 2.75), bool(x >= 3), min(x, 9.0) < 3, max(x, 1.0) > 2),
    "arithmetic": lambda x: float(((x + 1) * 2 - x) / 4),
    "percent": lambda x: "%.2f%%" % (x * 100),
    "summed": lambda x: "%.3f" % (sum([x, x]) / 2),
    "json": lambda x: json.dumps({"loss": float(x)}),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("use", AS_A_NUMBER)
def test_it_works_as_a_number(shape: tuple[int, ...], use: str) -> None:
    assert AS_A_NUMBER[use](number(shape, 2.75)) == AS_A_NUMBER[use](2.75)


@pytest.mark.parametrize("shape", SHAPES)
def test_integers_are_indexes_and_other_numbers_are_not(shape: tuple[int, ...]) -> None:
    two = number(shape, 2, np.int64)
    assert ["a", "b", "c"][two] == "c" and list(range(two)) == [0, 1] and f"{two:03d}" == "002" and round(two, -1) == 0
    for value, dtype in ((2.0, np.float32), (True, np.bool_)):
        with pytest.raises(TypeError, match="an index is an integer"):
            ["a", "b", "c"][number(shape, value, dtype)]


@pytest.mark.parametrize("shape", SHAPES)
def test_low_precision_alike(shape: tuple[int, ...]) -> None:
    half = number(shape, 0.5, ml_dtypes.bfloat16)
    assert (float(half), f"{half:.2f}", round(half, 1), half[0]) == (0.5, "0.50", 0.5, 0.5)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_element_lies_at_zero(shape: tuple[int, ...]) -> None:
    x = number(shape, 2.75)
    assert x[0] == x[-1] == 2.75 and type(x[0]) is np.float32
    with pytest.raises(IndexError):
        x[1]
    assert x[...].shape == shape and x[None].shape == (1, *shape) and type(x[None]) is np.ndarray


@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_an_array_all_the_same(shape: tuple[int, ...]) -> None:
    x, plain = number(shape, 2.75), np.full(shape, 2.75, np.float32)
    assert isinstance(x, np.ndarray) and x.shape == shape and repr([x]) == repr([plain]) and str(x) == str(plain)
    results = [(x * np.ones(3), plain * np.ones(3)), (x.sum(), plain.sum()), (x + 1, plain + 1), (x > 2, plain > 2)]
    results += [(np.mean([x, x]), np.mean([plain, plain])), (np.stack([x]), np.stack([plain]))]
    for ours, numpys in results:
        assert (np.shape(ours), ours.dtype, ours.tolist()) == (np.shape(numpys), numpys.dtype, numpys.tolist())
    assert type(x * np.ones(3)) is np.ndarray and type(x.sum()) is type(plain.sum())
    same = x
    same += 1
    assert same is x and float(x) == 3.75


@pytest.mark.parametrize("shape", SHAPES)
def test_files_hold_plain_arrays_and_copies_are_numbers(shape: tuple[int, ...]) -> None:
    x, file = number(shape, 2.75), io.BytesIO()
    np.save(file, x)
    file.seek(0)
    for other in (copy.copy(x), copy.deepcopy(x), x.copy()):
        assert "%.2f" % other == "2.75" and other.shape == shape and not np.shares_memory(x, other)
    through = [np.load(file), *(pickle.loads(pickle.dumps(x, p)) for p in range(2, 6))]
    for other in through:
        assert type(other) is np.ndarray and other.shape == shape and other == 2.75 and not np.shares_memory(x, other)
    assert b"workbench" not in pickle.dumps(x)


def test_what_holds_several_elements_is_no_number() -> None:
    assert type(allocator((2,))((2,), np.dtype(np.float32))) is type(copied(np.zeros((1, 1)))) is np.ndarray
    for convert in (float, int, complex, round):
        with pytest.raises(TypeError, match=r"shape \[2\] is no single number"):
            convert(number((1,), 1.0).repeat(2))


def _losses(executor: str, shape: list[int]) -> Any:
    """The loss of two steps: what a first step gives and what a settled one does."""
    with Built() as p:
        x = static.data("x", [None, 3])
        loss = wb.reshape(wb.mean(static.nn.fc(x, 1)), shape)
    feed = {"x": np.ones((4, 3), np.float32)}
    exe, scope = static.Executor(), static.Scope()
    exe.run(p.startup, scope=scope)
    if executor == "parallel":
        program = static.CompiledProgram(p.main).with_data_parallel(places=static.cpu_places(1))
    else:
        program = p.main
    return [exe.run(program, feed, [loss], scope=scope)[0] for _ in range(3)]


@pytest.mark.parametrize("shape", [[], [1]])
@pytest.mark.parametrize("executor", ["serial", "parallel"])
def test_fetched_losses_are_numbers(executor: str, shape: list[int], either: None) -> None:
    for loss in _losses(executor, shape):
        assert isinstance(loss, NumberArray) and list(loss.shape) == shape
        assert "%.6f" % loss == f"{loss[0]:.6f}" == f"{loss.item():.6f}" and int(loss) == int(loss.item())


def test_values_of_several_devices_stay_plain_arrays(either: None) -> None:
    with Built() as p:
        loss = wb.mean(static.data("x", [None, 3]))
    program = static.CompiledProgram(p.main).with_data_parallel(places=static.cpu_places(2))
    for _ in range(3):
        (losses,) = static.Executor().run(program, {"x": np.ones((4, 3), np.float32)}, [loss])
        assert type(losses) is np.ndarray and losses.shape == (2,)


@pytest.mark.parametrize("shape", [[], [1]])
def test_tensors_and_what_they_give_are_numbers(shape: list[int]) -> None:
    with recording(dynamic_recorder):
        tensor = wb.full(shape, 2.75)
    assert float(tensor) == 2.75 and "%.2f" % tensor == f"{tensor:.2f}" == "2.75" and int(tensor) == 2
    assert math.floor(tensor) == 2
    array = tensor.numpy()
    assert "%.2f" % array == "2.75" and array[0] == 2.75 and array.shape == tuple(shape)
    array += 1
    assert float(tensor) == 2.75
    with recording(dynamic_recorder):
        tensor.stop_gradient = False
        (tensor * 4.0).sum().backward()
        assert "%.1f" % tensor.gradient() == "%.1f" % tensor.grad.numpy() == "4.0"


USES = """
import numpy as np
from workbench.framework.values.number import copied
for shape in ((), (1,)):
    x = copied(np.full(shape, 2.75, np.float32))
    assert ("%.2f" % x, f"{x:.1f}", int(x), round(x), x[0], float(x + 1)) == ("2.75", "2.8", 2, 3, 2.75, 3.75)
"""


def test_no_warning_of_numpy_comes_with_it() -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", USES], check=True, timeout=120)
