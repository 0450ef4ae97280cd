"""`set_printoptions`: digits, shortening, width and exponents of the values of tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import InvalidArgument, InvalidType


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    wb.set_printoptions(8, 1000, 3, False, 80)


def test_digits_ends_and_exponents() -> None:
    x = wb.to_tensor(np.arange(12, dtype="float32").reshape(3, 4) + 1 / 3)
    wb.set_printoptions(precision=2, threshold=5, edgeitems=1)
    assert str(x).splitlines()[1:] == ["       [[0.33 , ..., 3.33 ],", "        ...,", "        [8.33 , ..., 11.33]])"]
    wb.set_printoptions(threshold=1000, sci_mode=True)
    assert "3.33e-01" in str(x) and "..." not in str(x)
    wb.set_printoptions(sci_mode=False, linewidth=20)
    assert max(map(len, str(x).splitlines()[1:])) <= 24 < max(map(len, str(x).splitlines()))


@pytest.mark.parametrize(
    ("given", "error"),
    [({"precision": 2.5}, InvalidType), ({"edgeitems": -1}, InvalidArgument), ({"sci_mode": 1}, InvalidType)],
)
def test_what_is_refused_changes_nothing(given: dict[str, Any], error: type[Exception]) -> None:
    before = str(wb.to_tensor([1 / 3]))
    with pytest.raises(error):
        wb.set_printoptions(threshold=7, **given)
    assert str(wb.to_tensor([1 / 3])) == before
