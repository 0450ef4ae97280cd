"""FleetStrategy: how the processes of a fleet of 2.x work together (`fleet.DistributedStrategy`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from workbench.errors import NotFound, Unimplemented, did_you_mean
from workbench.executors.execution_strategy import ExecutionStrategy
from workbench.framework.notice import tell
from workbench.graph.options import Kind, Option, Options, Rule, show, switch, whole
from workbench.graph.strategy import BuildStrategy

_NO_GPU = "there is no cuDNN or NCCL among CPU devices"
_LEADERS = BuildStrategy.effect("use_hierarchical_allreduce").reason
_ONE_GROUP = "collectives between processes go through memory they share, one after the other"


def _settings(**known: Any) -> Option[Mapping[str, Any]]:
    """A dict of some settings, the others as they are; what is kept cannot be changed, as nobody would notice."""

    def convert(value: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise TypeError
        unknown = next((name for name in value if name not in known), None)
        if unknown is not None:
            raise NotFound(f"there is no setting {unknown!r}.{did_you_mean(unknown, known)}")
        return MappingProxyType({**known, **value})

    return Option(
        MappingProxyType(known),
        Rule(f"a dict with some of {', '.join(known)}", convert),
        "graph",
        "Settings of that name",
    )


def _on(kind: Kind, reason: str) -> Option[bool]:
    return Option(False, switch(), kind, reason)


def _of(kind: type) -> Rule[Any]:
    def convert(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError
        return value

    return Rule(f"a {kind.__name__}", convert)


class FleetStrategy(Options):
    """What a fleet of 2.x does. Every field has an effect, is without effect here, which is told, or is refused.

    `FleetStrategy.effect(name)` says which. Settings, such as `amp_configs`, are assigned as a dict;
    what that does not name has its default.

    Attributes:
        build_strategy, execution_strategy: of the program.

    Example:
        >>> from workbench.distributed import fleet
        >>> strategy = fleet.DistributedStrategy()
        >>> strategy.recompute = True
        >>> strategy.recompute_configs = {"checkpoints": ["fc_0.tmp_2"]}
        >>> strategy.amp_configs["init_loss_scaling"]
        32768.0
    """

    amp = _on("graph", "Products in half precision, and a loss that is scaled")
    amp_configs = _settings(
        init_loss_scaling=32768.0, incr_every_n_steps=1000, decr_every_n_nan_or_inf=2, incr_ratio=2.0, decr_ratio=0.8,
        use_dynamic_loss_scaling=True, custom_white_list=(), custom_black_list=(),
    )  # fmt: skip
    recompute = _on("graph", "Values between checkpoints are computed twice, not kept")
    recompute_configs = _settings(checkpoints=())
    localsgd = _on("graph", "Trainers update by themselves, and take the mean of their parameters after every step")
    localsgd_configs = _settings(k_steps=1, begin_step=1)
    a_sync = _on("graph", "Servers take gradients as they come; by changes, with k_steps > 0 in a_sync_configs")
    a_sync_configs = _settings(k_steps=0)
    sync_batch_norm = _on("graph", "batch_norm takes its statistics over all devices instead of each its own")
    fuse_all_reduce_ops = Option(True, switch(), "graph", "All-reduces many gradients at once")
    find_unused_parameters = _on("graph", "DataParallel looks for parameters that a step does not use")
    fuse_grad_size_in_MB = Option(32, whole(1), "graph", "MiB of gradients that DataParallel exchanges together")
    last_comm_group_size_MB = Option(1, whole(1), "graph", "MiB of the last of these groups")

    nccl_comm_num = Option(1, whole(1), "notice", _ONE_GROUP)
    sync_nccl_allreduce = Option(True, switch(), "notice", _ONE_GROUP)
    use_hierarchical_allreduce = _on("notice", _LEADERS)
    hierarchical_allreduce_inter_nranks = Option(1, whole(1), "notice", _LEADERS)
    fuse_grad_merge = _on("notice", "gradients are added up in place where that is possible")
    cudnn_exhaustive_search = _on("notice", _NO_GPU)
    cudnn_batchnorm_spatial_persistent = _on("notice", _NO_GPU)
    conv_workspace_size_limit = Option(512, whole(0), "notice", _NO_GPU)
    without_graph_optimization = _on("notice", "BuildStrategy chooses what is optimised")
    elastic = _on("notice", "a job is started anew by who starts it")

    auto = _on("error", "what is fastest is not looked for; choose the fields one by one")
    dgc = _on("error", "gradients are not compressed")
    lars = _on("error", "there is no Lars here; optimizer.Momentum is nearest to it")
    lamb = _on("error", "the optimizer is the one that is given; use optimizer.Lamb")
    gradient_merge = _on("error", "gradients of several steps are not added up; feed larger batches")
    adaptive_localsgd = _on("error", "parameters are averaged after every step, see localsgd")
    fp16_allreduce = _on("error", "gradients are exchanged as they are")
    pipeline = _on("error", "programs are not cut into stages")
    sharding = _on("error", "parameters and states are on every trainer; parameter servers keep them apart")
    tensor_parallel = _on("error", "layers are not cut among trainers, but by distributed.split")
    heter_ccl_mode = _on("error", "all trainers are alike")
    asp = _on("error", "parameters are not made sparse")
    qat = _on("error", "programs are not quantised")
    semi_auto = _on("error", "programs are not cut among trainers")

    build_strategy = Option[Any](None, _of(BuildStrategy), "graph", "What the program's graph is built for")
    execution_strategy = Option[Any](None, _of(ExecutionStrategy), "step", "How its steps are run")

    def checked(self) -> FleetStrategy:
        """This strategy, after what has no effect was told.

        Raises:
            Unimplemented: a field that nothing here does, with what to do instead.
        """
        for name in self.changed("error"):
            given = show(getattr(self, name))
            raise Unimplemented(f"DistributedStrategy.{name} = {given} is not supported: {self.effect(name).reason}")
        for name in ("k_steps", "begin_step") if self.localsgd else ():
            if self.localsgd_configs[name] != 1:
                why = "parameters are averaged after every step from the first on"
                tell(f"DistributedStrategy.localsgd_configs: {name} has no effect: {why}")
        self.tell_idle()
        return self

    def tell_unused(self, where: str, used: Collection[str]) -> None:
        """A `Notice` for every other field that was set and does something elsewhere."""
        for name in (*self.changed("graph"), *self.changed("step")):
            if name not in used:
                tell(f"DistributedStrategy.{name} has no effect {where}")
