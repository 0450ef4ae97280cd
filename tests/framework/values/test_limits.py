"""Limits of dtypes against NumPy's, the default dtype, and how dtypes are written."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import workbench as wb
from workbench import static
from workbench.errors import InvalidType
from workbench.framework.program.guard import static_mode


@pytest.fixture
def _restored() -> Iterator[None]:
    yield
    wb.set_default_dtype("float32")


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64"])
def test_limits_of_integers(name: str) -> None:
    limits, wanted = wb.iinfo(name), np.iinfo(name)
    assert (limits.min, limits.max, limits.bits, limits.dtype) == (wanted.min, wanted.max, wanted.bits, name)
    assert str(limits) == f"paddle.iinfo(min={wanted.min}, max={wanted.max}, bits={wanted.bits}, dtype={name})"


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_limits_of_floats(name: str) -> None:
    limits, wanted = wb.finfo(name), np.finfo(name)
    for field in ("min", "max", "eps", "tiny", "smallest_normal", "resolution", "bits"):
        assert getattr(limits, field) == pytest.approx(float(getattr(wanted, field)), rel=1e-3), field


def test_other_kinds_are_refused() -> None:
    assert wb.finfo("bfloat16").bits == 16
    with pytest.raises(InvalidType, match="integer"):
        wb.iinfo("float32")
    with pytest.raises(InvalidType, match="floating"):
        wb.finfo("int32")


@pytest.mark.usefixtures("_restored")
def test_the_default_dtype_is_that_of_new_tensors_and_layers() -> None:
    wb.set_default_dtype(wb.float64)
    assert wb.get_default_dtype() == "float64"
    net = wb.nn.Linear(2, 3)
    for tensor in (wb.ones([1]), wb.rand([1]), wb.randn([1]), wb.to_tensor(1.5), wb.linspace(0, 1, 3), wb.eye(2),
                 wb.arange(0.0, 2.0), net.weight, net.bias, net(wb.ones([1, 2]))):  # fmt: skip
        assert tensor.dtype == "float64"
    assert wb.to_tensor(np.ones(1, np.float32)).dtype == "float32" and wb.to_tensor(1).dtype == "int64"
    assert wb.ones([1], "float32").dtype == "float32" and wb.arange(2).dtype == "int64"
    with static_mode(), static.program_guard(static.Program(), static.Program()):
        image = static.data("image", [None, 2])
        assert image.dtype == static.nn.fc(image, 3).dtype == "float64"
        assert static.data("label", [None, 2], "float32").dtype == static.InputSpec([2]).dtype == "float32"
    with pytest.raises(InvalidType, match="float16"):
        wb.set_default_dtype("int32")
    assert wb.get_default_dtype() == "float64"


def test_dtypes_are_written_as_paddle_writes_them_and_plainly_in_messages() -> None:
    assert str(wb.float32) == repr(wb.float32) == "paddle.float32" and f"{wb.float32:>8}" == " float32"
    assert wb.float32 == "float32" and wb.float32 == str(wb.float32)
