"""Events as an executor would tell them, with times one can compute by hand."""

from __future__ import annotations

from workbench.events import (
    Collective,
    Error,
    Event,
    Feed,
    Memory,
    OpInfo,
    OpRun,
    Output,
    PlanCompiled,
    ScopeDrop,
    Step,
)
from workbench.framework.site import Site
from workbench.framework.values.place import CPUPlace

MS = 1_000_000  # nanoseconds
PLACES = (CPUPlace(0), CPUPlace(1))


def op(node: int, kind: str, place: int, shape: tuple[int, ...] = (2, 4), line: int = 1) -> OpInfo:
    """Output `<kind>.out`, float32, built at `net.py`."""
    output = Output(f"{kind}.out", shape, "float32", 4 * shape[0] * shape[1])
    return OpInfo(node, kind, PLACES[place], "Forward", Site("net.py", line), (kind,), (output,))


MUL = [op(0, "mul", place, line=3) for place in (0, 1)]
TANH = [op(1, "tanh", place, line=4) for place in (0, 1)]


def step_of(executor: str, number: int, begin: int, mul: int = 4) -> list[Event]:
    """A step of 10 ms: on each of two threads `mul` (4 ms on device 0, 2 ms on device 1) and `tanh` (1 ms), then an
    all-reduce of 2 ms on thread 0."""
    runs: list[Event] = []
    for place in (0, 1):
        middle = begin + mul * MS // (place + 1)
        runs.append(OpRun(executor, number, MUL[place], place, begin, middle))
        runs.append(OpRun(executor, number, TANH[place], place, middle, middle + MS))
    reduced = begin + 6 * MS
    return [
        Feed(executor, number, PLACES, {"x": (3, 2)}, {"x": ((3, 4), (2, 4))}, {"x": "float32"}, (48, 32), begin),
        *runs,
        Collective(executor, number, "all_reduce", ("w@GRAD", "b@GRAD"), 3_000, PLACES, 0, reduced, reduced + 2 * MS),
        Memory(executor, number, PLACES[0], 4096, begin + 9 * MS),
        Memory(executor, number, PLACES[1], 2048, begin + 9 * MS),
        Step(executor, number, begin, begin + 10 * MS, PLACES, (3, 2)),
    ]


def session(executor: str = "exe_1", steps: int = 3, begin: int = 5_000_000_123) -> list[Event]:
    """A compilation of 5 ms, then steps one after the other, a scope drop and a step that fails."""
    told: list[Event] = [PlanCompiled(executor, 0, 12, PLACES, 9, 8, 1, begin, begin + 5 * MS)]
    for number in range(steps):
        told += step_of(executor, number, begin + (5 + 10 * number) * MS)
    end = begin + (6 + 10 * steps) * MS
    told.append(ScopeDrop(executor, steps - 1, PLACES, (4096, 2048), "interval", end))
    told += [Memory(executor, steps - 1, place, 0, end) for place in PLACES]
    told.append(Error(executor, steps, "boom\n  got: 3", "tanh", PLACES[1], Site("net.py", 4), end + MS))
    return told
