"""BuildStrategy: what a graph is built and optimised for.

A strategy may be changed until something is compiled with it. Then settings that contradict each other are refused,
those without effect here are told once, and what remains is decided into `Settings`, which the builder and the passes
read. A default never contradicts anything: it yields.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workbench.config import get_flag
from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet, Unimplemented
from workbench.framework.notice import tell
from workbench.graph.options import Option, Options, member, optional, show, switch, text, texts, whole
from workbench.graph.settings import GradientScaleStrategy, ReduceStrategy, Settings

_ALL_REDUCE, _REDUCE = ReduceStrategy.AllReduce, ReduceStrategy.Reduce

_NO_KERNEL = "no kernel here fuses these operators; they run one after the other with the same results"
_ONE_COMMUNICATOR = "there is no NCCL or BKCL among CPU devices, which reduce in shared memory"
_NO_PROCESSES = (
    "several trainers need a process group, which there is when they are started together: workbench launch -n 2 "
    "train.py, or mpiexec -n 2 python -m mpi4py train.py"
)
_LONELY = "set_flags({'FLAGS_allow_lonely_trainer': True}) keeps only the gradient scale 1/(num_trainers * devices)"


class BuildStrategy(Options):
    """What the graph of a program is built and optimised for.

    Every field has a default, a type that is checked when it is set, and an effect, see `BuildStrategy.effect(name)`.
    It can be changed until it is first compiled with; most fields then refuse. `copy.copy` gives one that can
    be changed again.

    Some fields are decided at compile time if they were never set: `fuse_all_reduce_ops` reads True, and is on except
    in Reduce mode; `fuse_broadcast_ops` reads True, and is on in Reduce mode only; `fuse_all_optimizer_ops`,
    `fused_attention` and `memory_optimize` read None (which is false in a condition) and are on, the first except in
    Reduce mode, as all three leave every bit of the results as it is.

    Example:
        >>> wb.enable_static()
        >>> strategy = static.BuildStrategy()
        >>> strategy.reduce_strategy = static.BuildStrategy.ReduceStrategy.Reduce
        >>> strategy.gradient_scale_strategy = static.BuildStrategy.GradientScaleStrategy.WeightedBySamples
    """

    __slots__ = ("_passes",)

    ReduceStrategy = ReduceStrategy
    GradientScaleStrategy = GradientScaleStrategy

    reduce_strategy = Option(
        _ALL_REDUCE,
        member(ReduceStrategy),
        "graph",
        "Who gets the summed gradients: all devices, or the one that owns the parameter",
    )
    gradient_scale_strategy = Option(
        GradientScaleStrategy.CoeffNumDevice,
        member(GradientScaleStrategy),
        "graph",
        "What the loss gradient of each device starts from",
    )
    debug_graphviz_path = Option(
        "",
        text(),
        "graph",
        "Start of the names of three Graphviz files that are written (_original_graph …); none if ''",
    )
    enable_sequential_execution = Option(False, switch(), "graph", "Chains all operators in program order")
    fix_op_run_order = Option(False, switch(), "graph", "Same as enable_sequential_execution")
    sequential_run = Option(False, switch(), "graph", "Same as enable_sequential_execution")
    fuse_elewise_add_act_ops = Option(False, switch(), "graph", "Makes one operation of a chain of element-wise ones")
    enable_auto_fusion = Option(False, switch(), "graph", "Same as fuse_elewise_add_act_ops")
    fuse_bn_act_ops = Option(False, switch(), "graph", "Makes one operation of batch_norm and the activation after it")
    fuse_bn_add_act_ops = Option(
        True, switch(), "graph", "Makes one operation of batch_norm, an addition and the activation after them"
    )
    fused_attention = Option(
        None,
        optional(switch()),
        "graph",
        "Makes one operation of the products and the softmax of attention, which keeps no scores. None: where that is "
        "quicker, for 256 keys and more in float32; the results are the same bits",
    )
    winograd = Option(
        True,
        switch(),
        "graph",
        "Computes convolutions of 3 x 3 pixels with strides of 1 after Winograd where that is quicker; bits differ, so "
        "`exact` leaves it out",
    )
    fuse_all_reduce_ops = Option(
        True,
        optional(switch()),
        "graph",
        "All-reduces many gradients at once. Not in Reduce mode; None: as if it had never been set",
        exempt=True,
    )
    fuse_all_optimizer_ops = Option(
        None,
        optional(switch()),
        "graph",
        "Updates many parameters in one operation. None: on, except in Reduce mode; the results are the same bits",
    )
    fuse_broadcast_ops = Option(
        True,
        optional(switch()),
        "graph",
        "Broadcasts many variables at once. In Reduce mode only; None: as if it had never been set",
    )
    sync_batch_norm = Option(
        False, switch(), "graph", "batch_norm takes its statistics over all devices instead of each its own"
    )
    memory_optimize = Option(
        None,
        optional(switch()),
        "graph",
        "Values that are not needed at the same time share memory. None: on",
        exempt=True,
    )
    enable_inplace = Option(
        True, switch(), "graph", "Results are written over inputs that nobody reads any more", exempt=True
    )
    exact = Option(
        False, switch(), "graph", "Leaves only the passes after which a step computes the same bits as without them"
    )
    num_trainers = Option(
        1, whole(1), "error", f"The processes that train together; {_NO_PROCESSES}. {_LONELY}", exempt=True
    )
    trainer_id = Option(0, whole(0), "error", f"The number of this process; {_NO_PROCESSES}", exempt=True)
    trainers_endpoints = Option[tuple[str, ...]](
        (),
        texts(tuple, "a list of 'host:port'"),
        "error",
        f"The processes, whose number is num_trainers if that is not set; assign a whole list. {_NO_PROCESSES}",
        exempt=True,
    )
    use_hierarchical_allreduce = Option(
        False,
        switch(),
        "notice",
        "between machines only their leaders exchange anyway, and what travels are no sums of some devices: bits would "
        "depend on how trainers lie on machines",
        exempt=True,
    )
    async_mode = Option(
        False,
        switch(),
        "notice",
        "the devices of a trainer always make the same step, so that runs can be repeated; whether trainers wait for "
        "each other is in the programs that a fleet with servers makes",
        exempt=True,
    )
    is_distribution = Option(
        False,
        switch(),
        "notice",
        "programs for parameter servers are known by their send and recv operators",
        exempt=True,
    )
    hierarchical_allreduce_inter_nranks = Option(
        0, whole(0), "notice", "it only counts for use_hierarchical_allreduce", exempt=True
    )
    nccl_comm_num = Option(1, whole(1), "notice", _ONE_COMMUNICATOR, exempt=True)
    bkcl_comm_num = Option(1, whole(1), "notice", _ONE_COMMUNICATOR, exempt=True)
    remove_unnecessary_lock = Option(True, switch(), "notice", "there are no such locks here")
    enable_backward_optimizer_op_deps = Option(
        True,
        switch(),
        "notice",
        "updates always wait for all gradients, so that a step applies whole or not at all",
    )
    cache_runtime_context = Option(False, switch(), "notice", "everything a step needs is always prepared beforehand")
    enable_addto = Option(False, switch(), "notice", "gradients are added up by sum operators, in place where possible")
    fuse_adamw = Option(False, switch(), "notice", "fuse_all_optimizer_ops also covers AdamW")
    fuse_relu_depthwise_conv = Option(False, switch(), "notice", _NO_KERNEL)
    fuse_gemm_epilogue = Option(False, switch(), "notice", _NO_KERNEL)
    fused_feedforward = Option(False, switch(), "notice", _NO_KERNEL)
    build_cinn_pass = Option(False, switch(), "notice", "there is no CINN compiler here")
    allow_cuda_graph_capture = Option(False, switch(), "notice", "steps of GPUs become CUDA graphs wherever they can")
    mkldnn_enabled_op_types = Option[frozenset[str]](
        frozenset(), texts(frozenset, "a set of op types"), "notice", "oneDNN is not used here"
    )

    def __init__(self) -> None:
        super().__init__()
        self._passes: list[Callable[..., Any]] = []

    @property
    def passes(self) -> tuple[Callable[..., Any], ...]:
        """The passes that were appended, in order."""
        return tuple(self._passes)

    def append_pass(self, pass_: Callable[..., Any]) -> None:
        """Add a pass of your own behind the fusing ones: a callable that takes the graph and edits it.

        Raises:
            InvalidType: it cannot be called. PreconditionNotMet: something was compiled with the strategy.
        """
        if self.frozen:
            raise self._refusal("append_pass()")
        if not callable(pass_):
            raise InvalidType(f"BuildStrategy.append_pass\n  expected: a callable\n  got:      {pass_!r}")
        self._passes.append(pass_)

    def set_trainers(self, num_trainers: int, trainer_id: int) -> None:
        """What an executor was told about its process goes before the strategy's own fields, with a notice.

        Raises:
            InvalidArgument: one is not a whole number or out of range; both fields are then as before.
        """
        new = {"num_trainers": num_trainers, "trainer_id": trainer_id}
        checked = {name: self.OPTIONS[name].take(type(self).__name__, value) for name, value in new.items()}
        tell(f"num_trainers={num_trainers}, trainer_id={trainer_id} of the executor replace those of the BuildStrategy")
        self._give(checked)

    def freeze(self, devices: int = 1, process_group: bool = False) -> Settings:
        """`resolved()`, after which most fields refuse to change; settings without effect are told now, once.

        Raises:
            see `resolved`; the strategy can then still be changed.
        """
        settings = self.resolved(devices, process_group)
        self.tell_idle()
        self._frozen = True
        return settings

    def _finalize_strategy_and_create_passes(self) -> tuple[Callable[..., Any], ...]:
        """Paddle's name for freezing it without an executor.

        Returns:
            the passes that were appended.
        """
        _check_conflicts(self)
        self._frozen = True
        return self.passes

    def resolved(self, devices: int = 1, process_group: bool = False) -> Settings:
        """What the builder and the passes go by.

        Args:
            devices: of this process. process_group: whether there is one that connects the trainers.

        Raises:
            InvalidArgument: explicit settings contradict each other; names both.
            PreconditionNotMet: several trainers without a process group.
            Unimplemented: a setting that nothing here does; says what to do instead.
        """
        _check_conflicts(self)
        trainers = self.trainers
        _check_supported(self, trainers, process_group)
        reduces = self.reduce_strategy is _REDUCE and devices * trainers > 1  # G-14
        return Settings(
            **{name: getattr(self, name) for name in _AS_THEY_ARE},
            reduce_strategy=_REDUCE if reduces else _ALL_REDUCE,
            num_trainers=trainers,
            fuse_all_reduce_ops=bool(self.fuse_all_reduce_ops) and not reduces,
            fuse_all_optimizer_ops=self.fuse_all_optimizer_ops is not False and not reduces,
            fuse_broadcast_ops=bool(self.fuse_broadcast_ops) and reduces,
            memory_optimize=self.memory_optimize is not False,
        )

    def idle(self) -> dict[str, str]:
        """The fields that were set and have no effect, with the reason."""
        notices = super().idle()
        if self.is_set("fuse_broadcast_ops") and self.fuse_broadcast_ops and self.reduce_strategy is _ALL_REDUCE:
            notices["fuse_broadcast_ops"] = "only Reduce mode broadcasts"
        return notices

    def __copy__(self) -> BuildStrategy:
        copied = super().__copy__()
        copied._passes = list(self._passes)
        return copied

    @property
    def trainers(self) -> int:
        """How many processes train together: `num_trainers`, or one for each of `trainers_endpoints`."""
        if self.is_set("num_trainers") or not self.trainers_endpoints:
            return self.num_trainers
        return len(self.trainers_endpoints)


_DECIDED = {
    "reduce_strategy", "num_trainers", "fuse_all_reduce_ops", "fuse_all_optimizer_ops", "fuse_broadcast_ops",
    "memory_optimize",
}  # fmt: skip
_AS_THEY_ARE = tuple(name for name in Settings.__dataclass_fields__ if name not in _DECIDED)


@dataclass(frozen=True)
class _Conflict:
    """Two settings that cannot both be what the user wants."""

    first: str
    is_: Any
    second: str
    be: Any
    why: str

    def among(self, strategy: BuildStrategy) -> bool:
        pairs = ((self.first, self.is_), (self.second, self.be))
        return all(strategy.is_set(name) and getattr(strategy, name) == value for name, value in pairs)


_OWNED = "in Reduce mode each gradient goes to the device that owns the parameter, "
_CONFLICTS = (
    _Conflict("reduce_strategy", _REDUCE, "fuse_all_reduce_ops", True, _OWNED + "there is no all-reduce"),
    _Conflict("reduce_strategy", _REDUCE, "fuse_all_optimizer_ops", True, _OWNED + "no device updates all"),
    _Conflict("reduce_strategy", _ALL_REDUCE, "fuse_broadcast_ops", True, "only Reduce mode broadcasts"),
)


def _check_conflicts(strategy: BuildStrategy) -> None:
    for c in _CONFLICTS:
        if c.among(strategy):
            raise _contradiction(strategy, c.first, c.second, c.why)
    count = len(strategy.trainers_endpoints)
    if count and strategy.num_trainers != count and strategy.is_set("num_trainers"):
        raise _contradiction(strategy, "num_trainers", "trainers_endpoints", "there is one endpoint for each trainer")
    if strategy.trainer_id >= strategy.trainers:
        why = f"trainers are numbered from 0, and there {'is 1' if strategy.trainers == 1 else 'are fewer'}"
        raise _contradiction(strategy, "trainer_id", "num_trainers", why)


def _contradiction(strategy: BuildStrategy, first: str, second: str, why: str) -> InvalidArgument:
    one, other = (f"{name} = {show(getattr(strategy, name))}" for name in (first, second))
    return InvalidArgument(f"BuildStrategy: {one} contradicts {other}: {why}")


def _check_supported(strategy: BuildStrategy, trainers: int, process_group: bool) -> None:
    if trainers > 1 and not process_group and not get_flag("FLAGS_allow_lonely_trainer"):
        raise PreconditionNotMet(f"BuildStrategy: num_trainers = {trainers}: {_NO_PROCESSES}. {_LONELY}")
    for name in strategy.changed("error"):
        if name not in ("num_trainers", "trainer_id", "trainers_endpoints"):
            given, reason = show(getattr(strategy, name)), strategy.effect(name).reason
            raise Unimplemented(f"BuildStrategy.{name} = {given} is not supported: {reason}")
