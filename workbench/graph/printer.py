"""Graphs as text: one line per node, for reading and for tests to compare.

    graph on 2 devices: cpu:0, cpu:1; AllReduce, CoeffNumDevice
    #0 [0] fc_0.tmp_0@0.v0 = mul(X=x@0.v0, Y=fc_0.w_0@0.v0)
    #9 [0,1] == fc_0.w_0@GRAD@0.v1, fc_0.w_0@GRAD@1.v1 = all_reduce(fc_0.w_0@GRAD@0.v0, fc_0.w_0@GRAD@1.v0) Backward
    #10 [0] fc_0.w_0@0.v1 = sgd(Param=fc_0.w_0@0.v0, ...) Optimize after #0

A line has the node's number, its devices, the values it writes (`name@device.version`), its type, slots and
attributes that are not their op's defaults, its role unless Forward, and the nodes it comes after though it reads
nothing of theirs. Collectives are marked `==`, and `<>` what parameter servers are sent, and what comes from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from workbench.errors import NotFound
from workbench.framework.expr.expr import Expr, in_order
from workbench.framework.op.record import find_op
from workbench.framework.program.roles import role_text
from workbench.framework.text.lexicon import SPELLED, quote, type_text, value_text, word_text
from workbench.framework.values.spec import spec_of
from workbench.framework.written import writes
from workbench.graph.beyond import BETWEEN_PROCESSES, meets_servers
from workbench.graph.ssa import FUSED_UPDATE, Graph, Node, Slot, Value


@writes(Graph)
def graph_text(graph: Graph) -> str:
    """A graph, the same text for the same graph in every process."""
    number = {node: index for index, node in enumerate(graph.nodes)}
    lines = [header_text(graph), *(f"#{index} {_line(node, number)}" for node, index in number.items())]
    return "\n".join(lines) + "\n"


def header_text(graph: Graph) -> str:
    """Devices and strategies in one line."""
    count = "1 device" if graph.devices == 1 else f"{graph.devices} devices"
    words = [graph.settings.reduce_strategy.name, graph.settings.gradient_scale_strategy.name]
    if graph.settings.num_trainers > 1:
        words.append(f"{graph.settings.num_trainers} trainers")
    return f"graph on {count}: {', '.join(map(str, graph.places))}; {', '.join(words)}"


def node_text(node: Node) -> str:
    """One node without number and order."""
    return _line(node, {})


def _line(node: Node, number: dict[Node, int]) -> str:
    written = ", ".join(map(_slot_text, (s for s in node.outputs if s is not None)))
    call = f"{word_text(node.type)}({_inputs_text(node)})"
    words = [f"[{','.join(map(str, node.places))}]"]
    if node.is_collective or node.type in BETWEEN_PROCESSES:
        words.append("==")
    elif meets_servers(node.type):
        words.append("<>")
    words.append(f"{written} = {call}" if written else call)
    attrs = attrs_text(node)
    if attrs:
        words.append(f"{{{attrs}}}")
    if node.role:
        words.append(role_text(node.role))
    if node.after and number:
        words.append("after " + ", ".join(f"#{n}" for n in _numbers(node.after, number)))
    return " ".join(words)


def _numbers(nodes: Iterable[Node], number: dict[Node, int]) -> list[Any]:
    """Sorted; what is not in the graph, which the checker tells, as `?`."""
    known = sorted({number[node] for node in nodes if node in number})
    return [*known, *("?" for node in nodes if node not in number)]


def _slot_text(slot: Slot) -> str:
    if isinstance(slot, Value):
        return str(slot)
    if slot is None:
        return "-"
    return "[" + ", ".join(map(_slot_text, slot)) + "]"


def _inputs_text(node: Node) -> str:
    names = input_slots(node)
    slots = zip(names, node.inputs, strict=False)
    return ", ".join(f"{n}={_slot_text(s)}" if n else _slot_text(s) for n, s in slots if s is not None)


def input_slots(node: Node) -> list[str]:
    """The names of a node's input slots; `""` for those of collectives and fetches, which have none."""
    op_type = node.attrs.get("update", "") if node.type == FUSED_UPDATE else node.type if node.is_op else ""
    try:
        names = [slot.name for slot in find_op(op_type).inputs] if op_type else []
    except NotFound:
        names = []  # printed all the same: the text may be what shows the mistake
    return names + [""] * (len(node.inputs) - len(names))


def attrs_text(node: Node) -> str:
    """`key=value` of what differs from the op's defaults."""
    defaults = _defaults(node)
    shown = [(k, v) for k, v in node.attrs.items() if not (k in defaults and _same(v, defaults[k]))]
    return ", ".join(f"{word_text(k)}={attr_text(v)}" for k, v in shown)


def _defaults(node: Node) -> dict[str, Any]:
    try:
        return node.record.attrs if node.is_op else {}
    except NotFound:
        return {}


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and not hasattr(value, "shape") and value == default)


def attr_text(value: Any) -> str:
    """An attribute's value; large arrays by type and shape only, expressions as calls."""
    if getattr(value, "size", 0) > SPELLED and hasattr(value, "dtype"):
        return f"array({type_text(spec_of(value))})"
    if isinstance(value, Expr) or (isinstance(value, list) and value and isinstance(value[0], Expr)):
        return expressions_text(value if isinstance(value, list) else [value])
    if isinstance(value, list | tuple):
        left, right = "[]" if isinstance(value, list) else "()"
        return left + ", ".join(map(attr_text, value)) + right
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {attr_text(v)}" for k, v in value.items()) + "}"
    return quote(value) if isinstance(value, str) else value_text(value)


def expressions_text(results: Sequence[Expr]) -> str:
    """Expressions over `x0`, `x1`, ...; what is used more than once is written once: `t0 = exp(x0); [add(t0, t0)]`."""
    order = in_order(results)
    times = Counter(id(result) for result in results)
    times.update(id(arg) for part in order for arg in part.args)
    text: dict[int, str] = {}
    named: list[str] = []
    for part in order:
        call = repr(part) if not part.args else _call_text(part, text)
        if part.args and times[id(part)] > 1:
            named.append(f"t{len(named)} = {call}")
            call = f"t{len(named) - 1}"
        text[id(part)] = call
    return "; ".join([*named, f"[{', '.join(text[id(result)] for result in results)}]"])


def _call_text(part: Expr, text: dict[int, str]) -> str:
    extra = f", {part.value}" if part.function == "cast" else ""
    return f"{part.function}({', '.join(text[id(arg)] for arg in part.args)}{extra})"
