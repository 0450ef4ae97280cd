"""What is known of every value of a graph once the shapes of the feeds are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from workbench.errors import InvalidArgument, ShapeError
from workbench.executors.planning.sizes.size import Size, example_of
from workbench.executors.planning.sizes.unknowns import Unsettled
from workbench.framework.op.record import Cost, Op, find_op, flat
from workbench.framework.outside import is_from_outside
from workbench.framework.program.infer import infer
from workbench.framework.site import Site
from workbench.framework.values.spec import DENSE, Spec, broadcast_shapes, size_of
from workbench.graph.ssa import (
    FETCH,
    FUSED_ELEMENTWISE,
    FUSED_UPDATE,
    SCALE_LOSS_GRAD,
    Graph,
    Node,
    Slot,
    Value,
    values_of,
)

Specs = dict[Value, Spec]
_NOTHING = Cost(0, 0)


def is_static(spec: Spec) -> bool:
    """Whether memory for the value can be set aside before the step runs."""
    return spec.kind == DENSE and -1 not in spec.shape


class Shapes:
    """Specs and costs of one graph for given feeds.

    Attributes:
        specs: of every value; one with an unknown dimension, or that is not dense, is known only when it runs.
        costs: of every node; where sizes are open (`sizes`), for the example.
        formulas: the same as they depend on sizes.
    """

    def __init__(self, graph: Graph, given: Mapping[tuple[str, int], Spec]) -> None:
        self.specs: Specs = {}
        self.formulas: dict[Node, Cost] = {}
        self._known: dict[Any, tuple[tuple[Any, ...], Cost]] = {}
        self._joined: set[Any] = set()
        for node in graph.nodes:
            for value in values_of(node.inputs):
                if value not in self.specs:  # nothing writes it: a feed, or what the scope holds
                    self.specs[value] = given.get((value.name, value.place), value.spec)
            self._visit(node)
        self.costs = {node: Cost(*map(example_of, cost)) for node, cost in self.formulas.items()}

    @classmethod
    def known(cls, specs: Specs, costs: dict[Node, Cost]) -> Shapes:
        """What somebody has worked out already."""
        shapes = cls.__new__(cls)
        shapes.specs, shapes.costs, shapes.formulas = specs, costs, costs
        return shapes

    def _visit(self, node: Node) -> None:
        if node.is_op:
            specs, self.formulas[node] = self._of_op(node)
            for slot, spec in zip(node.outputs, specs, strict=True):
                self._note(slot, spec)
            return
        if node.type == FUSED_ELEMENTWISE:
            self._check_joined(node)
        results = _RULES.get(node.type, _like_parts)(self.specs, node)
        self.specs.update(zip(values_of(node.outputs), results, strict=True))
        moved = sum(_bytes(self.specs[v]) for v in (*values_of(node.inputs), *values_of(node.outputs)))
        self.formulas[node] = _NOTHING if node.type == FETCH else Cost(moved // 4, moved)

    def _of_op(self, node: Node) -> tuple[tuple[Any, ...], Cost]:
        """Out specs and cost; devices that are fed the same shapes share the work."""
        ins = [self._spec_slot(slot) for slot in node.inputs]
        key = (id(node.attrs) if not node.origins else id(node.origins[0]), node.type, _hashable(ins))
        if key not in self._known:
            record = node.record
            names = [_names(slot) for slot in node.inputs]
            outs = _results_of(record, ins, node.attrs, names, node.site)
            self._known[key] = outs, _cost(record, ins, outs, node.attrs)
        return self._known[key]

    def _check_joined(self, node: Node) -> None:
        """Each of the ops that were joined takes what it gets.

        Values are followed by their names. What goes by none here, or shares it with another value, is as declared.
        """
        key = (*map(id, node.origins), _hashable([self._spec_slot(node.inputs[0])]))
        if key in self._joined:
            return
        self._joined.add(key)
        read = list(values_of(node.inputs))
        named = Counter(v.name for v in read)
        known = {v.name: self.specs[v] for v in read if named[v.name] == 1}
        for op in node.origins:
            names = [op.operands.get(slot.name) for slot in op.record.inputs]
            ins = [known.get(given[0]) or op.block.spec(given[0]) if given else None for given in names]
            specs = _results_of(op.record, ins, op.call_attrs(), names, op.site)
            for slot, spec in zip(op.record.outputs, specs, strict=True):
                known.update(dict.fromkeys(op.outputs.get(slot.name, ()), spec))

    def _spec_slot(self, slot: Slot) -> Any:
        if isinstance(slot, list):
            return [None if v is None else self.specs[v] for v in slot]
        return None if slot is None else self.specs[slot]

    def _note(self, slot: Slot, spec: Any) -> None:
        """What a rule gave for a slot; None stands for what was declared."""
        if isinstance(slot, list):
            specs = [None] * len(slot) if spec is None else spec
            self.specs.update((v, s or v.spec) for v, s in zip(slot, specs, strict=False) if v is not None)
        elif slot is not None:
            self.specs[slot] = slot.spec if spec is None else spec


def _results_of(record: Op, ins: list[Any], attrs: dict[str, Any], names: Any, site: Site | None) -> tuple[Any, ...]:
    """Out specs; where sizes are open, such that for the example they are what the rule gives for that.

    Raises:
        InvalidArgument, InvalidType: it does not take these inputs. Unsettled: it does, if it knows their sizes.
    """
    if not _is_open(ins):
        return infer(record, ins, attrs, names, site)
    right = infer(record, _for_example(ins), attrs, names, site)
    outs = _with_open_sizes(record, partial(infer, record, ins, attrs, names, site))
    if _for_example(outs) != _for_example(right):
        raise Unsettled(f"the shape rule of op {record.type!r} gives {outs} for sizes that are open, and {right}")
    return outs


def _cost(record: Op, ins: list[Any], outs: tuple[Any, ...], attrs: dict[str, Any]) -> Cost:
    if any(-1 in s.shape for s in flat([*ins, *outs])):
        return _NOTHING
    estimate = partial(record.estimate, ins, outs, attrs)
    return _with_open_sizes(record, estimate) if _is_open(ins) else estimate()


def _with_open_sizes(record: Op, rule: Callable[[], Any]) -> Any:
    """What a rule of an op gives, which may be a user's and know nothing of sizes that are no ints."""
    try:
        return rule()
    except Exception as error:
        if isinstance(error, Unsettled) or is_from_outside(error):
            raise
        why = f"{type(error).__name__}: {error}"
        raise Unsettled(f"the rules of op {record.type!r} take no open sizes: {why}") from error


def _is_open(slots: Sequence[Any]) -> bool:
    return any(type(size) is Size for spec in flat(slots) for size in spec.shape)


def _for_example(slots: Sequence[Any]) -> list[Any]:
    """Specs with the sizes of the example."""
    return [
        spec.with_shape(tuple(map(example_of, spec.shape))) if type(spec) is Spec else spec and _for_example(spec)
        for spec in slots
    ]


def _names(slot: Slot) -> Any:
    return [v.name for v in slot if v is not None] if isinstance(slot, list) else None if slot is None else [slot.name]


def _hashable(ins: list[Any]) -> tuple[Any, ...]:
    return tuple(tuple(s) if type(s) is list else s for s in ins)


def _bytes(spec: Spec) -> int:
    return max(size_of(spec.shape), 0) * spec.dtype.itemsize


def _like_parts(specs: Specs, node: Node) -> list[Spec]:
    """A collective's results are as its parts."""
    return [specs[part[0]] for part, results in zip(node.inputs, node.outputs, strict=True) for _ in results]


def _as_declared(specs: Specs, node: Node) -> list[Spec]:
    return [value.spec for value in values_of(node.outputs)]


def _like_inputs(specs: Specs, node: Node) -> list[Spec]:
    """An update's results are as what they replace; its record says which input that is."""
    record = find_op(node.attrs["update"])
    _check_members(specs, node, record)
    position = {slot.name: i for i, slot in enumerate(record.inputs)}
    like_inputs = []
    for slot, outs in zip(record.outputs, node.outputs, strict=True):
        if outs is not None:
            like_inputs += [specs[v] for v in node.inputs[position[record.aliases[slot.name]]]]
    return like_inputs


def _check_members(specs: Specs, node: Node, record: Op) -> None:
    """Each of the updates in one takes what it gets."""
    for k, op in enumerate(node.origins):
        values = [slot and slot[min(k, len(slot) - 1)] for slot in node.inputs]
        ins = [None if v is None else specs[v] for v in values]
        infer(record, ins, node.attrs["attrs"], [v and [v.name] for v in values], op.site)


def _broadcast(specs: Specs, node: Node) -> list[Spec]:
    """Of ops that were joined, which all give results of one shape."""
    try:
        shape = broadcast_shapes(*(specs[v].shape for v in values_of(node.inputs)))
    except ShapeError as error:
        lines = [f"ops {', '.join(repr(op.type) for op in node.origins)}, joined: {error}"]
        lines += [f"  input {v.name}: {specs[v]}" for v in values_of(node.inputs)]
        raise InvalidArgument("\n".join([*lines, f"  at {node.site}"])) from None
    return [Spec(shape, value.spec.dtype) for value in values_of(node.outputs)]


_RULES = {
    SCALE_LOSS_GRAD: _as_declared,
    FUSED_UPDATE: _like_inputs,
    FUSED_ELEMENTWISE: _broadcast,
    FETCH: lambda specs, node: [],
}
