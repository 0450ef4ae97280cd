"""Masks, places (`where_index`) and distinct elements (`unique`) in programs: only values tell how many there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import static
from workbench.config import override
from workbench.errors import InvalidType, ShapeError

NUMBERS = np.random.default_rng(5).standard_normal((7, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def static_mode() -> Iterator[None]:
    wb.enable_static()
    with static.program_guard(static.Program(), static.Program()):
        yield
    wb.disable_static()


def whole(x: Any) -> Any:
    return wb.cast(x * 3.0, "int64")


def ref_unique(a: np.ndarray, axis: int | None = None) -> list[np.ndarray]:
    """By going through a list."""
    flat = [tuple(row.ravel()) for row in (np.moveaxis(a, axis, 0) if axis is not None else a.reshape(-1, 1))]
    distinct = sorted(set(flat))
    index, counts = [flat.index(one) for one in distinct], [flat.count(one) for one in distinct]
    values = a.ravel()[index] if axis is None else np.take(a, index, axis)
    return [values, np.array(index), np.array([distinct.index(one) for one in flat]), np.array(counts)]


def in_order(a: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Where a mask holds, element by element."""
    return np.array([a[place] for place in np.ndindex(mask.shape) if mask[place]], a.dtype)


SELECTIONS: dict[str, tuple[Any, Any]] = {
    "nonzero": (
        lambda x: [wb.nonzero(x > 0.2)],
        lambda a: [np.array([place for place in np.ndindex(a.shape) if a[place] > 0.2], np.int64)],
    ),
    "nonzero as a tuple": (
        lambda x: list(wb.nonzero(whole(x), as_tuple=True)),
        lambda a: [part[:, None] for part in np.array([p for p in np.ndindex(a.shape) if int(a[p] * 3)]).T],
    ),
    "masked_select": (lambda x: [wb.masked_select(x, x > 0.2)], lambda a: [in_order(a, a > 0.2)]),
    "masked_select, broadcast": (
        lambda x: [wb.masked_select(wb.reshape(x, [7, 4]), wb.reshape(x[:, 0] > 0.2, [7, 1]))],
        lambda a: [in_order(a, np.repeat(a[:, :1] > 0.2, 4, axis=1))],
    ),
    "a mask of rows": (lambda x: [x[x[:, 1] > 0.0]], lambda a: [in_order(a, a[:, 1] > 0.0)]),
    "a mask of all": (lambda x: [x[x < 0.0]], lambda a: [in_order(a, a < 0.0)]),
    "a mask of columns, known": (
        lambda x: [x[:, np.array([True, False, True, True])], x[1:, [False, True, False, True]]],
        lambda a: [a[:, [0, 2, 3]], a[1:, [1, 3]]],
    ),
    "unique": (
        lambda x: list(wb.unique(whole(x), return_index=True, return_inverse=True, return_counts=True)),
        lambda a: ref_unique((a * 3).astype(np.int64)),
    ),
    "unique rows": (
        lambda x: [wb.unique(whole(x) // 3, axis=0), wb.unique(whole(x) // 3, return_counts=True, axis=0)[1]],
        lambda a: ref_unique((a * 3).astype(np.int64) // 3, 0)[::3],
    ),
}


@pytest.mark.parametrize("executor", ["compiled", "reference"])
@pytest.mark.parametrize("name", sorted(SELECTIONS))
def test_what_is_selected(name: str, executor: str) -> None:
    select, expected = SELECTIONS[name]
    x = static.data("x", [None, 4])
    selected = select(x)
    with override(executor=executor):
        exe = static.Executor()
        for a in (NUMBERS, -NUMBERS, NUMBERS * 0.5, NUMBERS):
            results = exe.run(feed={"x": a}, fetch_list=selected)
            for result, wanted in zip(results, expected(a), strict=True):
                np.testing.assert_array_equal(result, wanted)


def test_gradients_go_where_elements_were_selected() -> None:
    x = static.data("x", [None, 4])
    total = wb.sum(wb.masked_select(x * x, x > 0.2)) + wb.sum(x[x[:, 1] > 0.0] * 3.0)
    (gradient,) = static.gradients(total, x)
    exe = static.Executor()
    for a in (NUMBERS, NUMBERS[:3], -NUMBERS):
        (result,) = exe.run(feed={"x": a}, fetch_list=[gradient])
        np.testing.assert_allclose(result, 2 * a * (a > 0.2) + 3.0 * (a[:, 1:2] > 0.0), rtol=1e-6)


def test_nothing_is_selected() -> None:
    x = static.data("x", [None, 4])
    rows = x[wb.sum(x, 1) > 1e6]
    exe = static.Executor()
    found_none = exe.run(feed={"x": NUMBERS}, fetch_list=[rows, wb.sum(rows), wb.nonzero(x > 1e6)])
    assert found_none[0].shape == (0, 4) and found_none[1] == 0 and found_none[2].shape == (0, 2)


def test_what_cannot_be_selected_is_refused() -> None:
    x = static.data("x", [None, 4])
    with pytest.raises(InvalidType, match="mask of bool"):
        wb.masked_select(x, x)
    with pytest.raises(ShapeError, match="one shape"):
        wb.masked_select(x, x[:, :1] > 0)


def test_a_saved_program_selects() -> None:
    x = static.data("x", [None, 4])
    picked = x[x[:, 0] > 0.0]
    program = static.Program.parse_from_string(static.default_main_program().serialize_to_string())
    (result,) = static.Executor().run(program, feed={"x": NUMBERS}, fetch_list=[picked.name])
    np.testing.assert_array_equal(result, in_order(NUMBERS, NUMBERS[:, 0] > 0.0))
