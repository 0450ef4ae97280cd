"""The timeline panel in a browser: what it says of a step, and what mouse, keys and messages do to it."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.assets.conftest import Dashboard

pytestmark = pytest.mark.browser

CANVAS = ".wb-timeline-canvas"
SPOKEN = ".wb-timeline-picture [aria-live]"
STEPS = [10, 20, 30]
SLOWEST = {"node": 0, "device": 1, "label": "mul fc_0.tmp_0", "us": 412, "steps": 12}


def show(dashboard: Dashboard, **options: Any) -> None:
    dashboard.synthetic("timeline", "everything", {"steps": STEPS, **options})


def receive_sample(dashboard: Dashboard, step: int, **options: Any) -> None:
    dashboard.synthetic("timeline", "sampleMessage", {"step": step, **options})


def panel(dashboard: Dashboard) -> Any:
    return dashboard.page.locator(".wb-timeline")


def box(dashboard: Dashboard) -> dict[str, float]:
    """Where the drawing is, in sight: the mouse only reaches what is."""
    canvas = dashboard.page.locator(CANVAS)
    canvas.scroll_into_view_if_needed()
    return canvas.bounding_box()


def note(dashboard: Dashboard) -> str:
    return dashboard.page.locator(".wb-timeline .wb-note").inner_text()


def label(dashboard: Dashboard) -> str:
    return dashboard.page.locator(CANVAS).get_attribute("aria-label")


def press(dashboard: Dashboard, *keys: str) -> str:
    """The keys on the drawing; what a screen reader is told afterwards."""
    dashboard.page.locator(CANVAS).focus()
    for key in keys:
        dashboard.page.keyboard.press(key)
    dashboard.settle()
    return dashboard.page.locator(SPOKEN).text_content()


def tooltip(dashboard: Dashboard) -> str | None:
    tip = dashboard.page.locator(".wb-timeline-tip")
    return tip.inner_text() if tip.is_visible() else None


def find(dashboard: Dashboard, wanted: Callable[[str], bool]) -> tuple[float, float]:
    """The first point of the drawing, lane by lane, whose tooltip is wanted."""
    area = box(dashboard)
    for y in range(40, int(area["height"]), 34):
        for x in range(172, int(area["width"]), 12):
            dashboard.page.mouse.move(area["x"] + x, area["y"] + y)
            text = tooltip(dashboard)
            if text and wanted(text):
                return area["x"] + x, area["y"] + y
    raise AssertionError("no such span")


def marks(dashboard: Dashboard) -> list[str]:
    """Times on the axis, as they were last drawn."""
    return dashboard.page.evaluate(
        """async () => {
            let drawn = [];
            const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
            CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
                if (/ (µs|ms)$/.test(text)) drawn.push(text);
                return fillText.call(this, text, ...rest);
            };
            CanvasRenderingContext2D.prototype.clearRect = function (...rest) {
                if (this.canvas.matches(".wb-timeline-canvas")) drawn = []; // a new picture
                return clearRect.call(this, ...rest);
            };
            document.querySelector(".wb-timeline-scroll").dispatchEvent(new Event("scroll"));
            await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
            Object.assign(CanvasRenderingContext2D.prototype, { fillText, clearRect });
            return drawn;
        }"""
    )


def test_before_the_first_sample_it_says_what_will_be_here(dashboard: Dashboard) -> None:
    shown = panel(dashboard)
    assert "Here you will see which op ran when" in shown.inner_text()
    assert not shown.locator("canvas").first.is_visible()
    assert shown.get_by_role("button", name="Chrome trace").is_disabled()


def test_the_note_names_step_slowest_op_and_collectives(dashboard: Dashboard) -> None:
    show(dashboard, devices=4)
    assert re.fullmatch(r"step 30 took .+ ms; 3 collectives took .+, \d+ % of the step", note(dashboard))
    receive_sample(dashboard, 31, devices=4, slowest=SLOWEST)
    slowest = r"slowest: mul fc_0.tmp_0 on CPUPlace\(1\), 412 µs \(median of 12 steps\)"
    assert re.fullmatch(rf"step 31 took .+ ms; {slowest}; 3 collectives took .+, \d+ % of the step", note(dashboard))
    assert "CPUPlace(3), thread 0 busy" in label(dashboard)


@pytest.mark.parametrize("options", [{"devices": 1}, {"devices": 8, "threads": 2}, {"layers": 0}])
def test_any_number_of_devices_threads_and_spans_is_drawn(dashboard: Dashboard, options: dict[str, int]) -> None:
    show(dashboard, **options)
    for width in (600, 1100):
        dashboard.width(width)
        assert panel(dashboard).evaluate("e => e.scrollWidth <= e.clientWidth")
    assert "step 30" in note(dashboard)


def test_a_sample_without_spans_is_no_error(dashboard: Dashboard) -> None:
    dashboard.receive({"type": "sample", "step": 7, "graph": None, "seconds": 0.001, "labels": []})
    assert note(dashboard) == "step 7 took 1.00 ms; its ops were not timed"
    assert not dashboard.page.locator(CANVAS).is_visible()
    panel(dashboard).get_by_role("button", name="timeline as a table", exact=True).click()
    receive_sample(dashboard, 8)
    assert dashboard.page.locator(".wb-timeline-table tbody tr").count() > 10


def test_a_click_selects_and_the_tooltip_names_every_op_of_the_span(dashboard: Dashboard) -> None:
    show(dashboard)
    x, y = find(dashboard, lambda text: text.startswith("mul + elementwise_add + relu"))
    text = tooltip(dashboard)
    assert "fc_0" in text and "CPUPlace(0), thread 0" in text and "% of the step" in text and "KiB" in text
    dashboard.page.mouse.click(x, y)
    panel(dashboard).get_by_role("button", name="timeline as a table", exact=True).click()
    assert panel(dashboard).locator("tr.wb-chosen").inner_text().startswith("mul + elementwise_add + relu")


def test_a_collective_says_which_devices_it_joins(dashboard: Dashboard) -> None:
    show(dashboard, devices=4)
    find(dashboard, lambda text: text.startswith("all_reduce") and "all 4 devices" in text)


def test_arrow_keys_walk_spans_and_enter_selects(dashboard: Dashboard) -> None:
    show(dashboard)
    assert press(dashboard, "ArrowRight").startswith("all_reduce of")
    assert "1 of 15 in this lane" in press(dashboard, "ArrowDown", "Home")
    spoken = press(dashboard, "ArrowRight")
    assert "of fc_1 on CPUPlace(0)" in spoken and "2 of 15" in spoken
    press(dashboard, "Enter")
    panel(dashboard).get_by_role("button", name="timeline as a table", exact=True).click()
    assert panel(dashboard).locator("tr.wb-chosen").count() == 1


def test_keys_and_buttons_zoom_and_go_back(dashboard: Dashboard) -> None:
    show(dashboard)
    whole = marks(dashboard)
    press(dashboard, "+", "+", "+")
    closer = marks(dashboard)
    assert closer != whole
    press(dashboard, "0")
    assert marks(dashboard) == whole
    panel(dashboard).get_by_role("button", name="zoom in").click()
    panel(dashboard).get_by_role("button", name="show the whole step").click()
    assert marks(dashboard) == whole


def test_the_wheel_scrolls_the_page_until_ctrl_or_the_focus(dashboard: Dashboard) -> None:
    show(dashboard)
    whole = marks(dashboard)
    area = box(dashboard)
    dashboard.page.mouse.move(area["x"] + 500, area["y"] + 60)
    dashboard.page.mouse.wheel(0, -200)
    assert marks(dashboard) == whole
    area = box(dashboard)  # the page has scrolled
    dashboard.page.mouse.move(area["x"] + 500, area["y"] + 60)
    dashboard.page.keyboard.down("Control")
    dashboard.page.mouse.wheel(0, -400)
    dashboard.page.keyboard.up("Control")
    dashboard.settle()
    assert marks(dashboard) != whole


def test_a_drag_moves_and_selects_nothing(dashboard: Dashboard) -> None:
    show(dashboard)
    press(dashboard, "+", "+", "+", "+")
    before = marks(dashboard)
    area = box(dashboard)
    dashboard.page.mouse.move(area["x"] + 600, area["y"] + 80)
    dashboard.page.mouse.down()
    dashboard.page.mouse.move(area["x"] + 350, area["y"] + 80, steps=4)
    dashboard.page.mouse.up()
    assert marks(dashboard) != before
    panel(dashboard).get_by_role("button", name="timeline as a table", exact=True).click()
    assert panel(dashboard).locator("tr.wb-chosen").count() == 0


def test_a_double_click_zooms_to_the_span(dashboard: Dashboard) -> None:
    show(dashboard)
    whole = marks(dashboard)
    point = find(dashboard, lambda text: text.startswith("relu_grad"))
    dashboard.page.mouse.dblclick(*point)
    dashboard.settle()
    assert len(set(marks(dashboard)) & set(whole)) <= 1


def test_a_node_selected_elsewhere_is_brought_into_sight(dashboard: Dashboard) -> None:
    show(dashboard, devices=8, threads=2, layers=6)
    press(dashboard, *["+"] * 12)
    before = marks(dashboard)
    panel(dashboard).get_by_role("button", name="timeline as a table", exact=True).click()
    table = panel(dashboard).locator(".wb-timeline-table")
    table.get_by_role("button", name="start", exact=True).click()
    table.evaluate("element => { element.scrollTop = element.scrollHeight; }")
    table.locator("tr", has_text="sgd").filter(has_text="CPUPlace(7)").first.click()
    panel(dashboard).get_by_role("button", name="timeline as a table", exact=True).click()
    dashboard.page.wait_for_function("document.querySelector('.wb-timeline-scroll')?.scrollTop > 100", timeout=10_000)
    assert marks(dashboard) != before


def test_the_newest_step_is_followed(dashboard: Dashboard) -> None:
    show(dashboard)
    receive_sample(dashboard, 40)
    assert note(dashboard).startswith("step 40 took ")


def test_a_chosen_step_is_asked_for_and_stays(dashboard: Dashboard) -> None:
    show(dashboard)
    strip = dashboard.page.get_by_role("slider", name="step that is shown")
    strip.focus()
    dashboard.page.keyboard.press("Home")
    assert dashboard.sent("sample") == [{"type": "sample", "step": 10}]
    assert "waiting for the kernel" in strip.get_attribute("aria-valuetext")
    receive_sample(dashboard, 10)
    assert note(dashboard).startswith("step 10 took ")
    dashboard.synthetic("timeline", "samplesMessage", {"steps": [*STEPS, 40]})
    receive_sample(dashboard, 40)
    assert note(dashboard).startswith("step 10 took ")
    follow = panel(dashboard).get_by_role("button", name="follow")
    assert follow.get_attribute("aria-pressed") == "false"
    follow.click()
    assert note(dashboard).startswith("step 40 took ")
    assert follow.get_attribute("aria-pressed") == "true"


def test_a_click_on_a_bar_chooses_its_step(dashboard: Dashboard) -> None:
    show(dashboard)
    dashboard.page.locator(".wb-timeline-strip").click(position={"x": 20, "y": 20})
    assert dashboard.sent("sample") == [{"type": "sample", "step": 20}]


def test_the_table_is_sorted_by_duration_and_by_what_is_clicked(dashboard: Dashboard) -> None:
    show(dashboard, layers=20)
    panel(dashboard).get_by_role("button", name="timeline as a table", exact=True).click()
    table = dashboard.page.locator(".wb-timeline-table")
    assert table.locator("th[aria-sort=descending]").inner_text().startswith("duration")
    assert table.get_by_role("table").get_attribute("aria-rowcount") == "221"
    assert table.locator("tbody [data-row]").count() < 60
    table.get_by_role("button", name="op", exact=True).click()
    types = [re.sub(r"\d+", "", name) for name in table.locator("tbody [data-row] th").all_inner_texts()]
    assert types == sorted(types) and len(types) > 20
    table.evaluate("element => { element.scrollTop = element.scrollHeight; }")
    dashboard.settle()
    assert table.locator("tbody [data-row]").last.get_attribute("aria-rowindex") == "221"


def test_the_trace_is_asked_for(dashboard: Dashboard) -> None:
    show(dashboard)
    panel(dashboard).get_by_role("button", name="Chrome trace").click()
    (asked,) = dashboard.sent("trace")
    assert asked["type"] == "trace" and isinstance(asked["step"], int)
    assert isinstance(asked["request"], str)


def test_the_whole_drawing_is_saved_not_only_what_is_in_sight(dashboard: Dashboard) -> None:
    show(dashboard, devices=8, threads=3)
    with dashboard.page.expect_download() as download:
        panel(dashboard).get_by_role("button", name="SVG").click()
    text = download.value.path().read_text()
    height = int(re.search(r'height="(\d+)"', text)[1])
    assert height > dashboard.page.locator(CANVAS).evaluate("c => c.height")


MANY_SPANS = """async () => {
    const { Spans } = await import("/assets/src/timeline/spans.js");
    const { lanesOf } = await import("/assets/src/timeline/lanes.js");
    const { Picture } = await import("/assets/src/timeline/picture.js");
    const made = await import("/assets/fixtures/timeline.js");
    const many = { devices: 8, layers: LAYERS, fused: false };
    const spans = new Spans(made.decoded(made.sampleMessage(many)), made.decoded(made.graphMessage(many)));
    const picture = new Picture(() => {});
    document.querySelector(".wb-dashboard").append(picture.element);
    picture.show(spans, lanesOf(spans));
    picture.draw();
    window.many = { count: spans.count, picture };
}"""


@pytest.mark.parametrize(("layers", "spans", "most"), [(90, 5_000, 10_000), (900, 50_000, 30_000)])
def test_what_a_picture_takes_is_bounded_by_its_spans_and_by_its_pixels(
    dashboard: Dashboard, layers: int, spans: int, most: int
) -> None:
    """A rectangle or two for each that can be seen, letters where there is room, and measured once."""
    dashboard.canvas_calls(MANY_SPANS.replace("LAYERS", str(layers)))
    assert dashboard.page.evaluate("many.count") > spans
    calls = dashboard.canvas_calls("async () => { for (let i = 0; i < 9; i++) many.picture.later(); }")
    assert calls["clearRect"] == 1  # a picture for each frame, whoever asks
    assert calls["fillRect"] < most
    assert sum(calls.values()) - calls["fillRect"] < 200


def test_the_focus_stays_in_the_table_while_samples_come(dashboard: Dashboard) -> None:
    show(dashboard)
    panel(dashboard).get_by_role("button", name="timeline as a table", exact=True).click()
    table, focused = panel(dashboard).locator(".wb-timeline-table"), "e => e === document.activeElement"
    for held in (panel(dashboard).locator("[data-key=op]"), table):
        held.focus()
        for step in (40, 50):
            receive_sample(dashboard, step)
        assert held.evaluate(focused)
    dashboard.page.keyboard.press("ArrowDown")
    dashboard.page.keyboard.press("ArrowDown")
    dashboard.settle()
    assert table.locator("[data-row]").nth(1).get_attribute("aria-selected") == "true"


def test_following_a_finished_run_asks_for_its_newest_step(dashboard: Dashboard) -> None:
    show(dashboard)
    dashboard.page.get_by_role("slider", name="step that is shown").focus()
    dashboard.page.keyboard.press("Home")
    receive_sample(dashboard, 10)
    panel(dashboard).get_by_role("button", name="follow").click()
    assert dashboard.sent("sample")[-1] == {"type": "sample", "step": 30}
    assert note(dashboard).startswith("step 30 took ")
