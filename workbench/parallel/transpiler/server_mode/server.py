"""The program of a server: one operator that listens, and a block for every update (T-7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from workbench.checkpoint.pieces import Extent
from workbench.errors import InvalidArgument, Unimplemented
from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.roles import OPTIMIZE, ROLE, ROLE_VAR
from workbench.framework.program.variable import Variable
from workbench.framework.values.spec import DENSE, ROWS
from workbench.ops.distributed.servers import LISTEN_AND_SERV
from workbench.ops.math.arithmetic import SCALE
from workbench.ops.math.reductions.accumulate import SUM
from workbench.parallel.transpiler.server_mode.delay import corrected
from workbench.parallel.transpiler.server_mode.layout import GEO, Layout, Served, Shard, is_update_operator
from workbench.parallel.transpiler.server_mode.rate import COUNTER, counts_steps, declare_counters, schedule_of


class OwnVariable(NamedTuple):
    """A variable of the program as one server has it.

    Attributes:
        name: what it is called there. one, shard: the block of a parameter it goes with, None if it is whole.
    """

    name: str
    one: Served | None = None
    shard: Shard | None = None

    def extent(self, variable: str, shape: Iterable[int]) -> Extent:
        """Which rows it has of the variable, whose shape is `shape`: state of one number is whole everywhere."""
        if self.one is None or self.shard is None or not self.one.is_cut or tuple(shape) != self.one.shape:
            return Extent(variable)
        return Extent(variable, self.shard.block.start, self.shard.block.stop)


class ServerProgram:
    """What one server runs.

    Args:
        origin: the program before it was transpiled.

    Attributes:
        program: what was made. kept: of each variable of the program, what the server has of it.

    Raises:
        InvalidArgument: no server of that name. Unimplemented: an update that needs gradients of several servers.
    """

    def __init__(self, origin: Program, layout: Layout, endpoint: str) -> None:
        if endpoint not in layout.endpoints:
            raise InvalidArgument(f"there is no server {endpoint!r}; the servers are {', '.join(layout.endpoints)}")
        self.origin, self.layout, self.endpoint = origin.global_block(), layout, endpoint
        self.program = Program()
        self.program.lr_schedulers = dict(origin.lr_schedulers)
        self.home = self.program.global_block()
        self.kept: dict[str, list[OwnVariable]] = {}
        self.incoming: dict[str, list[str]] = {}
        self.blocks: list[Block] = []
        self.block_of: dict[str, int] = {}
        schedule = self._schedule()
        owned = layout.of(endpoint)
        if any(not op.role_vars for op in _updates(self.origin)):
            self._update_together(owned)
        else:
            for one, shard in owned:
                self._update(one, shard, schedule)
        self._listen(owned, schedule)
        self.program.lr_schedulers = {n: s for n, s in self.program.lr_schedulers.items() if n in self.home.vars}

    # learning rates

    def _schedule(self) -> Block | None:
        """The block that computes learning rates, the first one."""
        ops = schedule_of(self.origin)
        if not ops:
            return None
        block = self._open(0)
        counts = not self.layout.waits and counts_steps(self.origin)
        for op in ops:
            for name in (*op.input_arg_names, *op.output_arg_names):
                self._declare(name, self.home, persistable=True)
            if counts and COUNTER in op.output_arg_names:
                steps = declare_counters(self.home, self.layout.trainers)
                block.append_op(SUM.type, {"X": steps}, {"Out": COUNTER}, {ROLE: op.role})
            else:
                block.append_op(op.type, op.inputs, op.outputs, op.attrs)
        return block

    # updates

    def _update(self, one: Served, shard: Shard, schedule: Block | None) -> None:
        """The block that updates one block of a parameter."""
        block = self._open(schedule.idx if schedule is not None else 0)
        self._take(block, one, shard)
        names = _Names(self, block, one, shard)
        is_corrected = self.layout.config.enable_dc_asgd and not one.is_sparse
        for op in _updates(self.origin):
            if not op.role_vars or op.role_vars[0][0] != one.name:
                continue
            instead = {}
            if is_corrected and is_update_operator(op):  # as it decays and is clipped: the last thing before the update
                (gradient,) = op.input("Grad")
                instead = {gradient: corrected(block, shard, names[gradient], self.layout.trainers)}
            self._copy(op, block, names, instead)

    def _update_together(self, owned: Sequence[tuple[Served, Shard]]) -> None:
        """One block for all parameters, of which every update needs all gradients, as clipping by their norm does."""
        block = self._open(self.blocks[0].idx if self.blocks else 0)
        for one, shard in owned:
            self._take(block, one, shard)
        by_parameter = {one.name: _Names(self, block, one, shard) for one, shard in owned}
        anywhere = next(iter(by_parameter.values()))
        for op in _updates(self.origin):
            names = by_parameter[op.role_vars[0][0]] if op.role_vars else anywhere
            self._copy(op, block, names, {})

    def _take(self, block: Block, one: Served, shard: Shard) -> None:
        """Declare a block of a parameter and its gradients, and average these."""
        kind = ROWS if one.is_sparse else DENSE
        shape = shard.block.shape
        self._add(one.name, shard.parameter, shape, one, shard, one.dtype, persistable=True)
        self._add(one.gradient, shard.gradient, shape, one, shard, one.dtype, kind, persistable=True)
        self.block_of[shard.gradient] = block.idx
        if not self.layout.is_suffixed:
            self.incoming.setdefault(one.name, []).append(shard.gradient)
            return
        parts = [f"{shard.gradient}.trainer_{i}" for i in range(self.layout.trainers)]
        for name in parts:
            self.home.create_var(name, shape, one.dtype, kind, stop_gradient=True)
        self.incoming.setdefault(one.name, []).extend(parts)
        block.append_op(SUM.type, {"X": parts}, {"Out": shard.gradient})
        share = {"scale": 1.0 / self.layout.trainers}
        block.append_op(SCALE.type, {"X": shard.gradient}, {"Out": shard.gradient}, share)

    def _copy(self, op: Operator, block: Block, names: _Names, instead: dict[str, str]) -> None:
        attrs = dict(op.attrs)
        if op.role_vars:
            attrs[ROLE_VAR] = [names.one.name, self.layout.told(names.one)]
        block.add_operator(
            op.type,
            {slot: [instead.get(name) or names[name] for name in given] for slot, given in op.inputs.items()},
            {slot: [names[name] for name in given] for slot, given in op.outputs.items()},
            attrs,
            op.site,
        )

    # variables

    def _add(
        self,
        origin: str,
        name: str,
        shape: Iterable[int],
        one: Any,
        shard: Any,
        dtype: Any,
        kind: str = DENSE,
        **flags: Any,
    ) -> None:
        self.home.create_var(name, list(shape), dtype, kind, stop_gradient=True, **flags)
        self.kept.setdefault(origin, []).append(OwnVariable(name, one, shard))

    def _declare(self, name: str, block: Block, persistable: bool) -> None:
        """A variable as it is in the program."""
        if block.find_var(name) is not None:
            return
        variable = self.origin.var(name)
        block.create_var(
            name, variable.shape, variable.dtype, variable.kind, persistable=persistable, stop_gradient=True
        )
        if persistable:
            self.kept.setdefault(name, []).append(OwnVariable(name))

    # blocks

    def _open(self, parent: int) -> Block:
        block = self.program.create_block(parent)
        self.program.rollback()
        while self.program.current_block().idx:
            self.program.rollback()
        self.blocks.append(block)
        return block

    def _listen(self, owned: Sequence[tuple[Served, Shard]], schedule: Block | None) -> None:
        layout = self.layout
        attrs = {
            "endpoint": self.endpoint,
            "pserver_id": layout.endpoints.index(self.endpoint),
            "Fanin": layout.trainers,
            "distributed_mode": layout.mode,
            "dc_asgd": layout.config.enable_dc_asgd,
            "optimize_blocks": self.blocks,
            "grad_to_block_id": [f"{name}:{number}" for name, number in self.block_of.items()],
            "sparse_grad_to_param": [f"{s.gradient}:{s.parameter}" for one, s in owned if one.is_sparse],
            "lr_decay_block_id": -1 if schedule is None else schedule.idx,
        }
        incoming = [gradient for name in layout.dealt for gradient in self.incoming.get(name, ())]
        self.home.append_op(LISTEN_AND_SERV.type, {"X": incoming}, {}, attrs)


class _Names:
    """What variables of the program are called in the block that updates one block of a parameter."""

    def __init__(self, server: ServerProgram, block: Block, one: Served, shard: Shard) -> None:
        self.server, self.block, self.one, self.shard = server, block, one, shard
        self.is_shared = sum(other is one for other, _ in server.layout.of(server.endpoint)) > 1
        self.known = {one.name: shard.parameter, one.gradient: shard.gradient}

    def __getitem__(self, name: str) -> str:
        if name not in self.known:
            self.known[name] = self._declared(name)
        return self.known[name]

    def _declared(self, name: str) -> str:
        variable = self.server.origin.var(name)
        if not variable.persistable:
            if self.block.find_var(name) is None:
                self.block.create_var(name, self._shape(variable), variable.dtype, variable.kind, stop_gradient=True)
            return name
        if self._is_state(name) and self.one.is_cut:
            own = self.shard.block.named(name) if self.is_shared else name
            shape = self._shape(variable)
            self.server._add(name, own, shape, self.one, self.shard, variable.dtype, persistable=True)
            return own
        self.server._declare(name, self.server.home, persistable=True)
        return name

    def _shape(self, variable: Variable) -> tuple[int, ...]:
        is_whole = tuple(variable.shape) == self.one.shape
        return self.shard.block.shape if is_whole else tuple(variable.shape)

    def _is_state(self, name: str) -> bool:
        """Whether updates of the parameter, and of no other, write the variable."""
        return any(name in op.output_arg_names for op in _updates(self.server.origin))


def require_gradients_together(block: Block, layout: Layout) -> None:
    """What needs the gradients of all parameters is where one server has all of them at once.

    Raises:
        Unimplemented: it is not.
    """
    op = next((op for op in _updates(block) if not op.role_vars), None)
    if op is None or layout.mode == GEO or (len(layout.endpoints) == 1 and layout.adds_up):
        return
    raise Unimplemented(
        f"op {op.type!r} at {op.site} needs the gradients of all parameters, as clipping by their global norm "
        "does, and no server has all of them at once\n"
        "  expected: one server and sync_mode=True, or a clip by value"
        f"\n  got:      {len(layout.endpoints)} servers, sync_mode={layout.adds_up}"
    )


def _updates(block: Block) -> list[Operator]:
    return [op for op in block.ops if op.role & OPTIMIZE]
