"""A reader of Google's *Trace Event Format* that accepts nothing the document does not allow.

Written from the format's description, not from the writer: fields of every phase, units, scopes of instants, numeric
counters, names of metadata, and slices that nest.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

METADATA = {
    "process_name": ("name", str),
    "thread_name": ("name", str),
    "process_sort_index": ("sort_index", int),
    "thread_sort_index": ("sort_index", int),
}
FIELDS = {
    "X": {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"},
    "i": {"name", "cat", "ph", "ts", "pid", "tid", "s", "args"},
    "C": {"name", "ph", "ts", "pid", "tid", "args"},
    "M": {"name", "ph", "ts", "pid", "tid", "args"},
}
TOP = {"traceEvents", "displayTimeUnit", "otherData"}


class Trace:
    """A file that follows the format.

    Attributes:
        events: all of them; rows: {(process name, row name): slices in file order}.
    """

    def __init__(self, text: str) -> None:
        self.top = json.loads(text, parse_constant=refuse_constant, object_pairs_hook=refuse_duplicates)
        assert set(self.top) <= TOP
        assert self.top["displayTimeUnit"] in ("ms", "ns")
        self.events: list[dict[str, Any]] = self.top["traceEvents"]
        for event in self.events:
            check_event(event)
        self.processes = self._names("process_name", lambda e: e["pid"])
        self.threads = self._names("thread_name", lambda e: (e["pid"], e["tid"]))
        self.rows: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        for event in self.of("X", "i"):
            key = self.processes[event["pid"]], self.threads[event["pid"], event["tid"]]
            if event["ph"] == "X":
                self.rows[key].append(event)
        for row in self.rows.values():
            check_nesting(row)

    @classmethod
    def read(cls, path: Path) -> Trace:
        return cls(path.read_bytes().decode("utf-8"))

    def of(self, *phases: str) -> list[dict[str, Any]]:
        return [e for e in self.events if e["ph"] in phases]

    def process_of(self, event: dict[str, Any]) -> str:
        return self.processes[event["pid"]]

    def _names(self, kind: str, key: Any) -> dict[Any, str]:
        """Names by number; a number has one name, and a name in a process one number."""
        names: dict[Any, str] = {}
        for event in self.of("M"):
            if event["name"] == kind:
                assert key(event) not in names, f"two names for {key(event)}"
                names[key(event)] = event["args"]["name"]
        assert {key(e) for e in self.of("X", "i", "C") if kind == "process_name" or e["ph"] != "C"} <= set(names)
        return names


def check_event(event: dict[str, Any]) -> None:
    assert event["ph"] in FIELDS, event
    assert set(event) == FIELDS[event["ph"]], event
    assert isinstance(event["name"], str) and event["name"]
    for field in ("pid", "tid"):
        assert type(event[field]) is int and event[field] > 0, event
    for field in {"ts", "dur"} & set(event):
        assert type(event[field]) in (int, float) and event[field] >= 0, event
    assert isinstance(event["args"], dict)
    CHECKS.get(event["ph"], lambda event: None)(event)


def check_instant(event: dict[str, Any]) -> None:
    assert event["s"] in ("g", "p", "t"), event


def check_counter(event: dict[str, Any]) -> None:
    assert event["args"], event
    for value in event["args"].values():
        assert type(value) in (int, float), event


def check_metadata(event: dict[str, Any]) -> None:
    field, kind = METADATA[event["name"]]
    assert set(event["args"]) == {field} and type(event["args"][field]) is kind, event


CHECKS = {"i": check_instant, "C": check_counter, "M": check_metadata}


def check_nesting(row: list[dict[str, Any]]) -> None:
    """Slices of a row lie inside each other or apart, and the outer one comes first in the file."""
    begun = -1
    around: list[int] = []
    for event in row:
        start = round(event["ts"] * 1000)
        end = start + round(event["dur"] * 1000)
        assert start >= begun, "not in order"
        begun = start
        while around and around[-1] <= start:
            around.pop()
        assert not around or end <= around[-1], f"{event} crosses the end of the slice around it"
        around.append(end)


def refuse_constant(text: str) -> None:
    raise AssertionError(f"{text} is not JSON")


def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), f"a key occurs twice: {pairs}"
    return dict(pairs)
