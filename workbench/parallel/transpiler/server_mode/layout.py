"""What lies on which server: parameters, their gradients, the blocks of both, and what each is called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet
from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.roles import BACKWARD, OPTIMIZE
from workbench.framework.values.dtype import DType
from workbench.framework.values.spec import ROWS
from workbench.ops.index.composed.labelled import LOOKUPS
from workbench.ops.index.embedding import DENSIFY
from workbench.ops.math.reductions.accumulate import SUM
from workbench.ops.update.gradient_clip import clip_rows, multiply_rows
from workbench.parallel.transpiler.blocks import TensorBlock, cut
from workbench.parallel.transpiler.config import DistributeTranspilerConfig
from workbench.parallel.transpiler.dispatch import PSDispatcher, RoundRobin

SYNC, ASYNC, HALF_ASYNC, GEO = range(4)
_BY_ROWS = (SUM, clip_rows, multiply_rows, DENSIFY)


class Shard(NamedTuple):
    """A block of a parameter, with its gradient, on its server.

    Attributes:
        parameter, gradient: what the server calls them.
    """

    parameter: str
    gradient: str
    block: TensorBlock
    endpoint: str

    @property
    def name(self) -> str:
        """What dispatchers know it by."""
        return self.gradient


@dataclass(frozen=True)
class Served:
    """A parameter that servers update.

    Attributes:
        name, gradient: of the variables in the program; is_sparse: the gradient is one of rows.
        is_table: trainers do not have it, they pull the rows of a batch.
        shards: its blocks in order.
    """

    name: str
    gradient: str
    shape: tuple[int, ...]
    dtype: DType
    is_sparse: bool
    is_table: bool
    shards: tuple[Shard, ...]

    @property
    def is_cut(self) -> bool:
        return len(self.shards) > 1

    @property
    def endpoints(self) -> list[str]:
        """The server of every block."""
        return [shard.endpoint for shard in self.shards]

    @property
    def rows(self) -> list[int]:
        """How many rows, of a vector how many elements, each block has."""
        return [shard.block.stop - shard.block.start for shard in self.shards]


@dataclass(frozen=True)
class Layout:
    """A program dealt to servers.

    Attributes:
        served: the parameters in the order of their updates. endpoints: the servers.
        dealt: their names in the order in which they were dealt to the servers.
        trainer, trainers: which one this is, of how many.
        mode: what the program of a server says of how it takes gradients, as Paddle 1.8.5 writes it by
            `config.sync_mode`: SYNC, ASYNC, HALF_ASYNC or GEO. Beside GEO, `adds_up` decides.
        waits: whether trainers meet at barriers (`transpile(sync_mode=)`).
    """

    served: tuple[Served, ...]
    dealt: tuple[str, ...]
    endpoints: list[str]
    trainer: int
    trainers: int
    mode: int
    waits: bool
    config: DistributeTranspilerConfig

    @property
    def adds_up(self) -> bool:
        """Whether a server waits for the gradients of all trainers and applies their mean; else each as it comes."""
        is_alone = self.trainers == 1 and self.mode == SYNC
        return self.waits or self.config.completely_not_async or is_alone

    @property
    def is_suffixed(self) -> bool:
        """Whether a gradient bears the number of its trainer on its way (T-4): if a server adds up several."""
        return self.trainers > 1 and self.adds_up

    def sent(self, name: str, trainer: int | None = None) -> str:
        """What a gradient, or a block of one, is called on its way."""
        number = self.trainer if trainer is None else trainer
        return f"{name}.trainer_{number}" if self.is_suffixed else name

    def told(self, one: Served) -> str:
        """What the gradient of a parameter is called in the program of this trainer."""
        is_whole = one.is_cut or self.config.runtime_split_send_recv
        return one.gradient if is_whole else self.sent(one.gradient)

    def of(self, endpoint: str) -> list[tuple[Served, Shard]]:
        """What a server has, in the order of the parameters."""
        return [(one, shard) for one in self.served for shard in one.shards if shard.endpoint == endpoint]


def laid_out(
    program: Program,
    config: DistributeTranspilerConfig,
    endpoints: list[str],
    trainer: int,
    trainers: int,
    waits: bool,
) -> Layout:
    """Decide what lies where.

    Raises:
        PreconditionNotMet: nothing is updated in the program.
    """
    pairs = updated_pairs(program)
    if not pairs:
        raise PreconditionNotMet("the program updates no parameter: transpile it after optimizer.minimize(loss)")
    if not config.slice_var_up:  # as Paddle: so that no server gets all the large ones
        order = np.random.RandomState(program.random_seed).permutation(len(pairs))
        dealt_first = [pairs[i] for i in order]
    else:
        dealt_first = pairs
    dispatcher = _dispatcher(config, endpoints)
    by_name = {}
    for name, gradient in dealt_first:
        by_name[name] = _served(program.global_block(), name, gradient, config, endpoints, dispatcher)
    served = tuple(by_name[name] for name, _ in pairs)
    return Layout(served, tuple(by_name), endpoints, trainer, trainers, _mode(config), waits, config)


def updated_pairs(program: Program) -> list[tuple[str, str]]:
    """Parameters with their gradients, in the order of the updates (T-3)."""
    return [pair for op in updates_of(program) for pair in op.role_vars[:1]]


def updates_of(program: Program) -> list[Operator]:
    """The operators that replace a parameter."""
    return [op for op in program.global_block().ops if is_update_operator(op)]


def is_update_operator(op: Operator) -> bool:
    """Whether an operator is the update of a parameter."""
    return bool(op.role & OPTIMIZE and op.role_vars and op.record.update is not None)


def _mode(config: DistributeTranspilerConfig) -> int:
    if config.sync_mode or config.completely_not_async:
        return SYNC
    if config.geo_sgd_mode:
        return GEO
    return ASYNC if config.runtime_split_send_recv else HALF_ASYNC


def _dispatcher(config: DistributeTranspilerConfig, endpoints: Sequence[str]) -> PSDispatcher:
    method = config.split_method or RoundRobin
    if not (isinstance(method, type) and issubclass(method, PSDispatcher)):
        raise InvalidType(f"DistributeTranspilerConfig.split_method is a sub-class of PSDispatcher, got {method!r}")
    return method(endpoints)


def _served(
    block: Block,
    name: str,
    gradient: str,
    config: DistributeTranspilerConfig,
    endpoints: Sequence[str],
    dispatcher: PSDispatcher,
) -> Served:
    parameter, grad = block.var(name), block.var(gradient)
    is_sliced = config.slice_var_up and all(goes_by_elements(op) for op in _updating(block, name))
    blocks = cut(parameter.shape, len(endpoints), config.min_block_size, is_sliced)
    shards = [Shard(one.named(name), one.named(gradient), one, "") for one in blocks]
    placed = [
        shard._replace(endpoint=endpoint)
        for shard, endpoint in zip(shards, _dealt(dispatcher, shards, endpoints), strict=True)
    ]
    is_sparse = grad.kind == ROWS
    is_table = is_sparse and not config.geo_sgd_mode and _is_only_looked_up(block, name)
    return Served(name, gradient, tuple(parameter.shape), parameter.dtype, is_sparse, is_table, tuple(placed))


def _dealt(dispatcher: PSDispatcher, shards: Sequence[Shard], endpoints: Sequence[str]) -> list[str]:
    chosen = list(dispatcher.dispatch(shards))
    wrong = [endpoint for endpoint in chosen if endpoint not in endpoints]
    if wrong or len(chosen) != len(shards):
        raise InvalidArgument(
            f"{type(dispatcher).__name__}.dispatch gives one of the servers for each variable\n"
            f"  expected: {len(shards)} of {list(endpoints)}\n  got:      {chosen}"
        )
    return chosen


def _updating(block: Block, name: str) -> Iterator[Operator]:
    """What happens to a gradient until the parameter is updated, the update included."""
    yield from (op for op in block.ops if op.role & OPTIMIZE and any(name == one for one, _ in op.role_vars))


def goes_by_elements(op: Operator) -> bool:
    """Whether an operator does with a part of its operands what it does with the whole; what takes norms does not."""
    record = op.record
    return record.is_elementwise or record in _BY_ROWS or record.update is not None


def _is_only_looked_up(block: Block, name: str) -> bool:
    return all(op.record in LOOKUPS for op in readers_of(block, name))


def readers_of(block: Block, name: str) -> Iterator[Operator]:
    """The operators of the forward that read a variable."""
    yield from (op for op in _forward(block.ops) if name in op.input_arg_names)


def _forward(ops: Iterable[Operator]) -> Iterator[Operator]:
    yield from (op for op in ops if not op.role & (BACKWARD | OPTIMIZE))
