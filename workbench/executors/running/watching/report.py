"""What an engine tells observers about its steps (see `workbench.events`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from time import perf_counter_ns

from workbench import events
from workbench.executors.feeding.feed_plan import Fed
from workbench.executors.planning.plan import Plan, Row
from workbench.executors.running.watching.exchanges import Exchange, contribution
from workbench.executors.running.watching.stamps import Span
from workbench.executors.running.watching.watch import Watching
from workbench.framework.program.roles import role_text
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.place import Place
from workbench.framework.values.spec import size_of
from workbench.graph.columns import layer_of, layer_of_name
from workbench.graph.ssa import FUSED_UPDATE, Node
from workbench.runtime.device import DeviceMemory

_DROPS = 1000  # that are kept


class Reporter:
    """Makes the events of one executor.

    Args:
        name: of the executor. places: its devices.

    Attributes:
        drops: the newest drops of temporaries, whether somebody was told or not; drop_count: how many there have been.
    """

    def __init__(self, name: str, places: Sequence[Place]) -> None:
        self.name, self.places = name, tuple(places)
        self.drops: deque[events.ScopeDrop] = deque(maxlen=_DROPS)
        self.drop_count = 0

    def fed(self, step: int, begun: int, fed: Fed) -> None:
        """What each device was fed."""
        if events.listening(events.Batch):
            events.emit(events.Batch(self.name, step, tuple(fed.per_device)))
        if events.listening(events.Feed):
            events.emit(self.feed_of(step, begun, fed))

    def feed_of(self, step: int, begun: int, fed: Fed) -> events.Feed:
        """What each device is fed, as an event."""
        devices, names = fed.per_device, list(fed.rows)
        return events.Feed(
            self.name,
            step,
            self.places[: fed.active],
            dict(fed.rows),
            {name: tuple(arrays[name].shape for arrays in devices if name in arrays) for name in names},
            {name: as_dtype(devices[0][name].dtype).name for name in names if name in devices[0]},
            tuple(sum(array.nbytes for array in arrays.values()) for arrays in devices),
            begun,
        )

    def ran(self, step: int, begun: int, plan: Plan, watching: Watching, spans: Sequence[Span]) -> None:
        """The ops, waits and collectives of a step.

        Args:
            watching: of the binding of the plan.
        """
        told: list[events.Event] = []
        last: dict[int, Place] = {}  # device of what a thread ran last
        for span in spans:
            if span.awaited:
                place = last.get(span.thread, self.places[span.rows[0].node.place])
                told.append(events.Wait(self.name, step, place, span.thread, span.start, span.end, span.awaited))
                continue
            last[span.thread] = self.places[span.rows[-1].node.place]
            if ops := tuple(row for row in span.rows if not row.node.is_collective):
                info = watching.info(ops[0].node, partial(self._info, ops, plan, watching.numbers))
                told.append(events.OpRun(self.name, step, info, span.thread, span.start, span.end))
        told += [self._collective(step, exchange) for exchange in watching.exchanges.of(spans, begun)]
        events.emit_all(sorted(told, key=lambda e: e.start))  # type: ignore[attr-defined]

    def _collective(self, step: int, exchange: Exchange) -> events.Collective:
        node = exchange.rows[0].node
        names = tuple(name for row in exchange.rows for name in _names(row))
        nbytes = sum(contribution(row) for row in exchange.rows)
        places = tuple(self.places[p] for p in node.places)
        return events.Collective(
            self.name, step, node.type, names, nbytes, places, exchange.thread, exchange.start, exchange.end,
            exchange.within_ops, exchange.arrived,
        )  # fmt: skip

    def _info(self, rows: tuple[Row, ...], plan: Plan, number_of: Mapping[Node, int]) -> events.OpInfo:
        """What is told of a call."""
        nodes = [row.node for row in rows]
        numbers = tuple(number_of[node] for node in nodes)
        outputs = tuple(
            events.Output(v.name, spec.shape, spec.dtype.name, ref.nbytes if ref is not None else 0)
            for node in nodes
            for v in node.writes
            for spec, ref in [(plan.shapes.specs[v], plan.refs.get(v))]
        )
        kinds = tuple(op.type for node in nodes for op in node.origins)
        first = nodes[0]
        text = "+".join(node.type for node in nodes)
        layer = "+".join(dict.fromkeys(layer_of(node) for node in nodes))
        return events.OpInfo(
            numbers[0], text, self.places[first.place], role_text(first.role), first.site, kinds, outputs, numbers,
            layer, _shares(nodes, outputs),
        )  # fmt: skip

    def fetched(self, step: int, names: Sequence[str], values: Sequence[object]) -> None:
        """A call of `run` is about to return these."""
        events.emit(events.Fetched(self.name, step, tuple(names), tuple(values)))

    def stepped(self, step: int, start: int, end: int, fed: Fed) -> None:
        """A step has been applied."""
        if events.listening(events.Step):
            rows = next(iter(fed.rows.values()), ())
            places = self.places[: fed.active]
            events.emit(events.Step(self.name, step, start, end, places, tuple(rows)))

    def compiled(self, step: int, plan: Plan, cached: int, start: int) -> None:
        """A plan was made."""
        if events.listening(events.PlanCompiled):
            rows = len(plan.rows) + len(plan.commit)
            graph = plan.graph
            program = graph.program.origin
            event = events.PlanCompiled(
                self.name, step, program, tuple(graph.places), len(graph.nodes), rows, cached, start, perf_counter_ns()
            )
            events.emit(event)

    def memory(self, step: int, arenas: Mapping[int, DeviceMemory]) -> None:
        """What each device holds for temporaries."""
        if events.listening(events.Memory):
            for place, arena in arenas.items():
                events.emit(events.Memory(self.name, step, self.places[place], arena.resident))

    def dropped(self, step: int, freed: dict[int, int], cause: str) -> None:
        """Temporaries were given back."""
        places = tuple(self.places[place] for place in freed)
        drop = events.ScopeDrop(self.name, step, places, tuple(freed.values()), cause)
        self.drops.append(drop)
        self.drop_count += 1
        if events.listening(events.ScopeDrop):
            events.emit(drop)

    def failed(self, step: int, error: BaseException) -> None:
        """A step failed."""
        if not events.listening(events.Error):
            return
        node = getattr(error, "node", None)
        events.emit(
            events.Error(
                self.name,
                step,
                str(error) or type(error).__name__,
                node.type if node is not None else None,
                self.places[node.place] if node is not None else None,
                node.site if node is not None else None,
            )
        )


def _shares(nodes: Sequence[Node], outputs: Sequence[events.Output]) -> tuple[tuple[str, float], ...]:
    """How a fused update is shared among the layers of what it updates; empty for everything else."""
    if len(nodes) > 1 or nodes[0].type != FUSED_UPDATE:
        return ()
    sizes: dict[str, int] = {}
    for output in outputs:
        layer = layer_of_name(output.name)
        sizes[layer] = sizes.get(layer, 0) + size_of(output.shape)
    whole = sum(sizes.values())
    return tuple((layer, size / whole) for layer, size in sizes.items() if size)


def _names(row: Row) -> tuple[str, ...]:
    return tuple(row.node.attrs.get("names") or (row.node.attrs["name"],))
