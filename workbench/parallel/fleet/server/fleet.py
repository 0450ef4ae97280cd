"""ServerFleet: trainers that compute gradients, and servers that keep the parameters."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workbench.checkpoint import model_folder
from workbench.checkpoint.inference_model import inference_program
from workbench.checkpoint.pieces import Extent, SavedVariables
from workbench.checkpoint.program_files import values_between_steps
from workbench.checkpoint.restore import Restore
from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet, one_of
from workbench.executors.api.executor import Executor
from workbench.framework.notice import tell
from workbench.framework.paths import path_text
from workbench.framework.program.program import Program
from workbench.framework.program.variable import Variable
from workbench.parallel.fleet.base import FleetBase, Folder, require_unwrapped
from workbench.parallel.fleet.server.communicator import TrainerCommunicator
from workbench.parallel.fleet.server.optimizer import ServerFleetOptimizer
from workbench.parallel.fleet.server.strategies import SYNC, ServerFleetStrategy
from workbench.parallel.servers.asking.cluster_folder import save_cluster
from workbench.parallel.servers.asking.exchange import ServerTables, Share
from workbench.parallel.servers.asking.links import settle_pushes
from workbench.parallel.transpiler.distribute_transpiler import DistributeTranspiler
from workbench.parallel.transpiler.mark import MARK
from workbench.parallel.transpiler.server_mode.rate import is_counter
from workbench.runtime.storage.scope import Scope, global_scope, scope_guard


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
        self._communicator: TrainerCommunicator | None = None

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
            mode = SYNC if strategy.get_program_config().enable_dc_asgd else strategy.mode
            self._communicator = TrainerCommunicator(self.main_program, mode)
            return
        own = self.server_endpoints()[self.server_index()]
        self.main_program, self.startup_program = transpiler.get_pserver_programs(own)

    # F-13

    def init_worker(self) -> None:
        """Begin as a trainer: wait until the servers can be reached; start the communicator (`TrainerCommunicator`).

        Raises:
            NotPrepared (a ValueError): before `minimize`. ExecutionTimeout: a server cannot be reached.
        """
        self._prepared("init_worker").get_trainer_program(wait_port=True)
        if self._communicator is not None:
            self._communicator.start()

    def init_server(self, model_dir: Folder | None = None) -> None:
        """Begin as a server: make the parameters, and load those that were saved.

        Args:
            model_dir: a folder that `save_persistables` of a fleet has written, with however many servers, or one with
                a file for each variable: of a parameter cut into blocks, and of its accumulators, each server takes
                its own rows. What is not in it begins anew, with a notice.

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
        self._load(model_dir)

    def _load(self, folder: Folder) -> None:
        """The variables of this server there are values of; the others stay as the startup program has made them."""
        saved = SavedVariables(Path(path_text(folder)))
        own = self._prepared("init_server")._held_at(self.server_endpoints()[self.server_index()])
        held = {v.name: v for v in self.main_program.persistables() if v.name in own}
        wanted = {name: own[name] if saved.has(own[name].variable) else Extent(name) for name in held}
        values = saved.read(wanted) | _counted(saved, [name for name in held if is_counter(name)])
        if rest := held.keys() - values.keys():
            tell(
                f"init_server: {os.fspath(folder)!r} has no values of {one_of(rest)}; "
                "they start as the startup program sets them"
            )
        restore = Restore(self.main_program, path_text(folder), values, {})
        restore.take(held[name] for name in values)
        restore.commit(global_scope())

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
        if self._communicator is not None:
            self._communicator.stop()
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
        """Write all that is kept from step to step: trainer 0 has every server write what it holds.

        These are parameters, tables that only servers have, accumulators, learning rates, and what trainers have by
        themselves, such as statistics of batches, of trainer 0. The folder, which all processes see, is replaced whole
        or not at all; Paddle writes a file for each variable. `init_server` reads it with however many servers,
        `fluid.io.load_persistables` into one process. Other trainers write nothing, with a notice; a server that does
        not serve yet writes a file for each variable it has.

        Raises:
            InvalidType: a ParallelExecutor or CompiledProgram. InvalidArgument: a program that is not of this fleet; a
                server does not see the folder. PeerFailed: a server is lost. OSError: somebody cannot write.
        """
        if not isinstance(executor, Executor) or (main_program is not None and not isinstance(main_program, Program)):
            raise InvalidType(f"a fleet saves by an Executor, and a Program, got {executor!r} and {main_program!r}")
        program = self.main_program if main_program is None else main_program
        if program is None or (MARK not in program.attributes and program is not self.main_program):
            raise InvalidArgument("save_persistables saves a program of this fleet: distributed_optimizer(…).minimize")
        if self.is_server():
            model_folder.save_vars(executor, dirname, program, predicate=_is_held)
        elif self.is_first_worker():
            self._save_cluster(Path(path_text(dirname)).absolute())
        else:
            tell("fleet.save_persistables: trainer 0 saves for all; other trainers have nothing to write")

    def _save_cluster(self, folder: Path) -> None:
        transpiler = self._prepared("save_persistables")
        held = {endpoint: transpiler._held_at(endpoint) for endpoint in self.server_endpoints()}
        own = values_between_steps(self._of_trainers(), global_scope())
        save_cluster(folder, held, own, self.worker_index(), transpiler._fingerprint)

    def _of_trainers(self) -> list[Variable]:
        """What trainers keep, and no server does."""
        transpiler, origin = self._prepared("save_persistables"), self._origin_program
        assert origin is not None
        ends = self.server_endpoints()
        served = {extent.variable for endpoint in ends for extent in transpiler._held_at(endpoint).values()}
        kept = [variable for variable in origin.persistables() if _is_held(variable) and variable.name not in served]
        return list({variable.name: variable for variable in kept}.values())

    def load_persistables(self, executor: Executor, dirname: Folder, main_program: Program | None = None) -> None:
        """Put back what `save_persistables` wrote and this process keeps, all or nothing.

        A server takes its part, as `init_server` does; a trainer what only trainers have, such as statistics of
        batches: its startup program takes the rest from the servers.

        Args:
            main_program: accepted beside that of `save_persistables`.

        Raises:
            NotPrepared (a ValueError): before `minimize`. InvalidArgument: a missing or damaged file, another shape.
        """
        require_unwrapped(executor, main_program)
        self._prepared("load_persistables")
        if self.is_server():
            self._load(dirname)
        else:
            model_folder.load_vars(executor, dirname, self._origin_program, vars=self._of_trainers())

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

        With a table that only servers have, all parameters are pulled from them, so they have to be at work; else the
        values are this trainer's.

        Raises:
            InvalidType: a ParallelExecutor or CompiledProgram. NotPrepared (a ValueError): before `minimize`.
            PeerFailed: a server is lost.
        """
        require_unwrapped(executor, main_program)
        self._prepared("save_inference_model")
        program = self._origin_program if main_program is None else main_program
        assert program is not None
        held = Scope(global_scope())  # which does not know of it, and keeps nothing
        names, targets = model_folder.as_list(feeded_var_names), model_folder.as_list(target_vars)
        if self.is_worker() and all(isinstance(target, Variable) for target in targets):
            self._pull_parameters(inference_program(program, names, [target.name for target in targets]), held)
        with scope_guard(held):
            model_folder.save_inference_model(
                dirname, feeded_var_names, target_vars, executor, program, None, None, export_for_deployment
            )

    def _pull_parameters(self, program: Program, scope: Scope) -> None:
        """Where a program reads a table that only servers have: have it, and all that servers update, in a scope."""
        layout = self._prepared("save_inference_model")._require_layout()
        read = [one for one in layout.served if one.name in program.global_block().vars]
        if not any(one.is_table for one in read):
            return
        settle_pushes()
        for one in read:
            shares = [Share(s.parameter, s.endpoint, s.block.start, s.block.stop) for s in one.shards]
            whole = ServerTables().pull_whole(shares, one.shape, layout.trainer)
            scope.var(one.name).get_tensor().set(whole)


def _is_held(variable: Variable) -> bool:
    """Whether a variable has a value to save: not what only stands for communicators."""
    return variable.persistable and variable.kind != "raw"


def _counted(saved: SavedVariables, counters: Sequence[str]) -> dict[str, np.ndarray]:
    """Counters of steps with the sum that was saved, from which schedules go on, however many trainers count now."""
    before = saved.read({name: Extent(name) for name in saved.in_pieces() if is_counter(name)})
    if not before or not counters:
        return {}
    first = sum(int(steps.sum()) for steps in before.values()) - (len(counters) - 1)
    return {name: np.array([1 if place else first], np.int64) for place, name in enumerate(counters)}


fleet = ServerFleet()
"""The fleet with parameter servers this process is in."""
