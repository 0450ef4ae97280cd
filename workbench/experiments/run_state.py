"""Where a run stands, and what its steps give."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a run stands."""

    READY = "ready"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    DONE = "done"
    FAILED = "failed"


FINISHED = (State.STOPPED, State.DONE, State.FAILED)


class Evaluated(dict[str, float]):
    """What evaluating validation data after a step gave; a step itself gives a plain dict."""


class Underway(dict[str, float]):
    """What a step gave behind which others have been begun: a run does not hold between them."""
