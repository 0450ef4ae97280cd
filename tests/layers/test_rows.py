"""Every layer class: against a reference in NumPy, and the program it builds against what it computes at once."""

from __future__ import annotations

import functools
import importlib
import inspect
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.layers import row as rows
from tests.layers.row import Row
from workbench.errors import EnforceNotMet
from workbench.layers.layer import Layer

FILES = sorted(path.stem for path in (Path(__file__).parent / "rows").glob("*.py"))
ROWS: dict[str, Row] = {}
for file in FILES:
    ROWS.update(importlib.import_module(f"tests.layers.rows.{file}").ROWS)

CLASSES = {name for name in wb.nn.__all__ if inspect.isclass(c := getattr(wb.nn, name)) and issubclass(c, Layer)}
RANDOM = {"AlphaDropout", "Dropout", "Dropout2D", "Dropout3D", "RReLU"}  # in training; `test_random.py`


@functools.cache
def at_once(name: str) -> rows.Result:
    return rows.in_dynamic_mode(ROWS[name])


over_rows = pytest.mark.parametrize("name", ROWS)


def test_every_class_has_a_row() -> None:
    assert {name.partition("/")[0] for name in ROWS if not name.startswith("F.")} == CLASSES


@over_rows
def test_outputs_are_those_of_the_reference(name: str) -> None:
    row = ROWS[name]
    computed = at_once(name)
    wanted = rows.flat(row.ref(rows.reference_values(row), *rows.reference_inputs(row)))
    assert len(computed.outputs) == len(wanted)
    for got, want in zip(computed.outputs, wanted, strict=True):
        assert got.shape == np.shape(want)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, **row.tolerance)


@over_rows
def test_values_afterwards(name: str) -> None:
    row = ROWS[name]
    values = rows.reference_values(row)
    wanted = {**values, **(row.after(values, *rows.reference_inputs(row)) if row.after else {})}
    changed = at_once(name).values
    assert changed.keys() == wanted.keys()
    for key, want in wanted.items():
        np.testing.assert_allclose(changed[key], want, rtol=2e-6, atol=1e-7)


@over_rows
def test_gradients_are_slopes(name: str) -> None:
    """Along one random direction through all inputs and parameters at once, in the reference."""
    row = ROWS[name]
    gradients = at_once(name).gradients
    rng = np.random.default_rng(3)
    values, inputs = rows.reference_values(row), rows.reference_inputs(row)
    directions = {key: rng.standard_normal(g.shape) for key, g in gradients.items()}

    def total(step: float) -> float:
        moved = {k: v + step * directions[k] if k in directions else v for k, v in values.items()}
        given = [x + step * directions[i] if i in directions else x for i, x in enumerate(inputs)]
        outputs = rows.flat(row.ref(moved, *given))
        return float(sum((y * rows.weight(i, np.shape(y))).sum() for i, y in enumerate(outputs)))

    slope = (total(1e-5) - total(-1e-5)) / 2e-5
    got = sum(float((g * directions[key]).sum()) for key, g in gradients.items())
    size = sum(float(np.abs(g * directions[key]).sum()) for key, g in gradients.items())
    assert got == pytest.approx(slope, abs=2e-4 * size + 1e-5)


@over_rows
def test_a_program_computes_the_same(name: str) -> None:
    row = ROWS[name]
    computed, in_program = at_once(name), rows.in_static_mode(row)
    for got, want in zip(in_program.outputs, computed.outputs, strict=True):
        assert got.shape == (want.shape or (1,))
        np.testing.assert_allclose(got.reshape(want.shape), want, rtol=1e-5, atol=1e-6)
    assert in_program.gradients.keys() == computed.gradients.keys()
    for key, want in computed.gradients.items():
        np.testing.assert_allclose(in_program.gradients[key], want, rtol=1e-4, atol=1e-5, err_msg=str(key))
    assert in_program.values.keys() == computed.values.keys()
    for key, want in computed.values.items():
        np.testing.assert_allclose(in_program.values[key], want, rtol=1e-6, atol=1e-7, err_msg=key)


@over_rows
def test_sizes_that_only_the_run_knows_are_refused_or_change_nothing(name: str) -> None:
    """A size of -1 must not be counted with, as it once was in smoothed labels and margins."""
    row = ROWS[name]
    try:
        in_program = rows.in_static_mode(row, lambda row, x: [None] * x.ndim)
    except EnforceNotMet:
        assert any(x.ndim > 1 for x in row.arrays()) or row.known  # more than the batch has to be known
        return
    for got, want in zip(in_program.outputs, at_once(name).outputs, strict=True):
        np.testing.assert_allclose(got.reshape(want.shape), want, rtol=1e-4, atol=1e-5)
    for key, want in at_once(name).gradients.items():
        np.testing.assert_allclose(in_program.gradients[key], want, rtol=1e-3, atol=1e-4, err_msg=str(key))


PLAIN = [name for name, row in ROWS.items() if row.call.__module__ == rows.__name__]


@pytest.mark.parametrize("name", PLAIN)
def test_inputs_may_be_given_by_name(name: str) -> None:
    row = ROWS[name]
    layer = row.layer()
    layer.set_state_dict(rows.some_values(layer))
    recipe = getattr(layer, "recipe", None)
    names = list(inspect.signature(type(layer).forward).parameters)[1:] if recipe is None else recipe.inputs
    named = dict(zip(names, map(wb.to_tensor, row.arrays()), strict=False))
    for got, want in zip(rows.flat(layer(**named)), at_once(name).outputs, strict=True):
        np.testing.assert_array_equal(got.numpy(), want)
