"""ParallelExecutor: a program on several devices (rules X-0 … X-61)."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidType
from workbench.executors.execution_strategy import ExecutionStrategy
from workbench.executors.feeding.feed import Feed
from workbench.executors.inspection.debugging import Debugging
from workbench.executors.running.engine.engine import Engine
from workbench.executors.running.engine.pruned import needed
from workbench.executors.running.spec import EngineSpec, snapshot
from workbench.framework.program.guard import default_main_program
from workbench.framework.program.program import Program
from workbench.graph.loss import check_loss
from workbench.graph.strategy import BuildStrategy
from workbench.runtime.devices import discover
from workbench.runtime.storage.scope import Scope, global_scope


class ParallelExecutor(Debugging):
    """Runs a program on several devices at once, each on its part of the batch.

    Every device computes the gradients of its part; they are summed over the devices before the update, so that all
    devices make the same step. The loss gradient of each is scaled by 1/N, hence the sum is a mean.

    Args:
        use_cuda: run on GPUs; False runs on `CPU_NUM` CPU workers.
        loss_name: the loss the program trains; needed if it has a backward pass.
        main_program: the default main program if None. It is copied: later changes have no effect.
        share_vars_from: an executor that has run, whose devices' variables this one uses; `scope` is then ignored.
        exec_strategy: threads, drop interval, rule for splitting feeds.
        build_strategy: AllReduce or Reduce, gradient scale, fusion.
        num_trainers, trainer_id: how many processes train together, and which one this is; they are started by
            `workbench launch` or `mpiexec`. They begin with the values of trainer 0, gradients are summed over the
            devices of all of them, and a step applies on all or on none. Feeds and fetches are each process's own.
        scope: where the variables of device 0 live; `global_scope()` if None.

    Raises:
        InvalidArgument: loss_name is missing or unknown. InvalidType: an argument of another type.
        Unavailable: `use_cuda` and there is no usable GPU; names what is missing.

    Example:
        >>> wb.enable_static()
        >>> main, startup = static.Program(), static.Program()
        >>> with static.program_guard(main, startup):
        ...     loss = wb.mean(static.nn.fc(static.data("x", [None, 4]), 2))
        ...     ops, pairs = wb.optimizer.SGD(0.1).minimize(loss)
        >>> none = static.Executor().run(startup)
        >>> executor = static.ParallelExecutor(use_cuda=False, loss_name=loss.name, main_program=main)
        >>> (losses,) = executor.run([loss], feed={"x": np.ones((6, 4), np.float32)})
        >>> losses.shape == (executor.device_count,)
        True
    """

    def __init__(
        self,
        use_cuda: bool,
        loss_name: str | None = None,
        main_program: Program | None = None,
        share_vars_from: ParallelExecutor | None = None,
        exec_strategy: ExecutionStrategy | None = None,
        build_strategy: BuildStrategy | None = None,
        num_trainers: int = 1,
        trainer_id: int = 0,
        scope: Scope | None = None,
    ) -> None:
        program = default_main_program() if main_program is None else main_program
        _require(program, Program, "main_program")
        execution = ExecutionStrategy() if exec_strategy is None else exec_strategy
        build = BuildStrategy() if build_strategy is None else build_strategy
        _require(execution, ExecutionStrategy, "exec_strategy")
        _require(build, BuildStrategy, "build_strategy")
        if share_vars_from is not None and not isinstance(share_vars_from, ParallelExecutor):
            raise NotAnExecutor(f"share_vars_from takes a ParallelExecutor, got {share_vars_from!r}")
        if scope is not None:
            _require(scope, Scope, "scope")
        if build_strategy is None:
            build.num_trainers, build.trainer_id = num_trainers, trainer_id
        elif num_trainers != 1 or trainer_id != 0:
            build.set_trainers(num_trainers, trainer_id)
        check_loss(program, loss_name)
        self._engine: Engine = Engine(
            EngineSpec(snapshot(program), tuple(discover(use_cuda)), loss_name, build, execution),
            global_scope() if scope is None else scope,
            share_vars_from._engine if share_vars_from is not None else None,
        )

    def run(self, fetch_list: Any, feed: Feed = None, feed_dict: Any = None, return_numpy: bool = True) -> list[Any]:
        """Run every operator of the program once on every device; the step applies whole or not at all.

        Args:
            fetch_list: Variables or names; [] runs the step and returns []. What `minimize` returns may be in it and
                has no result; with some of the updates only, just they and what they need is run.
            feed: a dict of arrays, split over the devices along dimension 0, or a list with one dict per device.
            feed_dict: not used any more; accepted and ignored, as in Paddle.
            return_numpy: ndarrays, else LoDTensors; both are copies.

        Returns:
            per fetched variable the devices' values, joined along dimension 0 (a loss of shape [1] on N devices
            gives shape [N]; take the mean yourself).

        Raises:
            PeerFailed: another trainer failed, which is named with its error; the step applies on none of them.
            PeerTimeout: one did not come within `ExecutionStrategy.timeout`.
            EnforceNotMet: or a subclass, naming the feed, variable or operator, the device and the line.
        """
        engine, names = needed(self._engine, feed, fetch_list)
        return engine.run(feed, names, return_numpy)

    def drop_local_exe_scopes(self) -> None:
        """Give the memory of temporaries back at once; waits for a step of another thread.

        Raises:
            InvalidType: before the first run. Unavailable: another thread does not come to the end of its step.
        """
        if not self._engine.started:
            raise InvalidType("drop_local_exe_scopes() has nothing to drop before the first run")
        self._engine.drop()

    @property
    def program(self) -> Program:
        """The copy that runs."""
        return self._engine.program

    @property
    def scope(self) -> Scope:
        """Where the variables of device 0 live."""
        return self._engine.scope

    @property
    def device_count(self) -> int:
        """How many devices the program runs on."""
        return len(self._engine.places)

    def local_scope(self, device: int) -> Any:
        """What a device sees: its persistable variables, and the temporaries of its last step.

        Raises:
            InvalidArgument: there is no such device.
        """
        return self._engine.local_scope(device)

    def _to_debug(self) -> Engine:
        return self._engine

    def __repr__(self) -> str:
        return f"ParallelExecutor({self._engine.program!r} on {', '.join(map(str, self._engine.places))})"


class NotAnExecutor(InvalidType, AssertionError):
    """Paddle asserts it (X-5)."""


def _require(value: Any, kind: type, name: str) -> None:
    if not isinstance(value, kind):
        raise InvalidType(f"{name} takes a {kind.__name__}, got {value!r}")
