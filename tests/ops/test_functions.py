"""The public functions over the ops: Paddle's names and arguments, numbers as operands, dtypes, names."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.config import override
from workbench.dygraph.dispatch.mode import dynamic_guard
from workbench.errors import InvalidArgument, InvalidType
from workbench.facade import names, offered
from workbench.framework.program.guard import program_guard, static_mode
from workbench.framework.program.program import Program
from workbench.ops.math import compare
from workbench.ops.tensor import creation

F = wb.nn.functional
TOPICS = (
    "arithmetic", "assign", "cast", "clip", "triangles", "unary", "accumulate", "reduce", "extreme", "compare",
    "creation", "random", "activation",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _dynamic_mode() -> Iterator[None]:
    from workbench.dygraph.dispatch.recorder import dynamic_recorder
    from workbench.framework.op.recorder import recording

    with recording(dynamic_recorder):
        yield


def tensor(values: Any, dtype: str = "float32") -> Any:
    return wb.to_tensor(np.array(values), dtype=dtype)


def data(program: Program, name: str, shape: Any, dtype: str = "float32") -> Any:
    return program.global_block().create_var(name=name, shape=shape, dtype=dtype, is_data=True)


# Names, arguments and defaults are Paddle 2.x's

SIGNATURES = {
    "add": "x, y, name=None",
    "subtract": "x, y, name=None",
    "maximum": "x, y, name=None",
    "pow": "x, y, name=None",
    "scale": "x, scale=1.0, bias=0.0, bias_after_scale=True, act=None, name=None",
    "clip": "x, min=None, max=None, name=None",
    "cast": "x, dtype",
    "exp": "x, name=None",
    "sum": "x, axis=None, dtype=None, keepdim=False, name=None",
    "mean": "x, axis=None, keepdim=False, name=None",
    "max": "x, axis=None, keepdim=False, name=None",
    "prod": "x, axis=None, keepdim=False, dtype=None, name=None",
    "all": "x, axis=None, keepdim=False, name=None",
    "logsumexp": "x, axis=None, keepdim=False, name=None",
    "argmax": "x, axis=None, keepdim=False, dtype='int64', name=None",
    "where": "condition, x=None, y=None, name=None",
    "logical_and": "x, y, out=None, name=None",
    "full": "shape, fill_value, dtype=None, name=None",
    "full_like": "x, fill_value, dtype=None, name=None",
    "zeros": "shape, dtype=None, name=None",
    "arange": "start=0, end=None, step=1, dtype=None, name=None",
    "linspace": "start, stop, num, dtype=None, name=None",
    "eye": "num_rows, num_columns=None, dtype=None, name=None",
    "tril": "x, diagonal=0, name=None",
    "add_n": "inputs, name=None",
    "increment": "x, value=1.0, name=None",
    "uniform": "shape, dtype=None, min=-1.0, max=1.0, seed=0, name=None",
    "normal": "mean=0.0, std=1.0, shape=None, name=None",
    "randn": "shape, dtype=None, name=None",
    "randperm": "n, dtype='int64', name=None",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name: str) -> None:
    signature = inspect.signature(getattr(wb, name))
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    assert (
        str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty)) == f"({SIGNATURES[name]})"
    )


def test_activation_defaults() -> None:
    defaults = {
        "leaky_relu": {"negative_slope": 0.01},
        "elu": {"alpha": 1.0},
        "softplus": {"beta": 1, "threshold": 20},
        "gelu": {"approximate": False},
        "hardsigmoid": {"slope": 0.1666667, "offset": 0.5},
    }
    for name, expected in defaults.items():
        parameters = inspect.signature(getattr(F, name)).parameters
        assert {k: parameters[k].default for k in expected} == expected


@pytest.mark.parametrize(
    ("name", "module"),
    sorted(
        {
            (name, module)
            for public in ("workbench", "workbench.nn.functional")
            for name, module in names(offered(public)).items()
            if module.split(".")[-1] in TOPICS
        }
    ),
)
def test_public_functions_are_documented_and_annotated(name: str, module: str) -> None:
    import importlib

    function = getattr(importlib.import_module(module), name)
    assert function.__module__ == module
    assert function.__doc__ and len(function.__doc__) > 20
    assert "return" in function.__annotations__


# Operands


def test_a_condition_alone_gives_positions_in_dynamic_mode(static: Program) -> None:
    with pytest.raises(NotImplementedError, match="x and y"):
        wb.where(data(static, "x", [3]) > 0)
    with dynamic_guard():
        assert [part.tolist() for part in wb.where(tensor([[0.0, 2.0], [3.0, 0.0]]) > 1)] == [[[0], [1]], [[1], [0]]]


def test_numbers_are_operands_on_either_side() -> None:
    x = tensor([1.0, 2.0])
    for got, want in (
        (wb.add(x, 1), [2, 3]),
        (wb.subtract(1, x), [0, -1]),
        (wb.multiply(2.5, x), [2.5, 5]),
        (wb.divide(1, x), [1, 0.5]),
        (wb.maximum(x, 1.5), [1.5, 2]),
        (wb.pow(x, 3), [1, 8]),
        (wb.where(x > 1.5, x, 0.0), [0, 2]),
        (wb.add(x, np.float32(1)), [2, 3]),
        (wb.add(x, np.array(1.0)), [2, 3]),
    ):
        assert got.dtype == "float32"
        np.testing.assert_allclose(got.numpy(), want)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_number_leaves_the_dtype_as_it_is(dtype: str) -> None:
    x = tensor([0.5, 2.0], dtype)
    for y in (
        x + 1, 1.5 - x, x * 2.5, x / 3, 3 / x, x**2, x**0.5, 2.0**x, -x, abs(x), x % 0.75, x // 0.75,
        x * np.float64(2.5), wb.clip(x, 0.1, 0.9), wb.scale(x, 0.3), F.relu(x), F.gelu(x), F.sigmoid(x),
        F.leaky_relu(x), F.softplus(x), wb.mean(x), wb.sum(x), wb.exp(x), wb.where(x > 1, 0.3, x),
    ):  # fmt: skip
        assert y.dtype == dtype


def test_operators_of_integers() -> None:
    x = tensor([7, -7, 4], "int64")
    assert (x + 1).dtype == "int64" and (-x).dtype == "int64" and (x**2).dtype == "int64"
    assert (x * 0.5).dtype == "float32" and (x / 2).dtype == "float32"
    np.testing.assert_array_equal((x**2).numpy(), [49, 49, 16])
    np.testing.assert_array_equal((x // 2).numpy(), [3, -4, 2])
    np.testing.assert_array_equal((7 // x).numpy(), [1, -1, 1])
    np.testing.assert_array_equal((x % 3).numpy(), [1, 2, 1])
    np.testing.assert_array_equal((10 % x).numpy(), [3, -4, 2])
    np.testing.assert_array_equal(wb.divide(x, x).numpy(), [1.0, 1.0, 1.0])


def test_logic_operators() -> None:
    a, b = tensor([True, True, False], "bool"), tensor([True, False, False], "bool")
    np.testing.assert_array_equal((a & b).numpy(), [True, False, False])
    np.testing.assert_array_equal((a | b).numpy(), [True, True, False])
    np.testing.assert_array_equal((a ^ b).numpy(), [False, True, False])
    np.testing.assert_array_equal((~a).numpy(), [False, False, True])
    whole = tensor([6, 5], "int64")
    assert (whole & 3).tolist() == [2, 1] and (whole | 3).tolist() == [7, 7] and (whole ^ 3).tolist() == [5, 6]
    assert (~whole).tolist() == [-7, -6]
    with pytest.raises(InvalidType, match="integers or bool"):
        tensor([1.0], "float32") & tensor([1.0], "float32")


def test_functions_are_methods() -> None:
    x = tensor([[1.0, -2.0], [3.0, 4.0]])
    assert x.sum().shape == [] and x.mean(0).shape == [2] and x.max(axis=1, keepdim=True).shape == [2, 1]
    np.testing.assert_allclose(x.exp().numpy(), np.exp(x.numpy()))
    np.testing.assert_array_equal(x.argmax(1).numpy(), [0, 1])
    np.testing.assert_allclose(x.clip(0, 3).numpy(), [[1, 0], [3, 3]])
    np.testing.assert_array_equal((x > 0).where(x, 0.0).numpy(), [[1, 0], [3, 4]])
    np.testing.assert_array_equal(x.tril().numpy(), [[1, 0], [3, 4]])
    np.testing.assert_array_equal((x > -5).all().numpy(), True)


# Results


@pytest.mark.parametrize(("flag", "wanted"), [("auto", []), ("zero_dim", []), ("one", [1])])
def test_full_reductions_in_dynamic_mode(flag: str, wanted: list[int]) -> None:
    x = tensor(np.arange(6.0).reshape(2, 3))
    with override(scalar_shape=flag):
        for function in (wb.sum, wb.mean, wb.max, wb.min, wb.prod, wb.logsumexp, wb.argmax, wb.argmin, wb.numel):
            assert function(x).shape == wanted
        assert wb.sum(tensor([1.0, 2.0]), axis=0).shape == wanted
        assert wb.mean(x, keepdim=True).shape == [1, 1]
        assert wb.sum(x, axis=[0, 1]).shape == wanted
        assert x[1, 2].shape == x[0].sum().shape == wanted


@pytest.mark.parametrize(("flag", "wanted"), [("auto", (1,)), ("zero_dim", ()), ("one", (1,))])
def test_full_reductions_in_programs(flag: str, wanted: tuple[int, ...]) -> None:
    with override(scalar_shape=flag), static_mode(), program_guard(Program(), Program()):
        x = wb.static.data("x", [2, 3])
        outs = [wb.sum(x), wb.mean(x), wb.max(x), wb.argmin(x), wb.numel(x), x[1, 2]]
        assert [out.shape for out in outs] == [wanted] * len(outs)
        values = wb.static.Executor().run(feed={"x": np.ones((2, 3), np.float32)}, fetch_list=outs)
        assert [value.shape for value in values] == [wanted] * len(outs)


def test_sums_of_integers_do_not_overflow() -> None:
    assert wb.sum(tensor([200, 100], "uint8")).numpy() == [300]
    assert wb.sum(tensor([True, True], "bool")).dtype == "int64"
    assert wb.sum(tensor([1.5], "float16"), dtype="float64").dtype == "float64"


def test_every_maximum_gets_the_gradient() -> None:
    """Paddle's reduce_max does not share the gradient among equal elements."""
    from workbench.framework.expr.numpy_functions import numpy_xp
    from workbench.framework.op.record import find_op

    back = find_op("reduce_max_grad")
    x, g = np.array([[1.0, 3.0, 3.0]]), np.array([2.0])
    got = back.forward(numpy_xp, x, np.array([3.0]), g, dim=[1], keep_dim=False, reduce_all=False)
    np.testing.assert_array_equal(got, [[0.0, 2.0, 2.0]])


def test_ties_of_two_operands_and_corners() -> None:
    """Where a derivative jumps, the gradient is the one Paddle gives."""
    from workbench.framework.expr.numpy_functions import numpy_xp
    from workbench.framework.op.record import find_op

    def gradient(type: str, *arrays: Any, **attrs: Any) -> Any:
        op = find_op(type)
        attrs = op.complete(attrs)
        inputs = [np.array(a) for a in arrays]
        out = op.forward(numpy_xp, *inputs, **attrs)
        saved = [out] if "Out" in op.saved else []
        return find_op(op.grad_type).forward(numpy_xp, *inputs, *saved, np.ones_like(out), **attrs)

    assert [g.tolist() for g in gradient("elementwise_max", [1.0], [1.0])] == [[0.0], [1.0]]
    assert [g.tolist() for g in gradient("elementwise_min", [1.0], [1.0])] == [[0.0], [1.0]]
    assert gradient("relu", [0.0]).tolist() == [0.0]
    assert gradient("relu6", [0.0, 6.0]).tolist() == [0.0, 0.0]
    assert gradient("abs", [0.0]).tolist() == [0.0]
    assert gradient("clip", [0.0, 1.0, 0.5], min=0.0, max=1.0).tolist() == [0.0, 0.0, 1.0]
    assert gradient("leaky_relu", [0.0], alpha=0.1).tolist() == [0.1]
    assert gradient("reduce_prod", [[0.0, 2.0, 3.0]], dim=[1]).tolist() == [[6.0, 0.0, 0.0]]
    assert gradient("reduce_prod", [[0.0, 0.0, 3.0]], dim=[1]).tolist() == [[0.0, 0.0, 0.0]]


def test_no_overflow_warnings_for_large_inputs() -> None:
    """Activations reach their limits without computing infinities on the way."""
    x = tensor([-1e4, -100.0, 0.0, 100.0, 1e4])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        for function in (F.sigmoid, F.log_sigmoid, F.silu, F.swish, F.softplus, F.mish, F.elu, F.selu, F.celu):
            assert np.isfinite(function(x).numpy()).all(), function.__name__
        assert np.isfinite(wb.logsumexp(x).numpy()).all()


def test_creation_dtypes() -> None:
    assert wb.zeros([2]).dtype == "float32" and wb.ones([2], "int32").dtype == "int32"
    assert wb.full([2], 3).dtype == "float32" and wb.full([], 3).shape == []
    assert wb.arange(3).dtype == "int64" and wb.arange(0.0, 1.0, 0.25).dtype == "float32"
    assert wb.arange(5, 1, -2).tolist() == [5, 3]
    assert wb.arange(wb.to_tensor(2), wb.to_tensor([5])).tolist() == [2, 3, 4]
    assert wb.full_like(tensor([1, 2], "int64"), 7).dtype == "int64"
    assert wb.ones_like(tensor([1, 2], "int64"), "float64").dtype == "float64"
    assert wb.assign([1.5, 2.0]).dtype == "float32" and wb.assign(np.arange(3)).dtype == "int64"
    np.testing.assert_array_equal(wb.eye(2, 3).numpy(), np.eye(2, 3))
    np.testing.assert_allclose(wb.linspace(0, 1, 5).numpy(), [0, 0.25, 0.5, 0.75, 1])


def test_writing_into_an_existing_tensor() -> None:
    counter = wb.full([1], 3, "int64")
    assert wb.increment(counter, 2) is counter and counter.tolist() == [5]
    target = wb.zeros([2])
    assert wb.assign([4.0, 5.0], target) is target and target.tolist() == [4.0, 5.0]
    with pytest.raises(InvalidArgument, match="does not fit"):
        wb.assign([1.0, 2.0, 3.0], target)
    assert target.tolist() == [4.0, 5.0]
    with pytest.raises(InvalidArgument, match=r"shape \[1\]"):
        wb.increment(target)


def test_assign_copies() -> None:
    x = tensor([1.0, 2.0])
    y = wb.assign(x)
    x.array[0] = 9
    assert y.tolist() == [1.0, 2.0]


def test_python_builtins_are_not_shadowed_for_users() -> None:
    """`from workbench.ops.math.reduce import *` aside, the modules' own `sum` and `max` stay in their modules."""
    assert sum([1, 2]) == 3 and max(1, 2) == 2
    assert compare.where is wb.where and creation.full is wb.full


# In a Program


def test_names_in_a_program(static: Program) -> None:
    """Rules P-4 and P-5: results are counted per layer, those of operators under `tmp`."""
    x = data(static, "x", [-1, 3])
    got = [wb.mean(x), wb.mean(x, axis=0), x + x, x * 2, wb.sum(x), wb.max(x), wb.exp(x), wb.add(x, x, name="mine")]
    assert [v.name for v in got] == [
        "mean_0.tmp_0", "mean_1.tmp_0", "tmp_0", "tmp_1", "sum_0.tmp_0", "max_0.tmp_0", "exp_0.tmp_0", "mine.tmp_0",
    ]  # fmt: skip
    assert [op.type for op in static.global_block().ops] == [
        "mean", "reduce_mean", "elementwise_add", "scale", "reduce_sum", "reduce_max", "exp", "elementwise_add",
    ]  # fmt: skip
    assert got[0].shape == (1,) and got[1].shape == (3,) and got[2].shape == (-1, 3)


def test_attributes_are_plain_python(static: Program) -> None:
    """NumPy scalars in attributes would not survive printing and JSON."""
    x = data(static, "x", [-1, 3])
    x * np.float32(0.5), x ** np.int64(2), x + np.array(1.5), wb.clip(x, np.float64(0), 1), x > np.float32(1)
    wb.full([np.int64(2)], np.float32(3)), wb.arange(np.int32(3)), wb.sum(x, axis=np.int64(0))
    for op in static.global_block().ops:
        for key, value in op.attrs.items():
            values = value if isinstance(value, list | tuple) else [value]
            assert not any(isinstance(v, np.generic | np.ndarray) for v in values), f"{op.type}.{key} = {value!r}"


def test_zeros_like_follows_an_unknown_shape(static: Program) -> None:
    x = data(static, "x", [-1, 3])
    assert wb.zeros_like(x).shape == (-1, 3) and wb.full_like(x, 2, "int32").dtype == "int32"


def test_increment_and_assign_write_the_variable(static: Program) -> None:
    counter, x = wb.full([1], 0.0), data(static, "x", [1])
    assert wb.increment(counter) is counter
    assert wb.assign(x, counter) is counter
    assert [op.output("Out") for op in static.global_block().ops] == [[counter.name]] * 3
    with pytest.raises(InvalidArgument, match="does not fit"):
        wb.assign(data(static, "y", [2]), counter)
    assert len(static.global_block().ops) == 3


def test_constants_inside_functions_have_the_dtype_of_their_tensors() -> None:
    """`assign` makes float32 of float64 arrays: a causal mask would not fit to float64 scores, nor a unit matrix."""
    heads = tensor(np.random.default_rng(0).standard_normal((1, 3, 2, 4)), "float64")
    attended = F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
    assert attended.dtype == "float64"
    np.testing.assert_allclose(attended[:, 0].numpy(), heads[:, 0].numpy(), rtol=1e-14)  # the first sees itself
    x, tau = tensor([[5.0, 1.0], [0.5, 2.0], [0.25, 3.0]], "float64"), tensor([1.1], "float64")
    v = np.array([[1.0], [0.5], [0.25]])
    wanted = (np.eye(3) - 1.1 * v @ v.T)[:, :2]
    np.testing.assert_allclose(wb.linalg.householder_product(x, tau).numpy(), wanted, rtol=1e-14)
