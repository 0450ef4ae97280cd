"""The base of learning rate schedules, and the checks their arguments share."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.values.portable import portable


class LRScheduler:
    """Base of all schedules; a subclass defines `get_lr()`.

    Args:
        learning_rate: the initial rate, `base_lr`, >= 0.
        last_epoch: -1 starts from the beginning; k starts as if k + 1 steps had been made. To continue a run,
            `set_state_dict` is exact for every schedule; this is not for those that compute a rate from the
            one before (`CosineAnnealingDecay`).
        verbose: print a line at every step.

    Attributes:
        last_epoch: number of steps made.
        last_lr: the current rate.
        keys: what `state_dict` holds; a subclass sets more in `state_keys()`.

    Example:
        >>> class Halving(wb.optimizer.lr.LRScheduler):
        ...     def get_lr(self):
        ...         return self.base_lr * 0.5**self.last_epoch
        >>> rate = Halving(learning_rate=1.0)
        >>> rate.step()
        >>> rate()
        0.5
    """

    keys: list[str]
    base_lr: float
    last_lr: float
    last_epoch: int
    verbose: bool

    def __init__(self, learning_rate: float = 0.1, last_epoch: int = -1, verbose: bool = False) -> None:
        if not isinstance(last_epoch, numbers.Integral) or last_epoch < -1:
            raise InvalidArgument(f"last_epoch must be an integer >= -1, got {last_epoch!r}")
        self.base_lr = rate("learning_rate", learning_rate)
        self.last_lr = self.base_lr
        self.last_epoch = int(last_epoch)
        self.verbose = verbose
        self.step()

    def __call__(self) -> float:
        """The current learning rate."""
        return self.last_lr

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch, or to `epoch`."""
        if epoch is None:
            self.last_epoch += 1
            self.last_lr = self.get_lr()
        else:
            self.last_epoch = int(epoch)
            self.last_lr = self._lr_at_once()
        self._announce()

    def get_lr(self) -> float:
        """The rate for `last_epoch`; may use `last_lr`, the rate before."""
        raise NotImplementedError(f"{type(self).__name__} has to define get_lr()")

    def _lr_at_once(self) -> float:
        """The rate for `last_epoch` after a jump, when `last_lr` is not the rate of the epoch before."""
        return self.get_lr()

    def _announce(self) -> None:
        if self.verbose:
            print(f"Epoch {self.last_epoch}: {type(self).__name__} set learning rate to {self.last_lr}.")

    def state_keys(self) -> None:
        """Set `keys`, the attributes that `state_dict` holds."""
        self.keys = ["last_epoch", "last_lr"]

    def state_dict(self) -> dict[str, Any]:
        """The state as JSON types."""
        self.state_keys()
        return {key: _plain(key, getattr(self, key)) for key in self.keys if hasattr(self, key)}

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state.

        Raises:
            InvalidArgument: names what is missing or unknown (a state of another schedule); nothing changes.
        """
        self.check_state(state_dict)
        for key in self.keys:
            setattr(self, key, state_dict[key])

    set_dict = set_state_dict

    def check_state(self, state_dict: dict[str, Any], also: Sequence[str] = ()) -> None:
        """What `set_state_dict` raises for a state, without setting it.

        Args:
            also: keys a subclass has besides `keys`.
        """
        if not isinstance(state_dict, dict):
            raise InvalidType(f"a state of {type(self).__name__} is a dict, got {state_dict!r}")
        self.state_keys()
        expected = {*self.keys, *also}
        missing, unknown = sorted(expected - set(state_dict)), sorted(set(state_dict) - expected)
        if missing or unknown:
            raise InvalidArgument(f"not a state of {type(self).__name__}: missing {missing}, unknown {unknown}")

    def to_config(self) -> dict[str, Any]:
        """Constructor arguments and state, for saving the schedule with a program."""
        names = [name for name in inspect.signature(type(self).__init__).parameters if name != "self"]
        arguments = {name: getattr(self, name, self.base_lr) for name in names if name != "last_epoch"}
        return {**arguments, "state": self.state_dict()}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LRScheduler:
        """The schedule that `to_config` described."""
        arguments = {name: value for name, value in config.items() if name != "state"}
        schedule = cls(**arguments)
        schedule.set_state_dict(config["state"])
        return schedule


@portable
class ConstantRate(LRScheduler):
    """The schedule of a rate changed by `set_lr`: always `learning_rate`, or the rate of a restored state."""

    def get_lr(self) -> float:
        return self.last_lr


def _plain(key: str, value: Any) -> Any:
    """A state value without NumPy types."""
    if isinstance(value, np.ndarray) and value.size != 1:
        raise InvalidArgument(f"state {key!r} must be a single number, got shape {list(value.shape)}")
    return value.item() if isinstance(value, (np.ndarray, np.generic)) else value


def number(name: str, value: Any) -> float:
    """`value` as a float."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidType(f"{name} must be a number, got {value!r}")
    return float(value)


def rate(name: str, value: Any) -> float:
    """`value` as a float >= 0."""
    if not number(name, value) >= 0:
        raise InvalidArgument(f"{name} must be >= 0, got {value}")
    return float(value)


def positive(name: str, value: Any) -> float:
    """`value` as a float > 0."""
    if not number(name, value) > 0:
        raise InvalidArgument(f"{name} must be greater than 0, got {value}")
    return float(value)


def positive_int(name: str, value: Any) -> int:
    """`value` as an int > 0."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InvalidType(f"{name} must be an integer, got {value!r}")
    return int(positive(name, value))


def shrinking(name: str, value: Any) -> float:
    """`value` as a float < 1."""
    if not number(name, value) < 1:
        raise InvalidArgument(f"{name} must be less than 1, got {value}")
    return float(value)


def choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    """`value` in lower case, one of `choices`."""
    if str(value).lower() not in choices:
        raise InvalidArgument(f"{name} must be one of {list(choices)}, got {value!r}")
    return value.lower()
