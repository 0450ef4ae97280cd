"""How trainers and servers work together: synchronously, asynchronously, half, or by changes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import copy
from typing import Any

from workbench.config import set_flags
from workbench.errors import InvalidArgument, InvalidType, NotFound, did_you_mean
from workbench.executors.execution_strategy import ExecutionStrategy
from workbench.framework.notice import tell
from workbench.graph.strategy import BuildStrategy
from workbench.parallel.transpiler.config import DistributeTranspilerConfig

_COUNTED_BY_DEVICES = (
    "communicator_max_merge_var_num",
    "communicator_send_queue_size",
    "communicator_min_send_grad_num_before_recv",
)
_RUNTIME_DEFAULTS = {
    "communicator_independent_recv_thread": "1",
    "communicator_thread_pool_size": "5",
    "communicator_send_wait_times": "5",
    "communicator_is_sgd_optimizer": "1",
    "rpc_deadline": "180000",
    "rpc_retry_times": "3",
}
_OF_QUEUES = "a step's gradients travel in one message to each server; only asynchronous steps wait and are merged"
_OF_ASYNC = (
    "communicator_max_merge_var_num",
    "communicator_send_queue_size",
    "communicator_is_sgd_optimizer",
)
_OF_REPEATS = "what is lost on its way is sent again as long as rpc_deadline allows; servers apply it once"

SYNC, ASYNC, HALF_ASYNC, GEO = range(4)
_OF_NO_MODE = ("slice_var_up", "split_method", "min_block_size", "wait_port", "enable_dc_asgd", "print_log")


class UnknownSetting(NotFound, ValueError):
    """There is no setting of that name; Paddle raises ValueError."""


def cpu_count() -> int:
    """`CPU_NUM`, 1 unless it is set."""
    text = os.environ.get("CPU_NUM", "1")
    if not text.isdecimal() or not int(text):
        raise InvalidArgument(f"CPU_NUM is a number of devices from 1 on, got {text!r}")
    return int(text)


class TrainerRuntimeConfig:
    """How a trainer talks to servers; numbers are kept as texts, as in Paddle.

    Attributes:
        mode: 0 synchronous, 1 asynchronous, 2 half asynchronous, 3 by changes.
        runtime_configs: by name. `rpc_deadline` says how many milliseconds servers and trainers wait for each other,
            as `FLAGS_rpc_deadline` does. In modes 1 and 2 `communicator_max_merge_var_num`,
            `communicator_send_queue_size` and `communicator_is_sgd_optimizer` are those flags. The others have no
            effect, which is told.
    """

    def __init__(self, mode: int) -> None:
        self.mode = mode
        many = str(cpu_count())
        self._defaults = dict.fromkeys(_COUNTED_BY_DEVICES, many) | _RUNTIME_DEFAULTS
        self.runtime_configs = {name: os.environ.get(f"FLAGS_{name}", self._defaults[name]) for name in self._defaults}

    def apply(self) -> None:
        """Have this process wait as long as they say, and tell which of them have no effect.

        Raises:
            InvalidArgument: rpc_deadline is no number of milliseconds, or another one is none of its kind.
        """
        deadline = self.runtime_configs["rpc_deadline"]
        if not deadline.isdecimal() or not int(deadline):
            raise InvalidArgument(f"runtime_configs: rpc_deadline is a number of milliseconds, got {deadline!r}")
        if deadline != self._defaults["rpc_deadline"]:
            set_flags({"FLAGS_rpc_deadline": int(deadline)})
        works = ["rpc_deadline", *(_OF_ASYNC if self.mode in (ASYNC, HALF_ASYNC) else ())]
        chosen = {name: self.runtime_configs[name] for name in works[1:]}
        set_flags({f"FLAGS_{name}": value for name, value in chosen.items() if value != self._defaults[name]})
        for name, value in self.runtime_configs.items():
            if name not in works and value != self._defaults[name]:
                why = _OF_REPEATS if name == "rpc_retry_times" else _OF_QUEUES
                tell(f"TrainerRuntimeConfig.runtime_configs: {name} = {value} has no effect: {why}")

    def get_communicator_flags(self) -> dict[str, str]:
        """A copy of the settings."""
        return dict(self.runtime_configs)


class ServerFleetStrategy:
    """What the strategies of a fleet with servers have in common: 1.x's `DistributedStrategy` of this kind.

    Args:
        mode: see `TrainerRuntimeConfig`. config: of the transpiler.
        meets: whether the trainers wait for each other.
    """

    def __init__(self, mode: int, meets: bool, **config: Any) -> None:
        self._config = DistributeTranspilerConfig()
        self._config.sync_mode = False
        self._config.runtime_split_send_recv = True
        for name, value in config.items():
            setattr(self._config, name, value)
        self._runtime, self._build, self._execute = TrainerRuntimeConfig(mode), BuildStrategy(), ExecutionStrategy()
        self._execute.num_threads = cpu_count()
        self._execute.use_thread_barrier = meets
        if cpu_count() > 1:
            self._build.reduce_strategy = BuildStrategy.ReduceStrategy.Reduce

    @property
    def mode(self) -> int:
        """0 synchronous, 1 asynchronous, 2 half asynchronous, 3 by changes."""
        return self._runtime.mode

    def get_program_config(self) -> DistributeTranspilerConfig:
        """The transpiler's settings."""
        return self._config

    def set_program_config(self, config: DistributeTranspilerConfig | Mapping[str, Any]) -> None:
        """Take over the transpiler's settings: from a config those that are not the mode's, from a dict any.

        Raises:
            InvalidType: neither. UnknownSetting (a ValueError): an unknown setting.
        """
        if isinstance(config, DistributeTranspilerConfig):
            _take_over(self._config, config)
            return
        given = _known("set_program_config", config, DistributeTranspilerConfig._DEFAULTS)
        for name, value in given.items():
            setattr(self._config, name, value)

    def get_trainer_runtime_config(self) -> TrainerRuntimeConfig:
        """How trainers talk to servers."""
        return self._runtime

    def set_trainer_runtime_config(self, config: TrainerRuntimeConfig | Mapping[str, Any]) -> None:
        """Take over how trainers talk to servers, all or, from a dict, some; see `TrainerRuntimeConfig`.

        Raises:
            InvalidType: neither. UnknownSetting (a ValueError): an unknown setting.
        """
        known = self._runtime.runtime_configs
        said = config.runtime_configs if isinstance(config, TrainerRuntimeConfig) else config
        given = _known("set_trainer_runtime_config", said, known)
        if isinstance(config, TrainerRuntimeConfig):
            self._runtime = config
        else:
            known.update({name: str(value) for name, value in given.items()})

    def get_execute_strategy(self) -> ExecutionStrategy:
        """How steps are run."""
        return self._execute

    def set_execute_strategy(self, config: ExecutionStrategy | Mapping[str, Any]) -> None:
        """Run steps another way: all settings or, from a dict, some.

        Raises:
            InvalidType: neither. UnknownSetting (a ValueError): an unknown setting.
        """
        self._execute = _changed(self._execute, "set_execute_strategy", config)

    def get_build_strategy(self) -> BuildStrategy:
        """What graphs are built for."""
        return self._build

    def set_build_strategy(self, config: BuildStrategy | Mapping[str, Any]) -> None:
        """Build graphs for something else: all settings or, from a dict, some.

        Raises:
            InvalidType: neither. UnknownSetting (a ValueError): an unknown setting.
        """
        self._build = _changed(self._build, "set_build_strategy", config)


class SyncStrategy(ServerFleetStrategy):
    """Servers update with the mean of all trainers' gradients, and everybody goes on with the same parameters."""

    def __init__(self) -> None:
        super().__init__(SYNC, meets=True, half_async=True, completely_not_async=True)


class AsyncStrategy(ServerFleetStrategy):
    """Servers update with every gradient as it comes; no trainer waits for another one.

    A fleet's communicator, a thread, takes them there from `init_worker` to `stop_worker`: steps hand over and go on,
    and their parameters are older by as many steps as timing has it (`TrainerCommunicator`). With `enable_dc_asgd` a
    step ends with its exchange: servers correct a gradient by the parameters that it was made with.
    """

    def __init__(self) -> None:
        super().__init__(ASYNC, meets=False)


class HalfAsyncStrategy(ServerFleetStrategy):
    """Servers update with every gradient as it comes; a thread of each trainer takes them there, and steps go on."""

    def __init__(self) -> None:
        super().__init__(HALF_ASYNC, meets=True, half_async=True)


class GeoStrategy(ServerFleetStrategy):
    """Trainers update by themselves, and after so many steps tell the servers what has changed.

    Args:
        update_frequency: steps.
    """

    def __init__(self, update_frequency: int = 100) -> None:
        if isinstance(update_frequency, bool) or not isinstance(update_frequency, int) or update_frequency < 1:
            raise InvalidArgument(f"GeoStrategy takes a number of steps from 1 on, got {update_frequency!r}")
        super().__init__(GEO, meets=False, geo_sgd_mode=True, geo_sgd_need_push_nums=update_frequency)


class StrategyFactory:
    """Makes strategies.

    Example:
        >>> from workbench.fluid.incubate.fleet.parameter_server.distribute_transpiler import StrategyFactory
        >>> StrategyFactory.create_geo_strategy(25).get_program_config().geo_sgd_need_push_nums
        25
    """

    @staticmethod
    def create_sync_strategy() -> SyncStrategy:
        """See `SyncStrategy`."""
        return SyncStrategy()

    @staticmethod
    def create_async_strategy() -> AsyncStrategy:
        """See `AsyncStrategy`."""
        return AsyncStrategy()

    @staticmethod
    def create_half_async_strategy() -> HalfAsyncStrategy:
        """See `HalfAsyncStrategy`."""
        return HalfAsyncStrategy()

    @staticmethod
    def create_geo_strategy(update_frequency: int = 100) -> GeoStrategy:
        """See `GeoStrategy`."""
        return GeoStrategy(update_frequency)


def strategy_of(given: Any) -> ServerFleetStrategy:
    """A strategy, or the one a transpiler's settings stand for.

    Raises:
        InvalidType: neither.
    """
    if given is None:
        return SyncStrategy()
    if isinstance(given, ServerFleetStrategy):
        return given
    if not isinstance(given, DistributeTranspilerConfig):
        raise InvalidType(
            f"a fleet with servers takes a strategy of StrategyFactory, or a DistributeTranspilerConfig, got {given!r}"
        )
    given.require_consistent()
    strategy: ServerFleetStrategy
    if given.sync_mode:
        strategy = SyncStrategy()
    elif given.geo_sgd_mode:
        strategy = GeoStrategy(given.geo_sgd_need_push_nums)
    elif given.runtime_split_send_recv and given.half_async:
        strategy = SyncStrategy() if given.completely_not_async else HalfAsyncStrategy()
    else:
        strategy = AsyncStrategy() if given.runtime_split_send_recv else HalfAsyncStrategy()
    _take_over(strategy.get_program_config(), given)
    return strategy


def _take_over(config: DistributeTranspilerConfig, given: DistributeTranspilerConfig) -> None:
    """What a config says, but for the fields that make the mode."""
    for name in _OF_NO_MODE:
        value = getattr(given, name)
        if given.is_given(name) or getattr(config, name) != value:
            setattr(config, name, value)


def _known(method: str, given: Any, known: Mapping[str, Any]) -> Mapping[str, Any]:
    """A dict of settings that there are."""
    if not isinstance(given, Mapping):
        raise InvalidType(f"{method} takes its own kind of settings or a dict, got {given!r}")
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        raise UnknownSetting(f"{method}: there is no setting {unknown!r}.{did_you_mean(unknown, known)}")
    return given


def _changed(strategy: Any, method: str, given: Any) -> Any:
    """A strategy of the same kind, or a copy of this one with what a dict says."""
    if isinstance(given, type(strategy)):
        return given
    changed = copy(strategy)
    for name, value in _known(method, given, strategy.OPTIONS).items():
        setattr(changed, name, value)
    return changed
