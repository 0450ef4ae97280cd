"""CollectiveTranspiler: what the classes that write collectives into programs have in common (T-30 … T-32)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from workbench.errors import InvalidArgument
from workbench.framework.program.guard import default_main_program, default_startup_program
from workbench.framework.program.program import Program
from workbench.framework.program.undo import restored_on_error
from workbench.parallel.transpiler.collective.rings import RingMembers, make_rings, require_members
from workbench.parallel.transpiler.config import COLLECTIVE
from workbench.parallel.transpiler.mark import MARK, require_unmarked
from workbench.parallel.transpiler.ports import require_endpoints, tell_that_nobody_listens


class CollectiveTranspiler(ABC):
    """Rewrites programs of trainers that exchange values by operators of their own: 1.x's `Collective`.

    Args:
        nrings: how many communicators the collectives go round.

    Raises:
        InvalidArgument: none.
    """

    MODE: str
    """Its name among the modes of `DistributeTranspilerConfig.collective_mode`."""

    def __init__(self, nrings: int) -> None:
        if isinstance(nrings, bool) or not isinstance(nrings, int) or nrings < 1:
            raise InvalidArgument(f"{type(self).__name__} takes a number of rings from 1 on, got {nrings!r}")
        self.nrings = nrings

    def transpile(
        self,
        startup_program: Program | None,
        main_program: Program | None,
        rank: int,
        endpoints: str | Sequence[str],
        current_endpoint: str,
        wait_port: bool,
    ) -> None:
        """Rewrite both programs in place; if that fails they are as before.

        Args:
            startup_program, main_program: the default ones if None.
            rank: number of this trainer, from 0. endpoints: addresses of all trainers, `ip:port`, in a list or with
                commas between. current_endpoint: that of this one.
            wait_port: has no effect, which is told: MPI has started all trainers.

        Raises:
            InvalidArgument: the trainers do not fit (a `ValueError` in Paddle).
            PreconditionNotMet: the program has no backward, or was transpiled before.
        """
        startup = default_startup_program() if startup_program is None else startup_program
        main = default_main_program() if main_program is None else main_program
        members = RingMembers(require_endpoints("endpoints", endpoints), rank, current_endpoint, self.nrings)
        require_unmarked(main)
        self._require(members)
        if wait_port:
            tell_that_nobody_listens(f"{type(self).__name__}.transpile(wait_port=True)")
        with restored_on_error(main, startup):
            self._transpile_startup_program(startup, members)
            self._transpile_main_program(main, members)
            main.attributes[MARK] = COLLECTIVE

    def _require(self, members: RingMembers) -> None:
        require_members(members)

    def _transpile_startup_program(self, startup: Program, members: RingMembers) -> None:
        make_rings(startup, members)

    @abstractmethod
    def _transpile_main_program(self, main: Program, members: RingMembers) -> Any:
        """Write the collectives into the program."""
