"""DistributeTranspilerConfig: what a transpiler is told (section 7.1)."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument, InvalidForm, NotFound, did_you_mean, one_of

PSERVER, NCCL2, COLLECTIVE = MODES = "pserver", "nccl2", "collective"
COLLECTIVE_MODES = "grad_allreduce", "local_sgd", "single_process_multi_thread"
SMALLEST_BLOCK = 8192  # elements


class DistributeTranspilerConfig:
    """What `DistributeTranspiler` does, and how.

    Attributes:
        slice_var_up: cut large parameters into blocks, so that servers have about as much each.
        split_method: a class of `parallel.transpiler.dispatch` that deals blocks to servers; None is `RoundRobin`.
        min_block_size: elements of the smallest block, at least 8192.
        mode: `"pserver"`, `"nccl2"` or `"collective"`; collective_mode: `"grad_allreduce"`, `"local_sgd"` or
            `"single_process_multi_thread"`.
        sync_mode: the mode that servers' programs name. Whether servers take all trainers' gradients together, or each
            as it comes, `transpile(sync_mode=)` decides; give both.
        runtime_split_send_recv: whole gradients are handed over, and cut on their way.
        half_async, completely_not_async: trainers meet before they pull; and servers wait for all of them.
        geo_sgd_mode, geo_sgd_need_push_nums: trainers update by themselves, and push after so many steps what has
            changed.
        enable_dc_asgd: servers correct gradients for being late (asynchronous only).
        wait_port: wait until servers can be reached, `FLAGS_rpc_deadline` milliseconds at most; among processes that
            MPI has started nobody listens at an address, and who sets it to True is told so.
        nccl_comm_num: communicators that collectives go round.
        use_hierarchical_allreduce, hierarchical_allreduce_inter_nranks: communicators for sums within groups of so
            many ranks are named in the program; sums have one order, whatever machines ranks are on, which is told.
        print_log: say what was decided.

    Raises:
        InvalidArgument: `sync_mode` and `runtime_split_send_recv` are both True (`ValueError` in Paddle), or an unknown
            mode. NotFound: a field there is not.

    Example:
        >>> config = DistributeTranspilerConfig()
        >>> config.slice_var_up, config.min_block_size, config.mode
        (True, 8192, 'pserver')
    """

    _DEFAULTS: dict[str, Any] = {
        "slice_var_up": True,
        "split_method": None,
        "min_block_size": SMALLEST_BLOCK,
        "enable_dc_asgd": False,
        "mode": PSERVER,
        "print_log": False,
        "wait_port": True,
        "sync_mode": True,
        "runtime_split_send_recv": False,
        "half_async": False,
        "completely_not_async": False,
        "geo_sgd_mode": False,
        "geo_sgd_need_push_nums": 100,
        "nccl_comm_num": 1,
        "use_hierarchical_allreduce": False,
        "hierarchical_allreduce_inter_nranks": 0,
        "collective_mode": None,
    }

    slice_var_up: bool
    split_method: Any
    min_block_size: int
    enable_dc_asgd: bool
    mode: str
    print_log: bool
    wait_port: bool
    sync_mode: bool
    runtime_split_send_recv: bool
    half_async: bool
    completely_not_async: bool
    geo_sgd_mode: bool
    geo_sgd_need_push_nums: int
    nccl_comm_num: int
    use_hierarchical_allreduce: bool
    hierarchical_allreduce_inter_nranks: int
    collective_mode: str | None

    def __init__(self) -> None:
        self.__dict__.update(self._DEFAULTS)
        self.__dict__["_given"] = frozenset()

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._DEFAULTS:
            raise NotFound(f"DistributeTranspilerConfig has no field {name!r}.{did_you_mean(name, self._DEFAULTS)}")
        if name == "mode" and value not in MODES:
            raise InvalidArgument(f"DistributeTranspilerConfig.mode is {one_of(MODES)}, got {value!r}")
        if name == "nccl_comm_num" and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise InvalidArgument(f"DistributeTranspilerConfig.nccl_comm_num is an int from 1 on, got {value!r}")
        if name == "runtime_split_send_recv" and value and self.sync_mode:
            raise InvalidArgument(
                "runtime_split_send_recv=True needs sync_mode=False: set DistributeTranspilerConfig.sync_mode first"
            )
        if name == "sync_mode" and value and self.runtime_split_send_recv:
            raise InvalidArgument("sync_mode=True needs DistributeTranspilerConfig.runtime_split_send_recv=False")
        self.__dict__[name] = value
        self.__dict__["_given"] |= {name}

    def is_given(self, name: str) -> bool:
        """Whether somebody has set a field, be it to its default."""
        return name in self.__dict__["_given"]

    def require_consistent(self) -> None:
        """What is for servers that do not wait is set for those only.

        Raises:
            InvalidForm: names the field.
        """
        if self.mode == PSERVER and self.sync_mode and self.geo_sgd_mode:
            raise InvalidForm("DistributeTranspilerConfig.geo_sgd_mode=True needs sync_mode=False")

    def __repr__(self) -> str:
        given = (f"{name}={self.__dict__[name]!r}" for name in self._DEFAULTS if self._differs(name))
        return f"DistributeTranspilerConfig({', '.join(given)})"

    def _differs(self, name: str) -> bool:
        return bool(self.__dict__[name] != self._DEFAULTS[name])
