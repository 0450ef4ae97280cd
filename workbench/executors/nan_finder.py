"""Where does the first NaN or Inf of a step come from?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.executors.engine import Engine
from workbench.executors.feed import Feed
from workbench.executors.observed import Observation
from workbench.executors.stepper import NodeRun, describe
from workbench.executors.watch import blemished, numbers
from workbench.framework.spec import shape_text
from workbench.graph.ssa import Node, Value


@dataclass(frozen=True)
class Statistics:
    """The numbers of a value.

    Attributes:
        shape: of the numbers; for a sparse gradient those of the rows it has.
        low, high, mean: of the finite ones; nan if there are none.
        nans, infs: how many are not finite.
    """

    name: str
    device: int
    shape: tuple[int, ...]
    low: float
    high: float
    mean: float
    nans: int
    infs: int

    @property
    def is_finite(self) -> bool:
        """Whether there is neither NaN nor Inf."""
        return not (self.nans or self.infs)

    def __str__(self) -> str:
        text = f"{self.name} {shape_text(self.shape)}: {self.low:.6g} to {self.high:.6g}, mean {self.mean:.6g}"
        return text if self.is_finite else f"{text}, {self.nans} NaN, {self.infs} Inf"


@dataclass(frozen=True)
class NotFinite:
    """The first node that makes a NaN or an Inf.

    Attributes:
        node: with number, type, device and line.
        outputs: its results that are not finite. inputs: all floating-point values it reads.
    """

    node: NodeRun
    outputs: tuple[Statistics, ...]
    inputs: tuple[Statistics, ...]

    def __str__(self) -> str:
        bad = [i for i in self.inputs if not i.is_finite]
        where = f"on device {self.node.device}" if len(self.node.devices) == 1 else f"on devices {self.node.devices}"
        verb = "hands on what is not finite" if bad else "makes the first NaN or Inf"
        lines = [f"node #{self.node.number} {self.node.type!r} {where} {verb}"]
        lines += [f"  made  {s}" for s in self.outputs] + [f"  reads {s}" for s in self.inputs]
        return "\n".join([*lines, f"  at {self.node.site}"])

    __repr__ = __str__


def find_nan(engine: Engine, feed: Feed, fetches: Sequence[str]) -> NotFinite | None:
    """Run a step without applying it, up to the first node whose results are not all finite.

    Nothing is fused, and updates are looked at like any other node.

    Returns:
        None if there is no such node.

    Raises:
        EnforceNotMet: as `run` would, for a feed or a parameter that is missing, or an op that fails.
    """
    with engine.scope.in_use(engine.execution.timeout):
        step = Observation(engine, fetches, engine.prepare(feed))
        while step.next_node is not None:
            row = step.parts[step.at].row
            node = step.advance()
            bad = [_statistics(value, data) for value, data in blemished(step.binding, row)]
            if bad:
                return NotFinite(describe(step, node), tuple(bad), _inputs(step, node))
    return None


def _inputs(step: Observation, node: Node) -> tuple[Statistics, ...]:
    values = dict.fromkeys(node.value_reads)
    found = [(value, numbers(step.binding.current(value))) for value in values]
    return tuple(_statistics(value, data) for value, data in found if data is not None)


def _statistics(value: Value, data: np.ndarray) -> Statistics:
    finite = data[np.isfinite(data)].astype(np.float64)
    low, high, mean = (finite.min(), finite.max(), finite.mean()) if finite.size else (np.nan, np.nan, np.nan)
    nans, infs = int(np.isnan(data).sum()), int(np.isinf(data).sum())
    return Statistics(value.name, value.place, data.shape, float(low), float(high), float(mean), nans, infs)
