"""UnifiedFleet: Paddle 2.x's `paddle.distributed.fleet`, in front of the fleets with and without servers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from workbench.errors import InvalidType, PreconditionNotMet
from workbench.executors.api.executor import Executor
from workbench.framework.program.guard import in_static_mode
from workbench.framework.program.program import Program
from workbench.framework.program.variable import Variable
from workbench.parallel.data_parallel.layer import DataParallel
from workbench.parallel.fleet.base import Folder
from workbench.parallel.fleet.collective.fleet import CollectiveFleet
from workbench.parallel.fleet.collective.strategy import CollectiveStrategy
from workbench.parallel.fleet.server.fleet import ServerFleet
from workbench.parallel.fleet.server.strategies import ServerFleetStrategy, StrategyFactory
from workbench.parallel.fleet.strategy import FleetStrategy
from workbench.parallel.groups.group import init_parallel_env
from workbench.parallel.roles.base import RoleMakerBase
from workbench.parallel.roles.cloud import PaddleCloudRoleMaker
from workbench.parallel.roles.user_defined import UserDefinedCollectiveRoleMaker
from workbench.runtime.standing import standing

ALONE = "127.0.0.1:6170"

# Which fields of a strategy count where; those that do nowhere are told, or refused, in any case.
_IN_PROGRAMS = frozenset((
    "amp", "amp_configs", "recompute", "recompute_configs", "localsgd", "localsgd_configs", "sync_batch_norm",
    "fuse_all_reduce_ops", "build_strategy", "execution_strategy",
))  # fmt: skip
_WITH_SERVERS = frozenset(("a_sync", "a_sync_configs"))
_IN_DYNAMIC_MODE = frozenset(("find_unused_parameters", "fuse_grad_size_in_MB", "last_comm_group_size_MB"))


class UnifiedFleet:
    """The fleet this process is in, as 2.x's module `fleet` offers it.

    Attributes:
        main_program, startup_program: see `FleetBase`; a trainer may also run the default programs, which are
            rewritten in place.

    Example:
        >>> from workbench.distributed import fleet
        >>> wb.enable_static()
        >>> fleet.init(is_collective=True)
        >>> loss = wb.mean(static.nn.fc(static.data("x", [None, 4]), 2))
        >>> optimizer = fleet.distributed_optimizer(wb.optimizer.SGD(0.1))
        >>> ops, pairs = optimizer.minimize(loss)
        >>> fleet.worker_num()
        1
    """

    def __init__(self) -> None:
        self._inner: CollectiveFleet | ServerFleet | None = None
        self._strategy = FleetStrategy()
        self._is_collective = False

    def init(
        self,
        role_maker: RoleMakerBase | None = None,
        is_collective: bool = False,
        strategy: FleetStrategy | None = None,
    ) -> UnifiedFleet:
        """Take part; in dynamic mode connect the processes, too.

        Args:
            role_maker: who says which process this is; what `workbench launch` has set if None.
            is_collective: a fleet without servers. strategy: how processes work together.

        Raises:
            InvalidType: no role maker, no strategy. Others: as the role maker raises.
        """
        if strategy is not None and not isinstance(strategy, FleetStrategy):
            raise InvalidType(f"fleet.init takes a fleet.DistributedStrategy as strategy, got {strategy!r}")
        chosen = (strategy or FleetStrategy()).checked()
        if role_maker is None:
            role_maker = _usual(is_collective)
        collective = is_collective or _is_collective(role_maker)
        inner: CollectiveFleet | ServerFleet = CollectiveFleet() if collective else ServerFleet()
        inner.init(role_maker)
        self._inner, self._is_collective, self._strategy = inner, collective, chosen
        if collective and not in_static_mode() and inner.worker_num() > 1:
            init_parallel_env()
        return self

    @property
    def _fleet(self) -> Any:
        if self._inner is None:
            raise PreconditionNotMet("call fleet.init(is_collective=True), or fleet.init() with servers, first")
        return self._inner

    def is_first_worker(self) -> bool:
        """Whether this process is trainer 0."""
        return bool(self._fleet.is_first_worker())

    def worker_index(self) -> int:
        """Which trainer this is."""
        return int(self._fleet.worker_index())

    def worker_num(self) -> int:
        """How many trainers there are."""
        return int(self._fleet.worker_num())

    def is_worker(self) -> bool:
        """Whether this process trains."""
        return bool(self._fleet.is_worker())

    def worker_endpoints(self, to_string: bool = False) -> Any:
        """`ip:port` of all trainers; with commas between if `to_string`."""
        return self._fleet.worker_endpoints(to_string)

    def server_num(self) -> int:
        """How many servers there are."""
        return int(self._fleet.server_num())

    def server_index(self) -> int:
        """Which server this is."""
        return int(self._fleet.server_index())

    def server_endpoints(self, to_string: bool = False) -> Any:
        """`ip:port` of all servers; with commas between if `to_string`."""
        return self._fleet.server_endpoints(to_string)

    def is_server(self) -> bool:
        """Whether this process is a parameter server."""
        return bool(self._fleet.is_server())

    def barrier_worker(self) -> None:
        """Return when all trainers are here."""
        self._fleet.barrier_worker()

    def init_worker(self) -> None:
        """Begin as a trainer of a fleet with servers."""
        self._fleet.init_worker()

    def init_server(self, model_dir: Folder | None = None) -> None:
        """Begin as a server; see `ServerFleet.init_server`."""
        self._fleet.init_server(model_dir)

    def run_server(self) -> None:
        """Serve until all trainers have left."""
        self._fleet.run_server()

    def stop_worker(self) -> None:
        """Leave a fleet with servers."""
        self._fleet.stop_worker()

    def save_persistables(self, executor: Executor, dirname: Folder, main_program: Program | None = None) -> None:
        """Write parameters, accumulators and learning rate, a file each."""
        self._fleet.save_persistables(executor, dirname, main_program)

    def save_inference_model(
        self,
        executor: Executor,
        dirname: Folder,
        feeded_var_names: Sequence[str],
        target_vars: Sequence[Variable],
        main_program: Program | None = None,
        export_for_deployment: bool = True,
    ) -> None:
        """Write what computes `target_vars`: `__model__` and the parameters that takes."""
        self._fleet.save_inference_model(
            executor, dirname, feeded_var_names, target_vars, main_program, export_for_deployment
        )

    @property
    def main_program(self) -> Any:
        """What this process runs, once an optimizer of the fleet has made it."""
        return self._fleet.main_program

    @property
    def startup_program(self) -> Program | None:
        """What goes before it."""
        startup: Program | None = self._fleet.startup_program
        return startup

    def distributed_optimizer(self, optimizer: Any, strategy: FleetStrategy | None = None) -> UnifiedOptimizer:
        """An optimizer of this fleet: `minimize` rewrites programs; in dynamic mode it is the optimizer itself.

        Raises:
            InvalidType: another kind of strategy. Unimplemented: a field that nothing here does.
        """
        if strategy is not None and not isinstance(strategy, FleetStrategy):
            raise InvalidType(f"distributed_optimizer takes a fleet.DistributedStrategy, got {strategy!r}")
        chosen = self._strategy if strategy is None else strategy.checked()
        distributed = UnifiedOptimizer(optimizer, chosen, self._fleet)
        if not in_static_mode():
            self._strategy = chosen  # distributed_model, which is called with none, goes by it
        return distributed

    def distributed_model(self, model: Any) -> Any:
        """A layer of dynamic mode whose gradients are averaged over the trainers; the layer itself if there is one.

        Raises:
            PreconditionNotMet: before `init`.
        """
        chosen = self._strategy
        chosen.tell_unused("in dynamic mode", _IN_DYNAMIC_MODE)
        if self._fleet.worker_num() == 1:
            return model
        return DataParallel(
            model,
            comm_buffer_size=chosen.fuse_grad_size_in_MB,
            last_comm_buffer_size=chosen.last_comm_group_size_MB,
            find_unused_parameters=chosen.find_unused_parameters,
        )


class UnifiedOptimizer:
    """What `distributed_optimizer` of 2.x gives; everything but `minimize` of programs is the optimizer's own."""

    def __init__(self, optimizer: Any, strategy: FleetStrategy, fleet: CollectiveFleet | ServerFleet) -> None:
        self._inner, self._strategy, self._fleet = optimizer, strategy, fleet

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def minimize(
        self,
        loss: Any,
        startup_program: Program | None = None,
        parameters: Sequence[Any] | None = None,
        no_grad_set: set[Any] | None = None,
    ) -> Any:
        """Append gradient and update operators, and rewrite the program for this process."""
        if not isinstance(loss, Variable):
            return self._inner.minimize(loss, startup_program, parameters, no_grad_set)
        strategy: Any = self._collective() if isinstance(self._fleet, CollectiveFleet) else self._with_servers()
        optimizer = self._fleet.distributed_optimizer(self._inner, strategy)
        return optimizer.minimize(loss, startup_program, parameters, no_grad_set)

    def _collective(self) -> CollectiveStrategy:
        given, collective = self._strategy, CollectiveStrategy()
        given.tell_unused("in programs of a fleet without servers", _IN_PROGRAMS)
        if given.build_strategy is not None:
            collective._give(given.build_strategy._given)
        if given.execution_strategy is not None:
            collective.exec_strategy = given.execution_strategy
        for name in ("sync_batch_norm", "fuse_all_reduce_ops"):
            if given.is_set(name):
                setattr(collective, name, getattr(given, name))
        collective.forward_recompute = given.recompute
        collective.recompute_checkpoints = tuple(given.recompute_configs["checkpoints"])
        collective.use_amp, collective.amp_loss_scaling = given.amp, given.amp_configs["init_loss_scaling"]
        collective._precision = given.amp_configs
        collective.use_local_sgd = given.localsgd
        if self._fleet.worker_num() > 1 and not given.localsgd:
            collective.mode, collective.collective_mode = "collective", "grad_allreduce"
        return collective

    def _with_servers(self) -> ServerFleetStrategy:
        self._strategy.tell_unused("in a fleet with servers", _WITH_SERVERS)
        if not self._strategy.a_sync:
            return StrategyFactory.create_sync_strategy()
        steps = self._strategy.a_sync_configs["k_steps"]
        return StrategyFactory.create_geo_strategy(steps) if steps > 0 else StrategyFactory.create_async_strategy()


def _usual(is_collective: bool) -> RoleMakerBase:
    """The role maker of a process of which nobody says more: by variables; alone if there are none."""
    if is_collective and "PADDLE_TRAINER_ENDPOINTS" not in os.environ and standing().size == 1:
        return UserDefinedCollectiveRoleMaker(0, [ALONE])
    return PaddleCloudRoleMaker(is_collective)


def _is_collective(role_maker: Any) -> bool:
    """Whether a role maker is of a fleet without servers."""
    if isinstance(role_maker, PaddleCloudRoleMaker):
        return role_maker._is_collective
    return isinstance(role_maker, UserDefinedCollectiveRoleMaker)


fleet = UnifiedFleet()
"""The fleet this process is in."""

barrier_worker = fleet.barrier_worker
distributed_model = fleet.distributed_model
distributed_optimizer = fleet.distributed_optimizer
init = fleet.init
init_server = fleet.init_server
init_worker = fleet.init_worker
is_first_worker = fleet.is_first_worker
is_server = fleet.is_server
is_worker = fleet.is_worker
run_server = fleet.run_server
save_inference_model = fleet.save_inference_model
save_persistables = fleet.save_persistables
server_endpoints = fleet.server_endpoints
server_index = fleet.server_index
server_num = fleet.server_num
stop_worker = fleet.stop_worker
worker_endpoints = fleet.worker_endpoints
worker_index = fleet.worker_index
worker_num = fleet.worker_num
