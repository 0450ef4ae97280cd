"""A training loop whose steps are made elsewhere: they are sent many at a time, before those behind them are known.

Sent are as many as take a twentieth of a second, and that twice over, so that nobody waits for the next ones. Whoever
stops or holds the run waits for all that was sent, and steps may take many times as long from one moment to the next,
where ranks wait for cores; so there are never more than can be waited for if all take as long as slow ones. Where
somebody wants to see what a step has left behind - to save, to evaluate, to hold, to follow a metric - nothing is
sent beyond that step until it has been made: there everything is as if steps were made one at a time.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from workbench.experiments.run import Run
from workbench.experiments.run_state import Underway
from workbench.experiments.training.loops.batches import batches_of, close, feed_of
from workbench.experiments.training.loops.loop import TrainingLoop, nothing_given
from workbench.parallel.cluster.trained import ClusterExecutor, Outcome, Sent

_TOGETHER_S = 0.05  # seconds that steps sent together should take: their losses come back together
_SENT = 2  # so many times
_MOST = 100  # steps that are sent together: so few are waited for even if each waits for a core
_LONGEST_S = 0.2  # seconds they take at most if they are as slow as the slowest lately
_LATELY = 8  # times that steps were sent
_GROWTH = 4  # by which more are sent together than the last time, at most
_BYTES = 32 << 20  # of batches that are sent together, at most


class _Step(NamedTuple):
    """A step that is to be made."""

    feed: Mapping[str, np.ndarray]
    rates: dict[str, float]
    ends_pass: bool


class _PassEnd(NamedTuple):
    """A pass has ended behind the step before, which was sent when the loader told."""


class PipelinedLoop(TrainingLoop):
    """A TrainingLoop of a ClusterExecutor."""

    def _steps(self, run: Run) -> Iterator[dict[str, float]]:
        assert isinstance(self.executor, ClusterExecutor)
        sender = _Sender(self, self.executor, run)
        try:
            while not self._ends(run):
                for metrics in sender.outcomes():
                    if metrics is not None:
                        yield metrics if sender.is_at_rest else Underway(metrics)
                    if sender.is_at_rest:
                        yield from self._evaluate(run)
        finally:
            self.is_adrift = not sender.is_at_rest
            sender.close()

    def taken(self) -> Iterator[tuple[Mapping[str, Any], bool] | None]:
        """The batches from here on, pass after pass, and whether each is known to be the last of its pass.

        None where a pass has ended behind the batch before.
        """
        before = self.batches
        while True:
            batches, length, count = batches_of(self.loader), self.length, before
            try:
                for count, batch in enumerate(self._left_of(batches, before), before + 1):
                    yield self.feed(batch), count == length
                    if count == length:
                        break
            finally:
                close(batches)
            if count == 0:
                raise nothing_given()
            if length is None or count < length:
                yield None
            before = 0

    def feed(self, batch: Any) -> Mapping[str, Any]:
        """A batch as {feed: array}."""
        return feed_of(batch, self._feeds)

    def begun(self, ends_pass: bool, is_step: bool = True) -> None:
        """A step, or the end of a pass, is going to be sent: schedules that depend on no metric move on."""
        if self._is_followed:
            return
        if is_step:
            self._advance("step")
        if ends_pass:
            self._advance("epoch")

    def finished(self, run: Run, ends_pass: bool, values: list[np.ndarray] | None) -> dict[str, float] | None:
        """A step has been made, or a pass has ended (None); what is recorded of it."""
        metrics = None if values is None else self._means(values)
        if metrics is not None:
            self.batches += 1
            if self._is_followed:
                self._advance("step")
        if ends_pass:
            self._count_pass(run)
            if self._is_followed:
                self._advance("epoch")
        return metrics

    def is_over(self, run: Run, step: int, done: int) -> bool:
        """Whether no step is wanted behind so many, and so many passes."""
        return self._is_over(run, step, done)

    def is_seen(self, run: Run, step: int, ends_pass: bool, done: int) -> bool:
        """Whether somebody wants to see what a step has left behind."""
        return (
            run.is_looked_at
            or (self._is_followed and (ends_pass or self.lr_step == "step"))
            or (self.keeper is not None and self.keeper.may_look(step, ends_pass))
            or self._is_due(run, step, ends_pass, done)
        )


class _Sender:
    """Sends the steps of a loop ahead, and gives what was made of them in their order.

    Attributes:
        is_at_rest: what was given last is all that was sent.
    """

    def __init__(self, loop: PipelinedLoop, executor: ClusterExecutor, run: Run) -> None:
        self._loop, self._executor, self._run = loop, executor, run
        self._taken = loop.taken()
        self._step, self._done = run.step, loop.done  # of those that were taken
        self._flights: deque[tuple[Sent | None, list[_Step | _PassEnd]]] = deque()
        self._together = 1
        self._slow: deque[float] = deque(maxlen=_LATELY)  # seconds a step took, of those sent together lately
        self._waits = False  # for all that was sent, before more is
        self._trouble: BaseException | None = None  # of the loader, behind all that was sent
        self.is_at_rest = True

    def close(self) -> None:
        """Nothing more is taken."""
        self._taken.close()  # type: ignore[attr-defined]

    def outcomes(self) -> Iterator[dict[str, float] | None]:
        """Send what may be sent, and wait for what was sent first.

        Yields:
            what is recorded of each step; None of the end of a pass.
        """
        self._send()
        if not self._flights:
            if self._trouble is not None:
                raise self._trouble
            return
        sent, items = self._flights.popleft()
        self.is_at_rest = False
        outcome = Outcome([], 0.0, None) if sent is None else self._executor.receive(sent)
        self._measure(outcome)
        values, last = iter(outcome.values), len(items) - 1
        for number, item in enumerate(items):
            is_step = isinstance(item, _Step)
            fetched = next(values, None) if is_step else None
            if is_step and fetched is None:
                assert outcome.error is not None
                raise outcome.error  # what was sent behind it is refused by the ranks
            self.is_at_rest = number == last and not self._flights
            ends_pass = item.ends_pass if isinstance(item, _Step) else True
            yield self._loop.finished(self._run, ends_pass, fetched)

    def _measure(self, outcome: Outcome) -> None:
        if outcome.values:
            each = max(outcome.seconds, 1e-9) / len(outcome.values)
            self._slow.append(each)
            wanted = min(_TOGETHER_S / each, _LONGEST_S / max(self._slow), _MOST)
            self._together = max(1, min(int(wanted), _GROWTH * self._together))

    def _send(self) -> None:
        self._waits = self._waits and bool(self._flights)
        while len(self._flights) < _SENT and not self._waits and self._trouble is None:
            items = self._next()
            if not items:
                return
            steps = [(item.feed, item.rates) for item in items if isinstance(item, _Step)]
            sent = self._executor.send(steps, list(self._loop.labels.values())) if steps else None
            self._flights.append((sent, items))

    def _next(self) -> list[_Step | _PassEnd]:
        """What is sent together next; nothing if no step may be begun."""
        items: list[_Step | _PassEnd] = []
        nbytes, until = 0, time.monotonic() + _TOGETHER_S / 2
        try:
            while len(items) < self._together and nbytes < _BYTES and not self._waits and self._may_take(items):
                taken = next(self._taken)
                if taken is None:
                    self._take_end(items)
                    continue
                step = self._take(*taken)
                items.append(step)
                nbytes += sum(array.nbytes for array in step.feed.values())
                if time.monotonic() > until:
                    break
        except Exception as error:  # of the loader or a schedule: told when the steps before have been made
            self._trouble = error
        return items

    def _may_take(self, items: list[_Step | _PassEnd]) -> bool:
        if self._loop.is_over(self._run, self._step, self._done):
            return False
        return self._run.may_begin(self._step) or not (items or self._flights)  # it has asked for one

    def _take(self, feed: Mapping[str, Any], ends_pass: bool) -> _Step:
        step = _Step(self._executor.prepared(feed), self._executor.rates(), ends_pass)
        self._loop.begun(ends_pass)
        self._step += 1
        self._done += ends_pass
        self._waits = self._loop.is_seen(self._run, self._step, ends_pass, self._done)
        return step

    def _take_end(self, items: list[_Step | _PassEnd]) -> None:
        """A pass has ended, which nobody knew: the step before was the last one."""
        self._loop.begun(ends_pass=True, is_step=False)
        self._done += 1
        self._waits = self._loop.is_seen(self._run, self._step, True, self._done)
        if items and isinstance(items[-1], _Step):
            items[-1] = items[-1]._replace(ends_pass=True)
        else:
            items.append(_PassEnd())
