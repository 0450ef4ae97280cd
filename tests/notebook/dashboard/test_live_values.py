"""Live variables: every byte counts once, whoever uses it, against marks on a copy of the memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import classifier
from workbench import static
from workbench.notebook.dashboard.watching.live_values import live_values, totals


def after_steps(strategy: str, batch: dict[str, Any]) -> Any:
    built = classifier(wb.optimizer.Momentum(0.1, 0.9)).start()
    build = static.BuildStrategy()
    build.reduce_strategy = getattr(static.BuildStrategy.ReduceStrategy, strategy)
    exe = built.parallel(2, build_strategy=build)
    for _ in range(2):
        exe.run([built.loss], feed=batch)
    return exe.inspection


def of_kind(live: list[Any], *kinds: str) -> list[Any]:
    return [one for one in live if one["kind"] in kinds]


@pytest.mark.parametrize("strategy", ["AllReduce", "Reduce"])
def test_temporaries_in_the_same_memory_count_once(strategy: str, batch: dict[str, Any]) -> None:
    engine = after_steps(strategy, batch)
    told, plan = live_values(engine), engine.last.plan
    marks = {place: np.zeros(arena.nbytes, bool) for place, arena in engine.arenas.items()}
    elsewhere = 0
    for (name, place), value in plan.graph.newest.items():
        if value.persistable or not any((one["name"], one["device"]) == (name, place) for one in told["live"]):
            continue
        size = next(one["bytes"] for one in told["live"] if (one["name"], one["device"]) == (name, place))
        ref = plan.refs.get(value)
        if ref is None:
            elsewhere += size
        else:
            marks[ref.root.place][ref.root.offset + ref.offset :][:size] = True
    temporaries = of_kind(told["live"], "temporary", "feed")
    held = sum(int(mark.sum()) for mark in marks.values()) + elsewhere
    assert sum(one["own"] for one in temporaries) == held < sum(one["bytes"] for one in temporaries)
    assert told["live_total"]["bytes"] == sum(one["own"] for one in told["live"])
    assert all(0 <= one["own"] <= one["bytes"] for one in told["live"])


@pytest.mark.parametrize(("strategy", "copies"), [("AllReduce", 2), ("Reduce", 1)])
def test_parameters_and_state_that_devices_share_count_once(strategy: str, copies: int, batch: dict[str, Any]) -> None:
    engine = after_steps(strategy, batch)
    told = live_values(engine)
    live, total = told["live"], told["live_total"]
    bars = totals(strategy, engine.last.plan.graph)["devices"]
    for kind, key in (("parameter", "parameters"), ("state", "state")):
        held = [one for one in of_kind(live, kind) if "learning_rate" not in one["name"]]
        # of equal replicas there is one, whichever devices hold it
        assert sum(one["own"] for one in held) * copies == sum(device[key] for device in bars)
        assert {name: [one["name"] for one in held].count(name) for name in {one["name"] for one in held}} == (
            dict.fromkeys({one["name"] for one in held}, 1)
        )
        assert {one["device"] for one in held} == {"shared by 2 devices"}
    kept = of_kind(live, "parameter", "state")
    # under AllReduce the learning rate, too, is in one memory
    common = [one["own"] for one in kept if strategy == "AllReduce" or "learning_rate" not in one["name"]]
    assert (total["kept"], total["shared"]) == (sum(one["own"] for one in kept), sum(common))
