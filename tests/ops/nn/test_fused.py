"""Fused ops give the bits of the ops they stand for: forward, and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.ops.case import run_forward
from workbench.errors import InvalidArgument
from workbench.executors.api.parallel import ParallelExecutor
from workbench.framework.op.record import OPS, find_op
from workbench.framework.program.guard import static_mode
from workbench.framework.values.dtype import as_dtype, float32
from workbench.framework.values.spec import Spec
from workbench.ops.nn.fused import is_activation, reads_result

ACTIVATIONS = [type for type in sorted(OPS) if is_activation(type)]
BY_RESULT = [type for type in ACTIVATIONS if reads_result(type)]
rng = np.random.default_rng(61)
DTYPES = ("float16", "float32", "float64", "bfloat16")
LAYOUTS = {"2-D": (6, 3), "NCHW": (4, 3, 2, 5), "NHWC": (4, 2, 5, 3)}


def draw(shape: Any, dtype: str) -> Any:
    return (rng.standard_normal(shape) * 2).astype(as_dtype(dtype).numpy)


def run(type: str, *arrays: Any, **attrs: Any) -> tuple[Any, ...]:
    op = find_op(type)
    extra = {"wanted": (True,) * len(op.outputs)} if "wanted" in op.needs else {}
    return run_forward(op, arrays, {**op.attrs, **attrs}, **extra)


def same(got: Any, want: Any) -> None:
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_array_equal(a.view(f"V{a.itemsize}"), b.view(f"V{b.itemsize}"))


def act_grad(act: str, before: Any, after: Any, g: Any) -> Any:
    kept = [after] if "Out" in find_op(act).saved else []
    return run(find_op(act).grad_type, before, *kept, g)[0]


def batch(kind: str, dtype: str, given: str) -> tuple[list[Any], dict[str, Any]]:
    shape = LAYOUTS[kind]
    channels = [np.abs(draw(3, dtype)) + np.ones(3, as_dtype(dtype).numpy) for _ in range(4)]
    scale, bias = channels[0] if "scale" in given else None, channels[1] if "bias" in given else None
    return [draw(shape, dtype), scale, bias, *channels[2:]], {"data_layout": "NHWC" if kind == "NHWC" else "NCHW"}


over_batches = [
    pytest.mark.parametrize("act", BY_RESULT),
    pytest.mark.parametrize("given", ["scale bias", "scale", "bias", ""]),
    pytest.mark.parametrize("dtype", DTYPES),
    pytest.mark.parametrize("kind", LAYOUTS),
    pytest.mark.parametrize("mode", [{}, {"is_test": True}]),
]


def over(marks: list[Any]) -> Any:
    def mark(function: Any) -> Any:
        for one in marks:
            function = one(function)
        return function

    return mark


@over(over_batches)
def test_batch_norm_and_activation(mode: dict[str, bool], kind: str, dtype: str, given: str, act: str) -> None:
    inputs, attrs = batch(kind, dtype, given)
    attrs = {**attrs, **mode, "epsilon": 1e-3, "momentum": 0.6}
    normal, *statistics = run("batch_norm", *inputs, **attrs)
    (y,) = run(act, normal)
    fused = run("fused_batch_norm_act", *inputs, **attrs, act_type=act)
    same(fused, (y, *statistics))
    g = draw(y.shape, dtype)
    want = run("batch_norm_grad", *inputs, *statistics[2:], act_grad(act, normal, y, g), *[None] * 4, **attrs)
    same(run("fused_batch_norm_act_grad", *inputs, y, *statistics[2:], g, *[None] * 4, **attrs, act_type=act), want)


@over(over_batches)
def test_batch_norm_sum_and_activation(mode: dict[str, bool], kind: str, dtype: str, given: str, act: str) -> None:
    (x, *channels), attrs = batch(kind, dtype, given)
    attrs = {**attrs, **mode}
    z = draw(x.shape, dtype)
    normal, *statistics = run("batch_norm", x, *channels, **attrs)
    (total,) = run("elementwise_add", normal, z)
    (y,) = run(act, total)
    same(run("fused_bn_add_activation", x, z, *channels, **attrs, act_type=act), (y, *statistics))
    g = draw(y.shape, dtype)
    g_normal, g_z = run("elementwise_add_grad", normal, z, act_grad(act, total, y, g))
    g_x, *rest = run("batch_norm_grad", x, *channels, *statistics[2:], g_normal, *[None] * 4, **attrs)
    attrs["act_type"] = act
    fused = run("fused_bn_add_activation_grad", x, z, *channels, y, *statistics[2:], g, *[None] * 4, **attrs)
    same(fused, (g_x, g_z, *rest))


SHAPES = [((4, 3), (4, 3)), ((4, 3), (3,)), ((4, 1), (2, 1, 5)), ((), (2, 3)), ((0, 3), (3,))]


@pytest.mark.parametrize(("act", "keep"), [*((act, True) for act in ACTIVATIONS), *((act, False) for act in BY_RESULT)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_sum_and_activation(shapes: Any, dtype: str, act: str, keep: bool) -> None:
    attrs = {"functor_list": (act, "elementwise_add"), "save_intermediate_out": keep}
    x, y = (draw(shape, dtype) for shape in shapes)
    (total,) = run("elementwise_add", x, y)
    (out,) = run(act, total)
    kept = total if keep else None
    same(run("fused_elemwise_add_activation", x, y, **attrs), (np.asarray(out), kept))
    g = draw(out.shape, dtype)
    want = run("elementwise_add_grad", x, y, act_grad(act, total, out, g))
    same(run("fused_elemwise_add_activation_grad", x, y, out, kept, g, None, **attrs), want)


def test_no_gradient_of_the_result_no_gradients() -> None:
    """As batch_norm's: by-products pass nothing on."""
    inputs, _ = batch("2-D", "float32", "scale bias")
    y, *statistics = run("fused_batch_norm_act", *inputs)
    for g in run("fused_batch_norm_act_grad", *inputs, y, *statistics[2:], *[None] * 5):
        assert not g.any()
    x, *channels = inputs
    y, *statistics = run("fused_bn_add_activation", x, x, *channels)
    for g in run("fused_bn_add_activation_grad", x, x, *channels, y, *statistics[2:], *[None] * 5):
        assert not g.any()


def trained(fused: bool, devices: int, monkeypatch: pytest.MonkeyPatch) -> list[list[float]]:
    """Losses of four steps; 0 devices = the serial executor."""
    main, startup = wb.static.Program(), wb.static.Program()
    main.random_seed = startup.random_seed = 3
    with static_mode(), wb.utils.unique_name.guard(), wb.static.program_guard(main, startup):
        x = wb.static.data("x", [None, 3], "float32")
        h, s = wb.static.nn.fc(x, 3), wb.static.nn.fc(x, 3)
        moving = [wb.static.create_global_var([3], v, "float32", persistable=True, name=f"moving{v}") for v in (0, 1)]
        for act in ("gelu", "relu", "tanh"):
            attrs = {"functor_list": (act, "elementwise_add"), "save_intermediate_out": act == "gelu"}
            h = find_op(ADD_ACT)(h, s, **attrs)[0] if fused else find_op(act)(h + s)
        if fused:
            h = find_op("fused_bn_add_activation")(h, s, None, None, *moving)[0]
            h = find_op("fused_batch_norm_act")(h, None, None, *moving, act_type="sigmoid")[0]
        else:
            h = find_op("relu")(find_op("batch_norm")(h, None, None, *moving)[0] + s)
            h = find_op("sigmoid")(find_op("batch_norm")(h, None, None, *moving)[0])
        loss = wb.mean(h)
        wb.optimizer.SGD(0.1).minimize(loss)
    scope, feed = wb.static.Scope(), {"x": np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)}
    serial = wb.static.Executor()
    with wb.static.scope_guard(scope):
        serial.run(startup)
        if not devices:
            return [serial.run(main, feed=feed, fetch_list=[loss])[0].tolist() for _ in range(4)]
        monkeypatch.setenv("CPU_NUM", str(devices))
        parallel = ParallelExecutor(False, loss.name, main, scope=scope)
        return [parallel.run([loss.name], feed=feed)[0].tolist() for _ in range(4)]


@pytest.mark.parametrize("devices", [0, 1, 2])
def test_training(devices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = trained(True, devices, monkeypatch)
    assert losses == trained(False, devices, monkeypatch)
    assert losses[0] != losses[3]


ADD_ACT = "fused_elemwise_add_activation"
IMAGE, ROW = Spec((-1, 3, 2, 2), float32), Spec((3,), float32)


@pytest.mark.parametrize(
    ("type", "specs", "attrs", "message"),
    [
        ("fused_batch_norm_act", [IMAGE, *[ROW] * 4], {"act_type": "gelu"}, r"act_type.*\n.*relu, sigmoid.*\n.*gelu"),
        ("fused_batch_norm_act", [IMAGE, Spec((2,), float32), *[ROW] * 3], {}, "Scale of batch_norm"),
        ("fused_bn_add_activation", [IMAGE, ROW, *[ROW] * 4], {}, r"Z has the shape of X\n.*\[\?, 3, 2, 2\]\n.*\[3\]"),
        ("fused_bn_add_activation", [IMAGE, Spec(IMAGE.shape, as_dtype("float64")), *[ROW] * 4], {}, "float64"),
        (ADD_ACT, [ROW, ROW], {"functor_list": ["silu", "elementwise_add"]}, "silu reads the sum"),
        (ADD_ACT, [ROW, ROW], {"functor_list": ["elementwise_add", "relu"]}, "activation of a sum"),
        (ADD_ACT, [ROW, ROW], {"functor_list": ["dropout", "elementwise_add"]}, "dropout"),
        (ADD_ACT, [ROW, Spec((2,), float32)], {}, "broadcast"),
    ],
)
def test_what_is_refused(type: str, specs: list[Any], attrs: dict[str, Any], message: str) -> None:
    op = find_op(type)
    with pytest.raises(InvalidArgument, match=message):
        op.infer(*specs, **op.complete(attrs))
