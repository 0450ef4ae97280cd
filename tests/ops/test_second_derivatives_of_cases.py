"""The second derivative of every differentiable op, along random directions: against differences of the first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.ops import case as C
from tests.ops.test_cases import CASES, _bind, _declare, _differentiable
from workbench.framework import names
from workbench.framework.op.record import OPS
from workbench.framework.program.guard import program_guard, static_mode
from workbench.framework.program.program import Program
from workbench.ops.math.reductions.reduce import sum as sum_of

PER_OP = 3
STEP = 1e-5
NO_DIFFERENCES = {
    "elementwise_pow/zero base": "a step to a negative base has no real power",
    "cumprod/zeros": "a second derivative from the first 0 on comes out as 0",
    "digamma/negative": "derivatives of digamma but the first are for numbers > 0",
    "svd/full": "of the vectors of singular values that are none there is no gradient",
    "lookup_table/sparse": "a sparse gradient cannot be used like a tensor",
    "lookup_table_v2/sparse": "a sparse gradient cannot be used like a tensor",
    "lookup_table_v2/sparse, padding": "a sparse gradient cannot be used like a tensor",
}
# A piecewise linear op would pass with a second derivative of zero; these have to show one.
CURVED = [
    "tanh", "sigmoid", "gelu", "exp", "log", "square", "elementwise_mul", "elementwise_div", "softmax", "layer_norm",
    "matmul_v2", "conv2d",
]  # fmt: skip


def _chosen() -> list[C.Case]:
    """The first cases of every op."""
    taken: dict[str, int] = {}
    cases = []
    for case in CASES:
        smooth = case.type in OPS and case.label not in NO_DIFFERENCES and _differentiable(case)
        taken[case.type] = taken.get(case.type, 0) + smooth
        if smooth and taken[case.type] <= PER_OP:
            cases.append(case)
    return cases


class Curvature:
    """A program with the gradient of a case and the gradient of that, taken along a fixed direction."""

    def __init__(self, case: C.Case) -> None:
        self.arrays, self.rng = case.arrays("float64"), np.random.default_rng(3)
        outputs = C.run_forward(case.op, self.arrays, case.full_attrs)
        given = C.leaves([g for g in C.cotangents(case, outputs) if g is not None])
        self.feed: dict[str, Any] = {}
        self.program = Program()
        self.program.random_seed = 5
        with names.guard(), program_guard(self.program, Program()), static_mode():
            block = self.program.global_block()
            ins = [_declare(block, f"x{i}", spec) for i, spec in enumerate(C.specs_of(self.arrays))]
            chosen = [v for slot, v in zip(case.op.inputs, ins, strict=True) if slot.name in case.differentiated()]
            self.xs = _flat(chosen)
            for x in self.xs:
                x.stop_gradient = False
            outs = case.op(*ins, **case.attrs)
            outs = (outs,) if len(case.op.outputs) == 1 else outs
            wanted = [o for o, g in zip(outs, C.cotangents(case, outputs), strict=True) if g is not None]
            seeds = [self.fed(block, "g", g) for g in given]
            first = wb.static.gradients(_flat(wanted), self.xs, target_gradients=seeds)
            self.first = [f for f in first if f is not None]
            self.along = [self.rng.standard_normal(f.shape) for f in self.first]
            total = wb.add_n([sum_of(f * self.fed(block, "u", u)) for f, u in zip(self.first, self.along, strict=True)])
            self.second = wb.static.gradients(total, self.xs)
        for variable, array in zip(ins, self.arrays, strict=True):
            _bind(self.feed, variable, array)
        self.step = [self.rng.standard_normal(x.shape) for x in self.xs]

    def fed(self, block: Any, kind: str, value: Any) -> Any:
        name = f"{kind}{len(self.feed)}"
        self.feed[name] = value
        return block.create_var(name, value.shape, value.dtype, is_data=True)

    def run(self, distance: float, fetch: list[Any]) -> list[np.ndarray]:
        """Values of variables, a distance along the step away from where the case is."""
        moved = {x.name: self.feed[x.name] + distance * v for x, v in zip(self.xs, self.step, strict=True)}
        read = {name for op in self.program.global_block().ops for name in op.input_arg_names}
        scope = wb.static.Scope()
        if self.program.rng_step:  # the same elements dropped in every run
            scope.var(self.program.rng_step).get_tensor().set(np.zeros(1, np.int64))
        feed = {name: value for name, value in {**self.feed, **moved}.items() if name in read}
        with np.errstate(all="ignore"):
            return wb.static.Executor().run(self.program, feed=feed, fetch_list=fetch, scope=scope)

    def analytic(self) -> tuple[float, float]:
        """The second derivative, and the sum of the magnitudes it is made of."""
        pairs = [(s, v) for s, v in zip(self.second, self.step, strict=True) if s is not None]
        values = self.run(0.0, [s for s, _ in pairs]) if pairs else []
        parts = [a * v for a, (_, v) in zip(values, pairs, strict=True)]
        return sum(float(p.sum()) for p in parts), sum(float(np.abs(p).sum()) for p in parts)

    def numeric(self) -> float:
        plus, minus = self.run(STEP, self.first), self.run(-STEP, self.first)
        parts = [float(((p - m) * u).sum()) for p, m, u in zip(plus, minus, self.along, strict=True)]
        return sum(parts) / (2 * STEP)


def _flat(values: Any) -> list[Any]:
    return [v for value in values for v in (value if isinstance(value, list) else [value])]


@pytest.mark.parametrize("case", _chosen(), ids=lambda case: case.label)
def test_second_derivative(case: C.Case) -> None:
    curvature = Curvature(case)
    analytic, scale = curvature.analytic()
    assert abs(analytic - curvature.numeric()) <= 2e-5 * max(scale, 1.0) + 1e-6


@pytest.mark.parametrize("type", CURVED)
def test_curved_ops_have_one(type: str) -> None:
    """The check above compares more than zeros."""
    assert any(abs(Curvature(case).analytic()[0]) > 1e-6 for case in _chosen() if case.type == type)
