"""What can be read off the dashboard's messages; any part of them may be missing or empty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from workbench.notebook.figures.palette import kind_of
from workbench.notebook.programs.summary import count, memory_text

Message = Mapping[str, Any]  # as assets/src/README.md describes them, with arrays for columns of numbers
ACROSS_SERVERS = -2  # in place of a device


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
        kind: see `palette.KINDS`.
        device: -1 for what acts on several. Servers are counted behind the devices; -2 for what meets several.
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
        return Nodes(types, kinds, layers, list(node.get("label", [])), _with_servers(graph, device))


def _with_servers(graph: Message, device: list[int]) -> list[int]:
    """What meets a server belongs to it, wherever it is run."""
    toward, first = graph.get("toward"), len(graph.get("devices", []))
    met: dict[int, int] = {}
    for node, server in zip(ints(toward, "node"), ints(toward, "server")):
        met[node] = ACROSS_SERVERS if node in met else first + server
    return [met.get(node, place) for node, place in enumerate(device)]


class ServerBand(NamedTuple):
    """A parameter server.

    Attributes:
        pushed, pulled: bytes of a step by the program, NaN where only a step can tell.
        exchanges: steps of trainers that it has told of, and the bytes that were pushed and pulled in all of them.
    """

    name: str
    pushed: float
    pulled: float
    exchanges: int = 0
    told_pushed: float = 0.0
    told_pulled: float = 0.0

    def moves(self) -> list[str]:
        """`pushed 9.4 KiB` and `pulled 9.4 KiB`, of a step; what is not known is left out."""
        return _moves(self.pushed, self.pulled)

    def told(self) -> str:
        """`80 exchanges: pushed 753.1 KiB, pulled 753.1 KiB`; nothing if it has told nothing."""
        moves = ", ".join(_moves(self.told_pushed, self.told_pulled))
        return f"{count(self.exchanges, 'exchange')}: {moves}" if self.exchanges else ""


def _moves(pushed: float, pulled: float) -> list[str]:
    sizes = {"pushed": pushed, "pulled": pulled}
    return [f"{word} {memory_text(round(size))}" for word, size in sizes.items() if not np.isnan(size)]


def servers(graph: Message) -> list[ServerBand]:
    """The parameter servers of a `graph` message."""
    part = graph.get("servers") or {}
    known = zip(part.get("name", []), floats(part, "pushed"), floats(part, "pulled"))
    if part.get("exchanges") is None:
        return [ServerBand(*one) for one in known]
    told = zip(ints(part, "exchanges"), floats(part, "told_pushed"), floats(part, "told_pulled"))
    return [ServerBand(*one, *sums) for one, sums in zip(known, told)]


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


def cause_text(cause: str) -> str:
    """Why scopes were dropped, in the words of the page: `interval`, `asked for`."""
    return {"call": "asked for"}.get(cause, cause)


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


def typical_step(messages: Mapping[str, Any]) -> Message | None:
    """The step that pictures and words are about: `typical` where there is one, else the newest that was looked at."""
    return messages.get("typical") or messages.get("sample") or None


def among(sample: Message) -> str:
    """How it was chosen, in brackets: ` (median of the 6 steps looked at)`; empty where nobody chose."""
    steps = int(sample.get("among") or 0)
    return f" (median of the {steps:,} steps looked at)" if steps > 1 else ""


def over_steps(sample: Message) -> str:
    """Over which steps that was found: `median of 12 steps`, `of one step`."""
    steps = int(sample["slowest"]["steps"])
    return "of one step" if steps == 1 else f"median of {steps:,} steps"


def longest(sample: Message, graph: Message | None = None) -> list[Slow]:
    """The span of this step that took longest, none if nothing was timed; waits are none.

    Args:
        graph: that it is of, to say which of the ops of a type it is.
    """
    spans = sample.get("spans") or {}
    lasted = floats(spans, "end") - floats(spans, "start")
    waits = ints(spans, "wait") or [0] * len(lasted)
    ran = [k for k in range(len(lasted)) if not waits[k]]
    if not ran:
        return []
    labels, label, device = sample.get("labels", []), ints(spans, "label"), ints(spans, "device")
    k = max(ran, key=lambda k: lasted[k])
    share = float(lasted[k]) / (float(lasted[ran].sum()) or 1.0)
    nodes = Nodes.of(graph).label if graph is not None and sample.get("graph") == graph.get("id") else []
    name = at(nodes, ints(spans, "node")[k], labels[label[k]])
    return [Slow(name, device[k], float(lasted[k]), share)]


def in_order(texts: Iterable[str]) -> list[str]:
    """Each once, in the order of its first appearance."""
    return list(dict.fromkeys(texts))


def at(values: Sequence[Any], index: int, default: Any = "") -> Any:
    """`values[index]`, the default where there is none."""
    return values[index] if 0 <= index < len(values) else default
