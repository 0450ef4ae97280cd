"""The random numbers of a binding: whose they are, and the streams that kernels draw from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.executors.reference.runner import OpRunner
from workbench.framework.program.operator import Operator
from workbench.graph.ssa import Node
from workbench.runtime.words.stream import COUNTS_PASSES, KEY_WORDS, STREAM_WORDS


class Draws:
    """Of the devices of one binding.

    Args:
        runners: what serves the ops of each of them.

    Attributes:
        in_kernels: whether kernels draw.
    """

    __slots__ = ("_runners", "_streams", "in_kernels")

    def __init__(self, runners: Sequence[OpRunner]) -> None:
        self._runners = runners
        self._streams: dict[tuple[Operator, int], np.ndarray] = {}
        self.in_kernels = False

    def extras(self, node: Node, passes: Sequence[int] = ()) -> dict[str, Any]:
        """The keyword arguments an op `needs`, in the step that runs.

        Args:
            passes: the numbers of the passes of blocks around it, from the outermost on.
        """
        runner = self._runners[node.place]
        return (runner.inside(passes) if passes else runner).extras(node.origins[0])

    def stream(self, node: Node) -> np.ndarray:
        """The words of the random stream of a node, which a kernel draws from."""
        self.in_kernels = True
        return self._streams.setdefault((node.origins[0], node.place), np.zeros(STREAM_WORDS, np.uint64))

    def begin(self, drawn: Sequence[int]) -> None:
        """A step begins.

        Args:
            drawn: per device how many steps have drawn before it; empty if no op of the program draws.
        """
        for runner, count in zip(self._runners, drawn):
            runner.rng_step = count
        self._tell()

    def replicate(self) -> None:
        """In this step all devices draw the numbers of device 0."""
        for runner in self._runners:
            runner.place = 0
        self._tell()

    def _tell(self) -> None:
        for (op, place), words in self._streams.items():
            stream = self._runners[place].extras(op)["rng"]
            words[:KEY_WORDS] = stream.state
            if op.block.idx:
                words[COUNTS_PASSES] = self._runners[place].inside((0,)).extras(op)["rng"].trip != stream.trip
