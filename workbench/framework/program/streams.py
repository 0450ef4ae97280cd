"""Which random stream an operator draws from (design: keyed by seed, op, place and step)."""

from __future__ import annotations

from workbench.config import get_flag
from workbench.framework.program.operator import Operator
from workbench.framework.values.random import RandomStream, process_entropy, program_seed


def stream_of(op: Operator, seed_of_program: int, place: int, step: int, trips: tuple[int, ...] = ()) -> RandomStream:
    """The stream of one execution of a random op.

    An initialiser (`startup` attribute) does not depend on the step: with a seed, running the startup program
    again gives the same values, without one it gives fresh ones (P-14, E-14).

    Args:
        place: index of the device; step: how often the program has run.
        trips: numbers of the loop passes around the op.
    """
    attrs = op.attrs
    seed = program_seed(attrs.get("seed", 0), seed_of_program)
    if get_flag("FLAGS_paddle_seed_semantics") and seed:
        return RandomStream(seed)
    number = attrs.get("stream", 0)
    if attrs.get("startup"):
        # the top bit keeps initialisers apart from the random ops of the main program
        return RandomStream(seed, number | 1 << 63, 0, 0) if seed else RandomStream.unseeded(number, 0)
    trip = 0
    for t in trips:
        trip = trip * 1_000_003 + t + 1
    return RandomStream(seed or process_entropy(), number, place, step, trip)
