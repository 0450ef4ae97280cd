"""Schedules that rise and fall: once, again and again, or with restarts. Public with the others in `lr`."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.values.portable import portable
from workbench.optimizer.lr.schedule import LRScheduler, choice, number, positive_int, rate


@portable
class LinearLR(LRScheduler):
    """base_lr times a factor that goes from `start_factor` to `end_factor` on a line in `total_steps` steps.

    Args:
        start_factor: in (0, 1]. end_factor: in [0, 1].

    Example:
        >>> rate = wb.optimizer.lr.LinearLR(0.1, total_steps=2, start_factor=0.5)
        >>> for epoch in range(3):
        ...     print(round(rate(), 5), end=' ')
        ...     rate.step()
        0.05 0.075 0.1
    """

    def __init__(
        self,
        learning_rate: float,
        total_steps: int,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.total_steps = positive_int("total_steps", total_steps)
        self.start_factor, self.end_factor = number("start_factor", start_factor), number("end_factor", end_factor)
        if not 0 < self.start_factor <= 1:
            raise InvalidArgument(f"start_factor must be in (0, 1], got {start_factor}")
        if not 0 <= self.end_factor <= 1:
            raise InvalidArgument(f"end_factor must be in [0, 1], got {end_factor}")
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        done = min(self.last_epoch, self.total_steps) / self.total_steps
        return self.base_lr * (self.start_factor + (self.end_factor - self.start_factor) * done)


@portable
class OneCycleLR(LRScheduler):
    """Up to `max_learning_rate` and down again, once ("Super-Convergence", Smith and Topin, 2017).

    Args:
        max_learning_rate: the top.
        total_steps: of the whole cycle; going on after them is an error.
        divide_factor: the start is `max_learning_rate / divide_factor`.
        end_learning_rate: the end.
        phase_pct: the share of the steps that go up.
        anneal_strategy: the way between two rates, "cos" or "linear".
        three_phase: down to the start in as many steps as it went up, then to the end.

    Example:
        >>> rate = wb.optimizer.lr.OneCycleLR(1.0, total_steps=5, phase_pct=0.4, anneal_strategy='linear')
        >>> for epoch in range(5):
        ...     print(round(rate(), 3), end=' ')
        ...     rate.step()
        0.04 1.0 0.667 0.333 0.0
    """

    def __init__(
        self,
        max_learning_rate: float,
        total_steps: int,
        divide_factor: float = 25.0,
        end_learning_rate: float = 0.0001,
        phase_pct: float = 0.3,
        anneal_strategy: str = "cos",
        three_phase: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.max_learning_rate = rate("max_learning_rate", max_learning_rate)
        self.total_steps = positive_int("total_steps", total_steps)
        self.divide_factor = number("divide_factor", divide_factor)
        self.end_learning_rate = rate("end_learning_rate", end_learning_rate)
        self.phase_pct, self.three_phase = number("phase_pct", phase_pct), bool(three_phase)
        if not 0 <= self.phase_pct <= 1:
            raise InvalidArgument(f"phase_pct must be between 0 and 1, got {phase_pct}")
        if self.three_phase and not self.phase_pct < 0.5:
            raise InvalidArgument(f"phase_pct must be less than 0.5 with three_phase=True, got {phase_pct}")
        self.anneal_strategy = choice("anneal_strategy", anneal_strategy, ("cos", "linear"))
        super().__init__(self.max_learning_rate / self.divide_factor, last_epoch, verbose)

    def get_lr(self) -> float:
        if self.last_epoch > self.total_steps:
            raise InvalidArgument(f"OneCycleLR has {self.total_steps} steps and was moved on to step {self.last_epoch}")
        phases = list(pairwise(self._corners()))
        (start, before), (end, after) = next((p for p in phases if self.last_epoch <= p[1][0]), phases[-1])
        return self._between(before, after, (self.last_epoch - start) / (end - start))

    def _corners(self) -> list[tuple[float, float]]:
        """(step, rate) between which the rate is annealed."""
        top, last = self.phase_pct * self.total_steps - 1, self.total_steps - 1
        rising = [(0.0, self.base_lr), (top, self.max_learning_rate)]
        falling = [(2 * top, self.base_lr)] if self.three_phase else []
        return [*rising, *falling, (last, self.end_learning_rate)]

    def _between(self, before: float, after: float, share: float) -> float:
        if self.anneal_strategy == "linear":
            return before + (after - before) * share
        return after + (before - after) / 2 * (1 + math.cos(math.pi * share))


_SCALES = {"triangular": "cycle", "triangular2": "cycle", "exp_range": "iterations"}


@portable
class CyclicLR(LRScheduler):
    """Between two rates, up and down on straight lines (Smith, "Cyclical Learning Rates", 2017).

    Args:
        base_learning_rate, max_learning_rate: the bottom and the top of the first cycle.
        step_size_up: steps from the bottom to the top. step_size_down: back, as many if None.
        mode: how high later cycles are: "triangular" (the same), "triangular2" (half as high each time),
            "exp_range" (times `exp_gamma` to the power of the steps made).
        scale_fn: a function instead of `mode`, of the number of the cycle (from 1) or of the steps made, as
            `scale_mode`, "cycle" or "iterations", says. Such a schedule is not saved with a program; its state is.

    Example:
        >>> rate = wb.optimizer.lr.CyclicLR(0.1, 0.5, step_size_up=2)
        >>> for epoch in range(5):
        ...     print(round(rate(), 5), end=' ')
        ...     rate.step()
        0.1 0.3 0.5 0.3 0.1
    """

    def __init__(
        self,
        base_learning_rate: float,
        max_learning_rate: float,
        step_size_up: int,
        step_size_down: int | None = None,
        mode: str = "triangular",
        exp_gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.max_learning_rate = rate("max_learning_rate", max_learning_rate)
        self.step_size_up = positive_int("step_size_up", step_size_up)
        self.step_size_down = (
            self.step_size_up if step_size_down is None else positive_int("step_size_down", step_size_down)
        )
        if not (scale_fn is None or callable(scale_fn)):
            raise InvalidType(f"scale_fn must be a function, got {scale_fn!r}")
        self.mode = mode if scale_fn is not None else choice("mode", mode, tuple(_SCALES))
        self.exp_gamma, self.scale_fn = number("exp_gamma", exp_gamma), scale_fn
        self.scale_mode = choice("scale_mode", scale_mode, ("cycle", "iterations"))
        super().__init__(base_learning_rate, last_epoch, verbose)

    def to_config(self) -> dict[str, Any]:
        """Constructor arguments and state.

        Raises:
            InvalidArgument: it holds a function.
        """
        if self.scale_fn is not None:
            raise InvalidArgument(
                "this CyclicLR holds a function, scale_fn, which cannot be saved; save its state_dict()"
            )
        return super().to_config()

    def get_lr(self) -> float:
        steps = self.step_size_up + self.step_size_down
        cycles, within = divmod(self.last_epoch, steps)
        up = within <= self.step_size_up
        height = within / self.step_size_up if up else (steps - within) / self.step_size_down
        return self.base_lr + (self.max_learning_rate - self.base_lr) * height * self._scale(cycles + 1)

    def _scale(self, cycle: int) -> float:
        if self.scale_fn is not None:
            return self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.mode == "exp_range":
            return self.exp_gamma**self.last_epoch
        return 1.0 if self.mode == "triangular" else 0.5 ** (cycle - 1)


@portable
class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from base_lr to `eta_min`, again and again (Loshchilov and Hutter, SGDR, 2017).

    Args:
        T_0: steps of the first period. T_mult: every further one is so many times as long.
        eta_min: the lowest rate.

    `step(epoch)` takes fractions of an epoch.

    Example:
        >>> rate = wb.optimizer.lr.CosineAnnealingWarmRestarts(1.0, T_0=2)
        >>> for epoch in range(4):
        ...     print(round(rate(), 5), end=' ')
        ...     rate.step()
        1.0 0.5 1.0 0.5
    """

    def __init__(
        self,
        learning_rate: float,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.T_0, self.T_mult = positive_int("T_0", T_0), positive_int("T_mult", T_mult)
        self.eta_min = number("eta_min", eta_min)
        super().__init__(learning_rate, last_epoch, verbose)

    def step(self, epoch: float | None = None) -> None:
        """Go on to the next epoch, or to `epoch`, which may be a fraction.

        Raises:
            InvalidArgument: a negative epoch.
        """
        if epoch is None:
            return super().step()
        if epoch < 0:
            raise InvalidArgument(f"an epoch is at least 0, got {epoch}")
        self.last_epoch = math.floor(epoch)
        self.last_lr = self._at(epoch)
        self._announce()

    def get_lr(self) -> float:
        return self._at(self.last_epoch)

    def _at(self, epoch: float) -> float:
        period: float = self.T_0
        if self.T_mult == 1:
            epoch %= period
        while epoch >= period:
            epoch, period = epoch - period, period * self.T_mult
        return self.eta_min + (self.base_lr - self.eta_min) * (1 + math.cos(math.pi * epoch / period)) / 2
