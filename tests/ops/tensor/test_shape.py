"""Shapes: what reshape infers from unknown dims, the public forms, and what they refuse."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.ops.programs import both, check_second_derivative, dynamic, static
from workbench.errors import InvalidArgument, InvalidType, ShapeError
from workbench.framework.program.guard import static_mode
from workbench.ops.tensor.shape import resolve_shape

DIMS = st.lists(st.integers(0, 6), min_size=1, max_size=4)


@st.composite
def reshapes(draw: Any) -> tuple[tuple[int, ...], list[int]]:
    """Dims, and a shape with 0 and -1 that fits them."""
    dims = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    copied = draw(st.integers(0, len(dims)))
    rest = math.prod(dims[copied:])
    shape = [0] * copied
    while draw(st.booleans()) and rest > 1:
        divisors = [d for d in range(2, rest + 1) if rest % d == 0]
        shape.append(draw(st.sampled_from(divisors)))
        rest //= shape[-1]
    if draw(st.booleans()):
        shape.insert(draw(st.integers(copied, len(shape))), -1)
    elif rest > 1 or not shape:
        shape.append(rest)
    assume(shape)
    return tuple(dims), shape


@settings(max_examples=60, deadline=None)
@given(reshapes(), st.lists(st.booleans(), min_size=4, max_size=4))
def test_reshape_is_numpy_s_and_agrees_with_unknown_dims(case: Any, hidden: list[bool]) -> None:
    dims, shape = case
    known = resolve_shape(dims, shape)
    explicit = [dims[i] if s == 0 else s for i, s in enumerate(shape)]
    assert known == np.empty(dims).reshape(explicit).shape
    blurred = tuple(-1 if h else d for h, d in zip(hidden, dims, strict=False))
    for guess, real in zip(resolve_shape(blurred, shape), known, strict=True):
        assert guess in (-1, real)


def test_copied_dims_cancel() -> None:
    assert resolve_shape((-1, 64, 4, 32), [0, 0, -1]) == (-1, 64, 128)
    assert resolve_shape((-1, 64, 128), [0, 64, 4, -1]) == (-1, 64, 4, 32)
    assert resolve_shape((-1, 3), [-1]) == (-1,)
    assert resolve_shape((0, 4), [0, -1]) == (0, 4)


@pytest.mark.parametrize(
    ("dims", "shape", "words"),
    [
        ((2, 3), [4, 2], r"number of elements(.|\n)*6 elements, as in \[2, 3\](.|\n)*\[4, 2\]"),
        ((2, 3), [-1, 4], r"6 elements(.|\n)*\[-1, 4\]"),
        ((-1, 3), [4, 2], r"a multiple of 3 elements, as in \[\?, 3\]"),
        ((-1, 3), [0, 2, 2], "a multiple of 3"),
        ((2, 3), [-1, -1], "at most one -1"),
        ((2, 3), [-2, 3], "at most one -1"),
        ((6,), [6, 0], r"0 at position 1 copies a dimension that the input lacks"),
    ],
)
def test_what_reshape_refuses(dims: Any, shape: Any, words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        resolve_shape(dims, shape)


def test_a_wrong_reshape_names_op_variable_and_line() -> None:
    with static_mode(), wb.static.program_guard(wb.static.Program()):
        x = wb.static.data("image", [None, 28, 28], "float32")
        with pytest.raises(InvalidArgument, match=r"'reshape2'(.|\n)*image float32\[\?, 28, 28\](.|\n)*test_shape"):
            wb.reshape(x, [0, 700])
        with pytest.raises(InvalidType, match="reshape's shape takes an int, got a tensor"):
            wb.reshape(x, [wb.shape(x), 4])
        with pytest.raises(InvalidType, match=r"takes an int, got float 1\.5"):
            wb.reshape(x, [1.5])


X = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("build", "want"),
    [
        (lambda x: wb.reshape(x, [-1, 4]), X.reshape(6, 4)),
        (lambda x: x.reshape([0, 2, -1]), X.reshape(2, 2, 6)),
        (lambda x: wb.flatten(x), X.ravel()),
        (lambda x: x.flatten(1, 2), X.reshape(2, 12)),
        (lambda x: wb.unsqueeze(x, [0, 2]), X[None, :, None]),
        (lambda x: wb.squeeze(wb.unsqueeze(x, 1), 1), X),
        (lambda x: wb.transpose(x, [2, 0, 1]), X.transpose(2, 0, 1)),
        (lambda x: x.T, X.T),
        (lambda x: wb.moveaxis(x, 0, -1), np.moveaxis(X, 0, -1)),
        (lambda x: wb.moveaxis(x, [0, 1], [-1, 0]), np.moveaxis(X, [0, 1], [-1, 0])),
        (lambda x: wb.concat([x, x * 2], 1), np.concatenate([X, X * 2], 1)),
        (lambda x: wb.concat(wb.split(x, 2, axis=-1)[::-1], -1), np.concatenate([X[..., 2:], X[..., :2]], -1)),
        (lambda x: wb.split(x, [1, -1], 1)[1], X[:, 1:]),
        (lambda x: wb.chunk(x, 2, 2)[1], X[..., 2:]),
        (lambda x: wb.stack([x, x + 1], -1), np.stack([X, X + 1], -1)),
        (lambda x: wb.unstack(x, 0, num=2)[1], X[1]),
        (lambda x: wb.tile(x, [2, 1, 3]), np.tile(X, [2, 1, 3])),
        (lambda x: wb.expand(x, [5, -1, -1, 4]), np.broadcast_to(X, (5, 2, 3, 4))),
        (lambda x: wb.expand_as(x[:, :1], x), np.broadcast_to(X[:, :1], X.shape)),
        (lambda x: wb.flip(x, [0, -1]), X[::-1, :, ::-1]),
        (lambda x: wb.roll(x, 5), np.roll(X, 5)),
        (lambda x: wb.roll(x, [1, -2], [0, 2]), np.roll(X, [1, -2], [0, 2])),
        (lambda x: wb.shape(x), np.array([2, 3, 4], np.int32)),
        (lambda x: wb.numel(x), np.array([24])),
    ],
)
def test_public_functions(build: Any, want: np.ndarray) -> None:
    got = both(build, X)
    np.testing.assert_array_equal(got, want)
    assert got.dtype == want.dtype


def test_squeeze_leaves_larger_dims_alone() -> None:
    x = np.ones((1, 3, 1))
    assert dynamic(lambda x: wb.squeeze(x), x).shape == (3,)
    assert dynamic(lambda x: wb.squeeze(x, [0, 1]), x).shape == (3, 1)
    value, shape = static(lambda x: wb.squeeze(x, [0, 2]), x)
    assert value.shape == (3,)
    assert shape == (-1,)
    with pytest.raises(Exception, match=r"dimension 1 cannot be squeezed(.|\n)*expected: 1(.|\n)*3"):
        static(lambda x: wb.squeeze(x, 1), x)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: wb.transpose(x, [0, 1]), "names every dimension once(.|\n)*3 axes"),
        (lambda x: wb.transpose(x, [0, 1, 1]), "twice"),
        (lambda x: wb.transpose(x, [0, 1, 3]), r"\[-3, 3\)"),
        (lambda x: x.t(), "at most 2 dimensions"),
        (lambda x: wb.flatten(x, 2, 1), "greater than stop_axis"),
        (lambda x: wb.unsqueeze(x, 5), r"\[-4, 4\)"),
        (lambda x: wb.split(x, 2, 1), "multiple of 2(.|\n)*got: *3"),
        (lambda x: wb.split(x, 0, 1), "number of parts"),
        (lambda x: wb.split(x, [1, 1], 1), r"add up to the dimension(.|\n)*3(.|\n)*2 in all"),
        (lambda x: wb.split(x, [-1, -1], 1), "at most one -1"),
        (lambda x: wb.concat([x, x[:, :2]], 0), "agree in all other dimensions"),
        (lambda x: wb.concat([x, x.astype("float32")], 0), "one dtype(.|\n)*float64(.|\n)*float32"),
        (lambda x: wb.concat([]), "at least one"),
        (lambda x: wb.stack([x, x[:1]]), "one shape"),
        (lambda x: wb.unstack(x, 0, num=3), "each entry along axis 0(.|\n)*2(.|\n)*3"),
        (lambda x: wb.tile(x, [0]), "ints >= 1"),
        (lambda x: wb.expand(x, [2, 5, 4]), r"can be expanded if it is 1(.|\n)*\[2, 3, 4\](.|\n)*\[2, 5, 4\]"),
        (lambda x: wb.expand(x, [3, 4]), "at least 3 sizes"),
        (lambda x: wb.expand_as(x, x[:, :1]), "can be expanded if it is 1"),
        (lambda x: wb.flip(x, [0, -3]), "twice"),
        (lambda x: wb.roll(x, [1, 2], 0), "one shift per axis"),
    ],
)
def test_what_is_refused(call: Any, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        call(wb.to_tensor(X))


def test_unknown_dims_that_have_to_divide_are_checked_when_run() -> None:
    with pytest.raises(Exception, match=r"multiple of 2(.|\n)*got: *3"):
        static(lambda x: wb.split(x, 2, 1)[0], X)


@settings(max_examples=50, deadline=None)
@given(DIMS, st.lists(st.integers(1, 3), min_size=1, max_size=4), st.integers(0, 2**31))
def test_gradient_of_tile_sums_the_copies(dims: list[int], times: list[int], seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal(dims)
    tiled = np.tile(np.arange(x.size).reshape(x.shape), times)
    g = np.random.default_rng(seed + 1).standard_normal(tiled.shape)
    back = wb.framework.op.record.find_op("tile_grad")
    got = back.forward(np, x, g, wanted=(True,), repeat_times=times)
    np.testing.assert_allclose(got.ravel(), np.bincount(tiled.ravel(), g.ravel(), x.size), atol=1e-12)


@pytest.mark.parametrize(
    "build",
    [
        lambda x: wb.tile(x * x, [2, 1, 3]),
        lambda x: wb.concat([x * x, x], 1) * wb.concat([x, x * x * x], 1),
        lambda x: wb.split(x * x, [1, -1], 1)[1] * x[:, 1:],
        lambda x: wb.stack(wb.unstack(x * x, 2, num=4), 0),
        lambda x: wb.roll(wb.flip(x * x, 1), 1, 0) * wb.expand_as(x[:1], x),
        lambda x: wb.squeeze(wb.unsqueeze(wb.flatten(x * x, 1), 0), 0),
    ],
)
def test_second_derivatives(build: Any) -> None:
    check_second_derivative(build, X / 7 - 1)
