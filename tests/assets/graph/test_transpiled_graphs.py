"""The graph panel in a browser: what parameter servers are sent, and what comes from them, is drawn apart."""

from collections.abc import Iterator
from typing import Any

import pytest

import workbench as wb
from tests.assets.conftest import packed
from tests.servers.trainer_programs import trainer_program
from workbench import fluid

pytestmark = pytest.mark.browser


@pytest.fixture
def transpiled() -> Iterator[fluid.Program]:
    """A trainer's program: a weight and a bias, one server."""
    wb.enable_static()
    yield trainer_program(4, 1, "127.0.0.1:6174")
    wb.disable_static()


def test_server_ops_have_a_lane_and_a_legend(dashboard: Any, transpiled: fluid.Program) -> None:
    dashboard.receive(packed(wb.ssa(transpiled).messages["graph"]))
    panel = dashboard.page.locator(".wb-graph")
    items = panel.locator(".wb-g-item.wb-g-server")
    assert items.count() == 6
    below = max(box["y"] for box in (one.bounding_box() for one in panel.locator(".wb-g-item.wb-g-backward").all()))
    assert all(one.bounding_box()["y"] > below for one in items.all())
    colors = {one.evaluate("box => getComputedStyle(box).stroke") for one in items.locator(".wb-g-box").all()}
    assert colors == {"rgb(176, 125, 0)"}
    assert "server 6" in panel.locator(".wb-g-legend").inner_text()
    assert panel.locator(".wb-g-legend").inner_text().count("127.0.0.1:6174") == 1


@pytest.fixture
def cut() -> Iterator[fluid.Program]:
    """A trainer's program: a weight in two blocks on two servers, a bias on one of them."""
    wb.enable_static()
    yield trainer_program(200, 90, ",".join(ENDPOINTS))
    wb.disable_static()


ENDPOINTS = ["127.0.0.1:6174", "127.0.0.1:6175"]
BANDS = ".wb-g-band:not(.wb-g-across)"


def rows(locator: Any) -> list[tuple[float, float]]:
    """Top and bottom of each, from the highest down."""
    boxes = sorted((one.bounding_box() for one in locator.all()), key=lambda box: box["y"])
    return [(box["y"], box["y"] + box["height"]) for box in boxes]


def test_every_server_is_a_band_with_its_own_ops(dashboard: Any, cut: fluid.Program) -> None:
    message = wb.ssa(cut).messages["graph"]
    dashboard.receive(packed(message))
    panel = dashboard.page.locator(".wb-graph")
    device, *servers = rows(panel.locator(BANDS))
    (among,) = rows(panel.locator(".wb-g-across"))
    assert len(servers) == 2 and device[1] < among[0] < among[1] < servers[0][0] < servers[0][1] < servers[1][0]
    met = [sorted(ENDPOINTS[s] for k, s in pairs(message) if k == n) for n in range(len(message["node"]["label"]))]
    drawn = panel.locator(".wb-g-item.wb-g-server")
    assert drawn.count() == sum(bool(names) for names in met)
    bands = []
    for item in drawn.all():
        top, height = (item.locator(".wb-g-box").bounding_box()[name] for name in ("y", "height"))
        inside = [band for band, (start, end) in enumerate([among, *servers]) if start <= top and top + height <= end]
        bands += [[ENDPOINTS, ENDPOINTS[:1], ENDPOINTS[1:]][band] for band in inside]
    assert sorted(bands) == sorted(names for names in met if names)


def pairs(message: dict[str, Any]) -> list[tuple[int, int]]:
    toward = message["toward"]
    return list(zip(toward["node"].tolist(), toward["server"].tolist()))


def test_what_is_pushed_and_pulled_stands_beside_a_server(dashboard: Any, cut: fluid.Program) -> None:
    message = wb.ssa(cut).messages["graph"]
    dashboard.receive(packed(message))
    panel = dashboard.page.locator(".wb-graph")
    legend, rail = panel.locator(".wb-g-legend"), panel.locator(".wb-g-rail")
    for name, pushed in zip(ENDPOINTS, message["servers"]["pushed"]):
        size = f"{pushed / 1024:.1f} KiB"
        assert f"{name} ↑ pushed {size}, ↓ pulled {size} a step" in legend.inner_text()
        assert name in rail.text_content(), "a name that is too long for one line stands in two"
        assert f"↑ {size}" in rail.text_content() and f"↓ {size}" in rail.text_content()
    assert "2 servers" in panel.inner_text() and "exchange" not in legend.inner_text()
    item = panel.locator(".wb-g-item.wb-g-server").first
    item.click()
    dashboard.settle()
    told = {"exchanges": [0, 2], "told_pushed": [0.0, 2001.0], "told_pulled": [0.0, 6000.0]}
    dashboard.receive(packed({**message, "servers": {**message["servers"], **told}}))
    assert f"{ENDPOINTS[1]} ↑ pushed" in legend.inner_text()
    assert "2 exchanges: pushed 2.0 KiB, pulled 5.9 KiB" in legend.inner_text()
    assert (
        ENDPOINTS[0] in panel.locator(".wb-g-details").inner_text()
        or ENDPOINTS[1] in panel.locator(".wb-g-details").inner_text()
    )


def test_the_names_of_several_servers_are_told_over_their_lane(dashboard: Any, cut: fluid.Program) -> None:
    dashboard.receive(packed(wb.ssa(cut).messages["graph"]))
    stage = dashboard.page.locator(".wb-graph .wb-g-stage")
    told = {}
    for text in stage.locator(".wb-g-rail text:visible").all():
        box = text.bounding_box()
        dashboard.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        told[text.text_content()] = stage.get_attribute("title")
    assert f"several servers: {', '.join(ENDPOINTS)}" in told.values(), told
    assert not told["forward"]


def test_a_graph_without_servers_after_one_with_them(dashboard: Any, cut: fluid.Program) -> None:
    message = wb.ssa(cut).messages["graph"]
    dashboard.receive(packed(message))
    panel = dashboard.page.locator(".wb-graph")
    assert panel.locator(BANDS).count() == 3
    without = {name: part for name, part in message.items() if name not in ("servers", "toward")}
    dashboard.receive(packed(without))
    assert panel.locator(BANDS).count() == 1 and "6174" not in panel.locator(".wb-g-legend").inner_text()
