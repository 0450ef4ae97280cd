"""Running a step of the past again, on the side: node by node, with the feed and the parameters it had."""

from __future__ import annotations

from workbench.executors.inspection.nan_finder import NotFinite, first_not_finite
from workbench.executors.inspection.observed import Observation
from workbench.executors.running.engine.engine import Engine
from workbench.executors.running.watching.moment import Moment
from workbench.runtime.storage.scope import Scope


class Replay:
    """Runs the step of a moment as often as one likes; what trains meanwhile does not notice.

    The bits are those of the step, but for what fused nodes round differently (see `nan_finder`).
    """

    def __init__(self, moment: Moment) -> None:
        self.moment = moment
        self._engine: Engine | None = None

    def observe(self) -> Observation:
        """The step, begun: see `Observation`."""
        moment, engine = self.moment, self._own()
        fed = engine.prepare(list(moment.feed) if any(moment.feed) else None)
        given = [{**state, **kept} for state, kept in zip(moment.state, fed.persistable, strict=True)]
        step = Observation(engine, moment.fetches, fed.feeding(given))
        for name, rate in moment.rates.items():
            step.binding.fed_places.give(name, fed.active, rate)
        step.binding.draws.begin(moment.drawn)
        return step

    def find_nan(self) -> NotFinite | None:
        """The first node of the step that makes a NaN or an Inf; None if there is none."""
        return first_not_finite(self.observe())

    def _own(self) -> Engine:
        """An engine like the one that ran it, in a scope of its own."""
        if self._engine is None:
            self._engine = Engine(self.moment.spec, Scope())
        return self._engine
