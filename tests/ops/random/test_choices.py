"""Random choices: how often what is drawn, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import workbench as wb
from workbench import static
from workbench.errors import InvalidArgument
from workbench.framework.program.guard import program_guard, static_mode
from workbench.framework.program.program import Program

WEIGHTS = np.array([[0.1, 0.0, 0.5, 0.4], [3.0, 1.0, 1.0, 0.0]], np.float32)
DRAWS = 4000


def test_choices_with_replacement_come_by_weight() -> None:
    wb.seed(3)
    drawn = wb.multinomial(wb.to_tensor(WEIGHTS), DRAWS, replacement=True).numpy()
    for row, weights in zip(drawn, WEIGHTS, strict=True):
        counts = np.bincount(row, minlength=4)
        likely = weights > 0
        assert not counts[~likely].any()
        assert scipy.stats.chisquare(counts[likely], DRAWS * weights[likely] / weights.sum()).pvalue > 1e-3


def test_choices_without_replacement_differ_and_begin_by_weight() -> None:
    wb.seed(5)
    rows = wb.to_tensor(np.tile(WEIGHTS[:1], (DRAWS, 1)))
    drawn = wb.multinomial(rows, 3).numpy()
    assert all(sorted(row) == [0, 2, 3] for row in drawn.tolist())
    counts = np.bincount(drawn[:, 0], minlength=4)[[0, 2, 3]]
    assert scipy.stats.chisquare(counts, DRAWS * WEIGHTS[0, [0, 2, 3]]).pvalue > 1e-3


def test_choices_in_a_program() -> None:
    with static_mode(), program_guard(Program(), Program()):
        x = static.data("x", [2, 4])
        outs = [wb.multinomial(x, 5, replacement=True), wb.multinomial(x, 2)]
        many, two = static.Executor().run(feed={"x": WEIGHTS}, fetch_list=outs)
    assert many.shape == (2, 5) and two.shape == (2, 2)
    assert (WEIGHTS[0][many[0]] > 0).all() and two[0, 0] != two[0, 1]


def test_what_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="only 3"):
        wb.multinomial(wb.to_tensor(WEIGHTS), 4)
    with pytest.raises(InvalidArgument, match="num_samples"):
        wb.multinomial(wb.to_tensor(WEIGHTS), 0)
    with pytest.raises(InvalidArgument, match="known shape"):
        wb.multinomial(wb.ones([1, 1, 1]))


def test_integers_in_the_shape_and_dtype_of_a_tensor() -> None:
    drawn = wb.randint_like(wb.zeros([200], "float64"), -2, 3)
    assert drawn.dtype == "float64" and set(drawn.tolist()) == {-2.0, -1.0, 0.0, 1.0, 2.0}
    assert wb.randint_like(wb.zeros([3]), 4, dtype="int32").dtype == "int32"


def test_numbers_written_in_place_have_their_distributions() -> None:
    wb.seed(11)
    x = wb.zeros([DRAWS])
    assert scipy.stats.kstest(x.cauchy_(1.0, 2.0).numpy(), scipy.stats.cauchy(1.0, 2.0).cdf).pvalue > 1e-3
    geometric = x.geometric_(0.3).numpy()  # the integers are those of the exponential one, rounded up
    assert scipy.stats.kstest(geometric, scipy.stats.expon(scale=-1 / np.log(0.7)).cdf).pvalue > 1e-3


def test_random_numbers_go_on_from_where_they_were_kept() -> None:
    state = wb.get_rng_state()
    first = wb.rand([3]).tolist()
    assert wb.rand([3]).tolist() != first
    wb.set_rng_state(state)
    assert wb.rand([3]).tolist() == first
    for wrong in ([7], [(7, -1)], [(7, 1, 2, 3)], [(7, 1, ((0, 1 << 80),))], [state[0], state[0]]):
        with pytest.raises(InvalidArgument, match="get_rng_state"):
            wb.set_rng_state(wrong)
    assert wb.get_rng_state()[0].drawn == state[0].drawn + 1  # nothing of these was set
