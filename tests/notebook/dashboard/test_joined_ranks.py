"""What ranks tell, put together: graphs against those of one process, times against clocks that were set wrong."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import static
from workbench.config import override
from workbench.graph.check import check_graph
from workbench.notebook.dashboard.watching.previewed import graph_of_program
from workbench.notebook.dashboard.watching.ranks.joined_ranks import joined_sample, joined_scopes
from workbench.notebook.dashboard.watching.ranks.rank_graph import graphs_of_ranks
from workbench.notebook.messages import column


def program() -> tuple[Any, str]:
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x, label = static.data("x", [None, 6]), static.data("label", [None, 1], "int64")
        loss = wb.nn.functional.cross_entropy(static.nn.fc(static.nn.fc(x, 8, activation="tanh"), 3), label)
        wb.optimizer.Momentum(0.1, 0.9).minimize(loss)
    return main, loss.name


@pytest.fixture(autouse=True)
def _static() -> Any:
    wb.enable_static()
    yield
    wb.disable_static()


@pytest.mark.parametrize(("ranks", "devices"), [(1, 1), (2, 1), (2, 2), (3, 1)])
def test_the_graph_of_all_ranks_is_that_of_as_many_devices_of_one_process(ranks: int, devices: int) -> None:
    main, loss = program()
    with override(fuse_parameter_memory_size=1.0):  # else gradients are grouped otherwise among processes
        graphs = graphs_of_ranks(main, ranks, devices, [loss])
        whole, one = graphs.whole, graph_of_program(main, ranks * devices, [loss])
    check_graph(whole)

    def acts(graph: Any) -> Counter[Any]:
        return Counter((node.type, node.places) for node in graph.nodes)

    assert acts(whole) == acts(one) or ranks == 1
    assert [str(place) for place in whole.places][-1] == (f"rank {ranks - 1}" if devices == 1 else "rank 1:1")
    for rank, numbers in enumerate(graphs.numbers):
        for node, number in zip(graphs.own.nodes, numbers, strict=True):
            there = whole.nodes[number]
            assert there.type == node.type and {p + rank * devices for p in node.places} <= set(there.places)
            assert {(v.name, v.place + rank * devices, v.version) for v in node.writes} <= {
                (v.name, v.place, v.version) for v in there.writes
            }


def told(begun: int, starts: list[float], collective: list[int]) -> dict[str, Any]:
    """A rank of one device that was fed two rows, whose spans take a µs each."""
    count = len(starts)
    spans = {
        "start": column(starts, "float32"), "end": column([s + 1 for s in starts], "float32"),
        "collective": column(collective, "uint8"), "wait": column([0] * count, "uint8"),
        "within": column([0] * count, "uint8"), "node": column([*range(count - 1), -1], "int32"),
        "device": column([-1 if c else 0 for c in collective], "int32"), "thread": column([0] * count, "int32"),
        "label": column([0, 1][:count] + [0] * (count - 2), "int32"),
    }  # fmt: skip
    feeds = {
        "devices": ["cpu:0"], "names": ["x"], "rows": {"x": [2]}, "first": {"x": [0]}, "shapes": {"x": [[2, 6]]},
        "dtypes": {"x": "float32"}, "nbytes": [48], "previews": {"x": [begun]},
    }  # fmt: skip
    sample = {
        "step": 5, "seconds": 40e-6, "compiled": None, "feeds": feeds, "spans": spans, "labels": ["mul", "all_reduce"],
        "members": {"span": column([0], "int32"), "node": column([0], "int32")},
        "arrivals": {"span": column([1], "int32"), "device": column([0], "int32"), "at": column([9.0], "float32")},
    }  # fmt: skip
    return {"begun": begun, "sample": sample}


def test_times_are_aligned_by_what_the_clocks_were_found_apart() -> None:
    ranks = [told(1_000_000, [0, 10, 20], [0, 1, 0]), told(9_001_005_000, [0, 10, 20], [0, 1, 0])]
    clocks = [[0, 0], [9_000_000_000, 1500]]  # rank 1 began 5 µs after rank 0
    sample = joined_sample(ranks, [[0, 2, 3], [1, 2, 4]], clocks, 400_000)
    assert sample["spans"]["start"].tolist() == [0, 10, 20, 5, 15, 25]
    assert sample["seconds"] == pytest.approx(45e-6) and sample["at"] == pytest.approx(6e-4)
    assert sample["spans"]["device"].tolist() == [0, -1, 0, 1, -1, 1]
    assert sample["spans"]["process"].tolist() == [0, 0, 0, 1, 1, 1]
    assert sample["spans"]["node"].tolist() == [0, 2, -1, 1, 2, -1]
    assert sample["members"]["span"].tolist() == [0, 3] and sample["members"]["node"].tolist() == [0, 1]
    assert sample["arrivals"]["at"].tolist() == [9, 14] and sample["arrivals"]["span"].tolist() == [1, 4]
    assert sample["feeds"]["first"] == {"x": [0, 2]} and sample["feeds"]["previews"]["x"] == [1_000_000, 9_001_005_000]
    assert sample["clocks"]["within"].tolist() == [0, 1.5]
    late = joined_sample(list(reversed(ranks)), None, [[0, 0], [-9_000_000_000, 1500]], 0)
    assert late["spans"]["start"].tolist() == [5, 15, 25, 0, 10, 20] and set(late["spans"]["node"].tolist()) == {-1}


def test_memory_of_ranks_that_tell_of_different_steps_is_what_each_held_there() -> None:
    def scopes(steps: list[int], held: list[int], live: int) -> dict[str, Any]:
        table = {"step": column(steps, "float64"), "bytes": [column(held, "float64")]}
        entry = {"name": "w", "device": 0, "kind": "parameter", "shape": [live], "dtype": "float32", "bytes": live}
        drops = {**table, "cause": ["call"] * len(steps), "total": len(steps), "since": 0}
        return {"memory": table, "drops": drops, "live": [entry], "live_total": {"count": 1, "bytes": live}}

    joined = joined_scopes([scopes([1, 5], [10, 20], 4), scopes([2, 5], [30, 40], 8)], 1)
    assert joined["memory"]["step"].tolist() == [1, 2, 5]
    assert [c.tolist() for c in joined["memory"]["bytes"]] == [[10, 10, 20], [0, 30, 40]]
    assert [(one["device"], one["bytes"]) for one in joined["live"]] == [(1, 8), (0, 4)]
    assert joined["live_total"] == {"count": 2, "bytes": 12} and joined["drops"]["total"] == 2
    assert np.array_equal(joined["drops"]["step"], [1, 2, 5])
