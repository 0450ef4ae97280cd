"""Where the streams of dynamic mode stand, to be kept and set again: `get_rng_state`, `set_rng_state`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from workbench.errors import InvalidArgument
from workbench.framework.values import random

_MOST = 1 << 62  # of anything that is counted


class RandomState(NamedTuple):
    """Where random numbers stand.

    Attributes:
        seed: process-wide. drawn: how many streams dynamic mode has drawn from since it was set.
        steps: of each recorded function that has drawn, when it was made among them all, and how far its steps are.
        series: how many recorded functions have begun to draw since the seed was set.
    """

    seed: int
    drawn: int
    steps: tuple[tuple[int, int], ...] = ()
    series: int = 0


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
    seed, drawn, series = random.position()
    return [RandomState(seed, drawn, tuple(random.steps_drawn().items()), series)]


def set_rng_state(state_list: Sequence[Any], device: str | None = None) -> None:
    """Have random numbers go on from where `get_rng_state` found them.

    A function that was recorded since draws as from the beginning.

    Args:
        state_list: what `get_rng_state` gave, here or in an earlier version, or what `load` gives of it: a plain tuple.

    Raises:
        InvalidArgument: something else; nothing is set.

    Example:
        >>> wb.set_rng_state(wb.get_rng_state())
    """
    try:
        (state,) = state_list
        seed, drawn, steps, series = _read(*state)
        steps_of = {int(number): int(step) for number, step in steps}
        if not all(0 <= number <= _MOST for number in (drawn, series, *steps_of.values())):
            raise ValueError("no count")
    except (TypeError, ValueError):
        raise InvalidArgument(f"set_rng_state takes what get_rng_state gave, got {state_list!r}") from None
    random.go_to(seed, drawn, series, steps_of)


def _read(seed: int, drawn: int, *later: Any) -> RandomState:
    """A state of any version: the first had these two numbers, the next one steps, and one the series before the steps.

    Without a series all steps are of the first one.
    """
    more = [value for value in later if isinstance(value, int)]
    steps, *others = [tuple(value) for value in later if not isinstance(value, int)] or [()]
    if len(more) > 1 or others:
        raise ValueError("more than a state has")
    return RandomState(int(seed), int(drawn), steps, *(more or [1 if steps else 0]))


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
