"""The work a step cannot do without, counted from its plan: arithmetic of products, bytes that have to move."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from workbench.executors.planning.plan import Plan, Row
from workbench.framework.op.record import Op, find_op
from workbench.framework.values.spec import Spec, size_of
from workbench.graph.ssa import FUSED_UPDATE, Node, Value, is_update, values_of


class Work(NamedTuple):
    """Of one step on all devices.

    Attributes:
        flops: of matrix products and convolutions, a multiplication and an addition being two.
        fed, fetched: bytes read from the feed, and handed to the user.
        updated: bytes of gradients, on every device, and of parameters and state, once, each read and written once.
    """

    flops: int
    fed: int
    fetched: int
    updated: int

    @property
    def nbytes(self) -> int:
        """All that moves."""
        return self.fed + self.fetched + self.updated


class MeasuredStep:
    """What the median step of a program is held against: its work, at the rates of this machine.

    Attributes:
        median: seconds of single steps. work: what a step cannot do without.
        gemm, copy: flops and bytes per second with all threads at work.
        alone: seconds that one thread would take at least, at the rates it has alone.
    """

    median: float
    work: Work
    gemm: float
    copy: float
    alone: float

    @property
    def floor(self) -> float:
        """What the arithmetic and the bytes take at those rates, one after the other."""
        return self.work.flops / self.gemm + self.work.nbytes / self.copy

    @property
    def share(self) -> float:
        """Of that in the median step, 0 … 1."""
        return self.floor / self.median

    @property
    def share_of_one(self) -> float:
        """The same of one thread's; above 1 where several made use of each other."""
        return self.alone / self.median


def work_of(plan: Plan) -> Work:
    """The work of a plan, whatever way it is run."""
    rows = [*plan.rows, *plan.commit]
    specs = plan.shapes.specs
    fed = sum(_nbytes(specs[v]) for v in plan.feeds if not v.persistable)
    fetched = sum(_nbytes(specs[v]) for _, values in plan.fetches for v in values)
    return Work(sum(map(flops_of, rows)), fed, fetched, _update_bytes(plan, rows))


def flops_of(row: Row) -> int:
    """Of a product or a convolution, or of the gradients of one that are wanted; 0 for every other row."""
    if not row.node.is_op:
        return 0
    record = row.node.record
    if not (record.forward_of or record).is_product:
        return 0
    if not record.is_grad:
        return row.cost.flops
    wanted = [slot is not None for slot in row.node.outputs]
    return row.cost.flops * sum(wanted) // len(wanted)  # each gradient is a product as large


def _update_bytes(plan: Plan, rows: list[Row]) -> int:
    """Every device makes gradients of its own; parameters and state are the same on all, so once would do."""
    gradients: dict[tuple[str, int], int] = {}
    kept: dict[str, int] = {}
    for row in rows:
        if is_update(row.node):
            for slot, value in _operands(row.node):
                nbytes = _nbytes(plan.shapes.specs[value])
                if slot == "Grad":
                    gradients[value.name, row.node.place] = nbytes
                elif slot != "LearningRate":
                    kept[value.name] = nbytes
    return 2 * (sum(gradients.values()) + sum(kept.values()))


def _operands(node: Node) -> Iterator[tuple[str, Value]]:
    """The inputs of an update, with the names of their slots."""
    record: Op = find_op(node.attrs["update"]) if node.type == FUSED_UPDATE else node.record
    for slot, values in zip(record.inputs, node.inputs, strict=True):
        for value in values_of([values]):
            yield slot.name, value


def _nbytes(spec: Spec) -> int:
    return max(size_of(spec.shape), 0) * spec.dtype.itemsize
