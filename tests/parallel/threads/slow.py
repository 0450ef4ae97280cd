"""An op that takes as long as a test wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.framework.op.declare import op
from workbench.framework.op.record import Cost


class Slow:
    """An op that hands its input through, is announced as long work, and calls `forward(place)` or
    `backward(place)` when it runs."""

    def __init__(self) -> None:
        self.forward: Callable[[int], Any] = lambda place: None
        self.backward: Callable[[int], Any] = lambda place: None

        def gradient(xp: Any, x: Any, g: Any, place: int, **attrs: Any) -> Any:
            self.backward(place)
            return xp.array(g)

        @op(
            "slow",
            "X -> Out",
            infer=lambda x: x,
            grad=lambda g, out, x, **attrs: g,
            grad_forward=gradient,
            cost=lambda x, **attrs: Cost(10**9 * max(x.shape[0], 1), 0),
            needs="place",
        )
        def slow(xp: Any, x: Any, place: int) -> Any:
            self.forward(place)
            return xp.array(x)

        self.apply = slow
