"""Steps as files for Perfetto: each is the step that was asked for, as the executor told it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.parallel.models import Model as Built
from workbench import events
from workbench.errors import NotFound, PreconditionNotMet
from workbench.executors.profiling.chrome import trace_events
from workbench.notebook.dashboard.model.model import Model
from workbench.notebook.dashboard.page.answers import answer
from workbench.notebook.dashboard.watching.samples import Samples

ModelOf = Callable[[Any], Model]
KINDS = events.Feed, events.OpRun, events.Wait, events.Collective, events.Step


def asked(model: Model, step: int | None) -> tuple[str, list[dict[str, Any]]]:
    file = answer(model, {"type": "trace", "request": 1, "step": step})
    assert file is not None and file["request"] == 1
    return file["name"], json.loads(file["data"].tobytes())["traceEvents"]


def test_the_step_that_was_asked_for_is_saved(built: Built, batch: dict[str, Any], model_of: ModelOf) -> None:
    exe = built.start().parallel(2)
    model, told = model_of(exe), {}
    with pytest.raises(PreconditionNotMet, match="no step has been looked at yet"):
        asked(model, None)
    for step in (1, 2, 3, 4):
        model.watch.sample_next() if step != 3 else model.watch.sampled_steps.close()
        with events.subscribe(told.setdefault(step, []).append, *KINDS):
            exe.run([built.loss], feed=batch)
        model.news()
        model.watch.sampled_steps.close()
    for step in (1, 2, 4):
        name, entries = asked(model, step)
        assert name == f"{model.subject.name}-step-{step}.json"
        assert entries == json.loads(json.dumps(trace_events(told[step])))
    assert asked(model, None) == asked(model, 4)
    with pytest.raises(NotFound, match="step 3 is not among the steps that were looked at"):
        asked(model, 3)


def test_steps_that_are_not_shown_any_more_are_not_kept_either(
    built: Built, batch: dict[str, Any], model_of: ModelOf
) -> None:
    exe = built.start().parallel(2)
    model, samples = model_of(exe), Samples(limit=12_000)
    for _ in range(12):
        model.watch.sample_next()
        exe.run([built.loss], feed=batch)
        samples.add(model.watch.sampled_steps.taken.popleft(), 1)
    kept = {message["step"] for message in samples.kept}
    assert 2 <= len(kept) < 12 and kept == set(samples._told) and max(kept) == 12
    for step in range(1, 13):
        if step in kept:
            assert {event.step for event in samples.events_of(step)} == {step - 1}
        else:
            with pytest.raises(NotFound):
                samples.events_of(step)
