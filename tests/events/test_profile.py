"""The profile: sums that can be computed by hand, tables whose columns line up."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.events.samples import MS, MUL, PLACES, TANH, op, session, step_of
from tests.events.trace_reader import Trace
from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet
from workbench.events import LISTENERS, Collective, Event, Memory, OpRun, Step, Wait, emit, emit_all, listening
from workbench.executors.profiling.profile import Profile
from workbench.executors.profiling.profile_table import microseconds
from workbench.executors.profiling.sums import covered, per_step


def profiled(events: list[Event], **options: int) -> Profile:
    with Profile(**options) as profile:
        emit_all(events)
    return profile


@pytest.fixture
def profile() -> Profile:
    return profiled(session(steps=3))


def test_it_collects_between_start_and_stop_only() -> None:
    events = session()
    emit_all(events)
    profile = Profile()
    emit_all(events)
    with profile as same:
        assert same is profile and listening(OpRun)
        emit_all(events)
    emit_all(events)
    assert profile.events == tuple(events)
    assert not LISTENERS


def test_starting_again_begins_anew_and_starting_twice_is_refused() -> None:
    profile = profiled(session())
    profile.start()
    with pytest.raises(PreconditionNotMet, match=r"stop\(\)"):
        profile.start()
    emit(session()[0])
    profile.stop()
    profile.stop()
    assert profile.events == (session()[0],)


def test_it_stops_when_the_body_fails() -> None:
    with pytest.raises(ZeroDivisionError), Profile() as profile:
        emit_all(session(steps=1))
        raise ZeroDivisionError
    assert not LISTENERS and profile.op_types()


def test_only_some_kinds() -> None:
    profile = Profile(Step, Memory)
    with profile:
        assert not listening(OpRun)
        emit_all(session(steps=2))
    assert {type(e) for e in profile.events} == {Step, Memory}
    assert "exe_1: 2 steps" in profile.table()
    with pytest.raises(InvalidType):
        Profile(int).start()  # type: ignore[arg-type]


def test_old_events_are_dropped_at_the_limit_and_counted() -> None:
    events = session(steps=4)
    profile = profiled(events, limit=5)
    assert profile.events == tuple(events[-5:])
    assert profile.dropped == len(events) - 5
    assert f"The {profile.dropped} oldest events were dropped" in profile.table()
    with pytest.raises(InvalidArgument, match="at least 1"):
        Profile(limit=0)


def test_several_threads_may_tell_at_once() -> None:
    profile = Profile(limit=700)
    with profile:
        threads = [threading.Thread(target=emit_all, args=(session(f"exe_{k}", 20),)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert len(profile.events) == 700
    assert profile.dropped == 4 * len(session(steps=20)) - 700


# Sums


def test_time_by_op_type(profile: Profile) -> None:
    mul, tanh = profile.op_types()
    assert (mul.name, mul.calls) == ("mul", 6) and (tanh.name, tanh.calls) == ("tanh", 6)
    assert mul.total == pytest.approx(3 * (4 + 2) / 1e3) and tanh.total == pytest.approx(3 * 2 / 1e3)
    assert mul.mean == pytest.approx(3 / 1e3) and mul.max == pytest.approx(4 / 1e3)
    assert mul.share == pytest.approx(18 / 24) and tanh.share == pytest.approx(6 / 24)


def test_time_by_single_op_with_device_and_line(profile: Profile) -> None:
    lines = profile.ops()
    assert [(line.name, str(line.place), str(line.site), line.calls) for line in lines] == [
        ("mul", "cpu:0", "net.py, line 3", 3),
        ("mul", "cpu:1", "net.py, line 3", 3),
        ("tanh", "cpu:0", "net.py, line 4", 3),
        ("tanh", "cpu:1", "net.py, line 4", 3),
    ]
    assert [line.total for line in lines] == pytest.approx([12 / 1e3, 6 / 1e3, 3 / 1e3, 3 / 1e3])
    assert lines[0].outputs == ("mul.out[2, 4]",)
    assert sum(line.share for line in lines) == pytest.approx(1)


def test_an_op_is_itself_in_whichever_plan_and_other_shapes_are_other_ops() -> None:
    again, other = op(0, "mul", 0, line=3), op(0, "mul", 0, (7, 4), line=3)
    assert again is not MUL[0] and again == MUL[0]
    profile = profiled([OpRun("e", k, info, 0, 0, MS) for k, info in enumerate([MUL[0], again, other])])
    assert {line.outputs[0]: line.calls for line in profile.ops()} == {"mul.out[2, 4]": 2, "mul.out[7, 4]": 1}
    assert [line.calls for line in profile.op_types()] == [3]


@pytest.mark.parametrize(
    ("by", "first"), [("total", "many"), ("mean", "slow"), ("median", "slow"), ("max", "outlier"), ("calls", "many")]
)
def test_what_the_lines_are_sorted_by(by: str, first: str) -> None:
    spans = {"many": [3] * 20, "slow": [15], "outlier": [1, 1, 1, 25]}
    events: list[Event] = [OpRun("e", 0, op(0, kind, 0), 0, 0, d * MS) for kind, ds in spans.items() for d in ds]
    profile = profiled(events)
    for lines in (profile.op_types(by), profile.ops(by)):  # type: ignore[arg-type]
        keys = [getattr(line, by) for line in lines]
        assert lines[0].name == first and keys == sorted(keys, reverse=True)
    assert f"op type (by {by})" in profile.table(by=by)  # type: ignore[arg-type]


def test_medians_and_spread_of_a_series_one_can_check_by_hand() -> None:
    """11 calls of 1 … 10 ms and one of a second, told in no order: the outlier moves the mean, not the median."""
    lasted = [7, 1, 1000, 4, 10, 2, 9, 3, 8, 5, 6]
    (line,) = profiled([OpRun("e", k, MUL[0], 0, 0, d * MS) for k, d in enumerate(lasted)]).ops()
    assert line.median == pytest.approx(6 / 1e3) and line.mean == pytest.approx(1055 / 11 / 1e3)
    assert line.spread == (pytest.approx(3.5 / 1e3), pytest.approx(8.5 / 1e3))
    (alone,) = profiled([OpRun("e", 0, MUL[0], 0, 0, MS)]).ops()
    assert alone.median == 1 / 1e3 and alone.spread == (1 / 1e3, 1 / 1e3)


def test_totals_of_a_step_by_type_and_layer() -> None:
    """Two devices and three steps; in each step `fc_0` takes 2 (k + 1) + 1 ms, `fc_1` 5 ms."""
    first, second = replace(MUL[0], layer="fc_0"), replace(TANH[1], layer="fc_0")
    other = replace(MUL[1], layer="fc_1")
    told: list[Event] = []
    for k in range(3):
        told += [OpRun("e", k, first, 0, 0, (k + 1) * MS), OpRun("e", k, first, 0, 0, (k + 1) * MS)]
        told += [OpRun("e", k, second, 1, 0, MS), OpRun("e", k, other, 0, 0, 5 * MS)]
    by_layer = {line.name: line for line in per_step(told, lambda op: [(op.layer, 1.0)])}
    assert [*by_layer] == ["fc_0", "fc_1"] and [line.calls for line in by_layer.values()] == [3, 3]
    assert by_layer["fc_0"].median == pytest.approx(5 / 1e3) and by_layer["fc_0"].spread == pytest.approx(
        (4 / 1e3, 6 / 1e3)
    )
    assert by_layer["fc_1"].median == pytest.approx(5 / 1e3) and by_layer["fc_0"].total == pytest.approx(15 / 1e3)
    types = {line.name: line.median for line in per_step(told, lambda op: [(op.type, 1.0)])}
    assert types == {"mul": pytest.approx(9 / 1e3), "tanh": pytest.approx(1 / 1e3)}
    lines = {line.name: (line.calls, line.total) for line in profiled(told).layers()}
    assert lines == {"fc_0": (3, pytest.approx(15 / 1e3)), "fc_1": (3, pytest.approx(15 / 1e3))}
    assert re.search(r"^fc_1 +3 +15,000\.0", profiled(told).table(), re.MULTILINE)


def test_waiting_is_neither_busy_nor_idle() -> None:
    told = [
        Wait("e", 0, PLACES[0], 0, 1 * MS, 4 * MS, ("op 'mul' on cpu:1",)),
        OpRun("e", 0, MUL[0], 0, 4 * MS, 6 * MS),
        Collective("e", 0, "all_reduce", ("w",), 8, PLACES, 0, 6 * MS, 7 * MS, False, (3 * MS, 6 * MS)),
        Step("e", 0, 0, 10 * MS, PLACES, (1, 1)),
    ]
    profile = profiled(told)
    (thread,) = profile.threads()
    assert (thread.busy, thread.waiting, thread.idle) == (3 / 1e3, 3 / 1e3, pytest.approx(4 / 1e3))
    (traffic,) = profile.collectives()
    assert (traffic.total, traffic.waited) == (1 / 1e3, 3 / 1e3)
    assert told[2].waits == (3 * MS, 0)  # type: ignore[attr-defined]


def test_collectives_are_summed_by_kind(profile: Profile) -> None:
    (collective,) = profile.collectives()
    assert (collective.kind, collective.calls, collective.nbytes) == ("all_reduce", 3, 9_000)
    assert (collective.total, collective.max) == (pytest.approx(6 / 1e3), pytest.approx(2 / 1e3))


def test_busy_and_idle_time_of_every_thread(profile: Profile) -> None:
    """30 ms of steps: thread 0 works 4 + 1 + 2 ms of each 10, thread 1 works 2 + 1."""
    threads = [(t.executor, t.thread, t.busy, t.idle) for t in profile.threads()]
    assert threads == [
        ("exe_1", 0, pytest.approx(21 / 1e3), pytest.approx(9 / 1e3)),
        ("exe_1", 1, pytest.approx(9 / 1e3), pytest.approx(21 / 1e3)),
    ]


def test_a_step_that_failed_is_not_idle_time() -> None:
    failed = [e for e in step_of("exe_1", 9, 0) if not isinstance(e, Step)]
    profile = profiled(session(steps=3) + failed)
    assert [t.busy + t.idle for t in profile.threads()] == pytest.approx([30 / 1e3] * 2)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=12))
def test_covered_time_counts_nothing_twice(spans: list[tuple[int, int]]) -> None:
    points = {point for start, length in spans for point in range(start, start + length)}
    assert covered([(start, start + length) for start, length in spans]) == len(points)


# The table


def test_the_table_shows_every_sum(profile: Profile) -> None:
    text = profile.table()
    assert "exe_1: 3 steps on cpu:0, cpu:1, 30.000 ms, 10.000 ms a step; 1 plan compiled in 5.000 ms" in text
    assert "Error in step 3 of exe_1: boom" in text
    for row in [
        r"mul +6 +18,000\.0 +3,000\.0 +3,000\.0 +4,000\.0 +75\.0 %",
        r"tanh +6 +6,000\.0 +1,000\.0 +1,000\.0 +1,000\.0 +25\.0 %",
        r"mul → mul\.out\[2, 4\] +3 +12,000\.0 +4,000\.0 +4,000\.0 +4,000\.0 +50\.0 % +cpu:0 +net\.py, line 3",
        r"all_reduce +3 +9,000 +6,000\.0 +2,000\.0 +0\.0 +1\.5",
        r"exe_1, thread 0 +21,000\.0 +0\.0 +9,000\.0 +30\.0 %",
        r"exe_1, thread 1 +9,000\.0 +0\.0 +21,000\.0 +70\.0 %",
        r"cpu:0 +9 +144 +4,096 +4,096",
        r"cpu:1 +6 +96 +2,048 +2,048",
    ]:
        assert re.search(f"^{row}$", text, re.MULTILINE), row


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0"), (4.2e-9, "0.00420"), (5e-8, "0.0500"), (1.234e-6, "1.23"), (12.34e-6, "12.3"),
        (123.4e-6, "123.4"), (2.3456789, "2,345,678.9"),
    ],
)  # fmt: skip
def test_what_is_small_has_three_digits(seconds: float, text: str) -> None:
    assert microseconds(seconds) == text


def test_columns_line_up(profile: Profile) -> None:
    for part in profile.table().split("\n\n")[1:]:
        head, rule, *rows = part.split("\n")
        assert set(rule) == {"-"}
        assert len(rule) == max(map(len, [head, *rows]))
    ops = profile.table().split("\n\n")[2].split("\n")
    assert len({line.index("cpu:") for line in ops[2:]}) == 1 and ops[0].index("device") == ops[2].index("cpu:")
    ends = {line.index("%") for line in ops[2:]}
    assert len(ends) == 1 and ops[0].index("share") + len("share") == ends.pop() + 1


def test_ops_of_several_executors_are_told_apart() -> None:
    text = profiled(session("exe_1") + session("exe_2", steps=1)).table()
    assert re.search(r"^mul → mul\.out\[2, 4\] +3 .* cpu:0 of exe_1  net\.py, line 3$", text, re.MULTILINE)
    assert re.search(r"^mul → mul\.out\[2, 4\] +1 .* cpu:0 of exe_2  net\.py, line 3$", text, re.MULTILINE)


def test_long_lists_and_names_are_cut() -> None:
    events: list[Event] = [OpRun("e", 0, op(k, f"kind_{k:02}", 0), 0, 0, (k + 1) * MS) for k in range(30)]
    events.append(OpRun("e", 0, op(99, "x" * 300, 0), 0, 0, 1))
    text = profiled(events).table(n=4)
    assert text.count("… and 27 more") == 2
    assert "kind_29" in text and "kind_26" in text and "kind_25" not in text
    long = profiled(events).table(n=50)
    assert max(map(len, long.split("\n"))) < 140 and "x" * 47 + "…" in long


def test_peak_memory_is_that_of_all_executors_together() -> None:
    events: list[Event] = [
        Memory("a", 0, PLACES[0], 100, 1), Memory("b", 0, PLACES[0], 50, 2),
        Memory("a", 1, PLACES[0], 10, 3), Memory("b", 1, PLACES[0], 60, 4),
    ]  # fmt: skip
    assert re.search(r"^cpu:0 +0 +0 +150 +0$", profiled(events).table(), re.MULTILINE)


def test_a_profile_of_nothing_says_so() -> None:
    assert "Nothing was profiled" in profiled([]).table()


@pytest.mark.parametrize(
    ("arguments", "text"), [({"n": 0}, "at least 1, got 0"), ({"by": "age"}, "'total'.*got 'age'")]
)
def test_wrong_arguments_are_told(profile: Profile, arguments: dict, text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        profile.table(**arguments)
    with pytest.raises(InvalidArgument, match="got 'age'"):
        profile.ops("age")  # type: ignore[arg-type]


def test_ops_that_took_no_time_at_all() -> None:
    profile = profiled([OpRun("e", 0, MUL[0], 0, 5, 5), Step("e", 0, 5, 5, PLACES, (1, 1))])
    assert profile.op_types()[0].share == 0 and "mul" in profile.table()


def test_the_trace_holds_what_was_profiled(profile: Profile, tmp_path: Path) -> None:
    profile.export_chrome_trace(tmp_path / "trace.json")
    trace = Trace.read(tmp_path / "trace.json")
    assert len([e for e in trace.of("X") if e["cat"].startswith("op,")]) == len(
        [e for e in profile.events if isinstance(e, OpRun)]
    )
