"""The first NaN of a run: which step, and in it which op, on which device, in which row of the batch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from workbench.errors import EnforceNotMet, ExecutionError, located
from workbench.executors.inspection.nan_finder import NotFinite, rows_text
from workbench.executors.inspection.replay import Replay
from workbench.executors.running.watching.moment import Moment
from workbench.framework.site import Site
from workbench.graph.ssa import Node


class FirstNaN:
    """A step in whose loss or gradients there is a NaN or an Inf, kept as it was before it was applied.

    What made it is found when it is first asked for: the step is run once more, node by node, on the side.

    Attributes:
        step: its number in the run, from 1. replay: runs it again.
    """

    def __init__(self, step: int, moment: Moment) -> None:
        self.step, self.replay = step, Replay(moment)
        self._lock = threading.RLock()
        self._origin: NotFinite | None = None
        self._trouble = ""
        self._is_known = False

    @property
    def origin(self) -> NotFinite | None:
        """The first node with results that are not finite; None if running the step again makes none."""
        with self._lock:
            if not self._is_known:
                try:
                    self._origin = self.replay.find_nan()
                except Exception as error:  # such as memory that is missing: the run goes on all the same
                    self._trouble = f"; the step could not be run again: {_first_line(error)}"
                self._is_known = True
            return self._origin

    def find(self) -> NotFinite | None:
        """As `found`, but whatever keeps the step from being run again is told in `reason`, and not tried again."""
        with self._lock:
            try:
                return self.origin
            except Exception as error:  # whoever shows the run does so many times a second
                self._trouble = f"; the step could not be run again: {type(error).__name__}: {error}"
                self._is_known = True
                return None

    @property
    def node(self) -> Node | None:
        """That node, of the graph in which nothing is fused."""
        return None if self.origin is None else self.origin.of

    @property
    def op(self) -> str | None:
        """The type of its op."""
        return None if self.origin is None else self.origin.node.type

    @property
    def device(self) -> str | None:
        """The device on which it ran, such as `cpu:1`; of several the first with such a result."""
        return None if self.origin is None else str(self.replay.moment.spec.places[self.origin.outputs[0].device])

    @property
    def site(self) -> Site | None:
        """The line that built it."""
        return None if self.origin is None else self.origin.node.site

    @property
    def handed_on(self) -> list[str]:
        """The parameters and statistics it read that were not finite before the step."""
        finding = self.origin
        state = {name for device in self.replay.moment.state for name in device}
        return (
            [] if finding is None else [one.name for one in finding.inputs if not one.is_finite and one.name in state]
        )

    @property
    def title(self) -> str:
        """`NaN from step 27`."""
        return title_of(self.kind, self.step)

    @property
    def kind(self) -> str:
        """`NaN`; `Inf` if there is nothing but Inf among the first results that are not finite."""
        finding = self.find()
        return "Inf" if finding is not None and not any(o.nans for o in finding.outputs) else "NaN"

    @property
    def reason(self) -> str:
        """`op 'log' on cpu:1 makes it, in row 45 of the batch`."""
        finding = self.origin
        if finding is None:
            return f"its loss or a gradient is not finite{self._trouble or '; run once more, the step makes none'}"
        if names := self.handed_on:
            return f"{', '.join(names)} was not finite before the step; op {self.op!r} on {self.device} reads it"
        rows = f", in {rows_text(finding.rows)}" if finding.rows else ""
        if fed := [one.name for one in finding.inputs if not one.is_finite]:  # no op before this one has made it
            return f"it was fed as {', '.join(map(repr, fed))}{rows}; op {self.op!r} on {self.device} reads it"
        return f"op {self.op!r} on {self.device} makes it{rows}"

    def __str__(self) -> str:
        reason = self.reason
        return f"{self.title}: {reason}" + (f"\n  at {self.site}" if self.site is not None else "")

    __repr__ = __str__


def title_of(kind: str, step: int) -> str:
    """How a first NaN, or Inf, is called wherever a run is shown."""
    return f"{kind} from step {step:,}"


def _first_line(error: Exception) -> str:
    kind = type(error).__name__
    try:
        said = next(iter(str(error).splitlines()), "")
    except Exception:  # somebody else's error, which may fail to have a text
        said = ""
    return said if said and isinstance(error, EnforceNotMet) else f"{kind}: {said}" if said else kind


class StoppedOnNaN(ExecutionError):
    """A step was refused because of a NaN or an Inf in its loss or its gradients."""


class _Run(Protocol):
    step: int
    first_nan: FirstNaN | None

    def is_here(self) -> bool: ...


class NaNGuard:
    """Notes the first NaN of a run; see `Engine.guard`.

    Args:
        stops: refuse that step, which ends the run.
    """

    def __init__(self, run: _Run, stops: bool) -> None:
        self.run, self.stops = run, stops

    def __call__(self, take: Callable[[], Moment]) -> None:
        """On the thread of a step, before it is applied."""
        run = self.run
        if not run.is_here():
            return  # somebody else's step on the same executor
        if run.first_nan is None:
            run.first_nan = FirstNaN(run.step + 1, take())
        if self.stops:
            raise _refusal(run.first_nan)


def _refusal(nan: FirstNaN) -> StoppedOnNaN:
    error: Any = StoppedOnNaN(
        f"{nan}\n  stopped because of stop_on_nan; the step was not applied, parameters are of step {nan.step - 1}"
    )
    error.node = nan.node
    located(error)
    return error
