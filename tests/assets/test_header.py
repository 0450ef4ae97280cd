"""The header: what is run and where it stands, errors, notices, and what is announced."""

from typing import Any

import pytest

from tests.assets.conftest import Dashboard

pytestmark = pytest.mark.browser


def receive(dashboard: Dashboard, *arguments: Any) -> None:
    dashboard.synthetic("panels", "state", *arguments)


def test_a_running_run_at_a_glance(dashboard: Dashboard) -> None:
    receive(dashboard, "running")
    header = dashboard.page.get_by_role("region", name="what is run")
    text = header.inner_text()
    for words in ("digits", "executor", "2 devices: CPUPlace(0), CPUPlace(1)", "AllReduce", "running"):
        assert words in text
    for words in ("step 120 of 1,000", "84 steps/s", "12.3 s", "about 10.4 s left", "0.3127", "0.9219"):
        assert words in text
    bar = header.get_by_role("progressbar")
    assert bar.get_attribute("aria-valuenow") == "12"
    inside = bar.evaluate("bar => bar.firstChild.getBoundingClientRect().width / bar.getBoundingClientRect().width")
    assert inside == pytest.approx(0.12, abs=0.01)


def test_before_there_is_a_kernel_or_a_run(dashboard: Dashboard) -> None:
    header = dashboard.page.get_by_role("region", name="what is run")
    assert "waiting for the kernel" in header.inner_text()
    receive(dashboard, "none")
    assert "no run yet" in header.inner_text()
    assert not header.get_by_role("progressbar").is_visible()


def test_a_run_without_an_end_has_no_bar(dashboard: Dashboard) -> None:
    receive(dashboard, "running", {"steps": None, "eta": None})
    header = dashboard.page.get_by_role("region", name="what is run")
    assert not header.get_by_role("progressbar").is_visible()
    assert "left" not in header.inner_text()


def test_a_failure_names_text_op_device_and_cell(dashboard: Dashboard) -> None:
    receive(dashboard, "failed")
    alert = dashboard.page.get_by_role("alert")
    for words in ("failed after step 120", "InvalidArgument", "mul", "CPUPlace(1)", "Cell In[3], line 7"):
        assert words in alert.inner_text()


def test_a_failure_stays_until_the_next_run(dashboard: Dashboard) -> None:
    receive(dashboard, "failed")
    alert = dashboard.page.get_by_role("alert")
    receive(dashboard, "none")
    assert alert.is_visible()
    receive(dashboard, "ready", {"id": "run-2"})
    assert not alert.is_visible()


def test_a_failure_with_nothing_but_a_text(dashboard: Dashboard) -> None:
    error = {"text": "out of memory", "op": None, "device": None, "site": None}
    receive(dashboard, "failed", {"error": error})
    alert = dashboard.page.get_by_role("alert")
    assert "out of memory" in alert.inner_text()
    assert alert.locator("dt").count() == 0


def test_a_notice_is_dismissed_once_and_for_all(dashboard: Dashboard) -> None:
    notice = {"id": 1, "kind": "info", "text": "checkpoint written"}
    receive(dashboard, "running", {}, {"notice": notice})
    status = dashboard.page.get_by_role("status").filter(has_text="checkpoint written")
    assert status.is_visible()
    dashboard.page.get_by_role("button", name="dismiss the notice").click()
    receive(dashboard, "running", {"step": 121}, {"notice": notice})
    assert status.count() == 0
    receive(dashboard, "running", {}, {"notice": {"id": 2, "kind": "error", "text": "no such folder"}})
    assert dashboard.page.get_by_role("status").filter(has_text="no such folder").is_visible()


def test_the_state_is_announced_and_the_counter_is_not(dashboard: Dashboard) -> None:
    receive(dashboard, "running", {"step": 1})
    dashboard.page.evaluate(
        """() => { window.said = []; for (const live of document.querySelectorAll('[aria-live]')) {
            new MutationObserver(() => said.push(live.textContent)).observe(live, {childList: true, subtree: true,
            characterData: true}); } }"""
    )
    for step in range(2, 8):
        receive(dashboard, "running", {"step": step})
    assert dashboard.page.evaluate("said") == []
    receive(dashboard, "paused", {"step": 8})
    receive(dashboard, "paused", {"step": 9})  # the last step was still being applied
    assert dashboard.page.evaluate("said") == [f"digits: paused after step {step}" for step in (8, 9)]


def test_a_loss_that_is_no_number_is_named(dashboard: Dashboard) -> None:
    receive(dashboard, "running", {"last": {"loss": None}})
    assert dashboard.page.locator(".wb-last").inner_text().split() == ["loss", "NaN"]


NAN = {
    "step": 27, "title": "NaN from step 27", "reason": "op 'log' on cpu:1 makes it, in row 45 of the batch",
    "op": "log", "device": "cpu:1", "site": "Cell In[3], line 7", "node": 2,
}  # fmt: skip


def test_a_run_with_a_nan_is_not_simply_done(dashboard: Dashboard) -> None:
    receive(dashboard, "done", {"nan": NAN})
    header = dashboard.page.get_by_role("region", name="what is run")
    for words in ("done, NaN from step 27", "in row 45 of the batch", "log", "cpu:1", "Cell In[3], line 7"):
        assert words in header.inner_text()
    color = "pill => getComputedStyle(pill).borderTopColor"
    marked = header.locator(".wb-pill").evaluate(color)
    receive(dashboard, "done", {"nan": None, "id": "run-2"})
    assert header.locator(".wb-pill").evaluate(color) != marked  # that of what is well
    assert not dashboard.page.get_by_role("alert").is_visible()


def test_a_nan_that_ends_a_run_is_told_in_one_place(dashboard: Dashboard) -> None:
    dashboard.synthetic("graph", "onWire", "training", {"devices": 2, "layers": 2})
    text = f"{NAN['title']}: {NAN['reason']}\n  stopped because of stop_on_nan"
    error = {"text": text, "op": "log", "device": "cpu:1", "site": "Cell In[3], line 7"}
    receive(dashboard, "failed", {"nan": NAN, "error": error})
    alert = dashboard.page.get_by_role("alert").filter(visible=True)
    assert alert.count() == 1 and "stopped because of stop_on_nan" in alert.inner_text()
    alert.get_by_role("button", name="Show log in the graph").click()
    dashboard.settle()
    (asked,) = dashboard.sent("statistics")
    assert (asked["node"], asked["step"]) == (2, 27)
    receive(dashboard, "failed", {"nan": NAN, "error": {**error, "text": "out of memory"}})
    assert alert.count() == 2


def test_what_the_step_with_the_first_nan_was_fed_is_shown_until_the_newest_is_asked_for(dashboard: Dashboard) -> None:
    feeds = {"devices": ["cpu:0"], "names": ["x"], "rows": {"x": [4]}, "shapes": {"x": [[4, 1]]}, "previews": {},
             "dtypes": {"x": "float32"}, "nbytes": [16]}  # fmt: skip
    panel = dashboard.page.locator(".wb-feeds")
    dashboard.receive({"type": "fed", "step": 90, "graph": 1, "applied": True, "feeds": feeds})
    receive(dashboard, "done", {"nan": {**NAN, "node": None}})
    assert "step 90: 4 rows" in panel.inner_text()
    dashboard.page.get_by_role("button", name="Show what step 27 was fed").click()
    dashboard.settle()
    (asked,) = dashboard.sent("fed")
    assert asked["step"] == 27
    kept = {"type": "fed", "request": asked["request"], "step": 27, "graph": 1, "applied": True}
    dashboard.receive({**kept, "about": "the first with NaN; shown of it: row 2 of the batch", "feeds": feeds})
    dashboard.settle()
    assert "step 27: 4 rows" in panel.inner_text() and "shown of it: row 2 of the batch" in panel.inner_text()
    panel.get_by_role("button", name="Newest step").click()
    dashboard.settle()
    assert "step 90: 4 rows" in panel.inner_text()
    assert not panel.get_by_role("button", name="Newest step").is_visible()


def test_the_numbers_of_the_step_with_the_first_nan_are_asked_for(dashboard: Dashboard) -> None:
    dashboard.synthetic("graph", "onWire", "training", {"devices": 2, "layers": 2})
    receive(dashboard, "done", {"nan": NAN})
    dashboard.page.get_by_role("button", name="Show log in the graph").click()
    dashboard.settle()
    (asked,) = dashboard.sent("statistics")
    assert (asked["node"], asked["step"]) == (2, 27)
    details = dashboard.page.get_by_label("selected node")
    details.get_by_role("button", name="Value statistics", exact=True).click()
    details.get_by_role("button", name="Value statistics in step 27 (NaN)").click()
    assert [one["step"] for one in dashboard.sent("statistics")] == [27, None, 27]
