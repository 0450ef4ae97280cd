"""`DataParallel`: a model trained by several processes, each on data of its own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from workbench.dygraph.tape.arrivals import await_gradients
from workbench.errors import InvalidArgument, InvalidForm, InvalidType, PreconditionNotMet
from workbench.framework.gradmode import recording_gradients
from workbench.framework.op.recorder import current_recorder
from workbench.framework.program.guard import in_static_mode
from workbench.layers.layer import Layer
from workbench.layers.weighted.linear import Embedding
from workbench.parallel.data_parallel.buckets import MIB
from workbench.parallel.data_parallel.exchange import GradientExchange
from workbench.parallel.data_parallel.start_values import share_start_values
from workbench.parallel.groups.group import Group, is_initialized, members_of
from workbench.runtime.standing import standing


class NotConnected(PreconditionNotMet, AssertionError):
    """`DataParallel` before the processes were connected, or in static mode; Paddle asserts it."""


class DataParallel(Layer):
    """A model whose gradients are averaged over all processes while `backward` runs.

    Every process makes it, after `init_parallel_env`, and runs as many backward passes as the others. Parameters and
    buffers begin as those of process 0; buffers then are each process's own. The loss is not scaled: gradients are
    means over the processes, whatever the sizes of their batches. In a single process it is the model, with a notice.

    Args:
        layers: the model.
        strategy: accepted for Paddle's sake.
        comm_buffer_size: MiB of gradients that travel together. last_comm_buffer_size: of the last of them, which
            nothing is computed beside; small ones come sooner.
        find_unused_parameters: which parameters the loss depends on may differ from step to step; otherwise it is what
            it is in the first one. Costs an exchange of a number for every parameter.
        group: of processes; all of them unless given.

    Raises:
        AssertionError: static mode; several processes that are not connected; no parameter that is trained.
        InvalidArgument: the models of the processes differ, with the first difference.
        PeerTimeout, PeerFailed: a process does not come, or has failed.

    Example:
        >>> wb.distributed.init_parallel_env()                       # doctest: +SKIP
        >>> net = wb.DataParallel(wb.nn.Linear(10, 1))               # doctest: +SKIP
        >>> net(wb.rand([4, 10])).mean().backward()                  # doctest: +SKIP
    """

    def __init__(
        self, layers: Layer, strategy: Any = None, comm_buffer_size: float = 25, last_comm_buffer_size: float = 1,
        find_unused_parameters: bool = False, group: Group | None = None,
    ) -> None:  # fmt: skip
        _require_usable(layers)
        super().__init__()
        self._full_name = f"{layers.full_name()}_data_parallel"
        self._layers = layers
        self._syncs = True
        self._exchange: GradientExchange | None = None
        among = _group_of(group)
        if among is None:
            return
        share_start_values(layers, among.process_group)
        limits = _limit("last_comm_buffer_size", last_comm_buffer_size), _limit("comm_buffer_size", comm_buffer_size)
        self._exchange = GradientExchange(
            _trained(layers), _sparse(layers), among.process_group, *limits, bool(find_unused_parameters)
        )

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the model makes of the inputs; the next backward through it exchanges gradients.

        In what `jit.capture` records, the exchange is part of the captured step.
        """
        exchange = self._exchange if self._syncs and recording_gradients.get() else None
        if exchange is None:
            return self._layers(*inputs, **kwargs)
        recorder: Any = current_recorder()
        if not recorder.is_eager:
            recorder.average_over(exchange)
            return self._layers(*inputs, **kwargs)
        exchange.make_ready()
        outputs = self._layers(*inputs, **kwargs)
        await_gradients(exchange)
        return outputs

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, what `forward` computes has gradients that stay in this process, added to `grad`.

        The first backward of a forward outside averages all that has been added up since.

        Example:
            >>> with net.no_sync():                                  # doctest: +SKIP
            ...     net(first).backward()
            >>> net(second).backward()                               # doctest: +SKIP
        """
        before, self._syncs = self._syncs, False
        try:
            yield
        finally:
            self._syncs = before

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """That of the model: names have no prefix."""
        return self._layers.state_dict(*args, **kwargs)

    def set_state_dict(
        self, state_dict: Mapping[str, Any], use_structured_name: bool = True
    ) -> tuple[list[str], list[str]]:
        """That of the model."""
        return self._layers.set_state_dict(state_dict, use_structured_name)

    set_dict = set_state_dict
    load_dict = set_state_dict

    def scale_loss(self, loss: Any) -> Any:
        """`loss` as it is: gradients are averaged, the loss need not be scaled. For programs of Paddle 1.x."""
        return loss

    def apply_collective_grads(self) -> None:
        """Nothing: `backward` has averaged the gradients. For programs of Paddle 1.x."""


def _require_usable(layers: Any) -> None:
    if in_static_mode():
        raise NotConnected("DataParallel is for dynamic mode; in static mode use ParallelExecutor(num_trainers=…)")
    if not isinstance(layers, Layer):
        raise InvalidType(f"DataParallel takes a Layer, got {type(layers).__name__}")
    if not _trained(layers):
        raise InvalidForm("DataParallel: the model has no parameter that is trained, so there is nothing to exchange")


def _group_of(group: Group | None) -> Group | None:
    """Those the gradients are averaged over, None if there is only one.

    Raises:
        NotConnected: there are several, and `init_parallel_env` has not been called.
    """
    if standing().size == 1:
        warnings.warn(
            "DataParallel: this process was started alone, so the model is trained by it alone; "
            "`workbench launch -n 2 script.py` starts two",
            stacklevel=3,
        )
        return None
    if not is_initialized():
        raise NotConnected("call distributed.init_parallel_env() before DataParallel; it connects the processes")
    among = members_of(group)
    if among is None:
        raise InvalidArgument(f"this process is no member of group {group.id if group else 0}")
    return among if among.nranks > 1 else None


def _trained(layers: Layer) -> Sequence[Any]:
    return [parameter for parameter in layers.parameters() if not parameter.stop_gradient]


def _sparse(layers: Layer) -> set[int]:
    tables = [layer for layer in layers.sublayers(include_self=True) if isinstance(layer, Embedding)]
    return {id(table.weight) for table in tables if table.has_sparse_gradient}


def _limit(name: str, size: Any) -> int:
    if isinstance(size, bool) or not isinstance(size, int | float) or size < 0:
        raise InvalidArgument(f"{name} is a number of MiB from 0 on, got {size!r}")
    return int(size * MIB)
