"""What kernels declare to touch, and that rows have to keep to it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tests.native.fences import APART
from tests.native.one_row import kernels, sum_rows
from workbench.errors import NotFound
from workbench.executors.lowering.tape.conv import convolutions
from workbench.runtime.footprint import FOOTPRINTS, OutOfBounds
from workbench.runtime.native.row_bodies import all_row_kernels
from workbench.runtime.native.tape import Tape, pointer

ROW_KERNELS = {kernel.name for kernel in all_row_kernels()}
INNER = {"fold", "unfold", "fold.f64", "unfold.f64"}  # called by other kernels, with addresses that those have got


def is_inner(kernel: str) -> bool:
    return kernel in INNER or kernel.startswith(("sums_", "lines_"))


def test_every_kernel_a_row_can_name_declares_what_it_touches() -> None:
    assert {k for k in kernels().arguments if not is_inner(k)} == {*FOOTPRINTS, *ROW_KERNELS}


def test_declarations_are_read_without_the_compiler() -> None:
    """A process that writes rows of an image that is there imports neither the kernels' files nor numba."""
    kernels()
    code = (
        "import sys; from workbench.config import set_flags; set_flags({'FLAGS_cpu_tape': True})\n"
        "from workbench.runtime.footprint import FOOTPRINTS; from workbench.runtime.native import library\n"
        "assert library.kernels() is not None\n"
        "for footprint in FOOTPRINTS.values(): footprint.touched, footprint.divisions, footprint.own\n"
        "heavy = [m for m in sys.modules if m.startswith(('numba', 'workbench.runtime.kernels'))]\n"
        "assert len(FOOTPRINTS) > 60 and not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.processes
def test_kernels_touch_no_more_than_they_declare() -> None:
    """Rows of programs of all kinds, with fences around what they point to; see `fences`."""
    pytest.importorskip("llvmlite", reason="llvmlite is not installed: kernels cannot be compiled with fences")
    process = subprocess.run(
        [sys.executable, "-m", "tests.native.fences"], capture_output=True, text=True, timeout=280
    )  # fmt: skip
    seen = {line.split()[0] for line in process.stdout.splitlines()}
    assert process.returncode == 0, f"{process.stdout[-200:]}\n{process.stderr[-2000:]}"
    assert (
        seen - ROW_KERNELS == set(FOOTPRINTS) - ROW_KERNELS - APART
    )  # `kernels.test_row_programs` has fences of its own


def numbers(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def test_a_row_does_not_point_to_a_scalar() -> None:
    with pytest.raises(TypeError, match="points to arrays"):
        pointer(numbers()[()])  # type: ignore[arg-type]


def test_a_row_that_leaves_its_operands_is_not_written() -> None:
    tape = Tape(kernels())
    for x, out in ((numbers(5, 3)[:4], numbers(5)), (numbers(5, 3), numbers(4)), (numbers(2, 8)[:, :6], numbers(5))):
        with pytest.raises(OutOfBounds, match="reduce_sum"):
            tape.row(*sum_rows(x, out, 5, 3))
    assert len(tape) == 0
    tape.row(*sum_rows(numbers(5, 3), numbers(5), 5, 3))


def test_pointers_that_are_moved_stay_in_their_array() -> None:
    tape, x = Tape(kernels()), numbers(6, 3)
    tape.row(*sum_rows(pointer(x).moved(12), numbers(5), 5, 3))
    for distance in (16, -4, 4 * 18):
        with pytest.raises(OutOfBounds):
            tape.row(*sum_rows(pointer(x).moved(distance), numbers(5), 5, 3))


def test_strides_that_go_backwards_are_followed() -> None:
    tape, x, out = Tape(kernels()), numbers(4, 3), numbers(4, 3)
    batch = 1, 0, 0, 1, 0, 0
    tape.row("copy_rows", x[::-1], out, 3, 4, -12, 12, *batch)
    for start, stride in ((x[::-1], -16), (x[1:][::-1], -12), (x, -12)):
        with pytest.raises(OutOfBounds):
            tape.row("copy_rows", start, out, 3, 4 + (start is not x and stride == -12), stride, 12, *batch)


def test_an_address_that_comes_from_nowhere_is_an_error() -> None:
    for given in (pointer(numbers(5, 3)).address, None, 0):
        with pytest.raises(TypeError, match="expected an array"):
            Tape(kernels()).row(*sum_rows(given, numbers(5), 5, 3))


def test_a_kernel_without_a_declaration_is_in_no_row() -> None:
    with pytest.raises(NotFound, match="does not declare"):
        Tape(kernels()).row("unfold", 0)


def test_tables_that_lead_outside_are_noticed(monkeypatch: Any) -> None:
    """What a convolution reads follows from its table of positions, not from its sizes."""
    from tests.native.kernels.test_convolutions import Writer, geometry

    geo = geometry(2, 3, (8, 20), 6, (3, 3))
    x, w, out = numbers(2, 3, 8, 20), numbers(6, 3, 3, 3), numbers(2, 6, *geo.out)
    for column, name in ((0, "PLACE"), (1, "TARGET")):
        monkeypatch.undo()
        whole = convolutions.pixel_positions

        def moved(geo: Any, whole: Any = whole, column: int = column) -> Any:
            positions, tile = whole(geo)
            positions[0, column] += 4 * 8 * 20 * 3
            return positions, tile

        convolutions.convolve(Writer(), geo, x, w, out, "pixels")  # type: ignore[arg-type]
        monkeypatch.setattr(convolutions, "pixel_positions", moved)
        with pytest.raises(OutOfBounds):
            convolutions.convolve(Writer(), geo, x, w, out, "pixels")  # type: ignore[arg-type]
        assert name
