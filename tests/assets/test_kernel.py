"""Whether the kernel is there, and has heard: what the page makes of signs of life, of statuses, of silence."""

from typing import Any

import pytest

from tests.assets.conftest import Dashboard

pytestmark = pytest.mark.browser


@pytest.fixture
def running(tab: Any, dashboard: Dashboard) -> Dashboard:
    """A run that goes on, and a clock that the test moves."""
    tab.clock.install()
    dashboard.page.reload()
    dashboard.page.wait_for_function("window.ready")
    show(dashboard, "running")
    return dashboard


def show(dashboard: Dashboard, *arguments: Any) -> None:
    """A state, and what is drawn of it: frames come only when the clock moves."""
    dashboard.page.evaluate(
        """async (given) => {
            const { state } = await import("/assets/fixtures/panels.js");
            const made = state(...given);
            receive({ ...made, subject: { ...made.subject, cell: "In [6]: wb.dashboard(net)" } });
        }""",
        list(arguments),
    )
    pass_time(dashboard, 0.1)


def receive(dashboard: Dashboard, message: dict[str, Any]) -> None:
    dashboard.page.evaluate("message => receive(message)", message)
    pass_time(dashboard, 0.1)


def pass_time(dashboard: Dashboard, seconds: float) -> None:
    dashboard.page.clock.run_for(int(seconds * 1000))


def alert(dashboard: Dashboard) -> Any:
    return dashboard.page.get_by_role("alert", name="kernel")


def button(dashboard: Dashboard, name: str) -> Any:
    return dashboard.page.get_by_role("toolbar", name="run").get_by_role("button", name=name, exact=True)


def words(dashboard: Dashboard) -> str:
    return dashboard.page.get_by_role("toolbar", name="run").get_by_role("status").inner_text()


def test_a_kernel_whose_signs_of_life_stop_is_lost_until_the_next_one(running: Dashboard) -> None:
    for _ in range(10):
        receive(running, {"type": "beat", "next": 2, "sent": 1.0})
        pass_time(running, 4)  # one may be late
    assert alert(running).count() == 0 and button(running, "Pause").get_attribute("aria-disabled") == "false"
    pass_time(running, 10)
    told = alert(running).inner_text()
    assert "no sign of life" in told and "up to In [6]: wb.dashboard(net)" in told
    assert button(running, "Pause").get_attribute("aria-disabled") == "true"
    assert "steps/s" not in running.page.locator(".wb-header").inner_text()
    button(running, "Pause").click(force=True)
    assert running.sent("command") == []
    receive(running, {"type": "beat", "next": 2, "sent": 2.0})
    assert alert(running).count() == 0 and button(running, "Pause").get_attribute("aria-disabled") == "false"
    assert "steps/s" in running.page.locator(".wb-header").inner_text()


def test_where_nothing_goes_on_silence_means_nothing(running: Dashboard) -> None:
    receive(running, {"type": "beat", "next": 2, "sent": 1.0})
    receive(running, {"type": "beat", "next": None, "sent": 2.0})
    pass_time(running, 3600)
    assert alert(running).count() == 0


@pytest.mark.parametrize(
    ("status", "said"), [("restarting", "was restarted"), ("dead", "died"), ("terminating", "shut down")]
)
def test_a_kernel_that_ended_does_not_come_back(running: Dashboard, status: str, said: str) -> None:
    running.page.evaluate("all => all.forEach((one) => window.kernelIs(one))", ["busy", "idle"])
    assert alert(running).count() == 0
    running.page.evaluate("status => window.kernelIs(status)", status)
    pass_time(running, 0.1)
    assert said in alert(running).inner_text() and "lost" in running.page.locator(".wb-pill").inner_text()
    show(running, "running")  # was on its way
    assert said in alert(running).inner_text() and button(running, "Stop").get_attribute("aria-disabled") == "true"


def test_a_way_that_is_cut_comes_back_with_the_next_message(running: Dashboard) -> None:
    running.page.evaluate("window.unplug()")
    pass_time(running, 0.1)
    assert alert(running).count() == 1
    show(running, "running")
    assert alert(running).count() == 0


def test_a_finished_run_stays_finished_without_a_kernel(running: Dashboard) -> None:
    show(running, "done")
    running.page.evaluate("window.kernelIs('dead')")
    pass_time(running, 0.1)
    assert "done" in running.page.locator(".wb-pill").inner_text() and alert(running).count() == 1


def test_a_click_carries_its_age_by_the_kernels_clock(running: Dashboard) -> None:
    receive(running, {"type": "beat", "next": None, "sent": 1000.0})
    pass_time(running, 30)
    button(running, "Step").click()
    (click,) = running.sent("command")
    assert (click["sent"], click["valid"]) == (1000.0, 5) and abs(click["since"] - 30.1) < 0.5


def test_a_click_that_is_not_heard_waits_and_is_given_up(running: Dashboard) -> None:
    button(running, "Step").click()
    pass_time(running, 0.2)
    assert words(running) == ""
    pass_time(running, 0.3)
    assert words(running) == "The kernel is busy with a cell; step waits …"
    button(running, "Step").click()  # it has been
    show(running, "running", {"step": 130})  # what trains goes on
    assert "step waits" in words(running) and len(running.sent("command")) == 1
    pass_time(running, 5)
    assert words(running).startswith("step was not done: the kernel was busy for 5 seconds.")
    assert button(running, "Step").get_attribute("aria-busy") is None
    button(running, "Step").click()
    assert len(running.sent("command")) == 2


def test_a_click_that_is_heard_says_nothing(running: Dashboard) -> None:
    button(running, "Step").click()
    pass_time(running, 0.4)
    (click,) = running.sent("command")
    receive(running, {"type": "heard", "id": "another view's", "late": False, "sent": 1.0})
    assert words(running) != ""
    receive(running, {"type": "heard", "id": click["id"], "late": False, "sent": 1.0})
    assert words(running) == ""
    pass_time(running, 60)
    assert words(running) == "" and button(running, "Step").get_attribute("aria-busy") == "true"
    show(running, "paused")
    assert button(running, "Resume").get_attribute("aria-busy") is None


def test_a_click_that_came_late_is_told(running: Dashboard) -> None:
    button(running, "Step").click()
    (click,) = running.sent("command")
    receive(running, {"type": "heard", "id": click["id"], "late": True, "sent": 1.0})
    assert words(running).startswith("step was not done: it came to the kernel too late.")
    assert button(running, "Step").get_attribute("aria-busy") is None


def test_stop_is_kept_however_long_a_cell_takes_and_acknowledged(running: Dashboard) -> None:
    button(running, "Stop").click()
    pass_time(running, 3600)
    assert words(running) == "The kernel is busy with a cell; stop is kept until it hears it …"
    assert button(running, "Stop").get_attribute("aria-busy") == "true"
    (click,) = running.sent("command")
    assert click["run"] and "valid" not in click
    receive(running, {"type": "heard", "id": click["id"], "late": False, "why": None, "sent": 1.0})
    assert words(running) == "The kernel has heard stop: the run ends behind the step it is at."
    show(running, "stopped")
    assert words(running) == "" and button(running, "Stop").get_attribute("aria-busy") is None
