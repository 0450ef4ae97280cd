"""`x[...]` against NumPy, and what indexing refuses."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.ops.programs import both, check_second_derivative, dynamic, static
from workbench.errors import InvalidArgument, InvalidType, Unimplemented
from workbench.framework.op.record import find_op
from workbench.framework.program.guard import static_mode
from workbench.ops.index.indexing import IndexOutOfRange

X = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)


@st.composite
def items(draw: Any, shape: tuple[int, ...], arrays: bool) -> Any:
    """An index for a tensor of `shape`: ints, slices, Nones, Ellipsis, and lists if `arrays`."""
    common = draw(st.sampled_from([(2,), (1,), (2, 2), (1, 2)]))
    entries: list[Any] = []
    for dim in shape[: draw(st.integers(0, len(shape)))]:
        bound = st.none() | st.integers(-dim - 2, dim + 2)
        kinds = [st.integers(-dim, dim - 1), st.builds(slice, bound, bound, st.sampled_from([None, 1, 2, -1, -3]))]
        if arrays:
            kinds.append(st.integers(0, dim - 1).map(lambda i, c=common: np.full(c, i).tolist()))
            kinds.append(
                st.lists(st.integers(-dim, dim - 1), min_size=int(np.prod(common)), max_size=int(np.prod(common))).map(
                    lambda v, c=common: np.array(v).reshape(c).tolist()
                )
            )
        entries.append(draw(st.one_of(kinds)))
    for _ in range(draw(st.integers(0, 2))):
        entries.insert(draw(st.integers(0, len(entries))), None)
    if draw(st.booleans()):
        entries.insert(draw(st.integers(0, len(entries))), Ellipsis)
    return tuple(entries)


def numpy_item(item: Any) -> Any:
    return tuple(np.array(e) if isinstance(e, list) else e for e in item)


def without_scalars(a: np.ndarray) -> np.ndarray:
    """Paddle 2.0 to 2.4 has no tensors without dimensions."""
    return a.reshape(1) if a.ndim == 0 else a


@settings(max_examples=80, deadline=None)
@given(items(X.shape, arrays=True))
@example((slice(None), 0, Ellipsis, 0, [0, 0]))  # an Ellipsis of no dimension parts its neighbours
def test_getitem_is_numpy_s(item: Any) -> None:
    np.testing.assert_array_equal(dynamic(lambda x: x[item], X), without_scalars(X[numpy_item(item)]))


@settings(max_examples=40, deadline=None)
@given(items(X.shape, arrays=False))
def test_getitem_in_programs_with_unknown_dims(item: Any) -> None:
    np.testing.assert_array_equal(both(lambda x: x[item], X), without_scalars(X[item]))


@pytest.mark.parametrize(
    "item",
    [
        lambda i: i,
        lambda i: (slice(None), i),
        lambda i: (0, slice(None), i),
        lambda i: (i, None, i, slice(1, None)),
        lambda i: (..., i, i),
        lambda i: (slice(None), i, i, 2),
        lambda i: (i, slice(None), 0),
        lambda i: (None, 1, i, ..., 2),
    ],
)
def test_index_tensors(item: Any) -> None:
    index = np.array([[1, 0, 1], [0, 0, 1]])
    got = both(lambda x, i: x[item(i)], X, index)
    np.testing.assert_array_equal(got, X[item(index)])


def test_index_tensors_broadcast() -> None:
    rows, columns = np.array([[1], [0]]), np.array([2, 0, 1])
    np.testing.assert_array_equal(both(lambda x, i, j: x[i, j], X, rows, columns), X[rows, columns])


def test_one_integer_tensor_stands_for_an_int() -> None:
    one = np.array([1])
    np.testing.assert_array_equal(static(lambda x, i: x[i], X, one, known=True)[0], X[1])
    np.testing.assert_array_equal(static(lambda x, i: x[:, i], X, one, known=True)[0], X[:, 1])
    np.testing.assert_array_equal(dynamic(lambda x, i: x[i], X, one), X[[1]])
    np.testing.assert_array_equal(dynamic(lambda x, i: x[:, i], X, one[0]), X[:, 1])
    assert dynamic(lambda x, i: x[i], X[:, 0, 0, 0], one[0]).shape == ()
    assert static(lambda x, i: x[i], X[:, 0, 0, 0], one, known=True)[0].shape == (1,)
    assert dynamic(lambda x: x[[1]], X).shape == (1, 3, 4, 5)
    value, shape = static(lambda x, i: x[i], X, one, known=True)
    assert value.shape == shape == (3, 4, 5)


def test_numpy_integers_and_zero_dim_arrays_are_ints() -> None:
    for one in (np.int64(1), np.array(1), np.uint8(1)):
        np.testing.assert_array_equal(dynamic(lambda x, i=one: x[i], X), X[1])


def test_iterating_stops() -> None:
    assert [row.numpy().tolist() for row in wb.to_tensor(np.array([[1, 2], [3, 4]]))] == [[1, 2], [3, 4]]


def test_the_result_is_a_copy() -> None:
    x = wb.to_tensor(np.zeros((2, 2)))
    assert not np.shares_memory(x[0].numpy(), x.numpy())
    assert not np.shares_memory(x[...].numpy(), x.numpy())
    assert not np.shares_memory(wb.transpose(x, [0, 1]).numpy(), x.numpy())


@pytest.mark.parametrize(
    ("item", "error", "words"),
    [
        (7, IndexOutOfRange, r"index 7 is out of range for dimension 0(.|\n)*\[-2, 2\)"),
        ((0, -4), IndexError, r"index -4 is out of range for dimension 1(.|\n)*\[-3, 3\)"),
        ((0,) * 5, InvalidArgument, r"too many indices(.|\n)*4(.|\n)*5"),
        ((..., 0, ...), InvalidArgument, "at most one Ellipsis"),
        (slice(None, None, 0), InvalidArgument, "step of a slice is not 0"),
        ([[0, 2]], InvalidArgument, r"index 2 is out of range(.|\n)*\[-2, 2\)"),
        ("a", InvalidType, "indexed by ints.*got str"),
        (1.0, InvalidType, "indexed by ints.*got float"),
        ([0.5], InvalidType, "integers.*float64"),
        (slice(0.5, None), InvalidType, "a slice's start takes an int, got float 0.5"),
    ],
)
def test_what_getitem_refuses(item: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        wb.to_tensor(X)[item]


def test_a_single_truth_value_is_refused_in_a_program() -> None:
    with static_mode(), wb.static.program_guard(wb.static.Program()):
        x = wb.static.data("x", [None, 3], "float32")
        with pytest.raises(Unimplemented, match="single truth value"):
            x[True]
        with pytest.raises(InvalidType, match="got a tensor"):
            x[: wb.shape(x)]


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("gather: index", lambda x, i: wb.gather(x, i, axis=None)),
        ("gather_nd: coordinate 0", lambda x, i: wb.gather_nd(x, wb.unsqueeze(i, -1))),
        ("scatter: index", lambda x, i: wb.scatter(x, i, x[:3])),
        ("index_add: index", lambda x, i: wb.index_add(x, i, 0, x[:3])),
        ("take_along_axis: index", lambda x, i: wb.take_along_axis(x, wb.unsqueeze(i, -1), 0)),
    ],
)
@pytest.mark.parametrize("wrong", [4, -1])
def test_run_time_indices_out_of_range(name: str, call: Any, wrong: int) -> None:
    x, index = np.ones((4, 2)), np.array([0, wrong, 1])
    words = rf"{name} {wrong} at position(.|\n)*\[0, 4\)(.|\n)*{wrong}"
    with pytest.raises(InvalidArgument, match=words):
        dynamic(call, x, index)
    with pytest.raises(Exception, match=words):
        static(call, x, index)


def test_infer_names_what_does_not_fit() -> None:
    x, i = wb.to_tensor(np.ones((4, 2))), wb.to_tensor(np.array([0, 1]))
    with pytest.raises(InvalidType, match=r"index tensor of integers(.|\n)*int32 or int64(.|\n)*float64"):
        wb.gather(x, x)
    with pytest.raises(InvalidArgument, match=r"one row per index(.|\n)*\[2, 2\](.|\n)*\[4, 2\]"):
        wb.scatter(x, i, x)
    with pytest.raises(InvalidArgument, match=r"at most one coordinate per dimension(.|\n)*<= 2(.|\n)*3"):
        wb.gather_nd(x, wb.to_tensor(np.zeros((1, 3), np.int64)))
    with pytest.raises(InvalidArgument, match="1-D index"):
        wb.index_select(x, wb.to_tensor(np.zeros((1, 3), np.int64)))
    with pytest.raises(InvalidArgument, match="'assign' or 'add'"):
        wb.put_along_axis(x, wb.to_tensor(np.zeros((1, 2), np.int64)), x[:1], 0, reduce="mul")


def test_gather_takes_a_column_of_indices() -> None:
    index = np.array([[2], [0]])
    np.testing.assert_array_equal(dynamic(wb.gather, X[0], index), X[0][[2, 0]])


def test_along_axis_expands_the_index() -> None:
    x, index = X[0, :, 0], np.array([[2, 0, 1]])
    got = both(lambda x, i: wb.take_along_axis(x, i, 1), x, np.tile(index, (3, 1)))
    np.testing.assert_array_equal(got, x[:, [2, 0, 1]])
    np.testing.assert_array_equal(dynamic(lambda x, i: wb.take_along_axis(x, i, 1), x, index), got)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))),
    st.booleans(),
    st.lists(st.integers(0, 3), min_size=6, max_size=6),
)
def test_topk_is_the_head_of_sort(sizes: tuple[int, int], largest: bool, values: list[int]) -> None:
    n, k = sizes
    x = np.array(values[:n])
    top, index = wb.topk(wb.to_tensor(x), k, largest=largest)
    np.testing.assert_array_equal(top.numpy(), wb.sort(wb.to_tensor(x), descending=largest).numpy()[:k])
    np.testing.assert_array_equal(index.numpy(), wb.argsort(wb.to_tensor(x), descending=largest).numpy()[:k])


def test_topk_refuses_more_than_there_is() -> None:
    with pytest.raises(InvalidArgument, match=r"topk takes k entries of dimension 1(.|\n)*1 <= k <= 2(.|\n)*3"):
        wb.topk(wb.to_tensor(np.ones((3, 2))), 3)


COORDINATES = np.array([[1, 2], [0, 0], [1, 2]])


@pytest.mark.parametrize(
    "build",
    [
        lambda x: (x * x)[1:, ::2] * x[0, 0],
        lambda x: (x * x)[:, [1, 1, 0]],
        lambda x: wb.topk(x * x, 2)[0],
        lambda x: wb.gather_nd(x * x, find_op("assign_value")(values=COORDINATES, shape=[3, 2], dtype="int64")),
    ],
    ids=["slice", "gather", "topk", "gather_nd"],
)
def test_second_derivatives(build: Any) -> None:
    check_second_derivative(build, np.arange(12.0).reshape(3, 4) / 5 - 1.03)
