"""The controls: commands sent at once, settings sent when they make sense, and nobody's typing overwritten."""

from typing import Any

import pytest

from tests.assets.conftest import Dashboard

pytestmark = pytest.mark.browser


def receive(dashboard: Dashboard, *arguments: Any) -> None:
    dashboard.synthetic("panels", "state", *arguments)


def button(dashboard: Dashboard, name: str) -> Any:
    return dashboard.page.get_by_role("toolbar", name="run").get_by_role("button", name=name, exact=True)


def setting(dashboard: Dashboard, label: str) -> Any:
    return dashboard.page.get_by_role("group", name="settings of the next run").get_by_label(label, exact=True)


def enter(dashboard: Dashboard, label: str, text: str) -> None:
    setting(dashboard, label).fill(text)
    setting(dashboard, label).press("Tab")


def field_text(dashboard: Dashboard, label: str) -> str:
    return setting(dashboard, label).locator("xpath=ancestor::*[@class='wb-field']").inner_text()


@pytest.mark.parametrize(
    ("state", "names"),
    [
        ("running", {"Pause", "Step", "Stop", "Drop scopes", "Save checkpoint"}),
        ("paused", {"Resume", "Step", "Stop", "Drop scopes", "Save checkpoint"}),
        ("done", {"Run", "Step", "Drop scopes"}),
    ],
)
def test_buttons_are_open_when_the_kernel_allows_it(dashboard: Dashboard, state: str, names: set[str]) -> None:
    receive(dashboard, state)
    buttons = dashboard.page.get_by_role("toolbar", name="run").get_by_role("button").all()
    assert {one.inner_text() for one in buttons if one.get_attribute("aria-disabled") == "false"} == names


def test_a_click_sends_its_command_once_until_the_next_state(dashboard: Dashboard) -> None:
    receive(dashboard, "running")
    button(dashboard, "Pause").click()
    button(dashboard, "Pause").click()
    assert [(message["name"], message["values"]) for message in dashboard.sent("command")] == [("pause", {})]
    assert button(dashboard, "Pause").get_attribute("aria-busy") == "true"
    receive(dashboard, "paused")
    resume = button(dashboard, "Resume")
    assert resume.get_attribute("aria-busy") is None
    resume.click()
    assert [message["name"] for message in dashboard.sent("command")] == ["pause", "resume"]


def test_a_closed_button_sends_nothing(dashboard: Dashboard) -> None:
    receive(dashboard, "done")
    button(dashboard, "Stop").click(force=True)
    assert dashboard.sent("command") == []


@pytest.mark.parametrize("key", ["Space", "Enter"])
def test_buttons_work_with_the_keyboard_and_keep_the_focus(dashboard: Dashboard, key: str) -> None:
    receive(dashboard, "paused")
    button(dashboard, "Step").focus()
    dashboard.page.keyboard.press(key)
    assert [message["name"] for message in dashboard.sent("command")] == ["step"]
    receive(dashboard, "running")
    assert dashboard.page.evaluate("document.activeElement.innerText") == "Step"


def test_tooltips_say_the_call_that_does_the_same(dashboard: Dashboard) -> None:
    receive(dashboard, "running")
    assert "run.pause()" in button(dashboard, "Pause").get_attribute("title")
    receive(dashboard, "paused")
    assert "run.resume()" in button(dashboard, "Resume").get_attribute("title")


def test_a_setting_is_sent_when_it_changes(dashboard: Dashboard) -> None:
    receive(dashboard, "done")
    enter(dashboard, "devices", "4")
    enter(dashboard, "learning rate", "1e-3")
    setting(dashboard, "reduce strategy").select_option("Reduce")
    enter(dashboard, "steps", "")
    values = [message["values"] for message in dashboard.sent("set")]
    assert values == [
        {"devices": 4},
        {"learning_rate": 0.001},
        {"reduce_strategy": "Reduce"},
        {"steps": None},
    ]


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("devices", "0"),
        ("devices", "two"),
        ("batch size", "1.5"),
        ("learning rate", "-1"),
        ("steps", "0"),
        ("epochs", "0"),
        ("epochs", "-3"),
        ("epochs", "1.5"),
    ],
)
def test_what_makes_no_sense_is_marked_and_not_sent(dashboard: Dashboard, label: str, text: str) -> None:
    receive(dashboard, "done")
    enter(dashboard, label, text)
    button(dashboard, "Run").click()
    assert dashboard.sent("set") == dashboard.sent("command") == []
    assert setting(dashboard, label).get_attribute("aria-invalid") == "true"
    assert "Needs a " in field_text(dashboard, label)
    assert setting(dashboard, label).evaluate("input => input === document.activeElement")
    enter(dashboard, label, "3")
    assert setting(dashboard, label).get_attribute("aria-invalid") is None
    assert len(dashboard.sent("set")) == 1


def test_run_sends_all_values(dashboard: Dashboard) -> None:
    receive(dashboard, "done", {}, {"values": {"batch_size": None}})
    enter(dashboard, "devices", "8")
    button(dashboard, "Run").click()
    assert dashboard.sent("command")[-1]["values"] == {
        "program": "digits",
        "data": "digits",
        "devices": 8,
        "reduce_strategy": "AllReduce",
        "num_threads": 4,
        "num_iteration_per_drop_scope": 100,
        "batch_size": None,
        "learning_rate": 0.01,
        "steps": 1000,
        "stop_on_nan": False,
        "epochs": None,
        "valid": None,
        "checkpoints": None,
    }


def test_a_step_that_begins_a_run_takes_the_settings_with_it(dashboard: Dashboard) -> None:
    receive(dashboard, "done")
    button(dashboard, "Step").click()
    assert dashboard.sent("command")[-1]["values"]["devices"] == 2
    receive(dashboard, "paused")
    button(dashboard, "Step").click()
    assert dashboard.sent("command")[-1]["values"] == {}


def test_while_the_kernel_is_busy_it_says_with_what(dashboard: Dashboard) -> None:
    receive(dashboard, "done", {}, {"busy": "starting the run …"})
    toolbar = dashboard.page.get_by_role("toolbar", name="run")
    assert "starting the run …" in toolbar.inner_text()
    assert toolbar.locator("[aria-disabled=false]").count() == 0
    receive(dashboard, "running")
    assert "starting the run …" not in toolbar.inner_text()


def test_states_do_not_overwrite_what_is_being_typed(dashboard: Dashboard) -> None:
    receive(dashboard, "running")
    setting(dashboard, "devices").fill("16")
    receive(dashboard, "running", {"step": 121})
    assert setting(dashboard, "devices").input_value() == "16"


def test_a_value_stands_until_the_kernel_has_it_and_follows_the_kernel_then(dashboard: Dashboard) -> None:
    receive(dashboard, "running")
    enter(dashboard, "devices", "4")
    receive(dashboard, "running", {"step": 121})
    assert setting(dashboard, "devices").input_value() == "4"
    receive(dashboard, "running", {}, {"values": {"devices": 4}})
    receive(dashboard, "running", {}, {"values": {"devices": 3}})
    assert setting(dashboard, "devices").input_value() == "3"


def test_a_value_the_kernel_turns_down_is_taken_back(dashboard: Dashboard) -> None:
    receive(dashboard, "running")
    enter(dashboard, "devices", "400")
    receive(dashboard, "running", {}, {"notice": {"id": 7, "kind": "error", "text": "at most 64 devices"}})
    assert setting(dashboard, "devices").input_value() == "2"


def test_escape_takes_an_input_back(dashboard: Dashboard) -> None:
    receive(dashboard, "done")
    enter(dashboard, "devices", "none")
    setting(dashboard, "devices").press("Escape")
    assert setting(dashboard, "devices").input_value() == "2"
    assert setting(dashboard, "devices").get_attribute("aria-invalid") is None


def test_settings_that_differ_from_the_run_are_for_the_next_one(dashboard: Dashboard) -> None:
    receive(dashboard, "running")
    assert "applies to the next run" not in field_text(dashboard, "devices")
    enter(dashboard, "devices", "4")
    receive(dashboard, "running", {}, {"values": {"devices": 4}})
    assert "applies to the next run" in field_text(dashboard, "devices")
    assert "applies to the next run" not in field_text(dashboard, "threads")
    receive(dashboard, "done", {}, {"values": {"devices": 4}})
    assert "applies to the next run" not in field_text(dashboard, "devices")


def test_a_page_that_comes_late_is_told_what_the_run_was_started_with(dashboard: Dashboard) -> None:
    values = {"devices": 2, "batch_size": 64, "steps": 1000}
    receive(dashboard, "running", {"values": values}, {"values": {"devices": 4}})
    assert "applies to the next run" in field_text(dashboard, "devices")
    assert "applies to the next run" not in field_text(dashboard, "batch size")
    assert "applies to the next run" not in field_text(dashboard, "threads")  # the run does not say


def test_before_the_kernel_has_answered_nothing_is_open(dashboard: Dashboard) -> None:
    buttons = dashboard.page.get_by_role("toolbar", name="run").get_by_role("button").all()
    assert len(buttons) == 6
    assert all(one.get_attribute("aria-disabled") == "true" for one in buttons)


def test_the_switch_for_nan_is_sent_and_stands_until_the_kernel_knows(dashboard: Dashboard) -> None:
    dashboard.synthetic("panels", "state", "done")
    switch = dashboard.page.get_by_label("stop at the first NaN")
    switch.check()
    assert dashboard.sent("set")[-1]["values"] == {"stop_on_nan": True}
    dashboard.synthetic("panels", "state", "done", {"step": 121})  # older than the choice
    assert switch.is_checked()
    dashboard.synthetic("panels", "state", "done", {}, {"values": {"stop_on_nan": True}})
    dashboard.synthetic("panels", "state", "done", {}, {"values": {"stop_on_nan": False}})
    assert not switch.is_checked()
    switch.check()
    dashboard.page.get_by_role("button", name="Run", exact=True).click()
    assert dashboard.sent("command")[-1]["values"]["stop_on_nan"] is True


def test_validation_data_checkpoints_and_epochs_are_chosen_and_taken_back(dashboard: Dashboard) -> None:
    receive(dashboard, "done")
    setting(dashboard, "validation data").select_option("noise")
    receive(dashboard, "done", {}, {"values": {"valid": "noise"}})
    assert setting(dashboard, "validation data").input_value() == "noise"
    setting(dashboard, "validation data").select_option("–")
    setting(dashboard, "keep checkpoints").select_option("best and last")
    enter(dashboard, "epochs", "5")
    sent = [message["values"] for message in dashboard.sent("set")]
    assert sent == [{"valid": "noise"}, {"valid": None}, {"checkpoints": "best and last"}, {"epochs": 5}]
    button(dashboard, "Run").click()
    (command,) = dashboard.sent("command")
    assert command["values"]["epochs"] == 5 and command["values"]["steps"] == 1000
    assert command["values"]["checkpoints"] == "best and last"


def test_steps_and_epochs_are_explained_where_they_have_to_be_read_together(dashboard: Dashboard) -> None:
    receive(dashboard, "done")
    assert "blank" not in field_text(dashboard, "steps") and "first" not in field_text(dashboard, "steps")
    enter(dashboard, "steps", "")
    assert "with both blank: 1,000 steps" in field_text(dashboard, "steps")
    enter(dashboard, "epochs", "3")
    assert "blank" not in field_text(dashboard, "steps")
    enter(dashboard, "steps", "50")
    assert "ends with what comes first" in field_text(dashboard, "steps")
    enter(dashboard, "steps", "0")
    assert "first" not in field_text(dashboard, "steps") and "Needs a whole number" in field_text(dashboard, "steps")
