"""The reverse walk: appends one `<type>_grad` operator per forward operator, and sums where gradients meet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from workbench.autodiff.reach import GradientReach, Key, Overwrites, Use, find_reach
from workbench.framework.names import EMPTY, grad_name
from workbench.framework.op.grad_op import receiver_slots
from workbench.framework.op.record import Op, grad_slot
from workbench.framework.program.block import Block
from workbench.framework.program.infer import infer_specs
from workbench.framework.program.operator import Operator
from workbench.framework.program.roles import BACKWARD, ROLE
from workbench.framework.program.variable import Variable
from workbench.framework.values.spec import ROWS, Spec
from workbench.ops.index.embedding import DENSIFY
from workbench.ops.math.reductions.accumulate import SUM
from workbench.ops.tensor.creation import FILL_ANY_LIKE

GradMaker = Callable[["Walk", Use], None]
Seeds = Sequence[tuple[str, str]]
GRAD_MAKERS: dict[str, GradMaker] = {}


def grad_maker(record: Op) -> Callable[[GradMaker], GradMaker]:
    """Give an op (control flow) its own way of appending its backward operator."""

    def install(maker: GradMaker) -> GradMaker:
        GRAD_MAKERS[record.type] = maker
        return maker

    return install


def is_differentiable(op: Operator) -> bool:
    """Whether an operator can pass gradients on."""
    return op.record.differentiable or op.type in GRAD_MAKERS


class Walk:
    """One reverse walk over the operators of a block.

    Attributes:
        source: the block whose operators are differentiated.
        block: the block that backward operators are appended to.
        reach: what is to be done, from `find_reach`.
        parts: gradients that arrived at a value so far.
        producer: the operator that writes a gradient, by the gradient's name.
    """

    def __init__(self, source: Block, into: Block, reach: GradientReach) -> None:
        self.source, self.block, self.reach = source, into, reach
        self.parts: dict[Key, list[str]] = {}
        self.done: dict[Key, str] = {}
        self.producer: dict[str, Operator] = {}

    def run(self, seeds: Seeds) -> None:
        """Walk back from `seeds`, (variable, its gradient)."""
        for name, given in seeds:
            key = self.reach.key(name)
            self.parts.setdefault(key, []).append(given)
            if self.reach.count[key]:
                self.reach.count[key] += 1
        for use in self.reach.steps:
            maker = GRAD_MAKERS.get(use.op.type, append_grad_op)
            maker(self, use)

    def gradient(self, key: Key) -> str | None:
        """The complete gradient of a value, summing its parts now if there are several (P-31)."""
        if key in self.done:
            return self.done[key]
        parts = self.parts.get(key)
        if not parts:
            return None
        self.done[key] = parts[0] if len(parts) == 1 else self._sum(key[0], parts)
        return self.done[key]

    def arriving(self, key: Key, near: Operator) -> str | None:
        """`gradient` for the backward operator of `near`: dense, as only sums and updates take sparse ones."""
        grad = self.gradient(key)
        if grad is None:
            return None
        given = self.block.var_recursive(grad)
        if given.kind != ROWS:
            return grad
        target = self.fresh(grad + "@DENSE")
        self.block.add_var(Variable(self.block, target, given.shape, given.dtype))
        self.append(DENSIFY.type, {"X": [grad]}, {"Out": [target]}, {}, near)
        return target

    def receive(self, name: str, key: Key, spec: Spec | None = None) -> str:
        """Name (and declare) the variable that takes the next gradient of a value."""
        variable = self.source.var_recursive(name)
        target = grad_name(name)
        if self.reach.count[key] > 1:
            k = len(self.parts.get(key, ()))
            target = f"{target}@RENAME@block{self.source.idx}@{k}"
        target = self.fresh(target)
        shape, dtype, kind = spec or Spec(variable.shape, variable.dtype)
        self.block.add_var(Variable(self.block, target, shape, dtype, kind))
        self.parts.setdefault(key, []).append(target)
        return target

    def fresh(self, name: str) -> str:
        """`name`, or with `grad/` in front as often as it takes to be new (P-8)."""
        while self.block.find_var(name) is not None:
            name = "grad/" + name
        return name

    def append(
        self,
        type: str,
        inputs: dict[str, list[str]],
        outputs: dict[str, list[str]],
        attrs: dict[str, Any],
        near: Operator,
    ) -> Operator:
        """Append a backward operator; errors in it point at the forward operator's line."""
        op = self.block.add_operator(type, inputs, outputs, {**attrs, ROLE: BACKWARD}, near.site)
        for name in op.output_arg_names:
            self.producer[name] = op
        return op

    def _sum(self, name: str, parts: list[str]) -> str:
        first = self.block.var_recursive(parts[0])
        kinds = {self.block.var_recursive(p).kind for p in parts}
        kind = first.kind if len(kinds) == 1 else "dense"
        target = self.fresh(grad_name(name))
        self.block.add_var(Variable(self.block, target, first.shape, first.dtype, kind))
        near = self.producer.get(parts[-1], self.block.ops[-1])
        self.append(SUM.type, {"X": list(parts)}, {"Out": [target]}, {}, near)
        return target


def differentiate(
    source: Block,
    seeds: Seeds,
    sources: Collection[str] | None,
    no_grad: Collection[str] = (),
    into: Block | None = None,
    ops: Sequence[Operator] | None = None,
) -> Walk:
    """Append the backward operators of a block.

    Args:
        source: the block to differentiate.
        seeds: (variable, name of its given gradient); gradients of a variable that occurs twice are added.
        sources: names gradients are wanted for; None means every leaf.
        no_grad: names no gradient flows through.
        into: where backward operators go; `source` by default.
        ops: the operators to consider; all of `source` by default.

    Returns:
        the finished walk; ask it with `gradient_of`.
    """
    candidates = source.ops if ops is None else ops
    reach = find_reach(
        list(candidates), [name for name, _ in seeds], sources, no_grad, source.var_recursive, is_differentiable
    )
    overwrites = Overwrites(source)
    for use in reach.steps:
        overwrites.refuse(use.op)
    walk = Walk(source, into or source, reach)
    walk.run(seeds)
    return walk


def gradient_of(walk: Walk, name: str) -> str | None:
    """Name of the gradient of a leaf (or of the newest version of a variable), None if none arrived."""
    return walk.gradient((name, 0)) or walk.gradient(walk.reach.key(name))


def append_grad_op(walk: Walk, use: Use) -> None:
    """Append `<type>_grad` for one forward operator."""
    op = use.op
    out_grads = _output_gradients(walk, use)
    if not out_grads:
        return
    record = op.record
    inputs = {slot: names for slot, names in op.inputs.items() if slot not in record.shaped_like}
    inputs.update(
        {s.name: op.outputs[s.name] for s in record.outputs if s.name in record.saved and s.name in op.outputs}
    )
    inputs.update(out_grads)
    attrs = op.call_attrs()
    specs = None
    if record.grad_infer is not None:
        grad_record = _grad_record(op)
        specs = dict(
            zip(
                (s.name for s in grad_record.outputs),
                infer_specs(grad_record, walk.block, inputs, attrs, op.site),
                strict=True,
            )
        )
    outputs = {}
    for slot in receiver_slots(record):
        names = [_receiver(walk, use, n, specs and specs[grad_slot(slot.name)]) for n in op.inputs.get(slot.name, ())]
        if any(n != EMPTY for n in names):
            outputs[grad_slot(slot.name)] = names
    walk.append(record.grad_type, inputs, outputs, attrs, op)


def _grad_record(op: Operator) -> Any:
    from workbench.framework.op.record import find_op

    return find_op(op.record.grad_type)


def _receiver(walk: Walk, use: Use, name: str, spec: Any) -> str:
    key = use.reads.get(name)
    if key is None or key not in walk.reach.requires:
        return EMPTY
    return walk.receive(name, key, spec if isinstance(spec, Spec) else None)


def _output_gradients(walk: Walk, use: Use) -> dict[str, list[str]]:
    """`{Out@GRAD: [names]}` of the outputs that have a gradient; list slots are filled up with zeros."""
    by_slot: dict[str, list[str]] = {}
    for slot, names in use.op.outputs.items():
        grads = [walk.arriving(use.writes[n], use.op) if n != EMPTY else None for n in names]
        if any(g is not None for g in grads):
            by_slot[grad_slot(slot)] = [g or _zeros(walk, n, use.op) for g, n in zip(grads, names, strict=True)]
    return by_slot


def gradient_or_zeros(walk: Walk, use: Use, name: str) -> str:
    """The gradient of an output; zeros, if none arrives."""
    return walk.arriving(use.writes[name], use.op) or _zeros(walk, name, use.op)


def _zeros(walk: Walk, name: str, near: Operator) -> str:
    target = walk.fresh(grad_name(name) + "@ZERO")
    like = walk.block.var_recursive(name)
    walk.block.add_var(Variable(walk.block, target, like.shape, like.dtype))
    attrs = {"value": 0.0, "dtype": like.dtype.name}
    walk.append(FILL_ANY_LIKE.type, {"X": [name]}, {"Out": [target]}, attrs, near)
    return target


def names_of(values: Iterable[Variable | str] | None) -> list[str]:
    """Names of Variables or names."""
    return [v if isinstance(v, str) else v.name for v in values or ()]
