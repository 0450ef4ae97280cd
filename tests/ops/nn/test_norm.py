"""batch_norm and layer_norm as functions: statistics as observed in Paddle, options, and what is refused."""

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import InvalidArgument
from workbench.framework.program.guard import static_mode

F = wb.nn.functional
rng = np.random.default_rng(50)
X = rng.standard_normal((4, 3, 2, 2))


def tensor(a: Any) -> Any:
    return wb.to_tensor(np.asarray(a))


def statistics() -> tuple[Any, Any]:
    return tensor(np.zeros(3)), tensor(np.ones(3))


@pytest.mark.parametrize(("rows", "mean", "variance"), [([1.0, 3.0], 0.2, 1.0), ([10.0, 30.0], 2.0, 10.9)])
def test_moving_statistics_as_observed(rows: list[float], mean: float, variance: float) -> None:
    """The variance that is averaged is the biased one (trap 16)."""
    moving = tensor([0.0]), tensor([1.0])
    F.batch_norm(tensor(np.array(rows)[:, None]), *moving, None, None, training=True)
    np.testing.assert_allclose([m.numpy()[0] for m in moving], [mean, variance], rtol=1e-12)


def test_saved_variance_is_the_inverse_deviation() -> None:
    """Trap 17."""
    from workbench.ops.nn.norm import BATCH_NORM

    outs = BATCH_NORM(tensor([[1.0], [3.0]]), None, None, tensor([0.0]), tensor([1.0]), epsilon=3.0)
    np.testing.assert_allclose(outs[3].numpy(), [2.0])
    np.testing.assert_allclose(outs[4].numpy(), [0.5])


@pytest.mark.parametrize(
    ("options", "own"),
    [
        ({}, False),
        ({"training": True}, True),
        ({"training": True, "use_global_stats": True}, False),
        ({"use_global_stats": False}, True),
    ],
)
def test_which_statistics_are_used(options: dict[str, bool], own: bool) -> None:
    mean, variance = statistics()
    got = F.batch_norm(tensor(X), mean, variance, None, None, epsilon=0.0, **options).numpy()
    want = (X - X.mean((0, 2, 3), keepdims=True)) / X.std((0, 2, 3), keepdims=True) if own else X
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
    assert (mean.numpy() != 0).all() == own
    assert (variance.numpy() != 1).all() == own


@pytest.mark.parametrize(
    ("format", "shape"),
    [
        ("NC", (5, 3)),
        ("NCL", (5, 3, 2)),
        ("NCDHW", (2, 3, 2, 2, 2)),
        ("NLC", (5, 2, 3)),
        ("NDHWC", (2, 2, 2, 2, 3)),
    ],
)
def test_data_formats(format: str, shape: tuple[int, ...]) -> None:
    x = rng.standard_normal(shape)
    got = F.batch_norm(tensor(x), *statistics(), None, None, training=True, data_format=format).numpy()
    axis = format.index("C")
    others = tuple(i for i in range(x.ndim) if i != axis)
    np.testing.assert_allclose(got.mean(others), 0, atol=1e-12)
    np.testing.assert_allclose(got.var(others), 1, atol=1e-3)


def test_running_statistics_in_a_program() -> None:
    """Every run of a training program moves them; its clone for testing uses them and leaves them alone."""
    main, startup = wb.static.Program(), wb.static.Program()
    with static_mode(), wb.utils.unique_name.guard(), wb.static.program_guard(main, startup):
        x = wb.static.data("x", [None, 1], "float32")
        mean, variance = (
            wb.static.create_global_var([1], value, "float32", persistable=True, name=name)
            for name, value in (("mean", 0.0), ("variance", 1.0))
        )
        y = F.batch_norm(x, mean, variance, None, None, training=True)
    test = main.clone(for_test=True)
    exe, feed = wb.static.Executor(), {"x": np.array([[1.0], [3.0]], np.float32)}
    with wb.static.scope_guard(wb.static.Scope()):
        exe.run(startup)
        (trained,) = exe.run(main, feed=feed, fetch_list=[y])
        for _ in range(2):
            tested, m, v = exe.run(test, feed=feed, fetch_list=[y.name, "mean", "variance"])
            np.testing.assert_allclose([m[0], v[0]], [0.2, 1.0], rtol=1e-6)
    np.testing.assert_allclose(trained, [[-1.0], [1.0]], rtol=1e-4)
    np.testing.assert_allclose(tested, [[0.8], [2.8]], rtol=1e-4)


def test_half_precision_inputs_with_float32_statistics() -> None:
    x = (rng.standard_normal((64, 3)) + 100).astype(np.float16)
    mean, variance = (tensor(np.full(3, v, np.float32)) for v in (0, 1))
    y = F.batch_norm(tensor(x), mean, variance, None, None, training=True)
    assert y.dtype == "float16"
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean.numpy(), 0.1 * wide.mean(0), rtol=1e-5)
    np.testing.assert_allclose(variance.numpy(), 0.9 + 0.1 * wide.var(0), rtol=1e-5)
    normed = F.layer_norm(tensor(x), 3, tensor(np.ones(3, np.float32)))
    assert normed.dtype == "float16"


@pytest.mark.parametrize(
    ("x", "scale", "options", "message"),
    [
        (X, None, {"data_format": "CHWN"}, "data_format is one of NC, NCL.*got 'CHWN'"),
        (X[0, 0, 0], None, {}, r"at least 2 dimensions\n.*\[2\]"),
        (X, np.ones(2), {}, r"Scale of batch_norm has one entry per channel\n.*\[3\]\n.*\[2\]"),
        (X, None, {"data_format": "NHWC"}, r"Mean of batch_norm has one entry per channel\n.*\[2\]\n.*\[3\]"),
        (X[:0], None, {"training": True}, r"at least one value per channel\n.*\n.*\[0, 3, 2, 2\]"),
        (np.ones((2, 3), np.int64), None, {}, "floating-point"),
    ],
)
def test_batch_norm_refuses(x: np.ndarray, scale: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        F.batch_norm(tensor(x), *statistics(), scale if scale is None else tensor(scale), None, **options)


@pytest.mark.parametrize("shape", [2, [2, 2], (3, 2, 2), [4, 3, 2, 2]])
def test_layer_norm_over_the_last_dimensions(shape: Any) -> None:
    count = 1 if isinstance(shape, int) else len(shape)
    axes = tuple(range(4 - count, 4))
    got = F.layer_norm(tensor(X), shape).numpy()
    np.testing.assert_allclose(got.mean(axes), 0, atol=1e-12)
    centred = X - X.mean(axes, keepdims=True)
    np.testing.assert_allclose(got, centred / np.sqrt(X.var(axes, keepdims=True) + 1e-5), rtol=1e-9)


@pytest.mark.parametrize(
    ("shape", "weight", "message"),
    [
        (3, None, r"\[\.\.\., 3\]\n.*\[4, 3, 2, 2\]"),
        ([1, 4, 3, 2, 2], None, "normalises the last dimensions"),
        ([], None, "normalises the last dimensions"),
        (
            [2, 2],
            np.ones(3),
            r"Scale of layer_norm has one entry per normalised element\n.*\[4\] or \[2, 2\]\n.*\[3\]",
        ),
    ],
)
def test_layer_norm_refuses(shape: Any, weight: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        F.layer_norm(tensor(X), shape, weight if weight is None else tensor(weight))
