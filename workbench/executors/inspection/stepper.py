"""A step run by hand: node by node, with breakpoints and a look at any value of any device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any

import numpy as np

from workbench.config import get_flag
from workbench.errors import InvalidArgument, InvalidType, NotFound, PreconditionNotMet, did_you_mean
from workbench.executors.feeding.feed import Feed
from workbench.executors.fetching.fetch import fetchable
from workbench.executors.inspection.observed import Observation
from workbench.executors.running.engine.engine import Engine
from workbench.framework.program.roles import role_text
from workbench.framework.site import Site
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import shape_text
from workbench.graph.printer import node_text
from workbench.graph.ssa import Node, Value

_AROUND = 2  # nodes `where()` shows before and behind the position
_WIDTH = 150  # characters of a node it shows


@dataclass(frozen=True)
class ShownOperand:
    """What a node reads or writes.

    Attributes:
        name, device, version: of the value; the version counts the writes to the variable in this step.
        shape: -1 where it is unknown, because it depends on values that are not there yet. dtype: its name.
    """

    name: str
    device: int
    version: int
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}{shape_text(self.shape)}"


@dataclass(frozen=True)
class NodeRun:
    """A node that has been run.

    Attributes:
        number: as in the printed graph (`exe.graph(fetch_list, observed=True)`). type: of the op, or a collective.
        devices: the indexes of its devices; one unless it is a collective. places: what they are called.
        inputs, outputs: in slot order; a collective's in device order.
        role: Forward, Backward, Optimize ... site: the line that built it, None if there is none.
    """

    number: int
    type: str
    devices: tuple[int, ...]
    inputs: tuple[ShownOperand, ...]
    outputs: tuple[ShownOperand, ...]
    role: str
    site: Site | None
    places: str = field(repr=False, compare=False, default="")

    @property
    def device(self) -> int:
        """The (first) device."""
        return self.devices[0]

    def __str__(self) -> str:
        where = ",".join(map(str, self.devices))
        outputs = ", ".join(map(str, self.outputs)) or "nothing"
        return f"#{self.number} [{where}] {self.type}: {', '.join(map(str, self.inputs)) or 'nothing'} -> {outputs}"


Condition = Callable[[NodeRun], Any]
Breakpoint = str | int | Condition


class Stepper:
    """One step, run node by node in program order.

    Nothing it does reaches the parameters before `finish()`. Leaving its `with` body midway, `abort()`, a node that
    fails and a condition that raises all discard the step. Between two nodes others may use the variables; if they
    change what this step stands on, it refuses to go on.

        with exe.stepper(feed, [loss]) as step:
            step.run_until("softmax_with_cross_entropy")
            print(step.where(), step.value("fc_0.tmp_1", device=1))
            (value,) = step.finish()

    It is one step whatever `num_iteration_per_run` says. Made by `exe.stepper`.

    Raises:
        EnforceNotMet: as `run` of the executor would, for a feed or a parameter that is missing.
        Unimplemented: other trainers make every step with this process.
    """

    def __init__(self, engine: Engine, feed: Feed, fetches: Sequence[str]) -> None:
        self._engine, self._ended = engine, ""
        engine.require_alone()
        with self._alone():
            fed = engine.prepare(feed)
            if engine.execution._dry_run:
                raise PreconditionNotMet("with ExecutionStrategy._dry_run no op runs; there is nothing to step through")
            self._step: Observation | None = Observation(
                engine, fetches, fed, finite=bool(get_flag("FLAGS_check_nan_inf"))
            )

    # Running

    def next(self) -> NodeRun | None:
        """Run one node.

        Returns:
            the node, None if all have run; `finish()` applies the step then.

        Raises:
            EnforceNotMet: the op failed; the step is discarded, and its values can still be looked at.
            PreconditionNotMet: the step is over, or what it stands on has changed.
        """
        step = self._going_on()
        if step.next_node is None:
            return None
        try:
            with self._alone():
                return self._run_of(step.advance())
        except Exception as error:
            self._discard(error)
            raise

    def __iter__(self) -> Iterator[NodeRun]:
        return self

    def __next__(self) -> NodeRun:
        node = self.next()
        if node is None:
            raise StopIteration
        return node

    def run_until(self, breakpoint: Breakpoint, device: int | None = None) -> NodeRun | None:
        """Run nodes up to the first one, from here on, that meets the breakpoint.

        Args:
            breakpoint: an op type; the name of a variable, met by nodes that write it; a node's number; or a function
                that is called with every node that has run and says whether to stop.
            device: only nodes of this device meet it.

        Returns:
            the node, which has been run; None if all nodes have run and none has met it.

        Raises:
            NotFound: no node of this step can meet it. InvalidType: it is none of these.
            Exception: what the function raises; the step is discarded.
        """
        meets = self.condition(breakpoint, device)
        while (node := self.next()) is not None:
            if self._judge(meets, node):
                return node
        return None

    def condition(self, breakpoint: Breakpoint, device: int | None = None) -> Condition:
        """What tells whether a node meets a breakpoint; see `run_until`."""
        meets = self._condition(breakpoint)
        if device is None:
            return meets
        self._require_device(device)
        return lambda node: device in node.devices and meets(node)

    def _judge(self, meets: Condition, node: NodeRun) -> bool:
        try:
            return bool(meets(node))
        except BaseException as error:
            self._ended = f"was discarded: the breakpoint's function raised {error!r}"
            raise

    def _condition(self, breakpoint: Breakpoint) -> Condition:
        if callable(breakpoint):
            return breakpoint
        if isinstance(breakpoint, int) and not isinstance(breakpoint, bool):
            return self._at_number(breakpoint)
        if isinstance(breakpoint, str):
            return self._at_name(breakpoint)
        raise InvalidType(
            f"run_until() takes an op type, a variable's name, a node's number or a function, got {breakpoint!r}"
        )

    def _at_number(self, number: int) -> Condition:
        todo = [node for node in self._look().todo() if self._look().numbers[node] == number]
        if not todo:
            raise NotFound(f"no node #{number} is left to run; {self._left()}")
        return lambda node: node.number == number

    def _at_name(self, name: str) -> Condition:
        todo = self._look().todo()
        if any(node.type == name for node in todo) or any(v.name == name for node in todo for v in node.writes):
            return lambda node: node.type == name or any(out.name == name for out in node.outputs)
        known = dict.fromkeys([*(n.type for n in todo), *(v.name for n in todo for v in n.writes)])
        raise NotFound(
            f"no node that is left to run is a {name!r} or writes a variable of that name; {self._left()}."
            f"{did_you_mean(name, known)}"
        )

    def _left(self) -> str:
        todo, numbers = self._look().todo(), self._look().numbers
        return f"left are #{numbers[todo[0]]} to #{numbers[todo[-1]]}" if todo else "all nodes have run"

    def finish(self, return_numpy: bool = True, return_merged: bool = True) -> list[Any]:
        """Run the nodes that are left and apply the step, whole or not at all.

        Args:
            return_numpy: ndarrays, else LoDTensors. return_merged: joined over the devices, else one list per name.

        Returns:
            the fetched values.

        Raises:
            EnforceNotMet: an op failed, or the fetched values do not join; the step is discarded.
            PreconditionNotMet: a parameter has changed since the step began; the step is discarded.
        """
        step = self._going_on()
        try:
            with self._alone():
                step.advance_to_the_end()
                ended = partial(setattr, self, "_ended", "has been applied")
                results = step.apply(return_numpy, return_merged, ended)
        except Exception as error:
            self._discard(error)
            raise
        return results

    def abort(self) -> None:
        """Discard the step and its memory; nothing has changed. After `finish()` only the memory goes."""
        self._ended, self._step = self._ended or "was discarded", None

    def _discard(self, error: Exception) -> None:
        first, *_ = str(error).splitlines() or [type(error).__name__]
        self._ended = self._ended or f"was discarded: {first}"

    def __enter__(self) -> Stepper:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.abort()

    # Looking

    def value(self, name: str, device: int = 0, version: int | None = None) -> np.ndarray:
        """A value as it is at this point, a copy; sparse gradients as dense arrays.

        Parameters have the value the step makes of them once their update has run, though nothing has been applied.

        Args:
            device: index of the device.
            version: of a variable that is written several times, the value after so many writes (a gradient before
                the all-reduce: version 0); the newest if None.

        Raises:
            PreconditionNotMet: no node that has run computes it; tells which one will.
            NotFound: the step has no such variable, or no such version of it.
        """
        step = self._look()
        self._require_device(device)
        with self._alone():
            return np.array(fetchable(step.current(name, device, version)))

    def values(self, name: str) -> list[np.ndarray]:
        """The value of every device that takes part, in device order; see `value`."""
        return [self.value(name, device) for device in range(self._look().graph.devices)]

    def where(self) -> str:
        """The position as text: the nodes around it, and the line that built the next one."""
        step = self._look()
        nodes = [part.row.node for part in step.rows]
        lines = [f"{step.at} of {len(nodes)} nodes have run{f'; the step {self._ended}' if self._ended else ''}"]
        for index in range(max(step.at - _AROUND, 0), min(step.at + _AROUND + 1, len(nodes))):
            mark = "->" if index == step.at else "  "
            lines.append(f"{mark} #{step.numbers[nodes[index]]} {_clipped(node_text(nodes[index]))}")
            if index == step.at and nodes[index].site is not None:
                lines.append(f"       at {nodes[index].site}")
        return "\n".join(lines)

    @property
    def progress(self) -> tuple[int, int]:
        """How many nodes have run, and how many there are."""
        step = self._look()
        return step.at, len(step.rows)

    @property
    def following(self) -> NodeRun | None:
        """The node that runs next, None if all have run; shapes as planned."""
        node = self._look().next_node
        return None if node is None else self._run_of(node)

    @property
    def is_over(self) -> bool:
        """Whether the step has been applied or discarded."""
        return bool(self._ended)

    def __repr__(self) -> str:
        if self._step is None:
            return f"Stepper(the step {self._ended})"
        return f"Stepper({self._step.at} of {len(self._step.rows)} nodes, {self._ended or 'not applied yet'})"

    # Pieces

    def _alone(self) -> Any:
        return self._engine.scope.in_use(self._engine.execution.timeout)

    def _look(self) -> Observation:
        if self._step is None:
            raise PreconditionNotMet(f"the step {self._ended}; its values are gone")
        return self._step

    def _going_on(self) -> Observation:
        if self._ended:
            raise PreconditionNotMet(f"the step {self._ended}; begin another one")
        return self._look()

    def _require_device(self, device: int) -> None:
        count = self._look().graph.devices
        if not 0 <= device < count:
            raise InvalidArgument(f"there is no device {device} in this step; its devices are 0 to {count - 1}")

    def _run_of(self, node: Node) -> NodeRun:
        return describe(self._look(), node)


def _clipped(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]} …"


def describe(step: Observation, node: Node) -> NodeRun:
    """What there is to say about a node, with the shapes as far as they are known."""
    return NodeRun(
        step.numbers[node],
        node.type,
        node.places,
        tuple(_operand(step, value) for value in node.reads),
        tuple(_operand(step, value) for value in node.writes),
        role_text(node.role),
        node.site,
        step.graph.names(node.places),
    )


def _operand(step: Observation, value: Value) -> ShownOperand:
    content, spec = step.binding.current(value), step.binding.plan.shapes.specs[value]
    shape = getattr(content, "shape", spec.shape)
    dtype = as_dtype(content.dtype).name if isinstance(content, np.ndarray) else spec.dtype.name
    return ShownOperand(value.name, value.place, value.version, tuple(shape), dtype)
