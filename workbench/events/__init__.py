"""Events: what executors tell whoever listens, and how to listen.

    with events.subscribe(print, events.Step, events.ScopeDrop):
        exe.run(...)

Events leave the engine sideways: they are plain values that cannot change, they arrive on the thread that ran the
step, after the step (ops are timed where they run, and told in one go), and nothing an observer does comes back.
An observer that raises is taken off the list, with one warning; the step and the other observers do not notice.
All times are `time.perf_counter_ns()`; all sizes are bytes.
"""

from __future__ import annotations

from workbench.events.kinds import (
    KINDS,
    OF_SERVERS,
    WITH_VALUES,
    Batch,
    Collective,
    Error,
    Event,
    Exchanged,
    Feed,
    Fetched,
    Memory,
    OpInfo,
    OpRun,
    Output,
    PlanCompiled,
    ScopeDrop,
    Step,
    Wait,
)
from workbench.events.subscriptions import (
    LISTENERS,
    Observer,
    Subscription,
    emit,
    emit_all,
    heard,
    listening,
    subscribe,
)

__all__ = [
    "KINDS", "LISTENERS", "OF_SERVERS", "WITH_VALUES", "Batch", "Collective", "Error", "Event", "Exchanged", "Feed",
    "Fetched", "Memory", "Observer", "OpInfo", "OpRun", "Output", "PlanCompiled", "ScopeDrop", "Step", "Subscription",
    "Wait", "emit", "emit_all", "heard", "listening", "subscribe",
]  # fmt: skip
