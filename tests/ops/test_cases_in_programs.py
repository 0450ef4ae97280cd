"""Every op case in a Program: forward, gradient rules, traces. Ids read `<op>/<case id>`."""

from __future__ import annotations

from typing import Any

import numpy as np

import workbench.optimizer.rules  # noqa: F401  (fills the op table)
from tests.ops import case as C
from tests.ops.test_cases import (
    _agree,
    _bind,
    _close,
    _declare,
    _differentiable,
    _equal,
    _inferred,
    _poison,
    _rule_op,
    over,
)
from workbench.framework import names
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.elementwise import trace
from workbench.framework.op.evaluate import reduce_to
from workbench.framework.op.grad_op import call_rule
from workbench.framework.op.record import find_op
from workbench.framework.program.guard import program_guard, static_mode
from workbench.framework.program.program import Program


def _run_block(block: Any, env: dict[str, Any]) -> None:
    """Operators in order, by their records: all that the checks need of an executor."""
    for operator in block.ops:
        args = []
        for slot in operator.record.inputs:
            held = [env[name] for name in operator.input(slot.name)]
            args.append(held if slot.is_list and held else held[0] if held else None)
        results = C.run_forward(operator.record, args, operator.call_attrs())
        for slot, result in zip(operator.record.outputs, results, strict=True):
            listed = result if isinstance(result, list | tuple) else [result]
            env.update(zip(operator.output(slot.name), listed, strict=False))


def _variants(case: C.Case, arrays: list[Any]) -> list[list[Any]]:
    exact = C.specs_of(arrays)
    return [exact, C.with_unknown(case, exact, lambda axis: True)]


@over()
def test_static(case: C.Case) -> None:
    """Recorded in a Program (dims known and unknown) and run from it, the op gives the same bits."""
    arrays = case.arrays(case.run_dtypes()[0])
    expected = C.run_forward(case.op, arrays, case.full_attrs)
    for specs in _variants(case, arrays):
        program = Program()
        with names.guard(), program_guard(program, Program()), static_mode():
            block = program.global_block()
            given = [_declare(block, f"x{i}", spec) for i, spec in enumerate(specs)]
            outs = case.op(*given, **case.attrs)
        outs = (outs,) if len(case.op.outputs) == 1 else outs
        assert [operator.type for operator in block.ops] == [case.type]
        layer = case.op.layer or case.op.type
        flat_outs = [v for out in outs for v in (out if isinstance(out, list) else [out]) if v is not None]
        assert [v.name for v in flat_outs] == [f"{layer}_0.tmp_{k}" for k in range(len(flat_outs))]
        env: dict[str, Any] = {}
        _bind(env, given, arrays)
        _run_block(block, env)
        for variable, want in zip(outs, expected, strict=True):
            want = list(want) if isinstance(want, tuple) else want
            if variable is not None:
                got = _each(lambda v, env=env: env[v.name], variable)
                _equal(got, want)
                _agree(_each(lambda v: v.spec, variable), got, False, "static")


def _each(function: Any, variable: Any) -> Any:
    return [function(v) for v in variable] if isinstance(variable, list) else function(variable)


def _ask(gradient: Any) -> Any:
    return gradient() if callable(gradient) else gradient


@over(_differentiable)
def test_rule_in_static_mode(case: C.Case) -> None:
    """The gradient rule appends operators (dims known and unknown) that give the gradient when run."""
    arrays = case.arrays("float64")
    outputs = C.run_forward(case.op, arrays, case.full_attrs)
    gs = C.cotangents(case, outputs)
    expected = C.run_backward(case, arrays, outputs, gs)
    for specs in _variants(case, arrays):
        out_specs = _inferred(case, specs)
        program = Program()
        with names.guard(), program_guard(program, Program()), static_mode():
            block = program.global_block()
            ins = [_declare(block, f"x{i}", spec) for i, spec in enumerate(specs)]
            outs = [_declare(block, f"y{i}", spec) for i, spec in enumerate(out_specs)]
            saved = [slot.name in case.op.saved for slot in case.op.outputs]
            kept = [out if keep else None for out, keep in zip(outs, saved, strict=True)]
            given = [None if g is None else _declare(block, f"g{i}", out_specs[i]) for i, g in enumerate(gs)]
            grads = [_ask(g) for g in call_rule(case.op, given, kept, ins, case.full_attrs)]
        env: dict[str, Any] = {}
        for slot, variable, value in zip(case.op.inputs, ins, arrays, strict=True):
            _bind(env, variable, value if slot.name in case.op.saved else C.tree_map(_poison, value))
        for variable, value in [*zip(outs, outputs, strict=True), *zip(given, gs, strict=True)]:
            _bind(env, variable, value)
        _run_block(block, env)
        for slot, gradient, a in zip(case.op.inputs, grads, arrays, strict=True):
            if slot.name not in case.differentiated():
                continue
            listed = gradient if isinstance(gradient, list) else [gradient]
            for variable, want, x in zip(listed, C.leaves([expected[slot.name]]), C.leaves([a]), strict=True):
                got = C.dense(env[variable.name])
                _agree(variable.spec, env[variable.name], False, f"rule for {slot.name}")
                _close(reduce_to(np, got, x.shape), want, slot.name, rtol=1e-9, atol=1e-12)


@over(lambda case: case.op.is_elementwise)
def test_trace_of_forward(case: C.Case) -> None:
    for dtype in case.run_dtypes():
        arrays = case.arrays(dtype)
        kinds = tuple(a.dtype if a is not None else "float32" for a in arrays)
        expressions = _tuple(trace(case.op, kinds, **case.attrs))
        for expression, want in zip(expressions, C.run_forward(case.op, arrays, case.full_attrs), strict=True):
            if want is None:
                assert expression is None
                continue
            with np.errstate(all="ignore"):
                got = np.asarray(expression.evaluate(numpy_xp, *arrays))
            _equal(got, want, dtype)
            assert expression.dtype == want.dtype, "the expression's dtype"


@over(lambda case: case.op.is_elementwise and _differentiable(case))
def test_trace_of_gradient(case: C.Case) -> None:
    grad_op = find_op(case.op.grad_type)
    for dtype in case.run_dtypes():
        arrays = case.arrays(dtype)
        outputs = C.run_forward(case.op, arrays, case.full_attrs)
        gs = C.cotangents(case, outputs)
        kept = [out for slot, out in zip(case.op.outputs, outputs, strict=True) if slot.name in case.op.saved]
        given = [*arrays, *kept, *gs]
        expressions = trace(grad_op, tuple("float32" if a is None else a.dtype for a in given), **case.attrs)
        slots = [s.name.removesuffix("@GRAD") for s in grad_op.outputs]
        by_name = dict(zip(slots, _tuple(expressions), strict=True))
        is_half = dtype in ("float16", "bfloat16")
        want = C.run_backward(case, arrays, outputs, gs, grad_op=None if is_half else _rule_op(case))
        for slot, a in zip(case.op.inputs, arrays, strict=True):
            if slot.name in case.differentiated():
                with np.errstate(all="ignore"):
                    got = by_name[slot.name].evaluate(numpy_xp, *given)
                whole = np.broadcast_to(np.asarray(got), outputs[0].shape)
                if is_half and whole.shape != a.shape:
                    continue  # the body adds up in float32 what the trace has rounded; nobody runs such a trace
                reduced = reduce_to(np, whole, a.shape).astype(a.dtype)
                _equal(reduced, want[slot.name], f"{slot.name} in {dtype}")


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
