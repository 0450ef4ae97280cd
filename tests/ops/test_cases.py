"""Every check on every op case. Ids read `<op>/<case id>`."""

from __future__ import annotations

import dataclasses
import importlib
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench.optimizer.rules  # noqa: F401  (fills the op table)
from tests.ops import case as C
from workbench.errors import ShapeError
from workbench.framework.op.evaluate import EvaluatedArray
from workbench.framework.op.grad_op import backward_op
from workbench.framework.op.record import OPS, find_op
from workbench.framework.op.recorder import recording
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import size_of, spec_of

HERE = Path(__file__).parent


def _collect() -> tuple[list[C.Case], dict[str, str]]:
    """All cases, and the errors of the files that could not be read (which fail a test)."""
    cases: list[C.Case] = []
    broken: dict[str, str] = {}
    for path in sorted(HERE.rglob("cases_*.py")):
        try:
            cases += importlib.import_module(f"tests.ops.{path.parent.name}.{path.stem}").CASES
        except Exception:
            broken[path.name] = traceback.format_exc()
    return cases, broken


CASES, BROKEN = _collect()


def over(keep: Any = lambda case: True) -> Any:
    """Parametrise over the cases for which the check means something."""
    chosen = [case for case in CASES if case.type in OPS and keep(case)]
    return pytest.mark.parametrize("case", chosen, ids=[case.label for case in chosen])


def _differentiable(case: C.Case) -> bool:
    return bool(case.differentiated())


def _equal(got: Any, expected: Any, what: str = "") -> None:
    """The same bits, NaN equal to NaN."""
    assert (got is None) == (expected is None), what
    for a, b in zip(C.leaves([C.tree_map_dense(got)]), C.leaves([C.tree_map_dense(expected)]), strict=True):
        np.testing.assert_array_equal(a, b, err_msg=what)
        assert a.dtype == b.dtype, what


def _close(got: Any, expected: Any, what: str, **tolerance: float) -> None:
    got, expected = C.leaves([C.tree_map_dense(got)]), C.leaves([C.tree_map_dense(expected)])
    assert len(got) == len(expected), what
    for a, b in zip(got, expected, strict=True):
        assert a.shape == np.shape(b), f"{what}: shape {a.shape}, expected {np.shape(b)}"
        if as_dtype(a.dtype).is_float:
            wide, reference = a.astype(np.float64), np.asarray(b, np.float64)
            np.testing.assert_allclose(wide, reference, err_msg=what, **tolerance)
        else:
            np.testing.assert_array_equal(a, b, err_msg=what)


def _inferred(case: C.Case, specs: list[Any]) -> tuple[Any, ...]:
    result = case.op.infer(*specs, **case.full_attrs)
    return (result,) if len(case.op.outputs) == 1 else tuple(result)


def _agree(spec: Any, value: Any, exact: bool, what: str) -> None:
    """The inferred spec describes the value (with −1 for what was not known)."""
    if spec is None or value is None:
        assert spec is None or value is None
        return
    if isinstance(value, list | tuple):
        assert len(spec) == len(value), what
        for s, v in zip(spec, value, strict=True):
            _agree(s, v, exact, what)
        return
    real = spec_of(value)
    assert (spec.dtype, spec.kind) == (real.dtype, real.kind), f"{what}: inferred {spec}, got {real}"
    assert len(spec.shape) == len(real.shape), f"{what}: inferred {spec}, got {real}"
    for declared, dim in zip(spec.shape, real.shape, strict=True):
        assert declared == dim or (declared == -1 and not exact), f"{what}: inferred {spec}, got {real}"


@over()
def test_forward(case: C.Case) -> None:
    """The forward body against the independent answer, per dtype; inputs stay as they were."""
    for dtype in case.run_dtypes():
        arrays = case.arrays(dtype)  # read-only: writing into one raises
        outputs = C.run_forward(case.op, arrays, case.full_attrs)
        if case.check is not None:
            case.check(*outputs)
        if case.ref is None:
            continue
        with np.errstate(all="ignore"):
            expected = case.ref(*(C.to_float64(a) for a in arrays), **case.attrs)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for slot, got, want in zip(case.op.outputs, outputs, expected, strict=True):
            if want is not None:
                _close(got, want, f"{slot.name} in {dtype}", **case.tolerance(dtype))


@over()
def test_infer(case: C.Case) -> None:
    """`infer` tells the real shape and dtype; with unknown dims it tells nothing false."""
    for dtype in case.run_dtypes():
        arrays = case.arrays(dtype)
        outputs = C.run_forward(case.op, arrays, case.full_attrs)
        exact = C.specs_of(arrays)
        rank = max((len(a.shape) for a in C.leaves(arrays)), default=0)
        for value, spec in zip(outputs, _inferred(case, exact), strict=True):
            _agree(spec, value, True, f"declared dims, {dtype}")
        for axes in [set(range(rank)), *({i} for i in range(rank))]:
            blurred = C.with_unknown(case, exact, axes.__contains__)
            for value, spec in zip(outputs, _inferred(case, blurred), strict=True):
                _agree(spec, value, False, f"dims {sorted(axes)} unknown, {dtype}")
    cost = case.op.estimate(exact, _inferred(case, exact), case.full_attrs)
    assert cost.flops >= 0 and cost.bytes >= 0


@over(lambda case: case.inputs)
def test_non_contiguous(case: C.Case) -> None:
    arrays = case.arrays("float64")
    plain = C.run_forward(case.op, arrays, case.full_attrs)
    spread = C.run_forward(case.op, [C.strided(a) for a in arrays], case.full_attrs)
    for a, b in zip(spread, plain, strict=True):
        _close(a, b, "strided inputs", rtol=1e-12, atol=1e-14)


def _emptied(case: C.Case) -> list[list[Any]]:
    if isinstance(case.size0, list):
        return [[C.cast(v, "float64") for v in variant] for variant in case.size0]
    arrays = case.arrays("float64")
    first = next((a.shape[0] for a in C.leaves(arrays) if a.ndim), None)
    return [[C.tree_map(lambda a: a[:0] if a.ndim and a.shape[0] == first else a, v) for v in arrays]]


@over(lambda case: case.size0 and case.inputs)
def test_empty_inputs(case: C.Case) -> None:
    for given in _emptied(case):
        arrays = given + [None] * (len(case.op.inputs) - len(given))
        outputs = C.run_forward(case.op, arrays, case.full_attrs)
        for value, spec in zip(outputs, _inferred(case, C.specs_of(arrays)), strict=True):
            _agree(spec, value, True, "size 0")
        if _differentiable(case):
            grads = C.run_backward(case, arrays, outputs, C.cotangents(case, outputs))
            for slot, a in zip(case.op.inputs, arrays, strict=True):
                if slot.name in case.differentiated():
                    got = grads[slot.name]
                    assert [x.shape for x in C.leaves([got])] == [x.shape for x in C.leaves([a])], slot.name


def _moved(value: Any, directions: list[np.ndarray], step: float) -> Any:
    rest = iter(directions)
    return C.tree_map(lambda a: a + step * next(rest), value)


def _projected(gs: list[Any], outputs: Any) -> float:
    """sum(g · outputs) over the outputs that have a g."""
    pairs = [(g, out) for g, out in zip(gs, outputs, strict=True) if g is not None]
    flat = [pair for g, out in pairs for pair in zip(C.leaves([g]), C.leaves([out]), strict=True)]
    return sum(float(np.sum(a * b)) for a, b in flat)


def _directional(case: C.Case, arrays: list[Any], place: int, directions: list[Any], gs: list[Any]) -> float:
    """Derivative of sum(g · outputs) along directions of one input: central differences of the forward."""
    step, values = 1e-5, []
    for sign in (1, -1):
        moved = list(arrays)
        moved[place] = _moved(arrays[place], directions, sign * step)
        values.append(_projected(gs, C.run_forward(case.op, moved, case.full_attrs)))
    return (values[0] - values[1]) / (2 * step)


@over(_differentiable)
def test_gradient(case: C.Case) -> None:
    """The body of `<type>_grad` against the numerical derivative, in float64, input by input."""
    arrays = case.arrays("float64")
    outputs = C.run_forward(case.op, arrays, case.full_attrs)
    gs = C.cotangents(case, outputs)
    grads = C.run_backward(case, arrays, outputs, gs)
    rng = np.random.default_rng(5)
    for place, slot in enumerate(case.op.inputs):
        if slot.name not in case.differentiated():
            continue
        got, given = C.leaves([grads[slot.name]]), C.leaves([arrays[place]])
        assert [g.shape for g in got] == [a.shape for a in given], slot.name
        for _ in range(2):
            directions = [np.asarray(rng.standard_normal(a.shape)) for a in given]
            analytic = sum(float(np.sum(g * d)) for g, d in zip(got, directions, strict=True))
            numeric = _directional(case, arrays, place, directions, gs)
            scale = sum(float(np.sum(np.abs(g * d))) for g, d in zip(got, directions, strict=True))
            assert abs(analytic - numeric) <= case.grad_tol * max(scale, 1e-2), (
                f"gradient of {slot.name}: rule {analytic}, central differences {numeric}"
            )


@over(lambda case: _differentiable(case) and len(case.run_dtypes()) > 1)
def test_gradient_dtypes(case: C.Case) -> None:
    """Gradients come in the input's dtype and near the float64 ones."""
    for dtype in case.run_dtypes():
        arrays = case.arrays(dtype)
        outputs = C.run_forward(case.op, arrays, case.full_attrs)
        gs = C.cotangents(case, outputs)
        grads = C.run_backward(case, arrays, outputs, gs)
        wide = [C.cast(C.to_float64(a), "float64") for a in arrays]
        wide_out = C.run_forward(case.op, wide, case.full_attrs)
        exact = C.run_backward(case, wide, wide_out, [C.to_float64(g) for g in gs])
        rtol, atol = case.tol.get(dtype, C.TOLERANCE[dtype])
        for name in case.differentiated():
            given = C.leaves([arrays[[s.name for s in case.op.inputs].index(name)]])
            for got, want, a in zip(C.leaves([grads[name]]), C.leaves([exact[name]]), given, strict=True):
                assert got.dtype == a.dtype, f"gradient of {name} is {got.dtype} for a {a.dtype} input"
                error = np.linalg.norm(got.astype(np.float64) - want)
                size = np.linalg.norm(want) + atol * np.sqrt(want.size)
                assert error <= 3 * rtol * size + atol, f"{name} in {dtype}: off by {error:g} of {size:g}"


@over(_differentiable)
def test_only_wanted_gradients(case: C.Case) -> None:
    """Asking for one gradient gives the same one."""
    arrays = case.arrays("float64")
    outputs = C.run_forward(case.op, arrays, case.full_attrs)
    gs = C.cotangents(case, outputs)
    every = C.run_backward(case, arrays, outputs, gs)
    for name in case.differentiated():
        alone = C.run_backward(case, arrays, outputs, gs, wanted=[other == name for other in every])
        _close(alone[name], every[name], name, rtol=1e-12, atol=1e-14)


def _has_direct_body(case: C.Case) -> bool:
    return _differentiable(case) and case.op.grad_forward is not None


def _rule_op(case: C.Case) -> Any:
    """The backward op whose body is the rule, whatever direct body the op brings."""
    return backward_op(dataclasses.replace(case.op, grad_forward=None))


@over(_has_direct_body)
def test_direct_gradient_equals_rule(case: C.Case) -> None:
    for dtype, rtol, atol in (("float64", 1e-10, 1e-12), ("float32", 1e-4, 1e-5)):
        arrays = case.arrays(dtype)
        outputs = C.run_forward(case.op, arrays, case.full_attrs)
        gs = C.cotangents(case, outputs)
        direct = C.run_backward(case, arrays, outputs, gs)
        by_rule = C.run_backward(case, arrays, outputs, gs, grad_op=_rule_op(case))
        for name in case.differentiated():
            _close(direct[name], by_rule[name], f"{name} in {dtype}", rtol=rtol, atol=atol)


def _poison(array: np.ndarray) -> np.ndarray:
    if as_dtype(array.dtype).is_float:
        return np.full_like(array, np.nan)
    return np.full_like(array, True if array.dtype == bool else np.iinfo(array.dtype).min)


@over(lambda case: _differentiable(case) and {s.name for s in case.op.inputs} - set(case.op.saved))
def test_unsaved_inputs_are_not_read(case: C.Case) -> None:
    arrays = case.arrays("float64")
    outputs = C.run_forward(case.op, arrays, case.full_attrs)
    gs = C.cotangents(case, outputs)
    poisoned = [
        a if slot.name in case.op.saved else C.tree_map(_poison, a)
        for slot, a in zip(case.op.inputs, arrays, strict=True)
    ]
    for grad_op in (find_op(case.op.grad_type), _rule_op(case)):
        good = C.run_backward(case, arrays, outputs, gs, grad_op=grad_op)
        bad = C.run_backward(case, poisoned, outputs, gs, grad_op=grad_op)
        for name in case.differentiated():
            _equal(bad[name], good[name], f"gradient of {name} reads an input that is not saved")


@over()
def test_dynamic(case: C.Case) -> None:
    """Applied under the evaluator, the op gives what its forward body gives."""
    arrays = case.arrays(case.run_dtypes()[0])
    evaluator = C.FixedEvaluator()
    values = [C.tree_map(EvaluatedArray, a) if not C.is_rows(a) else a for a in arrays]
    with recording(evaluator), np.errstate(all="ignore"):
        results = case.op(*values, **case.attrs)
    results = (results,) if len(case.op.outputs) == 1 else results
    for got, want in zip(results, C.run_forward(case.op, arrays, case.full_attrs), strict=True):
        _equal(evaluator.unwrap(got), list(want) if isinstance(want, tuple) else want)


def _declare(block: Any, name: str, spec: Any) -> Any:
    if spec is None:
        return None
    if isinstance(spec, list):
        return [_declare(block, f"{name}_{i}", s) for i, s in enumerate(spec)]
    return block.create_var(name, spec.shape, spec.dtype, spec.kind, is_data=True)


def _bind(env: dict[str, Any], variable: Any, value: Any) -> None:
    if isinstance(variable, list):
        for var, v in zip(variable, value, strict=True):
            _bind(env, var, v)
    elif variable is not None:
        env[variable.name] = value


@over(lambda case: any(s.optional is False and not s.is_list for s in case.op.inputs))
def test_missing_input_is_refused(case: C.Case) -> None:
    with recording(C.FixedEvaluator()), pytest.raises(TypeError, match=case.type):
        case.op(**case.attrs)


def test_the_checks_notice_a_wrong_gradient() -> None:
    """The harness itself: a rule that is off by 1 % does not pass."""
    good = next(case for case in CASES if case.type == "tanh" and _differentiable(case))
    rule = good.op.grad
    bad = dataclasses.replace(good.op, grad=lambda g, *rest, **attrs: rule(g * 1.01, *rest, **attrs))
    arrays = good.arrays("float64")
    outputs = C.run_forward(good.op, arrays, good.full_attrs)
    gs = C.cotangents(good, outputs)
    wrong = C.run_backward(good, arrays, outputs, gs, grad_op=backward_op(bad))["X"]
    direction = np.random.default_rng(3).standard_normal(arrays[0].shape)
    numeric = _directional(good, arrays, 0, [direction], gs)
    analytic, scale = float(np.sum(wrong * direction)), float(np.sum(np.abs(wrong * direction)))
    assert abs(analytic - numeric) > good.grad_tol * scale


def test_infer_refuses_dims_that_cannot_broadcast() -> None:
    """Known dims that differ are refused even if the others are unknown."""
    add = find_op("elementwise_add")
    x = spec_of(np.zeros((2, 3)))
    with pytest.raises(ShapeError, match="broadcast"):
        add.infer(x.with_shape((-1, 3)), x.with_shape((-1, 4)), **add.attrs)
    assert size_of(add.infer(x.with_shape((-1, 3)), x, **add.attrs).shape) == 6
