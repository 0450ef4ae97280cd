"""What a tensor can be filled with: NumPy's two ways to fill disagree about numbers that integers do not hold."""

import numpy as np
import pytest

import workbench as wb
from workbench.errors import InvalidArgument
from workbench.framework.op.record import find_op

TOO_MUCH = [("int64", 1e30), ("int32", float("nan")), ("int64", float("inf")), ("int8", 300), ("uint8", -1)]


@pytest.mark.parametrize(("dtype", "number"), TOO_MUCH)
def test_what_integers_do_not_hold_is_refused_when_it_is_inferred(dtype: str, number: float) -> None:
    like = wb.zeros([2], dtype)
    for fill in (lambda: wb.full([2], number, dtype), lambda: wb.full_like(like, number)):
        with pytest.raises(InvalidArgument, match=rf"dtype {dtype} with one number\n  expected: -?\d+ to \d+\n  got: "):
            fill()
    with pytest.raises(InvalidArgument, match=dtype):  # as a program does that was read from a file
        find_op("fill_constant").infer(shape=[2], value=number, dtype=dtype)


@pytest.mark.parametrize(("dtype", "number"), [("float32", 1e300), ("int32", 2.5), ("bool", 2.5), ("float16", -1e5)])
def test_what_is_only_rounded_is_filled_in(dtype: str, number: float) -> None:
    with np.errstate(all="ignore"):
        expected = np.array(number).astype(dtype)
    assert (wb.full([3], number, dtype).numpy() == expected).all()
