"""Layers of static programs against the functions and layers of dynamic mode, with the values of their parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import static
from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.names import guard
from workbench.framework.program.guard import program_guard, static_mode
from workbench.framework.program.program import Program

F = wb.nn.functional
R = np.random.default_rng(9)
VOLUME = R.normal(size=(2, 4, 3, 3, 3)).astype(np.float32)
IMAGE = R.normal(size=(2, 4, 3, 5)).astype(np.float32)
LAST = np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1))
ROWS, OTHER = R.normal(size=(3, 5)).astype(np.float32), R.normal(size=(3, 4)).astype(np.float32)
WEIGHT = R.normal(size=(4, 3, 2)).astype(np.float32)

Layer = tuple[Callable[..., Any], Callable[..., Any], tuple[np.ndarray, ...]]
LAYERS: dict[str, Layer] = {
    "conv3d": (
        lambda x: static.nn.conv3d(x, 6, 2, stride=2, padding=1, groups=2, act="relu"),
        lambda x, w, b: F.relu(F.conv3d(x, w, b, 2, 1, 1, 2)),
        (VOLUME,),
    ),
    "conv3d without a bias": (
        lambda x: static.nn.conv3d(x, 2, [1, 2, 3], bias_attr=False), lambda x, w: F.conv3d(x, w), (VOLUME,)
    ),
    "conv3d_transpose": (
        lambda x: static.nn.conv3d_transpose(x, 2, filter_size=2, stride=2),
        lambda x, w, b: F.conv3d_transpose(x, w, b, 2),
        (VOLUME,),
    ),
    "group_norm": (
        lambda x: static.nn.group_norm(x, 2, act="tanh"),
        lambda x, w, b: wb.tanh(F.group_norm(x, 2, 1e-5, w, b)),
        (IMAGE,),
    ),
    "group_norm, channels last": (
        lambda x: static.nn.group_norm(x, 2, data_layout="NHWC", bias_attr=False),
        lambda x, w: F.group_norm(x, 2, 1e-5, w, data_format="NHWC"),
        (LAST,),
    ),
    "instance_norm": (
        static.nn.instance_norm, lambda x, w, b: F.instance_norm(x, weight=w, bias=b), (IMAGE,)
    ),
    "prelu of all": (lambda x: static.nn.prelu(x, "all"), lambda x, a: F.prelu(x, a), (IMAGE,)),
    "prelu by channel": (lambda x: static.nn.prelu(x, "channel"), lambda x, a: F.prelu(x, a.reshape([-1])), (IMAGE,)),
    "prelu by element": (lambda x: static.nn.prelu(x, "element"), lambda x, a: wb.where(x > 0, x, x * a), (IMAGE,)),
    "bilinear_tensor_product": (
        lambda x, y: static.nn.bilinear_tensor_product(x, y, 6, act="sigmoid"),
        lambda x, y, w, b: F.sigmoid(F.bilinear(x, y, w, b)),
        (ROWS, OTHER),
    ),
    "spectral_norm": (
        lambda w: static.nn.spectral_norm(w, 1, 50),
        lambda w, u, v: w / float(np.linalg.svd(w.numpy().transpose(1, 0, 2).reshape(3, 8))[1][0]),
        (WEIGHT,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_computes_what_its_function_does(name: str) -> None:
    build, function, arrays = LAYERS[name]
    main, startup, scope = Program(), Program(), static.Scope()
    with guard(), static_mode(), program_guard(main, startup):
        inputs = [static.data(f"x{i}", [None if i == 0 and a.shape[0] != 4 else a.shape[0], *a.shape[1:]])
                  for i, a in enumerate(arrays)]  # fmt: skip
        out = build(*inputs)
    parameters = [p.name for p in main.all_parameters()]
    with static.scope_guard(scope):
        executor = static.Executor()
        executor.run(startup)
        for name in parameters:  # biases and scales that do something
            now = main.global_block().var(name).get_value().array
            main.global_block().var(name).set_value(now + R.normal(size=now.shape).astype(np.float32) * 0.1)
        values = [main.global_block().var(name).get_value() for name in parameters]
        feed = {x.name: a for x, a in zip(inputs, arrays, strict=True)}
        (output,) = executor.run(main, feed=feed, fetch_list=[out])
    wanted = function(*map(wb.to_tensor, arrays), *values).numpy()
    np.testing.assert_allclose(output, wanted, rtol=1e-4, atol=1e-5)
    assert all(d in (-1, n) for d, n in zip(out.shape, output.shape, strict=True))


def run(build: Callable[[Any], Any], value: Any, dtype: str = "float32") -> list[float]:
    with guard(), static_mode(), program_guard(Program(), Program()):
        x = static.data("x", [1], dtype)
        return static.Executor().run(feed={"x": np.array([value], dtype)}, fetch_list=[build(x)])[0].tolist()


@pytest.mark.parametrize(("value", "wanted"), [(-3.0, 3.0), (0.5, 0.5), (4.0, 1.0)])
def test_case_takes_the_first_condition_that_holds(value: float, wanted: float) -> None:
    pairs = lambda x: [(x < 0.0, lambda: x * -1.0), (x > 1.0, lambda: x * 0.0 + 1.0)]  # noqa: E731
    assert run(lambda x: static.nn.case(pairs(x), lambda: x * 1.0), value) == [wanted]
    assert static.nn.case(pairs(wb.to_tensor([value])), lambda: wb.to_tensor([value])).item() == wanted


def test_without_a_default_the_last_function_is_it() -> None:
    assert run(lambda x: static.nn.case([(x < 0.0, lambda: x * 2.0), (x > 9.0, lambda: x * 3.0)]), 1.0) == [3.0]
    branches = {3: lambda: wb.full([1], 30.0), 1: lambda: wb.full([1], 10.0)}
    assert run(lambda x: static.nn.switch_case(x, branches), 7, "int64") == [30.0]


@pytest.mark.parametrize(("index", "wanted"), [(1, [[1.0, 1.0]]), (2, [[2, 2], [2, 2]]), (5, [3, 3, 3])])
def test_of_an_index_the_program_knows_functions_may_return_anything(index: int, wanted: Any) -> None:
    branches = {1: lambda: wb.full([1, 2], 1.0), 2: lambda: wb.full([2, 2], 2, "int32")}
    known = lambda x: static.nn.switch_case(wb.full([1], index, "int32"), branches, lambda: wb.full([3], 3, "int32"))  # noqa: E731
    assert run(known, 0.0) == wanted


def test_an_index_that_is_written_again_is_not_known() -> None:
    def chosen(x: Any) -> Any:
        index = wb.full([1], 0, "int64")
        wb.assign(x.astype("int64"), index)
        return static.nn.switch_case(index, [lambda: x + 10.0, lambda: x + 20.0])

    assert run(chosen, 1.0) == [21.0]


def test_instance_norm_of_single_values_leaves_the_shift() -> None:
    with guard(), static_mode(), program_guard(Program(), Program()):
        shift = wb.ParamAttr(initializer=wb.nn.initializer.Constant(3.0))
        y = static.nn.instance_norm(static.data("x", [2, 3]), bias_attr=shift)
        executor = static.Executor()
        executor.run(static.default_startup_program())
        (normed,) = executor.run(feed={"x": np.arange(6, dtype=np.float32).reshape(2, 3)}, fetch_list=[y])
    assert normed.tolist() == [[3.0] * 3] * 2


@pytest.mark.parametrize(("index", "wanted"), [(0, 10.0), (1, 20.0), (5, 0.0)])
def test_switch_case_takes_the_function_of_the_index(index: int, wanted: float) -> None:
    functions = [lambda: wb.full([1], 10.0), lambda: wb.full([1], 20.0)]
    default = lambda: wb.zeros([1])  # noqa: E731
    assert run(lambda x: static.nn.switch_case(x, functions, default), index, "int64") == [wanted]
    assert run(lambda x: static.nn.switch_case(x, list(enumerate(functions)), default), index, "int64") == [wanted]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: static.nn.case([]), InvalidArgument, "at least one"),
        (lambda: static.nn.case([3]), InvalidType, "pairs"),
        (lambda: static.nn.case([(True, 3)]), InvalidType, "branch"),
        (lambda: static.nn.switch_case(None, {}), InvalidArgument, "at least one"),
        (lambda: static.nn.switch_case(None, [(1, len), (1, len)]), InvalidArgument, "twice"),
        (lambda: static.nn.switch_case(None, [("a", len)]), InvalidType, "int and a function"),
        (lambda: static.nn.conv3d(static.data("x", [1, 3, 4, 4, 4]), 4, 2, groups=2), InvalidArgument, "groups"),
        (lambda: static.nn.conv3d_transpose(static.data("x", [1, 2, 4, 4, 4]), 4), InvalidArgument, "filter_size"),
        (lambda: static.nn.prelu(static.data("x", [1, 2]), "half"), InvalidArgument, "mode"),
        (lambda: static.nn.group_norm(3, 1), InvalidType, "Variable"),
    ],
)
def test_what_is_refused(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with guard(), static_mode(), program_guard(Program(), Program()), pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("mode", "shape", "data_format", "wanted"),
    [
        ("all", [None, 4, 5, 6], "NCHW", (1,)),
        ("channel", [None, 4, 5, 6], "NCHW", (1, 4, 1, 1)),
        ("channel", [None, 4], "NCHW", (1, 4, 1, 1)),
        ("channel", [2, 5, 6, 4], "NHWC", (1, 1, 1, 4)),
        ("element", [None, 4, 5], "NCHW", (1, 4, 5)),
    ],
)
def test_slopes_of_prelu_have_the_shape_paddle_saves(mode: str, shape: Any, data_format: str, wanted: Any) -> None:
    """Read off Paddle 1.8.5 and 2.6.2, so that what one of them has saved can be loaded; and it computes."""
    main, startup, scope = Program(), Program(), static.Scope()
    with guard(), static_mode(), program_guard(main, startup):
        x = static.data("x", shape)
        out = static.nn.prelu(x, mode, data_format=data_format)
    assert [tuple(p.shape) for p in main.all_parameters()] == [wanted]
    feed = -np.ones([2 if d is None else d for d in shape], np.float32)
    executor = static.Executor()
    executor.run(startup, scope=scope)
    np.testing.assert_array_equal(executor.run(main, {"x": feed}, [out], scope=scope)[0], 0.25 * feed)


def test_labels_are_smoothed_over_classes_whose_count_is_not_known() -> None:
    """By their share of 1, as where it is known; a count of -1 made it a negative one."""
    labels = np.eye(4, dtype=np.float32)[:2]
    with guard(), static_mode(), program_guard(Program(), Program()):
        x, prior = static.data("x", [None, None]), static.data("prior", [1, None])
        x.stop_gradient = prior.stop_gradient = False
        out = F.label_smooth(x, epsilon=0.2)
        slopes = static.gradients(F.label_smooth(x, prior, 0.2), [x, prior])
        results = static.Executor().run(
            feed={"x": labels, "prior": labels[:1]}, fetch_list=[out, slopes[0]], scope=static.Scope()
        )
    np.testing.assert_allclose(results[0], labels * 0.8 + 0.05, rtol=1e-6)
    np.testing.assert_allclose(results[1], np.full((2, 4), 0.8), rtol=1e-6)
    assert slopes[1] is None  # Paddle takes none of the prior
