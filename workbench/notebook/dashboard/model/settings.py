"""The settings of the next run, and what each of them takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

from workbench.errors import InvalidArgument
from workbench.executors.execution_strategy import ExecutionStrategy
from workbench.graph.options import Rule, switch, whole
from workbench.graph.settings import ReduceStrategy


def _strategy() -> Rule[str]:
    def convert(value: Any) -> str:
        return value.name if isinstance(value, ReduceStrategy) else ReduceStrategy[value].name

    return Rule(f"one of {', '.join(ReduceStrategy.__members__)}", convert)


def _rate() -> Rule[float]:
    def convert(value: Any) -> float:
        if not isinstance(value, Real) or isinstance(value, bool):
            raise TypeError
        rate = float(value)
        if not 0 <= rate < math.inf:
            raise ValueError
        return rate

    return Rule("a number of at least 0", convert)


SETTINGS: Mapping[str, Rule[Any]] = {
    "devices": whole(1),
    "reduce_strategy": _strategy(),
    "num_threads": ExecutionStrategy.num_threads.rule,  # 0 leaves it to the executor
    "num_iteration_per_drop_scope": ExecutionStrategy.num_iteration_per_drop_scope.rule,
    "batch_size": whole(1),
    "learning_rate": _rate(),
    "steps": whole(0),
    "epochs": whole(0),
    "stop_on_nan": switch(),
}


def checked(name: str, value: Any) -> Any:
    """A value of a setting as it is kept.

    Raises:
        InvalidArgument: the setting does not take it.
    """
    rule = SETTINGS[name]
    try:
        return rule.convert(value)
    except (TypeError, ValueError, KeyError, OverflowError):
        raise InvalidArgument(f"{name} is {rule.expected}, got {value!r}") from None
