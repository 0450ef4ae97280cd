"""A step function of the user's own, as a rank runs it.

The function travels by value (cloudpickle), as with `spawn`: it is code of the kernel's program on its way to processes
that the kernel has started. What it is called with, and what it gives, is data.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import InvalidType, described
from workbench.layers.layer import Layer
from workbench.parallel.cluster.rank_work import Feeds, RankWork
from workbench.parallel.groups.group import init_parallel_env
from workbench.runtime.comm.mpi.world import world

LOSS = "loss"


def takes_nothing(function: Callable[..., Any]) -> bool:
    """Whether a function is called without arguments, and so makes a step function rather than being one."""
    try:
        return not inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


class RankSteps(RankWork):
    """Steps by a function of the user's own, in dynamic mode.

    Args:
        title: what it is called. code: the function, or what makes it, by value.

    Raises:
        InvalidType: what should make a step function makes something else.
    """

    def __init__(self, title: str, code: bytes) -> None:
        import sys

        import cloudpickle

        super().__init__(title, 1)
        init_parallel_env()
        path, function = cloudpickle.loads(code)  # from the process that started this one, and nobody else
        sys.path[:] = path
        given = cloudpickle.loads(function)
        given = given() if takes_nothing(given) else given
        self._function: Any
        self._layer: Any
        self._function, self._layer = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
        if not callable(self._function) or not (self._layer is None or isinstance(self._layer, Layer)):
            raise InvalidType(
                "a function without arguments, which cluster.train calls in every rank, returns the step function, or "
                f"that and the Layer it trains; {title} returned {described(given)}"
            )

    def make_step(self, feeds: Feeds, fetched: Sequence[str], rates: Mapping[str, float]) -> list[np.ndarray]:
        """One step on this rank's rows; what it gives by name is checked against what the first step gave."""
        (fields,) = feeds
        tensors = {name: Tensor(array) for name, array in fields.items()}
        try:
            result = self._function(*tensors.values()) if "0" in tensors else self._function(**tensors)
            return _numbers(result, fetched)
        except BaseException as error:
            world().abort(f"{type(error).__name__}: {error}", error)
            raise

    def values(self) -> dict[str, np.ndarray]:
        """What the layer holds that was returned beside the step function."""
        held = {} if self._layer is None else self._layer.state_dict()
        return {name: np.array(value) for name, value in held.items()}


def _numbers(result: Any, fetched: Sequence[str]) -> list[np.ndarray]:
    """What a step has returned, as arrays in the order of the names."""
    given = result if isinstance(result, Mapping) else {LOSS: result}
    if set(given) != set(fetched):
        raise InvalidType(
            f"a step function returns a loss, or a dict of {', '.join(fetched)} as fetch= says; got {described(result)}"
        )
    values = [np.asarray(given[name], np.float64) for name in fetched]
    if large := next((name for name, value in zip(fetched, values, strict=True) if value.size != 1), None):
        raise InvalidType(f"a step function returns numbers, got {described(given[large])} as {large!r}")
    return [value.reshape(1) for value in values]
