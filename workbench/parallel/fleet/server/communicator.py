"""Communicators of Paddle 1.x, which take to servers what steps have pushed while further steps go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.program.program import Program
from workbench.parallel.fleet.server.strategies import ASYNC, GEO, HALF_ASYNC, SYNC, TrainerRuntimeConfig
from workbench.parallel.servers.asking.links import settle_pushes
from workbench.parallel.transpiler.server_mode.trainer import IN_BACKGROUND


class TrainerCommunicator:
    """Of one trainer's program: from `start` to `stop` its steps hand gradients over and go on.

    A thread takes them to the servers, those of several steps added up (`FLAGS_communicator_max_merge_var_num`), and a
    step has the parameters of the last answer, which may be older than its own pushes. A fleet begins one in
    `init_worker` and ends it in `stop_worker`; without one, an asynchronous step ends with its exchange.

    Args:
        program: what `DistributeTranspiler` has made for a trainer.
        mode: 1 asynchronous, 2 half asynchronous; in modes 0 (synchronous) and 3 (by changes) steps exchange by
            themselves, whether it runs or not.
        kwargs: accepted for Paddle's sake: the program knows its servers.
        envs: settings by name, as in `TrainerRuntimeConfig`; others, such as Paddle's names of barriers, are left out.

    Raises:
        InvalidType: no Program. InvalidArgument: another mode, a setting that is none of its kind.

    Example:
        >>> import workbench.fluid as fluid
        >>> communicator = fluid.communicator.Communicator(fluid.Program(), mode=1)
        >>> communicator.start()
        >>> communicator.is_running()
        True
        >>> communicator.stop()
    """

    def __init__(self, program: Program, mode: int, kwargs: Any = None, envs: Mapping[str, Any] | None = None) -> None:
        if not isinstance(program, Program):
            raise InvalidType(f"a Communicator takes a trainer's Program, got {program!r}")
        if mode not in (SYNC, ASYNC, HALF_ASYNC, GEO):
            raise InvalidArgument(f"a Communicator takes a mode from {SYNC} to {GEO}, got {mode!r}")
        self._program, self._mode, self._runs = program, mode, False
        if envs:
            config = TrainerRuntimeConfig(mode)
            known = config.runtime_configs
            known.update({name: str(value) for name, value in envs.items() if name in known})
            config.apply()

    def start(self) -> None:
        """Have steps of the program hand over what they push from now on."""
        self._runs = True
        if self._mode in (ASYNC, HALF_ASYNC) and not self._program.attributes.get(IN_BACKGROUND):
            self._program.attributes[IN_BACKGROUND] = True
            self._program.touch()

    def stop(self) -> None:
        """Return when the servers have all of it; steps of the program then wait for servers again.

        Raises:
            PeerTimeout: they take too long. PeerFailed: one is lost.
        """
        self._runs = False
        if self._program.attributes.pop(IN_BACKGROUND, None):
            self._program.touch()
        settle_pushes()

    def is_running(self) -> bool:
        """Whether it was started, and not stopped since."""
        return self._runs
