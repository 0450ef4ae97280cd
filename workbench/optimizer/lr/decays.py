"""Schedules that fall, by a formula or at given epochs. Public with the others in `lr`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.values.portable import portable
from workbench.optimizer.lr.plateau import ReduceOnPlateau
from workbench.optimizer.lr.schedule import LRScheduler, number, positive, positive_int, rate, shrinking


@portable
class NoamDecay(LRScheduler):
    """base_lr * d_model^-0.5 * min(e^-0.5, e * warmup_steps^-1.5) ("Attention Is All You Need", 2017).

    Example:
        >>> rate = wb.optimizer.lr.NoamDecay(d_model=64, warmup_steps=100)
        >>> for epoch in range(3):
        ...     print(round(rate(), 5), end=' ')
        ...     rate.step()
        0.0 0.00013 0.00025
    """

    def __init__(
        self,
        d_model: float,
        warmup_steps: int,
        learning_rate: float = 1.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.d_model = positive("d_model", d_model)
        self.warmup_steps = positive("warmup_steps", warmup_steps)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        falling = 1.0 if self.last_epoch == 0 else self.last_epoch**-0.5
        rising = self.last_epoch * self.warmup_steps**-1.5
        return self.base_lr * self.d_model**-0.5 * min(falling, rising)


@portable
class PiecewiseDecay(LRScheduler):
    """`values[k]`, k the number of `boundaries` that are <= e. One more value than boundaries.

    Example:
        >>> rate = wb.optimizer.lr.PiecewiseDecay(boundaries=[1, 2], values=[0.1, 0.01, 0.001])
        >>> for epoch in range(3):
        ...     print(round(rate(), 5), end=' ')
        ...     rate.step()
        0.1 0.01 0.001
    """

    def __init__(
        self, boundaries: Sequence[int], values: Sequence[float], last_epoch: int = -1, verbose: bool = False
    ) -> None:
        self.boundaries = _increasing("boundaries", boundaries)
        self.values = [rate("values", value) for value in values]
        if len(self.values) != len(self.boundaries) + 1:
            raise InvalidArgument(
                f"values must have one element more than boundaries ({len(self.boundaries) + 1}), "
                f"got {len(self.values)}"
            )
        super().__init__(last_epoch=last_epoch, verbose=verbose)

    def get_lr(self) -> float:
        return self.values[_passed(self.boundaries, self.last_epoch)]


@portable
class NaturalExpDecay(LRScheduler):
    """base_lr * exp(-gamma * e).

    Example:
        >>> rate = wb.optimizer.lr.NaturalExpDecay(0.1, gamma=0.5)
        >>> for epoch in range(3):
        ...     print(round(rate(), 5), end=' ')
        ...     rate.step()
        0.1 0.06065 0.03679
    """

    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False) -> None:
        self.gamma = positive("gamma", gamma)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * math.exp(-self.gamma * self.last_epoch)


@portable
class InverseTimeDecay(LRScheduler):
    """base_lr / (1 + gamma * e).

    Example:
        >>> rate = wb.optimizer.lr.InverseTimeDecay(0.1, gamma=0.5)
        >>> for epoch in range(3):
        ...     print(round(rate(), 5), end=' ')
        ...     rate.step()
        0.1 0.06667 0.05
    """

    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False) -> None:
        self.gamma = number("gamma", gamma)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr / (1 + self.gamma * self.last_epoch)


@portable
class PolynomialDecay(LRScheduler):
    """(base_lr - end_lr) * (1 - e / decay_steps)^power + end_lr.

    `e` stops at `decay_steps`; with `cycle`, `decay_steps` grows to its smallest multiple >= e instead, so
    the rate rises again after each multiple.

    Example:
        >>> rate = wb.optimizer.lr.PolynomialDecay(0.1, decay_steps=2, end_lr=0.0)
        >>> for epoch in range(3):
        ...     print(round(rate(), 5), end=' ')
        ...     rate.step()
        0.1 0.05 0.0
    """

    def __init__(
        self,
        learning_rate: float,
        decay_steps: int,
        end_lr: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.decay_steps = positive_int("decay_steps", decay_steps)
        self.end_lr = number("end_lr", end_lr)
        self.power = positive("power", power)
        self.cycle = cycle
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        epoch, steps = self.last_epoch, self.decay_steps
        if self.cycle:
            steps *= max(1, math.ceil(epoch / steps))
        else:
            epoch = min(epoch, steps)
        return (self.base_lr - self.end_lr) * (1 - epoch / steps) ** self.power + self.end_lr


@portable
class LinearWarmup(LRScheduler):
    """From `start_lr` to `end_lr` on a line in `warmup_steps` steps, then `learning_rate`.

    Args:
        learning_rate: a rate, or a schedule whose epoch 0 is the end of the warm-up.

    Example:
        >>> rate = wb.optimizer.lr.LinearWarmup(0.1, warmup_steps=2, start_lr=0.0, end_lr=0.1)
        >>> for epoch in range(3):
        ...     print(round(rate(), 5), end=' ')
        ...     rate.step()
        0.0 0.05 0.1
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        warmup_steps: int,
        start_lr: float,
        end_lr: float,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if isinstance(learning_rate, ReduceOnPlateau):
            raise InvalidType("LinearWarmup cannot hold ReduceOnPlateau, which steps by a metric, not by epoch")
        if not isinstance(learning_rate, LRScheduler):
            learning_rate = rate("learning_rate", learning_rate)
        self.learning_rate = learning_rate
        self.warmup_steps = positive_int("warmup_steps", warmup_steps)
        self.start_lr, self.end_lr = rate("start_lr", start_lr), rate("end_lr", end_lr)
        if end_lr <= start_lr:
            raise InvalidArgument(f"end_lr must be greater than start_lr, got {end_lr} and {start_lr}")
        super().__init__(start_lr, last_epoch, verbose)

    def get_lr(self) -> float:
        if self.last_epoch < self.warmup_steps:
            return (self.end_lr - self.start_lr) * self.last_epoch / self.warmup_steps + self.start_lr
        if not isinstance(self.learning_rate, LRScheduler):
            return self.learning_rate
        self.learning_rate.step(self.last_epoch - self.warmup_steps)
        return self.learning_rate()

    def state_dict(self) -> dict[str, Any]:
        """The state, with that of an inner schedule under `LinearWarmup_LR`."""
        state = super().state_dict()
        if isinstance(self.learning_rate, LRScheduler):
            state["LinearWarmup_LR"] = self.learning_rate.state_dict()
        return state

    def check_state(self, state_dict: dict[str, Any], also: Sequence[str] = ()) -> None:
        """Check the state, the inner schedule's included."""
        if not isinstance(self.learning_rate, LRScheduler):
            return super().check_state(state_dict, also)
        super().check_state(state_dict, [*also, "LinearWarmup_LR"])
        self.learning_rate.check_state(state_dict["LinearWarmup_LR"])

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state, the inner schedule's included."""
        super().set_state_dict(state_dict)
        if isinstance(self.learning_rate, LRScheduler):
            self.learning_rate.set_state_dict(state_dict["LinearWarmup_LR"])

    set_dict = set_state_dict


@portable
class ExponentialDecay(LRScheduler):
    """base_lr * gamma^e, 0 < gamma < 1.

    Example:
        >>> rate = wb.optimizer.lr.ExponentialDecay(0.1, gamma=0.5)
        >>> for epoch in range(3):
        ...     print(round(rate(), 5), end=' ')
        ...     rate.step()
        0.1 0.05 0.025
    """

    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False) -> None:
        self.gamma = shrinking("gamma", positive("gamma", gamma))
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.gamma**self.last_epoch


@portable
class MultiStepDecay(LRScheduler):
    """base_lr * gamma^k, k the number of `milestones` that are <= e.

    Example:
        >>> rate = wb.optimizer.lr.MultiStepDecay(0.1, milestones=[1, 2])
        >>> for epoch in range(3):
        ...     print(round(rate(), 5), end=' ')
        ...     rate.step()
        0.1 0.01 0.001
    """

    def __init__(
        self,
        learning_rate: float,
        milestones: Sequence[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.milestones = _increasing("milestones", milestones)
        self.gamma = shrinking("gamma", gamma)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.gamma ** _passed(self.milestones, self.last_epoch)


@portable
class StepDecay(LRScheduler):
    """base_lr * gamma^(e // step_size).

    Example:
        >>> rate = wb.optimizer.lr.StepDecay(0.1, step_size=2)
        >>> for epoch in range(3):
        ...     print(round(rate(), 5), end=' ')
        ...     rate.step()
        0.1 0.1 0.01
    """

    def __init__(
        self,
        learning_rate: float,
        step_size: int,
        gamma: float = 0.1,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.step_size = positive_int("step_size", step_size)
        self.gamma = shrinking("gamma", gamma)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.gamma ** (self.last_epoch // self.step_size)


@portable
class CosineAnnealingDecay(LRScheduler):
    """eta_min + (base_lr - eta_min) * (1 + cos(pi * e / T_max)) / 2 (SGDR, 2017, without restarts).

    `step()` gets there from the rate before, as Paddle does, `step(epoch)` by this formula.

    Example:
        >>> rate = wb.optimizer.lr.CosineAnnealingDecay(0.1, T_max=2)
        >>> for epoch in range(3):
        ...     print(round(rate(), 5), end=' ')
        ...     rate.step()
        0.1 0.05 0.0
    """

    def __init__(
        self,
        learning_rate: float,
        T_max: int,
        eta_min: float = 0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.T_max = positive_int("T_max", T_max)
        self.eta_min = number("eta_min", eta_min)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        if self.last_epoch == 0:
            return self.base_lr
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # the rate before was eta_min
            rise = 1 - math.cos(math.pi / self.T_max)
            return self.last_lr + (self.base_lr - self.eta_min) * rise / 2
        now = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        before = 1 + math.cos(math.pi * (self.last_epoch - 1) / self.T_max)
        return now / before * (self.last_lr - self.eta_min) + self.eta_min

    def _lr_at_once(self) -> float:
        height = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return self.eta_min + (self.base_lr - self.eta_min) * height


def _passed(boundaries: Sequence[int], epoch: int) -> int:
    """How many of the increasing `boundaries` are <= epoch."""
    return sum(boundary <= epoch for boundary in boundaries)


def _increasing(name: str, values: Sequence[int]) -> list[int]:
    if not isinstance(values, (list, tuple)):
        raise InvalidType(f"{name} must be a list or tuple, got {type(values).__name__}")
    if not values:
        raise InvalidArgument(f"{name} must not be empty")
    if any(a >= b for a, b in pairwise(values)):
        raise InvalidArgument(f"{name} must increase, got {list(values)}")
    return list(values)
