"""Numbers that depend on open sizes behave as whole numbers do, for the example and wherever the conditions hold."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.executors.planning.sizes.formulas import Conditions, Decisions, Formulas, at
from workbench.executors.planning.sizes.polynomials import lower_bound
from workbench.executors.planning.sizes.size import Size, Sizes, example_of, is_at_least, overlap
from workbench.executors.planning.sizes.unknowns import Equal, Turn, Unknown, Unsettled
from workbench.framework.values.views import range_of

Program = Callable[[Any], list[Any]]
DIMS = st.tuples(st.integers(2, 90), st.integers(2, 90))
APART = DIMS.filter(lambda dims: dims[0] != dims[1])  # as those of an example are


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Some arithmetic on two numbers, in which some steps are chosen by comparing."""
    binary = [operator.add, operator.sub, operator.mul, min, max]
    by_constant = [operator.floordiv, operator.mod, operator.add, operator.mul, operator.sub]
    steps = draw(
        st.lists(
            st.one_of(
                st.tuples(st.just("binary"), st.sampled_from(binary), st.integers(0, 99), st.integers(0, 99)),
                st.tuples(st.just("constant"), st.sampled_from(by_constant), st.integers(0, 99), st.integers(1, 70)),
                st.tuples(st.just("which"), st.sampled_from([operator.lt, operator.eq, operator.ge]),
                          st.integers(0, 99), st.integers(0, 99)),
                st.tuples(st.just("round"), st.just(None), st.integers(0, 99), st.sampled_from([16, 64])),
            ),
            min_size=1, max_size=9,
        )
    )  # fmt: skip

    def run(dims: Any) -> list[Any]:
        values = list(dims)
        for kind, function, a, b in steps:
            x = values[a % len(values)]
            if kind == "binary":
                values.append(function(x, values[b % len(values)]))
            elif kind == "constant":
                values.append(function(x, b))
            elif kind == "round":
                values.append(-(-x // b) * b)
            else:
                values.append(x + 1 if function(x, values[b % len(values)]) else x * 2)
            if abs(example_of(values[-1])) > 1 << 40:
                values[-1] = x
        return values

    return run


def hold(conditions: Conditions, unknowns: Sequence[int]) -> bool:
    """Whether all of them do, for these unknowns."""
    return conditions.hold(unknowns, Formulas(conditions.sizes, conditions.numbers)(unknowns))


@given(programs(), APART, DIMS)
def test_wherever_conditions_hold_numbers_are_those_of_whole_numbers(
    program: Program, example: tuple[int, int], others: tuple[int, int]
) -> None:
    sizes = Sizes()
    numbers = program([sizes.unknown(dim) for dim in example])
    assert list(map(example_of, numbers)) == program(example)
    conditions = Conditions(sizes)
    formulas = Formulas(sizes, numbers)
    for dims in (example, others):
        unknowns = conditions.complete(dict(enumerate(dims)))
        if not hold(conditions, unknowns):
            assert dims != example
            continue
        expected = program(dims)
        if max(map(abs, expected)) < 1 << 60:
            assert formulas(unknowns).tolist() == expected == [at(number, unknowns) for number in numbers]


@given(DIMS, st.integers(-6, 6), st.integers(-6, 6), st.integers(-20, 20))
def test_what_is_decided_for_all_sizes_is_right_for_all(dims: tuple[int, int], a: int, b: int, c: int) -> None:
    """A comparison that notes nothing holds whatever the sizes are."""
    sizes = Sizes()
    m, n = (sizes.unknown(50) for _ in range(2))
    less = m * n + a * m + b * n + c < 0
    if not sizes.conditions:
        x, y = dims
        assert (x * y + a * x + b * y + c < 0) == less


BOUNDS = st.one_of(st.none(), st.integers(-95, 95), st.just((1 << 31) - 1))
STEPS = st.sampled_from([None, 1, 2, 5, -1, -3])


@given(st.builds(slice, BOUNDS, BOUNDS, STEPS), st.integers(2, 90), st.integers(2, 90))
def test_slices_take_of_open_sizes_what_python_takes(part: slice, example: int, other: int) -> None:
    sizes = Sizes()
    numbers = range_of(part, sizes.unknown(example))
    conditions = Conditions(sizes)
    for size in (example, other):
        unknowns = conditions.complete({0: size})
        if hold(conditions, unknowns):
            taken = range(size)[part]
            start, length, step = (at(number, unknowns) for number in numbers)
            assert (length, step) == (len(taken), taken.step) and (start == taken.start or not taken)
        assert size != example or hold(conditions, unknowns)


@pytest.mark.parametrize("part", [slice(0, 1), slice(-1, None), slice(1, None), slice(None, -1), slice(None, None, -1)])
def test_slices_that_take_the_same_of_all_sizes_need_nothing_noted(part: slice) -> None:
    sizes = Sizes()
    range_of(part, sizes.unknown(7))
    assert sizes.conditions == [] and sizes.had_to_be_known == []


def test_products_and_quotients_that_come_out_even_need_nothing_noted() -> None:
    sizes = Sizes()
    rows, length = sizes.unknown(8), sizes.unknown(40)
    x = rows * length * 64
    assert x // (rows * length) == 64 and x // 64 == rows * length and x % 64 == 0
    assert 1 < rows <= x and x != rows and -1 not in (rows, length) and (x - rows) // rows == length * 64 - 1
    assert prod([]) == 1 and {rows: 1}[rows] == 1 and len({rows, length, rows * 1}) == 2
    assert sizes.conditions == []


def test_what_leaves_for_other_code_is_the_example_and_noted() -> None:
    sizes = Sizes()
    n = sizes.unknown(5)
    assert list(range(n)) == [0, 1, 2, 3, 4] and float(n) == 5.0 and np.zeros(n).shape == (5,)
    conditions = Conditions(sizes)
    assert [hold(conditions, [k]) for k in (4, 5, 6)] == [False, True, False]


def test_comparisons_are_noted_as_the_example_has_them() -> None:
    sizes = Sizes()
    n = sizes.unknown(40)
    assert (8 * n > 64) is True and n != 41 and (n == 39) is False
    conditions = Conditions(sizes)
    assert [hold(conditions, [k]) for k in (1, 2, 8, 9, 39, 40, 41, 1000)] == [0, 0, 0, 1, 0, 1, 0, 1]


def test_less_than_an_unknown_can_be_is_refused_whatever_was_decided() -> None:
    sizes = Sizes()
    assert sizes.unknown(40) < 41
    assert [hold(Conditions(sizes), [k]) for k in (1, 2, 41)] == [False, True, False]


def test_text_says_the_example() -> None:
    n = Sizes().unknown(40)
    assert f"{2 * n} {n!r} {n:>4}" == "80 40   40" and isinstance(2 * n, Size) and (2 * n).formula == "2 n0"


# Addresses


def test_addresses_of_different_pieces_are_not_compared() -> None:
    sizes = Sizes()
    n, a, b = sizes.unknown(40), sizes.address(64, Turn()), sizes.address(64, Turn())
    assert (a + 4 * n) % 64 == (4 * n) % 64 and (a + 128) % 64 == 0 and -(a + 4) % 64 == 60
    assert a != b and a + n > a and a + 4 * n != b
    for undecided in (lambda: a < b, lambda: a + n < 5, lambda: a // 128, lambda: int(a)):
        with pytest.raises(Unsettled):
            undecided()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4), st.integers(0, 1)), min_size=2, max_size=6))
def test_only_pieces_that_take_turns_may_overlap(lives: list[tuple[int, int, int]]) -> None:
    """In one room, one after the other; and parts of one piece, as their distances say."""
    sizes = Sizes()
    n = sizes.unknown(10)
    turns = [Turn(room or None, first, first + length) for first, length, room in lives]
    begins = [sizes.address(64, turn) for turn in turns]
    for (a, x), (b, y) in pairwise(zip(begins, turns, strict=True)):
        apart = x.last < y.first or y.last < x.first
        assert overlap((a, a + 4 * n), (b, b + 4)) == (apart and x.room == y.room == 1)
    (a, *_) = begins
    assert overlap((a, a + 4 * n), (a + 4, a + 8)) and not overlap((a, a + 4 * n), (a + 4 * n, a + 8 * n))
    assert not overlap((a, a + 4 * n), (1 << 40, 1 << 41))  # what has an address is in no arena


def test_what_few_terms_contain_is_set_against_them_first() -> None:
    a, b, c, d = range(4)
    terms = {(a, b, c): 1, (a, d): 1, (a,): -1, (b, c): -1}  # a goes against either of the first two, bc against one
    assert lower_bound(terms, [Unknown(5, 1)] * 4) == 0


def test_what_is_known_of_an_unknown_goes_with_it() -> None:
    """Another one that gets its number later may be less."""
    sizes = Sizes()
    n = sizes.unknown(8)
    before = sizes.decided
    quotient = (n * n + 30) // n  # never less than 0, and that is all that is seen
    assert quotient.least == 0 and (quotient + 5).least == 5
    sizes.go_back(before)
    difference = (n - 20) // n  # -2 for 8, and lower bounds are not known
    assert difference.terms == quotient.terms
    assert (difference + 5).least is None and not difference + 5 > 4
    assert [condition.holds for condition in sizes.conditions] == [False]


def test_dimensions_that_have_to_be_equal_are_told() -> None:
    """Nothing is noted: who has thought them independent begins again."""
    sizes = Sizes()
    n, other, longer = sizes.unknown(8), sizes.unknown(8), sizes.unknown(9)
    assert n != longer and 2 * n != 2 * longer
    with pytest.raises(Equal) as raised:
        _ = 3 * n == 3 * other
    assert raised.value.unknowns == (0, 1)
    assert [condition.holds for condition in sizes.conditions] == [False, False]


def test_what_is_preferred_is_no_condition() -> None:
    sizes = Sizes()
    n = sizes.unknown(40)
    assert n.is_preferably_at_least(24) and not n.is_preferably_at_least(48) and n.is_preferably_at_least(2)
    assert sizes.conditions == []
    preferences = Decisions(sizes.preferences)
    alike = {k: preferences.are_alike(np.array([k - 24, k - 48])) for k in (23, 24, 47, 48)}
    assert alike == {23: False, 24: True, 47: True, 48: False}


@given(programs(), APART, DIMS, st.integers(-50, 50))
def test_whether_a_number_is_large_is_settled_when_sizes_are_known(
    program: Program, example: tuple[int, int], others: tuple[int, int], least: int
) -> None:
    sizes = Sizes()
    numbers = program([sizes.unknown(dim) for dim in example])
    large = [is_at_least(number, least) for number in numbers]
    conditions = Conditions(sizes)
    for dims in (example, others):
        unknowns = conditions.complete(dict(enumerate(dims)))
        if hold(conditions, unknowns) and max(map(abs, program(dims))) < 1 << 60:
            assert Formulas(sizes, large)(unknowns).tolist() == [int(n >= least) for n in program(dims)]


@given(programs(), APART, st.integers(-50, 50))
def test_numbers_compare_with_whole_ones_as_their_examples_do(
    program: Program, dims: tuple[int, int], other: int
) -> None:
    sizes = Sizes()
    for number in program([sizes.unknown(dim) for dim in dims]):
        value = example_of(number)
        compared = [number < other, number <= other, number > other, number >= other, number == other]
        assert compared == [value < other, value <= other, value > other, value >= other, value == other]
