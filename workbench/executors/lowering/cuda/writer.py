"""Writes rows of a plan as launches: the rules of the tape, on a device.

A rule says which kernels a row takes, with arrays of the host that stand for memory of the device (`cuda.mirrors`).
What it asks for is looked up in `launches`: a kernel of the same name, generated from what the op declares or written
by hand. A row with a kernel that is not there runs on the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.cuda.devices.gpu import GPU
from workbench.cuda.kernels.numbers import NoKernel
from workbench.errors import NotFound
from workbench.executors.lowering.cuda import attention, indexed  # noqa: F401 (they note what they have)
from workbench.executors.lowering.cuda.device_calls import Constants, DeviceScratch, LaunchMaker
from workbench.executors.lowering.cuda.images import DeviceImages
from workbench.executors.lowering.cuda.launches import KernelWords, device_kernels, launches_of, vector_launches
from workbench.executors.lowering.cuda.rules import device_rules_of
from workbench.executors.lowering.cuda.statuses import Statuses
from workbench.executors.lowering.operands import Call, Context, objects_of
from workbench.executors.lowering.tape.registry import Rule
from workbench.executors.lowering.tape.vector_code import Unsuitable
from workbench.executors.planning.plan import Row
from workbench.framework.expr.lowered import Lowered, Unlowerable
from workbench.framework.values.spec import ROWS
from workbench.runtime.footprint import OutOfBounds


class _DeviceAddresses(dict[str, int]):
    """Where kernels are, for rules that ask; rows that name one that is not there are refused."""

    def __missing__(self, kernel: str) -> int:
        return 0


class _DeviceKernels:
    """What stands for an image of kernels where rules ask whether there is one."""

    addresses = _DeviceAddresses.fromkeys(device_kernels(), 0)


class _DeviceConstants(Constants):
    """What stands for a tape."""

    kernels = _DeviceKernels()


class LaunchWriter(LaunchMaker):
    """Writes the launches of the rows of one device.

    Args:
        context: what rows are bound to. scratch: memory rows share.
        statuses: where kernels say that a number names nothing.
    """

    takes_integers = True

    def __init__(self, gpu: GPU, context: Context, scratch: DeviceScratch, statuses: Statuses) -> None:
        super().__init__(gpu, scratch, statuses)
        self.tape = _DeviceConstants()
        self._streams: list[np.ndarray] = []
        self.context = replace(context, stream=self._stream)
        self._draws = context.stream
        self._calls: list[Call] = []
        self.calls_blas = False
        self.images = DeviceImages(self, self.give)

    def _stream(self, node: Any) -> np.ndarray:
        words = self._draws(node)
        if not any(words is known for known in self.tape.kept):
            self._streams.append(self.tape.keep(words))
        return words

    def drawn_from(self) -> list[np.ndarray]:
        """The words of random streams that rows have begun to draw from since this was asked last.

        The host writes them in every step.
        """
        streams, self._streams = self._streams, []
        return streams

    def written(self, row: Row) -> list[Call] | None:
        """What runs a row on the device; None if it cannot."""
        rules = device_rules_of(row.node) if row.node.writes else []
        if any(True for _ in objects_of(row)) or any(v.spec.kind == ROWS for v in (*row.node.reads, *row.node.writes)):
            return None
        self.scratch.restart()
        self._row = row
        for rule in rules:
            calls = self._by(rule, row)
            if calls is not None:
                return calls
        return None

    def _by(self, rule: Rule, row: Row) -> list[Call] | None:
        self._calls = []
        try:
            rule(self, row)
        except (Unsuitable, OutOfBounds, Unlowerable, NoKernel, NotFound):
            return None
        return self._calls

    # What rules call

    def give(self, calls: Sequence[Call]) -> None:
        """Launches of the current row, behind those there are."""
        self._calls.extend(calls)

    def row(self, kernel: str, *arguments: Any) -> None:
        """A kernel on arrays or pointers, and numbers.

        Raises:
            Unsuitable: the device has none of that name for such arguments.
        """
        self.give(launches_of(self, KernelWords.checked(kernel, arguments)))

    def late_row(self, number: int, kernel: str, *arguments: Any) -> None:
        """The same; a device does one row after the other."""
        self.row(kernel, *arguments)

    def independent(self, kernel: str, rows: Sequence[Sequence[Any]]) -> None:
        """Rows of one kernel, one after the other."""
        for arguments in rows:
            self.row(kernel, *arguments)

    def vector(self, form: Lowered, shape: tuple[int, ...], arrays: Sequence[Any], outs: Sequence[Any]) -> None:
        """Element-wise work on arrays of a shape.

        Raises:
            Unsuitable: a result is smaller than the shape, or lies over what is read in another way.
        """
        self.give(vector_launches(self, form, shape, arrays, outs))

    def gemm(self, item: int) -> int:
        """The device has products of its own."""
        return 0

    def on_stand_ins(self, rule: Rule, row: Row, stand_ins: Mapping[Any, np.ndarray]) -> None:
        """Write a row by a rule on other arrays than those of its operands, temporaries of the row."""
        own = self.context

        def array(value: Any) -> np.ndarray:
            stand_in = stand_ins.get(value)
            return own.array(value) if stand_in is None else stand_in

        self.context = replace(own, array=array)
        try:
            rule(self, row)
        finally:
            self.context = own
