"""Large graphs in a browser: the canvas, its zoom and speed, and how much of them fits."""

from typing import Any

import pytest

from tests.assets.graph.test_graph_panel import DEEP, SMALL, show

pytestmark = pytest.mark.browser


def test_a_large_graph_is_a_canvas_with_the_same_keys(dashboard: Any) -> None:
    panel = show(dashboard, options=DEEP)
    panel.get_by_role("button", name="expand all").click()
    dashboard.settle()
    canvas = panel.locator("canvas.wb-g-canvas")
    assert "arrow keys" in canvas.get_attribute("aria-label")
    canvas.focus()
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        dashboard.page.keyboard.press(key)
    dashboard.settle()
    assert panel.locator(".wb-g-details h4").inner_text() == "relu fc_0.tmp_2"
    assert "relu fc_0.tmp_2" in panel.locator("[aria-live]").inner_text()
    dashboard.page.keyboard.press("Backspace")
    dashboard.settle()
    panel.get_by_role("button", name="collapse all").click()
    dashboard.settle()
    assert panel.locator("svg.wb-g-svg").is_visible()


def test_the_wheel_zooms_only_with_control_or_focus(dashboard: Any) -> None:
    panel = show(dashboard, options=SMALL)
    scale = "document.querySelector('.wb-g-svg > g').getAttribute('transform')"
    panel.locator(".wb-g-stage").hover(position={"x": 400, "y": 150})
    before = dashboard.page.evaluate(scale)
    dashboard.page.mouse.wheel(0, -100)
    dashboard.settle()
    assert dashboard.page.evaluate(scale) == before
    dashboard.page.keyboard.down("Control")
    dashboard.page.mouse.wheel(0, -100)
    dashboard.page.keyboard.up("Control")
    dashboard.settle()
    assert dashboard.page.evaluate(scale) != before


DRAG = """async () => {
    const stage = document.querySelector(".wb-g-stage");
    const { left, top } = stage.getBoundingClientRect();
    const fire = (type, x, buttons = 1) => stage.dispatchEvent(new PointerEvent(type, {
        pointerId: 1, button: 0, buttons, clientX: left + x, clientY: top + 100, bubbles: true }));
    stage.setPointerCapture = () => {};
    fire("pointerdown", 900);
    for (let k = 0; k < 100; k++) {
        fire("pointermove", 900 - 6 * k);
        if (k % 5 === 4) await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    }
    fire("pointerup", 300, 0);
}"""


@pytest.mark.parametrize(("zoom_out", "most"), [(0, 1_000), (14, 5_000)])
def test_panning_five_thousand_open_nodes_draws_what_is_seen_once_a_frame(
    dashboard: Any, zoom_out: int, most: int
) -> None:
    panel = show(dashboard, options={"devices": 4, "layers": 175})
    panel.get_by_role("button", name="expand all").click()
    dashboard.settle()
    for _ in range(zoom_out):
        panel.get_by_role("button", name="zoom out").click()
    dashboard.settle()
    calls = dashboard.canvas_calls(DRAG)
    frames = calls["drawImage"]  # of the overview, with the frame that is dragged
    assert 10 < frames <= 22  # of 100 moves of the pointer
    assert sum(calls.values()) < most * frames  # there are 5,083 nodes and as many edges
    assert ("fillText" in calls) == (zoom_out == 0)  # nobody could read it


def test_twenty_thousand_nodes_open_as_one_drawing(dashboard: Any) -> None:
    calls = dashboard.canvas_calls(
        """async () => {
            const { onWire } = await import("/assets/fixtures/graph.js");
            const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
            receive(onWire("training", { devices: 4, layers: 710 }));
            await frame();
            const buttons = [...document.querySelectorAll(".wb-graph button")];
            buttons.find((each) => each.textContent === "expand all").click();
            await frame();
        }"""
    )
    assert sum(calls.values()) < 30_000  # the overview has a rectangle for each node
    assert dashboard.page.locator(".wb-graph *").count() < 200
    assert dashboard.page.locator("canvas.wb-g-canvas").is_visible()


def test_fit_stays_legible_and_the_overview_leads_to_the_rest(dashboard: Any) -> None:
    panel = show(dashboard, options={"devices": 2, "layers": 24})
    panel.get_by_role("button", name="expand all").click()
    for _ in range(9):
        panel.get_by_role("button", name="zoom out").click()
    panel.get_by_role("button", name="fit the graph").click()
    dashboard.settle()
    letters = "all => Math.max(...all.map(e => e.getBoundingClientRect().height))"
    drawn = panel.locator(".wb-g-svg .wb-g-title, .wb-g-canvas")
    if panel.locator(".wb-g-svg").is_visible():
        assert drawn.evaluate_all(letters) > 7  # pixels; a graph as wide as this was drawn as a strip of 50 pixels
    stage, overview = panel.locator(".wb-g-stage"), panel.locator(".wb-g-overview")
    assert stage.bounding_box()["height"] >= 160 and overview.is_visible()
    picture = "canvas => canvas.toDataURL()"
    before = overview.evaluate(picture)
    overview.focus()
    dashboard.page.keyboard.press("ArrowRight")
    dashboard.settle()
    assert overview.evaluate(picture) != before  # the frame has moved
    panel.get_by_role("button", name="collapse all").click()
    panel.get_by_role("button", name="fit the graph").click()
    dashboard.settle()
    assert panel.locator("[data-group]").count() > 3


def test_fit_shows_all_of_a_graph_that_can_be_read(dashboard: Any) -> None:
    panel = show(dashboard, "inference")
    for _ in range(9):
        panel.get_by_role("button", name="zoom in").click()
    panel.get_by_role("button", name="fit the graph").click()
    dashboard.settle()
    stage = panel.locator(".wb-g-stage").bounding_box()
    for box in panel.locator("[data-node]").all()[::5]:
        inner = box.bounding_box()
        assert inner["y"] >= stage["y"] and inner["y"] + inner["height"] <= stage["y"] + stage["height"]
