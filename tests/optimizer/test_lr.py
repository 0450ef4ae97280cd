"""Learning rate schedules against closed forms written independently, and values worked out by hand."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.program.program import Program
from workbench.optimizer import lr


def rates(schedule: lr.LRScheduler, count: int) -> list[float]:
    """The rates of epochs 0 … count - 1."""
    out = []
    for _ in range(count):
        out.append(schedule())
        schedule.step()
    return out


def cosine(epoch: int) -> float:
    return 0.01 + 0.49 * (1 + np.cos(np.pi * epoch / 7)) / 2


def polynomial(epoch: int) -> float:
    return 0.49 * (1 - np.minimum(epoch, 6) / 6) ** 2 + 0.01


def polynomial_cycle(epoch: int) -> float:
    """Cycle k (k = 1, 2, …) covers the epochs (6 (k - 1), 6 k] with the line ending at 6 k."""
    end = next(6 * k for k in range(1, 100) if epoch <= 6 * k)
    return 0.49 * ((end - epoch) / end) ** 1.5 + 0.01


def one_cycle(epoch: int) -> float:
    """Half a cosine up in the steps 0 … 17, half a cosine down in the steps 17 … 59."""
    if epoch <= 17:
        return 0.1 + 0.9 * (1 - math.cos(math.pi * epoch / 17)) / 2
    return 1e-4 + (1 - 1e-4) * (1 + math.cos(math.pi * (epoch - 17) / 42)) / 2


def cyclic(epoch: int) -> float:
    """Up in 3 steps, down in 5, half as high each time."""
    corners = [(8 * k + up, 0.1 if up == 0 else 0.1 + 0.8 / 2**k) for k in range(10) for up in (0, 3)]
    return float(np.interp(epoch, *zip(*corners)))


def restarts(epoch: int) -> float:
    """Periods of 3, 6, 12, 24 steps begin at 0, 3, 9, 21."""
    start, period = next(p for p in [(21, 24), (9, 12), (3, 6), (0, 3)] if epoch >= p[0])
    return 0.01 + 0.49 * math.cos(math.pi * (epoch - start) / period / 2) ** 2


# name: (a new schedule, its rate as a function of the epoch)
CASES: dict[str, tuple[Callable[..., lr.LRScheduler], Callable[[int], float]]] = {
    "noam": (
        lambda **kw: lr.NoamDecay(64, 10, learning_rate=2.0, **kw),
        lambda e: 2 / 8 * min(1 / np.sqrt(e) if e else np.inf, e / 10**1.5),
    ),
    "piecewise": (
        lambda **kw: lr.PiecewiseDecay([3, 6, 9], [0.1, 0.2, 0.3, 0.4], **kw),
        lambda e: [0.1, 0.2, 0.3, 0.4][int(np.searchsorted([3, 6, 9], e, side="right"))],
    ),
    "natural_exp": (lambda **kw: lr.NaturalExpDecay(0.5, 0.1, **kw), lambda e: 0.5 / np.e ** (e / 10)),
    "inverse_time": (lambda **kw: lr.InverseTimeDecay(0.5, 0.1, **kw), lambda e: 5 / (10 + e)),
    "polynomial": (lambda **kw: lr.PolynomialDecay(0.5, 6, end_lr=0.01, power=2.0, **kw), polynomial),
    "polynomial_cycle": (
        lambda **kw: lr.PolynomialDecay(0.5, 6, end_lr=0.01, power=1.5, cycle=True, **kw),
        polynomial_cycle,
    ),
    "warmup": (
        lambda **kw: lr.LinearWarmup(0.5, 20, 0.1, 0.4, **kw),
        lambda e: float(np.interp(e, [0, 20], [0.1, 0.4])) if e < 20 else 0.5,
    ),
    "warmup_of_steps": (
        lambda **kw: lr.LinearWarmup(lr.StepDecay(0.5, 4, 0.5), 5, 0.0, 0.5, **kw),
        lambda e: e / 10 if e < 5 else 0.5 / 2 ** ((e - 5) // 4),
    ),
    "warmup_of_cosine": (
        lambda **kw: lr.LinearWarmup(lr.CosineAnnealingDecay(0.5, 7, eta_min=0.01), 5, 0.0, 0.5, **kw),
        lambda e: e / 10 if e < 5 else cosine(e - 5),
    ),
    "exponential": (lambda **kw: lr.ExponentialDecay(0.5, 0.9, **kw), lambda e: 0.5 * np.prod([0.9] * e)),
    "multi_step": (
        lambda **kw: lr.MultiStepDecay(0.5, [2, 4, 6], 0.8, **kw),
        lambda e: 0.5 * 0.8 ** ((e >= 2) + (e >= 4) + (e >= 6)),
    ),
    "step": (lambda **kw: lr.StepDecay(0.5, 5, 0.8, **kw), lambda e: 0.5 * 0.8 ** math.floor(e / 5)),
    "lambda": (lambda **kw: lr.LambdaDecay(0.5, lambda e: 0.95**e, **kw), lambda e: 0.5 * 0.95**e),
    "linear": (
        lambda **kw: lr.LinearLR(0.5, 10, 0.2, 0.8, **kw),
        lambda e: float(np.interp(e, [0, 10], [0.1, 0.4])),
    ),
    "multiplicative": (
        lambda **kw: lr.MultiplicativeDecay(0.5, lambda e: 1 - 1 / (e + 1), **kw),
        lambda e: 0.5 / (e + 1),
    ),
    "one_cycle": (lambda **kw: lr.OneCycleLR(1.0, 60, divide_factor=10, phase_pct=0.3, **kw), one_cycle),
    "one_cycle_back": (
        lambda **kw: lr.OneCycleLR(1.0, 51, 5, 0.02, 0.41, "linear", three_phase=True, **kw),
        lambda e: float(np.interp(e, [0, 19.91, 39.82, 50], [0.2, 1.0, 0.2, 0.02])),
    ),
    "cyclic": (lambda **kw: lr.CyclicLR(0.1, 0.9, 3, 5, "triangular2", **kw), cyclic),
    "cyclic_exp": (
        lambda **kw: lr.CyclicLR(0.1, 0.9, 2, mode="exp_range", exp_gamma=0.9, **kw),
        lambda e: 0.1 + 0.8 * [0, 0.5, 1, 0.5][e % 4] * 0.9**e,
    ),
    "cyclic_function": (
        lambda **kw: lr.CyclicLR(0.1, 0.9, 2, scale_fn=lambda k: 1 / k, scale_mode="cycle", **kw),
        lambda e: 0.1 + 0.8 * [0, 0.5, 1, 0.5][e % 4] / (e // 4 + 1),
    ),
    "cosine_restarts": (lambda **kw: lr.CosineAnnealingWarmRestarts(0.5, 3, 2, 0.01, **kw), restarts),
    "cosine": (lambda **kw: lr.CosineAnnealingDecay(0.5, 7, eta_min=0.01, **kw), cosine),
}
HOLDING_A_FUNCTION = ("lambda", "multiplicative", "cyclic_function")
every_case = pytest.mark.parametrize("name", CASES)


@every_case
def test_rates_follow_the_closed_form(name: str) -> None:
    make, expected = CASES[name]
    np.testing.assert_allclose(rates(make(), 40), [expected(e) for e in range(40)], rtol=1e-12, atol=1e-14)


@every_case
def test_jumps_to_an_epoch(name: str) -> None:
    make, expected = CASES[name]
    schedule = make()
    for epoch in (17, 3, 0, 29):
        schedule.step(epoch)
        assert schedule.last_epoch == epoch
        assert schedule() == pytest.approx(expected(epoch), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("cosine", "warmup_of_cosine")])
def test_last_epoch_starts_later(name: str) -> None:
    make, expected = CASES[name]
    assert make(last_epoch=8)() == pytest.approx(expected(9), rel=1e-12)


def test_a_cosine_started_later_multiplies_the_base_rate_as_paddle_does() -> None:
    ratio = (1 + math.cos(math.pi * 5 / 10)) / (1 + math.cos(math.pi * 4 / 10))
    assert lr.CosineAnnealingDecay(0.5, 10, last_epoch=4)() == pytest.approx(0.5 * ratio, rel=1e-12)


@every_case
def test_a_restored_state_goes_on_exactly(name: str) -> None:
    make, _ = CASES[name]
    schedule, other = make(), make()
    for stop in (3, 9):
        rates(schedule, stop)
        other.set_state_dict(json.loads(json.dumps(schedule.state_dict())))
        assert other() == schedule()
        assert other.last_epoch == schedule.last_epoch
        assert rates(other, 15) == rates(schedule, 15)


@pytest.mark.parametrize("name", [name for name in CASES if name not in HOLDING_A_FUNCTION])
def test_a_schedule_is_written_with_its_program_and_read_back(name: str) -> None:
    make, _ = CASES[name]
    schedule = make()
    rates(schedule, 7)
    program = Program()
    program.global_block().create_var(name="rate", shape=[1], dtype="float32", persistable=True)
    program.lr_schedulers["rate"] = schedule
    again = Program.parse_from_string(program.serialize_to_string()).lr_schedulers["rate"]
    assert type(again) is type(schedule)
    assert again.state_dict() == schedule.state_dict()
    assert rates(again, 20) == rates(schedule, 20)


@pytest.mark.parametrize("name", HOLDING_A_FUNCTION)
def test_a_function_is_not_written_with_a_program(name: str) -> None:
    program = Program()
    program.lr_schedulers["rate"] = CASES[name][0]()
    with pytest.raises(InvalidArgument, match=r"(Lambda|Multiplicative|Cyclic).*, which cannot be saved"):
        program.serialize_to_string()


def test_one_cycle_ends() -> None:
    schedule = lr.OneCycleLR(1.0, 4)
    rates(schedule, 4)
    with pytest.raises(InvalidArgument, match="has 4 steps and was moved on to step 5"):
        schedule.step()


def test_restarts_take_fractions_of_an_epoch() -> None:
    schedule = lr.CosineAnnealingWarmRestarts(1.0, 2, 2)
    schedule.step(3.5)
    assert schedule.last_epoch == 3
    assert schedule() == pytest.approx((1 + math.cos(math.pi * 1.5 / 4)) / 2)
    with pytest.raises(InvalidArgument, match="at least 0, got -1"):
        schedule.step(-1)


def test_values_worked_out_by_hand() -> None:
    assert rates(lr.StepDecay(0.5, 2), 5) == pytest.approx([0.5, 0.5, 0.05, 0.05, 0.005])
    assert rates(lr.MultiStepDecay(1.0, [1, 3]), 4) == pytest.approx([1, 0.1, 0.1, 0.01])
    assert rates(lr.PiecewiseDecay([1, 2], [3.0, 2.0, 1.0]), 4) == [3, 2, 1, 1]
    assert rates(lr.ExponentialDecay(8.0, 0.5), 4) == [8, 4, 2, 1]
    assert rates(lr.InverseTimeDecay(6.0, 1.0), 3) == [6, 3, 2]
    assert rates(lr.PolynomialDecay(1.0, 2, end_lr=0.0), 4) == [1, 0.5, 0, 0]
    assert rates(lr.PolynomialDecay(1.0, 2, end_lr=0.0, cycle=True), 5) == [1, 0.5, 0, 0.25, 0]
    assert rates(lr.LinearWarmup(1.0, 4, 0.0, 0.8), 6) == pytest.approx([0, 0.2, 0.4, 0.6, 1, 1])
    assert rates(lr.CosineAnnealingDecay(1.0, 2), 6) == pytest.approx([1, 0.5, 0, 0.5, 1, 0.5])
    assert rates(lr.NoamDecay(4, 4, 8.0), 6)[:6] == pytest.approx([0, 0.5, 1, 1.5, 2, 4 / 5**0.5])
    assert lr.NaturalExpDecay(1.0, math.log(2), last_epoch=2)() == pytest.approx(0.125)


@given(st.integers(1, 30), st.floats(1e-4, 10), st.floats(0, 1e-5), st.integers(0, 200))
def test_cosine_recursion_stays_on_the_curve(t_max: int, base: float, eta_min: float, epoch: int) -> None:
    schedule = lr.CosineAnnealingDecay(base, t_max, eta_min)
    for _ in range(epoch):
        schedule.step()
    curve = eta_min + (base - eta_min) * (1 + math.cos(math.pi * epoch / t_max)) / 2
    assert schedule() == pytest.approx(curve, rel=1e-6, abs=1e-9 * base)


def test_verbose_prints_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    lr.StepDecay(0.5, 1, 0.5, verbose=True).step()
    assert capsys.readouterr().out == (
        "Epoch 0: StepDecay set learning rate to 0.5.\nEpoch 1: StepDecay set learning rate to 0.25.\n"
    )


def test_a_schedule_of_ones_own() -> None:
    class Halving(lr.LRScheduler):
        def get_lr(self) -> float:
            return self.base_lr / 2**self.last_epoch

        def state_keys(self) -> None:
            self.keys = ["last_epoch", "last_lr", "base_lr"]

    schedule = Halving(1.0)
    assert rates(schedule, 3) == [1, 0.5, 0.25]
    assert schedule.state_dict() == {"last_epoch": 3, "last_lr": 0.125, "base_lr": 1.0}
    with pytest.raises(NotImplementedError, match=r"LRScheduler has to define get_lr"):
        lr.LRScheduler(0.1)


# ReduceOnPlateau


def plateau(metrics: list[float], **arguments: Any) -> list[float]:
    schedule = lr.ReduceOnPlateau(1.0, **arguments)
    out = []
    for metric in metrics:
        schedule.step(metric)
        out.append(schedule())
    return out


def test_plateau_reduces_after_more_than_patience_bad_steps() -> None:
    flat = [5.0] * 7
    assert plateau(flat, factor=0.5, patience=2) == [1, 1, 1, 0.5, 0.5, 0.5, 0.25]
    assert plateau([5, 4, 3, 2], factor=0.5, patience=0) == [1, 1, 1, 1]
    assert plateau([5, 6, 7], factor=0.5, patience=0) == [1, 0.5, 0.25]


def test_plateau_cooldown_min_lr_and_epsilon() -> None:
    flat = [1.0] * 6
    assert plateau(flat, factor=0.5, patience=0, cooldown=2) == [1, 0.5, 0.5, 0.5, 0.25, 0.25]
    assert plateau(flat, factor=0.5, patience=0, min_lr=0.3) == [1, 0.5, 0.3, 0.3, 0.3, 0.3]
    assert plateau(flat, factor=0.5, patience=0, epsilon=0.2) == [1, 0.5, 0.25, 0.25, 0.25, 0.25]


@pytest.mark.parametrize(
    ("mode", "threshold_mode", "enough", "too_little"),
    [
        ("min", "rel", 8.9, 9.1),
        ("min", "abs", 9.89, 9.91),
        ("max", "rel", 11.1, 10.9),
        ("MAX", "abs", 10.11, 10.09),
    ],
)
def test_plateau_thresholds(mode: str, threshold_mode: str, enough: float, too_little: float) -> None:
    arguments = {"mode": mode, "threshold_mode": threshold_mode, "threshold": 0.1, "patience": 0}
    assert plateau([10.0, enough], factor=0.5, **arguments) == [1, 1]
    assert plateau([10.0, too_little], factor=0.5, **arguments) == [1, 0.5]


def test_plateau_takes_arrays_and_never_a_nan_as_best() -> None:
    schedule = lr.ReduceOnPlateau(1.0, patience=0, factor=0.5)
    schedule.step(np.array([2.0], np.float32))
    schedule.step(np.float64(1.0))
    assert schedule() == 1.0
    assert plateau([math.nan, 3.0, 2.0], patience=1) == [1, 1, 1]
    for metric in (np.zeros(2), []):
        with pytest.raises(InvalidArgument, match="one element"):
            schedule.step(metric)
    for metric in ("3", None):
        with pytest.raises(InvalidType, match="number"):
            schedule.step(metric)
    assert schedule.last_epoch == 2


def test_plateau_state() -> None:
    def make() -> lr.ReduceOnPlateau:
        return lr.ReduceOnPlateau(1.0, patience=1, cooldown=1, factor=0.5)

    schedule, other = make(), make()
    metrics = [3, 3, 3, 3, 2, 2, 2, 2, 2, 2]
    for number, metric in enumerate(metrics):
        schedule.step(metric)
        other.set_state_dict(json.loads(json.dumps(schedule.state_dict())))
        assert other.state_dict() == schedule.state_dict()
        assert other.last_epoch == number + 1
    assert schedule() < 1


def test_plateau_verbose_prints_reductions_only(capsys: pytest.CaptureFixture[str]) -> None:
    plateau([1, 1], patience=0, factor=0.5, verbose=True)
    assert capsys.readouterr().out == "Epoch 2: ReduceOnPlateau set learning rate to 0.5.\n"


# Wrong input


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: lr.StepDecay("0.1", 2), "learning_rate must be a number, got '0.1'"),
        (lambda: lr.StepDecay(-0.1, 2), "learning_rate must be >= 0, got -0.1"),
        (lambda: lr.StepDecay(math.nan, 2), "learning_rate must be >= 0"),
        (lambda: lr.StepDecay(0.1, 2.0), "step_size must be an integer"),
        (lambda: lr.StepDecay(0.1, 0), "step_size must be greater than 0"),
        (lambda: lr.StepDecay(0.1, 2, 1.0), "gamma must be less than 1"),
        (lambda: lr.StepDecay(0.1, 2, last_epoch=-2), "last_epoch must be an integer >= -1"),
        (lambda: lr.MultiStepDecay(0.1, 3), "milestones must be a list or tuple"),
        (lambda: lr.MultiStepDecay(0.1, [3, 3]), r"milestones must increase, got \[3, 3\]"),
        (lambda: lr.ExponentialDecay(0.1, 1.5), "gamma must be less than 1"),
        (lambda: lr.ExponentialDecay(0.1, 0.0), "gamma must be greater than 0"),
        (lambda: lr.NaturalExpDecay(0.1, -1), "gamma must be greater than 0"),
        (lambda: lr.PiecewiseDecay([], [1.0]), "boundaries must not be empty"),
        (lambda: lr.PiecewiseDecay([1], [1.0]), r"one element more than boundaries \(2\), got 1"),
        (lambda: lr.PolynomialDecay(0.1, 1.5), "decay_steps must be an integer"),
        (lambda: lr.PolynomialDecay(0.1, 5, power=0), "power must be greater than 0"),
        (lambda: lr.CosineAnnealingDecay(0.1, True), "T_max must be an integer"),
        (lambda: lr.NoamDecay(0, 5), "d_model must be greater than 0"),
        (lambda: lr.NoamDecay(8, 0), "warmup_steps must be greater than 0"),
        (lambda: lr.LambdaDecay(0.1, 0.5), "lr_lambda must be a function"),
        (lambda: lr.LinearWarmup(0.5, 3, 0.4, 0.4), "end_lr must be greater than start_lr"),
        (lambda: lr.LinearWarmup(None, 3, 0.1, 0.4), "learning_rate must be a number"),
        (lambda: lr.LinearWarmup(lr.ReduceOnPlateau(0.1), 3, 0.1, 0.4), "cannot hold ReduceOnPlateau"),
        (lambda: lr.ReduceOnPlateau(0.1, mode="down"), r"mode must be one of \['min', 'max'\], got 'down'"),
        (lambda: lr.LinearLR(0.1, 0), "total_steps must be greater than 0"),
        (lambda: lr.LinearLR(0.1, 5, start_factor=0.0), r"start_factor must be in \(0, 1\], got 0.0"),
        (lambda: lr.LinearLR(0.1, 5, end_factor=1.1), r"end_factor must be in \[0, 1\], got 1.1"),
        (lambda: lr.MultiplicativeDecay(0.1, 0.5), "lr_lambda must be a function"),
        (lambda: lr.OneCycleLR("a", 5), "max_learning_rate must be a number"),
        (lambda: lr.OneCycleLR(0.1, 5, phase_pct=1.5), "phase_pct must be between 0 and 1"),
        (lambda: lr.OneCycleLR(0.1, 5, phase_pct=0.5, three_phase=True), "less than 0.5 with three_phase"),
        (lambda: lr.OneCycleLR(0.1, 5, anneal_strategy="exp"), r"one of \['cos', 'linear'\], got 'exp'"),
        (lambda: lr.CyclicLR(0.1, 1.0, 2, mode="square"), "mode must be one of"),
        (lambda: lr.CyclicLR(0.1, 1.0, 2, scale_fn=3), "scale_fn must be a function"),
        (lambda: lr.CyclicLR(0.1, 1.0, 2, 0), "step_size_down must be greater than 0"),
        (lambda: lr.CosineAnnealingWarmRestarts(0.1, 2, 0), "T_mult must be greater than 0"),
        (lambda: lr.ReduceOnPlateau(0.1, factor=1.0), "factor must be less than 1"),
    ],
)
def test_wrong_arguments_are_named(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        make()


def test_a_foreign_state_is_refused_and_changes_nothing() -> None:
    schedule = lr.LinearWarmup(lr.StepDecay(0.5, 4), 5, 0.0, 0.5)
    rates(schedule, 7)
    before = schedule.state_dict()
    inner = {"last_epoch": 1}
    for state, text in [
        ({}, "missing .*'LinearWarmup_LR', 'last_epoch', 'last_lr'"),
        ({**before, "best": 1}, r"unknown \['best'\]"),
        (
            {**before, "last_epoch": 99, "LinearWarmup_LR": inner},
            r"not a state of StepDecay: missing \['last_lr'\]",
        ),
        ({**before, "LinearWarmup_LR": None}, "StepDecay is a dict"),
    ]:
        with pytest.raises(InvalidArgument, match=text):
            schedule.set_state_dict(state)
        assert schedule.state_dict() == before
