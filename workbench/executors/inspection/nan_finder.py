"""Where does the first NaN or Inf of a step come from?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from workbench.executors.feeding.feed import Feed
from workbench.executors.feeding.feed_plan import Fed
from workbench.executors.inspection.observed import Observation
from workbench.executors.inspection.stepper import NodeRun, describe
from workbench.executors.running.engine.engine import Engine
from workbench.executors.running.watching.watch import blemished, numbers
from workbench.framework.values.spec import shape_text
from workbench.graph.ssa import Node, Value

_ROWS = 6  # numbers of rows that are listed


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
        rows: of the whole batch, in which its results are not finite; empty where they have no row for each of them.
        of: the node of the observed graph.
    """

    node: NodeRun
    outputs: tuple[Statistics, ...]
    inputs: tuple[Statistics, ...]
    rows: tuple[int, ...] = ()
    of: Node | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        bad = [i for i in self.inputs if not i.is_finite]
        verb = "hands on what is not finite" if bad else "makes the first NaN or Inf"
        rows = f", in {rows_text(self.rows)}" if self.rows else ""
        lines = [f"node #{self.node.number} {self.node.type!r} on {self.node.places} {verb}{rows}"]
        lines += [f"  made  {s}" for s in self.outputs] + [f"  reads {s}" for s in self.inputs]
        return "\n".join([*lines, f"  at {self.node.site}"])

    __repr__ = __str__


def rows_text(rows: Sequence[int]) -> str:
    """`row 45 of the batch`, `rows 3, 45 … (12 in all) of the batch`."""
    shown = ", ".join(map(str, rows[:_ROWS])) + (f" … ({len(rows)} in all)" if len(rows) > _ROWS else "")
    return f"row{'s' * (len(rows) != 1)} {shown} of the batch"


def find_nan(engine: Engine, feed: Feed, fetches: Sequence[str]) -> NotFinite | None:
    """Run a step without applying it, up to the first node whose results are not all finite.

    Nothing is fused, and updates are looked at like any other node.

    Returns:
        None if there is no such node.

    Raises:
        EnforceNotMet: as `run` would, for a feed or a parameter that is missing, or an op that fails.
    """
    engine.require_alone()
    with engine.scope.in_use(engine.execution.timeout):
        return first_not_finite(Observation(engine, fetches, engine.prepare(feed)))


def first_not_finite(step: Observation) -> NotFinite | None:
    """The same of a step that has been begun; it is left there."""
    while step.next_node is not None:
        row = step.rows[step.at].row
        node = step.advance()
        bad = list(blemished(step.binding, row))
        if bad:
            outputs = tuple(_statistics(value, data) for value, data in bad)
            return NotFinite(describe(step, node), outputs, _inputs(step, node), _rows(step.fed, bad), node)
    return None


def _rows(fed: Fed, bad: Sequence[tuple[Value, np.ndarray]]) -> tuple[int, ...]:
    """The rows of the whole batch that are not finite, where a value has a row for every row of its device."""
    nonfinite_rows: set[int] = set()
    for value, data in bad:
        counts = [rows for rows in fed.rows.values() if len(rows) > value.place]
        first = [sum(rows[: value.place]) for rows in counts if data.ndim and rows[value.place] == len(data)]
        if not first:
            return ()
        wrong = ~np.isfinite(data).reshape(len(data), -1).all(1)
        nonfinite_rows.update(first[0] + row for row in np.flatnonzero(wrong).tolist())
    return tuple(sorted(nonfinite_rows))


def _inputs(step: Observation, node: Node) -> tuple[Statistics, ...]:
    values = dict.fromkeys(node.value_reads)
    arrays = [(value, numbers(step.binding.current(value))) for value in values]
    return tuple(_statistics(value, data) for value, data in arrays if data is not None)


def _statistics(value: Value, data: np.ndarray) -> Statistics:
    finite = data[np.isfinite(data)].astype(np.float64)
    low, high, mean = (finite.min(), finite.max(), finite.mean()) if finite.size else (np.nan, np.nan, np.nan)
    nans, infs = int(np.isnan(data).sum()), int(np.isinf(data).sum())
    return Statistics(value.name, value.place, data.shape, float(low), float(high), float(mean), nans, infs)
