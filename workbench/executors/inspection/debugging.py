"""What ParallelExecutor and CompiledProgram have in common: looking into their steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench.executors.feeding.feed import Feed
from workbench.executors.inspection.compare import FirstDifference, ReplicaComparison, compare_devices, first_difference
from workbench.executors.inspection.inspection import Inspection
from workbench.executors.inspection.nan_finder import NotFinite, find_nan
from workbench.executors.inspection.stepper import Stepper
from workbench.executors.planning.plan import Plan
from workbench.executors.running.engine.engine import Engine
from workbench.executors.running.engine.pruned import needed
from workbench.graph.ssa import Graph


class Debugging:
    """Methods that look into the steps of an engine.

    None of them applies a step but `run_step`, and a stepper when it is told to.
    """

    def _to_debug(self) -> Engine:
        """The engine; made if there is none yet."""
        raise NotImplementedError

    @property
    def inspection(self) -> Inspection:
        """What it is and does, to be read."""
        return Inspection(self._to_debug())

    def run_step(self, feed: Feed, fetch_list: Any, return_merged: bool = True) -> list[Any]:
        """One step on the devices and in the scope that it stays with.

        Args:
            feed, fetch_list: as of `run`. return_merged: joined over the devices, else one list per name.

        Raises:
            EnforceNotMet: or a subclass, as `run` does.
        """
        engine, names = needed(self._to_debug(), feed, fetch_list)
        return engine.run(feed, names, merged=return_merged)

    def drop_temporaries(self) -> int:
        """Give the memory of temporaries back to the system; within a step of this thread at the end of it.

        Returns:
            bytes given back; 0 if that is yet to come.
        """
        return self._to_debug().drop()

    def stepper(self, feed: Feed = None, fetch_list: Any = None) -> Stepper:
        """Begin a step that is run node by node, in program order and without fused nodes.

        Args:
            feed, fetch_list: as of `run`.

        Raises:
            EnforceNotMet: as `run` would, for a feed or a parameter that is missing.
        """
        engine, names = needed(self._to_debug(), feed, fetch_list)
        return Stepper(engine, feed, names)

    def graph(self, fetch_list: Any = None, observed: bool = False) -> Graph:
        """The graph of a step that fetches these variables, after all passes: to be printed and read, not changed.

        Before the first run it settles the strategies, as the first run does.

        Args:
            observed: without fused nodes, as a stepper runs it.

        Raises:
            EnforceNotMet: or a subclass, as `run` does for the same fetches.
        """
        engine, names = needed(self._to_debug(), None, fetch_list)
        engine.start()
        return engine.graph(names, observed=observed)

    def plan(self, feed: Feed = None, fetch_list: Any = None) -> Plan:
        """How a step runs for a feed of these shapes: threads, memory in bytes, estimated cost; print it to read it.

        Raises:
            EnforceNotMet: or a subclass, as `run` does for the same feed and fetches.
        """
        engine, names = needed(self._to_debug(), feed, fetch_list)
        with engine.scope.in_use(engine.execution.timeout):
            return engine.binding(names, engine.prepare(feed)).plan

    def compare_devices(self, names: str | Iterable[str] | None = None) -> ReplicaComparison:
        """Whether the devices' copies of persistable variables are the same bits; see `compare.compare_devices`.

        Returns:
            a result that is true if they are, and lists every variable that differs.
        """
        return compare_devices(self._to_debug(), names)

    def first_difference(self, feed: Feed = None) -> FirstDifference | None:
        """Feed all devices the same rows and find the first node at which they part; see `compare.first_difference`.

        Args:
            feed: a dict with the rows of one device.

        Returns:
            None if they do not part. Nothing is applied.
        """
        return first_difference(self._to_debug(), feed)

    def find_nan(self, feed: Feed = None, fetch_list: Any = None) -> NotFinite | None:
        """The first node of a step that makes a NaN or an Inf, with what it reads; see `nan_finder.find_nan`.

        Args:
            feed, fetch_list: as of `run`.

        Returns:
            None if there is none. Nothing is applied.
        """
        engine, names = needed(self._to_debug(), feed, fetch_list)
        return find_nan(engine, feed, names)
