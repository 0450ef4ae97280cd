"""What there is to show of steps that the ranks of a cluster make: their graph, and that the rest is not seen."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.notebook.dashboard.watching.previewed import graph_of_program
from workbench.notebook.dashboard.watching.unwatched import Unwatched
from workbench.notebook.summary import count
from workbench.parallel.cluster.trained import ClusterExecutor


class Elsewhere(Unwatched):
    """Stands where a `Watch` is when the steps are made in other processes; says so where these are not seen.

    Args:
        executor: what has the ranks make them.
        title, fetches, number: as of any graph; it is drawn on as many devices as all ranks have together.
    """

    def __init__(self, executor: ClusterExecutor, title: str, fetches: Sequence[str], number: int = 1) -> None:
        super().__init__(title, graph_of_program(executor.program, executor.device_count, fetches), number)
        self._each, self._ranks = executor.cluster.devices, count(executor.cluster.size, "rank")
        self.strategy = f"AllReduce, in {self._ranks} of a cluster"
        self.unseen = (
            f"This is not seen from here: the steps are made in {self._ranks} of a cluster, by processes of their own. "
            "%ranks shows where they are; a run on devices of this process, devices=2, shows all of it."
        )

    def what(self) -> str:
        """`2 ranks`, and their devices if they have several each."""
        return self._ranks if self._each == 1 else f"{self._ranks} of {self._each} devices"
