"""The panel of memory and scopes in a browser: the sawtooth and its drops, live variables, strategies."""

from typing import Any

import pytest

from tests.assets.conftest import Dashboard

pytestmark = pytest.mark.browser


def show(dashboard: Dashboard, **options: Any) -> Any:
    """The panel, with a message such as a kernel sends."""
    dashboard.synthetic("timeline", "scopesMessage", options)
    return dashboard.page.locator(".wb-scopes")


def rows(panel: Any) -> list[list[str]]:
    return [row.split("\t") for row in panel.locator(".wb-live tbody tr").all_inner_texts()]


def test_before_a_run_it_says_what_will_be_here(dashboard: Dashboard) -> None:
    panel = dashboard.page.locator(".wb-scopes")
    assert "Here you will see the memory of temporaries" in panel.inner_text()
    assert not panel.locator("svg.wb-chart-drawing").is_visible()
    assert panel.get_by_role("button", name="PNG").is_disabled()


def test_a_message_with_nothing_in_it_leaves_it_so(dashboard: Dashboard) -> None:
    nothing: dict[str, Any] = {"step": [], "bytes": []}
    dashboard.receive(
        {"type": "scopes", "devices": [], "strategy": "AllReduce", "memory": nothing, "feeds": {"step": [], "rows": []}}
        | {"drops": {**nothing, "cause": [], "total": 0}, "live": [], "totals": []}
    )
    assert "Here you will see" in dashboard.page.locator(".wb-scopes").inner_text()


@pytest.mark.parametrize("devices", [1, 4, 8])
def test_it_fits_whatever_the_devices_and_the_width(dashboard: Dashboard, devices: int) -> None:
    panel = show(dashboard, devices=devices)
    for width in (600, 1100):
        dashboard.width(width)
        assert panel.evaluate("e => e.scrollWidth <= e.clientWidth")
    each, between = ("", "") if devices == 1 else (" per device", "between ")
    note = f"10 drops, the last dropped 1.2 MiB{each} after step 1,000 (interval); {between}1.2 MiB"
    assert panel.locator(".wb-note").inner_text().startswith(note)
    assert panel.locator("svg.wb-chart-drawing .wb-line").count() == devices


def test_memory_of_one_step_is_a_dot_to_be_seen(dashboard: Dashboard) -> None:
    """As of a run that is paused when its dashboard is shown: nothing is known of the steps before."""
    nothing: dict[str, Any] = {"step": [], "bytes": [], "cause": [], "total": 0, "since": 30}
    known = {"memory": {"step": [30], "bytes": [[61440], [61440]]}, "drops": nothing, "feeds": {"step": [], "rows": []}}
    devices = {"type": "scopes", "devices": ["rank 0", "rank 1"], "strategy": "AllReduce", "live": [], "totals": []}
    dashboard.receive(devices | known)
    drawing = dashboard.page.locator(".wb-scopes svg.wb-chart-drawing")
    across = drawing.bounding_box()
    for dot in drawing.locator(".wb-dot").all():
        x, wide, cap = dot.evaluate(
            """e => { const style = getComputedStyle(e);
            return [e.getBBox().x, parseFloat(style.strokeWidth), style.strokeLinecap]; }"""
        )
        assert wide >= 5 and cap == "round" and 0.3 < x / across["width"] < 0.7
    assert drawing.locator(".wb-dot").count() == 2


def test_hovering_a_drop_says_how_much_when_and_why(dashboard: Dashboard) -> None:
    panel = show(dashboard, devices=2, steps=400)
    drawing = panel.locator("svg.wb-chart-drawing")
    drawing.scroll_into_view_if_needed()
    box = drawing.bounding_box()
    texts = set()
    for x in range(60, int(box["width"]), 2):
        dashboard.page.mouse.move(box["x"] + x, box["y"] + 60)
        texts.add(panel.locator(".wb-readout").inner_text().split("\n")[-1])
    assert {f"dropped 1.2 MiB per device after step {step} (interval)" for step in (100, 200, 300)} <= texts
    assert "dropped 1.2 MiB per device after step 400 (asked for)" in texts


def test_many_drops_show_the_last_ones_until_all_are_wanted(dashboard: Dashboard) -> None:
    panel = show(dashboard, steps=10_000)
    pin = panel.locator(".wb-mark").first
    few = pin.get_attribute("d")
    panel.get_by_label("steps of the memory chart").select_option("all")
    assert len(pin.get_attribute("d")) > 3 * len(few)
    show(dashboard, steps=10_100)
    assert panel.get_by_label("steps of the memory chart").input_value() == "all"


def test_live_variables_are_filtered(dashboard: Dashboard) -> None:
    panel = show(dashboard, devices=3)
    assert len(rows(panel)) == 18
    assert rows(panel)[0][:3] == ["fc_0.w_0", "CPUPlace(0)", "parameter"]
    panel.get_by_label("device of the live variables").select_option("CPUPlace(1)")
    panel.get_by_label("kind of the live variables").select_option("feed")
    assert [row[0] for row in rows(panel)] == ["x", "label"]
    assert "2 of 18 values, 256.5 KiB" in panel.inner_text()
    show(dashboard, devices=3, steps=2000)
    assert len(rows(panel)) == 2


def test_strategies_are_compared_in_words_and_bars(dashboard: Dashboard) -> None:
    panel = show(dashboard, devices=2)
    assert "Reduce would update 50 % of the optimizer state per device." in panel.inner_text()
    labels = [bar.get_attribute("aria-label") for bar in panel.locator(".wb-totals-line").all()]
    assert labels[0] == "each of 2 devices: parameters 3.8 MiB, optimizer state 7.6 MiB, summed gradients 3.8 MiB"
    own, other = (bar.bounding_box()["width"] for bar in panel.locator(".wb-totals-part.wb-part-state").all())
    assert own == pytest.approx(2 * other, rel=0.05)


def test_the_gist_is_there_for_those_who_cannot_see_it(dashboard: Dashboard) -> None:
    panel = show(dashboard, devices=1)
    label = panel.locator("svg.wb-chart-drawing").get_attribute("aria-label")
    assert label.startswith("memory of temporaries; CPUPlace(0): first") and "10 drops" in label


def test_the_largest_of_many_values_are_named_by_both_ends(dashboard: Dashboard) -> None:
    name = "net.conv2d_3.w_0.a_very_long_path_of_modules.velocity_of_its_momentum_0@GRAD"
    live = {"name": name, "device": 0, "kind": "parameter", "shape": [3], "dtype": "float32", "bytes": 12}
    total = {"count": 1234, "bytes": 9_541_000}
    dashboard.receive(
        {"type": "scopes", "devices": ["CPUPlace(0)"], "strategy": "Reduce", "live": [live], "live_total": total}
    )
    panel = dashboard.page.locator(".wb-scopes")
    assert "1 largest of 1,234 values, 9.1 MiB" in panel.inner_text()
    for width in (970, 1300):
        dashboard.width(width)
        cell = panel.locator("tbody td").first
        text = cell.inner_text()
        assert text.startswith("net.conv2d_3") and text.endswith("_0@GRAD") and cell.get_attribute("title") == name
        assert cell.evaluate("cell => cell.scrollWidth <= cell.clientWidth")
