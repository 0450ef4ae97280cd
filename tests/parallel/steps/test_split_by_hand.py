"""Several devices have the same bits as the split done by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.parallel.lowerings import as_calls
from tests.parallel.models import Model, build
from tests.parallel.steps.test_equivalence import (
    OPTIMIZERS,
    ROW_BY_ROW,
    Kind,
    Known,
    Mode,
    building,
    feed,
    parts_of,
    pick,
    random_body,
)
from workbench import static
from workbench.executors.reference.step import InterpretedStep, Prepared, prepare
from workbench.framework.program.roles import LOSS_GRAD, OPTIMIZE
from workbench.framework.values.rows import Rows, concat
from workbench.runtime.blas import one_blas_thread


def centred(draw: Any, known: Known) -> None:
    """Mixes the rows of a device."""
    x = pick(draw, known)
    known.append(static.nn.batch_norm(x) if draw(st.booleans()) else x - wb.mean(x, axis=0, keepdim=True))


def decided(draw: Any, known: Known) -> None:
    """Goes one way or the other for all rows of a device."""
    x, y = wb.tanh(pick(draw, known)), pick(draw, known)
    positive = wb.greater_than(wb.mean(x), wb.full([1], 0.0, x.dtype))
    known.append(static.nn.cond(positive, lambda: x * y, lambda: wb.tanh(y) - x))


MIXING: list[Kind] = [centred, decided]


class ByHand:
    """What several devices do, one after the other with the plain executor's steps.

    Each device has a scope of its own and computes the gradients of its rows, with a loss gradient of 1 / devices.
    They are added up in order, and every device updates with the sum.

    Args:
        owners: in Reduce mode the device whose part of a parameter's gradient the sum begins with (trap 27).
    """

    def __init__(self, model: Model, count: int, owners: dict[str, int]) -> None:
        ops = model.main.global_block().ops
        first = next(i for i, op in enumerate(ops) if op.role & OPTIMIZE)
        before, after = ({id(op) for op in part} for part in (ops[:first], ops[first:]))
        pairs = dict(pair for op in ops[:first] for pair in op.role_vars)
        self.gradients = {gradient: owners.get(parameter, 0) for parameter, gradient in pairs.items()}
        backward = model.main.keep_operators(lambda op: op.block.idx > 0 or id(op) in before)
        update = model.main.keep_operators(lambda op: op.block.idx > 0 or id(op) in after)
        (seed,) = (op for op in backward.global_block().ops if op.role == LOSS_GRAD)
        seed.attrs["value"] = 1 / count
        self.loss, self.names = model.loss.name, [model.loss.name, *self.gradients]
        self.backward, self.update = prepare(backward, self.names), prepare(update, [])
        self.scopes = [static.Scope() for _ in range(count)]
        for scope in self.scopes:
            for name, value in model.values().items():
                scope.var(name).set(value)

    def run(self, parts: Sequence[dict[str, np.ndarray]]) -> np.ndarray:
        """One step; the devices' losses."""
        results = [one_step(self.backward, s, part, self.names) for s, part in zip(self.scopes, parts, strict=True)]
        sums = {g: added([values[g] for values in results], owner) for g, owner in self.gradients.items()}
        for scope in self.scopes:
            one_step(self.update, scope, sums, [])
        return np.concatenate([values[self.loss] for values in results])


def one_step(prepared: Prepared, scope: static.Scope, given: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A step of the plain executor, which may be given sparse gradients and asked for them."""

    def step() -> dict[str, Any]:
        step = InterpretedStep(prepared, scope, dict(given))
        step.speculate()
        fetched = {name: step.fetch(name) for name in names}
        assert step.commit()
        return fetched

    return one_blas_thread.run(step)


def added(parts: Sequence[Any], owner: int) -> Any:
    """The owner's part and then the others' in order; rows of sparse gradients are joined in order (G-32)."""
    if isinstance(parts[0], Rows):
        return concat(np, parts)
    total, *others = [parts[owner], *parts[:owner], *parts[owner + 1 :]]
    for part in others:
        total = total + part
    return total


def compare_bits(model: Model, count: int, mode: Any, steps: Sequence[dict[str, np.ndarray]]) -> None:
    pe = model.parallel(count, build_strategy=building(exact=True, reduce_strategy=mode))
    by_hand = ByHand(model, count, pe.inspection.graph([]).owners)
    for fed in steps:
        rows = len(fed["x"]) // count
        (losses,) = pe.run([model.loss.name], feed=fed)
        assert np.array_equal(losses, by_hand.run(parts_of(fed, [rows] * count)))
        for place, scope in enumerate(by_hand.scopes):
            for name in model.values():
                value, expected = (s.find_var(name).get_tensor() for s in (pe.local_scope(place), scope))
                assert np.array_equal(value, expected), f"{name} on device {place}"


def narrow(fed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: v.astype(np.float32) if v.dtype == np.float64 else v for name, v in fed.items()}


@as_calls
@settings(max_examples=60)
@given(st.data())
def test_bits_are_those_of_the_split_done_by_hand(data: Any) -> None:
    optimizer = OPTIMIZERS[data.draw(st.sampled_from(list(OPTIMIZERS)))]
    count, mode = data.draw(st.sampled_from([2, 4])), data.draw(st.sampled_from(Mode))
    model = build(random_body(data.draw, ROW_BY_ROW + MIXING, "float32"), optimizer()).start()
    rows = count * data.draw(st.integers(1, 5))
    compare_bits(model, count, mode, [narrow(feed(step, rows)) for step in range(3)])
