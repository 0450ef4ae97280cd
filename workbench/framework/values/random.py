"""Counter-based random streams: Philox4x64-10 keyed by (seed, op, place, step).

Random numbers for statistical use, not for secrets. A stream is a pure function of its key, so results do
not depend on the order in which ops run, and the same key gives the same bits on every kind of device.
Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from operator import length_hint
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np

from workbench.framework.values.ndtri import ndtri

_WORD = (1 << 64) - 1
_SIGNIFICAND = {"float32": 24, "float16": 11, "bfloat16": 8}  # bits
_process_entropy = secrets.randbits(63)
_unseeded_runs = itertools.count(1)
_STREAMS = (1 << 62) + 1  # more than are ever drawn
_STEPS_BITS = 40  # of a count of steps; above them stands the number of its series
_SERIES = 1 << (63 - _STEPS_BITS)


class _DynamicStreams:
    """The process-wide seed and the numbers of the streams that dynamic mode has not given yet.

    Threads share one: each number goes to one of them, and how many are left is told without drawing one.

    Args:
        given, begun: how many streams are gone, and how many series.
    """

    __slots__ = ("_left", "_series", "seed")

    def __init__(self, seed: int, given: int, begun: int) -> None:
        self.seed, self._left = seed, iter(range(given + 1, _STREAMS))
        self._series = iter(range(begun, _SERIES))

    def draw(self) -> int:
        """The next number, from 1 on."""
        return next(self._left)

    @property
    def given(self) -> int:
        """How many have been drawn."""
        return _STREAMS - 1 - length_hint(self._left)

    def begin_series(self) -> int:
        """The next number, from 0 on."""
        return next(self._series)

    @property
    def begun(self) -> int:
        """How many series have begun."""
        return _SERIES - length_hint(self._series)


_dynamic = _DynamicStreams(0, 0, 0)


class CountsSteps(Protocol):
    """What draws by how often it has run, not from the streams of `dynamic`: a recorded function."""

    def steps_drawn(self) -> int | None:
        """How many of its runs have drawn, from the `first_step` of its series on; None if it has none yet."""

    def draw_from(self, step: int | None) -> None:
        """Have the next run draw what it does after so many; None: as the first one of a series."""


_numbers = itertools.count()
_counting: WeakValueDictionary[int, CountsSteps] = WeakValueDictionary()


def count_steps_of(drawing: CountsSteps) -> None:
    """Have the steps of something be part of a `position`, as long as it lives; it goes by when it was made."""
    _counting[next(_numbers)] = drawing


def first_step() -> int:
    """What a series of steps begins to count from, so that no two of those begun since the seed draw the same.

    The first one has 0, as a static program has that runs for the first time.
    """
    return _dynamic.begin_series() << _STEPS_BITS


def seed(seed: int) -> int:
    """Set the process-wide seed used where a program or op gives none; 0 asks for a fresh one.

    Dynamic mode, and functions recorded there, draw as from the beginning. What a static program has drawn is counted
    in the scope it runs in, where its startup program begins anew.

    Returns:
        the seed, as Paddle's `paddle.seed` gives back a generator for chaining.

    Example:
        >>> wb.seed(7)
        7
    """
    go_to(seed, 0)
    return _dynamic.seed


def position() -> tuple[int, int, int]:
    """The process-wide seed; how many streams `dynamic` has given since it was set, and how many series have begun."""
    dynamic = _dynamic
    return dynamic.seed, dynamic.given, dynamic.begun


def steps_drawn() -> dict[int, int]:
    """How many runs have drawn, of what lives and counts them."""
    steps = {number: drawing.steps_drawn() for number, drawing in list(_counting.items())}
    return {number: count for number, count in steps.items() if count is not None}


def go_to(seed: int, given: int, begun: int = 0, steps: Mapping[int, int] | None = None) -> None:
    """Go on from a `position` and what `steps_drawn` gave; what has been made since begins anew."""
    global _dynamic
    _dynamic = _DynamicStreams(int(seed), int(given), int(begun))
    for number, drawing in list(_counting.items()):
        drawing.draw_from((steps or {}).get(number))


@dataclass(frozen=True)
class RandomStream:
    """A random stream.

    Attributes:
        seed: 64 bits; programs with the same seed draw the same numbers.
        op: number of the op among the random ops of its program.
        place: index of the device.
        step: how often the program has run in its scope (0 for initialisers).
        trip: number of the pass through the loops around the op.
    """

    seed: int
    op: int = 0
    place: int = 0
    step: int = 0
    trip: int = 0

    @classmethod
    def dynamic(cls, seed: int = 0) -> RandomStream:
        """The next stream of ops computed at once, outside any program."""
        dynamic = _dynamic
        return cls(seed or dynamic.seed or _process_entropy, op=dynamic.draw(), step=_WORD)

    @classmethod
    def unseeded(cls, op: int, place: int) -> RandomStream:
        """A stream that no other call repeats (rule P-14: with seed 0 each run differs)."""
        return cls(_process_entropy, op, place, _WORD - next(_unseeded_runs))

    @property
    def state(self) -> tuple[int, ...]:
        """Seed, op, step, place and trip, 64 bits each."""
        return tuple(n & _WORD for n in (self.seed, self.op, self.step, self.place, self.trip))

    def words(self, count: int) -> np.ndarray:
        """`count` random uint64 words.

        The Philox key is (seed, op). Block k of four words, k from 0, has the counter (k + 1, step, place, trip):
        NumPy's generator counts up before it draws.
        """
        seed, op, *counter = self.state
        generator = np.random.Philox(key=np.array([seed, op], np.uint64), counter=np.array([0, *counter], np.uint64))
        return generator.random_raw(count)

    def uniform(self, xp: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        """Uniform numbers in [0, 1), multiples of 2^-53 (float64), 2^-24 (float32), 2^-11 (float16), 2^-8 (bfloat16).

        No more bits than the dtype holds, so that none is rounded up to 1.
        """
        n = math.prod(shape)
        if np.dtype(dtype) == np.float64:
            return xp.asarray((self.words(n) >> np.uint64(11)) * 2.0**-53).reshape(shape)
        halves = self.words((n + 1) // 2).view(np.uint32)[:n]
        bits = _SIGNIFICAND[np.dtype(dtype).name]
        numbers = (halves >> np.uint32(32 - bits)).astype(np.float32) * np.float32(2.0**-bits)
        return xp.asarray(numbers).reshape(shape).astype(dtype)

    def normal(self, xp: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        """Standard normal numbers by Box and Muller's transform of two uniform ones."""
        n = math.prod(shape)
        pairs = (n + 1) // 2
        u = (self.words(2 * pairs) >> np.uint64(11)) * 2.0**-53
        radius = np.sqrt(-2.0 * np.log1p(-u[:pairs]))  # 1 - u lies in (0, 1]
        angle = 2.0 * np.pi * u[pairs:]
        both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
        return xp.asarray(both[:n]).reshape(shape).astype(dtype)

    def truncated_normal(self, xp: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        """Standard normal numbers within (-2, 2), from uniform ones by the inverse distribution function."""
        n = math.prod(shape)
        u = ((self.words(n) >> np.uint64(11)) + 0.5) * 2.0**-53  # in (0, 1)
        outside = math.erfc(math.sqrt(2.0)) / 2  # on each side
        return xp.asarray(ndtri(outside + u * (1.0 - 2.0 * outside))).reshape(shape).astype(dtype)

    def integers(self, xp: Any, low: int, high: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """Integers in [low, high), high - low <= 2^63; bias below 2^-32 for ranges up to 2^32."""
        n = math.prod(shape)
        span = np.uint64(high - low)
        return xp.asarray((self.words(n) % span).astype(np.int64) + low).reshape(shape).astype(dtype)


def program_seed(op_seed: int, seed_of_program: int) -> int:
    """The seed an op draws with: its own, its program's, the process-wide one; 0 if none is set."""
    return op_seed or seed_of_program or _dynamic.seed


def process_entropy() -> int:
    """The seed of unseeded streams, drawn once per process."""
    return _process_entropy
