"""Making plans use their threads, and looking at what all devices hold."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np

from workbench.executors.feeding.feed_plan import Fed
from workbench.executors.lowering.binding import Binding
from workbench.executors.planning import schedule

Held = dict[tuple[str, int], bytes]


@contextlib.contextmanager
def costly_ops(processors: int = 8) -> Iterator[None]:
    """Plans made inside are for a machine of many slow processors: the smallest ops are worth a thread of their own."""
    with (
        mock.patch.object(schedule, "FLOPS", 1e3),
        mock.patch.object(schedule, "BYTES", 1e3),
        mock.patch.object(schedule, "processors", return_value=processors),
    ):
        yield


def held(pe: Any, program: Any) -> Held:
    """The bits of every persistable value of every device, by (name, device)."""
    names = {v.name for v in program.persistables()} | ({program.rng_step} if program.rng_step else set())
    tensors = {(n, i): pe.inspection.tensor(n, i) for n in sorted(names) for i in range(pe.device_count)}
    return {key: tensor.array.tobytes() for key, tensor in tensors.items() if tensor is not None}


def binding_of(pe: Any, fetches: list[str], feed: Any) -> Binding:
    """What a run with this feed uses."""
    return pe.inspection.binding(fetches, feed)


def fed(pe: Any, feed: Any) -> Fed:
    """A feed as the devices get it."""
    return pe.inspection.fed(feed)


def threads_of(binding: Binding) -> int:
    """How many threads have something to do."""
    return sum(1 for program in binding.speculative if program.task.calls)


def bits(results: list[Any]) -> list[tuple[Any, ...]]:
    """Fetched values, exactly."""
    arrays = [np.asarray(r) for r in results]
    return [(a.shape, a.dtype.str, a.tobytes()) for a in arrays]
