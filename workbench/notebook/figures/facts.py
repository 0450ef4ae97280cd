"""What can be read off the dashboard's messages; any part of them may be missing or empty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from workbench.notebook.figures.palette import kind_of

Message = Mapping[str, Any]  # as assets/src/README.md describes them, with arrays for columns of numbers


def ints(part: Message | None, name: str) -> list[int]:
    """A column of whole numbers, empty if there is none."""
    return [] if part is None or part.get(name) is None else np.asarray(part[name], np.int64).tolist()


def floats(part: Message | None, name: str) -> np.ndarray:
    """A column of numbers, float64, empty if there is none."""
    return np.zeros(0) if part is None or part.get(name) is None else np.asarray(part[name], np.float64)


@dataclass(frozen=True)
class Nodes:
    """The nodes of a graph, column by column.

    Attributes:
        kind: see `palette.KINDS`; device: -1 for what acts on several.
        label: type and variable.
    """

    type: list[str]
    kind: list[str]
    layer: list[str]
    label: list[str]
    device: list[int]

    def __len__(self) -> int:
        return len(self.type)

    @staticmethod
    def of(graph: Message) -> Nodes:
        """The nodes of a `graph` message."""
        node, tables = graph.get("node", {}), graph.get("tables", {})
        types = [tables["type"][t] for t in ints(node, "type")]
        roles = [tables["role"][r] for r in ints(node, "role")]
        layers = [tables["layer"][n] for n in ints(node, "layer")]
        kinds = [kind_of(t, r) for t, r in zip(types, roles)]
        shared = set(ints(graph.get("across"), "node"))
        several = [k in shared or kinds[k] == "collective" for k in range(len(types))]
        device = [-1 if apart else d for apart, d in zip(several, ints(node, "device"))]
        return Nodes(types, kinds, layers, list(node.get("label", [])), device)


def devices(*messages: Message | None) -> list[str]:
    """The names of the devices, of the first message that has them."""
    for message in messages:
        names = list((message or {}).get("devices", []))
        if names:
            return names
    return []


def where(places: Sequence[str], device: int) -> str:
    """`on cpu:0`, or `across devices` for what has no device of its own (-1)."""
    return "across devices" if device < 0 else f"on {at(places, device, f'device {device}')}"


class Summed(NamedTuple):
    """A collective and the variables it takes together; bytes of one device's part of them."""

    type: str
    names: tuple[str, ...]
    bytes: float


def summed(graph: Message) -> list[Summed]:
    """The collectives in the order of the graph."""
    nodes, names = Nodes.of(graph), _names(graph, "read")
    sizes, first = floats(graph.get("value"), "bytes"), graph.get("value", {}).get("name", [])
    size_of = {name: float(size) for name, size in zip(first, sizes)}
    shared = [k for k, kind in enumerate(nodes.kind) if kind == "collective"]
    return [Summed(nodes.type[k], names.get(k, ()), sum(size_of.get(n, 0.0) for n in names.get(k, ()))) for k in shared]


def written_names(graph: Message) -> dict[int, tuple[str, ...]]:
    """The variables every node writes, on whichever device."""
    return _names(graph, "write")


def _names(graph: Message, access: str) -> dict[int, tuple[str, ...]]:
    name, listed = graph.get("value", {}).get("name", []), graph.get(access, {})
    names_of: dict[int, dict[str, None]] = {}
    for node, value in zip(ints(listed, "node"), ints(listed, "value")):
        names_of.setdefault(node, {})[name[value]] = None
    return {node: tuple(names) for node, names in names_of.items()}


def newest_fed(messages: Mapping[str, Any]) -> Message | None:
    """The message that says what the newest step was fed: `fed` where nobody looked at that step, else `sample`."""
    sample, fed = messages.get("sample") or None, messages.get("fed") or None
    return fed if fed and (sample is None or fed["step"] >= sample["step"]) else sample


def dropped(scopes: Message) -> int:
    """How often scopes were dropped; of very many drops only the newest are in the message one by one."""
    drops = scopes.get("drops") or {}
    return int(drops.get("total") or len(floats(drops, "step")))


def unwatched(scopes: Message) -> int:
    """Steps there had been when the watching began; drops in these are not known."""
    return int((scopes.get("drops") or {}).get("since") or 0)


class Part(NamedTuple):
    """What one device got of an input: `rows` rows, the first of them number `first` of the batch."""

    first: int
    rows: int
    shape: tuple[int, ...]

    def text(self) -> str:
        """`rows 0–15`."""
        if self.rows <= 0:
            return "no rows"
        return f"row {self.first}" if self.rows == 1 else f"rows {self.first}–{self.first + self.rows - 1}"


def parts(feeds: Message, name: str) -> list[Part]:
    """One per device; where nobody said which row is the first, the parts follow each other."""
    rows = ints(feeds.get("rows"), name)
    first = ints(feeds.get("first"), name)
    if len(first) != len(rows):
        first = [sum(rows[:k]) for k in range(len(rows))]
    shapes = feeds.get("shapes", {}).get(name, [])
    sizes = [tuple(int(n) for n in shapes[k]) if k < len(shapes) else (n,) for k, n in enumerate(rows)]
    return [Part(*part) for part in zip(first, rows, sizes)]


def members(sample: Message, spans: int) -> list[list[int]]:
    """The nodes of every span; a span may stand for several."""
    nodes_of: list[list[int]] = [[node] if node >= 0 else [] for node in ints(sample.get("spans"), "node")][:spans]
    listed = sample.get("members") or {}
    for span, node in zip(ints(listed, "span"), ints(listed, "node")):
        if span < len(nodes_of) and node >= 0 and node not in nodes_of[span]:
            nodes_of[span].append(node)
    return nodes_of


class Slow(NamedTuple):
    """What ran, where, how long (µs) and which part of the time of all ops that was."""

    label: str
    device: int
    us: float
    share: float


def slowest(sample: Message) -> list[Slow]:
    """The slowest ops over all steps that were looked at, as every panel names them, the slowest first."""
    first = sample.get("slowest")
    return [Slow(*(op[name] for name in Slow._fields)) for op in (first, *first["next"])] if first else []


def over_steps(sample: Message) -> str:
    """Over which steps that was found: `median of 12 steps`, `of one step`."""
    steps = int(sample["slowest"]["steps"])
    return "of one step" if steps == 1 else f"median of {steps:,} steps"


def longest(sample: Message) -> list[Slow]:
    """The span of this step that took longest, none if nothing was timed; waits are none."""
    spans = sample.get("spans") or {}
    lasted = floats(spans, "end") - floats(spans, "start")
    waits = ints(spans, "wait") or [0] * len(lasted)
    ran = [k for k in range(len(lasted)) if not waits[k]]
    if not ran:
        return []
    labels, label, device = sample.get("labels", []), ints(spans, "label"), ints(spans, "device")
    k = max(ran, key=lambda k: lasted[k])
    share = float(lasted[k]) / (float(lasted[ran].sum()) or 1.0)
    return [Slow(labels[label[k]], device[k], float(lasted[k]), share)]


def in_order(texts: Iterable[str]) -> list[str]:
    """Each once, in the order of its first appearance."""
    return list(dict.fromkeys(texts))


def at(values: Sequence[Any], index: int, default: Any = "") -> Any:
    """`values[index]`, the default where there is none."""
    return values[index] if 0 <= index < len(values) else default
