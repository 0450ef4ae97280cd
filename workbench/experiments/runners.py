"""What runs the steps of a training loop: an Executor, or a program on several devices behind the same call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeAlias

from workbench.config import get_flag
from workbench.errors import InvalidArgument, InvalidType, described
from workbench.executors.api.compiled import CompiledProgram
from workbench.executors.api.executor import Executor
from workbench.executors.api.parallel import ParallelExecutor
from workbench.executors.running.watching.moment import Guard
from workbench.framework.program.program import Program
from workbench.graph.loss import loss_of
from workbench.jit.recorded_step import RecordedStep
from workbench.parallel.cluster.cluster import Cluster
from workbench.parallel.cluster.trained import ClusterExecutor
from workbench.runtime.devices import cpu_places
from workbench.runtime.storage.scope import Scope, global_scope

Inspectable: TypeAlias = ParallelExecutor | CompiledProgram | RecordedStep


class Runner(Protocol):
    """What `train` needs of an executor."""

    def run(self, program: Any, *, feed: Any, fetch_list: Any, scope: Any) -> list[Any]: ...


class OnDevices:
    """A ParallelExecutor or a CompiledProgram as a Runner: its program runs on its devices, any other on one.

    Attributes:
        kind: the class of what `train` was told to run it on.
    """

    def __init__(self, executor: ParallelExecutor | CompiledProgram, program: Program, kind: str = "") -> None:
        own = executor.inspection.program
        if own.origin != program.origin:
            kind = type(executor).__name__
            raise InvalidArgument(f"train was given a {kind} of another program, {own!r}, than {program!r}")
        self.executor, self._program, self._other = executor, program, Executor()
        self.kind = kind or type(executor).__name__

    @property
    def device_count(self) -> int:
        """How many devices a batch is split over."""
        return len(self.executor.inspection.places)

    def run(self, program: Any, *, feed: Any, fetch_list: Any, scope: Any) -> list[Any]:
        if program is self._program:
            return self.executor.run_step(feed, fetch_list)
        return self._other.run(program, feed=feed, fetch_list=fetch_list, scope=scope)


def on_devices(executor: Any, program: Program, devices: int, scope: Scope | None) -> CompiledProgram:
    """The program on so many CPU devices.

    Raises:
        InvalidArgument: no number of at least 1, or there is an executor, which has its own devices.
    """
    if executor is not None:
        raise InvalidArgument("train takes devices= or executor=, which has devices of its own; leave one out")
    if isinstance(devices, bool) or not isinstance(devices, int) or devices < 1:
        raise InvalidArgument(f"train takes a number >= 1 as devices, got {devices!r}")
    compiled = CompiledProgram(program).with_data_parallel(loss_of(program), places=cpu_places(devices))
    compiled.bind(scope or global_scope())
    return compiled


def on_cluster(executor: Any, program: Program, cluster: Any, devices: int | None = None) -> ClusterExecutor:
    """The program on the ranks of a cluster.

    Raises:
        InvalidType: no cluster. InvalidArgument: there is an executor, or a number of devices here.
    """
    if not isinstance(cluster, Cluster):
        raise InvalidType(f"train takes what wb.distributed.cluster(n) gives as cluster, got {described(cluster)}")
    if executor is not None or devices is not None:
        raise InvalidArgument(
            "train takes cluster=, executor= or devices=: each says where the steps run; give one of them. "
            "Devices of every rank: wb.distributed.cluster(n, devices=…)"
        )
    return ClusterExecutor(cluster, program)


def working(runner: Runner, scope: Scope) -> AbstractContextManager[None]:
    """Where the steps of a run are made: values that live elsewhere meanwhile are in the scope again behind it."""
    return runner.working(scope) if isinstance(runner, ClusterExecutor) else nullcontext()


def settle(runner: Runner, scope: Scope) -> None:
    """Have the scope hold what the steps so far have made of its values."""
    if isinstance(runner, ClusterExecutor):
        runner.settle(scope)


def runner_of(executor: Any, program: Program, scope: Scope | None) -> tuple[Runner, Scope]:
    """What runs the steps, and where; an Executor's program as the Executor has compiled it.

    Raises:
        InvalidType: no executor. InvalidArgument: one of another program, or another scope than its own.
    """
    if executor is None or type(executor) is Executor:  # a class of the user's own may run programs otherwise
        executor = Executor() if executor is None else executor
        scope = global_scope() if scope is None else scope
        if get_flag("FLAGS_executor") == "reference":
            return executor, scope
        return OnDevices(executor.compiled(program, scope), program, type(executor).__name__), scope
    if not isinstance(executor, ParallelExecutor | CompiledProgram):
        if not callable(getattr(executor, "run", None)):
            raise InvalidType(f"train takes what runs programs as executor, got {described(executor)}")
        return executor, global_scope() if scope is None else scope
    runner = OnDevices(executor, program)
    own = executor.inspection.scope
    if scope is not None and scope is not own:
        raise InvalidArgument(f"train takes no other scope than the one its {type(executor).__name__} was made with")
    return runner, own


def guarded(runner: Runner, guard: Guard) -> Callable[[], None] | None:
    """Have a guard called for the steps of a runner; see `Engine.guard`.

    Returns:
        what takes it away again; None if the runner has no such thing.
    """
    own = getattr(runner, "guard", None)
    if own is not None:
        return own(guard)
    executor = executor_of(runner)
    return None if executor is None else executor.inspection.guard(guard)


def executor_of(runner: Any) -> Inspectable | None:
    """What a runner, or what `train` takes as an executor, runs steps on; None of a runner of your own."""
    executor = getattr(runner, "executor", runner)
    return executor if isinstance(executor, ParallelExecutor | CompiledProgram | RecordedStep) else None
