"""From a program to the SSA graph over several devices (rules G-10 … G-15)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from workbench.errors import EnforceNotMet, InvalidArgument, NotFound, PreconditionNotMet, Unimplemented
from workbench.framework.names import EMPTY
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.roles import BACKWARD, LOSS_GRAD, OPTIMIZE
from workbench.framework.values.place import CUDAPlace, Place
from workbench.framework.values.spec import ROWS, size_of
from workbench.graph.loss import perhaps
from workbench.graph.rings import RING_OPS, refuse_inner_collectives
from workbench.graph.settings import Settings
from workbench.graph.ssa import (
    ALL_REDUCE,
    BROADCAST,
    FETCH,
    REDUCE,
    SCALE_LOSS_GRAD,
    TRAINER_BROADCAST,
    Graph,
    Node,
    Slot,
    Value,
)
from workbench.graph.strategy import BuildStrategy
from workbench.ops.distributed.collectives import C_ALLREDUCE_SUM, C_BROADCAST

_CUSTOMIZED = BuildStrategy.GradientScaleStrategy.Customized
_REDUCE_MODE = BuildStrategy.ReduceStrategy.Reduce


def build_graph(
    program: Program,
    places: Sequence[Place],
    settings: Settings,
    fetches: Sequence[str] = (),
    data_parallel: bool = True,
) -> Graph:
    """The graph of one step of `program` on `places`, before any pass.

    Args:
        data_parallel: replace the loss gradient by a scaled one and add collectives; without it (a program that
            only infers, or one device by choice) every device runs the program as it is.

    Raises:
        PreconditionNotMet: a fetched variable is in no operator (X-44).
        Unimplemented: an update inside control flow (C-6).
    """
    builder = _GraphBuilder(Graph(program, places, settings, fetches=list(fetches)), data_parallel)
    for op in program.global_block().ops:
        builder.add(op)
    builder.finish(fetches)
    return builder.graph


def written_graph(program: Program, places: Sequence[Place], settings: Settings) -> Graph:
    """The operators of `program` as they are written, on every one of `places`: for looking, not for running."""
    builder = _GraphBuilder(Graph(program, places, settings), data_parallel=False)
    for op in program.global_block().ops:
        for place in builder.everywhere:
            builder._copy(op, place)
    return builder.graph


class _GraphBuilder:
    """Adds one operator of the program after the other, on every device."""

    def __init__(self, graph: Graph, data_parallel: bool) -> None:
        self.graph, self.block = graph, graph.program.global_block()
        self.data_parallel = data_parallel
        self.everywhere = range(graph.devices)
        self.ranks = graph.devices * graph.settings.num_trainers
        self.reduces = graph.settings.reduce_strategy == _REDUCE_MODE and self.ranks > 1
        self.load = [0] * self.ranks
        self.home: dict[str, int] = {}  # variables whose newest value is on one device only, and on which

    def add(self, op: Operator) -> None:
        """The nodes of one operator, and the collectives behind it."""
        if self.data_parallel and op.role == LOSS_GRAD:
            self._scale_loss_gradient(op)
            return
        if op.record in RING_OPS and self._goes_round(op):
            return
        refuse_inner_collectives(op)
        if self.ranks > 1:
            _refuse_inner_updates(op)
        for place in self._devices_of(op):
            self._copy(op, place)
        if self.data_parallel and self.ranks > 1 and op.role & BACKWARD:
            for parameter, gradient in op.role_vars:
                self._exchange(op, parameter, gradient)

    def _goes_round(self, op: Operator) -> bool:
        """Whether an operator of a transpiled program became a collective the graph has anyway (T-30, T-31).

        What only orders streams has no node: readers come after writers in every graph.
        """
        (name,), (result,) = op.input("X"), op.output("Out")
        if op.record is C_BROADCAST and self.ranks > 1:
            self._from_trainer(op, name, result)
        elif op.record is C_ALLREDUCE_SUM and self.ranks > 1:
            maker = next((o for o in self.block.ops if any(name == gradient for _, gradient in o.role_vars)), op)
            self._sum(maker if name == result else op, name, op.role, result)
        elif name != result:
            return False
        return True

    def _from_trainer(self, op: Operator, name: str, result: str) -> None:
        """What one member of a ring has, on all of them: a trainer, or a device of this process.

        Raises:
            InvalidArgument: there is no such member. Unimplemented: a sparse gradient.
        """
        root = op.attrs["root"]
        if not 0 <= root < self.ranks:
            raise InvalidArgument(f"op {op.type!r} at {op.site}: root is in [0, {self.ranks}), got {root}")
        if self.block.var_recursive(name).spec.kind == ROWS:
            raise Unimplemented(f"op {op.type!r} at {op.site}: {name!r} is a sparse gradient, which is not broadcast")
        if self.graph.settings.num_trainers > 1:
            parts = [self._read(name, place) for place in self.everywhere]
            results = [self._write(result, place) for place in self.everywhere]
            self._collective(TRAINER_BROADCAST, op, parts, results, {"root": root})
            return
        for place in self.everywhere if name != result else ():
            self._copy(op, place)
        self._broadcast(op, result, root)

    def finish(self, fetches: Sequence[str]) -> None:
        """What the devices' own copies lack, then the fetches, at the end."""
        self._complete_copies()
        for name in fetches:
            if not self.data_parallel:
                self._read_untouched(name)
            values = [self.graph.newest[name, place] for place in self.everywhere if (name, place) in self.graph.newest]
            if not values:
                raise self._not_fetchable(name)
            self.graph.nodes.append(Node(FETCH, [v.place for v in values], [values], [], {"name": name}, 0))

    def _read_untouched(self, name: str) -> None:
        """Fetch what comes from outside though no operator reads it, as an Executor does (E-10)."""
        variable = self.block.vars.get(name)
        if variable is not None and (variable.is_data or variable.persistable):
            for place in self.everywhere:
                self._read(name, place)

    def _not_fetchable(self, name: str) -> Exception:
        what = "no op reads or writes it."
        kind: type[EnforceNotMet] = PreconditionNotMet
        if not self.block.has_var(name):
            what = f"the program has no such variable.{perhaps(name, self.block.program)}"
            kind = PreconditionNotMet if self.data_parallel else NotFound
        return kind(
            f"fetch {name!r}: {what} Only variables that are inputs or outputs of some op "
            "can be fetched; an op appended after the executor was made is not part of what it runs"
        )

    # one operator

    def _copy(self, op: Operator, place: int) -> None:
        record = op.form
        read = {slot: names for slot, names in op.operands.items() if slot not in record.named_only}
        inputs = [self._slot(read.get(s.name), s.is_list, place, self._read) for s in record.inputs]
        outputs = [self._slot(op.outputs.get(s.name), s.is_list, place, self._write) for s in record.outputs]
        self.graph.nodes.append(Node(record.type, (place,), inputs, outputs, op.call_attrs(), op.role, (op,)))

    def _slot(self, names: list[str] | None, is_list: bool, place: int, get: Any) -> Slot:
        if not names:
            return None
        values = [None if name == EMPTY else get(name, place) for name in names]
        return values if is_list else values[0]

    def _read(self, name: str, place: int) -> Value:
        newest = self.graph.newest.get((name, place))
        return newest if newest is not None else self._new(name, place, 0)

    def _write(self, name: str, place: int) -> Value:
        before = self.graph.newest.get((name, place))
        if before is None and self.block.var_recursive(name).persistable:
            before = self._new(name, place, 0)  # what the scope holds before the step
        return self._new(name, place, before.version + 1 if before else 0)

    def _new(self, name: str, place: int, version: int) -> Value:
        variable = self.block.var_recursive(name)
        value = Value(name, place, version, variable.spec, variable.persistable, variable.is_data)
        self.graph.newest[name, place] = value
        return value

    # the loss and the gradients

    def _scale_loss_gradient(self, op: Operator) -> None:
        """One constant per device where the program fills the loss gradient with 1 (G-10, B-10, B-11)."""
        (name,) = op.output_arg_names
        strategy = self.graph.settings.gradient_scale_strategy
        for place in self.everywhere if strategy != _CUSTOMIZED else ():
            attrs = {"strategy": strategy.name, "ranks": self.ranks}
            node = Node(SCALE_LOSS_GRAD, (place,), [], [self._write(name, place)], attrs, op.role, (op,))
            self.graph.nodes.append(node)

    def _exchange(self, op: Operator, parameter: str, gradient: str) -> None:
        """The collective that makes the devices' gradients one (G-11 … G-13)."""
        if gradient not in op.output_arg_names:
            return
        if self.reduces:
            rank = self._next_owner(gradient)
            owner = self.graph.owners[parameter] = self.home[gradient] = rank % self.graph.devices
            self._reduce(op, gradient, owner, rank)
        else:
            self._sum(op, gradient, op.role)

    def _sum(self, op: Operator, name: str, role: int, result: str | None = None) -> None:
        """The sum of a variable over all devices, on all of them; in its own place unless told where."""
        result = name if result is None else result
        if self.block.var_recursive(name).spec.kind == ROWS:
            self._reduce(op, name, 0, result=result)
            self._broadcast(op, result, 0)
            return
        parts = [self._read(name, place) for place in self.everywhere]
        sums = [self._write(result, place) for place in self.everywhere]
        self._collective(ALL_REDUCE, op, parts, sums, {}, role)

    def _next_owner(self, gradient: str) -> int:
        """The device, of all trainers', with the least to do so far (G-20).

        Its value is the first of the sum. Of other trainers the same is done by a device of theirs, so that nothing
        that was updated has to travel.
        """
        owner = min(range(self.ranks), key=lambda place: (self.load[place], place))
        self.load[owner] += max(size_of(self.block.var_recursive(gradient).shape), 0)
        return owner

    def _reduce(self, op: Operator, name: str, root: int, first: int = 0, result: str | None = None) -> None:
        parts = [self._read(name, place) for place in self.everywhere]
        self._collective(REDUCE, op, parts, [self._write(result or name, root)], {"root": root, "first": first})

    def _broadcast(self, op: Operator, name: str, root: int) -> None:
        source = self._read(name, root)
        others = [place for place in self.everywhere if place != root]
        self._collective(BROADCAST, op, [source], [self._write(name, place) for place in others], {"root": root})

    def _collective(
        self,
        kind: str,
        op: Operator,
        parts: list[Value],
        results: list[Value],
        attrs: dict[str, Any],
        role: int | None = None,
    ) -> None:
        attrs = {"name": parts[0].name, **attrs}
        role = op.role if role is None else role
        self.graph.nodes.append(Node(kind, self.everywhere, [parts], [results], attrs, role, (op,)))

    # Reduce mode: what follows from a gradient that is summed on its owner only

    def _devices_of(self, op: Operator) -> Sequence[int]:
        """Where an operator runs: everywhere, or on the owner of what it reads or of its `op_role_var` (G-13).

        An operator that needs values of several owners, as clipping by global norm does, runs everywhere; they
        are sent to all devices first. So are parameters that have been updated, to operators of other roles.
        """
        if not self.home:
            return self.everywhere
        if not op.role & OPTIMIZE:
            self._spread(op, (name for name in op.input_arg_names if self.block.var_recursive(name).persistable))
            return self.everywhere
        about = (*op.input_arg_names, *(gradient for _, gradient in op.role_vars))
        homes = {self.home[name] for name in about if name in self.home}
        if not homes:
            return self.everywhere
        if len(homes) == 1:
            (owner,) = homes
            self.home.update((name, owner) for name in op.output_arg_names)
            return (owner,)
        self._spread(op, op.input_arg_names)
        return self.everywhere

    def _spread(self, op: Operator, names: Iterable[str]) -> None:
        """Send values that are on one device only to all of them."""
        for name in dict.fromkeys(names):
            if name in self.home:
                self._broadcast(op, name, self.home.pop(name))

    def _complete_copies(self) -> None:
        """Send what one device has updated to all of them, where each has a copy because a forward operator writes it.

        Anything else that only its owner writes has one copy for all; on GPUs, which see no memory of each other, none.
        """
        apart = self.graph.places[0].kind == CUDAPlace.kind
        written = {(v.name, v.place) for n in self.graph.nodes if not n.is_collective for v in n.writes}
        for name in list(self.home):
            variable = self.block.vars.get(name)
            if variable is None or not variable.persistable or variable.op is None:
                continue
            if apart or all((name, place) in written for place in self.everywhere):
                self._spread(variable.op, (name,))


def _refuse_inner_updates(op: Operator) -> None:
    for block in op.blocks():
        for inner in block.ops:
            if inner.role & OPTIMIZE:
                raise Unimplemented(
                    f"op {inner.type!r} updates inside the {op.type!r} at {op.site}: updates inside control flow do "
                    "not run on several devices"
                )
            _refuse_inner_updates(inner)
