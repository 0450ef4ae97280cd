"""A step function of the user's own, as a rank runs it.

The function travels by value (cloudpickle), as with `spawn`: it is code of the kernel's program on its way to processes
that the kernel has started. What it is called with, and what it gives, is data.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from workbench.dygraph.autograd.modes import no_grad
from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import InvalidArgument, InvalidType, described
from workbench.layers.evaluating import evaluating
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
        self._function, self._layer, self._evaluates = _parts_of(given, title)

    def make_step(self, feeds: Feeds, fetched: Sequence[str], rates: Mapping[str, float]) -> list[np.ndarray]:
        """One step on this rank's rows; what it gives by name is checked against what the first step gave."""
        (fields,) = feeds
        return self._told(self._function, fields, fetched)

    def evaluate(self, fields: Mapping[str, np.ndarray], fetched: Sequence[str]) -> list[float]:
        """What the function that evaluates gives of this rank's rows of a batch, in the order of the names.

        Raises:
            InvalidArgument: there is no such function.
        """
        if self._evaluates is None:
            raise InvalidArgument(
                f"valid= needs a function that evaluates a batch: have {self.title}, called without arguments, return "
                "(step, layer, evaluate), of which evaluate takes what step does and returns what fetch= names"
            )
        with nullcontext() if self._layer is None else evaluating(self._layer), no_grad():
            return [float(value[0]) for value in self._told(self._evaluates, fields, fetched)]

    def _told(
        self, function: Callable[..., Any], fields: Mapping[str, np.ndarray], fetched: Sequence[str]
    ) -> list[np.ndarray]:
        """What a function gives of these rows; the others hear if it fails."""
        tensors = {name: Tensor(array) for name, array in fields.items()}
        try:
            return _numbers(function(*tensors.values()) if "0" in tensors else function(**tensors), fetched)
        except BaseException as error:
            world().abort(f"{type(error).__name__}: {error}", error)
            raise

    def values(self) -> dict[str, np.ndarray]:
        """What the layer holds that was returned beside the step function."""
        held = {} if self._layer is None else self._layer.state_dict()
        return {name: np.array(value) for name, value in held.items()}


def _parts_of(given: Any, title: str) -> tuple[Callable[..., Any], Layer | None, Callable[..., Any] | None]:
    """The step function, the layer it trains and what evaluates that, as far as they are there."""
    given_parts = given if isinstance(given, tuple) and len(given) in (2, 3) else (given,)
    function, layer, evaluates = (*given_parts, None, None)[:3]
    is_layer = layer is None or isinstance(layer, Layer)
    if not callable(function) or not is_layer or not (evaluates is None or callable(evaluates)):
        raise InvalidType(
            "a function without arguments, which cluster.train calls in every rank, returns the step function, or "
            "that and the Layer it trains, or these and a function that evaluates it; "
            f"{title} returned {described(given)}"
        )
    return function, layer, evaluates


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
