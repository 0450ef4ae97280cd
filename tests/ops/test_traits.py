"""What an op is declared to be, passes and planners rely on unseen: each trait against what the op's body does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.ops import case as C
from tests.ops.test_cases import CASES
from tests.ops.test_views import LAYOUTS
from workbench.framework.op.record import OPS, Op, find_op
from workbench.framework.values.random import RandomStream
from workbench.framework.values.spec import Spec
from workbench.framework.values.views import Strided
from workbench.ops.loss.fused_attention import FUSED_ATTENTION

Layout = Callable[[np.ndarray], np.ndarray]
OTHER_STREAM = RandomStream(seed=8, op=3, place=0, step=6)


def over(keep: Callable[[Op], Any]) -> Any:
    chosen = [case for case in CASES if case.type in OPS and keep(case.op)]
    return pytest.mark.parametrize("case", chosen, ids=[case.label for case in chosen])


def results(op: Op, arrays: list[Any], attrs: dict[str, Any], **extra: Any) -> dict[str, Any]:
    """What the body gives, by output slot."""
    return dict(zip((s.name for s in op.outputs), C.run_forward(op, arrays, attrs, **extra), strict=True))


def declared(names: str) -> set[str]:
    return {type for type, op in OPS.items() if getattr(op, names)}


# Views


def place_of(array: np.ndarray, origin: int) -> Strided:
    offset = array.__array_interface__["data"][0] - origin
    return Strided(offset, array.shape, array.strides, array.itemsize)


def check_view(op: Op, arrays: list[Any], attrs: dict[str, Any]) -> None:
    """The rule says where the body's result lies, and that it is a copy where it is one."""
    assert op.view is not None
    ((shown, source),) = op.aliases.items()
    assert [slot.name for slot in op.outputs] == [shown]
    array = arrays[[slot.name for slot in op.inputs].index(source)]
    (out,) = results(op, arrays, attrs).values()
    origin = array.__array_interface__["data"][0]
    view = op.view(place_of(array, origin), out.shape, attrs)
    if not out.size:
        assert view is not None and view.shape == out.shape
        return
    assert (view is not None) == np.shares_memory(out, array)
    assert view is None or view == place_of(out, origin)
    if op.view.keeps_order:
        assert np.array_equal(out.reshape(-1), array.reshape(-1))


@over(lambda op: op.is_view)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_view_lies_where_its_rule_says(case: C.Case, layout: Layout) -> None:
    arrays = [C.tree_map(layout, value) for value in case.arrays()]
    check_view(case.op, arrays, case.full_attrs)


@over(lambda op: op.differentiable and find_op(op.grad_type).is_view)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_gradient_that_is_a_view_lies_where_its_rule_says(case: C.Case, layout: Layout) -> None:
    arrays = case.arrays()
    (out,) = C.run_forward(case.op, arrays, case.full_attrs)
    g = layout(np.random.default_rng(3).standard_normal(out.shape).astype(arrays[0].dtype))
    check_view(find_op(case.op.grad_type), [*arrays, g], case.full_attrs)


# Shapes


def first_shape(case: C.Case, arrays: list[Any]) -> tuple[int, ...]:
    return C.leaves(arrays[:1])[0].shape


def grown(case: C.Case) -> list[Any]:
    """The inputs with every row of the first one twice, where the op takes that."""
    arrays = case.arrays()
    return [C.tree_map(lambda a: np.concatenate([a, a]), arrays[0]), *arrays[1:]]


@over(lambda op: op.like_x)
def test_an_output_declared_like_x_has_the_shape_of_the_first_input(case: C.Case) -> None:
    arrays = case.arrays()
    outputs = results(case.op, arrays, case.full_attrs)
    shapes = {slot: outputs[slot].shape for slot in case.op.like_x}
    assert shapes == dict.fromkeys(case.op.like_x, first_shape(case, arrays))


@over(lambda op: op.same_rows)
def test_an_output_declared_to_have_the_same_rows_has_them(case: C.Case) -> None:
    for arrays in (case.arrays(), grown(case)):
        outputs = results(case.op, arrays, case.full_attrs)
        rows = {slot: outputs[slot].shape[0] for slot in case.op.same_rows}
        assert rows == dict.fromkeys(case.op.same_rows, first_shape(case, arrays)[0])


def test_shapes_are_declared_of_outputs_there_are() -> None:
    for op in OPS.values():
        names = {slot.name for slot in op.outputs}
        assert {*op.like_x, *op.same_rows, *op.replicated} <= names, op.type


# Values


def draws_alike(case: C.Case, attrs: dict[str, Any]) -> bool:
    one, other = (C.run_forward(case.op, case.arrays(), attrs, rng=rng) for rng in (C.STREAM, OTHER_STREAM))
    return all(np.array_equal(a, b) for a, b in zip(C.leaves(one), C.leaves(other), strict=True))


@pytest.mark.parametrize("type", sorted(t for t, op in OPS.items() if "rng" in op.needs and not t.startswith("toy")))
def test_what_draws_gives_other_numbers_from_another_stream(type: str) -> None:
    cases = [case for case in CASES if case.type == type]
    drawing = [case for case in cases if case.op.draws(case.full_attrs)]
    assert not all(draws_alike(case, case.full_attrs) for case in drawing)
    for case in (c for c in cases if "is_test" in c.op.attrs):
        tested = {**case.full_attrs, "is_test": True}
        assert not case.op.draws(tested) and draws_alike(case, tested)


@over(lambda op: op.replicated)
def test_what_is_replicated_does_not_follow_from_the_first_input(case: C.Case) -> None:
    """Devices have rows of their own; what they are given besides is the same."""
    arrays = case.arrays()
    others = [np.random.default_rng(5).standard_normal(arrays[0].shape).astype(arrays[0].dtype), *arrays[1:]]
    one, other = (results(case.op, given, case.full_attrs) for given in (arrays, others))
    same = {slot for slot in one if np.array_equal(one[slot], other[slot])}
    assert set(case.op.replicated) <= same
    if arrays[0].size:
        assert same == set(case.op.replicated)


@over(lambda op: op.is_product)
def test_a_product_is_linear_in_both_operands_and_adds_up(case: C.Case) -> None:
    """Where weights are made of two operands first, in the third."""
    arrays = case.arrays()
    (out,) = C.run_forward(case.op, arrays, case.full_attrs)
    for number in (0, 1) if case.op is not FUSED_ATTENTION else (2,):
        scaled = [2 * a if i == number else a for i, a in enumerate(arrays)]
        (product,) = C.run_forward(case.op, scaled, case.full_attrs)
        np.testing.assert_array_equal(product, 2 * out)
    assert case.op.cost is not None
    cost = case.op.estimate(C.specs_of(arrays), C.specs_of([out]), case.full_attrs)
    assert cost.flops >= 2 * max(a.size for a in (*arrays[:2], out))


def test_an_activation_is_element_wise_and_its_gradient_knows_what_it_reads() -> None:
    for type in declared("is_activation"):
        op = find_op(type)
        assert op.is_elementwise and len(op.inputs) == len(op.outputs) == 1
        assert op.saved == ("Out",) or "X" in op.saved
        assert op.infer(Spec((2, -1), C.as_dtype("float32")), **op.attrs) == Spec((2, -1), C.as_dtype("float32"))


def test_every_trait_is_declared_somewhere() -> None:
    """Or the tests above look at nothing."""
    for trait in ("is_view", "like_x", "same_rows", "replicated", "is_product", "is_activation"):
        assert declared(trait) & {case.type for case in CASES}
