"""CollectiveStrategy: how the trainers of a collective fleet work together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from workbench.executors.execution_strategy import ExecutionStrategy
from workbench.framework.program.variable import Variable
from workbench.graph.options import Option, Rule, optional, switch, word
from workbench.graph.strategy import BuildStrategy


def _checkpoints() -> Rule[tuple[Any, ...]]:
    def convert(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise TypeError
        if not all(isinstance(one, Variable | str) for one in value):
            raise TypeError
        return tuple(value)

    return Rule("a list of Variables or names", convert)


def _positive() -> Rule[float]:
    def convert(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError
        if not value > 0:
            raise ValueError
        return float(value)

    return Rule("a positive number", convert)


class CollectiveStrategy(BuildStrategy):
    """A BuildStrategy that also says how trainers exchange what they have computed: 1.x's `DistributedStrategy`.

    Attributes:
        exec_strategy: the ExecutionStrategy of the program.

    Example:
        >>> from workbench.fluid.incubate.fleet.collective import DistributedStrategy
        >>> strategy = DistributedStrategy()
        >>> strategy.mode, strategy.amp_loss_scaling
        ('nccl2', 32768.0)
    """

    exec_strategy: ExecutionStrategy | None = None
    _precision: Mapping[str, Any] = MappingProxyType({})  # more than amp_loss_scaling, as 2.x's strategy has it

    mode = Option(
        "nccl2",
        word("nccl2", "collective"),
        "graph",
        "Who exchanges: the executor, as its own all-reduces ('nccl2'), or operators in the program ('collective')",
        exempt=True,
    )
    collective_mode = Option(
        None,
        optional(word("grad_allreduce", "local_sgd", "single_process_multi_thread", "nccl2")),
        "graph",
        "What the operators in the program exchange: gradients, or parameters after every step; 'nccl2' is as None",
        exempt=True,
    )
    use_local_sgd = Option(
        False, switch(), "graph", "Same as mode 'collective' and collective_mode 'local_sgd'", exempt=True
    )
    forward_recompute = Option(
        False, switch(), "graph", "Values between recompute_checkpoints are computed twice, not kept", exempt=True
    )
    recompute_checkpoints = Option[tuple[Any, ...]](
        (), _checkpoints(), "graph", "What is kept of the forward pass with forward_recompute", exempt=True
    )
    use_amp = Option(False, switch(), "graph", "Products in half precision, and a loss that is scaled", exempt=True)
    amp_loss_scaling = Option(
        2.0**15, _positive(), "graph", "What the loss is multiplied by at first with use_amp", exempt=True
    )
    use_dist_fc = Option(
        False, switch(), "error", "There are no fully connected layers that are spread over trainers", exempt=True
    )
    dist_fc_config = Option(
        None, Rule("anything", lambda value: value), "notice", "it only counts for use_dist_fc", exempt=True
    )

    def __init__(self) -> None:
        super().__init__()
        self.exec_strategy = ExecutionStrategy()

    def __copy__(self) -> Any:
        copied = super().__copy__()
        copied.exec_strategy, copied._precision = self.exec_strategy, self._precision
        return copied
