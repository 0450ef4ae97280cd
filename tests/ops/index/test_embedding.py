"""Embedding and one-hot as functions: padding, sparse gradients in a program, and what is refused."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from workbench.errors import InvalidArgument
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.record import find_op
from workbench.framework.program.guard import static_mode
from workbench.framework.values.rows import Rows
from workbench.ops.index.embedding import LOOKUP_TABLE
from workbench.ops.math.reductions.reduce import mean

F = wb.nn.functional
TABLE = np.arange(12.0).reshape(4, 3) + 1


def tensor(a: Any) -> Any:
    return wb.to_tensor(np.asarray(a))


@pytest.mark.parametrize(("padding", "row"), [(0, 0), (-1, 3), (3, 3), (-4, 0)])
def test_padding_counts_from_either_end(padding: int, row: int) -> None:
    got = F.embedding(tensor([0, 1, 2, 3]), tensor(TABLE), padding_idx=padding).numpy()
    want = TABLE.copy()
    want[row] = 0
    np.testing.assert_array_equal(got, want)


@given(st.lists(st.integers(0, 6), max_size=15), st.integers(-1, 6), st.integers(0, 2**31))
def test_sparse_and_dense_gradients_are_the_same(ids: list[int], padding: int, seed: int) -> None:
    r = np.random.default_rng(seed)
    back = find_op("lookup_table_v2_grad")
    args = (r.standard_normal((7, 2)), np.array(ids, np.int64), r.standard_normal((len(ids), 2)))
    dense = back.forward(numpy_xp, *args, wanted=(True,), padding_idx=padding, is_sparse=False)
    rows = back.forward(numpy_xp, *args, wanted=(True,), padding_idx=padding, is_sparse=True)
    assert isinstance(rows, Rows)
    assert rows.rows.shape == (len(ids),)  # whatever the ids are
    np.testing.assert_array_equal(rows.to_dense(np), dense)
    if padding >= 0:
        np.testing.assert_array_equal(dense[padding], 0)


CLIPS = {
    "no clip": None,
    "by value": wb.nn.ClipGradByValue(0.1),
    "by value, both positive": wb.nn.ClipGradByValue(0.2, min=0.1),
    "by norm": wb.nn.ClipGradByNorm(0.1),
    "by global norm": wb.nn.ClipGradByGlobalNorm(0.1),
}


@pytest.mark.parametrize("decay", [None, 0.1])
@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("optimizer", ["SGD", "Momentum", "Adam", "Adagrad"])
def test_training_a_table_in_a_program(optimizer: str, clip: str, decay: float | None) -> None:
    """Sparse and dense gradients train the same; two look-ups of one table add up."""
    results = []
    for is_sparse in (False, True):
        main, startup = wb.static.Program(), wb.static.Program()
        with static_mode(), wb.utils.unique_name.guard(), wb.static.program_guard(main, startup):
            ids = wb.static.data("ids", [None], "int64")
            attr = wb.ParamAttr(name="table", initializer=wb.nn.initializer.Assign(TABLE.astype(np.float32)))
            table = wb.create_parameter([4, 3], "float32", attr=attr)
            once = F.embedding(ids, table, sparse=is_sparse)
            twice = F.embedding(ids, table, sparse=is_sparse)
            loss = mean(once * twice)
            getattr(wb.optimizer, optimizer)(0.1, grad_clip=CLIPS[clip], weight_decay=decay).minimize(loss)
            assert main.global_block().var("table@GRAD").kind == ("rows" if is_sparse else "dense")
        exe, scope = wb.static.Executor(), wb.static.Scope()
        with wb.static.scope_guard(scope):
            exe.run(startup)
            for batch in ([1, 1, 3], [0, 3, 1]):
                exe.run(main, feed={"ids": np.array(batch)})
            results.append(np.array(scope.find_var("table").get_tensor()))
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6)
    assert not np.allclose(results[0][1], TABLE[1])
    if decay is None and clip != "by value, both positive":
        np.testing.assert_array_equal(results[1][2], TABLE[2])  # never looked up


@pytest.mark.parametrize(("ids", "bad", "position"), [([[0, 1], [9, 2]], 9, [1, 0]), ([[0, -1]], -1, [0, 1])])
def test_an_id_out_of_range_is_named(ids: list[list[int]], bad: int, position: list[int]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        F.embedding(tensor(ids), tensor(TABLE))
    assert f"embedding: id {bad} at position {position} is out of range" in str(caught.value)
    assert "[0, 4)" in str(caught.value)


@pytest.mark.parametrize("padding", [4, -5])
def test_padding_outside_the_table(padding: int) -> None:
    with pytest.raises(InvalidArgument, match=r"must be in \[-4, 4\)"):
        F.embedding(tensor([0]), tensor(TABLE), padding_idx=padding)


BETWEEN = {
    "scale": lambda w: w * 2.0,
    "tanh": wb.tanh,
    "reshape": lambda w: wb.reshape(wb.reshape(w, [3, 4]), [4, 3]),
    "cast": lambda w: w.astype("float64"),
    "sum": lambda w: wb.add_n([w, w]),
    "cond": lambda w: wb.static.nn.cond(wb.mean(w) < 1e9, lambda: w * 3.0, lambda: w),
    "two readers": lambda w: w * 2.0 + wb.matmul(w, F.embedding(wb.assign(np.array([0, 1, 1])), w, sparse=True)),
}


@pytest.mark.parametrize("between", BETWEEN)
def test_a_table_that_is_computed_has_the_dense_gradient(between: str) -> None:
    """What stands between the parameter and the table takes dense gradients; the sparse one becomes dense there."""
    gradients = []
    for sparse in (True, False):
        program, startup = wb.static.Program(), wb.static.Program()
        with static_mode(), wb.utils.unique_name.guard(), wb.static.program_guard(program, startup):
            attr = wb.ParamAttr(initializer=wb.nn.initializer.Assign(TABLE / 9))
            table = wb.static.create_parameter([4, 3], "float32", attr=attr)
            ids = wb.static.data("ids", [None], "int64")
            out = F.embedding(ids, BETWEEN[between](table), sparse=sparse)
            ((_, grad),) = wb.static.append_backward(mean((out * out).astype("float32")))
        scope, exe = wb.static.Scope(), wb.static.Executor()
        exe.run(startup, scope=scope)
        assert grad.kind == "dense"
        gradients += exe.run(program, feed={"ids": np.array([1, 3, 1])}, fetch_list=[grad], scope=scope)
    assert np.abs(gradients[1]).max() > 0
    np.testing.assert_allclose(*gradients, rtol=1e-6)


@pytest.mark.parametrize("use", [lambda g: g * g, lambda g: g + 1.0, mean, lambda g: g[0], lambda g: wb.matmul(g, g)])
def test_a_sparse_gradient_is_refused_where_a_tensor_is_due(use: Any) -> None:
    """When the program is built, and with the line that builds it."""
    with static_mode(), wb.utils.unique_name.guard(), wb.static.program_guard(wb.static.Program()):
        table = wb.static.create_parameter([3, 3], "float32")
        out = F.embedding(wb.static.data("ids", [None], "int64"), table, sparse=True)
        ((_, grad),) = wb.static.append_backward(mean(out))
        with pytest.raises(InvalidArgument, match=r"sparse gradient(.|\n)*rows float32(.|\n)*test_embedding\.py"):
            use(grad)
        assert wb.add_n([grad, table]).kind == "dense" and wb.add_n([grad, grad]).kind == "rows"


@pytest.mark.parametrize(
    ("ids", "table", "message"),
    [
        (np.array([0.0]), TABLE, "embedding takes integers"),
        (np.array([0]), np.arange(4), "floating-point"),
        (np.array([0]), TABLE[0], r"two dimensions\n.*\[rows, width\]\n.*\[3\]"),
    ],
)
def test_inputs_that_do_not_fit(ids: np.ndarray, table: np.ndarray, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        LOOKUP_TABLE(tensor(table), tensor(ids))


def test_one_hot() -> None:
    got = F.one_hot(tensor([[0, 2], [1, 1]]), 3).numpy()
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, np.eye(3)[[[0, 2], [1, 1]]])
    with pytest.raises(InvalidArgument, match=r"one_hot: class 3 at position \[1\].*\n.*\[0, 3\)"):
        F.one_hot(tensor([0, 3]), 3)
    with pytest.raises(InvalidArgument, match="at least 1"):
        F.one_hot(tensor([0]), 0)
