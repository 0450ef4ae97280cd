"""What the panels save: pictures that say whose they are and what colours mean, and no files without a picture."""

import struct
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from tests.assets.conftest import Dashboard

pytestmark = pytest.mark.browser
NAMES = {
    "graph": "SSA graph",
    "feeds": "Feeds",
    "curves": "Curves",
    "scopes": "Memory and scopes",
    "timeline": "Timeline",
}
SVG = "{http://www.w3.org/2000/svg}"


def button(dashboard: Dashboard, panel: str, kind: str = "SVG") -> Any:
    return dashboard.page.get_by_role("button", name=f"save {NAMES[panel]} as {kind}", exact=True)


def saved(dashboard: Dashboard, panel: str, kind: str = "SVG") -> bytes:
    with dashboard.page.expect_download() as download:
        button(dashboard, panel, kind).click()
    return download.value.path().read_bytes()


def texts(dashboard: Dashboard, panel: str) -> list[str]:
    return ["".join(text.itertext()) for text in ET.fromstring(saved(dashboard, panel)).iter(f"{SVG}text")]


def show(dashboard: Dashboard) -> None:
    dashboard.synthetic("panels", "state")
    dashboard.synthetic("timeline", "everything", {"devices": 2})


def test_there_is_nothing_to_save_at_first(dashboard: Dashboard) -> None:
    for panel in NAMES:
        assert button(dashboard, panel).is_disabled() and button(dashboard, panel, "PNG").is_disabled()
    dashboard.receive({"type": "sample", "step": 7, "graph": None, "seconds": 0.001, "labels": []})
    assert button(dashboard, "timeline").is_disabled() and button(dashboard, "feeds").is_disabled()


@pytest.mark.parametrize("panel", ["graph", "timeline"])
def test_a_picture_says_whose_it_is_and_what_its_colours_mean(dashboard: Dashboard, panel: str) -> None:
    show(dashboard)
    said = texts(dashboard, panel)
    assert said[0].startswith(f"{NAMES[panel]}: digits")
    words = " ".join(said)
    assert all(kind in words for kind in ("forward", "backward", "optimize"))
    assert any(note in words for note in ("step 200 took ", "2 devices"))


def test_the_picture_of_the_curves_has_all_of_them(dashboard: Dashboard) -> None:
    dashboard.synthetic("panels", "runs", 3)
    said = texts(dashboard, "curves")
    assert said[0].startswith("Curves: digits")
    assert all(any(part in text for text in said) for part in ("lr 0.010 done", "lr 0.040 running"))
    titles = ["loss", "accuracy", "steps per second"]
    assert [text for text in said if text in titles] == titles
    dashboard.page.get_by_role("group", name="series").get_by_label("accuracy").uncheck()
    assert "accuracy" not in texts(dashboard, "curves")


def test_the_picture_of_the_feeds_has_bars_previews_and_rows(dashboard: Dashboard) -> None:
    dashboard.synthetic("panels", "all")
    said = texts(dashboard, "feeds")
    assert said[0].startswith("Feeds: digits")
    words = " ".join(said)
    for part in ("rows 0 to 31", "image on CPUPlace(1)", "weight on CPUPlace(0)", "rows per device", "step 120"):
        assert part in words


def test_the_picture_of_the_memory_names_the_devices(dashboard: Dashboard) -> None:
    dashboard.synthetic("panels", "state")
    dashboard.synthetic("timeline", "scopesMessage", {"devices": 2})
    said = texts(dashboard, "scopes")
    assert said[0].startswith("Memory and scopes: digits") and "CPUPlace(1)" in said


@pytest.mark.parametrize("panel", ["graph", "feeds", "timeline"])
def test_a_bitmap_is_as_large_as_the_picture(dashboard: Dashboard, panel: str) -> None:
    show(dashboard)
    data = saved(dashboard, panel, "PNG")
    assert data.startswith(b"\x89PNG")
    picture = ET.fromstring(saved(dashboard, panel))
    width, height = struct.unpack(">II", data[16:24])
    assert abs(width - float(picture.get("width", "0"))) <= 1 and height == int(picture.get("height", "0"))


def test_a_picture_that_the_browser_cannot_make_is_no_file(dashboard: Dashboard) -> None:
    show(dashboard)
    files: list[Any] = []
    dashboard.page.on("download", lambda download: files.append(download))
    dashboard.page.evaluate(
        "() => { HTMLCanvasElement.prototype.toBlob = (done) => { done(null); window.asked = true; }; }"
    )
    button(dashboard, "graph", "PNG").click()
    dashboard.page.wait_for_function("window.asked")
    dashboard.settle()
    assert files == []


def test_where_downloads_are_swallowed_the_kernel_writes_the_file(dashboard: Dashboard) -> None:
    show(dashboard)
    files: list[Any] = []
    dashboard.page.on("download", lambda download: files.append(download))
    dashboard.page.evaluate("document.documentElement.style.setProperty('--vscode-foreground', '#cccccc')")
    button(dashboard, "graph").click()
    button(dashboard, "graph", "PNG").click()
    dashboard.page.wait_for_function("window.sent.filter(({ type }) => type === 'keep').length === 2")
    picture, bitmap = dashboard.sent("keep")
    assert picture["name"] == "graph.svg" and ET.fromstring(picture["text"]).tag == f"{SVG}svg"
    assert bitmap["name"] == "graph.png" and "PNG" in bitmap["text"][:8]
    assert files == []


def test_a_frame_without_an_origin_may_swallow_downloads(dashboard: Dashboard) -> None:
    barred = """async (origin) => (await import("/assets/src/files.js")).isBarred(
        { origin, document, top, getComputedStyle: (element) => getComputedStyle(element) })"""
    assert dashboard.page.evaluate(barred, "null") and not dashboard.page.evaluate(barred, "http://127.0.0.1")


def test_a_frame_in_a_page_of_another_origin_may_swallow_downloads(dashboard: Dashboard, site: str) -> None:
    """As Colab shows outputs: sandboxed, with an origin of their own that is not that of the page."""
    is_barred = """async () => {
        const frame = document.body.appendChild(document.createElement("iframe"));
        frame.sandbox = "allow-scripts allow-same-origin";
        frame.src = FRAME;
        await new Promise((done) => (frame.onload = done));
        frame.className = "output";
    }"""
    for host, expected in (("localhost", True), ("127.0.0.1", False)):
        address = site.replace("127.0.0.1", host) + "/tests/assets/page.html"
        dashboard.page.evaluate(is_barred.replace("FRAME", repr(address)))
        output = dashboard.page.frames[-1]
        assert output.evaluate("async () => (await import('/assets/src/files.js')).isBarred()") is expected
        dashboard.page.evaluate("document.querySelector('iframe.output').remove()")
