"""ServerFleet: trainers that compute gradients, and servers that keep the parameters."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.checkpoint import model_folder
from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet, one_of
from workbench.executors.api.executor import Executor
from workbench.framework.names import GRAD_SUFFIX
from workbench.framework.notice import tell
from workbench.framework.program.program import Program
from workbench.framework.program.variable import Variable
from workbench.parallel.fleet.base import FleetBase, Folder, require_unwrapped
from workbench.parallel.fleet.server.optimizer import ServerFleetOptimizer
from workbench.parallel.fleet.server.strategies import ServerFleetStrategy
from workbench.parallel.transpiler.distribute_transpiler import DistributeTranspiler, OwnBlock
from workbench.parallel.transpiler.mark import MARK
from workbench.runtime.scope import Scope, global_scope, scope_guard


class NotPrepared(PreconditionNotMet, ValueError):
    """Something of a fleet comes before its turn; Paddle raises ValueError."""


class ServerFleet(FleetBase):
    """A fleet with parameter servers: 1.x's `FleetTranspiler`; `fleet` is the one of this process.

    A program for it, the same in all processes:

        fleet.init(role_maker.PaddleCloudRoleMaker())
        fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), StrategyFactory.create_sync_strategy()).minimize(loss)
        if fleet.is_server():
            fleet.init_server()
            fleet.run_server()              # until all trainers have left
        else:
            fleet.init_worker()
            executor.run(fleet.startup_program)
            executor.run(fleet.main_program, feed=…)
            fleet.stop_worker()
    """

    def __init__(self) -> None:
        super().__init__()
        self._origin_program: Program | None = None
        self._transpiler: DistributeTranspiler | None = None

    def distributed_optimizer(self, optimizer: Any, strategy: Any = None) -> ServerFleetOptimizer:
        """An optimizer whose `minimize` makes `fleet.main_program` and `fleet.startup_program`.

        Args:
            strategy: of `StrategyFactory`, or a `DistributeTranspilerConfig`; synchronous if None.

        Raises:
            NotPrepared (a ValueError): before `init`. InvalidType: no optimizer, another kind of strategy.
        """
        if self._role_maker is None:
            raise NotPrepared("call fleet.init(role_maker) before distributed_optimizer; it says which process this is")
        self._optimizer = ServerFleetOptimizer(optimizer, strategy, self)
        return self._optimizer

    def _transpile(self, strategy: ServerFleetStrategy, main: Program, startup: Program) -> None:
        """Make this process's programs of a program for one."""
        strategy.get_trainer_runtime_config().apply()
        origin = main.clone()
        transpiler = DistributeTranspiler(strategy.get_program_config())
        transpiler.transpile(
            trainer_id=self.worker_index() if self.is_worker() else 0,
            program=main,
            pservers=str(self.server_endpoints(to_string=True)),
            trainers=self.worker_num(),
            sync_mode=strategy.get_program_config().sync_mode,
            startup_program=startup,
        )
        self._origin_program, self._transpiler = origin, transpiler
        if self.is_worker():
            self.main_program, self.startup_program = transpiler.get_trainer_program(wait_port=False), startup
            return
        own = self.server_endpoints()[self.server_index()]
        self.main_program, self.startup_program = transpiler.get_pserver_programs(own)

    # F-13

    def init_worker(self) -> None:
        """Begin as a trainer: wait until the servers can be reached.

        Raises:
            NotPrepared (a ValueError): before `minimize`. ExecutionTimeout: a server cannot be reached.
        """
        self._prepared("init_worker").get_trainer_program(wait_port=True)

    def init_server(self, model_dir: Folder | None = None) -> None:
        """Begin as a server: make the parameters, and load those that were saved.

        Args:
            model_dir: a folder that `save_persistables` of a fleet has written, with however many servers: of a
                parameter cut into blocks each of them takes its own rows. What is not in it, such as accumulators that
                only servers have, begins anew, with a notice.

        Raises:
            NotPrepared (a ValueError): before `minimize`. InvalidArgument: there is no such folder.
        """
        self._prepared("init_server")
        executor = self._own_executor
        executor.run(self.startup_program)
        if not model_dir:
            return
        if not os.path.isdir(model_dir):
            raise InvalidArgument(f"init_server: there is no folder {os.fspath(model_dir)!r}")
        self._load(executor, model_dir)

    def _load(self, executor: Executor, folder: Folder) -> None:
        """The variables of this server there are files of; the others stay as the startup program has made them."""
        held = {v.name for v in self.main_program.persistables() if _is_held(v) and GRAD_SUFFIX not in v.name}
        files = set(os.listdir(folder))
        own = self.server_endpoints()[self.server_index()]
        blocks = [block for block in self._prepared("init_server")._blocks_at(own) if block.parameter in files]
        rest = held.difference(files, [block.name for block in blocks])
        if rest:
            tell(f"init_server: {os.fspath(folder)!r} has no values of {one_of(rest)}; they begin anew")
        model_folder.load_vars(executor, folder, self.main_program, vars=sorted(held & files))
        self._load_blocks(executor, folder, [block for block in blocks if block.name not in files])

    def _load_blocks(self, executor: Executor, folder: Folder, blocks: Sequence[OwnBlock]) -> None:
        """The rows that this server has of parameters whose files hold them whole."""
        aside = Scope()
        with scope_guard(aside):
            whole = sorted({block.parameter for block in blocks})
            model_folder.load_vars(executor, folder, self._origin_program, vars=whole)
        for block in blocks:
            variable = aside.find_var(block.parameter)
            assert variable is not None
            rows = variable.tensor.array[block.start : block.stop]
            global_scope().var(block.name).get_tensor().set(np.ascontiguousarray(rows))

    def run_server(self) -> None:
        """Serve until all trainers have left.

        Raises:
            NotPrepared (a ValueError): before `minimize`.
        """
        self._prepared("run_server")
        self._own_executor.run(self.main_program)
        self._roles._finalize()

    def stop_worker(self) -> None:
        """Leave: the servers end when all trainers have."""
        self._own_executor.close()  # servers end by this, and take leave of the meeting after it
        self._roles._finalize()

    @property
    def _own_executor(self) -> Executor:
        if self._executor is None:
            raise NotPrepared("call fleet.init(role_maker) first; it says which process this is")
        return self._executor

    def _prepared(self, method: str) -> DistributeTranspiler:
        if self._transpiler is None:
            raise NotPrepared(f"call distributed_optimizer(…).minimize(loss) before fleet.{method}()")
        return self._transpiler

    # F-14

    def save_persistables(self, executor: Executor, dirname: Folder, main_program: Program | None = None) -> None:
        """Write parameters, accumulators and learning rate, as this process has them: a file each.

        Raises:
            InvalidType: a ParallelExecutor or CompiledProgram. InvalidArgument: a program that is not of this fleet.
        """
        if not isinstance(executor, Executor) or (main_program is not None and not isinstance(main_program, Program)):
            raise InvalidType(f"a fleet saves by an Executor, and a Program, got {executor!r} and {main_program!r}")
        program = self.main_program if main_program is None else main_program
        if program is None or (MARK not in program.attributes and program is not self.main_program):
            raise InvalidArgument("save_persistables saves a program of this fleet: distributed_optimizer(…).minimize")
        model_folder.save_vars(executor, dirname, program, predicate=_is_held)

    def save_inference_model(
        self,
        executor: Executor,
        dirname: Folder,
        feeded_var_names: Sequence[str],
        target_vars: Sequence[Variable],
        main_program: Program | None = None,
        export_for_deployment: bool = True,
    ) -> None:
        """Write what computes `target_vars`: `__model__` and the parameters that takes.

        Raises:
            InvalidType: a ParallelExecutor or CompiledProgram. NotPrepared (a ValueError): before `minimize`.
        """
        require_unwrapped(executor, main_program)
        self._prepared("save_inference_model")
        model_folder.save_inference_model(
            dirname, feeded_var_names, target_vars, executor, main_program or self._origin_program, None, None,
            export_for_deployment,
        )  # fmt: skip


def _is_held(variable: Variable) -> bool:
    """Whether a variable has a value to save: not what only stands for communicators."""
    return variable.persistable and variable.kind != "raw"


fleet = ServerFleet()
"""The fleet with parameter servers this process is in."""
