"""A step function that a cluster trains with, as an executor that a training loop takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.errors import InvalidType
from workbench.framework.program.program import Program
from workbench.parallel.cluster import rank_programs
from workbench.parallel.cluster.cluster import Cluster
from workbench.parallel.cluster.trained import ClusterExecutor, by_signature, divided
from workbench.parallel.launch.by_value import by_value
from workbench.runtime.storage.scope import Scope


class StepsExecutor(ClusterExecutor):
    """Calls a function of the user's own in every rank, step after step, each with its part of the batch.

    Args:
        cluster: the ranks. function: see `cluster.train`.

    Raises:
        InvalidType: no function, or one that cannot be sent. Unavailable: there is no cloudpickle.
    """

    def __init__(self, cluster: Cluster, function: Callable[..., Any]) -> None:
        name = getattr(function, "__qualname__", type(function).__name__)
        super().__init__(cluster, Program())
        self.title, self._code = name, _sent(function, name)
        self._values: dict[str, np.ndarray] = {}

    @property
    def device_count(self) -> int:
        """Every rank gets one part of a batch."""
        return self.cluster.size

    def begin(self, scope: Scope) -> None:
        """Send the ranks the function."""
        self.cluster.ask(rank_programs.open_steps, self._key, self.title, np.frombuffer(self._code, np.uint8))
        self._begin_anew()

    def settle(self, scope: Scope) -> None:
        """Fetch what rank 0's layer holds."""
        if self._is_stale:
            self._values, *_ = self.cluster.ask(rank_programs.values_of, self._key)
            self._is_stale = False

    def evaluate(self, feed: Mapping[str, Any], fetched: Sequence[str]) -> np.ndarray:
        """What the function that evaluates gives of a batch: means over its rows, in the order of the names.

        Raises:
            InvalidArgument: the ranks have none, or the batch cannot be divided.
        """
        (batches,) = by_signature([self.prepared(feed)])
        parts = [{n: a[0] for n, a in fields.items()} for fields in divided(batches, self.device_count).devices]
        given = [(self._key, fields, list(fetched)) for fields in parts]
        rows = [len(next(iter(fields.values()))) for fields in parts]
        return np.average(self.cluster.ask_each(rank_programs.evaluate, given), axis=0, weights=rows)

    def state_dict(self) -> dict[str, np.ndarray]:
        """What the layer that was returned beside the step function held at the end of the run, as rank 0 has it."""
        return dict(self._values)


def _sent(function: Any, name: str) -> bytes:
    if not callable(function):
        raise InvalidType(f"a cluster trains a Program or with a step function, got {type(function).__name__}")
    return by_value(function, purpose="a step function", name=f"{name} and what it refers to")
