"""A process that forks, or ends, while another thread is in some phase of a step; it prints what became of that.

    python -m tests.executors.running.step_in_process FORK|EXIT

One line of JSON for every phase. What ends is a child of its own for every phase; the modules are loaded only once.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
from typing import Any

OVER: list[Any] = []
atexit.register(lambda: [tell() for tell in OVER])  # first registered, last called: when the end has come

from tests.executors.running.mid_step import MID_STEP, Trained, states_after  # noqa: E402
from workbench.errors import EnforceNotMet  # noqa: E402
from workbench.executors.running.step.state import Phase  # noqa: E402
from workbench.executors.running.transaction import Broken  # noqa: E402
from workbench.runtime.ending import the_end  # noqa: E402

PATIENCE = 20.0


def tell(phase: Phase, **what: Any) -> None:
    print(json.dumps({"phase": phase.name, **what}), flush=True)


class StepOfAnotherThread:
    """A step that waits in a phase until it may go on; in IDLE and BROKEN there is none."""

    def __init__(self, phase: Phase, may_go_on: Any) -> None:
        self.trained, self.phase, self.raised = Trained(), phase, ""
        self._there, self._may_go_on = threading.Event(), may_go_on
        self.thread = threading.Thread(target=self._run, daemon=True)
        if phase in MID_STEP:
            self.thread.start()
            assert self._there.wait(PATIENCE)
            assert self.trained.engine.state.phase is phase
        elif phase is Phase.BROKEN:
            self.trained.engine.state.breaks(Broken("half of it is done"))

    def _run(self) -> None:
        def stay() -> None:
            self._there.set()
            self._may_go_on(PATIENCE)

        try:
            self.trained.disturbed_in(self.phase, stay)
        except EnforceNotMet as error:
            self.raised = str(error)

    def ended(self) -> bool:
        """Whether it has come to an end by now, in some seconds."""
        if self.thread.ident is not None:
            self.thread.join(PATIENCE)
        return not self.thread.is_alive()


def fork_in(phase: Phase, states: list[dict[str, bytes]]) -> None:
    go_on = threading.Event()
    step = StepOfAnotherThread(phase, go_on.wait)
    if phase in MID_STEP:
        threading.Timer(0.2, go_on.set).start()
    child = os.fork()
    waited = go_on.is_set()
    if child == 0:
        _continue_in_child(step, states)
    _, status = os.waitpid(child, 0)
    assert status == 0 and step.ended()
    tell(phase, waited=waited, steps=step.trained.engine.steps)


def _continue_in_child(step: StepOfAnotherThread, states: list[dict[str, bytes]]) -> None:
    try:
        trained, done = step.trained, step.trained.engine.steps
        assert trained.state() == states[done - 1]
        if step.phase is not Phase.BROKEN:
            assert trained.engine.state.phase is Phase.IDLE
            trained.step()
            assert trained.state() == states[done]
    except BaseException as error:
        print("in the child:", repr(error), file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def exit_in(phase: Phase, states: list[dict[str, bytes]]) -> None:
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
        return
    step = StepOfAnotherThread(phase, _wait_for_the_end)
    before = step.trained.engine.steps

    def judge() -> None:
        has_ended, steps = step.ended(), step.trained.engine.steps
        tell(phase, ended=has_ended, applied=steps - before, before=before, raised=step.raised)
        if not has_ended or step.trained.state() != states[steps - 1]:
            os._exit(1)

    OVER.append(judge)
    sys.exit(0)


def _wait_for_the_end(seconds: float) -> None:
    waiting = threading.Event()
    for _ in range(int(seconds / 0.01)):
        if the_end.has_come:
            return
        waiting.wait(0.01)


if __name__ == "__main__":
    expected = states_after(3)
    for each in Phase:
        {"FORK": fork_in, "EXIT": exit_in}[sys.argv[1]](each, expected)
