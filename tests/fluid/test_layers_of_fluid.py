"""Layers under their 1.x names and arguments, against NumPy."""

from typing import Any

import numpy as np
import pytest

import workbench.fluid as fluid
from workbench.errors import EnforceNotMet

L = fluid.layers
X = np.array([[1.0, -2.0, 3.0, 4.0], [0.5, 6.0, -7.0, 8.0], [2.0, 2.0, 2.0, 2.0]], np.float32)


def run(build: Any, *arrays: np.ndarray) -> list[np.ndarray]:
    """What a function of fed variables computes."""
    fed = [fluid.data(f"x{i}", [None, *a.shape[1:]], str(a.dtype)) for i, a in enumerate(arrays)]
    outputs = build(*fed)
    executor = fluid.Executor(fluid.CPUPlace())
    if fluid.default_startup_program().global_block().ops:
        executor.run(fluid.default_startup_program())
    feed = {v.name: a for v, a in zip(fed, arrays)}
    return executor.run(feed=feed, fetch_list=list(outputs) if isinstance(outputs, list | tuple) else [outputs])


def test_data_of_layers_has_a_batch_dimension_in_front_p15() -> None:
    assert L.data("a", shape=[3]).shape == (-1, 3)
    assert L.data("b", shape=[-1, 3]).shape == (-1, 3)
    assert L.data("c", shape=[2, 3], append_batch_size=False, stop_gradient=False).shape == (2, 3)
    assert not fluid.default_main_program().global_block().var("c").stop_gradient


def test_fc_has_the_names_of_p4() -> None:
    out = L.fc(input=fluid.data("x", [None, 4]), size=2, act="relu", param_attr=fluid.ParamAttr(name="w"))
    assert out.name == "fc_0.tmp_2"
    assert [p.name for p in fluid.default_main_program().all_parameters()] == ["w", "fc_0.b_0"]


def test_cross_entropy_takes_probabilities() -> None:
    p = np.array([[0.2, 0.8], [0.5, 0.5], [1.0, 0.0]], np.float32)
    hard = np.array([[1], [0], [-100]])
    losses = run(lambda p, y: [L.cross_entropy(p, y), L.cross_entropy(p, p, soft_label=True)], p, hard)
    np.testing.assert_allclose(losses[0], [[-np.log(0.8)], [-np.log(0.5)], [0]], rtol=1e-6)
    soft = -(p[:2] * np.log(p[:2])).sum(1, keepdims=True)
    np.testing.assert_allclose(losses[1], [*soft, [0]], rtol=1e-6, atol=1e-7)


def test_integers_have_a_last_dimension_of_one_and_operators_their_names_in_1x() -> None:
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    attr = fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(table))
    fetched = run(
        lambda ids, x: [
            L.embedding(ids, [4, 3], param_attr=attr),
            L.one_hot(ids, depth=4),
            *L.topk(x, k=2),
            L.accuracy(x, ids, k=2),
        ],
        np.array([[3], [1], [0]]),
        X,
    )
    for one, other in zip(fetched, [table[[3, 1, 0]], np.eye(4)[[3, 1, 0]], -np.sort(-X)[:, :2]], strict=False):
        np.testing.assert_array_equal(one, other)
    assert fetched[3].tolist() == [[3, 2], [3, 1], [0, 1]] and fetched[4] == 1.0
    types = [op.type for op in fluid.default_main_program().global_block().ops]
    assert types == ["lookup_table", "one_hot", "top_k", "top_k", "accuracy"]


def test_elementwise_axis_is_where_the_second_begins() -> None:
    x, y = np.arange(12, dtype=np.float32).reshape(2, 3, 2), np.array([1.0, 10.0, 100.0], np.float32)
    outputs = [
        L.elementwise_add(a := fluid.data("a", [2, 3, 2]), b := fluid.data("b", [3]), axis=1),
        L.elementwise_mul(a, b, axis=1),
        L.elementwise_sub(a, b, axis=1, act="relu"),
        L.elementwise_div(a, b, axis=1),
        L.elementwise_max(a, b, axis=1),
        L.elementwise_min(a, b, axis=1),
    ]
    fetched = fluid.Executor().run(feed={"a": x, "b": y}, fetch_list=outputs)
    column = y[:, None]
    wanted = [x + column, x * column, np.maximum(x - column, 0), x / column, np.maximum(x, column)]
    for one, other in zip(fetched, [*wanted, np.minimum(x, column)], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_reductions_and_shapes() -> None:
    results = run(
        lambda x: [
            L.reduce_sum(x, dim=1), L.reduce_mean(x, dim=[1], keep_dim=True), L.reduce_max(x), L.reduce_min(x, dim=0),
            L.matmul(x, x, transpose_y=True, alpha=0.5), L.unsqueeze(x, axes=[1]), L.scale(x, scale=2.0, bias=1.0),
            L.sums([x, x, x]), *L.split(x, 2, dim=1), L.concat([x, x], axis=1), L.reshape(x, [-1, 2], act="relu"),
            L.squeeze(L.unsqueeze(x, [1]), [1]),
        ],
        X,
    )  # fmt: skip
    wanted = [
        X.sum(1), X.mean(1, keepdims=True), [X.max()], X.min(0), 0.5 * X @ X.T, X[:, None], 2 * X + 1, 3 * X, X[:, :2],
        X[:, 2:], np.hstack([X, X]), np.maximum(X.reshape(-1, 2), 0), X,
    ]  # fmt: skip
    for one, other in zip(results, wanted, strict=True):
        np.testing.assert_allclose(one, np.asarray(other), rtol=1e-5)


def test_one_hot_and_pooling() -> None:
    ids = np.array([[1], [0]])
    (codes,) = run(lambda i: L.one_hot(i, depth=3), ids)
    np.testing.assert_array_equal(codes, [[0, 1, 0], [1, 0, 0]])


@pytest.mark.parametrize(("kind", "reduce"), [("max", np.max), ("avg", np.mean)])
def test_pool2d(kind: str, reduce: Any) -> None:
    image = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    pooled = run(
        lambda x: [L.pool2d(x, 2, kind, pool_stride=2), L.pool2d(x, pool_type=kind, global_pooling=True)], image
    )
    windows = image.reshape(1, 1, 2, 2, 2, 2)
    np.testing.assert_allclose(pooled[0], reduce(windows, axis=(3, 5)))
    np.testing.assert_allclose(pooled[1].ravel(), reduce(image))


def test_dropout_scales_in_test_programs() -> None:
    out = L.dropout(fluid.data("x", [None, 4]), dropout_prob=0.25)
    test = fluid.default_main_program().clone(for_test=True)
    (output,) = fluid.Executor().run(test, feed={"x": X}, fetch_list=[out])
    np.testing.assert_allclose(output, 0.75 * X)


def test_what_is_not_there_says_so() -> None:
    x = fluid.data("x", [None, 4])
    with pytest.raises(EnforceNotMet, match="pool_type"):
        L.pool2d(fluid.data("i", [1, 1, 4, 4]), pool_type="sum")
    with pytest.raises(NotImplementedError, match="actual_shape"):
        L.reshape(x, [-1, 2], actual_shape=x)
    with pytest.raises(NotImplementedError, match="out of range"):
        L.one_hot(fluid.data("n", [None, 1], "int64"), 3, allow_out_of_range=True)
    with pytest.raises(NotImplementedError, match="NumpyArrayInitializer"):
        fluid.initializer.Uniform(diag_num=2)


def test_initializers_have_the_distributions_of_their_names() -> None:
    shape = (200, 100)
    cases = {
        "constant": (fluid.initializer.Constant(2.0), 2.0, 0.0),
        "uniform": (fluid.initializer.Uniform(-3.0, 3.0, seed=7), 0.0, 3 / 3**0.5),
        "normal": (fluid.initializer.Normal(loc=1.0, scale=0.5), 1.0, 0.5),
        "xavier": (fluid.initializer.Xavier(), 0.0, (2 / 300) ** 0.5),
        "msra": (fluid.initializer.MSRA(uniform=False), 0.0, (2 / 200) ** 0.5),
    }
    for name, (initializer, _, _) in cases.items():
        L.create_parameter(shape, "float32", name=name, default_initializer=initializer)
    fluid.Executor().run(fluid.default_startup_program())
    for name, (_, mean, std) in cases.items():
        value = np.array(fluid.global_scope().find_var(name).get_tensor())
        assert abs(value.mean() - mean) < 0.02 and abs(value.std() - std) < 0.02 * max(std, 0.1) + 1e-6, name


def test_a_seed_of_its_own_repeats_an_initializer() -> None:
    values = []
    for _ in range(2):
        with fluid.unique_name.guard(), fluid.program_guard(fluid.Program(), fluid.Program()):
            L.create_parameter([8], "float32", name="w", default_initializer=fluid.initializer.Uniform(seed=5))
            fluid.Executor().run(fluid.default_startup_program())
            values.append(np.array(fluid.global_scope().find_var("w").get_tensor()))
    np.testing.assert_array_equal(*values)


def test_a_tensor_of_the_scope_is_set_and_read() -> None:
    L.create_parameter([2], "float32", name="w")
    fluid.Executor().run(fluid.default_startup_program())
    fluid.global_scope().find_var("w").get_tensor().set(np.array([3.0, 4.0], np.float32), fluid.CPUPlace())
    assert np.array(fluid.global_scope().find_var("w").get_tensor()).tolist() == [3.0, 4.0]


def test_programs_are_looked_at_as_in_1x() -> None:
    L.fc(fluid.data("x", [None, 4]), 2)
    program = fluid.default_main_program()
    assert "fc_0.w_0" in [v.name for v in program.list_vars()]
    (mul, _) = program.global_block().ops
    assert mul.has_attr("x_num_col_dims") and not mul.has_attr("no_such")


@pytest.mark.parametrize(("kind", "reduce"), [("max", np.max), ("avg", np.mean)])
def test_pool2d_of_the_whole_image_with_channels_last(kind: str, reduce: Any) -> None:
    image = np.random.default_rng(1).normal(size=(2, 3, 4, 5)).astype(np.float32)
    (pooled,) = run(lambda x: L.pool2d(x, pool_type=kind, global_pooling=True, data_format="NHWC"), image)
    np.testing.assert_allclose(pooled, reduce(image, axis=(1, 2), keepdims=True), rtol=1e-6)
    with pytest.raises(EnforceNotMet, match="NWHC"):
        L.pool2d(fluid.data("i", [1, 4, 4, 1]), global_pooling=True, data_format="NWHC")


def test_division_by_a_number_is_one_scale_rounded_as_in_paddle() -> None:
    x = fluid.data("x", [None, 4])
    outputs = [x / 3, x / 49.0, x / np.float32(7), x / 0]
    types = [op.type for op in fluid.default_main_program().global_block().ops]
    assert types == ["scale"] * 3 + ["fill_constant", "elementwise_div"]
    values = fluid.Executor().run(feed={"x": X}, fetch_list=outputs)
    for value, number in zip(values, (3, 49, 7), strict=False):
        np.testing.assert_array_equal(value, X * np.float32(1 / number))
        with fluid.dygraph.guard():
            np.testing.assert_array_equal((fluid.dygraph.to_variable(X) / number).numpy(), value)
    assert np.isinf(values[3]).all()
