"""What fleets have in common: who is who, by a role maker, and what they save."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from workbench.errors import InvalidForm, InvalidType, PreconditionNotMet
from workbench.executors.api.compiled import CompiledProgram
from workbench.executors.api.executor import Executor
from workbench.executors.api.parallel import ParallelExecutor
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.variable import Variable
from workbench.framework.values.place import CPUPlace
from workbench.optimizer.checks import Pairs
from workbench.optimizer.optimizer import Optimizer
from workbench.optimizer.recompute import RecomputeOptimizer
from workbench.parallel.roles.base import RoleMakerBase
from workbench.precision.program import MixedPrecisionOptimizer

Folder = str | os.PathLike[str]


class FleetBase(ABC):
    """A fleet, as one of its processes sees it.

    Attributes:
        main_program, startup_program: what this process runs, once an optimizer of the fleet has made it: a Program, or
            a CompiledProgram.
    """

    def __init__(self) -> None:
        self._role_maker: RoleMakerBase | None = None
        self._executor: Executor | None = None
        self._optimizer: Any = None
        self.main_program: Any = None
        self.startup_program: Program | None = None

    def init(self, role_maker: RoleMakerBase | None = None) -> None:
        """Take part.

        Args:
            role_maker: who says which process this is.

        Raises:
            InvalidType: no role maker. Others: as it raises.
        """
        if not isinstance(role_maker, RoleMakerBase):
            raise InvalidType(
                f"fleet.init takes a role maker, got {role_maker!r}; PaddleCloudRoleMaker() reads what `workbench "
                "launch` has set"
            )
        role_maker.generate_role()
        self._role_maker, self._executor = role_maker, Executor(CPUPlace())

    @property
    def _roles(self) -> RoleMakerBase:
        if self._role_maker is None:
            raise PreconditionNotMet("call fleet.init(role_maker) first; it says which process this is")
        return self._role_maker

    # Who is who

    def is_first_worker(self) -> bool:
        """Whether this process is trainer 0."""
        return self._roles.is_first_worker()

    def worker_index(self) -> int:
        """Which trainer this is."""
        return self._roles.worker_index()

    def worker_num(self) -> int:
        """How many trainers there are."""
        return self._roles.worker_num()

    def is_worker(self) -> bool:
        """Whether this process trains."""
        return self._roles.is_worker()

    def worker_endpoints(self, to_string: bool = False) -> list[str] | str:
        """`ip:port` of all trainers; with commas between if `to_string`."""
        return _listed(self._roles.get_trainer_endpoints(), to_string)

    def server_num(self) -> int:
        """How many servers there are."""
        return len(self._roles.get_pserver_endpoints())

    def server_index(self) -> int:
        """Which server this is."""
        return self._roles.server_index()

    def server_endpoints(self, to_string: bool = False) -> list[str] | str:
        """`ip:port` of all servers; with commas between if `to_string`."""
        return _listed(self._roles.get_pserver_endpoints(), to_string)

    def is_server(self) -> bool:
        """Whether this process is a parameter server."""
        return self._roles.is_server()

    def split_files(self, files: Sequence[str]) -> list[str]:
        """The files this trainer reads: as many for each, one more for the first ones, in blocks.

        Paddle 1.8.5 means this, and fails under Python 3.

        Raises:
            InvalidType: no list of files.

        Example: five files and two trainers are three for the first, two for the second.
        """
        if not isinstance(files, list):
            raise InvalidType(f"split_files takes a list of files, got {files!r}")
        share, more = divmod(len(files), self.worker_num())
        index = self.worker_index()
        begin = index * share + min(index, more)
        return files[begin : begin + share + (index < more)]

    def all_reduce_worker(self, input: Any, output: Any) -> None:
        """The arrays of all trainers, added element by element, into `output`."""
        self._roles.all_reduce_worker(input, output)

    def barrier_worker(self) -> None:
        """Return when all trainers are here."""
        self._roles.barrier_worker()

    # What kinds of fleets do in their own way

    @abstractmethod
    def distributed_optimizer(self, optimizer: Any, strategy: Any = None) -> DistributedOptimizer:
        """An optimizer whose `minimize` makes programs for this process."""

    @abstractmethod
    def init_worker(self) -> None:
        """Begin as a trainer."""

    @abstractmethod
    def init_server(self, model_dir: str | None = None) -> None:
        """Begin as a server."""

    @abstractmethod
    def run_server(self) -> None:
        """Serve until all trainers have left."""

    @abstractmethod
    def stop_worker(self) -> None:
        """Leave as a trainer."""


class DistributedOptimizer(ABC):
    """An optimizer of a fleet.

    Args:
        optimizer: what updates the parameters, also in `mixed_precision.decorate` or `RecomputeOptimizer`.

    Raises:
        InvalidType: no optimizer.
    """

    def __init__(self, optimizer: Any, strategy: Any = None) -> None:
        if not isinstance(optimizer, Optimizer | MixedPrecisionOptimizer | RecomputeOptimizer):
            raise InvalidType(f"a fleet distributes an optimizer such as SGD(0.1), got {optimizer!r}")
        self._optimizer: Any = optimizer
        self._strategy = strategy

    @property
    def _updating(self) -> Optimizer:
        """What updates the parameters, inside recomputing and mixed precision."""
        optimizer = self._optimizer
        while not isinstance(optimizer, Optimizer):
            optimizer = optimizer._optimizer
        return optimizer

    @abstractmethod
    def minimize(
        self,
        loss: Any,
        startup_program: Any = None,
        parameter_list: Sequence[Any] | None = None,
        no_grad_set: set[Any] | None = None,
    ) -> tuple[list[Operator], Pairs]:
        """Append gradient and update operators, and make of the program what this process of the fleet runs."""

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Any] | None = None,
        no_grad_set: set[Any] | None = None,
        callbacks: Sequence[Any] | None = None,
    ) -> Pairs:
        """Append the gradient operators alone."""
        pairs: Pairs = self._optimizer.backward(loss, startup_program, parameter_list, no_grad_set, callbacks)
        return pairs

    def apply_gradients(self, params_grads: Pairs) -> list[Operator]:
        """Append clip, decay and update operators."""
        ops: list[Operator] = self._optimizer.apply_gradients(params_grads)
        return ops


def require_unwrapped(executor: Any, main_program: Any) -> None:
    """What is saved is of an Executor and a Program.

    Raises:
        InvalidType: a ParallelExecutor or a CompiledProgram. InvalidForm: something else.
    """
    if isinstance(executor, ParallelExecutor) or isinstance(main_program, CompiledProgram):
        what = executor if isinstance(executor, ParallelExecutor) else main_program
        raise InvalidType(f"a fleet saves by an Executor, and a Program, got {what!r}")
    if not isinstance(executor, Executor):
        raise InvalidForm(f"a fleet saves by an Executor, got {executor!r}")
    if not (main_program is None or isinstance(main_program, Program)):
        raise InvalidForm(f"a fleet saves a Program, got {main_program!r}")


def _listed(endpoints: list[str], to_string: bool) -> list[str] | str:
    return ",".join(endpoints) if to_string else list(endpoints)
