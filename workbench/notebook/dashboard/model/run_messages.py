"""A run, or a loop of the user's own, in the message `state`; see assets/src/README.md."""

from __future__ import annotations

from workbench.experiments.first_nan import FirstNaN
from workbench.experiments.run import Run
from workbench.experiments.run_state import State
from workbench.notebook.dashboard.model.shown import Shown
from workbench.notebook.dashboard.watching.nan_message import nan_message
from workbench.notebook.dashboard.watching.unwatched import Unwatched
from workbench.notebook.dashboard.watching.watch import Watch
from workbench.notebook.messages import Message


def listed(shown: Shown) -> Message:
    """One of those a dashboard has curves of."""
    run, loop = shown.run, shown.fetched
    state = str(run.state) if run is not None else "running" if loop is not None and loop.is_going_on else "ready"
    steps = run.step if run is not None else loop.steps if loop is not None else 0
    return {"id": shown.id, "label": shown.label(), "state": state, "steps": steps}


def run_message(
    shown: Shown, run: Run, values: Message | None, watch: Watch | Unwatched, nan: FirstNaN | None
) -> Message:
    """How far a run is, and what went wrong.

    Args:
        values: of the settings it was started with, None if there are none.
    """
    rate = shown.curves.rate if run.state == State.RUNNING else 0.0
    left = run.steps - run.step if run.steps is not None else None
    return {
        "id": shown.id,
        "name": run.name,
        "state": str(run.state),
        "step": run.step,
        "steps": run.steps,
        "seconds": round(run.seconds, 2),
        "rate": rate,
        "eta": left / rate if rate and left is not None else None,
        "last": run.last,
        "values": values,
        "error": _error(run.error, watch) if run.error is not None else None,
        "nan": _nan(nan, watch),
    }


def loop_message(shown: Shown, name: str, watch: Watch | Unwatched, nan: FirstNaN | None) -> Message | None:
    """Of steps that a loop of the user's own makes; None before the first."""
    assert shown.fetched is not None
    steps, is_going_on = watch.steps(), shown.fetched.is_going_on
    rate = shown.curves.rate if is_going_on else 0.0
    if not steps and watch.error is None:
        return None
    last = {name: values[-1] for name, values in shown.fetched.history.items() if values}
    return {
        "id": shown.id, "name": name, "state": "running" if is_going_on else "ready",
        "step": steps, "steps": None, "seconds": None, "rate": rate, "eta": None, "last": last,
        "error": _error(None, watch), "nan": _nan(nan, watch),
    }  # fmt: skip


def _nan(nan: FirstNaN | None, watch: Watch | Unwatched) -> Message | None:
    return None if nan is None else nan_message(nan, watch.graph)


def _error(error: BaseException | None, watch: Watch | Unwatched) -> Message | None:
    """What went wrong, with the op and the line where the engine knows them."""
    told = watch.error
    if error is None and (told is None or told.step < watch.steps()):
        return None  # steps after it went well
    text = str(error) or type(error).__name__ if error is not None else told.text if told is not None else ""
    if (node := getattr(error, "node", None)) is not None:
        places = watch.graph.places
        place = str(places[node.place]) if node.place < len(places) else None
        return {"text": text, "op": node.type, "device": place, "site": str(node.site) if node.site else None}
    is_same = told is not None and (error is None or told.text == text)
    return {
        "text": text,
        "op": told.op if told is not None and is_same else None,
        "device": str(told.place) if told is not None and is_same and told.place is not None else None,
        "site": str(told.site) if told is not None and is_same and told.site is not None else None,
    }
