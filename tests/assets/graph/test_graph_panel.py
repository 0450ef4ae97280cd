"""The graph panel in a browser: folding, search, selection, heat map, table, keys, what it draws of large graphs."""

from typing import Any

import pytest

pytestmark = pytest.mark.browser

SMALL = {"devices": 2, "layers": 1}
DEEP = {"devices": 4, "layers": 98}
REPEATED = '[data-group][aria-label^="fc_0 … fc_97 × 98,"]'


def show(dashboard: Any, name: str = "training", options: dict[str, Any] | None = None) -> Any:
    """Receives a made-up graph; the panel."""
    dashboard.synthetic("graph", "onWire", name, options or {})
    return dashboard.page.locator(".wb-graph")


def node(panel: Any, label: str) -> Any:
    return panel.locator(f'[data-node][aria-label^="{label},"]')


def test_without_a_graph_the_panel_says_what_will_be_there(dashboard: Any) -> None:
    assert "appears here" in dashboard.page.locator(".wb-graph").inner_text()


def test_nothing_one_device_and_eight_devices_are_drawn(dashboard: Any) -> None:
    panel = show(dashboard, "nothing")
    assert "0 nodes, 0 devices" in panel.inner_text()
    panel = show(dashboard, "inference")
    assert panel.locator("[data-node]").count() == 16
    panel = show(dashboard, "training", {"devices": 8, "layers": 2})
    assert "8 devices" in panel.locator(".wb-note").inner_text()


def test_counts_and_legend(dashboard: Any) -> None:
    panel = show(dashboard, options={"devices": 2, "layers": 3})
    assert panel.locator(".wb-note").inner_text() == "49 nodes, 3 collectives, 2 devices"
    legend = panel.locator(".wb-g-legend").inner_text()
    assert all(part in legend for part in ("forward 20", "backward 20", "optimize 6", "all_reduce 3"))


def test_repeated_layers_are_one_box_that_opens_and_closes(dashboard: Any) -> None:
    panel = show(dashboard, options=DEEP)
    folded = panel.locator("[data-group]")
    before = folded.count()
    assert before < 40
    panel.locator(REPEATED).first.click()
    dashboard.settle()
    assert panel.locator('[data-group][aria-label^="fc_97,"]').count() == 1
    panel.locator("[data-close]").first.press("Enter")
    dashboard.settle()
    assert panel.locator("[data-group]").count() == before


def test_open_groups_stay_open_when_a_graph_of_the_same_shape_comes(dashboard: Any) -> None:
    panel = show(dashboard, options=DEEP)
    panel.locator(REPEATED).first.click()
    dashboard.settle()
    opened = panel.locator("[data-group]").count()
    show(dashboard, options={**DEEP, "id": 5})
    assert panel.locator("[data-group]").count() == opened
    show(dashboard, options={**DEEP, "layers": 97})
    assert panel.locator("[data-group]").count() < opened


def test_search_counts_goes_to_hits_and_opens_what_hides_them(dashboard: Any) -> None:
    panel = show(dashboard, options={"devices": 2, "layers": 20})
    search = panel.get_by_role("searchbox")
    search.fill("relu fc_7.tmp")
    assert panel.locator(".wb-g-hits").inner_text() == "2 found"
    assert node(panel, "relu fc_7.tmp_2").count() == 0
    search.press("Enter")
    dashboard.settle()
    assert panel.locator(".wb-g-hits").inner_text() == "1 of 2"
    assert node(panel, "relu fc_7.tmp_2").count() == 1
    assert inside(node(panel, "relu fc_7.tmp_2"), panel.locator(".wb-g-stage"))
    search.press("Enter")
    search.press("Shift+Enter")
    assert panel.locator(".wb-g-hits").inner_text() == "1 of 2"
    assert panel.locator('.wb-g-item:not([opacity="1"])').count() > 5
    search.press("Escape")
    dashboard.settle()
    assert panel.locator('.wb-g-item:not([opacity="1"])').count() == 0
    assert panel.locator(".wb-g-hits").inner_text() == ""


def inside(inner: Any, outer: Any) -> bool:
    a, b = inner.bounding_box(), outer.bounding_box()
    beside = b["x"] <= a["x"] and a["x"] + a["width"] <= b["x"] + b["width"]
    return beside and b["y"] <= a["y"] and a["y"] + a["height"] <= b["y"] + b["height"]


def test_a_click_selects_and_asks_the_kernel(dashboard: Any) -> None:
    panel = show(dashboard, options=SMALL)
    node(panel, "relu fc_0.tmp_2").first.click()
    dashboard.settle()
    details = panel.locator(".wb-g-details")
    assert "fc_0.tmp_1" in details.inner_text()  # known before the kernel answers
    (question,) = dashboard.sent("node")
    assert question["node"] == 2 and question["graph"] == 1
    operand = {"device": "CPUPlace(0)", "version": 0, "shape": [4, 32], "dtype": "float32", "bytes": 512}
    dashboard.receive({
        "type": "node", "request": question["request"], "node": 2, "title": "relu fc_0.tmp_2", "op": "relu",
        "role": "Forward", "devices": ["CPUPlace(0)"], "site": "Cell In[2], line 3", "source": "x = relu(x)",
        "inputs": [{**operand, "name": "fc_0.tmp_1", "persistable": False}],
        "outputs": [{**operand, "name": "fc_0.tmp_2", "persistable": False}],
        "attrs": {"axis": "1"},
        "timing": {"calls": 3, "mean_us": 10, "max_us": 20, "last_us": 12, "thread": 1, "with": ["relu", "mul"]},
    })  # fmt: skip
    text = details.inner_text()
    assert all(
        part in text for part in ("x = relu(x)", "Cell In[2], line 3", "axis", "[4, 32]", "12.0 µs", "relu, mul")
    )
    details.get_by_role("button", name="fc_0.tmp_1").click()
    dashboard.settle()
    assert "elementwise_add fc_0.tmp_1" in details.locator("h4").inner_text()
    details.get_by_label("close the node panel").click()
    dashboard.settle()
    assert not details.is_visible()


def test_a_node_stays_selected_when_the_same_nodes_come_again(dashboard: Any) -> None:
    """As they do when a run begins, to whoever reads about a node just then; among others it is not the same one."""
    panel = show(dashboard, options=SMALL)
    details = panel.locator(".wb-g-details")
    node(panel, "mul fc_0.tmp_0").first.click()
    dashboard.settle()
    show(dashboard, options=SMALL)
    dashboard.settle()
    assert details.is_visible() and "mul fc_0.tmp_0" in details.locator("h4").inner_text()
    assert len(dashboard.sent("node")) == 2  # what is known of it may have changed
    show(dashboard, options={**SMALL, "devices": 1})
    dashboard.settle()
    assert not details.is_visible()


def test_statistics_are_asked_for_and_shown(dashboard: Any) -> None:
    panel = show(dashboard, options=SMALL)
    node(panel, "mul fc_0.tmp_0").first.click()
    dashboard.settle()
    panel.get_by_role("button", name="Value statistics").click()
    (question,) = dashboard.sent("statistics")
    value = {
        "name": "fc_0.tmp_0", "device": "CPUPlace(0)", "shape": [4, 32], "dtype": "float32", "mean": 0.5, "std": 0.1,
        "min": 0, "max": 1, "nan": 2, "inf": 1, "zeros": 7, "histogram": {"edges": [0, 0.5, 1], "counts": [3, 9]},
    }  # fmt: skip
    one = {**value, "name": "fc_0.tmp_1", "nan": 0}
    answer = {
        "type": "statistics",
        "request": question["request"],
        "error": None,
        "note": "of the last step",
        "values": [value, one],
    }
    dashboard.receive(answer)
    details = panel.locator(".wb-g-details")
    assert all(part in details.inner_text() for part in ("of the last step", "3 values are not finite", "2 / 1"))
    assert "1 value is not finite" in details.inner_text()
    assert "most between 0.5 and 1" in details.get_by_role("img").first.get_attribute("aria-label")
    panel.get_by_role("button", name="Value statistics").click()
    question = dashboard.sent("statistics")[-1]
    dashboard.receive({**answer, "request": question["request"], "values": [], "error": "its value is gone"})
    assert "its value is gone" in details.inner_text()


def test_what_another_panel_selects_is_shown_here(dashboard: Any) -> None:
    panel = show(dashboard, options={"devices": 2, "layers": 20})
    panel.get_by_role("button", name="table").click()
    panel.locator('[data-row="3"]').click()
    panel.get_by_role("button", name="table").click()
    dashboard.settle()
    chosen = panel.locator(".wb-g-selected")
    assert chosen.get_attribute("data-node") == "3"
    assert inside(chosen, panel.locator(".wb-g-stage"))


def test_heat_and_the_slowest_op(dashboard: Any) -> None:
    dashboard.synthetic("graph", "sampled", "training", SMALL)
    panel = dashboard.page.locator(".wb-graph")
    assert "slowest" not in panel.locator(".wb-note").inner_text()
    slowest = {"node": 3, "device": 0, "label": "mean mean_0.tmp_0", "us": 412, "steps": 12}
    dashboard.synthetic("graph", "sampled", "training", SMALL, {"slowest": slowest})
    words = "slowest: mean mean_0.tmp_0 on CPUPlace(0), 412 µs (median of 12 steps)"
    assert panel.locator(".wb-note").inner_text().endswith(words)
    panel.locator("select").select_option("time")
    dashboard.settle()
    assert "70.0 µs" in panel.locator(".wb-g-legend").inner_text()
    assert "color-mix" in node(panel, "mul fc_0.tmp_0").first.locator(".wb-g-box").last.get_attribute("style")
    assert "10.0 µs" in node(panel, "mul fc_0.tmp_0").first.text_content()
    panel.locator("select").select_option("none")
    dashboard.settle()
    assert not node(panel, "mul fc_0.tmp_0").first.locator(".wb-g-box").last.get_attribute("style")


def test_long_edges_are_hidden_until_asked_for(dashboard: Any) -> None:
    panel = show(dashboard, options=SMALL)
    hidden = panel.locator('.wb-g-lines [display="none"]')
    before = hidden.count()
    assert before > 0
    node(panel, "mul fc_0.tmp_0").first.click()
    dashboard.settle()
    assert panel.locator(".wb-g-near path").count() > 1
    panel.get_by_label("all edges").check()
    dashboard.settle()
    assert hidden.count() == 0


def test_table_sorts_and_keeps_few_rows(dashboard: Any) -> None:
    panel = show(dashboard, options=DEEP)
    panel.get_by_role("button", name="table").click()
    assert panel.locator("tbody [data-row]").count() < 60
    panel.get_by_role("button", name="bytes").click()
    assert panel.locator('th[aria-sort="descending"]').inner_text().startswith("bytes")
    sizes = panel.locator("tbody [data-row] td:nth-child(8)").all_inner_texts()
    assert set(sizes[:5]) == {"5.0 KiB"}
    panel.locator(".wb-g-table").evaluate("element => { element.scrollTop = 20000; }")
    dashboard.settle()
    assert int(panel.locator("tbody [data-row]").first.get_attribute("aria-rowindex")) > 700


def test_keys_walk_the_svg_and_select(dashboard: Any) -> None:
    panel = show(dashboard, options=SMALL)
    node(panel, "mul fc_0.tmp_0").first.focus()
    dashboard.page.keyboard.press("ArrowRight")
    dashboard.page.keyboard.press("ArrowRight")
    assert dashboard.page.evaluate("document.activeElement.getAttribute('data-node')") == "2"
    dashboard.page.keyboard.press("Enter")
    dashboard.settle()
    assert "relu" in panel.locator(".wb-g-details h4").inner_text()
    dashboard.page.keyboard.press("Escape")
    dashboard.settle()
    assert not panel.locator(".wb-g-details").is_visible()


def test_the_focus_stays_on_the_drawing_when_groups_open_and_close(dashboard: Any) -> None:
    panel = show(dashboard, options={"devices": 2, "layers": 20})
    keyboard, focused = dashboard.page.keyboard, "document.activeElement.getAttribute('aria-label')"
    panel.locator("[data-group]").first.focus()
    keyboard.press("Enter")
    dashboard.settle()
    assert dashboard.page.evaluate(focused).startswith("fc_0, 3 folded")
    keyboard.press("Enter")
    dashboard.settle()
    assert dashboard.page.evaluate(focused).startswith("mul fc_0.tmp_0")
    for title in ("fc_0", "fc_0 … fc_19 × 20"):
        keyboard.press("Backspace")
        dashboard.settle()
        assert dashboard.page.evaluate(focused).startswith(f"{title}, ")


def test_the_drawing_is_saved_as_it_is_seen(dashboard: Any) -> None:
    panel = show(dashboard, options=SMALL)
    with dashboard.page.expect_download() as download:
        panel.get_by_role("button", name="SVG").click()
    text = download.value.path().read_text()
    assert all(part in text for part in ("elementwise_add", "CPUPlace(1)", 'display="none"', "rgb(0, 114, 178)"))
    assert "color(srgb" not in text


def state_of(run: str) -> dict[str, Any]:
    """The message `state` of a run in that state."""
    devices = ["CPUPlace(0)", "CPUPlace(1)"]
    count = {"step": 1, "steps": 9, "seconds": 1, "rate": 1, "eta": 8, "last": {}}
    return {
        "type": "state",
        "subject": {"name": "mlp", "kind": "run", "devices": devices, "strategy": "AllReduce", "graph": 1},
        "run": {"id": "1", "name": "r", "state": run, "error": None, **count},
        "runs": [],
        "controls": {"values": {}, "choices": {}, "allowed": [], "busy": None},
        "notice": None,
    }


def test_running_nodes_are_outlined_while_a_run_runs(dashboard: Any) -> None:
    dashboard.synthetic("graph", "sampled", "training", SMALL)
    drawn = (
        "[...document.querySelector('.wb-g-overlay').getContext('2d').getImageData(0, 0, 1000, 400).data].some(Boolean)"
    )
    assert not dashboard.page.evaluate(drawn)
    dashboard.receive(state_of("running"))
    dashboard.page.wait_for_function(drawn, timeout=5000)
    dashboard.receive(state_of("paused"))
    assert not dashboard.page.evaluate(drawn)


def test_dark_and_narrow(dashboard: Any) -> None:
    panel = show(dashboard, options=SMALL)
    dashboard.dark()
    dashboard.width(600)
    node(panel, "relu fc_0.tmp_2").first.click()
    dashboard.settle()
    stage, details = panel.locator(".wb-g-stage").bounding_box(), panel.locator(".wb-g-details").bounding_box()
    assert details["y"] >= stage["y"] + stage["height"]
    assert dashboard.page.evaluate("document.documentElement.scrollWidth") <= 600


def sample_again(dashboard: Any, step: int, slower: int = 0) -> None:
    """The next sample of the graph that is shown; its first op takes longer."""
    dashboard.page.evaluate(
        """async ([options, step, slower]) => {
            const { sampled } = await import("/assets/fixtures/graph.js");
            const message = sampled("training", options, { step })[1];
            message.spans.end.$[0] += slower;
            receive(message);
        }""",
        [SMALL, step, slower],
    )
    dashboard.settle()


def test_the_focus_stays_in_the_legend_and_the_node_panel_while_samples_come(dashboard: Any) -> None:
    focused = "[document.activeElement.tagName, document.activeElement.textContent]"
    dashboard.synthetic("graph", "sampled", "training", SMALL)
    panel = dashboard.page.locator(".wb-graph")
    panel.locator("select").select_option("time")
    panel.locator(".wb-g-legend button").focus()
    for step in (2, 3):
        sample_again(dashboard, step, 100 * step)
    assert dashboard.page.evaluate(focused)[1].startswith("all_reduce")
    node(panel, "mul fc_0.tmp_0").first.click()
    dashboard.settle()
    details = panel.locator(".wb-g-details")
    link = details.get_by_role("button").nth(1)
    name = link.inner_text()
    link.focus()
    link.evaluate("button => { button.stays = true; }")
    for step in (4, 5):
        sample_again(dashboard, step, 100 * step)
    assert "510.0 µs" in details.inner_text() or "510 µs" in details.inner_text()
    assert dashboard.page.evaluate(focused) == ["BUTTON", name]
    assert dashboard.page.evaluate("document.activeElement.stays")


def test_a_node_is_asked_for_again_at_most_once_a_second_while_samples_come(dashboard: Any) -> None:
    dashboard.synthetic("graph", "sampled", "training", SMALL)
    panel = dashboard.page.locator(".wb-graph")
    node(panel, "mul fc_0.tmp_0").first.click()
    dashboard.settle()
    timing = {"calls": 3, "mean_us": 20, "max_us": 30, "last_us": 25, "thread": 0, "with": []}
    (question,) = dashboard.sent("node")
    dashboard.receive({"type": "node", "request": question["request"], "node": 0, "timing": timing})
    details = panel.locator(".wb-g-details")
    assert "25.0 µs" in details.inner_text()
    for step in range(2, 12):
        sample_again(dashboard, step)
    dashboard.page.wait_for_function("sent.filter(({ type }) => type === 'node').length === 2")
    question = dashboard.sent("node")[-1]
    dashboard.receive(
        {"type": "node", "request": question["request"], "node": 0, "timing": {**timing, "last_us": 44, "calls": 13}}
    )
    assert "44.0 µs" in details.inner_text() and "over 13 steps" in details.inner_text()
    assert len(dashboard.sent("node")) == 2


def test_letters_can_be_read_on_every_heat(dashboard: Any) -> None:
    dashboard.synthetic("graph", "sampled", "training", SMALL)
    panel = dashboard.page.locator(".wb-graph")
    panel.locator("select").select_option("time")
    for dark in (False, True):
        dashboard.dark(dark)
        dashboard.page.wait_for_timeout(400)
        worst = dashboard.page.evaluate(
            """async () => {
                const { contrast, rgb } = await import("/assets/src/draw/contrast.js");
                const parsed = (color) => {
                    const mixed = /^color\\(srgb ([^)]*)\\)$/.exec(color);
                    return mixed ? mixed[1].split(" ").slice(0, 3).map((part) => 255 * part) : rgb(color);
                };
                const items = [...document.querySelectorAll(".wb-g-item")];
                return Math.min(...items.flatMap((item) => {
                    const back = parsed(getComputedStyle(item.querySelector(".wb-g-box:not(.wb-g-under)")).fill);
                    const inks = [...item.querySelectorAll("text")].map((text) => getComputedStyle(text).fill);
                    return inks.map((ink) => contrast(parsed(ink), back));
                }));
            }"""
        )
        assert worst >= 4.5


def test_the_statistics_come_into_sight(dashboard: Any) -> None:
    panel = show(dashboard, options=SMALL)
    node(panel, "mul fc_0.tmp_0").first.click()
    dashboard.settle()
    details = panel.locator(".wb-g-details")
    details.evaluate("element => { element.style.maxHeight = '160px'; }")
    panel.get_by_role("button", name="Value statistics").focus()
    dashboard.page.keyboard.press("Enter")
    details.evaluate("element => { element.scrollTop = 0; }")
    (question,) = dashboard.sent("statistics")
    dashboard.receive(
        {"type": "statistics", "request": question["request"], "error": None, "note": "of step 7", "values": []}
    )
    assert inside(details.get_by_text("of step 7"), details)
