"""Messages survive the way to the page: decoded as the page does it, they are what they were."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from workbench.framework.text.printable import all_printable
from workbench.notebook.dashboard.watching.previews import preview
from workbench.notebook.messages import DTYPES, Table, encode

FINITE = st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | st.integers(-100, 100) | FINITE | st.text(st.characters())
ARRAYS = st.sampled_from(DTYPES).flatmap(lambda d: arrays.arrays(d, st.integers(0, 5)))
PARTS = st.recursive(
    LEAVES | ARRAYS, lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text("abc$\x07"), part, max_size=3)
)


def decoded(part: Any, buffers: list[memoryview]) -> Any:
    """As `messages.js` does it."""
    if isinstance(part, dict) and isinstance(part.get("$"), int) and isinstance(part.get("dtype"), str):
        return np.frombuffer(buffers[part["$"]], part["dtype"])
    if isinstance(part, dict):
        return {name: decoded(inner, buffers) for name, inner in part.items()}
    return [decoded(inner, buffers) for inner in part] if isinstance(part, list) else part


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=True)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    return len(a) == len(b) and all(map(same, a, b)) if isinstance(a, list) else a == b


@given(st.dictionaries(st.text("xyz"), PARTS, max_size=4))
def test_a_message_survives_json_and_buffers(message: dict[str, Any]) -> None:
    content, buffers = encode(message)
    sent = json.dumps(content, ensure_ascii=False).encode()  # as Jupyter sends it
    assert same(all_printable(message), decoded(json.loads(sent), buffers))


def test_numbers_json_does_not_know_are_null() -> None:
    content, _ = encode({"a": float("nan"), "b": [float("inf"), 1.0]})
    assert content == {"a": None, "b": [None, 1.0]}


def test_texts_have_numbers_in_the_order_they_came() -> None:
    table = Table()
    assert [table.number(text) for text in ("b", "a", "b", None)] == [0, 1, 0, -1]
    assert table.texts == ["b", "a"]


def test_integers_in_a_column_are_labels() -> None:
    assert preview(np.array([[1], [3], [1]])) == {"kind": "labels", "values": [1, 3], "counts": [2, 1]}


def test_images_are_thumbnails_between_their_own_black_and_white() -> None:
    images = np.linspace(-1, 1, 2 * 3 * 8 * 6, dtype=np.float32).reshape(2, 3, 8, 6)
    shown = preview(images)
    assert shown["kind"] == "image" and len(shown["images"]) == 2
    first = shown["images"][0]
    gray = images[0].mean(0)
    assert (first["width"], first["height"]) == (6, 8)
    expected = (gray - gray.min()) / (gray.max() - gray.min()) * 255
    np.testing.assert_allclose(first["pixels"].reshape(8, 6), expected, atol=0.51)
    assert (first["low"], first["high"], first["broken"]) == (images[0].min(), images[0].max(), 0)  # of all channels


def test_images_with_holes_and_flat_ones_are_drawn() -> None:
    holed = np.ones((1, 4, 4), np.float32)
    holed[0, 0, 0] = np.nan
    for images, told in (
        (holed, (1, 1, 1)),
        (np.zeros((1, 4, 4), np.float32), (0, 0, 0)),
        (np.full((1, 4, 4), np.inf, np.float32), (np.nan, np.nan, 16)),
    ):
        shown = preview(images)["images"][0]
        assert shown["pixels"].dtype == np.uint8
        np.testing.assert_equal((shown["low"], shown["high"], shown["broken"]), told)


def test_vectors_are_thinned_and_numbers_are_numbers() -> None:
    vectors = np.arange(2 * 1000, dtype=np.float32).reshape(2, 1000)
    shown = preview(vectors)
    assert shown["kind"] == "vector" and all(len(row) <= 128 for row in shown["rows"])
    few = np.float32([[0.5], [np.inf], [np.nan]])
    for array, values in (few, few.ravel()), (np.zeros((0, 3)), []), (np.array(["a"], object), []):
        shown = preview(array)
        assert shown["kind"] == "numbers"
        np.testing.assert_array_equal(shown["values"], np.float64(values))
