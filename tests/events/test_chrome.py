"""The timeline: every event is where it belongs, and the file is what the Trace Event Format demands."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.events.samples import MS, MUL, PLACES, op, session
from tests.events.trace_reader import Trace
from workbench.errors import InvalidArgument
from workbench.events import Collective, Error, Event, Feed, Memory, OpInfo, OpRun, Step, Wait
from workbench.executors.profiling.chrome import write_trace
from workbench.framework.values.place import CPUPlace, CUDAPlace

BEGIN = 5_000_000_123


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trace.json"


def written(path: Path, events: list[Event]) -> Trace:
    write_trace(path, events)
    return Trace.read(path)


def test_processes_and_rows_have_names_in_order(path: Path) -> None:
    trace = written(path, session())
    assert list(trace.processes.values()) == ["workbench", "cpu:0", "cpu:1"]
    assert sorted(trace.processes) == list(trace.processes)
    assert list(trace.rows) and set(trace.rows) == {
        ("workbench", "steps"),
        ("cpu:0", "thread 0"),
        ("cpu:0", "collectives"),
        ("cpu:1", "thread 1"),
        ("cpu:1", "collectives"),
    }
    numbers = [*trace.processes, *(tid for pid, tid in trace.threads if pid != tid)]
    assert len(set(numbers)) == len(numbers), "numbers of processes and threads are all different"


def test_every_op_of_every_step_is_there_with_its_time_in_microseconds(path: Path) -> None:
    trace = written(path, session(steps=3))
    muls = [e for e in trace.rows["cpu:0", "thread 0"] if e["name"] == "mul"]
    assert [(e["ts"], e["dur"]) for e in muls] == [(5_000, 4_000), (15_000, 4_000), (25_000, 4_000)]
    muls = [e for e in trace.rows["cpu:1", "thread 1"] if e["name"] == "mul"]
    assert [(e["ts"], e["dur"]) for e in muls] == [(5_000, 2_000), (15_000, 2_000), (25_000, 2_000)]
    assert len(trace.of("X")) == 1 + 3 * (1 + 4 + 2)


def test_an_op_tells_its_shapes_bytes_and_line(path: Path) -> None:
    trace = written(path, session(steps=1))
    mul = trace.rows["cpu:1", "thread 1"][0]
    assert mul["cat"] == "op,Forward"
    assert mul["args"] == {
        "step": 0, "node": 0, "executor": "exe_1", "outputs": {"mul.out": "float32[2, 4]"}, "bytes": 32, "ops": ["mul"],
        "built at": "net.py, line 3",
    }  # fmt: skip


def test_steps_and_compilations_are_on_the_row_of_the_executor(path: Path) -> None:
    trace = written(path, session(steps=2))
    row = trace.rows["workbench", "steps"]
    assert [(e["name"], e["ts"], e["dur"]) for e in row] == [
        ("compile", 0, 5_000), ("step 0", 5_000, 10_000), ("step 1", 15_000, 10_000),
    ]  # fmt: skip
    assert row[1]["args"] == {"step": 0, "rows": {"cpu:0": 3, "cpu:1": 2}, "executor": "exe_1"}
    assert row[0]["args"]["nodes"] == 9 and row[0]["args"]["cached plans"] == 1


def test_a_collective_is_on_a_row_of_every_device(path: Path) -> None:
    trace = written(path, session(steps=1))
    for place in ("cpu:0", "cpu:1"):
        (event,) = trace.rows[place, "collectives"]
        assert (event["name"], event["ts"], event["dur"]) == ("all_reduce", 11_000, 2_000)
        assert event["args"]["names"] == ["w@GRAD", "b@GRAD"] and event["args"]["bytes"] == 3_000


def test_waits_are_slices_of_their_thread_and_collectives_tell_what_devices_waited(path: Path) -> None:
    wait = Wait("e", 0, PLACES[1], 1, 2 * MS, 5 * MS, ("op 'mul' on cpu:0",))
    summed = Collective("e", 0, "all_reduce", ("w",), 8, PLACES, 0, 5 * MS, 6 * MS, True, (5 * MS, 2 * MS))
    trace = written(path, [OpRun("e", 0, MUL[1], 1, 0, 2 * MS), wait, summed])
    row = trace.rows["cpu:1", "thread 1"]
    assert [(e["name"], e["cat"], e["ts"], e["dur"]) for e in row][1] == ("wait", "wait", 2_000, 3_000)
    assert row[1]["args"]["for"] == ["op 'mul' on cpu:0"]
    (event,) = trace.rows["cpu:0", "collectives"]
    assert (event["ts"], event["dur"]) == (5_000, 1_000)
    assert event["args"]["waited us"] == {"cpu:0": 0.0, "cpu:1": 3_000.0} and event["args"]["within ops"] is True


def test_memory_and_fed_rows_are_counters_per_device(path: Path) -> None:
    trace = written(path, session(steps=2))
    values: dict[tuple[str, str], list[tuple[float, dict[str, int]]]] = {}
    for event in trace.of("C"):
        values.setdefault((trace.process_of(event), event["name"]), []).append((event["ts"], event["args"]))
    assert values["cpu:0", "memory of temporaries"] == [
        (14_000, {"bytes": 4096}), (24_000, {"bytes": 4096}), (26_000, {"bytes": 0}),
    ]  # fmt: skip
    assert values["cpu:1", "fed rows"] == [(5_000, {"x": 2}), (15_000, {"x": 2})]
    assert len(values) == 4


def test_drops_and_errors_are_instants(path: Path) -> None:
    trace = written(path, session(steps=2))
    first, second, error = trace.of("i")
    assert [first["name"], trace.process_of(first), first["s"], first["ts"]] == ["scope drop", "cpu:0", "p", 26_000]
    assert first["args"]["bytes"] == 4096 and second["args"]["bytes"] == 2048 and first["args"]["cause"] == "interval"
    assert [error["name"], trace.process_of(error), error["s"], error["ts"]] == ["error", "cpu:1", "g", 27_000]
    assert error["args"]["text"] == "boom\n  got: 3" and error["args"]["built at"] == "net.py, line 4"


def test_an_error_without_a_device_is_the_executors(path: Path) -> None:
    trace = written(path, [Error("exe", 0, "a feed is missing")])
    (error,) = trace.of("i")
    assert trace.process_of(error) == "workbench" and error["ts"] == 0


def test_several_executors_have_rows_of_their_own(path: Path) -> None:
    trace = written(path, session("exe_1") + session("exe_2", begin=BEGIN + 2 * MS))
    assert {row for _, row in trace.rows} == {
        f"{row}, exe_{k}" for row in ("steps", "thread 0", "thread 1", "collectives") for k in (1, 2)
    }
    assert {e["name"] for e in trace.of("C")} == {
        f"{name}, exe_{k}" for name in ("fed rows", "memory of temporaries") for k in (1, 2)
    }


def test_collectives_in_flight_together_get_lanes(path: Path) -> None:
    spans = [(0, 10), (5, 15), (8, 20), (11, 12), (16, 30)]
    events: list[Event] = [
        Collective("e", 0, "all_reduce", (f"g{k}",), 8, PLACES[:1], 0, a * MS, b * MS) for k, (a, b) in enumerate(spans)
    ]
    trace = written(path, events)
    names = {row: [e["args"]["names"][0] for e in of_row] for (_, row), of_row in trace.rows.items()}
    assert names == {"collectives": ["g0", "g3", "g4"], "collectives (2)": ["g1"], "collectives (3)": ["g2"]}


def test_what_lies_inside_stays_on_the_row(path: Path) -> None:
    """Beginning or ending together is inside, too; the outer slice comes first."""
    spans = [(0, 3), (3, 10), (0, 10), (0, 0), (10, 10), (10, 12)]
    trace = written(path, [OpRun("e", 0, MUL[0], 0, a * MS, b * MS) for a, b in spans])
    assert [*trace.rows] == [("cpu:0", "thread 0")]
    assert [e["dur"] for e in trace.rows["cpu:0", "thread 0"]] == [10_000, 3_000, 0, 7_000, 2_000, 0]


def test_rows_and_devices_are_in_the_order_of_their_numbers(path: Path) -> None:
    places = [CPUPlace(10), CPUPlace(2), CUDAPlace(0)]
    events: list[Event] = [
        OpRun("e", 0, OpInfo(0, "mul", place), thread, 0, 5) for place in places for thread in (10, 9, 2)
    ]
    trace = written(path, [*events, Collective("e", 0, "all_reduce", ("w",), 4, (places[1],), 2, 0, 5)])
    assert list(trace.processes.values()) == ["cpu:2", "cpu:10", "gpu:0"]
    rows = [trace.threads[pid, tid] for pid, tid in sorted(trace.threads) if trace.processes[pid] == "cpu:2"]
    assert rows == ["events", "thread 2", "thread 9", "thread 10", "collectives"]


Span = st.tuples(st.integers(0, 60), st.integers(0, 25)).map(lambda t: (t[0], t[0] + t[1]))


@given(st.lists(st.tuples(Span, st.integers(0, 1)), max_size=30), st.integers(0, 10**15))
def test_any_spans_become_well_formed_rows(tmp_path_factory: pytest.TempPathFactory, runs: list, origin: int) -> None:
    """The reader refuses slices that cross; nothing is lost or moved."""
    path = tmp_path_factory.getbasetemp() / "any.json"
    events: list[Event] = [OpRun("e", 0, MUL[0], thread, origin + a, origin + b) for (a, b), thread in runs]
    trace = written(path, events)
    first = min((a for (a, _), _ in runs), default=0)
    expected = sorted((thread, a - first, b - a) for (a, b), thread in runs)
    spans = [
        (int(row.split()[1]), round(e["ts"] * 1000), round(e["dur"] * 1000))
        for (_, row), slices in trace.rows.items()
        for e in slices
    ]
    assert sorted(spans) == expected


def test_any_name_survives(path: Path) -> None:
    name = 'a"b\\c\n\u2028é\U0001f600\ud800</script>'
    trace = written(path, [OpRun("e", 0, OpInfo(0, name, PLACES[0]), 0, 0, 1), Error("e", 0, name)])
    assert trace.of("X")[0]["name"] == name and trace.of("i")[0]["args"]["text"] == name


def test_nothing_collected_is_an_empty_trace(path: Path) -> None:
    assert written(path, []).events == []


def test_feeds_of_fewer_devices_and_of_nothing(path: Path) -> None:
    feed = Feed("e", 0, PLACES, {"x": (3,)}, {"x": ((3, 1),)}, {"x": "float32"}, (12, 0), 7)
    trace = written(path, [feed, Feed("e", 1, PLACES, {}, {}, {}, (0, 0), 9)])
    assert [(trace.process_of(e), e["args"]) for e in trace.of("C")] == [("cpu:0", {"x": 3})]


# The file


def test_the_file_is_replaced_whole(path: Path) -> None:
    write_trace(path, session(steps=5))
    before = path.read_bytes()
    with pytest.raises(TypeError):
        write_trace(path, [Step("e", 0, 0, 1, PLACES, (object(),))])  # type: ignore[arg-type]
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["trace.json"]
    assert len(written(path, session(steps=1)).of("X")) == 1 + 7


def test_folders_are_made_and_a_folder_is_no_file(tmp_path: Path) -> None:
    written(tmp_path / "a" / "b" / "trace.json", session())
    with pytest.raises(InvalidArgument, match="it is a folder"):
        write_trace(tmp_path / "a", session())
    with pytest.raises(OSError):
        write_trace(tmp_path / "a" / "b" / "trace.json" / "c", session())


GOOD: dict[str, dict[str, Any]] = {
    "X": {"name": "a", "cat": "c", "ph": "X", "ts": 1, "dur": 2, "pid": 1, "tid": 1, "args": {}},
    "i": {"name": "a", "cat": "c", "ph": "i", "ts": 1, "s": "p", "pid": 1, "tid": 1, "args": {}},
    "C": {"name": "a", "ph": "C", "ts": 1, "pid": 1, "tid": 1, "args": {"bytes": 3}},
}


def read(*events: dict[str, Any]) -> Trace:
    names = [
        {"name": f"{kind}_name", "ph": "M", "ts": 0, "pid": 1, "tid": 1, "args": {"name": "n"}}
        for kind in ("process", "thread")
    ]
    return Trace(json.dumps({"displayTimeUnit": "ms", "traceEvents": [*names, *events]}))


@pytest.mark.parametrize(
    ("phase", "wrong"),
    [
        ("X", {"ts": -1.0}), ("X", {"dur": -1}), ("X", {"ts": "1"}), ("X", {"dur": None}), ("X", {"ph": "Q"}),
        ("X", {"pid": "one"}), ("X", {"tid": 99}), ("X", {"pid": 2}), ("X", {"name": ""}), ("X", {"args": []}),
        ("X", {"extra": 1}), ("X", {"ts": float("nan")}), ("i", {"s": "everywhere"}), ("i", {"tid": 99}),
        ("C", {"args": {"bytes": "many"}}), ("C", {"args": {}}), ("C", {"pid": 2}),
    ],
)  # fmt: skip
def test_the_reader_refuses_what_is_not_a_trace(phase: str, wrong: dict[str, Any]) -> None:
    assert len(read(GOOD[phase]).of(phase)) == 1
    with pytest.raises(AssertionError):
        read({**GOOD[phase], **wrong})


@pytest.mark.parametrize("field", ["ph", "name", "cat", "ts", "dur", "pid", "tid", "args"])
def test_the_reader_misses_what_is_missing(field: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        read({key: value for key, value in GOOD["X"].items() if key != field})


def test_the_reader_refuses_slices_that_cross() -> None:
    inside, after, crossing = ({**GOOD["X"], "ts": ts, "dur": dur} for ts, dur in ((2, 1), (3, 4), (2, 5)))
    assert len(read(GOOD["X"], inside, after).of("X")) == 3
    with pytest.raises(AssertionError, match="crosses"):
        read(GOOD["X"], crossing)
    with pytest.raises(AssertionError, match="not in order"):
        read(after, inside)


def test_memory_and_ops_without_details(path: Path) -> None:
    bare = OpRun("e", 0, OpInfo(3, "mul", PLACES[0]), 0, 0, 10)
    detailed = OpRun("e", 0, op(4, "tanh", 0), 0, 10, 20)
    trace = written(path, [bare, detailed, Memory("e", 0, PLACES[0], 1, 5)])
    assert [e["args"].get("built at") for e in trace.of("X")] == [None, "net.py, line 1"]
