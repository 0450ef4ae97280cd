"""CollectiveOptimizer: from a program for one trainer to what a trainer of a fleet runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

from workbench.errors import InvalidForm, InvalidType, Unimplemented
from workbench.executors.api.compiled import CompiledProgram
from workbench.framework.notice import tell
from workbench.framework.program.guard import default_startup_program
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.undo import restored_on_error
from workbench.framework.program.variable import Variable
from workbench.graph.loss import SCALED_LOSSES, loss_of
from workbench.graph.strategy import BuildStrategy
from workbench.optimizer.checks import Pairs
from workbench.optimizer.recompute import RecomputeOptimizer
from workbench.optimizer.rules.lamb import Lamb
from workbench.parallel.fleet.base import DistributedOptimizer
from workbench.parallel.fleet.collective.strategy import CollectiveStrategy
from workbench.parallel.transpiler.config import DistributeTranspilerConfig
from workbench.parallel.transpiler.distribute_transpiler import DistributeTranspiler
from workbench.precision.program import AutoMixedPrecisionLists, decorate

WAITS = "FLAGS_sync_nccl_allreduce"


class CollectiveTrainer(Protocol):
    """What an optimizer has to know of its fleet, and what it leaves there."""

    main_program: Any
    startup_program: Program | None
    _origin_program: Program | None
    _transpiled_program: Program | None

    def worker_num(self) -> int:
        """How many trainers there are."""

    def worker_index(self) -> int:
        """Which of them this is."""

    def worker_endpoints(self, to_string: bool = False) -> list[str] | str:
        """`ip:port` of all of them."""


class CollectiveOptimizer(DistributedOptimizer):
    """An optimizer whose `minimize` makes of a program what a trainer of a collective fleet runs.

    Args:
        optimizer: what updates the parameters. strategy: how trainers work together.
        fleet: that this process is in.

    Raises:
        InvalidType: no optimizer, another kind of strategy.
    """

    def __init__(self, optimizer: Any, strategy: CollectiveStrategy | None, fleet: CollectiveTrainer) -> None:
        super().__init__(optimizer, CollectiveStrategy() if strategy is None else strategy)
        if not isinstance(self._strategy, CollectiveStrategy):
            raise InvalidType(f"a collective fleet takes its own DistributedStrategy, got {strategy!r}")
        self._fleet = fleet

    def minimize(
        self,
        loss: Any,
        startup_program: Program | None = None,
        parameter_list: Sequence[Any] | None = None,
        no_grad_set: set[Any] | None = None,
    ) -> tuple[list[Operator], Pairs]:
        """Append gradient and update operators; `fleet.main_program` is then what this trainer runs.

        Returns:
            the update operators and the (parameter, gradient) pairs, as the optimizer itself gives them.

        Raises:
            InvalidForm: settings that exclude each other, recomputing without checkpoints. InvalidType: no loss.
        """
        if not isinstance(loss, Variable):
            raise InvalidType(f"minimize takes the loss, a Variable, got {loss!r}")
        strategy = self._strategy
        _check_conflicts(strategy, self._updating)
        main = loss.block.program
        startup = default_startup_program() if startup_program is None else startup_program
        fleet = self._fleet
        with self._updating._all_or_nothing(main, startup), restored_on_error(main, startup):
            result: tuple[list[Operator], Pairs] = self._wrapped().minimize(loss, startup, parameter_list, no_grad_set)
            origin = main.clone()
            compiled = self._try_to_compile(startup, main)
        fleet._origin_program, fleet._transpiled_program = origin, main
        fleet.startup_program, fleet.main_program = startup, compiled
        return result

    def _wrapped(self) -> Any:
        """The optimizer, with recomputing inside mixed precision where the strategy says so."""
        strategy, optimizer = self._strategy, self._optimizer
        if strategy.forward_recompute:
            optimizer = RecomputeOptimizer(optimizer)
            optimizer._set_checkpoints(list(strategy.recompute_checkpoints))
        if strategy.use_amp:
            optimizer = _in_half_precision(optimizer, strategy)
        return optimizer

    def _try_to_compile(self, startup_program: Program, main_program: Program) -> Program | CompiledProgram:
        """Transpile, and compile for several devices where the executor exchanges gradients."""
        strategy, fleet = self._strategy, self._fleet
        if strategy.mode == "collective":
            _tell_idle(strategy)
        _settle_communicators(strategy, fleet.worker_num())
        self._transpile(startup_program, main_program)
        if strategy.mode == "collective":
            return main_program
        if fleet.worker_num() > 1:
            strategy.num_trainers, strategy.trainer_id = fleet.worker_num(), fleet.worker_index()
            strategy.trainers_endpoints = list(fleet.worker_endpoints())
        strategy.enable_backward_optimizer_op_deps = True
        loss = loss_of(main_program)
        name = main_program.attributes.get(SCALED_LOSSES, {}).get(loss, loss)
        return CompiledProgram(main_program).with_data_parallel(
            loss_name=name, build_strategy=strategy, exec_strategy=strategy.exec_strategy
        )

    def _transpile(self, startup_program: Program, main_program: Program) -> None:
        """Add what trainers need to know of each other, or the operators that exchange."""
        strategy, fleet = self._strategy, self._fleet
        if fleet.worker_num() == 1 and strategy.mode == "nccl2":
            return  # there is nobody to tell
        config = DistributeTranspilerConfig()
        config.mode, config.collective_mode = strategy.mode, strategy.collective_mode
        config.nccl_comm_num = strategy.nccl_comm_num
        config.use_hierarchical_allreduce = strategy.use_hierarchical_allreduce
        config.hierarchical_allreduce_inter_nranks = strategy.hierarchical_allreduce_inter_nranks
        endpoints, index = list(fleet.worker_endpoints()), fleet.worker_index()
        DistributeTranspiler(config).transpile(
            trainer_id=index,
            program=main_program,
            startup_program=startup_program,
            trainers=",".join(endpoints),
            current_endpoint=endpoints[index],
        )


def _in_half_precision(optimizer: Any, strategy: CollectiveStrategy) -> Any:
    settings = {"init_loss_scaling": strategy.amp_loss_scaling, **strategy._precision}
    lists = AutoMixedPrecisionLists(settings.pop("custom_white_list", ()), settings.pop("custom_black_list", ()))
    return decorate(optimizer, lists, **settings)


def _check_conflicts(strategy: CollectiveStrategy, optimizer: Any) -> None:
    """What cannot be together.

    Raises:
        InvalidForm: names both; Paddle asserts it. Unimplemented: use_dist_fc.
    """
    if strategy.forward_recompute and not strategy.recompute_checkpoints:
        raise InvalidForm("forward_recompute needs recompute_checkpoints, the values that are kept")
    if strategy.use_dist_fc and not strategy.use_local_sgd:
        why = CollectiveStrategy.effect("use_dist_fc").reason
        raise Unimplemented(f"DistributedStrategy.use_dist_fc = True is not supported: {why}")
    if not strategy.use_local_sgd:
        return
    others = {"use_dist_fc": strategy.use_dist_fc, "the optimizer Lamb": isinstance(optimizer, Lamb)}
    other = next((name for name, is_on in others.items() if is_on), None)
    if other is not None:
        raise InvalidForm(f"use_local_sgd and {other} exclude each other")
    strategy.mode, strategy.collective_mode = "collective", "local_sgd"


def _tell_idle(strategy: CollectiveStrategy) -> None:
    """A notice for what was set for the executor's own exchange, where the program's operators exchange."""
    idle = [f"DistributedStrategy.{name}" for name in strategy.changed("graph") if name in BuildStrategy.OPTIONS]
    execution = strategy.exec_strategy
    assert execution is not None
    idle += [f"ExecutionStrategy.{name}" for kind in ("graph", "step") for name in execution.changed(kind)]
    for name in idle:
        tell(f"{name} has no effect in mode 'collective': Executor.run takes the program as it is")


def _settle_communicators(strategy: CollectiveStrategy, nodes: int) -> None:
    """How many communicators and threads there are."""
    execution = strategy.exec_strategy
    assert execution is not None
    if nodes <= 1 and (strategy.nccl_comm_num > 1 or strategy.use_hierarchical_allreduce):
        tell("one trainer has one communicator: nccl_comm_num is set to 1, use_hierarchical_allreduce to False")
    if nodes <= 1:
        strategy.nccl_comm_num, strategy.use_hierarchical_allreduce = 1, False
    if os.environ.get(WAITS, "1") == "1":
        threads = strategy.nccl_comm_num * (2 if strategy.use_hierarchical_allreduce else 1) + 1
        execution.num_threads = threads
    if strategy.sync_batch_norm:
        strategy.nccl_comm_num, strategy.use_hierarchical_allreduce = 1, False
        execution.num_threads = 1
