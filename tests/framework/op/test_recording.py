"""Another recorder in the body of a `with`, and what is left of one whose body never began."""

import contextvars
import gc
import sys
from typing import Any

import pytest

from workbench.framework.op.recorder import current_recorder, recording
from workbench.framework.program.guard import StaticRecorder


def test_the_innermost_recorder_is_in_force() -> None:
    outside, one, other = current_recorder(), StaticRecorder(), StaticRecorder()
    with recording(one):
        with recording(other):
            assert current_recorder() is other
        assert current_recorder() is one
    assert current_recorder() is outside


def test_entered_in_another_context_and_let_go_it_says_nothing_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where Ctrl-C comes between `__enter__` and the body, and the traceback is let go somewhere else."""
    ignored: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    outside, context, kept = current_recorder(), contextvars.copy_context(), []

    def enter() -> None:
        kept.append(recording(StaticRecorder()))
        kept[0].__enter__()

    context.run(enter)
    kept.clear()
    gc.collect()
    assert ignored == [] and current_recorder() is outside
    assert context.run(current_recorder) is outside
