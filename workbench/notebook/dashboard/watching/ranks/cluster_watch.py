"""Watching a run whose steps the ranks of a cluster make: their graph, and what they tell of themselves."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any

from workbench import events
from workbench.errors import EnforceNotMet, NotFound, PreconditionNotMet
from workbench.executors.planning.shapes import Shapes
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import Spec
from workbench.notebook.dashboard.watching.graph_message import graph_message
from workbench.notebook.dashboard.watching.live_values import totals
from workbench.notebook.dashboard.watching.ranks import rank_watch
from workbench.notebook.dashboard.watching.ranks.joined_ranks import joined_feeds, joined_sample, joined_scopes
from workbench.notebook.dashboard.watching.ranks.rank_events import events_of_ranks
from workbench.notebook.dashboard.watching.ranks.rank_graph import graphs_of_ranks
from workbench.notebook.dashboard.watching.throttle import Throttle
from workbench.notebook.dashboard.watching.unwatched import Unwatched
from workbench.notebook.messages import Message, column
from workbench.notebook.programs.summary import count
from workbench.parallel.cluster.trained import ClusterExecutor

_SAMPLE_S = 0.3  # seconds between two steps that are looked at
_HEARD = 256  # messages of the ranks that wait
_ROWS = 2000


class ClusterWatch(Unwatched):
    """Stands where a `Watch` is when the steps are made in other processes, and tells the page the same.

    The values of a node's results are in the ranks, and are not looked into from here.

    Args:
        executor: what has the ranks make them.
        title, fetches, number: as of any graph.
        rests: whether no step is being made.
    """

    def __init__(
        self,
        executor: ClusterExecutor,
        title: str,
        fetches: Sequence[str],
        number: int = 1,
        rests: Callable[[], bool] = lambda: False,
    ) -> None:
        cluster = executor.cluster
        graphs = graphs_of_ranks(executor.program, cluster.size, cluster.devices, fetches)
        super().__init__(title, graphs.whole, number)
        self._executor, self._each, self._ranks = executor, cluster.devices, cluster.size
        self._numbers, self._known = graphs.numbers, rank_watch.checksum(graphs.own)
        self.strategy = f"AllReduce, in {cluster.size} process{'es' * (cluster.size != 1)}"
        self._throttle, self._rows = Throttle(_SAMPLE_S), list[tuple[float, ...]]()
        self._scopes: list[Message] | None = None
        self._scopes_changed, self._has_run, self._began = False, False, 0
        self._heard: deque[list[Message]] = deque(maxlen=_HEARD)
        self._rests, self._rested = rests, 0  # after so many steps the ranks were asked what these have left
        self._fed: Message | None = None
        self._fed_told = 0
        self._end = executor.watch(rank_watch.watch, self._heard.append)

    def what(self) -> str:
        """`2 ranks`, and their devices if they have several each."""
        ranks = count(self._ranks, "rank")
        return ranks if self._each == 1 else f"{ranks} of {self._each} devices"

    def close(self) -> None:
        """Listen no more."""
        self._end()

    def follow(self, goes_on: bool) -> tuple[bool, bool]:
        """Take over what the ranks have told; whether the graph is another one, and whether a step was looked at."""
        before, looked = self.graph_number, False
        self._ask_at_rest()
        with self._throttle.taking() if self._heard else nullcontext():
            while self._heard:
                looked = self._take(self._heard.popleft()) or looked
        if goes_on and self._throttle.is_due():
            self._executor.look()
        return self.graph_number != before, looked

    def _ask_at_rest(self) -> None:
        """Once for every hold, and at the end: what the ranks know that nobody has looked at."""
        sent = self._executor.sent
        if sent == self._rested or not self._rests():
            return
        self._rested = sent
        with suppress(EnforceNotMet, TimeoutError):  # why ranks are lost the run tells
            told = self._executor.told_at_rest()
            if told is not None:
                self._heard.append(told)

    def _take(self, told: list[Message]) -> bool:
        scopes = [one["scopes"] for one in told]
        if any(one is not None for one in scopes):
            known = self._scopes or scopes
            self._scopes = [now or old for now, old in zip(scopes, known, strict=True)]
            self._scopes_changed = all(one is not None for one in self._scopes)
        fed = [one["fed"] for one in told if one.get("fed") is not None]
        if len(fed) == len(told):
            self._feed(fed)
        clocks = told[0]["clocks"]
        steps = [{one["sample"]["step"]: one for one in rank["samples"]} for rank in told]
        together = sorted(set.intersection(*(set(by_step) for by_step in steps)))
        for step in together:
            self._see([by_step[step] for by_step in steps], clocks)
        return bool(together)

    def _see(self, told: Sequence[Message], clocks: Sequence[Sequence[int]]) -> None:
        is_known = all(one["sample"]["graph"] == self._known for one in told)
        sample = joined_sample(told, self._numbers if is_known else None, clocks, self._began)
        self._began = self._began or sample.pop("begun")
        if sample["feeds"]:
            sample["feeds"]["devices"] = self.devices
            self._fit(sample["feeds"])
            counts: list[int] = next(iter(sample["feeds"]["rows"].values()), [])
            self._rows.append((sample["step"], *counts))
            del self._rows[:-_ROWS]
        self.samples.keep({**sample, "graph": self.graph_number})

    def _feed(self, fed: Sequence[Message]) -> None:
        """What the newest step was fed, by rank."""
        feeds = {**joined_feeds([one["feeds"] for one in fed]), "devices": self.devices}
        self._fit(feeds)
        self._fed = {**fed[0], "graph": self.graph_number, "feeds": feeds}

    def newest_fed(self) -> Message | None:
        """The message `fed` of the newest step at the last hold, if that step was not sampled; None if it was."""
        fed, last = self._fed, self.samples.last
        return None if fed is None or (last is not None and last["step"] >= fed["step"]) else fed

    def news_of_fed(self) -> Message | None:
        """The same, if it has not been told yet."""
        if self._fed is None or self._fed["step"] == self._fed_told:
            return None
        self._fed_told = self._fed["step"]
        return self.newest_fed()

    def _fit(self, feeds: Mapping[str, Any]) -> None:
        """Once the shapes of the feeds are known, so are those of everything else."""
        if self._has_run:
            return
        given = {
            (name, device): Spec(tuple(shape), as_dtype(feeds["dtypes"][name]))
            for name in feeds["names"]
            for device, shape in enumerate(feeds["shapes"][name])
        }
        self.shapes, self._has_run = Shapes(self.graph, given), True
        self.graph_number += 1

    def sample_next(self) -> None:
        """Have the next step looked at, whenever it comes."""
        self._executor.look()

    def can_drop(self) -> bool:
        """Whether there may be temporaries."""
        return self._has_run and self._executor.cluster.alive

    def drop(self) -> int:
        """Drop them in all ranks; returns how many bytes that were."""
        return self._executor.drop_temporaries()

    def memory_changed(self) -> bool:
        """Whether the ranks have told of their memory since the last time."""
        changed, self._scopes_changed = self._scopes_changed, False
        return changed

    # Messages

    def sample_at(self, step: int) -> Message | None:
        """The message `sample` of a step that was looked at, or the last one before it."""
        sample = self.samples.at(step)
        return None if sample is None else {**sample, "slowest": self.slowest()}

    def events_of(self, step: int | None = None) -> list[events.Event]:
        """What was told of a step by its number from 1, of all ranks; None: of the newest that was looked at.

        Raises:
            PreconditionNotMet: no step has been looked at. NotFound: this one has not been, or is no longer kept.
        """
        last = self.samples.last
        if last is None:
            raise PreconditionNotMet("no step has been looked at yet: run one")
        sample = last if step is None else self.samples.at(step)
        if sample is None or step not in (None, sample["step"]):
            raise NotFound(f"step {step} is not among the steps that were looked at and are kept; choose another one")
        return events_of_ranks(sample, self.title, self.graph, self.shapes)

    def sampled(self) -> list[Message]:
        """The messages `sample` and `samples`, once there is one."""
        last = self.samples.last
        return [] if last is None else [{**last, "slowest": self.slowest()}, self.samples.message()]

    def slowest(self) -> Message | None:
        """The op that takes longest, by the steps that were looked at, and what comes after it."""
        return self.samples.slowest_message(self.graph_number, self.graph)

    def typical(self) -> Message | None:
        """The message `sample` of a step that took about as long as most; see `Samples.typical`."""
        sample = self.samples.typical(self.graph_number)
        return None if sample is None else {**sample, "slowest": self.slowest()}

    def graph_message(self) -> Message:
        """The message `graph`, with the process of every device."""
        message = graph_message(self.graph_number, self.title, self.graph, self.shapes)
        return {**message, "process": column([device // self._each for device in range(len(self.devices))], "int32")}

    def scopes_message(self) -> Message:
        """The message `scopes`."""
        if self._scopes is None or not all(self._scopes):
            return super().scopes_message()
        steps = column([row[0] for row in self._rows], "float64")
        rows = [column([row[1 + d] for row in self._rows], "float32") for d in range(len(self.devices))]
        return {
            "type": "scopes", "devices": self.devices, "strategy": "AllReduce",
            **joined_scopes(self._scopes, self._each),
            "feeds": {"step": steps, "rows": rows}, "totals": [totals("AllReduce", self.graph)],
        }  # fmt: skip
