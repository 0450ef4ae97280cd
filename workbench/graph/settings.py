"""What a build strategy comes to once everything is decided: what the builder and the passes read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any


class ReduceStrategy(Enum):
    """How the devices' gradients become one."""

    AllReduce = 0
    """Every device gets the sum and updates its own parameters."""
    Reduce = 1
    """Each gradient's sum goes to one device, which updates the parameter for all."""

    def __int__(self) -> int:
        return self.value


class GradientScaleStrategy(Enum):
    """What each device's loss gradient starts from; gradients are summed over the devices."""

    CoeffNumDevice = 0
    """1 / (num_trainers * devices), so that the sum is the mean of the devices' gradients."""
    One = 1
    """1, so that the sum is the sum."""
    Customized = 2
    """Fed by the user as `<loss name>@GRAD`."""
    WeightedBySamples = 3
    """Rows on the device / rows in the batch: the gradient of the mean over the whole batch, however it is split."""

    def __int__(self) -> int:
        return self.value


@dataclass(frozen=True)
class Settings:
    """A build strategy with everything decided; fields are called as the strategy's.

    Attributes:
        reduce_strategy: AllReduce also where Reduce was asked for, if there is only one rank.
        num_trainers: ranks are num_trainers * devices.
        passes: the user's own.
    """

    reduce_strategy: ReduceStrategy
    gradient_scale_strategy: GradientScaleStrategy
    num_trainers: int
    trainer_id: int
    debug_graphviz_path: str
    enable_sequential_execution: bool
    fix_op_run_order: bool
    sequential_run: bool
    fuse_elewise_add_act_ops: bool
    enable_auto_fusion: bool
    fuse_bn_act_ops: bool
    fuse_bn_add_act_ops: bool
    fuse_all_reduce_ops: bool
    fuse_all_optimizer_ops: bool
    fuse_broadcast_ops: bool
    fused_attention: bool | None
    winograd: bool
    sync_batch_norm: bool
    memory_optimize: bool
    enable_inplace: bool
    exact: bool
    passes: tuple[Callable[..., Any], ...]

    @property
    def sequential(self) -> bool:
        """Whether any of the three names of sequential execution was asked for."""
        return self.enable_sequential_execution or self.fix_op_run_order or self.sequential_run

    @property
    def fuse_elementwise(self) -> bool:
        """Whether either name of fusing element-wise chains was asked for."""
        return self.fuse_elewise_add_act_ops or self.enable_auto_fusion
