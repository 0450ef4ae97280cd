"""Where the streams of dynamic mode stand, to be kept and set again: `get_rng_state`, `set_rng_state`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from workbench.errors import InvalidArgument
from workbench.framework.values import random


class RandomState(NamedTuple):
    """Where random numbers stand.

    Attributes:
        seed: process-wide. drawn: how many streams dynamic mode has drawn from since it was set.
        series: how many recorded functions have begun to draw since.
        steps: of each recorded function that has drawn, when it was made among them all, and how far its steps are.
    """

    seed: int
    drawn: int
    series: int = 0
    steps: tuple[tuple[int, int], ...] = ()


def get_rng_state(device: str | None = None) -> list[RandomState]:
    """Where the random numbers of dynamic mode, and of functions recorded there, stand; one entry.

    A static program's are counted in its scope, and kept with what is there.

    Args:
        device: accepted for Paddle's sake; all devices draw from one source.

    Example:
        >>> state = wb.get_rng_state()
        >>> first = wb.rand([2])
        >>> wb.set_rng_state(state)
        >>> bool((wb.rand([2]) == first).all())
        True
    """
    return [RandomState(*random.position(), tuple(random.steps_drawn().items()))]


def set_rng_state(state_list: Sequence[Any], device: str | None = None) -> None:
    """Have random numbers go on from where `get_rng_state` found them.

    A function that was recorded since draws as from the beginning.

    Raises:
        InvalidArgument: not what `get_rng_state` gave.

    Example:
        >>> wb.set_rng_state(wb.get_rng_state())
    """
    if len(state_list) != 1 or not isinstance(state_list[0], RandomState):
        raise InvalidArgument(f"set_rng_state takes what get_rng_state gave, got {state_list!r}")
    seed, drawn, series, steps = state_list[0]
    random.go_to(seed, drawn, series, dict(steps))


def get_cuda_rng_state() -> list[RandomState]:
    """The states of GPUs: none, they draw from the same source as the CPU.

    Example:
        >>> wb.get_cuda_rng_state()
        []
    """
    return []


def set_cuda_rng_state(state_list: Sequence[Any]) -> None:
    """Set the states of GPUs, of which there are none.

    Raises:
        InvalidArgument: states for GPUs.

    Example:
        >>> wb.set_cuda_rng_state(wb.get_cuda_rng_state())
    """
    if len(state_list):
        raise InvalidArgument(f"set_cuda_rng_state takes no states: GPUs have none of their own, got {len(state_list)}")
