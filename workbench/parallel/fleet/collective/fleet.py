"""CollectiveFleet: trainers that exchange gradients, or parameters, among themselves."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from workbench.checkpoint import model_folder
from workbench.errors import PreconditionNotMet
from workbench.executors.api.executor import Executor
from workbench.framework.notice import tell
from workbench.framework.program.program import Program
from workbench.framework.program.variable import Variable
from workbench.parallel.fleet.base import FleetBase, Folder, require_unwrapped
from workbench.parallel.fleet.collective import checkpoints
from workbench.parallel.fleet.collective.checkpoints import CACHE, TrainStatus, require_local
from workbench.parallel.fleet.collective.optimizer import CollectiveOptimizer
from workbench.parallel.fleet.collective.strategy import CollectiveStrategy


class CollectiveFleet(FleetBase):
    """A fleet without servers: 1.x's `Collective`; `fleet` is the one of this process.

    Example:
        >>> import workbench.fluid as fluid
        >>> from workbench.fluid.incubate.fleet.base.role_maker import UserDefinedCollectiveRoleMaker
        >>> from workbench.fluid.incubate.fleet.collective import fleet
        >>> fleet.init(UserDefinedCollectiveRoleMaker(0, ["127.0.0.1:6170"]))
        >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 4]), 2))
        >>> ops, pairs = fleet.distributed_optimizer(fluid.optimizer.SGD(0.1)).minimize(loss)
        >>> executor = fluid.Executor(fluid.CPUPlace())
        >>> started = executor.run(fleet.startup_program)
        >>> feed = {"x": np.ones((6, 4), np.float32)}
        >>> executor.run(fleet.main_program, feed=feed, fetch_list=[loss])[0].shape
        (1,)
    """

    def __init__(self) -> None:
        super().__init__()
        self._origin_program: Program | None = None
        self._transpiled_program: Program | None = None

    # F-1

    def init_worker(self) -> None:
        """Nothing: trainers without servers begin by themselves."""
        _not_for_collective("init_worker")

    def run_worker(self, main_programs: Any = None, scopes: Any = None) -> None:
        """Nothing: an executor runs the program."""
        _not_for_collective("run_worker")

    def init_server(self, model_dir: str | None = None) -> None:
        """Nothing: there are no servers."""
        _not_for_collective("init_server")

    def run_server(self) -> None:
        """Nothing: there are no servers."""
        _not_for_collective("run_server")

    def stop_worker(self) -> None:
        """Nothing: trainers without servers end by themselves."""
        _not_for_collective("stop_worker")

    # F-2

    def distributed_optimizer(self, optimizer: Any, strategy: CollectiveStrategy | None = None) -> CollectiveOptimizer:
        """An optimizer whose `minimize` makes `fleet.main_program`.

        Raises:
            InvalidType: no optimizer, another kind of strategy.
        """
        self._optimizer = CollectiveOptimizer(optimizer, strategy, self)
        return self._optimizer

    # F-6

    def save_persistables(
        self, executor: Executor, dirname: Folder, main_program: Program | None = None, filename: str | None = None
    ) -> None:
        """Write parameters, accumulators and learning rate: a file each, or all in `filename`.

        Args:
            main_program: that of before it was transpiled, unless given.

        Raises:
            InvalidForm: no Executor, no Program (Paddle asserts it). InvalidType: a compiled program.
        """
        require_unwrapped(executor, main_program)
        model_folder.save_persistables(executor, dirname, main_program or self._origin(), filename)

    def save_inference_model(
        self,
        executor: Executor,
        dirname: Folder,
        feeded_var_names: Sequence[str] | None = None,
        target_vars: Sequence[Variable] | None = None,
        main_program: Program | None = None,
        export_for_deployment: bool = True,
    ) -> None:
        """Write what computes `target_vars`: `__model__` and the parameters that takes; see `save_persistables`."""
        require_unwrapped(executor, main_program)
        program = main_program or self._origin()
        model_folder.save_inference_model(
            dirname, feeded_var_names or [], target_vars or [], executor, program, None, None, export_for_deployment
        )

    # Checkpoints

    def save_check_point(
        self,
        executor: Executor,
        path: Folder,
        train_status: TrainStatus,
        main_program: Program | None = None,
        fs: Any = None,
        local_cache_path: str = CACHE,
        remain_all_checkpoint: bool = True,
    ) -> None:
        """Write what is trained and how far that is, as one more checkpoint in a folder; trainer 0 does.

        Args:
            path: of the folder, made if it is not there. train_status: the last epoch that is over.
            main_program: that of before it was transpiled, unless given.
            fs, local_cache_path: of other file systems, which there are none of here.
            remain_all_checkpoint: keep those of before; else this one is the only one.

        Raises:
            InvalidForm: no Executor, no Program. InvalidType: a compiled program, no TrainStatus.
            Unimplemented: another file system. OSError: it cannot be written; those of before are still there then.

        Example:
            fleet.save_check_point(executor, "checkpoints", TrainStatus(epoch))
            ...
            status = fleet.load_check_point(executor, "checkpoints", trainer_id=fleet.worker_index()) or TrainStatus()
            for epoch in range(status.next(), 10):
                train()
        """
        require_unwrapped(executor, main_program)
        require_local("save_check_point", fs, local_cache_path)
        if not self.is_first_worker():
            return
        checkpoints.save(executor, path, train_status, main_program or self._origin())
        if not remain_all_checkpoint:
            checkpoints.clean(path, 1)

    def load_check_point(
        self,
        executor: Executor,
        path: Folder,
        trainer_id: int,
        main_program: Program | None = None,
        fs: Any = None,
        local_cache_path: str = CACHE,
        ignore_empty: bool = True,
    ) -> TrainStatus | None:
        """Put back the newest checkpoint of a folder; every trainer does. See `save_check_point`.

        Args:
            trainer_id: has no influence. ignore_empty: a folder without one is fine.

        Returns:
            how far the training was; None if there is no checkpoint.

        Raises:
            NoCheckpoint (an AssertionError): there is none, and `ignore_empty` is False.
            InvalidArgument: a damaged one, or one of another program; nothing was loaded then. Others: as there.
        """
        require_unwrapped(executor, main_program)
        require_local("load_check_point", fs, local_cache_path)
        status = checkpoints.load(executor, path, main_program or self._origin())
        if status is None and not ignore_empty:
            raise checkpoints.NoCheckpoint(f"load_check_point: there is no checkpoint in {os.fspath(path)!r}")
        return status

    def clean_redundant_check_points(self, root_path: Folder, fs: Any = None, checkpoint_num: int = 1) -> None:
        """Remove all checkpoints of a folder but the newest `checkpoint_num` ones, at least one.

        Raises:
            Unimplemented: another file system.
        """
        require_local("clean_redundant_check_points", fs, CACHE)
        checkpoints.clean(root_path, checkpoint_num)

    def _get_last_checkpoint_no(self, root_path: Folder, fs: Any = None) -> int:
        """The number of the newest checkpoint, -1 if there is none."""
        return max(checkpoints.checkpoint_numbers(root_path), default=-1)

    def _origin(self) -> Program:
        if self._origin_program is None:
            raise PreconditionNotMet("there is no program of this fleet yet: distributed_optimizer(…).minimize(loss)")
        return self._origin_program


def _not_for_collective(method: str) -> None:
    tell(f"fleet.{method}() does nothing: this fleet has no servers")


fleet = CollectiveFleet()
"""The collective fleet this process is in."""
