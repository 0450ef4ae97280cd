"""The publisher: seldom enough, answers at once, survives what goes wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.parallel.models import Model as Built
from workbench.errors import PreconditionNotMet
from workbench.notebook.dashboard.model.model import Model
from workbench.notebook.dashboard.page.publisher import Publisher

ModelOf = Callable[[Any], Model]


class Page:
    """What a page has got."""

    def __init__(self) -> None:
        self.messages: list[tuple[float, dict[str, Any]]] = []

    def take(self, message: dict[str, Any]) -> None:
        self.messages.append((time.monotonic(), message))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [message for _, message in list(self.messages) if message["type"] == kind]

    def wait(self, condition: Callable[[], Any], patience: float = 30.0) -> None:
        deadline = time.monotonic() + patience
        while not condition():
            assert time.monotonic() < deadline, [m["type"] for _, m in self.messages][-20:]
            time.sleep(0.01)


@pytest.fixture
def page() -> Page:
    return Page()


@pytest.fixture
def publisher(built: Built, model_of: ModelOf, page: Page) -> Iterator[Publisher]:
    publisher = Publisher(model_of(built.main), page.take)
    yield publisher
    if publisher.model.run is not None:
        publisher.model.run.stop()
        publisher.model.run.wait(30)
    publisher.close()
    assert not any(thread.is_alive() for thread in publisher._threads)


def test_a_page_that_says_hello_gets_everything(publisher: Publisher, page: Page) -> None:
    publisher.take({"type": "hello"})
    page.wait(lambda: page.of("scopes"))
    assert page.of("state") and page.of("graph")
    before = len(page.of("graph"))
    publisher.take({"type": "hello"})
    page.wait(lambda: len(page.of("graph")) > before)


def test_a_run_is_steered_by_messages(publisher: Publisher, page: Page) -> None:
    publisher.take({"type": "set", "values": {"devices": 3, "steps": 100_000}})
    publisher.take({"type": "command", "name": "run", "values": {}})
    page.wait(lambda: page.of("state") and (page.of("state")[-1]["run"] or {}).get("step", 0) > 50)
    run = publisher.model.run
    assert run is not None and page.of("state")[-1]["subject"]["devices"] == ["cpu:0", "cpu:1", "cpu:2"]
    publisher.take({"type": "command", "name": "pause", "values": {}})
    page.wait(lambda: page.of("state")[-1]["run"]["state"] == "paused")
    time.sleep(0.1)
    held = run.step
    publisher.take({"type": "command", "name": "step", "values": {}})
    page.wait(lambda: page.of("state")[-1]["run"]["step"] == held + 1)
    publisher.take({"type": "command", "name": "drop", "values": {}})
    page.wait(lambda: any("dropped" in (s["notice"] or {}).get("text", "") for s in page.of("state")))
    publisher.take({"type": "command", "name": "stop", "values": {}})
    page.wait(lambda: page.of("state")[-1]["run"]["state"] == "stopped")
    assert page.of("sample") and page.of("curves")


def test_not_more_than_ten_updates_a_second_while_training(publisher: Publisher, page: Page) -> None:
    publisher.do("run", {"steps": 1_000_000})
    page.wait(lambda: len(page.of("state")) > 5)
    page.messages.clear()
    time.sleep(2.0)
    count = len(page.of("state"))
    assert 2 < count <= 21


def test_signs_of_life_come_while_something_goes_on(publisher: Publisher, page: Page) -> None:
    page.wait(lambda: page.of("beat"))
    time.sleep(0.5)
    assert [beat["next"] for beat in page.of("beat")] == [None]  # a kernel that rests may be put to sleep
    publisher.do("run", {"steps": 1_000_000})
    page.wait(lambda: len(page.of("beat")) >= 3)
    (began, first), (came, second) = [(at, m) for at, m in page.messages if m["type"] == "beat"][1:3]
    assert first["next"] == second["next"] >= 1 and came - began <= first["next"] + 5  # a page waits longer
    publisher.take({"type": "hello"})
    page.wait(lambda: len(page.of("beat")) >= 4)
    publisher.do("stop", {})
    page.wait(lambda: page.of("beat")[-1]["next"] is None)


def test_a_click_is_heard_at_once_and_not_done_when_it_is_late(publisher: Publisher, page: Page) -> None:
    publisher.take({"type": "hello"})
    page.wait(lambda: page.of("beat"))
    seen = page.of("beat")[-1]["sent"]
    click = {"type": "command", "name": "run", "values": {"steps": 3}, "sent": seen, "valid": 5}
    publisher.take({**click, "id": "early", "since": 1000.0})  # a page whose clock was set: it cannot be late
    page.wait(lambda: publisher.model.run is not None and publisher.model.run.finished)
    publisher.take({**click, "id": "late", "since": time.monotonic() - seen - 5.5})
    publisher.take({**click, "id": "in time", "since": time.monotonic() - seen - 2.0})
    assert [(heard["id"], heard["late"]) for heard in page.of("heard")] == [
        ("early", False), ("late", True), ("in time", False),
    ]  # fmt: skip
    page.wait(lambda: len(publisher.model.shown) == 2 and publisher.model.shown[-1].run.finished)
    time.sleep(0.2)
    assert len(publisher.model.shown) == 2


def test_what_ends_a_run_is_never_too_late_for_it_and_is_not_done_to_another(publisher: Publisher, page: Page) -> None:
    model = publisher.model
    publisher.do("run", {"steps": 1})
    assert model.run is not None
    model.run.wait(30)
    publisher.do("run", {"steps": 10**9})
    first, second = (shown.id for shown in model.shown)
    click = {"type": "command", "name": "stop", "values": {}, "sent": 0.0, "since": 0.0}
    publisher.take({**click, "id": "for another", "run": first})
    assert page.of("heard")[-1]["late"] and "the run that it was meant for has ended" in page.of("heard")[-1]["why"]
    assert model.run is not None and not model.run.is_stopping
    publisher.take({**click, "id": "for this", "run": second})
    assert not page.of("heard")[-1]["late"] and model.run.is_stopping
    model.run.wait(30)


def test_a_run_is_held_and_ended_while_something_else_is_done(publisher: Publisher) -> None:
    model = publisher.model
    publisher.do("run", {"steps": 10**9})
    assert model.run is not None
    model.busy = "saving the run …"
    publisher.do("pause", {})
    assert model.allowed() == ["resume", "stop"]
    publisher.do("stop", {})
    assert str(model.run.wait(30).state) == "stopped"
    assert model.allowed() == []


def test_what_is_refused_is_said(publisher: Publisher, page: Page) -> None:
    publisher.take({"type": "command", "name": "pause", "values": {}})
    page.wait(lambda: any(s["notice"] and s["notice"]["kind"] == "error" for s in page.of("state")))
    notice = page.of("state")[-1]["notice"]
    assert notice["text"] == "pause is not possible now: nothing has been started"
    publisher.take({"type": "set", "values": {"divices": 3}})
    page.wait(lambda: "no setting 'divices'" in page.of("state")[-1]["notice"]["text"])
    with pytest.raises(PreconditionNotMet, match="stop is not possible now"):
        publisher.do("stop", {})


def test_a_start_that_fails_is_said_and_leaves_everything_as_it_was(
    publisher: Publisher, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher.model.controls, "_startup_of", lambda program, name: None)
    publisher.take({"type": "command", "name": "run", "values": {"devices": 2}})
    page.wait(lambda: page.of("state") and (page.of("state")[-1]["notice"] or {}).get("kind") == "error")
    state = page.of("state")[-1]
    assert "the startup program of 'net' is not known" in state["notice"]["text"]
    assert state["controls"]["allowed"] == ["run", "step"] and state["controls"]["busy"] is None


def test_questions_are_answered_beside_the_updates(publisher: Publisher, page: Page) -> None:
    publisher.take({"type": "hello"})
    page.wait(lambda: page.of("graph"))
    graph = page.of("graph")[-1]["id"]
    publisher.take({"type": "node", "graph": graph, "node": 0, "request": 1})
    publisher.take({"type": "statistics", "graph": graph, "node": 0, "request": 2})
    publisher.take({"type": "node", "graph": graph, "node": "zero", "request": 3})  # nonsense
    page.wait(lambda: page.of("node") and page.of("statistics"))
    assert page.of("node")[0]["request"] == 1
    assert page.of("statistics")[0]["error"].startswith("no step has been looked")
    page.wait(lambda: any((s["notice"] or {}).get("kind") == "error" for s in page.of("state")))


def test_a_way_to_the_page_that_fails_ends_nothing(built: Built, model_of: ModelOf) -> None:
    calls: list[str] = []

    def send(message: dict[str, Any]) -> None:
        calls.append(message["type"])
        if len(calls) == 1:
            raise OSError("gone")

    publisher = Publisher(model_of(built.main), send)
    Page().wait(lambda: len(calls) > 1)
    publisher.close()


def test_threads_end_with_it(built: Built, model_of: ModelOf, page: Page) -> None:
    publisher = Publisher(model_of(built.main), page.take)
    mine = [thread for thread in threading.enumerate() if thread in publisher._threads]
    assert len(mine) == 3
    publisher.close()
    assert not any(thread.is_alive() for thread in mine)
