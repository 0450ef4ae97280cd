"""Initializers that compute their values from the whole shape, in both modes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.builders.building import initialised
from workbench.errors import InvalidArgument

initializer = wb.nn.initializer


def in_both_modes(attr: Any, shape: list[int]) -> list[np.ndarray]:
    at_once = wb.create_parameter(shape, "float32", attr=attr).numpy()
    built = initialised(0, lambda: wb.static.create_parameter(shape, "float32", attr=attr))
    return [at_once, *built.values()]


@pytest.mark.parametrize("shape", [[3, 5], [5, 3], [2, 3, 2], [4, 4]])
def test_orthogonal(shape: list[int]) -> None:
    for weight in in_both_modes(initializer.Orthogonal(2.0), shape):
        matrix = weight.reshape(shape[0], -1)
        square = matrix @ matrix.T if len(matrix) <= matrix.shape[1] else matrix.T @ matrix
        np.testing.assert_allclose(square, 4 * np.eye(len(square)), atol=1e-5)


def test_orthogonal_draws_anew() -> None:
    wb.seed(3)
    first, second = (wb.create_parameter([3, 3], "float32", attr=initializer.Orthogonal()).numpy() for _ in range(2))
    wb.seed(3)
    again = wb.create_parameter([3, 3], "float32", attr=initializer.Orthogonal()).numpy()
    assert np.array_equal(first, again) and not np.array_equal(first, second)
    wb.seed(0)


@pytest.mark.parametrize(("shape", "groups"), [([4, 2, 3], 1), ([4, 2, 3, 3], 2), ([2, 3, 2, 2, 2], 1)])
def test_dirac_passes_channels(shape: list[int], groups: int) -> None:
    for weight in in_both_modes(initializer.Dirac(groups), shape):
        middle = tuple(size // 2 for size in shape[2:])
        wanted = np.zeros(shape)
        for kernel in range(shape[0]):
            channel = kernel % (shape[0] // groups)
            if channel < shape[1]:
                wanted[(kernel, channel, *middle)] = 1
        assert np.array_equal(weight, wanted)


# What Paddle 2.6.2 gives: its row of an entry is its number divided by the size, with the fraction.
BILINEAR_OF_PADDLE = {
    3: [[0.0625, 0.3125, 0.4375], [0.1875, 0.6875, 0.6875], [0.1875, 0.4375, 0.3125]],
    4: [
        [0.0625, 0.28125, 0.375, 0.15625], [0.1875, 0.65625, 0.75, 0.21875],
        [0.1875, 0.46875, 0.375, 0.09375], [0.0625, 0.09375, 0.0, -0.03125],
    ],
}  # fmt: skip


@pytest.mark.parametrize("size", [3, 4])
def test_bilinear_fills_every_filter_with_the_numbers_of_paddle(size: int) -> None:
    for weight in in_both_modes(initializer.Bilinear(), [2, 3, size, size]):
        assert np.array_equal(weight, np.broadcast_to(np.float32(BILINEAR_OF_PADDLE[size]), weight.shape))


@pytest.mark.parametrize(
    ("make", "shape", "said"),
    [
        (lambda: initializer.Orthogonal(), [3], "at least 2 dimensions"),
        (lambda: initializer.Dirac(), [3, 2], "3 to 5 dimensions"),
        (lambda: initializer.Dirac(2), [3, 2, 1], "cannot be divided into 2"),
        (lambda: initializer.Dirac(0), [3, 2, 1], "an int above 0"),
        (lambda: initializer.Bilinear(), [1, 1, 2, 3], "square filters"),
    ],
)
def test_shapes_that_do_not_suit(make: Any, shape: list[int], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        wb.create_parameter(shape, "float32", attr=make())


def test_an_assigned_value_keeps_its_shape_in_dynamic_mode() -> None:
    """As in Paddle, whose documentation multiplies with such a parameter; a program has the shape it was told."""
    assigned = initializer.Assign([2.0, 3.0])
    with pytest.warns(UserWarning, match=r"value's shape \[2\], not of the shape \[2, 2\]"):
        layer = wb.nn.Linear(2, 2, weight_attr=assigned, bias_attr=False)
    assert layer(wb.ones([1, 2])).tolist() == [5.0]
    with pytest.raises(InvalidArgument, match="another shape than the parameter"):
        initialised(0, lambda: wb.static.create_parameter([2, 2], "float32", attr=assigned))


# More than there is memory for

BIG = np.broadcast_to(np.float32(1), (10**6, 10**7))
HUGE: dict[str, tuple[Any, list[int]]] = {
    "orthogonal": (initializer.Orthogonal, [10**6, 10**7]),
    "orthogonal, more than can be counted": (initializer.Orthogonal, [2**32, 2**32]),
    "dirac": (initializer.Dirac, [10**6, 10**7, 3]),
    "bilinear": (initializer.Bilinear, [10**6, 10**7, 3, 3]),
    "assigned": (lambda: initializer.Assign(BIG), [10**6, 10**7]),
    "at once": (lambda: initializer.Constant(1.0), [10**6, 10**7]),
}


@pytest.mark.parametrize("wanted", HUGE)
def test_values_there_is_no_memory_for_are_named(wanted: str) -> None:
    made_by, shape = HUGE[wanted]
    nbytes = f"{4 * math.prod(shape):,} bytes"
    with pytest.raises(wb.errors.NoMemory) as caught:
        wb.create_parameter(shape, "float32", attr=wb.ParamAttr("w", made_by()))
    assert isinstance(caught.value, MemoryError) and "test_shaped_initializers.py, line" in str(caught.value)
    if wanted != "assigned":
        assert "the initial values of parameter 'w', float32[" in str(caught.value) and nbytes in str(caught.value)


@pytest.mark.parametrize("wanted", [name for name in HUGE if name not in ("assigned", "at once")])
def test_a_program_is_as_before_where_there_is_no_memory_for_a_parameter(wanted: str) -> None:
    made_by, shape = HUGE[wanted]
    main, startup = wb.static.Program(), wb.static.Program()
    wb.enable_static()
    try:
        with wb.static.program_guard(main, startup):
            with pytest.raises(wb.errors.NoMemory, match=r"parameter 'w', float32\[.* bytes: (.|\n)*at .*, line"):
                wb.static.create_parameter(shape, "float32", attr=wb.ParamAttr("w", made_by()))
            assert not [*main.list_vars(), *startup.list_vars()] and not [*startup.all_ops()]
            wb.static.create_parameter([2, 2, 3, 3], "float32", attr=wb.ParamAttr("w"))
    finally:
        wb.disable_static()


ASKED: dict[str, Callable[[], Any]] = {
    "full": lambda: wb.full([10**6, 10**7], 1.0),
    "full, more than an array has": lambda: wb.full([2**40, 2**40], 1.0),
    "eye": lambda: wb.eye(10**7),
    "arange": lambda: wb.arange(0, 10**13),
    "linspace": lambda: wb.linspace(0, 1, 10**13),
    "tile": lambda: wb.tile(wb.ones([10]), [10**12]),
    "tril_indices": lambda: wb.tril_indices(10**7, 10**7),
    "triu_indices": lambda: wb.triu_indices(10**7, 10**7),
    "as_strided": lambda: wb.as_strided(wb.ones([10]), [10**7, 10**7], [0, 0]),
    "assign": lambda: wb.assign(BIG),
    "to_tensor": lambda: wb.to_tensor(BIG),
    "mask": lambda: wb.nn.Transformer(4, 2, 1, 1, 8).generate_square_subsequent_mask(10**7),
    "shuffled": lambda: iter(wb.io.RandomSampler([1, 2], replacement=True, num_samples=10**13)),
    "weighted": lambda: list(wb.io.WeightedRandomSampler([1.0, 2.0], 10**13)),
}


@pytest.mark.parametrize("asked", ASKED)
def test_what_is_computed_at_once_and_too_large_is_named(asked: str) -> None:
    with pytest.raises(wb.errors.NoMemory, match=r"no memory for (.|\n)*test_shaped_initializers.py, line"):
        ASKED[asked]()
